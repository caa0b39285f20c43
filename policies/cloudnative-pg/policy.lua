-- CloudNativePG elects another primary by itself; what it cannot do is start an instance again whose
-- pod hangs on a dead node. Who is primary stands in the Cluster, not in the labels of a dead pod. A
-- primary is left alone until the operator has promoted another one: deleted earlier, it comes back as
-- the primary, and what the operator was about to promote is a replica again.
local again = 5 -- seconds

local single_node_modes = { "ReadWriteOnce", "ReadWriteOncePod" }

local function is_exclusive(volume)
  for _, mode in ipairs(volume.access_modes) do
    if not table.contains(single_node_modes, mode) then
      return false
    end
  end
  return #volume.access_modes > 0
end

-- What keeps the pod as far as its volumes go; "" when nothing does.
local function unfit(pod, s)
  for _, claim in ipairs(pod.claims) do
    if claim.state ~= "bound" then
      return "claim " .. claim.claim .. " is " .. claim.state
    end
    if not table.contains(s.drivers, claim.driver) then
      return "driver '" .. claim.driver .. "' of claim " .. claim.claim .. " is not in setting drivers"
    end
    if not is_exclusive(claim) then
      return "volume of claim " .. claim.claim .. " is not ReadWriteOnce"
    end
  end
  return #pod.claims == 0 and "it has no claim" or ""
end

-- What the operator is doing now, if nobody should come between; "" otherwise.
local function busy(cluster)
  local fenced = (cluster.metadata.annotations or {})["cnpg.io/fencedInstances"]
  if fenced and fenced ~= "[]" then
    return "instances are fenced by annotation cnpg.io/fencedInstances"
  end
  local phase = cluster.status.phase or ""
  local lower = phase:lower()
  if lower:contains("upgrad") or lower:contains("switchover") or lower:contains("restart") then
    return "its Cluster says: " .. phase
  end
  return ""
end

return policy {
  api = 1,
  name = "cloudnative-pg",
  version = "1.0.0",
  summary = "Move instances of CloudNativePG: replicas at once, a primary once another one is elected",
  select = { labels = "cnpg.io/podRole=instance" },
  needs = { "volumes" },

  settings = {
    drivers = {
      type = "list", of = "string", default = {},
      doc = "CSI drivers whose unpublished volumes cannot be written to; declare them to the engine too",
    },
    single_instance = {
      type = "enum", default = "wait", values = { "wait", "move" },
      doc = "What is done about a Cluster of one instance, which nobody else can take over for",
    },
    require_proof = {
      type = "boolean", default = false,
      doc = "Act only once the machine is known to be off or isolated, or somebody attests it",
    },
    release = {
      type = "boolean", default = false,
      doc = "Release the volumes to the next node once every attachment is gone, not after six minutes",
    },
  },

  trigger = { failures = 1, live_kubelet = false, deleted = false, sweep = true },

  fetch = function(pod, s, got)
    if got.cluster or pod.owner.kind ~= "Cluster" or pod.owner.api_group ~= "postgresql.cnpg.io" then
      return nil
    end
    return { cluster = fence.get("postgresql.cnpg.io/v1", "clusters", pod.namespace, pod.owner.name) }
  end,

  pod = function(pod, s)
    if pod.owner.kind ~= "Cluster" or pod.owner.api_group ~= "postgresql.cnpg.io" then
      return fence.skip("no Cluster of CloudNativePG owns it")
    end
    local fault = unfit(pod, s)
    if fault ~= "" then
      return fence.wait(fault, again)
    end
    local answer = pod.fetched.cluster
    local cluster = answer.status == 200 and answer.body
    if not cluster or cluster.metadata.uid ~= pod.owner.uid or not cluster.status then
      return fence.wait("its Cluster says nothing about its instances", again)
    end
    local doing = busy(cluster)
    if doing ~= "" then
      return fence.wait(doing, again)
    end
    local instances = cluster.spec.instances or 1
    if instances > 1 then
      local current, target = cluster.status.currentPrimary, cluster.status.targetPrimary
      if not current or not target then
        return fence.wait("its Cluster names no primary", again)
      end
      if pod.name == target then
        return fence.wait("it is the primary, and no other one is elected yet", again)
      end
      if pod.name == current then
        return fence.wait("it was the primary; " .. target .. " is not promoted yet", again)
      end
    elseif s.single_instance == "wait" then
      return fence.wait("it is the only instance; setting single_instance is wait", again)
    end
    return fence.delete_pod_and_attachments(
      instances > 1 and "its node is down, and another instance is the primary"
                     or "its node is down, and it is the only instance",
      { release = s.release, proof = s.require_proof and { "off", "isolated", "attested" } or nil })
  end,
}
