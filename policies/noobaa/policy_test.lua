-- Pods of NooBaa on node-1. NB-* are rows of docs/conformance.md.
local database = fixture "testdata/database.json" -- noobaa-db-pg-0 with a CSI volume; its node is Unknown

local agent = fixture "testdata/agent.json" -- of a BackingStore that does not say it is the controller

local function pod(name)
  return {
    kind = "Pod",
    metadata = { name = name, namespace = "noobaa", uid = "pod-uid", labels = { app = "noobaa" } },
    spec = { nodeName = "node-1" },
    status = { phase = "Running" },
  }
end

local moved = { db = "pod-and-attachments" }

return tests {
  case { name = "NB-01 the core pod is deleted", objects = pod("noobaa-core-0"),
         patch = { ["node.ready_status"] = "false" },
         expect = { verdict = "delete_pod", reason = "NooBaa pod on a node that is not Ready",
                    reads = { "pod.name" } } },
  case { name = "NB-01 an endpoint's pod is deleted", objects = pod("noobaa-endpoint-5d7"),
         patch = { ["node.ready_status"] = "false" }, expect = { verdict = "delete_pod" } },
  case { name = "NB-02 of a node that is Unknown as well", objects = pod("noobaa-core-0"),
         patch = { ["node.ready_status"] = "unknown" }, expect = { verdict = "delete_pod" } },
  case { name = "NB-03 of a node without a Ready condition as well", objects = pod("noobaa-core-0"),
         patch = { ["node.ready_status"] = "missing" }, expect = { verdict = "delete_pod" } },
  case { name = "NB-05 the label is exact", objects = pod("noobaa-core-0"),
         patch = { ["pod.labels.app"] = "NooBaa" }, expect = { outcome = "not_selected" } },
  case { name = "NB-05 without the label it is not asked about", objects = pod("noobaa-core-0"),
         patch = { ["pod.labels.app"] = false }, expect = { outcome = "not_selected" } },
  case { name = "NB-07 a StatefulSet's database pod is left alone", objects = pod("noobaa-db-pg-0"),
         expect = { verdict = "skip", reason = "~two databases on one volume", reads = { "settings.db" } } },
  case { name = "NB-07 an operator's database pod is left alone", objects = pod("noobaa-db-pg-cluster-1"),
         expect = { verdict = "skip" } },
  case { name = "NB-07 the connection pool is no database", objects = pod("noobaa-db-pgbouncer-0"),
         expect = { verdict = "delete_pod" } },
  case { name = "NB-08 db = pod deletes a StatefulSet's database pod too", objects = pod("noobaa-db-pg-0"),
         settings = { db = "pod" }, expect = { verdict = "delete_pod" } },
  case { name = "NB-08 db = pod deletes an operator's database pod too", objects = pod("noobaa-db-pg-cluster-1"),
         settings = { db = "pod" }, expect = { verdict = "delete_pod" } },

  case { name = "NB-17 db = pod-and-attachments deletes the pod, then its attachment", objects = database,
         settings = moved, expect = { verdict = "delete_pod_and_attachments",
                                      volumes = { "db-noobaa-db-pg-0" }, release = false } },
  case { name = "NB-17 neither without the setting", objects = database,
         expect = { verdict = "skip", reason = "~two databases on one volume" } },
  case { name = "NB-17 not while the kubelet may still live", objects = database, settings = moved,
         patch = { ["node.ready_status"] = "false" },
         expect = { verdict = "wait", reason = "~its kubelet may still run it" } },
  case { name = "NB-17 not while its volume cannot be found", objects = database, settings = moved,
         patch = { ["pod.claims[1].state"] = "volume_missing" },
         expect = { verdict = "wait", reason = "~volume_missing" } },
  case { name = "NB-17 not when its volume is no CSI volume", objects = database, settings = moved,
         patch = { ["pod.claims[1].driver"] = "" }, expect = { verdict = "skip", reason = "~no CSI volume" } },
  case { name = "NB-17 not without a volume", objects = database, settings = moved,
         patch = { ["pod.raw.spec.volumes"] = false },
         expect = { verdict = "skip", reason = "~without a volume" } },
  case { name = "NB-17 the other pods go as ever", objects = { pod("noobaa-core-0") }, settings = moved,
         expect = { verdict = "delete_pod" } },
  case { name = "NB-17 volumes that cannot be read defer", objects = database, settings = moved,
         fail = { "volumes" }, expect = { outcome = "deferred" } },
  case { name = "NB-08 db = pod asks for no volumes", objects = database, settings = { db = "pod" },
         expect = { verdict = "delete_pod" } },

  case { name = "an agent of a backing store goes like the others", objects = agent,
         expect = { verdict = "delete_pod" } },
  case { name = "agents = pod deletes it", objects = agent, settings = { agents = "pod" },
         expect = { verdict = "delete_pod" } },
  case { name = "agents = skip leaves it alone", objects = agent, settings = { agents = "skip" },
         expect = { verdict = "skip", reason = "~its objects are on its volume" } },
  case { name = "agents = pod-and-attachments moves it with its volume", objects = agent,
         settings = { agents = "pod-and-attachments" },
         expect = { verdict = "delete_pod_and_attachments", volumes = { "db-noobaa-db-pg-0" } } },
  case { name = "an agent is known by its owner too", objects = agent, patch = { ["pod.name"] = "store-1" },
         settings = { agents = "pod-and-attachments" },
         expect = { verdict = "delete_pod_and_attachments" } },
  case { name = "agents = pod-and-attachments waits for a silent kubelet", objects = agent,
         settings = { agents = "pod-and-attachments" }, patch = { ["node.ready_status"] = "false" },
         expect = { verdict = "wait", reason = "~its kubelet may still run it" } },
  case { name = "agents = pod-and-attachments leaves the core pod to the ordinary rule",
         objects = pod("noobaa-core-0"), settings = { agents = "pod-and-attachments" },
         expect = { verdict = "delete_pod" } },
}
