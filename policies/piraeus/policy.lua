-- Detaching a volume of LINSTOR keeps nobody from writing to it. DRBD's quorum does: a primary that has
-- lost the majority suspends its writes. So a pod goes when a survivor may be promoted, which it may only
-- with the majority, and when quorum is on. Without it both sides may write, and only proof helps.
local driver = "linstor.csi.linbit.com"
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

local function has_quorum(definition)
  return definition.status == 200
    and field(definition.body, "props", "DrbdOptions/Resource/quorum") == "majority"
end

-- Why nobody may be promoted; nil when a survivor may.
local function obstacle(pod, resources)
  local found = nil
  for _, resource in ipairs(resources) do
    local name, drbd = field(resource, "node_name"), field(resource, "layer_object", "drbd")
    if name and name ~= pod.node_name then
      if field(resource, "state", "in_use") then
        return "it is in use on " .. name
      end
      local connected = field(drbd, "connections", pod.node_name, "connected")
      if field(drbd, "may_promote") and connected == false then
        found = name
      end
    end
  end
  return not found and "no survivor may be promoted" or nil
end

return policy {
  api = 1,
  name = "piraeus",
  version = "1.0.0",
  summary = "Move pods whose volumes are all LINSTOR's once DRBD may promote them elsewhere",
  needs = { "volumes" },

  settings = {
    kinds = {
      type = "list", of = "string", default = { "StatefulSet", "ReplicaSet" },
      doc = "Kinds of controllers whose pods it moves",
    },
    endpoint = {
      type = "string", default = "linstor",
      doc = "The endpoint of the engine's configuration under which LINSTOR's controller answers",
    },
    require_proof = {
      type = "boolean", default = false,
      doc = "Act only once the machine is known to be off or isolated, or somebody attests it",
    },
  },

  trigger = { failures = 1, live_kubelet = false, deleted = false, sweep = true },

  -- Eight at once; more volumes are asked for in the next round.
  fetch = function(pod, s, got)
    local wanted, count = {}, 0
    for _, volume in ipairs(pod.volumes) do
      if volume.driver == driver and not got[volume.handle] and count < 8 then
        wanted[volume.handle] = fence.http(s.endpoint, "/v1/view/resources", { resources = volume.handle })
        wanted["of " .. volume.handle] = fence.http(s.endpoint, "/v1/resource-definitions", volume.handle)
        count = count + 2
      end
    end
    return wanted
  end,

  pod = function(pod, s)
    if not table.contains(s.kinds, pod.owner.kind) then
      return fence.skip("owner kind '" .. pod.owner.kind .. "' is not in setting kinds")
    end
    if pod.annotations["drbd.linbit.com/ignore-fail-over"] then
      return fence.skip("its annotation drbd.linbit.com/ignore-fail-over says that it stays")
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
        return fence.skip("claim " .. claim.claim .. " is not LINSTOR's but of driver '" .. claim.driver .. "'")
      end
      if not table.contains(claim.access_modes, "ReadWriteOnce") or #claim.access_modes > 1 then
        return fence.skip("volume of claim " .. claim.claim .. " is not ReadWriteOnce alone")
      end
      local resources = pod.fetched[claim.handle]
      if resources.status ~= 200 then
        return fence.wait("LINSTOR does not know the volume of claim " .. claim.claim, again)
      end
      if not has_quorum(pod.fetched["of " .. claim.handle]) then
        return fence.wait("quorum of the volume of claim " .. claim.claim .. " is not majority", again)
      end
      local why = obstacle(pod, resources.body)
      if why then
        return fence.wait("claim " .. claim.claim .. ": " .. why, again)
      end
    end
    return fence.delete_pod_and_attachments("its node is down, and DRBD may promote its volumes elsewhere", {
      release = false, proof = s.require_proof and { "off", "isolated", "attested" } or nil })
  end,
}
