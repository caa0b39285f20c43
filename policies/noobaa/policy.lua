-- NooBaa keeps its state in its database and in object storage: its other pods can start anywhere
-- at once. A database pod cannot: while the old one still runs on a node that only lost its
-- kubelet, a second one would write the same files.
local database_prefix = "noobaa-db-pg-"

-- The database's volumes go with its pod, so it may go only when that fences: the kubelet has
-- stopped renewing its Lease, and each volume has an attachment to take away.
local function move_database(pod, node)
  if node.ready_status ~= "unknown" then
    return fence.wait("database pod: its node is not Ready, but its kubelet may still run it")
  end
  if #pod.claims == 0 then
    return fence.skip("database pod without a volume to take away")
  end
  for _, claim in ipairs(pod.claims) do
    if claim.state ~= "bound" then
      return fence.wait("database pod: claim " .. claim.claim .. " is " .. claim.state)
    end
    if claim.driver == "" then
      return fence.skip("database pod: the volume of claim " .. claim.claim .. " is no CSI volume")
    end
  end
  return fence.delete_pod_and_attachments("database pod on a node that is down, with its volumes")
end

return policy {
  api = 1,
  name = "noobaa",
  version = "1.0.0",
  summary = "Delete NooBaa's pods on a node that is not Ready; leave its database alone",
  select = { labels = "app=noobaa" },

  needs = function(s)
    return s.db == "pod-and-attachments" and { "volumes" } or {}
  end,

  settings = {
    db = {
      type = "enum",
      values = { "skip", "pod", "pod-and-attachments" },
      default = "skip",
      doc = "Database pods: leave them alone, delete them like the others, or delete them and their attachments",
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
        return move_database(pod, node)
      end
    end
    return fence.delete_pod("NooBaa pod on a node that is not Ready")
  end,
}
