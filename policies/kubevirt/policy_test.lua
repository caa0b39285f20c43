-- virt-launcher-win-x7lqp of virtual machine win on node-1, which is down; its disk is of csi.example.com.
local base = fixture "testdata/launcher.json"
local usual = { drivers = { "csi.example.com" } }
local vmi_request = "get kubevirt.io/v1 virtualmachineinstances vms/win"
local vm_request = "get kubevirt.io/v1 virtualmachines vms/win"
local both = "delete_pod_and_attachments"
local proof = { "off", "isolated", "attested" }

local owners = { { apiVersion = "kubevirt.io/v1", kind = "VirtualMachine", name = "win", uid = "vm-uid" } }

-- `status` of the instance beside the node that it runs on, `spec` of the VirtualMachine.
local function says(status, spec, metadata)
  local full = { nodeName = "node-1", activePods = { ["pod-uid"] = "node-1" } }
  for _, key in ipairs(table.keys(status or {})) do
    full[key] = status[key]
  end
  local about = metadata or { uid = "vmi-uid", ownerReferences = owners }
  return {
    [vmi_request] = { status = 200, body = { metadata = about, status = full } },
    [vm_request] = { status = 200, body = { spec = spec or { runStrategy = "Always" } } },
  }
end

local function migrates(state)
  return says { migrationState = state }
end

local gone = says()
gone[vmi_request] = { status = 404 }
local silent = says()
silent[vmi_request] = { status = 200, body = { metadata = { uid = "vmi-uid", ownerReferences = owners } } }
local lonely = says()
lonely[vm_request] = { status = 404 }

return tests {
  case { name = "it goes with its attachment", objects = base, settings = usual, responses = says(),
         expect = { verdict = both, volumes = { "disk-win" }, release = false, proof = {}, reason = "its node is down; KubeVirt starts it elsewhere" } },
  case { name = "with release", objects = base, settings = { drivers = { "csi.example.com" }, release = true }, responses = says(),
         expect = { verdict = both, release = true } },
  case { name = "a machine that runs again after a failure", objects = base, settings = usual,
         responses = says(nil, { runStrategy = "RerunOnFailure" }), expect = { verdict = both } },
  case { name = "a machine of the older field", objects = base, settings = usual, responses = says(nil, { running = true }),
         expect = { verdict = both } },
  case { name = "a machine that is to stand still", objects = base, settings = usual, responses = says(nil, { running = false }),
         expect = { verdict = "skip", reason = "run strategy Halted is not in setting run_strategies" } },
  case { name = "a machine that only people start", objects = base, settings = usual,
         responses = says(nil, { runStrategy = "Manual" }), expect = { verdict = "skip", reason = "~run strategy Manual" } },
  case { name = "a machine that is only gone", objects = base, settings = usual, responses = lonely,
         expect = { verdict = "skip", reason = "nothing would start its virtual machine again" } },
  case { name = "an instance without a machine", objects = base, settings = usual,
         responses = says(nil, nil, { uid = "vmi-uid", ownerReferences = { { kind = "VirtualMachinePool", name = "p" } } }),
         expect = { verdict = "skip", reason = "nothing would start its virtual machine again" } },
  case { name = "an instance that nobody owns", objects = base, settings = usual, responses = says(nil, nil, { uid = "vmi-uid" }),
         expect = { verdict = "skip", reason = "nothing would start its virtual machine again" } },

  case { name = "a migration that is under way", objects = base, settings = usual, responses = migrates { targetNode = "node-2" },
         expect = { verdict = "wait", reason = "it is being migrated to node-2" } },
  case { name = "a migration without a target yet", objects = base, settings = usual, responses = migrates {},
         expect = { verdict = "wait", reason = "it is being migrated to another node" } },
  case { name = "a migration that has failed", objects = base, settings = usual,
         responses = migrates { targetNode = "node-2", failed = true }, expect = { verdict = both } },
  case { name = "a migration that is over", objects = base, settings = usual,
         responses = migrates { targetNode = "node-1", completed = true }, expect = { verdict = both } },
  case { name = "it runs elsewhere by now", objects = base, settings = usual, responses = says { nodeName = "node-2" },
         expect = { verdict = "wait", reason = "its virtual machine is said to run on node-2" } },
  case { name = "another pod of it is elsewhere", objects = base, settings = usual,
         responses = says { activePods = { ["pod-uid"] = "node-1", ["other-uid"] = "node-3" } },
         expect = { verdict = "wait", reason = "another pod of its virtual machine is on node-3" } },
  case { name = "an instance that does not list its pods", objects = base, settings = usual, responses = says { activePods = false },
         expect = { verdict = both } },

  case { name = "a disk for several nodes demands proof", objects = base, settings = usual, responses = says(),
         patch = { ["pod.claims[1].access_modes"] = { "ReadWriteMany" } },
         expect = { verdict = both, proof = proof, reason = "~disk disk-win is for several nodes" } },
  case { name = "so does one without access modes", objects = base, settings = usual, responses = says(),
         patch = { ["pod.claims[1].access_modes"] = {} }, expect = { verdict = both, proof = proof } },
  case { name = "and a driver that is not named", objects = base, responses = says(),
         expect = { verdict = both, proof = proof, reason = "~driver 'csi.example.com' of disk disk-win" } },
  case { name = "a machine without disks of the cluster", objects = base, settings = usual, responses = says(),
         patch = { ["pod.raw.spec.volumes"] = false }, expect = { verdict = "delete_pod", proof = {} } },
  case { name = "a claim that leads nowhere", objects = base, settings = usual, responses = says(),
         patch = { ["pod.claims[1].state"] = "unbound" }, expect = { verdict = "wait", reason = "claim disk-win is unbound" } },

  case { name = "an instance that is gone", objects = base, settings = usual, responses = gone,
         expect = { verdict = "wait", reason = "its VirtualMachineInstance says nothing" } },
  case { name = "another instance of its name", objects = base, settings = usual,
         responses = says(nil, nil, { uid = "other-uid", ownerReferences = owners }), expect = { verdict = "wait" } },
  case { name = "an instance without a status", objects = base, settings = usual, responses = silent,
         expect = { verdict = "wait", reason = "~says nothing" } },
  case { name = "while it cannot be read nothing is judged", objects = base, settings = usual, responses = says(),
         fail = { "fetch" }, expect = { outcome = "deferred" } },
  case { name = "a pod that only has the label", objects = base, settings = usual, patch = { ["pod.owner.kind"] = "ReplicaSet" },
         expect = { verdict = "skip", reason = "no VirtualMachineInstance owns it" } },
  case { name = "a pod that carries a disk for another one", objects = base, settings = usual,
         patch = { ['pod.labels["kubevirt.io"]'] = "hotplug-disk" }, expect = { outcome = "not_selected" } },
}
