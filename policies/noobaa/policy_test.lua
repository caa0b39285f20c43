local function pod(name)
  return {
    kind = "Pod",
    metadata = { name = name, namespace = "noobaa", uid = "pod-uid", labels = { app = "noobaa" } },
    spec = { nodeName = "node-1" },
    status = { phase = "Running" },
  }
end

return tests {
  case { name = "the core pod is deleted", objects = pod("noobaa-core-0"),
         expect = { verdict = "delete_pod", reason = "NooBaa pod on a node that is not Ready",
                    reads = { "settings.db", "pod.name" } } },
  case { name = "an endpoint's pod is deleted", objects = pod("noobaa-endpoint-5d7"),
         expect = { verdict = "delete_pod" } },
  case { name = "the database is left alone", objects = pod("noobaa-db-pg-0"),
         expect = { verdict = "skip", reason = "~two databases on one volume" } },
  case { name = "the connection pool is no database", objects = pod("noobaa-db-pgbouncer-0"),
         expect = { verdict = "delete_pod" } },
  case { name = "db = pod deletes the database too", objects = pod("noobaa-db-pg-0"),
         settings = { db = "pod" }, expect = { verdict = "delete_pod" } },
  case { name = "the label is exact", objects = pod("noobaa-core-0"),
         patch = { ["pod.labels.app"] = "NooBaa" }, expect = { outcome = "not_selected" } },
}
