-- An image or file system of Ceph can be written to by two nodes at once, and its driver does not stop
-- the old one when a volume is detached. What stops it is Ceph itself: a NetworkFence of csi-addons puts
-- the node's addresses on Ceph's blocklist. So nothing is done before the node is known to be refused by
-- its storage, or to be off. The engine finds that out (fencer network-fence), and has the fence made
-- where its configuration says isolate.
local function is_ceph(driver)
  for _, name in ipairs({ "rbd.csi.ceph.com", "cephfs.csi.ceph.com" }) do
    if driver == name or driver:ends_with("." .. name) then
      return true
    end
  end
  return false
end

local function is_shared(volume)
  return table.contains(volume.access_modes, "ReadWriteMany") or table.contains(volume.access_modes, "ReadOnlyMany")
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
  name = "ceph",
  version = "1.0.0",
  summary = "Move pods with volumes of Ceph (RBD, CephFS) once Ceph refuses their node, or it is off",
  needs = { "volumes" },

  settings = {
    kinds = {
      type = "list", of = "string", default = { "StatefulSet", "ReplicaSet" },
      doc = "Kinds of controllers whose pods it moves",
    },
    shared = {
      type = "enum", default = "skip", values = { "skip", "move" },
      doc = "Pods with a volume for many nodes: leave them to Kubernetes, or move them likewise",
    },
    release = {
      type = "boolean", default = false,
      doc = "Release the volumes to the next node once every attachment is gone, not after six minutes",
    },
  },

  trigger = { failures = 1, live_kubelet = false, deleted = false, sweep = true },

  pod = function(pod, s)
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
        return fence.wait("claim " .. claim.claim .. " is " .. claim.state)
      end
      if not is_ceph(claim.driver) then
        return fence.skip("claim " .. claim.claim .. " is not Ceph's but of driver '" .. claim.driver .. "'")
      end
      if is_shared(claim) and s.shared == "skip" then
        return fence.skip("volume of claim " .. claim.claim .. " is for many nodes; setting shared is skip")
      end
    end
    return fence.delete_pod_and_attachments("its node is down, and cannot write to Ceph any more", {
      release = s.release, proof = { "isolated", "off", "attested" } })
  end,
}
