-- Reads whether the storage of CSI drivers refuses a node: NetworkFence of CSI-Addons, csiaddons.openshift.io/v1alpha1.
-- A node may run on. What it is refused is told by addresses alone, so they have to be its own, and nobody else's.
-- With isolate: true it has one made for each class. It lifts none: mounts from before would write again.
local api = "csiaddons.openshift.io/v1alpha1"
local classes_annotation = "csiaddons.openshift.io/networkfenceclass-names"
-- The same field says Succeeded after the isolation was lifted.
local succeeded = "fencing operation successful"

local function is_ipv4(text)
  local parts = string.split(text, ".")
  for _, part in ipairs(parts) do
    local number = tonumber(part, 10)
    if not number or number < 0 or number > 255 or tostring(number) ~= part then
      return false
    end
  end
  return #parts == 4
end

-- Four hexadecimal digits each, in one way of writing; nil where it is anything else.
local function groups_of(text)
  local groups = {}
  for _, part in ipairs(text == "" and {} or string.split(text, ":")) do
    local number = tonumber(part, 16)
    local written = number and number >= 0 and string.format("%x", number) or nil
    if not written or string.sub("0000" .. written, -string.len(part)) ~= string.lower(part) or string.len(part) > 4 then
      return nil
    end
    table.insert(groups, written)
  end
  return groups
end

local function ipv6(text)
  local halves = string.split(text, "::")
  local groups, tail = groups_of(halves[1]), groups_of(halves[2] or "")
  if not groups or not tail or #halves > 2 then
    return nil
  end
  if #halves == 2 then
    local missing = 8 - #groups - #tail
    if missing < 1 then
      return nil
    end
    for _ = 1, missing do
      table.insert(groups, "0")
    end
    for _, group in ipairs(tail) do
      table.insert(groups, group)
    end
  end
  local written = table.concat(groups, ":")
  -- What begins so may be an address of IPv4 in another dress.
  return #groups == 8 and not string.starts_with(written, "0:0:0:0:0:") and written or nil
end

-- The one address that a CIDR is, in the one way of writing it by which two can be compared; nil where it is more, or odd.
local function one_address(cidr)
  if string.ends_with(cidr, "/32") then
    local text = string.sub(cidr, 1, -4)
    return is_ipv4(text) and text or nil
  end
  return string.ends_with(cidr, "/128") and ipv6(string.sub(cidr, 1, -5)) or nil
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

-- The names in a JSON list; nil where it is anything else.
local function names_in(json)
  local text = string.trim(json)
  if not string.starts_with(text, "[") or not string.ends_with(text, "]") then
    return nil
  end
  local inner, names = string.trim(string.sub(text, 2, -2)), {}
  for _, part in ipairs(inner == "" and {} or string.split(inner, ",")) do
    local quoted = string.trim(part)
    local name = string.sub(quoted, 2, -2)
    if quoted ~= '"' .. name .. '"' or name == "" or string.contains(name, '"') or string.contains(name, "\\") then
      return nil
    end
    table.insert(names, name)
  end
  return names
end

-- By class, each of which is a cluster of the driver: the addresses under which it knows the machine, as keys, and as they
-- are written. Or what is wrong with them.
local function addresses_of(csi_node)
  local told = {}
  for _, status in ipairs((csi_node.status or {}).networkFenceClientStatus or {}) do
    local class = status.networkFenceClassName
    told[class] = told[class] or {}
    -- The type and the CRD say ClientDetails, the project's own documents clientDetails.
    for _, client in ipairs(status.ClientDetails or status.clientDetails or {}) do
      for _, cidr in ipairs(client.cidrs or {}) do
        local address = one_address(cidr)
        if not address then
          return nil, cidr .. " of node " .. tostring(csi_node.spec.driver.nodeID) .. " is more than one address"
        end
        told[class][address] = cidr
      end
    end
  end
  return told
end

-- What was told before the Node was made was told of another machine. It may also be told of fewer clusters than there are.
local function fault_of_csi_node(csi_node, told, node_object)
  local name = "CSIAddonsNode " .. tostring(csi_node.metadata.name)
  local made, node_made = csi_node.metadata.creationTimestamp, node_object.metadata.creationTimestamp
  if not is_time(made) or not is_time(node_made) or made < node_made then
    return name .. " is older than the Node: delete it and restart the driver's pod on the node"
  end
  local names = names_in((csi_node.metadata.annotations or {})[classes_annotation] or "[]")
  if not names then
    return name .. " has an odd annotation " .. classes_annotation
  end
  for _, class in ipairs(names) do
    if not told[class] then
      return name .. " tells no address for class " .. class
    end
  end
end

local function driver_of(csi_node)
  return (csi_node.spec or {}).driver or {}
end

-- Who has which address, of everybody but the node, under any driver. Or what is wrong with them.
local function addresses_of_others(node, got)
  local others = {}
  for _, each in ipairs(got.nodes.body.items or {}) do
    local name = driver_of(each).nodeID
    if name ~= node.name then
      local told, wide = addresses_of(each)
      if not told then
        return nil, wide
      end
      for _, cidrs in pairs(told) do
        for address in pairs(cidrs) do
          others[address] = tostring(name)
        end
      end
    end
  end
  return others
end

-- Of the node by this driver, by class. Or what is wrong with them: one that is odd may be the one that matters.
local function addresses(node, driver, got)
  local ours = {}
  for _, each in ipairs(got.nodes.body.items or {}) do
    local of = driver_of(each)
    if of.nodeID == node.name and of.name == driver then
      local told, wide = addresses_of(each)
      if not told then
        return nil, "failed", wide
      end
      local fault = fault_of_csi_node(each, told, got.node.body)
      if fault then
        return nil, "unknown", fault
      end
      for class, cidrs in pairs(told) do
        ours[class] = ours[class] or {}
        for address, cidr in pairs(cidrs) do
          ours[class][address] = cidr
        end
      end
    end
  end
  return ours
end

-- nil, or what is wrong with them.
local function fault_of_addresses(class, cidrs, others)
  if #table.keys(cidrs) == 0 then
    return "unknown", "class " .. class .. " knows no address of the node"
  end
  for _, address in ipairs(table.keys(cidrs)) do
    if others[address] then
      return "failed", cidrs[address] .. " is an address of node " .. others[address] .. " too"
    end
  end
end

-- What is wider than one address may hold any of them.
local function touches(fence, cidrs)
  for _, cidr in ipairs((fence.spec or {}).cidrs or {}) do
    local address = one_address(cidr)
    if not address or cidrs[address] then
      return true
    end
  end
  return false
end

-- It may name more, as long as nobody else has it.
local function fault_of_cidrs(fence, cidrs, others)
  local named = {}
  for _, cidr in ipairs(fence.spec.cidrs) do
    local address = one_address(cidr)
    if not address or others[address] then
      return "names other addresses than the node's: " .. cidr
    end
    named[address] = true
  end
  for _, address in ipairs(table.keys(cidrs)) do
    if not named[address] then
      return "does not name " .. cidrs[address]
    end
  end
end

local function ready_condition(node_object)
  for _, condition in ipairs((node_object.status or {}).conditions or {}) do
    if condition.type == "Ready" then
      return condition
    end
  end
  return {}
end

local too_early = "Kubernetes has not called the node Unknown yet"

-- It says Succeeded for ever, also after the machine was back. So it has to be newer than the kubelet's last report; that may
-- be five minutes old while the kubelet lives, and of a clock that is behind, so newer than Kubernetes' own word, too.
local function is_of_this_outage(made, ready)
  local heard, changed = ready.lastHeartbeatTime, ready.lastTransitionTime
  if not is_time(made) or not is_time(heard) or made <= heard then
    return false
  end
  return ready.status ~= "Unknown" or is_time(changed) and made >= changed
end

-- nil where it proves that these addresses are refused, or why it does not. The status has no generation of its own, and is
-- not cleared when the spec changes: it is about what was made first.
local function fault_of(fence, cidrs, others, got)
  local status, ready = fence.status or {}, ready_condition(got.node.body)
  if fence.metadata.deletionTimestamp then
    return "is being deleted"
  end
  if fence.metadata.generation ~= 1 then
    return "was changed since it was made: make a new one"
  end
  if not is_of_this_outage(fence.metadata.creationTimestamp, ready) then
    return "is older than this outage: make a new one"
  elseif ready.status ~= "Unknown" and ready.status ~= "True" then
    return "counts later: " .. too_early
  end
  local fault = fault_of_cidrs(fence, cidrs, others)
  if fault then
    return fault
  end
  if status.result ~= "Succeeded" then
    return status.result and tostring(status.result) .. ": " .. tostring(status.message) or "has no result yet"
  end
  return status.message ~= succeeded and "says '" .. tostring(status.message) .. "'" or nil
end

local function of_class(class, cidrs, others, got)
  local proof, fault, current
  local is_ready = ready_condition(got.node.body).status == "True"
  for _, fence in ipairs(got.fences.body.items or {}) do
    local spec, name = fence.spec or {}, "NetworkFence " .. tostring(fence.metadata.name)
    if touches(fence, cidrs) and spec.fenceState ~= "Fenced" then
      return "unknown", name .. " lifts it"
    elseif touches(fence, cidrs) and spec.networkFenceClassName == class then
      local wrong = fault_of(fence, cidrs, others, got)
      proof = proof or (not wrong and name or nil)
      fault = fault or (wrong and name .. " " .. wrong)
      -- Of another outage it is no obstacle to a new one, but what a healthy node suffers from.
      current = current or wrong ~= nil and (is_ready or not string.contains(wrong, "older than this outage"))
    end
  end
  if proof then
    return "isolated", proof
  end
  return current and "unknown" or "served", fault or "no NetworkFence of class " .. class .. " is over its addresses"
end

-- One driver: every cluster of it has to refuse the node. What it is told of goes into `known`, and what is to be made so that
-- a cluster refuses it comes last.
local function of_driver(driver, node, s, got, others, known)
  local ours, wrong, why_not = addresses(node, driver, got)
  if not ours then
    return wrong, why_not
  end
  local classes = table.keys(ours)
  if #classes == 0 then
    return "unknown", "no CSIAddonsNode says under which address it knows the node"
  end
  for _, class in ipairs(classes) do
    known[class] = true
  end
  local proofs, served, made = {}, nil, nil
  for _, class in ipairs(classes) do
    if not table.contains(s.classes, class) then
      return "failed", "class " .. class .. " is not among the setting classes: name the classes of all clusters of this driver"
    end
    local state, why = fault_of_addresses(class, ours[class], others)
    if not state then
      state, why = of_class(class, ours[class], others, got)
    end
    if state == "isolated" then
      table.insert(proofs, why)
    elseif state == "served" then
      served = served or why
      made = made or { class = class, cidrs = ours[class] }
    else
      return state, why
    end
  end
  if served then
    return "served", served, made
  end
  return "isolated", table.concat(proofs, ", ")
end

-- The same name for the same outage: made twice it is one.
local function fence_of(node, made, got)
  local ready = ready_condition(got.node.body)
  local heard, changed = ready.lastHeartbeatTime, ready.lastTransitionTime
  if not is_time(heard) then
    return nil, "the Node has no heartbeat, by which this outage would have a name"
  elseif ready.status ~= "True" and ready.status ~= "Unknown" then
    return nil, too_early
  elseif ready.status ~= "True" and (not is_time(changed) or changed <= heard) then
    return nil, "the node's clock is ahead of Kubernetes': what is made now would look older than its last report"
  end
  local moment = string.lower(table.concat(string.split(table.concat(string.split(heard, "-")), ":")))
  local cidrs = {}
  for _, address in ipairs(table.keys(made.cidrs)) do
    table.insert(cidrs, made.cidrs[address])
  end
  local name = "moonfence-" .. tostring(got.node.body.metadata.uid) .. "-" .. made.class .. "-" .. moment
  for _, fence in ipairs(got.fences.body.items or {}) do
    if fence.metadata.name == name then
      return nil, "NetworkFence " .. name .. " is there already"
    end
  end
  return {
    kind = "NetworkFence",
    metadata = {
      name = name,
      labels = { ["app.kubernetes.io/managed-by"] = "moonfence" },
      annotations = { ["moonfence.io/node"] = node.name },
    },
    spec = { networkFenceClassName = made.class, fenceState = "Fenced", cidrs = cidrs },
  }
end

return fencer {
  api = 1,
  name = "network-fence",
  version = "0.3.1",
  summary = "Reads whether the storage of CSI drivers refuses a node, by NetworkFence of CSI-Addons, and has it refused",
  doc = "The addresses are those of the node's CSIAddonsNode. It proves `isolated` for these drivers alone. "
    .. "It needs allowedReads of v1/nodes and of csiaddonsnodes and networkfences, and the rights to get and list them; "
    .. "with isolate: true also allowedWrites of networkfences, and the right to create them.",
  settings = {
    drivers = { type = "list", of = "string", default = {}, doc = "CSI drivers whose storage is asked about." },
    classes = { type = "list", of = "string", default = {}, doc = "The NetworkFenceClasses of all clusters of these drivers." },
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
    if #s.classes == 0 then
      return "failed", "the setting classes is empty: name the classes of all clusters of these drivers"
    end
    for _, name in ipairs({ "node", "nodes", "fences" }) do
      if got[name].status ~= 200 then
        return "failed", name == "node" and "there is no such Node" or "CSI-Addons is not installed"
      end
    end
    local others, wide = addresses_of_others(node, got)
    if not others then
      return "failed", wide
    end
    local isolated, told, states, known = {}, {}, {}, {}
    for _, driver in ipairs(s.drivers) do
      local state, why = of_driver(driver, node, s, got, others, known)
      states[state] = true
      table.insert(told, driver .. " " .. state .. ": " .. why)
      if state == "isolated" then
        table.insert(isolated, driver)
      end
    end
    local text = table.concat(told, "; ")
    for _, class in ipairs(s.classes) do
      local counts = #isolated > 0 or states.served and not states.failed and not states.unknown
    if counts and not known[class] then
        return "unknown", "no CSIAddonsNode of the node tells its addresses for class " .. class .. "; " .. text
      end
    end
    if #isolated > 0 then
      return "isolated", text, { drivers = isolated }
    end
    return states.failed and "failed" or states.unknown and "unknown" or "served", text
  end,
  isolate = function(node, s, got)
    local others = addresses_of_others(node, got)
    local drivers, made = {}, nil
    for _, driver in ipairs(s.drivers) do
      local state, _, missing = of_driver(driver, node, s, got, others, {})
      if state == "served" then
        made = made or missing
      end
      if state == "served" or state == "isolated" then
        table.insert(drivers, driver)
      end
    end
    if not made then
      return nil, "nothing is left to be made"
    end
    local object, why_not = fence_of(node, made, got)
    if not object then
      return nil, why_not
    end
    return fence.create(api, "networkfences", "", object), { drivers = drivers }
  end,
}
