-- For any storage whose CSI driver fences: when its controller has unpublished a volume from a node, that
-- node cannot write to it any more. Which drivers do so is for the administrator to know; none is by
-- default. A pod takes part by its label, and only if every claim of it is of such a driver and for one
-- node at a time: whatever else it may write to is not fenced by this.
local label = "moonfence.io/fence"

local single_node_modes = { "ReadWriteOnce", "ReadWriteOncePod" }

-- Whether setting kinds names the owner: by its kind alone, or by kind and API group.
local function is_listed(kinds, owner)
  for _, known in ipairs(kinds) do
    local group = owner.kind .. "."
    if known == owner.kind or
       (known:starts_with(group) and owner.api_version:starts_with(known:sub(#group + 1) .. "/")) then
      return true
    end
  end
  return false
end

-- Who makes the pod anew. An owner that does not say that it is the controller counts only where the
-- binding allows such pods at all (allow: [bare-pods]).
local function maker_of(pod)
  return pod.owner.kind == "" and pod.owners[1] or pod.owner
end

-- Seconds until the deadline of its deletion, which is never further away than the setting allows:
-- its node is proven silent, and nobody there will use a week of grace.
local function left_of(pod, s, now)
  local asked = pod.deletion_timestamp - (pod.grace_period or 0)
  return math.min(pod.deletion_timestamp, asked + s.grace_limit) - now
end

local function is_exclusive(volume)
  for _, mode in ipairs(volume.access_modes) do
    if not table.contains(single_node_modes, mode) then
      return false
    end
  end
  return #volume.access_modes > 0
end

return policy {
  api = 1,
  name = "generic",
  version = "1.0.0",
  summary = "Move labelled pods whose volumes are all of drivers that fence, with their attachments",
  select = { labels = label .. "=true" },
  needs = { "volumes" },

  settings = {
    drivers = {
      type = "list", of = "string", default = {},
      doc = "CSI drivers whose unpublished volumes cannot be written to; declare them to the engine too",
    },
    kinds = {
      type = "list", of = "string", default = { "StatefulSet", "ReplicaSet" },
      doc = "Kinds of owners whose pods it moves; Kind.group where a kind exists in several API groups",
    },
    grace_limit = {
      type = "duration", default = "1h", min = "0s",
      doc = "With until_terminating: the longest grace of a deletion that is waited for",
    },
    until_terminating = {
      type = "boolean", default = false,
      doc = "Wait until somebody has asked for the pod's deletion and its deadline has passed",
    },
    release = {
      type = "boolean", default = false,
      doc = "Release the volumes to the next node once every attachment is gone, not after six minutes",
    },
  },

  -- Without live_kubelet: a node whose kubelet still renews its Lease is not down for this policy.
  trigger = { failures = 1, live_kubelet = false, deleted = false, sweep = true },

  pod = function(pod, s, cluster)
    local maker = maker_of(pod)
    if not maker or not is_listed(s.kinds, maker) then
      return fence.skip("owner kind '" .. (maker and maker.kind or "") .. "' is not in setting kinds")
    end
    if #pod.claims == 0 then
      return fence.skip("it has no claim")
    end
    for _, claim in ipairs(pod.claims) do
      if claim.state ~= "bound" then
        return fence.wait("claim " .. claim.claim .. " is " .. claim.state)
      end
      if not table.contains(s.drivers, claim.driver) then
        return fence.skip("driver '" .. claim.driver .. "' of claim " .. claim.claim .. " is not in setting drivers")
      end
      if not is_exclusive(claim) then
        return fence.skip("volume of claim " .. claim.claim .. " is not ReadWriteOnce")
      end
    end
    if s.until_terminating then
      if not pod.terminating then
        return fence.wait("nobody has asked for its deletion yet")
      end
      local left = left_of(pod, s, cluster.now)
      if left > 0 then
        return fence.wait("its deletion deadline is not reached", left)
      end
    end
    return fence.delete_pod_and_attachments("its node is down; all its volumes are fenced by their drivers",
                                            { release = s.release })
  end,
}
