-- Asks vCenter for the power of the virtual machine that a node is, and powers it off. Its API, of version 7 and later:
-- https://developer.broadcom.com/xapis/vsphere-automation-api. There is no search by UUID: machines are listed by name, and the one with
-- the node's BIOS UUID is it. Of a host that vCenter does not hear it shows what it knew last, and where it lists a machine proves nothing:
-- vSphere HA registers the machines of such a host on another one, while the host may still run them. So all hosts must be connected.

-- Machines of one name, in several folders: one request each, and a round has at most eight.
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
    return "unknown", "vCenter does not know what was asked for: the machine was removed meanwhile, or the url of endpoint " .. s.endpoint
      .. " is wrong (it ends in the name of the vCenter, without a path)"
  end
end

-- The ids of the machines that have the name; nil and why. A text has a length too, and is no list.
local function machines_in(got)
  local list = got.machines.body
  if type(list) ~= "userdata" then
    return nil, "vCenter's list of machines is none: ask again"
  elseif #list > most then
    return nil, #list .. " machines have the node's name, and at most " .. most .. " are looked at: give the node the label of name_label"
  end
  local ids = {}
  for i = 1, #list do
    local id = at(list[i], "vm")
    if type(id) ~= "string" or id == "" then
      return nil, "vCenter's list of machines has one without an id: ask again"
    end
    table.insert(ids, id)
  end
  return ids
end

-- Why the hosts leave it open what runs; nil when all are connected. A user who may see no host learns nothing of any.
local function doubt_of(got)
  local list = got.hosts.body
  if type(list) ~= "userdata" then
    return "vCenter's list of hosts is none: ask again"
  elseif #list == 0 then
    return "vCenter lists no host: give the user of the endpoint System.Read on all of them"
  end
  local lost, names = 0, ""
  for i = 1, #list do
    if at(list[i], "connection_state") ~= "CONNECTED" then
      lost = lost + 1
      if lost <= 3 then
        names = names .. (lost == 1 and "" or ", ") .. tostring(at(list[i], "name") or at(list[i], "host"))
      end
    end
  end
  if lost > 0 then
    return (lost == 1 and "1 host is" or lost .. " hosts are") .. " not connected to vCenter (" .. names .. (lost > 3 and ", …" or "")
      .. ") and may run any machine: connect them again, or remove from vCenter those that are gone for good"
  end
end

local function same(uuid, other)
  return uuid == other or swapped(uuid) == other
end

-- The machine with the UUID, which must be the kubelet's too: a providerID outlives its machine when another gets the node's name.
local function machine_of(got, node, uuid)
  local ours, found, theirs = digits(node.system_uuid), nil, nil
  local ids = machines_in(got) or {}
  for _, id in ipairs(ids) do
    local answer = got[id]
    local bios = digits(answer and not answer.error and at(answer.body, "identity", "bios_uuid"))
    if #bios == 32 and same(bios, uuid) then
      if found then
        return nil, "several machines have its UUID"
      end
      found, theirs = id, bios
    end
  end
  if not found then
    return nil, #ids == 0 and "vCenter has no machine of that name, or its user may not see it: set name_label if it is called otherwise"
      or "no machine of that name has its BIOS UUID"
  elseif #ours ~= 32 or not same(theirs, ours) then
    return nil, "machine " .. found .. " is not the one that is this node now, or that cannot be told: its BIOS UUID is " .. theirs
      .. ", the kubelet reported '" .. node.system_uuid .. "'. Compare the node's providerID"
  end
  return found
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
    return read_machines(s, got)
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
    local machines
    machines, why = machines_in(got)
    if not machines then
      return "unknown", why
    end
    for _, id in ipairs(machines) do
      local word, told = fault_of(got[id], s)
      if word then
        return word, told
      end
    end
    local id
    id, why = machine_of(got, node, uuid)
    if not id then
      return "failed", why
    end
    local power = tostring(at(got[id].body, "power_state"))
    local doubt = doubt_of(got)
    if doubt then
      return "unknown", "power_state " .. power .. ", but " .. doubt
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
    return fence.post(s.endpoint, "/api/vcenter/vm", {}, machine_of(got, node, uuid_of(node)), "power", { action = "stop" })
  end,
}
