-- The pod of a virtual machine holds the machine's disks and its place: as long as the pod's object is
-- there, KubeVirt takes the machine for alive and starts no other one. Once the object is gone it starts
-- the machine elsewhere at once. So everything that speaks for a living guest has to be ruled out before:
-- a migration that is under way, another node on which it runs, and disks that two nodes may write to.
local again = 10 -- seconds

local single_node_modes = { "ReadWriteOnce", "ReadWriteOncePod" }

local function is_exclusive(volume)
  for _, mode in ipairs(volume.access_modes) do
    if not table.contains(single_node_modes, mode) then
      return false
    end
  end
  return #volume.access_modes > 0
end

-- What of its disks is not kept from the old node by their drivers; "" when nothing is.
local function unguarded(pod, s)
  for _, claim in ipairs(pod.claims) do
    if not is_exclusive(claim) then
      return "disk " .. claim.claim .. " is for several nodes"
    end
    if not table.contains(s.drivers, claim.driver) then
      return "driver '" .. claim.driver .. "' of disk " .. claim.claim .. " is not in setting drivers"
    end
  end
  return ""
end

-- The VirtualMachine that would start it again; nil when there is none.
local function owner_of(vmi)
  for _, owner in ipairs(vmi.metadata.ownerReferences or {}) do
    if owner.kind == "VirtualMachine" then
      return owner.name
    end
  end
end

local function strategy_of(vm)
  return vm.spec.runStrategy or (vm.spec.running and "Always" or "Halted")
end

local function is_of_kubevirt(pod)
  return pod.owner.kind == "VirtualMachineInstance" and pod.owner.api_group == "kubevirt.io"
end

return policy {
  api = 1,
  name = "kubevirt",
  version = "1.0.0",
  summary = "Delete the pods of virtual machines that KubeVirt starts again elsewhere",
  select = { labels = "kubevirt.io=virt-launcher" },
  needs = { "volumes" },

  settings = {
    drivers = {
      type = "list", of = "string", default = {},
      doc = "CSI drivers whose unpublished volumes cannot be written to; declare them to the engine too",
    },
    run_strategies = {
      type = "list", of = "string", default = { "Always", "RerunOnFailure" },
      doc = "Of virtual machines that KubeVirt starts again; with another one the machine would only be lost",
    },
    release = {
      type = "boolean", default = false,
      doc = "Release the disks to the next node once every attachment is gone, not after six minutes",
    },
  },

  trigger = { failures = 1, live_kubelet = false, deleted = false, sweep = true },

  fetch = function(pod, s, got)
    if not is_of_kubevirt(pod) then
      return nil
    end
    if not got.vmi then
      return { vmi = fence.get("kubevirt.io/v1", "virtualmachineinstances", pod.namespace, pod.owner.name) }
    end
    local vm = got.vmi.status == 200 and owner_of(got.vmi.body)
    if vm and not got.vm then
      return { vm = fence.get("kubevirt.io/v1", "virtualmachines", pod.namespace, vm) }
    end
  end,

  pod = function(pod, s)
    if not is_of_kubevirt(pod) then
      return fence.skip("no VirtualMachineInstance owns it")
    end
    local answer = pod.fetched.vmi
    local vmi = answer.status == 200 and answer.body
    if not vmi or vmi.metadata.uid ~= pod.owner.uid or not vmi.status then
      return fence.wait("its VirtualMachineInstance says nothing", again)
    end
    local vm = pod.fetched.vm
    if not vm or vm.status ~= 200 then
      return fence.skip("nothing would start its virtual machine again")
    end
    local strategy = strategy_of(vm.body)
    if not table.contains(s.run_strategies, strategy) then
      return fence.skip("run strategy " .. strategy .. " is not in setting run_strategies")
    end
    local migration = vmi.status.migrationState
    if migration and not migration.completed and not migration.failed then
      return fence.wait("it is being migrated to " .. (migration.targetNode or "another node"), again)
    end
    if vmi.status.nodeName ~= pod.node_name then
      return fence.wait("its virtual machine is said to run on " .. (vmi.status.nodeName or "no node"), again)
    end
    for _, uid in ipairs(table.keys(vmi.status.activePods or {})) do
      if vmi.status.activePods[uid] ~= pod.node_name then
        return fence.wait("another pod of its virtual machine is on " .. vmi.status.activePods[uid], again)
      end
    end
    for _, claim in ipairs(pod.claims) do
      if claim.state ~= "bound" then
        return fence.wait("claim " .. claim.claim .. " is " .. claim.state, again)
      end
    end
    local why = unguarded(pod, s)
    local proof = why ~= "" and { "off", "isolated", "attested" } or nil
    if #pod.volumes == 0 then
      return fence.delete_pod("its node is down; KubeVirt starts it elsewhere", { proof = proof })
    end
    return fence.delete_pod_and_attachments(
      "its node is down; KubeVirt starts it elsewhere" .. (why ~= "" and "; " .. why or ""),
      { release = s.release, proof = proof })
  end,
}
