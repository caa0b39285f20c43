-- orders-0 of a StatefulSet on node-1, which is down; its two claims are of Rook's RBD driver.
local orders = fixture "testdata/orders.json"
-- Its two claims, and one more volume.
local function beside(source)
  source.name = "more"
  return { { name = "data", persistentVolumeClaim = { claimName = "data-orders-0" } },
           { name = "wal", persistentVolumeClaim = { claimName = "wal-orders-0" } }, source }
end

local both = "delete_pod_and_attachments"
local proof = { "isolated", "off", "attested" }

local function driver(name)
  return { ["pod.claims[2].driver"] = name }
end

local function modes(...)
  return { ["pod.claims[2].access_modes"] = { ... } }
end

return tests {
  case { name = "it goes with its attachments, once there is proof", objects = orders,
         expect = { verdict = both, volumes = { "data-orders-0", "wal-orders-0" }, release = false, proof = proof } },
  case { name = "with release", objects = orders, settings = { release = true },
         expect = { verdict = both, release = true, proof = proof } },
  case { name = "CephFS likewise", objects = orders, patch = driver("rook-ceph.cephfs.csi.ceph.com"),
         expect = { verdict = both, proof = proof } },
  case { name = "a driver without a prefix", objects = orders, patch = driver("rbd.csi.ceph.com"), expect = { verdict = both } },
  case { name = "a name that only ends alike", objects = orders, patch = driver("notrbd.csi.ceph.com"),
         expect = { verdict = "skip", reason = "~of driver 'notrbd.csi.ceph.com'" } },
  case { name = "NFS by Ganesha is not fenced by this", objects = orders, patch = driver("rook-ceph.nfs.csi.ceph.com"),
         expect = { verdict = "skip" } },
  case { name = "one volume of another driver keeps it", objects = orders, patch = driver("csi.example.com"),
         expect = { verdict = "skip", reason = "claim wal-orders-0 is not Ceph's but of driver 'csi.example.com'" } },
  case { name = "a volume for many nodes is left", objects = orders, patch = modes("ReadWriteMany"),
         expect = { verdict = "skip", reason = "~setting shared is skip" } },
  case { name = "to read as well", objects = orders, patch = modes("ReadWriteOnce", "ReadOnlyMany"), expect = { verdict = "skip" } },
  case { name = "unless they may move", objects = orders, settings = { shared = "move" }, patch = modes("ReadWriteMany"),
         expect = { verdict = both, proof = proof } },
  case { name = "a claim that leads nowhere is waited for", objects = orders, patch = { ["pod.claims[1].state"] = "unbound" },
         expect = { verdict = "wait", reason = "claim data-orders-0 is unbound" } },
  case { name = "without claims it is not asked about Ceph", objects = orders, patch = { ["pod.raw.spec.volumes"] = false },
         expect = { verdict = "skip", reason = "it has no claim" } },
  case { name = "a directory of the lost machine keeps it", objects = orders, patch = { ["pod.raw.spec.volumes"] = beside { hostPath = { path = "/srv" } } },
         expect = { verdict = "skip", reason = "it has a volume of kind hostPath" } },
  case { name = "data that would go with the pod keeps it", objects = orders, patch = { ["pod.raw.spec.volumes"] = beside { ephemeral = { volumeClaimTemplate = {} } } },
         expect = { verdict = "skip", reason = "it has a volume of kind ephemeral" } },
  case { name = "a Job's pod is left", objects = orders, patch = { ["pod.owner.kind"] = "Job" },
         expect = { verdict = "skip", reason = "owner kind 'Job' is not in setting kinds" } },
  case { name = "kinds are the administrator's to name", objects = orders, settings = { kinds = { "Job" } },
         expect = { verdict = "skip", reason = "owner kind 'StatefulSet' is not in setting kinds" } },
}
