-- NooBaa keeps its state in its database and in object storage: its other pods can start anywhere
-- at once. A database pod cannot: while the old one still runs on a node that only lost its
-- kubelet, a second one would write the same files.
local database_prefix = "noobaa-db-pg-"

-- What writes to volumes of its own may go only with them, and only when that fences: the kubelet has
-- stopped renewing its Lease, and each volume has an attachment to take away.
local function move(what, pod, node)
  if node.ready_status ~= "unknown" then
    return fence.wait(what .. ": its node is not Ready, but its kubelet may still run it")
  end
  if #pod.claims == 0 then
    return fence.skip(what .. " without a volume to take away")
  end
  for _, claim in ipairs(pod.claims) do
    if claim.state ~= "bound" then
      return fence.wait(what .. ": claim " .. claim.claim .. " is " .. claim.state)
    end
    if claim.driver == "" then
      return fence.skip(what .. ": the volume of claim " .. claim.claim .. " is no CSI volume")
    end
    -- Its driver attaches nothing, so nothing can be taken away: the old pod may still write.
    if not claim.attachment then
      return fence.skip(what .. ": the volume of claim " .. claim.claim .. " has no attachment to take away")
    end
  end
  return fence.delete_pod_and_attachments(what .. " on a node that is down, with its volumes")
end

-- An agent keeps the objects of a backing store on a volume of its own. Its owner may not say that it
-- is the controller; its name has this in the middle.
local function is_agent(pod)
  if pod.name:contains("-noobaa-pod-") then
    return true
  end
  for _, owner in ipairs(pod.owners) do
    if owner.kind == "BackingStore" then
      return true
    end
  end
  return false
end

return policy {
  api = 1,
  name = "noobaa",
  version = "1.0.0",
  summary = "Delete NooBaa's pods on a node that is not Ready; leave its database alone",
  select = { labels = "app=noobaa" },

  needs = function(s)
    local moves = s.db == "pod-and-attachments" or s.agents == "pod-and-attachments"
    return moves and { "volumes" } or {}
  end,

  settings = {
    db = {
      type = "enum",
      values = { "skip", "pod", "pod-and-attachments" },
      default = "skip",
      doc = "Database pods: leave them alone, delete them like the others, or delete them and their attachments",
    },
    agents = {
      type = "enum",
      values = { "skip", "pod", "pod-and-attachments" },
      default = "pod",
      doc = "Pods of backing stores that keep objects on volumes: the same three",
    },
  },

  -- The first observation is enough, and Ready=False counts although the kubelet may still live.
  trigger = { failures = 1, live_kubelet = true, deleted = false, sweep = true },

  pod = function(pod, s, _, node)
    if pod.name:starts_with(database_prefix) then
      if s.db == "skip" then
        return fence.skip("database pod: two databases on one volume corrupt it (setting db)")
      end
      if s.db == "pod-and-attachments" then
        return move("database pod", pod, node)
      end
    elseif s.agents ~= "pod" and is_agent(pod) then
      if s.agents == "skip" then
        return fence.skip("agent of a backing store: its objects are on its volume (setting agents)")
      end
      return move("agent of a backing store", pod, node)
    end
    return fence.delete_pod("NooBaa pod on a node that is not Ready")
  end,
}
