-- Reads whether the storage of CSI drivers refuses a node: NetworkFence of CSI-Addons, csiaddons.openshift.io/v1alpha1.
-- A node may run on. What it is refused is told by addresses alone, so they have to be its own, and nobody else's.
-- It creates nothing: whoever isolates nodes makes the NetworkFence.
local api = "csiaddons.openshift.io/v1alpha1"
-- The same field says Succeeded after the isolation was lifted.
local succeeded = "fencing operation successful"

local function is_one_address(cidr)
  if string.contains(cidr, ":") then
    return string.ends_with(cidr, "/128")
  end
  return string.ends_with(cidr, "/32")
end

-- By class, each of which is a cluster of the driver: the addresses under which it knows the machine, as keys.
local function addresses_of(csi_node, into)
  for _, status in ipairs((csi_node.status or {}).networkFenceClientStatus or {}) do
    local class = status.networkFenceClassName
    into[class] = into[class] or {}
    -- The type and the CRD say ClientDetails, the project's own documents clientDetails.
    for _, client in ipairs(status.ClientDetails or status.clientDetails or {}) do
      for _, cidr in ipairs(client.cidrs or {}) do
        into[class][cidr] = true
      end
    end
  end
end

-- Of the node by this driver, and of everybody else, under any driver. What is older than the Node was another machine's.
local function addresses(node, driver, got)
  local ours, others = {}, {}
  for _, each in ipairs(got.nodes.body.items or {}) do
    local of = (each.spec or {}).driver or {}
    if of.nodeID ~= node.name then
      local theirs = {}
      addresses_of(each, theirs)
      for _, class in ipairs(table.keys(theirs)) do
        for _, cidr in ipairs(table.keys(theirs[class])) do
          others[cidr] = tostring(of.nodeID)
        end
      end
    elseif of.name == driver and each.metadata.creationTimestamp >= got.node.body.metadata.creationTimestamp then
      addresses_of(each, ours)
    end
  end
  return ours, others
end

-- nil, or what is wrong with them.
local function fault_of_addresses(class, cidrs, others)
  if #table.keys(cidrs) == 0 then
    return "unknown", "class " .. class .. " knows no address of the node"
  end
  for _, cidr in ipairs(table.keys(cidrs)) do
    if not is_one_address(cidr) then
      return "failed", cidr .. " is more than one address"
    end
    if others[cidr] then
      return "failed", cidr .. " is an address of node " .. others[cidr] .. " too"
    end
  end
end

-- What is wider than one address may hold any of them.
local function touches(fence, cidrs)
  for _, cidr in ipairs((fence.spec or {}).cidrs or {}) do
    if cidrs[cidr] or not is_one_address(cidr) then
      return true
    end
  end
  return false
end

local function is_about(fence, cidrs)
  local named = {}
  for _, cidr in ipairs(fence.spec.cidrs) do
    named[cidr] = true
  end
  return table.concat(table.keys(named), " ") == table.concat(table.keys(cidrs), " ")
end

-- "" where it proves that these addresses are refused, or why it does not. The status has no generation of its own, and is
-- not cleared when the spec changes: it is about what was made first.
local function fault_of(fence, cidrs)
  local status = fence.status or {}
  if fence.metadata.deletionTimestamp then
    return "is being deleted"
  end
  if fence.metadata.generation ~= 1 then
    return "was changed since it was made: make a new one"
  end
  if not is_about(fence, cidrs) then
    return "names other addresses than " .. table.concat(table.keys(cidrs), ", ")
  end
  if status.result ~= "Succeeded" then
    return status.result and tostring(status.result) .. ": " .. tostring(status.message) or "has no result yet"
  end
  return status.message == succeeded and "" or "says '" .. tostring(status.message) .. "'"
end

local function of_class(class, cidrs, got)
  local proof, fault
  for _, fence in ipairs(got.fences.body.items or {}) do
    local spec, name = fence.spec or {}, "NetworkFence " .. tostring(fence.metadata.name)
    if touches(fence, cidrs) and spec.fenceState ~= "Fenced" then
      return "unknown", name .. " lifts it"
    elseif touches(fence, cidrs) and spec.networkFenceClassName == class then
      local wrong = fault_of(fence, cidrs)
      proof = wrong == "" and (proof or name) or proof
      fault = fault or (name .. " " .. wrong)
    end
  end
  if proof then
    return "isolated", proof
  end
  return fault and "unknown" or "on", fault or "no NetworkFence of class " .. class .. " is over its addresses"
end

-- One driver: every cluster of it has to refuse the node.
local function of_driver(driver, node, got)
  local ours, others = addresses(node, driver, got)
  local classes = table.keys(ours)
  if #classes == 0 then
    return "unknown", "no CSIAddonsNode says under which address it knows the node"
  end
  local proofs = {}
  for _, class in ipairs(classes) do
    local state, why = fault_of_addresses(class, ours[class], others)
    if not state then
      state, why = of_class(class, ours[class], got)
    end
    if state ~= "isolated" then
      return state, why
    end
    table.insert(proofs, why)
  end
  return "isolated", table.concat(proofs, ", ")
end

return fencer {
  api = 1,
  name = "network-fence",
  version = "0.1.0",
  summary = "Reads whether the storage of CSI drivers refuses a node, by NetworkFence of CSI-Addons",
  doc = "The addresses are those of the node's CSIAddonsNode. It proves `isolated` for these drivers alone. "
    .. "It needs allowedReads of v1/nodes and of csiaddonsnodes and networkfences, and the rights to get and list them.",
  settings = {
    drivers = { type = "list", of = "string", default = {}, doc = "CSI drivers whose storage is asked about." },
  },
  plan = function(node, s, got)
    if not got.node then
      return {
        node = fence.get("v1", "nodes", "", node.name),
        nodes = fence.list(api, "csiaddonsnodes"),
        fences = fence.list(api, "networkfences"),
      }
    end
  end,
  state = function(node, s, got)
    if #s.drivers == 0 then
      return "failed", "the setting drivers names no CSI driver"
    end
    for _, name in ipairs({ "node", "nodes", "fences" }) do
      if got[name].status ~= 200 then
        return "failed", name == "node" and "there is no such Node" or "CSI-Addons is not installed"
      end
    end
    local isolated, told, states = {}, {}, {}
    for _, driver in ipairs(s.drivers) do
      local state, why = of_driver(driver, node, got)
      states[state] = true
      table.insert(told, driver .. " " .. state .. ": " .. why)
      if state == "isolated" then
        table.insert(isolated, driver)
      end
    end
    local text = table.concat(told, "; ")
    if #isolated > 0 then
      return "isolated", text, { drivers = isolated }
    end
    return states.failed and "failed" or states.unknown and "unknown" or "on", text
  end,
}
