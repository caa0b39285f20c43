-- Reads whether a BareMetalHost of Metal3 has power, metal3.io/v1alpha1, and has it held off by an annotation. What stands in its
-- status is the operator's belief. It is left as it was while the operator cannot see the machine, so it has to be newer than
-- the last word of the kubelet, and something has to keep the operator from switching the machine on again.
local api = "metal3.io/v1alpha1"
local holds_off = "reboot.metal3.io/"
local ours = holds_off .. "moonfence"
local settled = { provisioned = true, ["externally provisioned"] = true }

-- Namespace, name and Metal3Machine in `metal3://NAMESPACE/HOST/MACHINE`; nil, and why.
local function host_of(node)
  local given = node.provider_id
  local parts = string.split(given:starts_with("metal3://") and given:sub(10) or "", "/")
  if #parts == 3 and parts[1] ~= "" and parts[2] ~= "" and parts[3] ~= "" then
    return { space = parts[1], name = parts[2], machine = parts[3] }
  end
  return nil, "its providerID is '" .. given .. "'; expected is metal3://NAMESPACE/HOST/METAL3MACHINE"
end

-- As the API server writes it, so that two can be compared as texts.
local function is_time(text)
  if type(text) ~= "string" or not string.glob(text, "????-??-??T??:??:??Z") then
    return false
  end
  for _, at in ipairs({ 1, 2, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18, 19 }) do
    if string.byte(text, at) < 48 or string.byte(text, at) > 57 then
      return false
    end
  end
  return true
end

local function last_heard(node_object)
  for _, condition in ipairs((node_object.status or {}).conditions or {}) do
    if condition.type == "Ready" then
      return condition.lastHeartbeatTime
    end
  end
end

-- The first annotation that keeps the host off; one without a name behind it is a single restart.
local function held_by(host)
  for _, key in ipairs(table.keys(host.metadata.annotations or {})) do
    if string.starts_with(key, holds_off) and #key > #holds_off then
      return key
    end
  end
  return (host.spec or {}).online == false and "spec.online: false" or nil
end

-- Why nothing that the status says counts; nil where it may.
local function fault_of(host, of, name)
  local spec, status, annotations = host.spec or {}, host.status or {}, host.metadata.annotations or {}
  local consumer = spec.consumerRef or {}
  if consumer.kind ~= "Metal3Machine" or consumer.name ~= of.machine then
    return "failed", name .. " belongs to " .. tostring(consumer.kind) .. " " .. tostring(consumer.name)
      .. ", and not to the Metal3Machine of this node"
  elseif spec.disablePowerOff then
    return "failed", name .. " has disablePowerOff: it is restarted and never off"
  elseif annotations["baremetalhost.metal3.io/paused"] or annotations["baremetalhost.metal3.io/detached"] then
    return "failed", name .. " is paused or detached: its status stands still"
  elseif host.metadata.deletionTimestamp then
    return "unknown", name .. " is being deleted"
  elseif status.operationalStatus ~= "OK" or (status.errorType or "") ~= "" then
    return "unknown", name .. " is " .. tostring(status.operationalStatus) .. ": " .. tostring(status.errorType) .. ", "
      .. tostring(status.errorMessage)
  elseif not settled[(status.provisioning or {}).state or ""] then
    return "unknown", name .. " is " .. tostring((status.provisioning or {}).state)
  end
end

return fencer {
  api = 1,
  name = "metal3",
  version = "0.1.0",
  summary = "Reads whether a BareMetalHost has power, and has it held off",
  doc = "It needs allowedReads of v1/nodes and metal3.io/v1alpha1/baremetalhosts; with switchOff: true also allowedWrites of the latter.",
  plan = function(node, s, got)
    local of = host_of(node)
    if of and not got.host then
      return {
        host = fence.get(api, "baremetalhosts", of.space, of.name),
        node = fence.get("v1", "nodes", "", node.name),
      }
    end
  end,
  state = function(node, s, got)
    local of, why = host_of(node)
    if not of then
      return "failed", why
    end
    local name = "BareMetalHost " .. of.space .. "/" .. of.name
    if got.host.status ~= 200 or got.node.status ~= 200 then
      return "unknown", got.host.status == 200 and "there is no such Node"
        or "there is no " .. name .. ": it may be one of another cluster"
    end
    local host = got.host.body
    local state, fault = fault_of(host, of, name)
    if state then
      return state, fault
    end
    local powered, updated, heard = host.status.poweredOn, host.status.lastUpdated, last_heard(got.node.body)
    if powered == true then
      return "on", name .. " has power"
    elseif powered ~= false then
      return "unknown", name .. ": poweredOn is " .. tostring(powered)
    elseif not is_time(updated) or not is_time(heard) or updated <= heard then
      return "unknown", name .. " says that it is off, and has said nothing since the kubelet was heard (is the node's clock ahead?): " .. tostring(updated)
    end
    local by = held_by(host)
    if not by then
      return "unknown", name .. " is off, and nothing keeps its operator from switching it on"
    end
    return "off", name .. " is off, held by " .. by
  end,
  off = function(node, s, got)
    local of, host = host_of(node), got.host.body
    for _, key in ipairs(table.keys(host.metadata.annotations or {})) do
      if string.starts_with(key, holds_off .. "metal3-remediation-") then
        return nil, "a Metal3Remediation is at work: " .. key
      end
    end
    return fence.annotate(api, "baremetalhosts", of.space, of.name, tostring(host.metadata.uid), { [ours] = '{"mode":"hard"}' })
  end,
}
