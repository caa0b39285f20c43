-- orders-0 of a StatefulSet on node-1, which has been down since 10:00:50; its two claims are disks of EC2.
local orders = fixture "testdata/orders.json"
-- Its two claims, and one more volume.
local function beside(source)
  source.name = "more"
  return { { name = "data", persistentVolumeClaim = { claimName = "data-orders-0" } },
           { name = "wal", persistentVolumeClaim = { claimName = "wal-orders-0" } }, source }
end

local both = "delete_pod_and_attachments"

local function with(more)
  local patch = { ["pod.placement.candidates"] = { "node-2" }, ["node.not_ready_since"] = "2026-11-20T10:00:50Z" }
  for _, key in ipairs(table.keys(more or {})) do
    patch[key] = more[key]
  end
  return patch
end

return tests {
  now = "2026-11-20T10:07:00Z",

  case { name = "it goes with its attachments", objects = orders, patch = with(),
         expect = { verdict = both, volumes = { "data-orders-0", "wal-orders-0" }, release = false, proof = {} } },
  case { name = "with release", objects = orders, settings = { release = true }, patch = with(),
         expect = { verdict = both, release = true } },
  case { name = "disks of another cloud", objects = orders, patch = with { ["pod.claims[2].driver"] = "disk.csi.azure.com" },
         expect = { verdict = both } },
  case { name = "one volume of another driver keeps it", objects = orders,
         patch = with { ["pod.claims[2].driver"] = "efs.csi.aws.com" },
         expect = { verdict = "skip", reason = "~driver 'efs.csi.aws.com' of claim wal-orders-0" } },
  case { name = "a disk for several machines keeps it", objects = orders,
         patch = with { ["pod.claims[2].access_modes"] = { "ReadWriteMany" } },
         expect = { verdict = "skip", reason = "~may be attached to several machines" } },
  case { name = "a disk without access modes keeps it", objects = orders,
         patch = with { ["pod.claims[2].access_modes"] = {} }, expect = { verdict = "skip" } },
  case { name = "a claim that leads nowhere is waited for", objects = orders,
         patch = with { ["pod.claims[1].state"] = "volume_missing" },
         expect = { verdict = "wait", reason = "claim data-orders-0 is volume_missing" } },
  case { name = "without claims it has no disk", objects = orders, patch = with { ["pod.raw.spec.volumes"] = false },
         expect = { verdict = "skip", reason = "it has no claim" } },
  case { name = "a directory of the lost machine keeps it", objects = orders, patch = with { ["pod.raw.spec.volumes"] = beside { hostPath = { path = "/srv" } } },
         expect = { verdict = "skip", reason = "it has a volume of kind hostPath" } },
  case { name = "data that would go with the pod keeps it", objects = orders, patch = with { ["pod.raw.spec.volumes"] = beside { ephemeral = { volumeClaimTemplate = {} } } },
         expect = { verdict = "skip", reason = "it has a volume of kind ephemeral" } },
  case { name = "a Job's pod is left", objects = orders, patch = with { ["pod.owner.kind"] = "Job" },
         expect = { verdict = "skip", reason = "owner kind 'Job' is not in setting kinds" } },

  case { name = "a machine may start again", objects = orders, settings = { reboot_wait = "10m" }, patch = with(),
         expect = { verdict = "wait", reason = "its machine may be starting again", seconds = 230 } },
  case { name = "after that time it does not", objects = orders, settings = { reboot_wait = "370s" }, patch = with(),
         expect = { verdict = both } },
  case { name = "where nobody can take it, it stays", objects = orders, patch = with { ["pod.placement.candidates"] = {} },
         expect = { verdict = "wait", reason = "no other node can take it" } },
  case { name = "during maintenance it has to be off", objects = orders,
         patch = with { ["node.planned.MaintenanceInProgress"] = true },
         expect = { verdict = both, proof = { "off", "attested" } } },
  case { name = "that maintenance is planned changes nothing", objects = orders,
         patch = with { ["node.planned.MaintenancePlanned"] = true }, expect = { verdict = both, proof = {} } },
}
