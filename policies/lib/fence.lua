---@meta
-- Printed by `moonfence policy meta`; a test compares them.

---A decision about a pod; made by fence.* inside of pod().
---@class Verdict

---A decision about a node; made by fence.* inside of node().
---@class NodeVerdict

---Something to read; made by fence.http, fence.get, fence.list and fence.try.
---@class Request

---What policy{} returns and the file has to return.
---@class Policy

---The policy's settings by name; a duration as its number of seconds.
---@class Settings
---@field [string] any

---{ status = 200, body = ... }: decoded JSON, read-only; null is nil. One to fence.try may be a failure: error is timeout, unreachable, status, unauthorized, not_json or too_large (else nil), message says it in words, since is for how many seconds the request has failed in a row, status is that of HTTP if there was one, code the service's own word if it is one of AWS; reading its body is an error.
---@class Answer
---@field status integer?
---@field body any
---@field error string?
---@field message string?
---@field since integer?
---@field code string?

---The JSON of an API object, read by :get(path).
---@class Raw
---@field get fun(self: Raw, ...: string): any

---The pod that is judged.
---@class Pod
---@field name string its name
---@field namespace string its namespace
---@field uid string its UID
---@field labels table<string, string> by key, nil for one it lacks
---@field annotations table<string, string> by key, nil for one it lacks
---@field phase string status.phase; stays Running on a dead node
---@field display_status string what kubectl get pods shows: Running, Terminating, CrashLoopBackOff, ...
---@field ready boolean its Ready condition
---@field reason string status.reason, "" without one
---@field node_name string the node it is bound to
---@field created_at? integer Unix seconds
---@field terminating boolean whether it is being deleted
---@field deletion_timestamp? integer when its grace period ends, not when the deletion was asked for; Unix seconds
---@field grace_period? integer seconds its deletion grants
---@field owner Owner its controller; a Deployment's pod has a ReplicaSet
---@field owners Owner[] all of its owner references
---@field priority integer spec.priority, 0 without one
---@field is_daemonset boolean whether a DaemonSet controls it
---@field is_static boolean whether it mirrors a file of the kubelet
---@field volumes Volume[] its claims that lead to a PersistentVolume; needs "volumes"
---@field claims Volume[] all of its claims; driver is "" for an unresolved one; needs "volumes"
---@field volume_kinds string[] the kinds in spec.volumes, sorted: configMap, persistentVolumeClaim, ...
---@field placement Placement where it could run instead; needs "placement"
---@field root_owner Owner the end of the chain of controllers; needs "root_owner"
---@field owner_chain Owner[] the chain: its controller, that one's controller, ...; it is followed through ReplicaSets and Jobs, and the last is root_owner; needs "root_owner"
---@field siblings Sibling[] pods that use one of its claims; needs "siblings"
---@field fetched table<string, Answer> the answers to what fetch asked for; needs "fetch"
---@field raw Raw the API object without managedFields: pod.raw:get('spec.nodeName')

---What owns a pod. Every field is "" when there is none.
---@class Owner
---@field kind string such as StatefulSet; "" when there is none
---@field name string its name
---@field uid string its UID
---@field api_version string such as apps/v1
---@field api_group string such as apps; "" of Kubernetes' core

---A claim of the pod on its way to PersistentVolume and attachment.
---@class Volume
---@field name string in the pod's spec.volumes
---@field claim string name of the PersistentVolumeClaim
---@field namespace string of the claim
---@field state "bound"|"unbound"|"claim_missing"|"volume_missing" how far the claim leads
---@field pv string name of the PersistentVolume; "" while not bound
---@field driver string CSI driver that attaches it; "" while not bound, and when none does
---@field handle string the driver's own name of the volume; "" of one that Kubernetes translates to CSI
---@field storage_class string name of the StorageClass
---@field provisioner string who made it, as the claim's annotation says; "" when none does
---@field access_modes string[] such as ReadWriteOnce
---@field attachment? string name of the VolumeAttachment to the pod's node

---Where the pod could run instead.
---@class Placement
---@field candidates string[] names of the nodes that can take the pod

---Another pod of the namespace that uses the same claim.
---@class Sibling
---@field name string its name
---@field uid string its UID
---@field node_name string "" while it is not scheduled
---@field claim string the claim both pods use
---@field phase string its status.phase
---@field ready boolean its Ready condition
---@field terminating boolean whether it is being deleted
---@field attach_error string message of its newest FailedAttachVolume event, "" without one

---The node that is down.
---@class Node
---@field name string its name
---@field uid string its UID
---@field labels table<string, string> by key, nil for one it lacks
---@field annotations table<string, string> by key, nil for one it lacks
---@field created_at? integer Unix seconds
---@field taints Taint[] of its spec
---@field conditions NodeCondition[] of its status, in the order there
---@field planned Planned what its lifecycle conditions say is planned for it
---@field addresses NodeAddress[] of its status, by the kubelet
---@field zone string its label topology.kubernetes.io/zone; "" when it has none
---@field region string its label topology.kubernetes.io/region; "" when it has none
---@field ready_status "true"|"false"|"unknown"|"missing"|"deleted" its Ready condition; deleted when the node is gone from the API
---@field not_ready_since? integer since when the engine has heard this Ready; Unix seconds by the API server's clock
---@field failures integer consecutive down observations
---@field provider_id string spec.providerID, such as metal3://…; "" when it has none
---@field system_uuid string status.nodeInfo.systemUUID, by the kubelet; "" when it has none
---@field machine_id string status.nodeInfo.machineID, by the kubelet; "" when it has none
---@field boot_id string status.nodeInfo.bootID, by the kubelet; "" when it has none
---@field unschedulable boolean whether it is cordoned
---@field lease_age? integer for how many seconds at least its kubelet has not renewed its Lease, by the engine's own clock; nil when it was not read
---@field machine "answers"|"unsure"|"silent"|"not_observable" what detection says of its machine; not_observable without detection. It is no evidence
---@field evidence Evidence what is known of it; to wait for some, demand `proof` with a verdict, which is looked at again when the call leaves
---@field exists boolean false: gone from the API, the rest is what this incident read last, empty when it read nothing
---@field fetched table<string, Answer> in node(): the answers to what node_fetch asked for; needs "node_fetch"
---@field raw Raw the API object without managedFields: node.raw:get('status.nodeInfo.kubeletVersion')

---A taint of a node.
---@class Taint
---@field key string such as node.kubernetes.io/unreachable
---@field value string "" when it has none
---@field effect string NoSchedule, PreferNoSchedule or NoExecute
---@field time_added? integer Unix seconds by the clock of whoever added it, if it says so

---A condition of a node.
---@class NodeCondition
---@field type string such as Ready or MemoryPressure
---@field status string True, False or Unknown
---@field reason string such as NodeStatusUnknown
---@field message string the same in words
---@field last_transition_time? integer since when it has this status; Unix seconds by the clock of whoever wrote it
---@field last_heartbeat_time? integer when it was last said; likewise

---What is planned for the node, by the lifecycle conditions of KEP-5683. Each is its condition while that is True, and nil otherwise. Whoever may write the node's status may write them: they are no evidence.
---@class Planned
---@field GracefulNodeShutdownInProgress? NodeCondition its kubelet is shutting it down
---@field DrainInProgress? NodeCondition somebody is moving its pods away
---@field Drained? NodeCondition its pods were moved away
---@field MaintenancePlanned? NodeCondition maintenance is to come
---@field MaintenanceInProgress? NodeCondition somebody works on its machine
---@field types string[] those of the five that are True
---@field unknown string[] those of the five that are Unknown

---An address of a node.
---@class NodeAddress
---@field type string such as InternalIP or Hostname
---@field address string the address itself

---The cluster as the engine believes it to be.
---@class Cluster
---@field now integer the API server's clock; Unix seconds
---@field nodes_total integer nodes there are
---@field nodes_ready integer nodes that are Ready
---@field nodes_schedulable integer nodes that are Ready and not cordoned
---@field tally Tally what this policy has come to in this incident so far

---What this policy has come to in this incident so far.
---@class Tally
---@field seen integer pods this policy was asked about
---@field deleted integer pods it had deleted
---@field held integer pods it made wait or forbade

---The argument of policy{}.
---@class PolicySpec
---@field api integer The version of the policy API: 1.
---@field name string [a-z][a-z0-9-]* of at most 40 letters; the file's name demands it.
---@field version string The policy's own semantic version, such as 1.0.0.
---@field summary string One line on what it does; at most 256 bytes.
---@field doc? string More, for people; at most 16 KiB.
---@field select? PolicySelect Which pods it is asked about; all of them without it.
---@field needs? ("volumes"|"placement"|"root_owner"|"siblings")[]|fun(s: Settings): string[] What it reads beside the pod's own object.
---@field settings? table<string, PolicySetting> What a binding may set, by name.
---@field trigger? PolicyTrigger|fun(s: Settings): PolicyTrigger When a node counts as down for it; the first observation without it.
---@field source? PolicySource|fun(s: Settings): PolicySource Where it learns itself which nodes are down, instead of from the Node.
---@field node? fun(node: Node, s: Settings, cluster: Cluster): NodeVerdict Judges the node before any of its pods is looked at.
---@field node_fetch? fun(node: Node, s: Settings, got: table<string, Answer>): table<string, Request>? Names what has to be read before node() is called; called again with the answers until it returns nil.
---@field fetch? fun(pod: Pod, s: Settings, got: table<string, Answer>): table<string, Request>? Names what has to be read for a pod; called again with the answers until it returns nil.
---@field pod fun(pod: Pod, s: Settings, cluster: Cluster, node: Node): Verdict Judges one pod of the node.

---The argument of fencer{}.
---@class FencerSpec
---@field api integer The version of the policy API: 1.
---@field name string [a-z][a-z0-9-]* of at most 40 letters; the file's name demands it.
---@field version string The fencer's own semantic version, such as 1.0.0.
---@field summary string One line on whom it asks; at most 256 bytes.
---@field doc? string More, for people; at most 16 KiB.
---@field settings? table<string, PolicySetting> What the engine's configuration may set, by name.
---@field plan fun(node: Node, s: Settings, got: table<string, Answer>): table<string, Request>? Names what has to be read about the machine; called again with the answers until it returns nil.
---@field state fun(node: Node, s: Settings, got: table<string, Answer>): "on"|"off"|"isolated"|"served"|"unknown"|"failed", string, { drivers: string[] }? What the answers say of the machine's power, and why; isolated with the CSI drivers whose storage refuses it, served where nothing refuses it. Only off and isolated are evidence: a state that is not known to mean it is unknown.
---@field off? fun(node: Node, s: Settings, got: table<string, Answer>): Request?, string? How the machine is switched off, when state has said on by these answers: a request of fence.post, fence.create or fence.annotate; or nil, and why it cannot be.
---@field isolate? fun(node: Node, s: Settings, got: table<string, Answer>): Request?, string|{ drivers: string[] } How the storage is told to refuse the machine, when state has said served or isolated by these answers: such a request and the CSI drivers whose storage that is; or nil, and why it cannot be. A fencer has off or isolate, not both.

---Which pods a policy is asked about.
---@class PolicySelect
---@field labels? string A label selector, such as app=web,tier in (a, b).

---One setting that a binding may set.
---@class PolicySetting
---@field type "string"|"integer"|"number"|"boolean"|"duration"|"enum"|"list" What a value of it is.
---@field default any The value when the binding sets none.
---@field min? number|string Of integer, number, duration: the smallest value.
---@field max? number|string Of integer, number, duration: the largest value.
---@field values? string[] Of enum: what it may be.
---@field of? "string"|"integer"|"number" Of list: the type of its items.
---@field doc? string One line for people; at most 1 KiB.
---@field clamp? boolean Moves a value out of range to the limit, with a notice; false.

---When a node counts as down.
---@class PolicyTrigger
---@field failures? integer Down observations before it acts; 1 to 1000, 1 acts at once.
---@field interval? string|number Between the observations; seconds or a text such as 30s.
---@field sweep? boolean Whether nodes that are down when the engine starts count; true.
---@field deleted? boolean Whether a node that is gone from the API counts as down; false.
---@field live_kubelet? boolean Whether Ready=False or missing counts as down while the kubelet's Lease lives; false.
---@field live_kernel? boolean Whether a node whose kubelet is dead counts as down while its machine answers; false.

---A policy's own source of node health.
---@class PolicySource
---@field every string|number How often it is asked; 1s to 1h.
---@field expiry string|number How long a node keeps its state unmentioned; at most 24h.
---@field plan fun(s: Settings, got: table<string, Answer>): table<string, Request>? Names what has to be read; called again with the answers until it returns nil.
---@field nodes fun(s: Settings, got: table<string, Answer>): table<string, "healthy"|"failed"|"unknown"> The state of each node by name.

---Options of fence.list.
---@class ListOptions
---@field labels? string A label selector: only objects that it selects; all of them without it.
---@field metadata? boolean Of each object its metadata alone, which is a fraction of it: no spec, no status; false.

---Options of fence.delete_pod.
---@class DeleteOptions
---@field fail? boolean Set the pod's phase to Failed before it is deleted, for Jobs that replace failed pods only; false.
---@field proof? ("silent"|"unreachable"|"isolated"|"off"|"attested")[] One of these has to be known of the node before anything is deleted; none.

---Options of fence.taint_out_of_service.
---@class ProofOptions
---@field proof? ("silent"|"unreachable"|"isolated"|"off"|"attested")[] One of these has to be known of the node before anything is deleted; none.

---Options of fence.delete_pod_and_attachments.
---@class ReleaseOptions
---@field fail? boolean Set the pod's phase to Failed before it is deleted, for Jobs that replace failed pods only; false.
---@field release? boolean Release the volumes to another node once every attachment is absent; false.
---@field proof? ("silent"|"unreachable"|"isolated"|"off"|"attested")[] One of these has to be known of the node before anything is deleted; none.

---Options of fence.delete_attachments.
---@class AttachmentOptions
---@field order? "attachments-first" Before the pod; the only order.
---@field wait? string|number How long the attachments may take; 60s, from 1s to 1h.
---@field on_timeout? "hold"|"delete" What becomes of the pod when they do not go in time; hold.
---@field proof? ("silent"|"unreachable"|"isolated"|"off"|"attested")[] One of these has to be known of the node before anything is deleted; none.

---@class fencelib
fence = {}

---@class loglib
log = {}

---@class mathlib
---@field huge number
---@field maxinteger number
---@field mininteger number
math = {}

---@class stringlib
string = {}

---@class tablelib
table = {}

---The name of the type of v.
---@param v any
---@return string
function type(v) end

---A text for v; never an address.
---@param v any
---@return string
function tostring(v) end

---The number v stands for, or nil.
---@param v any
---@param base? integer
---@return number?
function tonumber(v, base) end

---Walks a list in order.
---@param list any
---@return function, any, integer
function ipairs(list) end

---Walks a table; an input map in the order of its keys.
---@param t any
---@return function, any, any
function pairs(t) end

---The entry of t after key, or nil; order is not defined.
---@param t table
---@param key? any
---@return any, any
function next(t, key) end

---The arguments from the n-th on; '#' counts them.
---@param n integer|string
---@param ... any
---@return any
function select(n, ...) end

---Ends the evaluation; nothing is done to the pod.
---@param text string
---@param level? integer
function error(text, level) end

---Raises text when v is false or nil.
---@param v any
---@param text? string
---@return any
function assert(v, text) end

---Seconds of a text such as 1h30m.
---@param text string
---@return number
function duration(text) end

---Declares the policy; the file returns its result.
---@param declaration PolicySpec
---@return Policy
function policy(declaration) end

---Declares a fencer, in place of a policy.
---@param declaration FencerSpec
---@return Policy
function fencer(declaration) end

---The number of bytes of s.
---@param s string
---@return integer
function string.len(s) end

---Bytes i to j; negative counts from the end.
---@param s string
---@param i integer
---@param j? integer
---@return string
function string.sub(s, i, j) end

---s with ASCII letters in lower case.
---@param s string
---@return string
function string.lower(s) end

---s with ASCII letters in upper case.
---@param s string
---@return string
function string.upper(s) end

---%s %d %x %X %c %f %e %g and %%.
---@param f string
---@param ... any
---@return string
function string.format(f, ...) end

---Whether s begins so.
---@param s string
---@param prefix string
---@return boolean
function string.starts_with(s, prefix) end

---Whether s ends so.
---@param s string
---@param suffix string
---@return boolean
function string.ends_with(s, suffix) end

---Whether part stands in s.
---@param s string
---@param part string
---@return boolean
function string.contains(s, part) end

---* is any run of bytes, ? is one byte.
---@param s string
---@param pattern string
---@return boolean
function string.glob(s, pattern) end

---The list of parts of s.
---@param s string
---@param separator string
---@return string[]
function string.split(s, separator) end

---s without white space around it.
---@param s string
---@return string
function string.trim(s) end

---The i-th byte as a number, or nil.
---@param s string
---@param i? integer
---@return integer?
function string.byte(s, i) end

---Puts value at the end, or before the item at.
---@param list any[]
---@param at_or_value any
---@param value? any
function table.insert(list, at_or_value, value) end

---Takes the last item, or the one at.
---@param list any[]
---@param at? integer
---@return any
function table.remove(list, at) end

---The items joined to one text.
---@param list any[]
---@param separator? string
---@return string
function table.concat(list, separator) end

---Sorts in place; equal items stay.
---@param list any[]
---@param before? fun(a: any, b: any): boolean
function table.sort(list, before) end

---Whether value is an item.
---@param list any[]
---@param value any
---@return boolean
function table.contains(list, value) end

---The sorted list of keys.
---@param map any
---@return string[]
function table.keys(map) end

---The largest integer that is not above x.
---@param x number
---@return integer
function math.floor(x) end

---The smallest integer that is not below x.
---@param x number
---@return integer
function math.ceil(x) end

---The smallest argument.
---@param x number
---@param ... number
---@return number
function math.min(x, ...) end

---The largest argument.
---@param x number
---@param ... number
---@return number
function math.max(x, ...) end

---x without its sign.
---@param x number
---@return number
function math.abs(x) end

---x as an integer, or nil.
---@param x any
---@return integer?
function math.tointeger(x) end

---A line for the engine's log; 20 lines a call.
---@param text string
function log.info(text) end

---A warning for the engine's log; 20 lines a call.
---@param text string
function log.warn(text) end

---No reason to act on this pod.
---@param reason string
---@return Verdict
---@nodiscard
function fence.skip(reason) end

---Nobody may act on this pod; asked again every minute. The policy becomes a guard.
---@param reason string
---@return Verdict
---@nodiscard
function fence.forbid(reason) end

---Look again after 10 s, or 1 s to 1 h as given.
---@param reason string
---@param seconds? number
---@return Verdict
---@nodiscard
function fence.wait(reason, seconds) end

---Delete the pod with grace period 0 and a UID precondition.
---@param reason string
---@param options? DeleteOptions
---@return Verdict
---@nodiscard
function fence.delete_pod(reason, options) end

---Delete the pod; once it is gone, the attachments of these volumes, of all CSI volumes without them.
---@param reason string
---@param volumes? Volume[]|ReleaseOptions
---@param options? ReleaseOptions
---@return Verdict
---@nodiscard
function fence.delete_pod_and_attachments(reason, volumes, options) end

---Delete the attachments of these volumes while the pod is still there.
---@param reason string
---@param volumes Volume[]
---@param options? AttachmentOptions
---@return Verdict
---@nodiscard
function fence.delete_attachments(reason, volumes, options) end

---The node's pods may be judged.
---@param reason string
---@return NodeVerdict
---@nodiscard
function fence.proceed(reason) end

---Nobody may act for now on this pod, or in node() on the pods that the policy does not skip; ask again after 30 s, or 1 s to 1 h as given, which node() has to.
---@param reason string
---@param seconds? number
---@return Verdict|NodeVerdict
---@nodiscard
function fence.hold(reason, seconds) end

---Mark the node, so that Kubernetes evicts every pod of it; needs the binding's allow.
---@param reason string
---@param options? ProofOptions
---@return NodeVerdict
---@nodiscard
function fence.taint_out_of_service(reason, options) end

---A GET of an endpoint that the engine's configuration names. What follows the path are its further parts, and last a table with the query; each is escaped.
---@param endpoint string
---@param path string
---@param ... string|integer|table
---@return Request
---@nodiscard
function fence.http(endpoint, path, ...) end

---One object of the Kubernetes API that the engine's configuration allows; never a secret.
---@param apiVersion string
---@param resource string
---@param namespace string
---@param name string
---@return Request
---@nodiscard
function fence.get(apiVersion, resource, namespace, name) end

---All objects of one kind that the engine's configuration allows, of all namespaces without one or with "": body.items. Answered whole, at most 1000 objects and 512 KiB, or not at all.
---@param apiVersion string
---@param resource string
---@param namespace? string
---@param options? ListOptions
---@return Request
---@nodiscard
function fence.list(apiVersion, resource, namespace, options) end

---What switches a machine off, in off() of a fencer: a POST of a flat table as JSON. What follows it is as with fence.http.
---@param endpoint string
---@param path string
---@param body table
---@param ... string|integer|table
---@return Request
---@nodiscard
function fence.post(endpoint, path, body, ...) end

---What isolates a machine or switches it off, in isolate() or off() of a fencer: an object of a custom resource that the engine's configuration allows. It must have kind and metadata.name.
---@param apiVersion string
---@param resource string
---@param namespace string
---@param object table
---@return Request
---@nodiscard
function fence.create(apiVersion, resource, namespace, object) end

---The same by annotations that an object of such a kind gets.
---@param apiVersion string
---@param resource string
---@param namespace string
---@param name string
---@param uid string
---@param annotations table<string, string>
---@return Request
---@nodiscard
function fence.annotate(apiVersion, resource, namespace, name, uid, annotations) end

---The same request of fence.http, of which a failure is an answer too: it has error, message and since in place of a body. Without it nothing is judged while the request fails.
---@param request Request
---@return Request
---@nodiscard
function fence.try(request) end

---@class Fixture           what `fixture` returns
---@class Case              what `case` returns
---@class Tests             what `tests` returns and the file has to return

---One case of a test file; docs/policy-api.md lists its keys.
---@param case table
---@return Case
---@nodiscard
function case(case) end

---All cases of a test file. Settings, objects, responses and now hold for each of them.
---@param cases table
---@return Tests
---@nodiscard
function tests(cases) end

---Objects as `kubectl get -o json` prints them, from a file below the test's folder.
---@param file string
---@return Fixture
---@nodiscard
function fixture(file) end
