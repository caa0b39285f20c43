-- orders-0 of a StatefulSet on node-1, which is down; its two claims are of LINSTOR, with replicas on node-2.
local orders = fixture "testdata/orders.json"
local both = "delete_pod_and_attachments"
local volumes = { "pvc-e31312fa-6550-4d0b-8b89-57a3e8f0fd3a", "pvc-9f073aa2-988a-43f0-8ff3-495e6b5b7ac3" }

-- Its two claims, and one more volume.
local function beside(source)
  source.name = "more"
  return { ["pod.raw.spec.volumes"] = {
    { name = "data", persistentVolumeClaim = { claimName = "data-orders-0" } },
    { name = "wal", persistentVolumeClaim = { claimName = "wal-orders-0" } }, source } }
end

-- A replica on a node, as GET /v1/view/resources has it.
local function replica(node, may_promote, connected, in_use)
  return { node_name = node, state = { in_use = in_use },
           layer_object = { drbd = { may_promote = may_promote, connections = { ["node-1"] = { connected = connected } } } } }
end

-- What LINSTOR says of both volumes.
local function says(resources, quorum, status)
  local responses = {}
  for _, volume in ipairs(volumes) do
    responses["http linstor /v1/view/resources?resources=" .. volume] = { status = status or 200, body = resources }
    responses["http linstor /v1/resource-definitions/" .. volume] = {
      status = 200, body = { props = { ["DrbdOptions/Resource/quorum"] = quorum or "majority" } } }
  end
  return responses
end

local usual = says { replica("node-1", false, true), replica("node-2", true, false) }
local unknown = says({ replica("node-2", true, false) })
unknown["http linstor /v1/resource-definitions/" .. volumes[1]] = { status = 404 }
local bare = says({ replica("node-2", true, false) })
bare["http linstor /v1/resource-definitions/" .. volumes[1]] = { status = 200, body = "?" }

return tests {
  case { name = "a survivor may be promoted", objects = orders, responses = usual,
         expect = { verdict = both, volumes = { "data-orders-0", "wal-orders-0" }, proof = {} } },
  case { name = "one of several", objects = orders,
         responses = says { replica("node-2", false, false), replica("node-3", true, false) }, expect = { verdict = both } },
  case { name = "with proof", objects = orders, responses = usual, settings = { require_proof = true },
         expect = { verdict = both, proof = { "off", "isolated", "attested" } } },
  case { name = "no survivor may be promoted", objects = orders, responses = says { replica("node-2", false, false) },
         expect = { verdict = "wait", reason = "claim data-orders-0: no survivor may be promoted" } },
  case { name = "the old primary is still connected", objects = orders, responses = says { replica("node-2", true, true) },
         expect = { verdict = "wait", reason = "~no survivor may be promoted" } },
  case { name = "a connection that nobody tells of", objects = orders, responses = says { { node_name = "node-2", layer_object = { drbd = { may_promote = true } } } },
         expect = { verdict = "wait", reason = "~no survivor may be promoted" } },
  case { name = "only the lost node may", objects = orders, responses = says { replica("node-1", true, false) },
         expect = { verdict = "wait", reason = "~no survivor may be promoted" } },
  case { name = "somebody else uses it already", objects = orders,
         responses = says { replica("node-2", true, false), replica("node-3", false, false, true) },
         expect = { verdict = "wait", reason = "claim data-orders-0: it is in use on node-3" } },
  case { name = "replicas without a name", objects = orders, responses = says { { state = {} } },
         expect = { verdict = "wait", reason = "~no survivor may be promoted" } },
  case { name = "without quorum both may write", objects = orders, responses = says({ replica("node-2", true, false) }, "off"),
         expect = { verdict = "wait", reason = "quorum of the volume of claim data-orders-0 is not majority" } },
  case { name = "a definition that is not there", objects = orders, responses = unknown,
         expect = { verdict = "wait", reason = "~is not majority" } },
  case { name = "a definition of another form", objects = orders, responses = bare,
         expect = { verdict = "wait", reason = "~is not majority" } },
  case { name = "LINSTOR does not know it", objects = orders, responses = says({}, nil, 404),
         expect = { verdict = "wait", reason = "LINSTOR does not know the volume of claim data-orders-0" } },
  case { name = "while LINSTOR does not answer nothing is judged", objects = orders, responses = usual, fail = { "fetch" },
         expect = { outcome = "deferred" } },

  case { name = "it may say that it stays", objects = orders, responses = usual,
         patch = { ['pod.annotations["drbd.linbit.com/ignore-fail-over"]'] = "" }, expect = { verdict = "skip", reason = "~ignore-fail-over" } },
  case { name = "or not say so", objects = orders, responses = usual,
         patch = { ['pod.annotations["drbd.linbit.com/ignore-fail-over"]'] = false }, expect = { verdict = both } },
  case { name = "one volume of another driver keeps it", objects = orders, responses = usual,
         patch = { ["pod.claims[2].driver"] = "csi.example.com" },
         expect = { verdict = "skip", reason = "~of driver 'csi.example.com'" } },
  case { name = "a volume with two primaries keeps it", objects = orders, responses = usual,
         patch = { ["pod.claims[1].access_modes"] = { "ReadWriteOnce", "ReadWriteMany" } },
         expect = { verdict = "skip", reason = "volume of claim data-orders-0 is not ReadWriteOnce alone" } },
  case { name = "a claim that leads nowhere is waited for", objects = orders, responses = usual,
         patch = { ["pod.claims[1].state"] = "unbound" }, expect = { verdict = "wait", reason = "claim data-orders-0 is unbound" } },
  case { name = "a directory of the lost machine keeps it", objects = orders, responses = usual,
         patch = beside { hostPath = { path = "/srv" } }, expect = { verdict = "skip", reason = "it has a volume of kind hostPath" } },
  case { name = "without claims there is nothing to promote", objects = orders, patch = { ["pod.raw.spec.volumes"] = false },
         expect = { verdict = "skip", reason = "it has no claim" } },
  case { name = "a Job's pod is left", objects = orders, responses = usual, patch = { ["pod.owner.kind"] = "Job" },
         expect = { verdict = "skip", reason = "owner kind 'Job' is not in setting kinds" } },
}
