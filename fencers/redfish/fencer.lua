-- Asks a machine's management controller (BMC) for its power, and switches it off, by Redfish: DMTF DSP0266, schema
-- ComputerSystem.
-- `Off` there means that the main power is cut. A controller that has no power does not answer, which says nothing.
local collection = "/redfish/v1/Systems"

-- nil: the node does not say.
local function endpoint_of(node, s)
  if s.endpoint_label ~= "" then
    return node.labels[s.endpoint_label]
  end
  return s.endpoint_prefix .. node.name
end

-- Its 32 hexadecimal digits. Where a machine has no firmware that says it, a kubelet reports its machine-id, without dashes.
local function digits(uuid)
  return table.concat(string.split(string.lower(tostring(uuid)), "-"), "")
end

-- Some firmware swaps the bytes of the first three groups.
local function swapped(uuid)
  local function reversed(from, to)
    local bytes = ""
    for i = to - 1, from, -2 do
      bytes = bytes .. string.sub(uuid, i, i + 1)
    end
    return bytes
  end
  return reversed(1, 8) .. reversed(9, 12) .. reversed(13, 16) .. string.sub(uuid, 17)
end

-- Boards whose maker has set no UUID share these.
local placeholders = {
  "00000000000000000000000000000000",
  "ffffffffffffffffffffffffffffffff",
  "03000200040005000006000700080009",
  "00020003000400050006000700080009",
}

local function is_ours(system, node)
  local theirs, ours = digits(system.UUID), digits(node.system_uuid)
  if #ours ~= 32 or table.contains(placeholders, ours) then
    return false
  end
  return theirs == ours or swapped(theirs) == ours
end

local function system_path(got, s)
  if s.system ~= "" then
    return collection .. "/" .. s.system
  end
  local members = got.systems and got.systems.status == 200 and got.systems.body.Members
  if members and #members == 1 then
    return members[1]["@odata.id"]
  end
end

return fencer {
  api = 1,
  name = "redfish",
  version = "0.1.0",
  summary = "Reads the power of a machine from its BMC by Redfish, and switches it off",
  doc = "Each node's BMC is an endpoint of the engine's configuration, which a label of the node names. "
    .. "The BMC's UUID must be the one that the kubelet reported.",
  settings = {
    endpoint_label = { type = "string", default = "", doc = "Label of nodes whose value is the name of the BMC's endpoint." },
    endpoint_prefix = { type = "string", default = "bmc-", doc = "Without it: the endpoint of node n1 is this with n1 behind it." },
    system = { type = "string", default = "", doc = "Id of the system, where the BMC has several." },
  },
  plan = function(node, s, got)
    local endpoint = endpoint_of(node, s)
    local path = system_path(got, s)
    if endpoint and path and not got.system then
      return { system = fence.http(endpoint, path) }
    end
    if endpoint and not path and not got.systems then
      return { systems = fence.http(endpoint, collection) }
    end
  end,
  state = function(node, s, got)
    if not endpoint_of(node, s) then
      return "failed", "the node lacks the label " .. s.endpoint_label
    end
    if not got.system then
      return "failed", "the BMC has no system, or several: set `system`"
    end
    if got.system.status ~= 200 then
      return "failed", "the BMC has no such system"
    end
    local system = got.system.body
    if not is_ours(system, node) then
      return "failed", "the BMC is another machine's, or that cannot be told: its UUID is " .. tostring(system.UUID)
        .. ", the kubelet reported '" .. node.system_uuid .. "'"
    end
    local state = tostring(system.PowerState)
    if state == "On" then
      return "on", "PowerState On"
    elseif state == "Off" then
      return "off", "PowerState Off"
    end
    return "unknown", "PowerState " .. state
  end,
  -- ForceOff alone: what asks the operating system waits for one that may hang, and a button pressed twice switches on.
  off = function(node, s, got)
    local action = (got.system.body.Actions or {})["#ComputerSystem.Reset"]
    if not action or not action.target then
      return nil, "the BMC offers no ComputerSystem.Reset"
    end
    local allowed = action["ResetType@Redfish.AllowableValues"]
    if allowed and not table.contains(allowed, "ForceOff") then
      return nil, "the BMC does not allow ForceOff"
    end
    return fence.post(endpoint_of(node, s), action.target, { ResetType = "ForceOff" })
  end,
}
