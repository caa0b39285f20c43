-- Terminating pods on node-1, which is down, with node-2 beside it; fixtures as kubectl prints them. That
-- three probes are waited for is the engine's part. IO-* are rows of docs/conformance.md.
local nodes = fixture "testdata/nodes.json"
local statefulset = fixture "testdata/statefulset.json" -- with configMap, secret, emptyDir and projected volumes
local deployment = fixture "testdata/deployment.json"
local mixed = fixture "testdata/mixed.json"             -- an EBS volume beside
local ephemeral = fixture "testdata/ephemeral.json"     -- its claim is a generic ephemeral volume
local hostpath = fixture "testdata/hostpath.json"
local inline = fixture "testdata/inline.json"           -- a volume of the secrets store and an image

local both = "delete-both-statefulset-and-deployment-pod"
local node_2 = {
  kind = "Node", metadata = { name = "node-2", labels = { ["kubernetes.io/hostname"] = "node-2" } },
  spec = { taints = { { key = "dedicated", value = "db", effect = "NoSchedule" } } },
  status = { conditions = { { type = "Ready", status = "True" } } },
}

local function node_2_with(spec, ready)
  return { kind = "Node", metadata = node_2.metadata, spec = spec,
           status = { conditions = { { type = "Ready", status = ready or "True" } } } }
end

return tests {
  settings = { pod_delete_policy = both },

  -- ---- whose pods ----
  case { name = "IO-01 nothing by default", objects = { statefulset, nodes },
         settings = { pod_delete_policy = "no-delete-pod" },
         expect = { verdict = "skip", reason = "~no-delete-pod" } },
  case { name = "IO-02 a terminating StatefulSet's pod is deleted, its attachments are not",
         objects = { statefulset, nodes }, expect = { verdict = "delete_pod" } },
  case { name = "IO-16 delete-deployment-pod keeps a StatefulSet's pod", objects = { statefulset, nodes },
         settings = { pod_delete_policy = "delete-deployment-pod" }, expect = { verdict = "skip" } },
  case { name = "IO-16 delete-deployment-pod deletes a Deployment's pod", objects = { deployment, nodes },
         settings = { pod_delete_policy = "delete-deployment-pod" }, expect = { verdict = "delete_pod" } },
  case { name = "IO-17 delete-statefulset-pod deletes a StatefulSet's pod", objects = { statefulset, nodes },
         settings = { pod_delete_policy = "delete-statefulset-pod" }, expect = { verdict = "delete_pod" } },
  case { name = "IO-17 delete-statefulset-pod keeps a Deployment's pod", objects = { deployment, nodes },
         settings = { pod_delete_policy = "delete-statefulset-pod" }, expect = { verdict = "skip" } },
  case { name = "IO-17 delete-statefulset-pod keeps a Job's pod", objects = { statefulset, nodes },
         settings = { pod_delete_policy = "delete-statefulset-pod" }, patch = { ["pod.owner.kind"] = "Job" },
         expect = { verdict = "skip" } },
  case { name = "kinds are case-exact", objects = { statefulset, nodes },
         patch = { ["pod.owner.kind"] = "statefulSet" }, expect = { verdict = "skip" } },

  -- ---- its state ----
  case { name = "IO-05 a pod that is Running is kept", objects = { statefulset, nodes },
         patch = { ["pod.deletion_timestamp"] = false },
         expect = { verdict = "wait", reason = "~counts as Running" } },
  case { name = "IO-06 and looked at again at the next probe", objects = { statefulset, nodes },
         patch = { ["pod.deletion_timestamp"] = false }, expect = { verdict = "wait", seconds = 30 } },
  case { name = "IO-06 which is a setting", objects = { statefulset, nodes },
         settings = { pod_delete_policy = both, probe_interval = "10s" },
         patch = { ["pod.deletion_timestamp"] = false }, expect = { verdict = "wait", seconds = 10 } },
  case { name = "IO-07 a Pending pod is deleted", objects = { statefulset, nodes },
         patch = { ["pod.deletion_timestamp"] = false, ["pod.phase"] = "Pending" },
         expect = { verdict = "delete_pod" } },
  case { name = "IO-07 an Unknown pod is deleted", objects = { statefulset, nodes },
         patch = { ["pod.deletion_timestamp"] = false, ["pod.phase"] = "Unknown" },
         expect = { verdict = "delete_pod" } },
  case { name = "a finished pod is left", objects = { statefulset, nodes },
         patch = { ["pod.deletion_timestamp"] = false, ["pod.phase"] = "Succeeded" },
         expect = { verdict = "skip", reason = "~nothing to move" } },
  case { name = "one that failed while it was terminating holds its name, and goes", objects = { statefulset, nodes },
         patch = { ["pod.phase"] = "Failed" }, expect = { verdict = "delete_pod" } },
  case { name = "a failed pod is left", objects = { statefulset, nodes },
         patch = { ["pod.deletion_timestamp"] = false, ["pod.phase"] = "Failed" },
         expect = { verdict = "skip", reason = "~nothing to move" } },

  -- ---- its volumes ----
  case { name = "IO-08 a volume of another driver beside keeps it", objects = { mixed, nodes },
         expect = { verdict = "skip", reason = "~scratch-orders-2 is not IOMesh's" } },
  case { name = "IO-09 without a claim it is kept", objects = { statefulset, nodes },
         patch = { ["pod.raw.spec.volumes"] = false }, expect = { verdict = "skip", reason = "it has no claim" } },
  case { name = "IO-10 configMap, secret, projected and emptyDir do not count", objects = { statefulset, nodes },
         expect = { verdict = "delete_pod", reads = { "pod.volume_kinds[1]" } } },
  case { name = "IO-10 a generic ephemeral volume of IOMesh counts as a claim", objects = { ephemeral, nodes },
         expect = { verdict = "delete_pod" } },
  case { name = "a volume of the secrets store and an image hold nothing", objects = { inline, nodes },
         expect = { verdict = "delete_pod" } },
  case { name = "IO-11 a hostPath keeps it", objects = { hostpath, nodes },
         expect = { verdict = "skip", reason = "it has a volume of kind hostPath" } },
  case { name = "IO-11 unless other volumes are ignored", objects = { hostpath, nodes },
         settings = { pod_delete_policy = both, other_volumes = "ignore" }, expect = { verdict = "delete_pod" } },
  case { name = "IO-18 a shared volume keeps it", objects = { statefulset, nodes },
         patch = { ["pod.claims[1].access_modes"] = { "ReadWriteOnce", "ReadWriteMany" } },
         expect = { verdict = "skip", reason = "~several nodes" } },
  case { name = "IO-18 unless shared volumes are allowed", objects = { statefulset, nodes },
         settings = { pod_delete_policy = both, shared_volumes = true },
         patch = { ["pod.claims[1].access_modes"] = { "ReadWriteMany" } }, expect = { verdict = "delete_pod" } },
  case { name = "ReadWriteOncePod is no shared volume", objects = { statefulset, nodes },
         patch = { ["pod.claims[1].access_modes"] = { "ReadWriteOncePod" } }, expect = { verdict = "delete_pod" } },
  case { name = "IO-21 a local volume of IOMesh keeps it", objects = { statefulset, nodes },
         patch = { ["pod.claims[1].driver"] = "com.iomesh.iomesh-localpv-manager" },
         expect = { verdict = "skip" } },
  case { name = "another driver's name is a setting", objects = { statefulset, nodes },
         settings = { pod_delete_policy = both, driver = "com.smartx.csi-driver" },
         patch = { ["pod.claims[1].driver"] = "com.smartx.csi-driver" }, expect = { verdict = "delete_pod" } },
  case { name = "a claim that leads nowhere is waited for", objects = { statefulset, nodes },
         patch = { ["pod.claims[1].state"] = "volume_missing" },
         expect = { verdict = "wait", seconds = 30, reason = "~volume_missing" } },

  -- ---- where it could go ----
  case { name = "IO-12 no other node is Ready", objects = { statefulset, node_2_with({}, "False") },
         expect = { verdict = "wait", reason = "no other node can take it", seconds = 30 } },
  case { name = "IO-13 the other node has a taint it does not tolerate", objects = { statefulset, node_2 },
         expect = { verdict = "wait", reason = "no other node can take it" } },
  case { name = "IO-13 the other node has a taint that it tolerates", objects = { statefulset, node_2 },
         patch = { ["pod.raw.spec.tolerations"] = {
           { key = "dedicated", operator = "Equal", value = "db", effect = "NoSchedule" } } },
         expect = { verdict = "delete_pod" } },
  case { name = "IO-14 its nodeSelector fits the dead node alone", objects = { statefulset, nodes },
         patch = { ["pod.raw.spec.nodeSelector"] = { ["kubernetes.io/hostname"] = "node-1" } },
         expect = { verdict = "wait" } },
  case { name = "IO-14 its affinity fits the dead node alone", objects = { statefulset, nodes },
         patch = { ["pod.placement.candidates"] = {} }, expect = { verdict = "wait" } },
  case { name = "IO-15 the only other node is cordoned",
         objects = { statefulset, node_2_with { unschedulable = true } }, expect = { verdict = "wait" } },
  case { name = "volumes cannot be read: deferred", objects = { statefulset, nodes }, fail = { "volumes" },
         expect = { outcome = "deferred" } },
  case { name = "placement cannot be had: deferred", objects = { statefulset, nodes }, fail = { "placement" },
         expect = { outcome = "deferred" } },

  -- ---- attachments ----
  case { name = "the attachments may go after the pod", objects = { statefulset, nodes },
         settings = { pod_delete_policy = both, attachments = "delete" },
         expect = { verdict = "delete_pod_and_attachments", volumes = { "data-orders-0" }, release = false } },
  case { name = "the attachments of a StatefulSet's pod alone", objects = { statefulset, nodes },
         settings = { pod_delete_policy = "delete-statefulset-pod", attachments = "delete" },
         expect = { verdict = "delete_pod_and_attachments" } },
  case { name = "the attachments of a Deployment's pod alone", objects = { deployment, nodes },
         settings = { pod_delete_policy = "delete-deployment-pod", attachments = "delete" },
         expect = { verdict = "delete_pod_and_attachments" } },
  case { name = "the attachments beside a hostPath", objects = { hostpath, nodes },
         settings = { pod_delete_policy = both, attachments = "delete", other_volumes = "ignore" },
         expect = { verdict = "delete_pod_and_attachments" } },
}
