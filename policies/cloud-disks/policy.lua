-- Disks of EC2, Compute Engine and Azure are detached by the cloud itself: when an attachment is gone,
-- the machine cannot write to that disk any more, whatever it still does. So silence is enough here. Two
-- things are worth a wait: a machine that is only starting again keeps its disks, and where no other node
-- of its zone can take the pod, deleting it gains nothing.
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

-- What would be lost with the pod, or lies on the lost machine: nobody can move that.
local function stays_behind(pod)
  for _, kind in ipairs({ "ephemeral", "hostPath" }) do
    if table.contains(pod.volume_kinds, kind) then
      return kind
    end
  end
end

return policy {
  api = 1,
  name = "cloud-disks",
  version = "1.0.0",
  summary = "Move pods whose volumes are all disks of a cloud, with their attachments",
  needs = { "volumes", "placement" },

  settings = {
    drivers = {
      type = "list", of = "string",
      default = { "ebs.csi.aws.com", "pd.csi.storage.gke.io", "disk.csi.azure.com" },
      doc = "The drivers of these disks; declare them to the engine too",
    },
    kinds = {
      type = "list", of = "string", default = { "StatefulSet", "ReplicaSet" },
      doc = "Kinds of controllers whose pods it moves",
    },
    reboot_wait = {
      type = "duration", default = "0s", min = "0s", max = "30m",
      doc = "How long a machine may be gone before it counts as one that does not start again by itself",
    },
    release = {
      type = "boolean", default = false,
      doc = "Release the disks to the next node once every attachment is gone, not after six minutes",
    },
  },

  trigger = { failures = 1, live_kubelet = false, deleted = false, sweep = true },

  pod = function(pod, s, cluster, node)
    if not table.contains(s.kinds, pod.owner.kind) then
      return fence.skip("owner kind '" .. pod.owner.kind .. "' is not in setting kinds")
    end
    if #pod.claims == 0 then
      return fence.skip("it has no claim")
    end
    local kind = stays_behind(pod)
    if kind then
      return fence.skip("it has a volume of kind " .. kind)
    end
    for _, claim in ipairs(pod.claims) do
      if claim.state ~= "bound" then
        return fence.wait("claim " .. claim.claim .. " is " .. claim.state, again)
      end
      if not table.contains(s.drivers, claim.driver) then
        return fence.skip("driver '" .. claim.driver .. "' of claim " .. claim.claim .. " is not in setting drivers")
      end
      if not is_exclusive(claim) then
        return fence.skip("the disk of claim " .. claim.claim .. " may be attached to several machines")
      end
    end
    local gone = cluster.now - (node.not_ready_since or cluster.now)
    if gone < s.reboot_wait then
      return fence.wait("its machine may be starting again", s.reboot_wait - gone)
    end
    if #pod.placement.candidates == 0 then
      return fence.wait("no other node can take it", again)
    end
    -- Whoever has announced work on the machine is about to start it again: then it has to be off.
    local maintained = node.planned.MaintenanceInProgress
    return fence.delete_pod_and_attachments("its node is down; the cloud detaches its disks", {
      release = s.release, proof = maintained and { "off", "attested" } or nil })
  end,
}
