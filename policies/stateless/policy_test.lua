-- A pod of Deployment web on node-1, which is down.
local pod = {
  kind = "Pod",
  metadata = {
    name = "web-6d4b75cb6d-x7lqp", namespace = "shop", uid = "pod-uid",
    ownerReferences = { { apiVersion = "apps/v1", kind = "ReplicaSet", name = "web-6d4b75cb6d", uid = "set-uid", controller = true } },
  },
  spec = { nodeName = "node-1" },
  status = { phase = "Running" },
}
local with_claim = { pod, { kind = "PersistentVolumeClaim", metadata = { name = "data", namespace = "shop", uid = "claim-uid" },
                            spec = { accessModes = { "ReadWriteOnce" } }, status = { phase = "Pending" } } }
local sets = { kinds = { "ReplicaSet", "StatefulSet" } }

return tests {
  now = "2026-11-20T10:07:00Z",

  case { name = "a Deployment's pod is deleted", objects = pod, expect = { verdict = "delete_pod", fail = false } },
  case { name = "a pod with a claim is left", objects = with_claim,
         patch = { ["pod.raw.spec.volumes"] = { { name = "data", persistentVolumeClaim = { claimName = "data" } } } },
         expect = { verdict = "skip", reason = "it has claim data" } },
  case { name = "a StatefulSet's pod is left", objects = pod, patch = { ["pod.owner.kind"] = "StatefulSet" },
         expect = { verdict = "skip", reason = "owner kind 'StatefulSet' is not in setting kinds" } },
  case { name = "unless its kind is named", objects = pod, settings = sets, patch = { ["pod.owner.kind"] = "StatefulSet" },
         expect = { verdict = "delete_pod" } },
  case { name = "a bare pod is left", objects = pod, patch = { ["pod.owner.kind"] = "" },
         expect = { verdict = "skip", reason = "owner kind '' is not in setting kinds" } },
  case { name = "a drain is left to move it", objects = pod, patch = { ["node.planned.DrainInProgress"] = "2026-11-20T10:00:00Z" },
         expect = { verdict = "wait", reason = "its node is being drained", seconds = 180 } },
  case { name = "but not for ever", objects = pod, patch = { ["node.planned.DrainInProgress"] = "2026-11-20T09:57:00Z" },
         expect = { verdict = "delete_pod" } },
  case { name = "a drain without a time is not waited for", objects = pod, patch = { ["node.planned.DrainInProgress"] = true },
         expect = { verdict = "delete_pod" } },
  case { name = "a node that was deleted", objects = pod, patch = { ["node.ready_status"] = "deleted" },
         expect = { verdict = "delete_pod" } },
}
