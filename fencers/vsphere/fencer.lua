-- Asks vCenter for the power of the virtual machine that a node is, and powers it off. Its API, of version 7 and later:
-- https://developer.broadcom.com/xapis/vsphere-automation-api. There is no search by UUID: machines are listed by name, and the one with
-- the node's BIOS UUID is it. vCenter shows of a host that it has lost what it knew last, so the machine must be on none of these.

-- Of one name in several folders, and hosts that are lost: one request each, and a round has at most eight.
local most = 6

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

local function digits(uuid)
  return table.concat(tostring(uuid):lower():split("-"), "")
end

-- Some versions of virtual hardware report the first three groups with their bytes in the other order.
local function swapped(uuid)
  local function reversed(from, to)
    local bytes = ""
    for i = to - 1, from, -2 do
      bytes = bytes .. uuid:sub(i, i + 1)
    end
    return bytes
  end
  return reversed(1, 8) .. reversed(9, 12) .. reversed(13, 16) .. uuid:sub(17)
end

-- The digits of the UUID in vsphere://UUID, or without a providerID of the one that the kubelet reported; nil, and why.
local function uuid_of(node)
  local given = node.provider_id
  local uuid = given == "" and digits(node.system_uuid) or given:starts_with("vsphere://") and digits(given:sub(11)) or ""
  if #uuid ~= 32 then
    return nil, "its providerID is '" .. given .. "'; expected is vsphere://UUID, or none and a UUID by the kubelet"
  end
  return uuid
end

-- Its word and why, when it is no good answer.
local function fault_of(answer, s)
  if answer.error == "unauthorized" or answer.status == 401 then
    return "failed", answer.message .. ": put the name and the password of a user of vCenter into the files of endpoint " .. s.endpoint
  elseif answer.status == 403 then
    return "failed", answer.message .. ": the user of endpoint " .. s.endpoint .. " needs System.Read on machines and hosts"
  elseif answer.error then
    return "unknown", answer.message
  elseif answer.status == 404 then
    return "unknown", "vCenter does not know what was asked for"
  end
end

-- The ids in a list of objects, at most `most`; nil and why. What is no list has no length: that is an error, and no empty list.
local function ids_in(list, key, fits)
  local ids = {}
  for i = 1, #list do
    local each = list[i]
    if fits(each) then
      local id = at(each, key)
      if type(id) ~= "string" or #ids == most then
        return nil, "more than " .. most .. " that matter, or an answer that is none"
      end
      table.insert(ids, id)
    end
  end
  return ids
end

local function machines_in(got)
  return ids_in(got.machines.body, "vm", function()
    return true
  end)
end

-- Those hosts that vCenter does not hear. A user who may see no host learns nothing of any.
local function lost_in(got)
  if #got.hosts.body == 0 then
    return nil, "none is listed: the user of the endpoint needs System.Read on all of them"
  end
  return ids_in(got.hosts.body, "host", function(each)
    return at(each, "connection_state") ~= "CONNECTED"
  end)
end

-- The machine with the UUID, of those that were read.
local function machine_of(got, uuid)
  local found
  for _, id in ipairs(machines_in(got) or {}) do
    local answer = got[id]
    local theirs = digits(answer and not answer.error and at(answer.body, "identity", "bios_uuid"))
    if theirs == uuid or #theirs == 32 and swapped(theirs) == uuid then
      if found then
        return nil, "several machines have its UUID"
      end
      found = id
    end
  end
  return found, not found and "no machine of that name has its BIOS UUID" or nil
end

local function read_machines(s, got)
  local wanted
  for _, id in ipairs(machines_in(got) or {}) do
    if not got[id] then
      wanted = wanted or {}
      wanted[id] = fence.try(fence.http(s.endpoint, "/api/vcenter/vm", id))
    end
  end
  return wanted
end

local function read_lost_hosts(s, got, id)
  local wanted
  for _, host in ipairs(lost_in(got) or {}) do
    local name = "on " .. host
    if not got[name] then
      wanted = wanted or {}
      wanted[name] = fence.try(fence.http(s.endpoint, "/api/vcenter/vm", { vms = id, hosts = host }))
    end
  end
  return wanted
end

return fencer {
  api = 1,
  name = "vsphere",
  version = "0.1.0",
  summary = "Reads the power of a virtual machine from vCenter, and powers it off",
  doc = "The endpoint has the url https://VCENTER and a login at /api/session.",
  settings = {
    endpoint = { type = "string", default = "vsphere", doc = "Name of the endpoint." },
    name_label = { type = "string", default = "", doc = "Label of nodes whose value is the machine's name; without it the node's." },
  },
  plan = function(node, s, got)
    local uuid = uuid_of(node)
    local name = s.name_label == "" and node.name or node.labels[s.name_label]
    if not uuid or not name then
      return nil
    end
    if not got.machines then
      return {
        machines = fence.try(fence.http(s.endpoint, "/api/vcenter/vm", { names = name })),
        hosts = fence.try(fence.http(s.endpoint, "/api/vcenter/host")),
      }
    end
    if fault_of(got.machines, s) or fault_of(got.hosts, s) then
      return nil
    end
    local wanted = read_machines(s, got)
    local id = not wanted and machine_of(got, uuid)
    return wanted or id and read_lost_hosts(s, got, id) or nil
  end,
  state = function(node, s, got)
    local uuid, why = uuid_of(node)
    if not uuid then
      return "failed", why
    end
    if not got.machines then
      return "failed", "the node lacks the label " .. s.name_label
    end
    for _, answer in ipairs({ got.machines, got.hosts }) do
      local word, told = fault_of(answer, s)
      if word then
        return word, told
      end
    end
    local machines, lost
    machines, why = machines_in(got)
    if not machines then
      return "unknown", "machines: " .. why
    end
    lost, why = lost_in(got)
    if not lost then
      return "unknown", "hosts: " .. why
    end
    for _, id in ipairs(machines) do
      local word, told = fault_of(got[id], s)
      if word then
        return word, told
      end
    end
    local id
    id, why = machine_of(got, uuid)
    if not id then
      return "failed", why
    end
    local power = tostring(at(got[id].body, "power_state"))
    for _, host in ipairs(lost) do
      local there = got["on " .. host]
      local word, told = fault_of(there, s)
      if word then
        return word, told
      end
      if #there.body ~= 0 then
        return "unknown", "power_state " .. power .. ", but its host " .. host .. " is not connected: it is what vCenter knew last"
      end
    end
    if power == "POWERED_ON" then
      return "on", "power_state POWERED_ON"
    elseif power == "POWERED_OFF" then
      return "off", "power_state POWERED_OFF"
    end
    return "unknown", "power_state " .. power
  end,
  -- Not the guest's shutdown.
  off = function(node, s, got)
    return fence.post(s.endpoint, "/api/vcenter/vm", {}, machine_of(got, uuid_of(node)), "power", { action = "stop" })
  end,
}
