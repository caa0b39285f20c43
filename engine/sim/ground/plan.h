#pragma once

// Plan is a whole run written down: the cluster, the engine replicas, the policies, what happens
// when. A seed draws one (sim/draw.h), a scenario file spells one out (sim/scenarios/scenario.h);
// World lives it. Times count from the start of the run, when everything is running and settled.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "sim/ground/faults.h"

namespace moonfence::sim {

struct NodePlan {
  std::string name;
  std::string zone;
  bool control_plane = false;
  bool dedicated = false;  // a taint of its own keeps ordinary pods off
  bool cordoned = false;
  bool never_joined = false;  // there is an object, and no machine
  bool absent = false;        // there is neither, until it is healed: then it registers
  Duration dead{};            // its machine has been off for so long when the run begins
  int capacity = 110;         // pods
};

enum class WorkloadKind {
  StatefulSet,
  Deployment,  // by way of a ReplicaSet
  DaemonSet,   // a pod on each node
  Bare,        // a pod without a controller
  Mirror,      // a static pod's shadow
  Finished,    // a pod of a Job, Succeeded
};

struct WorkloadPlan {
  WorkloadKind kind = WorkloadKind::StatefulSet;
  std::string space = "noobaa";
  std::string name;
  int replicas = 1;
  std::map<std::string, std::string> labels;
  // StatefulSet: each pod has that many volumes of its own; else all pods share them.
  // ReadWriteOnce.
  int volumes = 0;
  // kOddDriver has handles that mean something to a URL, kInTreeDriver volumes of an old kind that
  // Kubernetes translates for kTranslatedDriver.
  std::string driver = "csi.example.com";
  std::string node;   // every pod there, for ever; "" lets the scheduler choose
  std::string start;  // every pod of the start there; those that follow go where they may
  Duration toleration = std::chrono::minutes(5);  // of not-ready and unreachable
  std::vector<std::string> finalizers;
  Duration stop_time{};  // its containers take that long to stop
  Duration grace = std::chrono::seconds(30);
  bool inline_volume = false;  // beside the others each pod has one that lives and dies with it
  // Bare: its owner is of that kind, which nobody here knows, and its controller or not.
  std::string owner;
  bool owner_controls = true;
};

inline constexpr std::string_view kFencedDriver = "csi.example.com";
inline constexpr std::string_view kOddDriver = "odd.example.com";
inline constexpr std::string_view kInTreeDriver = "kubernetes.io/aws-ebs";
inline constexpr std::string_view kTranslatedDriver = "ebs.csi.aws.com";

// A machine's management controller, which a fencer asks: how it is, and how it errs.
enum class BmcKind {
  Honest,
  Dead,      // connections are refused; with `takes` it is silent for so long
  Busy,      // 503
  Locked,    // 401
  Broken,    // says what is no JSON
  Refusing,  // an order is answered 409, and nothing happens
  Stubborn,  // an order is answered 204, and nothing happens
  Hanging,   // the same, and it says PoweringOff from then on
  Stuck,     // says On for ever
  Late,      // says On for a minute after the power has gone
  Lying,     // says Off for ever: no engine can know better
};

struct BmcPlan {
  std::string node;  // its endpoint is bmc-NODE
  BmcKind kind = BmcKind::Honest;
  std::string of = {};   // the machine that its cables lead to; "" that of the node
  Duration takes{};      // each of its answers
  Duration off_takes{};  // from an order until the power is gone
  // From then on until somebody switches the machine on, once; zero: nobody does.
  Duration on_again{};

  [[nodiscard]] const std::string& machine() const { return of.empty() ? node : of; }
};

// The storage behind a NetworkFenceClass: whether what is told to refuse a machine does.
enum class FenceKind {
  Honest,
  Dead,     // nobody carries a NetworkFence out: its status stays empty
  Failing,  // says Failed, and nothing happens
  Lying,    // says Succeeded, and nothing happens: no engine can know better
};

// A cluster of kFencedDriver, which has a share of that driver's volumes. It knows each machine
// under addresses of its own (sim/ground/refusals.h).
struct FenceClassPlan {
  std::string name;
  FenceKind kind = FenceKind::Honest;
  Duration takes{std::chrono::seconds(1)};  // from a NetworkFence until its result
  Duration lags{};                          // from then on until the last of its servers refuses
};

// What a person does about a machine that is back, and that its storage refuses: reboots it, and
// then lifts that.
enum class Lifting {
  Nobody,
  ByObject,   // as docs/proof.md says: Unfenced, and deleted when the message says so
  InStorage,  // by the storage's own command: the NetworkFence stands there as before
};

// The flags of the control plane, as their names say in Kubernetes.
struct Timings {
  Duration lease_renewal = std::chrono::seconds(10);
  Duration node_monitor_grace = std::chrono::seconds(40);
  Duration node_monitor_period = std::chrono::seconds(5);
  // --disable-force-detach-on-timeout and --disable-attach-detach-reconcile-sync: zero.
  Duration attach_detach_timeout = std::chrono::minutes(6);
  Duration attach_detach_resync = std::chrono::minutes(1);
  Duration attach{std::chrono::milliseconds(300)};
  Duration detach{std::chrono::milliseconds(300)};
  Duration container_start{std::chrono::milliseconds(500)};
  Duration boot{};  // of a machine, from its power until its kubelet
};

enum class Verb {
  // Machines. target: node
  PowerOff,       // everything on it stops at once
  PartitionNode,  // kubelet and containers run on, nothing reaches the API server
  StopKubelet,    // containers run on, heartbeats end
  Freeze,         // its processes stand still, its kernel answers; nothing of it is dead
  NotReady,       // the kubelet lives and posts Ready=False
  RemoveReady,    // the Ready condition is taken away
  MarkUnknown,    // a controller calls it Unknown by mistake, and its own status goes unheard
  RemoveLease,    // the Lease object; a kubelet that lives makes another
  Heal,           // whatever was done to it ends; a machine that was off boots
  DeleteNode,     // the Node object
  RecreateNode,   // deleted and registered again under another UID
  // Cluster. target: "space/name" of a pod or a workload, a server, or empty
  HoldNode,       // argument why: annotation moonfence.io/hold; "" takes it off. target: node
  HoldNamespace,  // the same; target: namespace
  HoldPod,
  // As `moonfence attest NODE --off` or, with `withdraw`, --withdraw. target: node
  Attest,
  // A person's NetworkFences, one for each class, of the addresses that are told. target: node
  Isolate,
  AnnotateNode,  // arguments key and value; "" takes it off. target: node
  LabelNode,     // the same
  ReplacePod,    // force-deleted from outside; its controller makes another
  DeletePod,     // as kubectl delete does it: somebody asks it to go
  FailPod,       // its phase is Failed, as a kubelet says that shuts its machine down
  AddFinalizer,  // argument finalizer
  RemoveFinalizer,
  Scale,           // argument replicas
  EditPolicies,    // argument moonfence.yaml (and others): the ConfigMap's data; "" deletes the key
  DeletePolicies,  // the ConfigMap
  RestartServer,   // target "api-0"; argument for: how long it is away
  Compact,         // the history of every server
  Outage,          // every server is away; argument for
  SnapshotStore,   // what RestoreStore goes back to, as an etcd is saved
  RestoreStore,    // the whole store is as it was at the last snapshot; argument for: every server
                   // is away meanwhile
  HushWatches,     // every server; target: of what; argument for. Their streams say no more
  RefuseWrites,    // every server; target: of what, arguments how and for
                   // (sim/server/write_refusals.h)
  HideObjects,     // every server; target: which, arguments for and times
                   // (sim/server/hidden_objects.h)
  SlowServers,     // every server; target: to what, arguments by and for (sim/net/slow_calls.h)
  StepServerClock,     // the control plane's wall clocks; argument by, may be negative
  StepNodeClock,       // target: node. Its wall clock; argument by, may be negative
  RestartControllers,  // kube-controller-manager; argument for: how long it is away
  // Storage. argument for: how long; for ever, until all is calm, when it is not said
  StopAttacher,  // external-attacher is down
  RefuseAttach,  // target: node. The storage system does not publish to it
  RefuseDetach,  // nor unpublish from it
  // An administrator in a hurry. target: node
  DeleteAttachments,  // the VolumeAttachments of the node
  ReleaseVolumes,     // its volumesInUse
  TaintOutOfService,  // node.kubernetes.io/out-of-service
  // Engine. target: replica
  CrashEngine,      // argument for: how long until it starts again
  StopEngine,       // SIGTERM, then started again
  PauseEngine,      // SIGSTOP; argument for
  PartitionEngine,  // argument for
  CutLink,    // target: node; arguments from (a replica) and for. It does not hear the machine
  StepClock,  // the replica's wall clock; argument by, may be negative ("-5s")
  Calm,       // all faults end
};

struct Step {
  Duration at{};
  Verb verb = Verb::PowerOff;
  std::string target;
  std::map<std::string, std::string> arguments;
};

// Zero when it has none of that name; "-5s" is negative.
[[nodiscard]] Duration duration_argument(const Step& step, const std::string& name);

struct Plan {
  std::string name;
  std::vector<NodePlan> nodes;
  std::vector<WorkloadPlan> workloads;
  std::vector<BmcPlan> bmcs;
  std::vector<FenceClassPlan> fence_classes;  // empty: there is no CSI-Addons
  Lifting lifting = Lifting::Nobody;
  int engines = 1;
  // On which node each sits, as it is told; none beyond those named. Their containers live on
  // whatever becomes of the node.
  std::vector<std::string> seats;
  int servers = 1;
  // The minor version of the control plane, 1.x, where versions differ: how volumes are attached
  // and detached (sim/controllers/attach_detach.cc). The contract tests compare with this one.
  int kubernetes = 20;
  Timings timings;
  Faults faults;
  std::map<std::string, std::string> policies;  // data of ConfigMap moonfence-policies
  std::map<std::string, std::string> settings;  // of the engine's --config: cache-expiry …
  std::string config;                           // the text of --config; `settings` go on top
  std::string
      responses;  // what endpoints answer, and unknown kinds (app/simulate/endpoint_script.h)
  std::vector<Step> steps;  // in the order of time
  Duration length = std::chrono::seconds(120);
};

// Of the settings: what is demanded of pods with volumes of kFencedDriver. "" where that is only
// what is looked at.
inline constexpr std::string_view kVolumeProofWord = "volume-proof";

// Of the settings, on or off: whether the engine asks machines' kernels.
inline constexpr std::string_view kDetectionWord = "detection";
[[nodiscard]] bool detects(const Plan& plan);

// By `set proof`: that evidence is among what has to be there before anything is deleted.
[[nodiscard]] bool demands(const Plan& plan, std::string_view evidence);
// By `set volume-proof`: the same of pods and attachments with volumes of kFencedDriver.
[[nodiscard]] bool demands_of_volumes(const Plan& plan, std::string_view evidence);
// By `config`: some fencer may switch machines off.
[[nodiscard]] bool switches_off(const Plan& plan);
// Or have machines isolated.
[[nodiscard]] bool isolates(const Plan& plan);
// Null: it has none.
[[nodiscard]] const BmcPlan* bmc_of(const Plan& plan, std::string_view node);

}  // namespace moonfence::sim
