-- orders-0 of a StatefulSet on node-1, which is down; its two claims are of Mayastor, with replicas on three nodes.
local orders = fixture "testdata/orders.json"
local both = "delete_pod_and_attachments"
local volumes = { "pvc-e31312fa-6550-4d0b-8b89-57a3e8f0fd3a", "pvc-9f073aa2-988a-43f0-8ff3-495e6b5b7ac3" }

-- What Mayastor says of the node and of both volumes.
local function says(node, status, replicas, code)
  local responses = { ["http mayastor /v0/nodes/node-1"] = { status = code or 200, body = { state = { status = node } } } }
  for _, volume in ipairs(volumes) do
    responses["http mayastor /v0/volumes/" .. volume] = {
      status = code or 200, body = { state = { status = status, replica_topology = replicas } } }
  end
  return responses
end

local spread = { a = { node = "node-1", state = "Unknown" }, b = { node = "node-2", state = "Online" },
                 c = { node = "node-3", state = "Online" } }
local own = { a = { node = "node-1", state = "Online" }, b = { node = "node-2", state = "Faulted" } }
local text = says("Offline")
text["http mayastor /v0/volumes/" .. volumes[1]].body = "<html>"
local usual = says("Offline", "Degraded", spread)

return tests {
  case { name = "a volume with replicas elsewhere", objects = orders, responses = usual,
         expect = { verdict = both, volumes = { "data-orders-0", "wal-orders-0" }, proof = {} } },
  case { name = "that nobody has published yet", objects = orders, responses = says("Offline", "Unknown", spread), expect = { verdict = both } },
  case { name = "as many replicas as are asked for", objects = orders, responses = usual, settings = { min_online_replicas = 2 },
         expect = { verdict = both } },
  case { name = "fewer than that", objects = orders, responses = usual, settings = { min_online_replicas = 3 },
         expect = { verdict = "wait", reason = "the volume of claim data-orders-0 has 2 replicas online elsewhere" } },
  case { name = "the only replica is on the lost node", objects = orders, responses = says("Offline", "Degraded", own),
         expect = { verdict = "wait", reason = "~has 0 replicas online elsewhere" } },
  case { name = "replicas that nobody tells of", objects = orders, responses = says("Offline", "Online"),
         expect = { verdict = "wait", reason = "~has 0 replicas online elsewhere" } },
  case { name = "Mayastor hears the node", objects = orders, responses = says("Online", "Degraded", spread),
         expect = { verdict = "wait", reason = "Mayastor calls its node Online", seconds = 5 } },
  case { name = "Mayastor is not sure", objects = orders, responses = says("Unknown", "Degraded", spread),
         expect = { verdict = "wait", reason = "Mayastor calls its node Unknown" } },
  case { name = "Mayastor does not know the node", objects = orders, responses = says(nil, nil, nil, 404),
         expect = { verdict = "wait", reason = "Mayastor calls its node not known" } },
  case { name = "an answer of another form", objects = orders, responses = says(), expect = { verdict = "wait", reason = "~not known" } },
  case { name = "a volume that is faulted", objects = orders, responses = says("Offline", "Faulted", spread),
         expect = { verdict = "wait", reason = "the volume of claim data-orders-0 is Faulted" } },
  case { name = "a volume that is shut down", objects = orders, responses = says("Offline", "Shutdown", spread),
         expect = { verdict = "wait", reason = "~is Shutdown" } },
  case { name = "a volume that says nothing", objects = orders, responses = says("Offline"),
         expect = { verdict = "wait", reason = "the volume of claim data-orders-0 is not known" } },
  case { name = "a volume that is a text", objects = orders, responses = text, expect = { verdict = "wait", reason = "~is not known" } },
  case { name = "while Mayastor does not answer nothing is judged", objects = orders, responses = usual, fail = { "fetch" },
         expect = { outcome = "deferred" } },

  case { name = "one volume of another driver keeps it", objects = orders, responses = usual,
         patch = { ["pod.claims[2].driver"] = "csi.example.com" },
         expect = { verdict = "skip", reason = "~of driver 'csi.example.com'" } },
  case { name = "a claim that leads nowhere is waited for", objects = orders, responses = usual,
         patch = { ["pod.claims[1].state"] = "unbound" }, expect = { verdict = "wait", reason = "claim data-orders-0 is unbound" } },
  case { name = "a directory of the lost machine keeps it", objects = orders, responses = usual,
         patch = { ["pod.raw.spec.volumes"] = {
           { name = "data", persistentVolumeClaim = { claimName = "data-orders-0" } },
           { name = "wal", persistentVolumeClaim = { claimName = "wal-orders-0" } },
           { name = "more", hostPath = { path = "/srv" } } } },
         expect = { verdict = "skip", reason = "it has a volume of kind hostPath" } },
  case { name = "without claims there is nothing of Mayastor", objects = orders, patch = { ["pod.raw.spec.volumes"] = false },
         expect = { verdict = "skip", reason = "it has no claim" } },
  case { name = "a Job's pod is left", objects = orders, responses = usual, patch = { ["pod.owner.kind"] = "Job" },
         expect = { verdict = "skip", reason = "owner kind 'Job' is not in setting kinds" } },
}
