-- When a volume of Mayastor is published elsewhere, its new target takes NVMe reservations on the
-- replicas, and the old one cannot write to them any more. That is so when Mayastor itself has lost the
-- node, and when a replica is left elsewhere to go on with. A node that Mayastor still hears may well run
-- the pod.
local driver = "io.openebs.csi-mayastor"
local again = 5 -- seconds

-- What would be lost with the pod, or lies on the lost machine: nobody can move that.
local function stays_behind(pod)
  for _, kind in ipairs({ "ephemeral", "hostPath" }) do
    if table.contains(pod.volume_kinds, kind) then
      return kind
    end
  end
end

-- A field of what may not be there; nil then.
local function field(value, ...)
  for _, key in ipairs({ ... }) do
    if type(value) ~= "table" and type(value) ~= "userdata" then
      return nil
    end
    value = value[key]
  end
  return value
end

local function online_elsewhere(pod, volume)
  local count = 0
  local replicas = field(volume, "state", "replica_topology")
  for _, id in ipairs(replicas and table.keys(replicas) or {}) do
    if field(replicas, id, "state") == "Online" and field(replicas, id, "node") ~= pod.node_name then
      count = count + 1
    end
  end
  return count
end

return policy {
  api = 1,
  name = "mayastor",
  version = "1.0.0",
  summary = "Move pods whose volumes are all Mayastor's once Mayastor has lost their node",
  needs = { "volumes" },

  settings = {
    kinds = {
      type = "list", of = "string", default = { "StatefulSet", "ReplicaSet" },
      doc = "Kinds of controllers whose pods it moves",
    },
    endpoint = {
      type = "string", default = "mayastor",
      doc = "The endpoint of the engine's configuration under which Mayastor's REST server answers",
    },
    min_online_replicas = {
      type = "integer", default = 1, min = 1, max = 16,
      doc = "How many replicas of each volume have to be online on other nodes",
    },
  },

  trigger = { failures = 1, live_kubelet = false, deleted = false, sweep = true },

  -- Eight at once; more volumes are asked for in the next round.
  fetch = function(pod, s, got)
    local wanted, count = {}, 0
    for _, volume in ipairs(pod.volumes) do
      if volume.driver == driver and not got[volume.handle] and count < 7 then
        wanted[volume.handle] = fence.http(s.endpoint, "/v0/volumes", volume.handle)
        count = count + 1
      end
    end
    if count > 0 and not got.node and pod.node_name ~= "" then
      wanted.node = fence.http(s.endpoint, "/v0/nodes", pod.node_name)
    end
    return wanted
  end,

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
        return fence.wait("claim " .. claim.claim .. " is " .. claim.state, again)
      end
      if claim.driver ~= driver then
        return fence.skip("claim " .. claim.claim .. " is not Mayastor's but of driver '" .. claim.driver .. "'")
      end
      local node = pod.fetched.node
      local heard = node and node.status == 200 and field(node.body, "state", "status") or "not known"
      if heard ~= "Offline" then
        return fence.wait("Mayastor calls its node " .. heard, again)
      end
      local volume = pod.fetched[claim.handle]
      local status = volume.status == 200 and field(volume.body, "state", "status") or "not known"
      if status == "Faulted" or status == "Shutdown" or status == "not known" then
        return fence.wait("the volume of claim " .. claim.claim .. " is " .. status, again)
      end
      local online = online_elsewhere(pod, volume.body)
      if online < s.min_online_replicas then
        return fence.wait("the volume of claim " .. claim.claim .. " has " .. online .. " replicas online elsewhere", again)
      end
    end
    return fence.delete_pod_and_attachments("Mayastor has lost its node, and has its volumes elsewhere")
  end,
}
