-- StorageOS (Ondat) notices by itself that a node is lost and makes a replica elsewhere the master of each
-- volume. A pod that asks for it is then moved: never before StorageOS calls the node offline, and never
-- while one of its volumes has no master that is online. Kubernetes' own Ready plays no part.
local driver = "csi.storageos.com"
local label = "storageos.com/fenced"

-- What Go's ParseBool takes for true and for false.
local truths = { "1", "t", "T", "TRUE", "true", "True" }
local falsehoods = { "0", "f", "F", "FALSE", "false", "False" }

local node_states = { online = "healthy", offline = "failed" }

-- The claim's annotation decides; a claim without one was provisioned by hand, and its volume does.
local function is_ours(claim)
  if claim.provisioner ~= "" then
    return claim.provisioner == driver
  end
  return claim.driver == driver
end

local function our_volumes(pod)
  local ours = {}
  for _, claim in ipairs(pod.claims) do
    if is_ours(claim) and claim.pv ~= "" then
      table.insert(ours, claim)
    end
  end
  return ours
end

local function missing_claim(pod)
  for _, claim in ipairs(pod.claims) do
    if claim.state == "claim_missing" then
      return claim
    end
  end
end

-- ---- what StorageOS says -------------------------------------------------------------------------

local function list_in(answer)
  return answer.status == 200 and answer.body or {}
end

local function namespace_id(answer, name)
  for _, namespace in ipairs(list_in(answer)) do
    if namespace.name == name then
      return namespace.id
    end
  end
end

-- StorageOS' volume of a claim: called like the volume's handle, or like the PersistentVolume.
local function volume_of(answer, claim)
  local like_pv
  for _, volume in ipairs(list_in(answer)) do
    if volume.name == claim.handle then
      return volume
    end
    if volume.name == claim.pv then
      like_pv = volume
    end
  end
  return like_pv
end

-- The state of a volume's master, in words.
local function health_of(pod, claim)
  if not pod.fetched.volumes then
    return "in a namespace that StorageOS does not know"
  end
  local volume = volume_of(pod.fetched.volumes, claim)
  if not volume then
    return "not known to StorageOS"
  end
  return volume.master and volume.master.health or "without a master"
end

return policy {
  api = 1,
  name = "storageos",
  version = "1.0.0",
  summary = "Move labelled pods of a node that StorageOS calls offline, once their volumes are healthy elsewhere",
  select = { labels = label },
  needs = { "volumes" },

  settings = {
    endpoint = {
      type = "string", default = "storageos",
      doc = "Name of the endpoint in the engine's configuration: the StorageOS REST API",
    },
    poll_interval = {
      type = "duration", default = "5s", min = "5s", max = "1h", clamp = true,
      doc = "How often StorageOS is asked for its nodes",
    },
    node_expiry = {
      type = "duration", default = "1h", min = "5s", max = "24h",
      doc = "When a node that has not changed is looked at again",
    },
    recheck = {
      type = "duration", default = "5s", min = "1s", max = "1h",
      doc = "When a pod that waits for its volumes is looked at again",
    },
  },

  source = function(s)
    return {
      every = s.poll_interval,
      expiry = s.node_expiry,
      plan = function(s, got)
        if not got.nodes then
          return { nodes = fence.http(s.endpoint, "/v2/nodes") }
        end
      end,
      nodes = function(_, got)
        local states = {}
        for _, node in ipairs(list_in(got.nodes)) do
          local state = node_states[node.health] or "unknown"
          -- A node that came back under another id: two entries that contradict each other say nothing.
          if states[node.name] and states[node.name] ~= state then
            state = "unknown"
          end
          states[node.name] = state
        end
        return states
      end,
    }
  end,

  fetch = function(pod, s, got)
    if #our_volumes(pod) == 0 or missing_claim(pod) or not table.contains(truths, pod.labels[label]) then
      return nil
    end
    if not got.namespaces then
      return { namespaces = fence.http(s.endpoint, "/v2/namespaces") }
    end
    local id = namespace_id(got.namespaces, pod.namespace)
    if id and not got.volumes then
      return { volumes = fence.http(s.endpoint, "/v2/namespaces", id, "volumes") }
    end
  end,

  pod = function(pod, s)
    local wish = pod.labels[label]
    if table.contains(falsehoods, wish) then
      return fence.skip("label " .. label .. " says no")
    end
    if not table.contains(truths, wish) then
      log.warn("label " .. label .. " of pod " .. pod.namespace .. "/" .. pod.name .. " is neither true nor false")
      return fence.skip("label " .. label .. " is neither true nor false")
    end
    local missing = missing_claim(pod)
    if missing then
      return fence.wait("claim " .. missing.claim .. " does not exist", s.recheck)
    end
    local ours = our_volumes(pod)
    if #ours == 0 then
      return fence.skip("no bound StorageOS volume")
    end
    for _, claim in ipairs(ours) do
      local health = health_of(pod, claim)
      if health ~= "online" then
        return fence.wait("volume of claim " .. claim.claim .. " is " .. health, s.recheck)
      end
    end
    return fence.delete_pod_and_attachments("all its StorageOS volumes are online without this node", ours)
  end,
}
