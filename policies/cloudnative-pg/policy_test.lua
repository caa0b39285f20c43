-- orders-1 of Cluster orders on node-1, which is down; its two claims are of csi.example.com.
local base = fixture "testdata/instance.json"
local usual = { drivers = { "csi.example.com" } }
local request = "get postgresql.cnpg.io/v1 clusters shop/orders"
local both = "delete_pod_and_attachments"

local function says(status, spec, metadata)
  local about = { uid = "cluster-uid" }
  for _, key in ipairs(table.keys(metadata or {})) do
    about[key] = metadata[key]
  end
  return { [request] = { status = 200, body = { metadata = about, spec = spec or { instances = 3 }, status = status } } }
end

local function primary(current, target, phase)
  return says { currentPrimary = current, targetPrimary = target, phase = phase or "Failing over" }
end

local function fenced(list)
  return says({ currentPrimary = "orders-2", targetPrimary = "orders-2" }, nil,
              { annotations = { ["cnpg.io/fencedInstances"] = list } })
end

return tests {
  case { name = "a replica goes at once", objects = base, settings = usual,
         responses = primary("orders-2", "orders-2", "Cluster in healthy state"),
         expect = { verdict = both, volumes = { "data-orders-1", "wal-orders-1" }, release = false, proof = {},
                    reason = "its node is down, and another instance is the primary" } },
  case { name = "also while others are elected", objects = base, settings = usual, responses = primary("orders-2", "pending"),
         expect = { verdict = both } },
  case { name = "the primary waits for an election", objects = base, settings = usual, responses = primary("orders-1", "orders-1"),
         expect = { verdict = "wait", reason = "~no other one is elected yet", seconds = 5 } },
  case { name = "while one is pending it waits", objects = base, settings = usual, responses = primary("orders-1", "pending"),
         expect = { verdict = "wait", reason = "it was the primary; pending is not promoted yet" } },
  case { name = "until the other one is promoted", objects = base, settings = usual, responses = primary("orders-1", "orders-2"),
         expect = { verdict = "wait", reason = "it was the primary; orders-2 is not promoted yet" } },
  case { name = "a failover that was taken back", objects = base, settings = usual, responses = primary("orders-2", "orders-1"),
         expect = { verdict = "wait", reason = "~no other one is elected yet" } },
  case { name = "no primary is named", objects = base, settings = usual, responses = primary(nil, "orders-2"),
         expect = { verdict = "wait", reason = "its Cluster names no primary" } },
  case { name = "no target is named", objects = base, settings = usual, responses = primary("orders-2", nil),
         expect = { verdict = "wait", reason = "its Cluster names no primary" } },

  case { name = "the label of a dead pod is old", objects = base, settings = usual, responses = primary("orders-2", "orders-2"),
         patch = { ['pod.labels["cnpg.io/instanceRole"]'] = "primary" }, expect = { verdict = both } },
  case { name = "an upgrade is left in peace", objects = base, settings = usual,
         responses = primary("orders-2", "orders-2", "Upgrading cluster"),
         expect = { verdict = "wait", reason = "its Cluster says: Upgrading cluster" } },
  case { name = "a switchover is left in peace", objects = base, settings = usual,
         responses = primary("orders-2", "orders-2", "Switchover in progress"),
         expect = { verdict = "wait", reason = "~Switchover" } },
  case { name = "a restart is left in peace", objects = base, settings = usual,
         responses = primary("orders-2", "orders-2", "Primary instance is being restarted in-place"),
         expect = { verdict = "wait", reason = "~restarted" } },
  case { name = "fenced instances", objects = base, settings = usual, responses = fenced('["orders-1"]'),
         expect = { verdict = "wait", reason = "~cnpg.io/fencedInstances" } },
  case { name = "none is fenced", objects = base, settings = usual, responses = fenced("[]"), expect = { verdict = both } },

  case { name = "an only instance waits", objects = base, settings = usual,
         responses = says({ currentPrimary = "orders-1", targetPrimary = "orders-1" }, { instances = 1 }),
         expect = { verdict = "wait", reason = "~the only instance" } },
  case { name = "unless it may move", objects = base, settings = { drivers = { "csi.example.com" }, single_instance = "move" },
         responses = says({ currentPrimary = "orders-1", targetPrimary = "orders-1" }, { instances = 1 }),
         expect = { verdict = both, reason = "its node is down, and it is the only instance" } },
  case { name = "without a number it is the only one", objects = base, settings = usual,
         responses = says({ currentPrimary = "orders-2", targetPrimary = "orders-2" }, {}),
         expect = { verdict = "wait", reason = "~the only instance" } },

  case { name = "with proof and release", objects = base, responses = primary("orders-2", "orders-2"),
         settings = { drivers = { "csi.example.com" }, require_proof = true, release = true },
         expect = { verdict = both, proof = { "off", "isolated", "attested" }, release = true } },
  case { name = "a driver that is not named", objects = base, responses = primary("orders-2", "orders-2"),
         expect = { verdict = "wait", reason = "~is not in setting drivers" } },
  case { name = "a claim that leads nowhere", objects = base, settings = usual, responses = primary("orders-2", "orders-2"),
         patch = { ["pod.claims[2].state"] = "claim_missing" },
         expect = { verdict = "wait", reason = "claim wal-orders-1 is claim_missing" } },
  case { name = "a shared volume", objects = base, settings = usual, responses = primary("orders-2", "orders-2"),
         patch = { ["pod.claims[1].access_modes"] = { "ReadWriteMany" } },
         expect = { verdict = "wait", reason = "~is not ReadWriteOnce" } },
  case { name = "a volume without access modes", objects = base, settings = usual, responses = primary("orders-2", "orders-2"),
         patch = { ["pod.claims[1].access_modes"] = {} }, expect = { verdict = "wait", reason = "~is not ReadWriteOnce" } },
  case { name = "without a claim", objects = base, settings = usual, responses = primary("orders-2", "orders-2"),
         patch = { ["pod.raw.spec.volumes"] = false }, expect = { verdict = "wait", reason = "it has no claim" } },

  case { name = "a Cluster that is gone", objects = base, settings = usual, responses = { [request] = { status = 404 } },
         expect = { verdict = "wait", reason = "its Cluster says nothing about its instances" } },
  case { name = "another Cluster of its name", objects = base, settings = usual,
         responses = says({ currentPrimary = "orders-2", targetPrimary = "orders-2" }, nil, { uid = "other-uid" }),
         expect = { verdict = "wait", reason = "~says nothing" } },
  case { name = "a Cluster without a status", objects = base, settings = usual, responses = says(nil),
         expect = { verdict = "wait", reason = "~says nothing" } },
  case { name = "while it cannot be read nothing is judged", objects = base, settings = usual, responses = says(nil),
         fail = { "fetch" }, expect = { outcome = "deferred" } },
  case { name = "a pod that only has the label", objects = base, settings = usual, patch = { ["pod.owner.kind"] = "StatefulSet" },
         expect = { verdict = "skip", reason = "no Cluster of CloudNativePG owns it" } },
  case { name = "a Cluster of another group", objects = base, settings = usual,
         patch = { ["pod.owner.api_version"] = "example.com/v1" }, expect = { verdict = "skip" } },
  case { name = "a pooler is not asked about", objects = base, settings = usual,
         patch = { ['pod.labels["cnpg.io/podRole"]'] = "pooler" }, expect = { outcome = "not_selected" } },
}
