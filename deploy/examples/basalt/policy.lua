-- Basalt expels a host that its other hosts have lost, and takes back the leases by which that host could write
-- to volumes. A pod of an expelled host is moved once none of its volumes is leased to it any more and each has a
-- current copy elsewhere. Kubernetes' own Ready plays no part.
local driver = "csi.basalt.example.com"

-- A suspect may come back by itself, and whatever else Basalt may call a host says nothing to us.
local host_states = { up = "healthy", expelled = "failed" }

local kinds = { "StatefulSet", "ReplicaSet" }
local pages = 4 -- as many as there are rounds; a host on a later one is not named, and so not acted on

local function page_name(number)
  return "page " .. number
end

local function of_basalt(pod)
  local mine = {}
  for _, claim in ipairs(pod.claims) do
    if claim.driver == driver then
      table.insert(mine, claim)
    end
  end
  return mine
end

local function unresolved_claim(pod)
  for _, claim in ipairs(pod.claims) do
    if claim.state ~= "bound" then
      return claim
    end
  end
end

-- ---- what Basalt says ----------------------------------------------------------------------------

local function has_copy_elsewhere(volume, node)
  for _, copy in ipairs(volume.copies) do
    if copy.state == "current" and copy.host ~= node then
      return true
    end
  end
  return false
end

-- Why a volume may not be used by another node yet; nil when it may.
local function obstacle(pod, claim)
  local answer = pod.fetched[claim.handle]
  if answer.status ~= 200 then
    return "not known to Basalt"
  end
  local volume = answer.body
  if volume.lease and volume.lease.host == pod.node_name then
    return "still leased to " .. pod.node_name
  end
  if not has_copy_elsewhere(volume, pod.node_name) then
    return "without a current copy elsewhere"
  end
end

return policy {
  api = 1,
  name = "basalt",
  version = "1.0.0",
  summary = "Move pods of a host that Basalt has expelled, once their volumes are safe elsewhere",
  select = { labels = "basalt.example.com/stay!=true" },
  needs = { "volumes" },

  settings = {
    endpoint = {
      type = "string", default = "basalt", doc = "Name of the endpoint in the engine's configuration",
    },
    poll_interval = {
      type = "duration", default = "5s", min = "2s", max = "10m", doc = "How often Basalt is asked for its hosts",
    },
    recheck = {
      type = "duration", default = "5s", min = "1s", max = "10m",
      doc = "When a pod that waits for its volumes is looked at again",
    },
  },

  source = function(s)
    return {
      every = s.poll_interval,
      expiry = "1h",
      plan = function(s, got)
        local after = {}
        for number = 1, pages do
          local page = got[page_name(number)]
          if not page then
            return { [page_name(number)] = fence.http(s.endpoint, "/api/v1/hosts", after) }
          end
          if not page.body.next then
            return nil
          end
          after = { after = page.body.next }
        end
      end,
      nodes = function(_, got)
        local states = {}
        for _, name in ipairs(table.keys(got)) do
          for _, host in ipairs(got[name].body.hosts or {}) do
            states[host.name] = host_states[host.state] or "unknown"
          end
        end
        return states
      end,
    }
  end,

  -- At most eight at a time: called again with the answers until all are known.
  fetch = function(pod, s, got)
    local wanted, count = {}, 0
    for _, claim in ipairs(of_basalt(pod)) do
      if not got[claim.handle] and count < 8 then
        wanted[claim.handle] = fence.http(s.endpoint, "/api/v1/volumes", claim.handle)
        count = count + 1
      end
    end
    return wanted
  end,

  pod = function(pod, s)
    if not table.contains(kinds, pod.owner.kind) then
      return fence.skip("owner kind '" .. pod.owner.kind .. "' is neither StatefulSet nor ReplicaSet")
    end
    local open = unresolved_claim(pod)
    if open then
      return fence.wait("claim " .. open.claim .. " is " .. open.state .. "; its driver is not known", s.recheck)
    end
    local mine = of_basalt(pod)
    if #mine == 0 then
      return fence.skip("no volume of Basalt")
    end
    for _, claim in ipairs(mine) do
      local why = obstacle(pod, claim)
      if why then
        return fence.wait("volume of claim " .. claim.claim .. " is " .. why, s.recheck)
      end
    end
    return fence.delete_pod_and_attachments("Basalt has expelled its host; its volumes are safe elsewhere", mine)
  end,
}
