-- Asks Azure's Resource Manager for the state of a virtual machine, alone or in a scale set, and powers it off.
-- Its API: https://learn.microsoft.com/rest/api/compute. State and vmId come in one answer. A scale set gives a number to another machine
-- when it has deleted the first: the vmId, which the firmware and so the kubelet reports, tells them apart.

local version = "2024-07-01"

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

-- Of the providerID behind azure://, which begins with a '/': its fixed words; "" stands for a name.
local forms = {
  { "subscriptions", "", "resourcegroups", "", "providers", "microsoft.compute", "virtualmachines", "" },
  { "subscriptions", "", "resourcegroups", "", "providers", "microsoft.compute", "virtualmachinescalesets", "", "virtualmachines", "" },
}

local function fits(parts, form)
  for i, word in ipairs(form) do
    if word == "" and (parts[i] == "" or parts[i] == "." or parts[i] == "..") or word ~= "" and parts[i]:lower() ~= word then
      return false
    end
  end
  return true
end

-- The parts of the resource's path; nil, and why.
local function resource_of(node)
  local given = node.provider_id
  local parts = given:starts_with("azure:///") and given:sub(10):split("/") or {}
  for _, form in ipairs(forms) do
    if #parts == #form and fits(parts, form) then
      return parts
    end
  end
  return nil, "its providerID is '" .. given .. "'; expected is azure:///subscriptions/…/virtualMachines/NAME, by Azure's cloud provider"
end

-- The first n parts, then the rest.
local function spread(parts, n, ...)
  if n == 0 then
    return ...
  end
  return spread(parts, n - 1, parts[n], ...)
end

local function digits(uuid)
  return table.concat(tostring(uuid):lower():split("-"), "")
end

-- Machines of generation 1 report the first three groups with their bytes in the other order.
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

local function is_ours(vm_id, node)
  local theirs, ours = digits(vm_id), digits(node.system_uuid)
  return #theirs == 32 and #ours == 32 and (theirs == ours or swapped(theirs) == ours)
end

-- The codes in a list of statuses; nil when one has none.
local function codes_in(statuses)
  local codes = {}
  for i = 1, #statuses do
    local code = at(statuses[i], "code")
    if type(code) ~= "string" or code == "" then
      return nil
    end
    table.insert(codes, code)
  end
  return codes
end

-- The one code that begins so, without that; nil when there is none, or several.
local function status_of(codes, kind)
  local found
  for _, code in ipairs(codes) do
    if code:starts_with(kind) then
      if found then
        return nil
      end
      found = code:sub(#kind + 1)
    end
  end
  return found
end

return fencer {
  api = 1,
  name = "azure",
  version = "0.1.0",
  summary = "Reads the power state of a virtual machine from Azure, and powers it off",
  doc = "The endpoint has the url https://management.azure.com and a login by OAuth 2.0 client credentials.",
  settings = {
    endpoint = { type = "string", default = "azure", doc = "Name of the endpoint." },
  },
  plan = function(node, s, got)
    local parts = resource_of(node)
    if parts and not got.vm then
      local query = { ["api-version"] = version, ["$expand"] = "instanceView" }
      return { vm = fence.try(fence.http(s.endpoint, "/", spread(parts, #parts, query))) }
    end
  end,
  state = function(node, s, got)
    local parts, why = resource_of(node)
    if not parts then
      return "failed", why
    end
    local answer = got.vm
    if answer.error == "unauthorized" or answer.status == 401 then
      return "failed", answer.message .. ": put the id and a valid secret of the service principal into the files of endpoint "
        .. s.endpoint
    elseif answer.status == 403 then
      return "failed", answer.message .. ": the service principal of endpoint " .. s.endpoint
        .. " needs Microsoft.Compute/virtualMachines/read, for scale sets the same below virtualMachineScaleSets"
    elseif answer.error then
      return "unknown", answer.message
    elseif answer.status == 404 then
      return "unknown", "there is no such virtual machine: it is deleted, the service principal may not see it, or the url of "
        .. "endpoint " .. s.endpoint .. " is wrong (it is https://management.azure.com)"
    end
    local properties = at(answer.body, "properties")
    local vm_id = at(properties, "vmId")
    if not is_ours(vm_id, node) then
      return "failed", "the virtual machine is another one, or that cannot be told: its vmId is " .. tostring(vm_id)
        .. ", the kubelet reported '" .. node.system_uuid .. "'"
    end
    local statuses = at(properties, "instanceView", "statuses")
    if type(statuses) ~= "userdata" then
      return "unknown", "the answer has no instance view"
    end
    local codes = codes_in(statuses)
    if not codes then
      return "unknown", "the instance view has a status without a code"
    end
    local power, provisioning = status_of(codes, "PowerState/"), status_of(codes, "ProvisioningState/")
    local said = "PowerState/" .. tostring(power) .. ", ProvisioningState/" .. tostring(provisioning)
    -- Its memory is on disk: it would go on where it stood.
    local hibernated
    for _, code in ipairs(codes) do
      hibernated = hibernated or code:starts_with("HibernationState/")
    end
    if hibernated then
      return "unknown", said .. ", hibernated"
    end
    if power == "running" then
      return "on", said
    -- While a machine is made or started it counts as stopped too (kubernetes-sigs/cloud-provider-azure#742).
    elseif (power == "stopped" or power == "deallocated") and provisioning == "succeeded" then
      return "off", said
    end
    return "unknown", said
  end,
  -- Without the operating system. The machine keeps its host; to give that back is not our business.
  off = function(node, s)
    local parts = resource_of(node)
    local query = { ["api-version"] = version, skipShutdown = true }
    return fence.post(s.endpoint, "/", {}, spread(parts, #parts, "powerOff", query))
  end,
}
