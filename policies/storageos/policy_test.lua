-- Labelled pods on node-1, fixtures as kubectl prints them, and answers as the StorageOS REST API v2 gives
-- them. SO-* are rows of docs/conformance.md.
local orders = fixture "testdata/orders.json"       -- dynamic claim, both annotations, attached
local three = fixture "testdata/three-volumes.json" -- data, wal, logs
local mixed = fixture "testdata/mixed.json"         -- data and logs here, scratch on EBS, attached too
local by_hand = fixture "testdata/by-hand.json"     -- namespace billing, no annotation; its handle is archive-2026

local nodes_path = "http storageos /v2/nodes"
local namespaces_path = "http storageos /v2/namespaces"
local shop_path = "http storageos /v2/namespaces/dc379e84-5e3c-4cb2-86f0-fdbb2c3df837/volumes"
local billing_path = "http storageos /v2/namespaces/7d2ff293-279d-44b1-8faf-151c8d0dfd24/volumes"
local fenced = 'pod.labels["storageos.com/fenced"]'

local function node(name, health, id)
  return { id = id or "id-of-" .. name, name = name, health = health, version = "NA", labels = {},
           capacity = { total = 1000, free = 900, available = 900 },
           ioEndpoint = "192.0.2.11:5703", supervisorEndpoint = "192.0.2.11:5704",
           gossipEndpoint = "192.0.2.11:5711", clusteringEndpoint = "192.0.2.11:5710",
           createdAt = "2026-10-01T00:00:00Z", updatedAt = "2026-11-20T10:00:20Z" }
end

local function volume(name, health)
  return { id = "id-of-" .. name, name = name, attachedOn = "id-of-node-1", fsType = "ext4",
           attachmentType = "host", sizeBytes = 21474836480, version = "NA",
           master = { id = "m", nodeID = "id-of-node-2", health = health, promotable = true },
           replicas = { { id = "r", nodeID = "id-of-node-1", health = "failed", promotable = false } } }
end

-- The health of each of shop's volumes; online unless it is named.
local function storage(health)
  local all = {
    data0 = "pvc-e31312fa-6550-4d0b-8b89-57a3e8f0fd3a",
    data1 = "pvc-34003d0c-872e-499b-8911-7dd8dfdaf9c3",
    wal1 = "pvc-be0a4bd0-9d7d-4b4a-8cf5-2349b57776ca",
    logs1 = "pvc-92c24349-90ca-4ee1-85f4-e44b04382fad",
    data2 = "pvc-83bce658-8cad-48d7-8b98-7fff2735543e",
    logs2 = "pvc-960a0bb6-d324-4f44-82bf-dcf6bf9ea785",
  }
  local volumes = {}
  for _, short in ipairs(table.keys(all)) do
    if health[short] ~= "absent" then
      table.insert(volumes, volume(all[short], health[short] or "online"))
    end
  end
  return {
    [namespaces_path] = { status = 200, body = {
      { id = "6d1f", name = "default", labels = {}, version = "NA" },
      { id = "dc379e84-5e3c-4cb2-86f0-fdbb2c3df837", name = "shop", labels = {}, version = "NA" },
      { id = "7d2ff293-279d-44b1-8faf-151c8d0dfd24", name = "billing", labels = {}, version = "NA" } } },
    [shop_path] = { status = 200, body = volumes },
    [billing_path] = { status = 200, body = { volume("archive-pv", "offline"), volume("archive-2026", "online") } },
  }
end

local healthy = storage {}
local both = "delete_pod_and_attachments"

return tests {
  responses = healthy,

  -- ---- which nodes ----
  case { name = "SO-19 SO-20 SO-21 offline alone is failed, whatever Kubernetes says",
         responses = { [nodes_path] = { status = 200, body = {
           node("node-1", "offline"), node("node-2", "online"), node("node-3", "unknown") } } },
         expect = { nodes = { ["node-1"] = "failed", ["node-2"] = "healthy", ["node-3"] = "unknown" } } },
  case { name = "SO-19 a word nobody knows is unknown",
         responses = { [nodes_path] = { status = 200, body = { node("node-1", "Offline") } } },
         expect = { nodes = { ["node-1"] = "unknown" } } },
  case { name = "SO-23 nothing while the API fails", responses = { [nodes_path] = { status = 503 } },
         expect = { outcome = "deferred" } },
  case { name = "SO-23 nothing while the login is refused", responses = { [nodes_path] = { status = 401 } },
         expect = { outcome = "deferred" } },
  case { name = "SO-23 an answer that is no list of nodes names none", responses = { [nodes_path] = { status = 404,
         body = { error = "not found" } } }, expect = { nodes = {} } },
  case { name = "two entries of a node that contradict each other say nothing",
         responses = { [nodes_path] = { status = 200, body = {
           node("node-1", "offline", "old"), node("node-1", "online", "new") } } },
         expect = { nodes = { ["node-1"] = "unknown" } } },
  case { name = "two entries that agree count", responses = { [nodes_path] = { status = 200, body = {
           node("node-1", "offline", "old"), node("node-1", "offline", "new") } } },
         expect = { nodes = { ["node-1"] = "failed" } } },
  case { name = "the endpoint is a setting", settings = { endpoint = "ondat" },
         responses = { ["http ondat /v2/nodes"] = { status = 200, body = { node("node-1", "offline") } } },
         expect = { nodes = { ["node-1"] = "failed" } } },

  -- ---- which pods ----
  case { name = "SO-01 a dynamic volume: the pod, then its attachment", objects = orders,
         expect = { verdict = both, volumes = { "data-orders-0" }, release = false,
                    reason = "~online without this node" } },
  case { name = "SO-02 SO-32 by hand: the driver of the volume, found by its handle", objects = by_hand,
         expect = { verdict = both, volumes = { "archive" } } },
  case { name = "SO-02 by hand: found by the name of the PersistentVolume", objects = by_hand,
         responses = { [billing_path] = { status = 200, body = { volume("archive-pv", "online") } },
                       [namespaces_path] = { status = 200, body = {
                         { id = "7d2ff293-279d-44b1-8faf-151c8d0dfd24", name = "billing" } } } },
         expect = { verdict = both, volumes = { "archive" } } },
  case { name = "SO-03 the newer annotation counts as well", objects = by_hand,
         patch = { ["pod.claims[1].provisioner"] = "csi.storageos.com", ["pod.claims[1].driver"] = "" },
         expect = { verdict = both, volumes = { "archive" } } },
  case { name = "SO-04 without the label it is not asked about", objects = orders, patch = { [fenced] = false },
         expect = { outcome = "not_selected" } },
  case { name = "SO-05 false", objects = orders, patch = { [fenced] = "false" },
         expect = { verdict = "skip", reason = "~says no" } },
  case { name = "SO-05 0", objects = orders, patch = { [fenced] = "0" },
         expect = { verdict = "skip", reason = "~says no" } },
  case { name = "SO-05 F", objects = orders, patch = { [fenced] = "F" },
         expect = { verdict = "skip", reason = "~says no" } },
  case { name = "SO-06 1", objects = orders, patch = { [fenced] = "1" }, expect = { verdict = both } },
  case { name = "SO-06 t", objects = orders, patch = { [fenced] = "t" }, expect = { verdict = both } },
  case { name = "SO-06 T", objects = orders, patch = { [fenced] = "T" }, expect = { verdict = both } },
  case { name = "SO-06 TRUE", objects = orders, patch = { [fenced] = "TRUE" }, expect = { verdict = both } },
  case { name = "SO-06 True", objects = orders, patch = { [fenced] = "True" }, expect = { verdict = both } },
  case { name = "SO-07 yes is neither", objects = orders, patch = { [fenced] = "yes" },
         expect = { verdict = "skip", reason = "~neither true nor false" } },
  case { name = "SO-07 tRUE is neither", objects = orders, patch = { [fenced] = "tRUE" },
         expect = { verdict = "skip", reason = "~neither true nor false" } },
  case { name = "SO-08 an annotation is no label", objects = orders,
         patch = { [fenced] = false, ['pod.annotations["storageos.com/fenced"]'] = "true" },
         expect = { outcome = "not_selected" } },
  case { name = "SO-09 without claims there is nothing to move", objects = orders,
         patch = { ["pod.raw.spec.volumes"] = false }, expect = { verdict = "skip", reason = "~no bound" } },
  case { name = "SO-10 a claim that is not bound is no volume", objects = orders,
         patch = { ["pod.claims[1].state"] = "unbound" }, expect = { verdict = "skip", reason = "~no bound" } },
  case { name = "SO-11 another provisioner, whatever the volume says", objects = orders,
         patch = { ["pod.claims[1].provisioner"] = "ebs.csi.aws.com" }, expect = { verdict = "skip" } },
  case { name = "SO-11 another provisioner and no volume", objects = orders,
         patch = { ["pod.claims[1].provisioner"] = "ebs.csi.aws.com", ["pod.claims[1].driver"] = "" },
         expect = { verdict = "skip" } },
  case { name = "SO-12 three healthy volumes: all attachments", objects = three,
         expect = { verdict = both, volumes = { "data-orders-1", "wal-orders-1", "logs-orders-1" } } },
  case { name = "SO-16 another driver's attachment stays", objects = mixed,
         expect = { verdict = both, volumes = { "data-orders-2", "logs-orders-2" } } },
  case { name = "SO-17 another driver's volume that is missing is no obstacle", objects = mixed,
         patch = { ["pod.claims[2].state"] = "volume_missing" },
         expect = { verdict = both, volumes = { "data-orders-2", "logs-orders-2" } } },
  case { name = "SO-18 a claim that does not exist is waited for", objects = orders,
         patch = { ["pod.claims[1].state"] = "claim_missing" },
         expect = { verdict = "wait", seconds = 5, reason = "~does not exist" } },
  case { name = "SO-18 volumes that cannot be read defer this pod alone", objects = orders,
         fail = { "volumes" }, expect = { outcome = "deferred" } },
  case { name = "SO-27 without an attachment the pod goes all the same", objects = orders,
         patch = { ["pod.claims[1].attachment"] = false },
         expect = { verdict = both, volumes = { "data-orders-0" } } },
  case { name = "SO-28 namespace shop", objects = orders, expect = { verdict = both } },
  case { name = "SO-28 namespace billing", objects = by_hand, expect = { verdict = both } },

  -- Nothing answers at this endpoint: who asks there fails the case.
  case { name = "a pod with a missing claim is not asked about", objects = three, settings = { endpoint = "nowhere" },
         patch = { ["pod.claims[2].state"] = "claim_missing" }, expect = { verdict = "wait" } },
  case { name = "a pod that says no is not asked about", objects = three, settings = { endpoint = "nowhere" },
         patch = { [fenced] = "no" }, expect = { verdict = "skip" } },
  case { name = "a pod without StorageOS volumes is not asked about", objects = orders,
         settings = { endpoint = "nowhere" }, patch = { ["pod.claims[1].state"] = "unbound" },
         expect = { verdict = "skip" } },

  -- ---- whether its volumes are well ----
  case { name = "SO-13 one master offline keeps all", objects = three, responses = storage { wal1 = "offline" },
         expect = { verdict = "wait", reason = "volume of claim wal-orders-1 is offline" } },
  case { name = "SO-13 one master unknown keeps all", objects = three, responses = storage { logs1 = "unknown" },
         expect = { verdict = "wait", reason = "volume of claim logs-orders-1 is unknown" } },
  case { name = "SO-14 a pod that is kept is looked at again after 5 s", objects = three,
         responses = storage { wal1 = "offline" }, expect = { verdict = "wait", seconds = 5 } },
  case { name = "SO-14 and goes when its volume is online", objects = three,
         responses = storage { wal1 = "online" }, expect = { verdict = both } },
  case { name = "SO-15 how soon it is looked at again is a setting", objects = three, settings = { recheck = "1m" },
         responses = storage { wal1 = "offline" }, expect = { verdict = "wait", seconds = 60 } },
  case { name = "a volume that StorageOS does not know is waited for", objects = orders,
         responses = storage { data0 = "absent" },
         expect = { verdict = "wait", reason = "~not known to StorageOS" } },
  case { name = "a namespace that StorageOS does not know is waited for", objects = orders,
         responses = { [namespaces_path] = { status = 200, body = { { id = "1", name = "Shop" } } } },
         expect = { verdict = "wait", reason = "~a namespace that StorageOS does not know" } },
  case { name = "a volume without a master is waited for", objects = orders,
         responses = { [namespaces_path] = healthy[namespaces_path], [shop_path] = { status = 200, body = {
           { id = "1", name = "pvc-e31312fa-6550-4d0b-8b89-57a3e8f0fd3a" } } } },
         expect = { verdict = "wait", reason = "~without a master" } },
  case { name = "a list of volumes that is gone is waited for", objects = orders,
         responses = { [namespaces_path] = healthy[namespaces_path], [shop_path] = { status = 404 } },
         expect = { verdict = "wait", reason = "~not known to StorageOS" } },
  case { name = "SO-24 nothing while the volumes cannot be read", objects = orders,
         responses = { [namespaces_path] = healthy[namespaces_path], [shop_path] = { status = 500 } },
         expect = { outcome = "deferred" } },
  case { name = "SO-24 nothing while the namespaces cannot be read", objects = orders,
         responses = { [namespaces_path] = { status = 429 } }, expect = { outcome = "deferred" } },
  case { name = "SO-24 nothing while fetch fails", objects = orders, fail = { "fetch" },
         expect = { outcome = "deferred" } },
}
