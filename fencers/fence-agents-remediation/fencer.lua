-- Reads what Fence Agents Remediation of medik8s ("FAR") has done to a machine, fence-agents-remediation.medik8s.io/v1alpha1, and
-- has it done, as a template says. FAR runs a fence agent and tells that its exit code was 0: what that is worth depends on agent
-- and method. It says so for ever, so it has to be newer than the last sign of the kubelet.
local group = "fence-agents-remediation.medik8s.io"
local api = group .. "/v1alpha1"
local node_name = "remediation.medik8s.io/node-name"

-- An exit code of 0 of these never means that the machine was read to be off, whatever the setting says.
local weak = {
  fence_aws_vpc_net = "cuts off a network",
  fence_brocade = "cuts off a storage",
  fence_cisco_mds = "cuts off a storage",
  fence_compute = "moves servers",
  fence_crosslink = "only asks whether a cable is silent",
  fence_dummy = "is for tests",
  fence_evacuate = "moves servers",
  fence_heuristics_ping = "only asks others",
  fence_ifmib = "cuts off a network",
  fence_kdump = "waits for a message of the kernel",
  fence_manual = "asks a person",
  fence_mpath = "cuts off a storage",
  fence_ovh = "reads no power",
  fence_rcd_serial = "reads no power",
  fence_sanbox2 = "cuts off a storage",
  fence_sbd = "writes a message and waits",
  fence_scsi = "cuts off a storage",
}

-- To the second, so that two can be compared as texts; nil where it is none. A Lease has fractions, which say nothing later.
local function time_of(text)
  if type(text) ~= "string" or not string.glob(text, "????-??-??T??:??:??*Z")
    or not (#text == 20 or string.sub(text, 20, 20) == ".") then
    return nil
  end
  for _, at in ipairs({ 1, 2, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18, 19 }) do
    if string.byte(text, at) < 48 or string.byte(text, at) > 57 then
      return nil
    end
  end
  return string.sub(text, 1, 19)
end

local function condition_of(object, name)
  for _, condition in ipairs((object.status or {}).conditions or {}) do
    if condition.type == name then
      return condition
    end
  end
  return {}
end

-- When the kubelet was last heard, by its report or its Lease; nil, and why that is not known. It reports once in five minutes
-- while nothing changes: the Lease is what tells of the time between.
local function last_sign(got)
  if got.node.status ~= 200 or got.lease.status ~= 200 then
    return nil, "there is no such Node, or no Lease of it"
  end
  local reported = time_of(condition_of(got.node.body, "Ready").lastHeartbeatTime)
  local renewed = time_of((got.lease.body.spec or {}).renewTime)
  if not reported or not renewed then
    return nil, "Node and Lease do not tell when its kubelet was last heard"
  end
  return reported > renewed and reported or renewed
end

-- What the agent is given, as FAR puts it together: what is the node's own wins. What Secrets add is not seen.
local function parameters_of(spec, node)
  local all = {}
  for key, value in pairs(spec.sharedparameters or {}) do
    all[key] = value
  end
  for key, values in pairs(spec.nodeparameters or {}) do
    all[key] = values[node.name] or all[key]
  end
  return all
end

-- Agents take long names that are cut short, and one letter behind one dash.
local function is_odd(key)
  if key == "-m" or key == "-o" then
    return true
  end
  local name = string.starts_with(key, "--") and string.sub(key, 3) or ""
  return name ~= "" and name ~= "method" and name ~= "action"
    and (string.starts_with("method", name) or string.starts_with("action", name))
end

-- nil where an exit code of 0 says that the machine was read to be off, or why it does not.
local function fault_of_agent(spec, node, s)
  local agent, given = tostring(spec.agent), parameters_of(spec, node)
  for _, key in ipairs(table.keys(given)) do
    if is_odd(key) then
      return "agent " .. agent .. " has the parameter " .. key .. ": write it as --method or --action"
    end
  end
  local action, method = given["--action"], given["--method"]
  local written = method and agent .. "/" .. tostring(method) or agent
  if action ~= nil and action ~= "reboot" and action ~= "off" then
    return "agent " .. agent .. " has the action '" .. tostring(action) .. "'"
  elseif weak[agent] then
    return "agent " .. agent .. " " .. weak[agent] .. ": that says nothing about power"
  elseif method and string.lower(tostring(method)) == "cycle" then
    return "agent " .. written .. " restarts the machine and never reads that it is off"
  elseif not table.contains(s.verifying, written) then
    return "agent " .. written .. " is not in the setting verifying: name it there if its success means that the machine was read to be off"
  elseif type(spec.retrycount) ~= "number" or spec.retrycount < 1 then
    return "retrycount is " .. tostring(spec.retrycount) .. ": FAR then says success without having run the agent"
  end
end

local function name_of(remediation)
  return "FenceAgentsRemediation " .. tostring(remediation.metadata.namespace) .. "/" .. tostring(remediation.metadata.name)
end

-- Of moonfence's own in this outage, whoever leads: made twice it is one. One of that name is of this outage by any clock.
local function own_name(got, sign)
  local moment = string.lower(table.concat(string.split(table.concat(string.split(sign, "-")), ":")))
  return "moonfence-" .. tostring(got.node.body.metadata.uid) .. "-" .. moment .. "z"
end

-- nil where it proves that the machine was off in this outage, or why it does not. It was made after the kubelet's last sign.
local function fault_of(remediation, node, s, got, sign)
  local done, ready = condition_of(remediation, "FenceAgentActionSucceeded"), condition_of(got.node.body, "Ready")
  local at, changed = time_of(done.lastTransitionTime), time_of(ready.lastTransitionTime)
  if remediation.metadata.deletionTimestamp then
    return "is being deleted"
  elseif remediation.metadata.generation ~= 1 then
    return "was changed since it was made: its result may be of what it was before"
  elseif done.status ~= "True" or done.reason ~= "FenceAgentSucceeded" then
    return "says " .. tostring(done.reason) .. ": " .. tostring(done.message)
  elseif not at or at <= sign then
    return "succeeded before the kubelet was last heard (is the node's clock ahead?)"
  elseif remediation.metadata.name ~= own_name(got, sign) and (ready.status == "True" or not changed or at <= changed) then
    -- By the control plane's clock: the kubelet's may be behind, and then what it has said looks older than it is.
    return "succeeded before Kubernetes called the node down"
  end
  return fault_of_agent(remediation.spec or {}, node, s)
end

-- Of all that are for the node: what proves, and what does not.
local function found(node, s, got, sign)
  local all = {}
  for _, each in ipairs(got.remediations.body.items or {}) do
    if ((each.metadata.annotations or {})[node_name] or each.metadata.name) == node.name then
      local made, name = time_of(each.metadata.creationTimestamp), name_of(each)
      local at_rest = condition_of(each, "FenceAgentActionSucceeded").status == "True" or condition_of(each, "Processing").status == "False"
      if not at_rest then
        all.at_work = all.at_work or name
      elseif not made or made <= sign then
        all.old = all.old or name
      else
        local fault = fault_of(each, node, s, got, sign)
        all.fault = all.fault or fault and name .. " " .. fault
        all.proof = all.proof or not fault and { name = name, spec = each.spec } or nil
      end
    end
  end
  return all
end

local function names_node(spec, node)
  for _, values in pairs(spec.nodeparameters or {}) do
    if values[node.name] then
      return true
    end
  end
  return #table.keys(spec.nodeparameters or {}) == 0
end

-- nil where the template is good for the node.
local function fault_of_template(node, s, got)
  local name = "FenceAgentsRemediationTemplate " .. s.namespace .. "/" .. s.template
  if got.template.status ~= 200 then
    return "there is no " .. name
  end
  local template = got.template.body
  local failed, spec = ((template.status or {}).validationFailed or {})[node.name], template.spec.template.spec
  if failed then
    return name .. ": FAR's own test of the node has failed: " .. tostring(failed)
  elseif not names_node(spec, node) then
    return name .. " has no nodeparameters for this node"
  end
  local fault = fault_of_agent(spec, node, s)
  return fault and name .. ": " .. fault
end

local copied = { agent = true, retrycount = true, retryinterval = true, timeout = true, remediationStrategy = true, sharedSecretName = true }

-- The template's, with nothing that is about other nodes. One that could be copied in part only is not copied.
local function spec_for(node, given)
  local spec = {}
  for _, key in ipairs(table.keys(given)) do
    if copied[key] then
      spec[key] = given[key]
    elseif key == "sharedparameters" then
      spec[key] = {}
      for name, value in pairs(given[key]) do
        spec[key][name] = value
      end
    elseif key == "nodeparameters" then
      spec[key] = {}
      for name, values in pairs(given[key]) do
        spec[key][name] = values[node.name] and { [node.name] = values[node.name] } or nil
      end
    elseif key == "nodeSecretNames" then
      spec[key] = given[key][node.name] and { [node.name] = given[key][node.name] } or nil
    else
      return nil, "its template has " .. key .. ", which this version of the fencer does not know"
    end
  end
  return spec
end

return fencer {
  api = 1,
  name = "fence-agents-remediation",
  version = "0.1.0",
  summary = "Reads whether a fence agent has switched a machine off, by Fence Agents Remediation of medik8s, and has it done",
  doc = "It needs allowedReads of v1/nodes, coordination.k8s.io/v1/leases, and of fenceagentsremediations and "
    .. "fenceagentsremediationtemplates in fence-agents-remediation.medik8s.io/v1alpha1; with switchOff: true also allowedWrites of "
    .. "fenceagentsremediations.",
  settings = {
    namespace = { type = "string", default = "fence-agents-remediation", doc = "Namespace of the template, where FAR's Secrets are." },
    template = { type = "string", default = "moonfence", doc = "Name of the FenceAgentsRemediationTemplate." },
    verifying = {
      type = "list",
      of = "string",
      default = {},
      doc = "Agents whose success says that the machine was read to be off: AGENT, or AGENT/METHOD for one with the parameter --method.",
    },
  },
  plan = function(node, s, got)
    if not got.node then
      return {
        node = fence.get("v1", "nodes", "", node.name),
        lease = fence.get("coordination.k8s.io/v1", "leases", "kube-node-lease", node.name),
        template = fence.get(api, "fenceagentsremediationtemplates", s.namespace, s.template),
        remediations = fence.list(api, "fenceagentsremediations"),
      }
    end
  end,
  state = function(node, s, got)
    if got.remediations.status ~= 200 then
      return "failed", "FAR is not installed: there is no kind FenceAgentsRemediation"
    end
    local sign, why = last_sign(got)
    if not sign then
      return "unknown", why
    end
    local all = found(node, s, got, sign)
    if all.at_work then
      return "unknown", all.at_work .. " is at work, or waits for FAR"
    elseif all.proof then
      local action = parameters_of(all.proof.spec, node)["--action"] or "reboot"
      return "off", all.proof.name .. ": " .. all.proof.spec.agent .. " has switched it off" .. (action == "reboot" and ", and on again" or "")
    elseif all.fault then
      return "unknown", all.fault
    end
    local fault = fault_of_template(node, s, got)
    if fault then
      return "failed", fault
    elseif all.old and condition_of(got.node.body, "Ready").status == "True" then
      return "unknown", all.old .. " is older than the kubelet's last sign: delete it, its taint keeps pods off the node"
    end
    return "on", "no FenceAgentsRemediation of this outage has switched it off"
  end,
  off = function(node, s, got)
    local sign, ready = last_sign(got), condition_of(got.node.body, "Ready")
    local changed = time_of(ready.lastTransitionTime)
    if ready.status ~= "True" and (not changed or changed <= sign) then
      return nil, "the node's clock is ahead of Kubernetes': what is made now would look older than its last sign"
    end
    local name = own_name(got, sign)
    for _, each in ipairs(got.remediations.body.items or {}) do
      if each.metadata.name == name then
        return nil, name_of(each) .. " is there already"
      end
    end
    local spec, unknown = spec_for(node, got.template.body.spec.template.spec)
    if not spec then
      return nil, unknown
    end
    return fence.create(api, "fenceagentsremediations", s.namespace, {
      kind = "FenceAgentsRemediation",
      metadata = {
        name = name,
        labels = { ["app.kubernetes.io/managed-by"] = "moonfence" },
        annotations = { [node_name] = node.name, ["remediation.medik8s.io/template-name"] = s.template },
      },
      spec = spec,
    })
  end,
}
