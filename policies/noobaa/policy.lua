-- NooBaa keeps its state in its database and in object storage: its other pods can start anywhere
-- at once. A database pod cannot: while the old one still runs on a node that only lost its
-- kubelet, a second one would write the same files.
local database_prefix = "noobaa-db-pg-"

return policy {
  api = 1,
  name = "noobaa",
  version = "1.0.0",
  summary = "Delete NooBaa's pods on a node that is not Ready; leave its database alone",
  select = { labels = "app=noobaa" },

  settings = {
    db = {
      type = "enum",
      values = { "skip", "pod" },
      default = "skip",
      doc = "Database pods: leave them alone (skip) or delete them like the others (pod)",
    },
  },

  -- The first observation is enough, and Ready=False counts although the kubelet may still live.
  trigger = { failures = 1, live_kubelet = true, deleted = false, sweep = true },

  pod = function(pod, s)
    if s.db == "skip" and pod.name:starts_with(database_prefix) then
      return fence.skip("database pod: two databases on one volume corrupt it (setting db)")
    end
    return fence.delete_pod("NooBaa pod on a node that is not Ready")
  end,
}
