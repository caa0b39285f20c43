-- orders-0 of a StatefulSet on node-1 with two Basalt volumes, as kubectl prints them, and answers as Basalt's API
-- gives them.
local orders = fixture "orders.json"

local both = "delete_pod_and_attachments"
local hosts = "http basalt /api/v1/hosts"

local function page(list, following)
  return { status = 200, body = { hosts = list, next = following } }
end

local function volume(id, lease, copies)
  return { status = 200, body = { id = id, lease = lease and { host = lease }, copies = copies or {
    { host = "node-1", state = "behind" }, { host = "node-2", state = "current" } } } }
end

-- Both volumes are well unless `wal` says otherwise.
local function basalt(wal)
  return { ["http basalt /api/v1/volumes/vol-a1"] = volume("vol-a1"),
           ["http basalt /api/v1/volumes/vol-b2"] = wal or volume("vol-b2") }
end

-- A pod with nine volumes, one more than may be asked for at once; the last is still leased to its node.
local function wide()
  local owner = { apiVersion = "apps/v1", kind = "StatefulSet", name = "wide", uid = "u", controller = true }
  local pod = { kind = "Pod", metadata = { name = "wide-0", namespace = "shop", ownerReferences = { owner } },
                spec = { nodeName = "node-1", volumes = {} } }
  local objects, answers = { pod }, {}
  for number = 1, 9 do
    local name = "c" .. number
    table.insert(pod.spec.volumes, { name = name, persistentVolumeClaim = { claimName = name } })
    table.insert(objects, { kind = "PersistentVolumeClaim", metadata = { name = name, namespace = "shop" },
                            spec = { volumeName = "pv-" .. name } })
    table.insert(objects, { kind = "PersistentVolume", metadata = { name = "pv-" .. name },
                            spec = { csi = { driver = "csi.basalt.example.com", volumeHandle = "v" .. number } } })
    answers["http basalt /api/v1/volumes/v" .. number] = volume("v" .. number, number == 9 and "node-1" or nil)
  end
  return objects, answers
end
local nine, nine_answers = wide()

return tests {
  responses = basalt(),

  -- ---- which nodes ----
  case { name = "only an expelled host is failed",
         responses = { [hosts] = page { { name = "node-1", state = "expelled" }, { name = "node-2", state = "up" },
                                        { name = "node-3", state = "suspect" } } },
         expect = { nodes = { ["node-1"] = "failed", ["node-2"] = "healthy", ["node-3"] = "unknown" } } },
  case { name = "hosts come in pages",
         responses = { [hosts] = page({ { name = "node-1", state = "up" } }, "node-1"),
                       [hosts .. "?after=node-1"] = page({ { name = "node-2", state = "expelled" } }) },
         expect = { nodes = { ["node-1"] = "healthy", ["node-2"] = "failed" } } },
  case { name = "who stands on the fifth page is not named",
         responses = { [hosts] = page({ { name = "a", state = "up" } }, "a"),
                       [hosts .. "?after=a"] = page({ { name = "b", state = "up" } }, "b"),
                       [hosts .. "?after=b"] = page({ { name = "c", state = "up" } }, "c"),
                       [hosts .. "?after=c"] = page({ { name = "d", state = "expelled" } }, "d") },
         expect = { nodes = { a = "healthy", b = "healthy", c = "healthy", d = "failed" } } },
  case { name = "an API without hosts names none", responses = { [hosts] = { status = 404, body = {} } },
         expect = { nodes = {} } },
  case { name = "nothing while the API fails", responses = { [hosts] = { status = 503 } },
         expect = { outcome = "deferred" } },
  case { name = "nothing while our token is refused", responses = { [hosts] = { status = 401 } },
         expect = { outcome = "deferred" } },

  -- ---- which pods ----
  case { name = "two volumes that are safe: the pod, then its attachments", objects = orders,
         expect = { verdict = both, volumes = { "data-orders-0", "wal-orders-0" }, release = false } },
  case { name = "whoever wants to stay is not asked about", objects = orders,
         patch = { ['pod.labels["basalt.example.com/stay"]'] = "true" }, expect = { outcome = "not_selected" } },
  case { name = "a Job's pod is left", objects = orders, patch = { ["pod.owner.kind"] = "Job" },
         expect = { verdict = "skip", reason = "~owner kind 'Job'" } },
  case { name = "another driver's volume is not asked about and keeps its attachment", objects = orders,
         patch = { ["pod.claims[2].driver"] = "other.example.com" },
         expect = { verdict = both, volumes = { "data-orders-0" } } },
  case { name = "another driver's volumes alone are none of ours", objects = orders,
         patch = { ["pod.claims[1].driver"] = "other.example.com", ["pod.claims[2].driver"] = "other.example.com" },
         expect = { verdict = "skip", reason = "no volume of Basalt" } },
  case { name = "a claim that leads nowhere is waited for", objects = orders,
         patch = { ["pod.claims[2].state"] = "volume_missing" },
         expect = { verdict = "wait", seconds = 5, reason = "~volume_missing" } },
  case { name = "volumes cannot be read: deferred", objects = orders, fail = { "volumes" },
         expect = { outcome = "deferred" } },

  -- ---- whether its volumes are safe ----
  case { name = "a volume that is still leased to the host is waited for", objects = orders,
         responses = basalt(volume("vol-b2", "node-1")),
         expect = { verdict = "wait", reason = "volume of claim wal-orders-0 is still leased to node-1" } },
  case { name = "a lease of another host is no obstacle", objects = orders,
         responses = basalt(volume("vol-b2", "node-2")), expect = { verdict = both } },
  case { name = "the only current copy is on the host", objects = orders,
         responses = basalt(volume("vol-b2", nil, { { host = "node-1", state = "current" } })),
         expect = { verdict = "wait", reason = "~without a current copy elsewhere" } },
  case { name = "a volume that Basalt does not know is waited for", objects = orders,
         responses = basalt { status = 404, body = {} },
         expect = { verdict = "wait", reason = "~not known to Basalt" } },
  case { name = "nothing while a volume cannot be read", objects = orders, responses = basalt { status = 500 },
         expect = { outcome = "deferred" } },
  case { name = "how soon it is looked at again is a setting", objects = orders, settings = { recheck = "1m" },
         responses = basalt(volume("vol-b2", "node-1")), expect = { verdict = "wait", seconds = 60 } },
  case { name = "nine volumes are asked about in two rounds", objects = nine, pod = "wide-0",
         responses = nine_answers, expect = { verdict = "wait", reason = "volume of claim c9 is still leased to node-1" } },
}
