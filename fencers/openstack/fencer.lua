-- Asks OpenStack's Nova for the state of a node's server, and stops it. Its API: https://docs.openstack.org/api-ref/compute.
-- Nova says what its database holds. Whether the compute host that wrote it is alive says `host_status`, which needs microversion 2.16
-- and a right that by default only administrators have.

-- What lies below these keys; nil where it is not there.
local function at(value, ...)
  for i = 1, select("#", ...) do
    if type(value) ~= "userdata" then
      return nil
    end
    value = value[select(i, ...)]
  end
  return value
end

local function is_uuid(text)
  local groups = text:split("-")
  for _, group in ipairs(groups) do
    for i = 1, #group do
      local byte = group:byte(i)
      if not (byte >= 48 and byte <= 57 or byte >= 97 and byte <= 102) then
        return false
      end
    end
  end
  return #text == 36 and #groups == 5 and #groups[1] == 8 and #groups[2] == 4 and #groups[3] == 4 and #groups[4] == 4
end

-- The UUID in openstack:///UUID or openstack://REGION/UUID; nil, and why.
local function id_of(node, s)
  local given = node.provider_id
  local parts = given:starts_with("openstack://") and given:sub(13):split("/") or {}
  if #parts ~= 2 or not is_uuid(parts[2]) then
    return nil, "its providerID is '" .. given .. "'; expected is openstack:///UUID or openstack://REGION/UUID"
  end
  if s.region ~= "" and parts[1] ~= "" and parts[1] ~= s.region then
    return nil, "it is in region '" .. parts[1] .. "', and this fencer asks that of " .. s.region
  end
  return parts[2]
end

return fencer {
  api = 1,
  name = "openstack",
  version = "0.1.0",
  summary = "Reads the state of a server from OpenStack, and stops it",
  doc = "The endpoint has the url of Nova, such as https://HOST:8774/v2.1, and a login at Keystone with an application credential.",
  settings = {
    endpoint = { type = "string", default = "openstack", doc = "Name of the endpoint." },
    region = { type = "string", default = "", doc = "The region that the endpoint is; without it any region of a providerID." },
    host_status = {
      type = "boolean",
      default = true,
      doc = "Whether Nova must say that the compute host is up. Without it a server counts as off by the word of a host that may be dead.",
    },
    system_uuid = {
      type = "boolean",
      default = true,
      doc = "Whether the kubelet must report the server's id as its UUID. Only for drivers of Nova that give machines another one: false.",
    },
  },
  plan = function(node, s, got)
    local id = id_of(node, s)
    if id and not got.server then
      return { server = fence.try(fence.http(s.endpoint, "/servers", id)) }
    end
  end,
  state = function(node, s, got)
    local id, why = id_of(node, s)
    if not id then
      return "failed", why
    end
    local answer = got.server
    if answer.error == "unauthorized" or answer.status == 401 then
      return "failed", answer.message .. ": put a valid application credential into the files of endpoint " .. s.endpoint
    elseif answer.status == 403 then
      return "failed", answer.message .. ": the application credential of endpoint " .. s.endpoint .. " may not read servers"
    elseif answer.error then
      return "unknown", answer.message
    elseif answer.status == 404 then
      return "unknown", "there is no server " .. id .. ": it is deleted, the credential is one of another project, "
        .. "or the url of endpoint " .. s.endpoint .. " is wrong (it ends in /v2.1)"
    end
    local server = at(answer.body, "server")
    if at(server, "id") ~= id then
      return "failed", "the answer is about server " .. tostring(at(server, "id")) .. ", asked was for " .. id
    end
    if s.system_uuid and node.system_uuid:lower() ~= id then
      return "failed", "server " .. id .. " is not the machine that is this node now, or that cannot be told: the kubelet reported '"
        .. node.system_uuid .. "'. Compare the node's providerID, or set system_uuid to false where Nova gives machines another UUID"
    end
    local status, power = tostring(at(server, "status")), at(server, "OS-EXT-STS:power_state")
    local task, host = at(server, "OS-EXT-STS:task_state"), at(server, "host_status")
    local said = "status " .. status .. ", power_state " .. tostring(power)
    if task ~= nil then
      return "unknown", said .. ", task_state " .. tostring(task)
    end
    -- Before `on` too: an order to a dead compute host is done when it is back, hours later.
    if host == nil and s.host_status then
      return "unknown", said .. "; Nova does not say whether the compute host is up: give the endpoint the header "
        .. "X-OpenStack-Nova-API-Version 2.16 and its user the right to see host_status, or set host_status to false"
    end
    if host ~= nil and host ~= "UP" then
      return "unknown", said .. ", but the compute host is " .. tostring(host) .. ": it is what it last said"
    end
    if status == "ACTIVE" and power == 1 then
      return "on", said
    elseif status == "SHUTOFF" and power == 4 then
      return "off", said .. (host and ", host_status UP" or "")
    end
    return "unknown", said
  end,
  -- The operating system is asked first; the compute host cuts the power after its shutdown_timeout, 60 s by default. Nova takes any value.
  off = function(node, s)
    return fence.post(s.endpoint, "/servers", { ["os-stop"] = true }, id_of(node, s), "action")
  end,
}
