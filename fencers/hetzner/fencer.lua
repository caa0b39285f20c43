-- Asks Hetzner Cloud for the state of a node's server, and powers it off. Its API: https://docs.hetzner.cloud.
-- The cloud controller manager writes `hcloud://ID` into the Node. A server that is made anew under the old name has another id.

local function is_number(text)
  for i = 1, #text do
    local byte = text:byte(i)
    if byte < 48 or byte > 57 then
      return false
    end
  end
  return #text >= 1 and #text <= 18 and text:byte(1) ~= 48
end

-- The number in `hcloud://ID`; nil, and why.
local function id_of(node)
  local given = node.provider_id
  local id = given:starts_with("hcloud://") and given:sub(10) or ""
  if is_number(id) then
    return tonumber(id)
  end
  if given:starts_with("hrobot://") or given:starts_with("hcloud://bm-") then
    return nil, "it is a dedicated server (" .. given .. "), which this API does not know: bind another fencer to it"
  end
  return nil, "its providerID is '" .. given .. "'; expected is hcloud://ID, by Hetzner's cloud controller manager"
end

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

return fencer {
  api = 1,
  name = "hetzner",
  version = "0.1.0",
  summary = "Reads the state of a server from Hetzner Cloud, and powers it off",
  doc = "The endpoint has the url https://api.hetzner.cloud/v1 and authentication of type bearer.",
  settings = {
    endpoint = { type = "string", default = "hetzner", doc = "Name of the endpoint." },
  },
  plan = function(node, s, got)
    local id = id_of(node)
    if id and not got.server then
      return { server = fence.try(fence.http(s.endpoint, "/servers", id)) }
    end
  end,
  state = function(node, s, got)
    local id, why = id_of(node)
    if not id then
      return "failed", why
    end
    local answer = got.server
    if answer.error == "unauthorized" or answer.status == 401 then
      return "failed", answer.message .. ": put a token that is valid into the tokenFile of endpoint " .. s.endpoint
    elseif answer.status == 403 then
      return "failed", answer.message .. ": the token of endpoint " .. s.endpoint .. " lacks the right to read servers"
    elseif answer.error then
      return "unknown", answer.message
    elseif answer.status == 404 then
      return "unknown", "there is no server " .. id .. ": it is deleted, the token is one of another project, or the url of endpoint "
        .. s.endpoint .. " is wrong (it ends in /v1)"
    end
    if at(answer.body, "server", "id") ~= id then
      return "failed", "the answer is about server " .. tostring(at(answer.body, "server", "id")) .. ", asked was for " .. id
    end
    if at(answer.body, "server", "name") ~= node.name then
      return "failed", "server " .. id .. " is called " .. tostring(at(answer.body, "server", "name")) .. ", which is not this node"
    end
    local status = tostring(at(answer.body, "server", "status"))
    if status == "running" then
      return "on", "status running"
    elseif status == "off" then
      return "off", "status off"
    end
    return "unknown", "status " .. status
  end,
  -- Not shutdown, which asks the operating system.
  off = function(node, s)
    return fence.post(s.endpoint, "/servers", {}, id_of(node), "actions", "poweroff")
  end,
}
