-- Reads what Fence Agents Remediation of medik8s ("FAR") has done to a machine, fence-agents-remediation.medik8s.io/v1alpha1. It
-- has nothing made and nothing changed. FAR runs a fence agent and tells that its exit code was 0: what that is worth depends on
-- agent and parameters. It says so for ever, so it has to be newer than the last sign of the kubelet.
--
-- Parameters may hold passwords, and what FAR tells of a failure what an agent has printed: neither is ever in a text from here.
local group = "fence-agents-remediation.medik8s.io"
local api = group .. "/v1alpha1"
local node_name = "remediation.medik8s.io/node-name"
local finalizer = 'v:"' .. group .. '/far-finalizer"'

-- Why an exit code of 0 of these never means that the machine was read to be off, whatever the setting says. By the sources of
-- ClusterLabs' fence-agents of June 2026, with the other names that these programs are installed under.
local storage, network = "cuts off a storage", "cuts off a network"
local sleeps, not_on = "takes a machine that sleeps for one that is off", "takes whatever is not on for off, also what is not there"
local weak = {
  fence_ack_manual = "asks a person",
  fence_amt = sleeps,
  fence_apc_snmp = not_on,
  fence_aws_vpc_net = network,
  fence_brocade = storage,
  fence_cisco_mds = storage,
  fence_cisco_ucs = not_on,
  fence_compute = "moves servers",
  fence_crosslink = "only asks whether a cable is silent",
  fence_dummy = "is for tests",
  fence_emerson = not_on,
  fence_evacuate = "moves servers",
  fence_heuristics_ping = "only asks others",
  fence_ibmblade = not_on,
  fence_ibmz = not_on,
  fence_ifmib = network,
  fence_ilo3_ssh = not_on,
  fence_ilo4_ssh = not_on,
  fence_ilo5_ssh = not_on,
  fence_ilo_mp = not_on,
  fence_ilo_ssh = not_on,
  fence_intelmodular = not_on,
  fence_ipdu = not_on,
  fence_kdump = "waits for a message of the kernel",
  fence_lpar = not_on,
  fence_manual = "asks a person",
  fence_mpath = storage,
  fence_nutanix_ahv = sleeps,
  fence_ovh = "reads no power",
  fence_ovm = sleeps,
  fence_rcd_serial = "reads no power",
  fence_rhevm = not_on,
  fence_sanbox2 = storage,
  fence_sbd = "writes a message and waits",
  fence_scsi = storage,
  fence_skalar = not_on,
  fence_tripplite_snmp = not_on,
  fence_vbox = not_on,
  fence_virsh = not_on,
  fence_vmware = not_on,
  fence_vmware_rest = sleeps,
  fence_vmware_soap = sleeps,
  fence_vmware_vcloud = sleeps,
  fence_zvm = "reads no power",
  fence_zvmip = not_on,
}

-- Without a method these restart the machine and read nothing; fence_ilo3 did until 2018.
local cycles = { fence_gce = true, fence_ilo3 = true, fence_yc = true }

-- With these an agent ends with exit code 0 though nothing is off.
local worthless = { "baremetalsolution", "earlyexit", "help", "missing-as-off", "network-fencing", "version", "warntimeout" }
local judged = { "action", "method" }

local reasons = {
  FenceAgentFailed = "says that its agent has failed",
  FenceAgentTimedOut = "says that its agent did not end in time",
  RemediationFinishedNodeNotFound = "says that there is no such node",
  RemediationInterruptedByNHC = "was stopped by NodeHealthCheck",
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

-- FAR leaves out what has no value for the node and runs the agent with what is left, which may be enough to reach another machine.
local function is_complete(spec, node)
  for _, values in pairs(spec.nodeparameters or {}) do
    if values[node.name] == nil then
      return false
    end
  end
  local secrets = spec.nodeSecretNames or {}
  return #table.keys(secrets) == 0 or secrets[node.name] ~= nil
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

-- Letters, digits and - . _ after a letter.
local function is_plain(name)
  for at = 1, #name do
    local byte = string.byte(name, at)
    local letter = byte >= 97 and byte <= 122 or byte >= 65 and byte <= 90
    if not letter and (at == 1 or not (byte >= 48 and byte <= 57 or byte == 45 or byte == 46 or byte == 95)) then
      return false
    end
  end
  return name ~= ""
end

local function agent_of(spec)
  local plain = type(spec.agent) == "string" and #spec.agent <= 40 and is_plain(spec.agent)
  return plain and "agent " .. spec.agent or "an agent with an odd name"
end

-- Agents take a name that is cut short for the whole, one letter behind one dash, and a value in the same word: so only what is
-- written out is understood. Of a parameter only words of this file are told.
local function fault_of_parameters(given)
  for _, key in ipairs(table.keys(given)) do
    local name = string.starts_with(key, "--") and string.sub(key, 3) or ""
    if not is_plain(name) then
      return "has a parameter that is not written as --name"
    end
    for _, word in ipairs(worthless) do
      if string.starts_with(word, name) then
        return "has the parameter --" .. word .. ", or the beginning of it: with it success does not say that anything is off"
      end
    end
    for _, word in ipairs(judged) do
      if name ~= word and string.starts_with(word, name) then
        return "has a parameter that is the beginning of --" .. word .. ": write it out"
      end
    end
  end
end

local function fault_of_method(agent, given)
  local method = given["--method"]
  if method == "cycle" then
    return "has the method cycle, which restarts the machine and never reads that it is off"
  elseif method ~= nil and method ~= "onoff" then
    return "has an unknown method"
  elseif not cycles[agent] then
    return nil
  elseif not method then
    return "restarts the machine and never reads that it is off: give it --method: onoff"
  end
  for _, value in pairs(given) do
    if value == "" then
      return "has a parameter without a value, which may take the next one, the method, for it"
    end
  end
end

-- nil where an exit code of 0 says that the machine was read to be off, or why it does not.
local function fault_of_agent(spec, node, s)
  local given = parameters_of(spec, node)
  local action = given["--action"]
  local fault = fault_of_parameters(given)
  if fault then
    return fault
  elseif not is_complete(spec, node) then
    return "has no parameters for this node, or not each that others have: with what is left it may reach another machine"
  elseif action ~= nil and action ~= "reboot" and action ~= "off" then
    return "has an unknown action"
  elseif weak[spec.agent] then
    return weak[spec.agent] .. ": its success does not say that the machine is off"
  elseif not table.contains(s.verifying, spec.agent) then
    return "is not in the setting verifying: name it there if its success means that the machine was read to be off"
  elseif type(spec.retrycount) ~= "number" or spec.retrycount < 1 then
    return "is never run, since retrycount is below 1: FAR then says success all the same"
  end
  return fault_of_method(spec.agent, given)
end

local function name_of(object, kind)
  return kind .. " " .. tostring(object.metadata.namespace) .. "/" .. tostring(object.metadata.name)
end

local function later(one, other)
  return (not one or other > one) and other or one
end

-- Whether durations are owned of a spec, and nothing else of it.
local function is_durations(spec)
  local any = false
  for key in pairs(spec or {}) do
    if key ~= "f:timeout" and key ~= "f:retryinterval" then
      return false
    end
    any = true
  end
  return any
end

-- When FAR took it on, by the API server's clock, which is before its agent ran; nil, and why what stands there may be something else
-- than what the agent was given. FAR puts its finalizer on. Without FAR's webhook it writes durations its own way in the same write
-- (60s becomes 1m0s): generation 2 is that, where FAR owns one of them since and nothing else. What was taken out of a spec leaves no
-- other trace. The annotation says of which node, and changes without a generation.
local function taken_on(metadata)
  local begun, rewritten, changed
  for _, entry in ipairs(metadata.managedFields or {}) do
    local owned, at = entry.fieldsV1 or {}, time_of(entry.time) or "none"  -- which is later than all times
    local about = owned["f:metadata"] or {}
    if (about["f:finalizers"] or {})[finalizer] and (not begun or at < begun) then
      begun, rewritten = at, is_durations(owned["f:spec"])
    end
    if owned["f:spec"] or (about["f:annotations"] or {})["f:" .. node_name] then
      changed = later(changed, at)
    end
  end
  if not begun or begun == "none" or not changed then
    return nil, "does not tell when FAR took it on"
  elseif changed > begun or metadata.generation ~= 1 and not (metadata.generation == 2 and rewritten) then
    return nil, "was changed since FAR took it on: its agent may have been given something else. Have a new one made"
  end
  return begun
end

-- nil where it proves that the machine was off in this outage, or why it does not. It was made after the kubelet's last sign.
local function fault_of(remediation, node, s, got)
  local done, ready = condition_of(remediation, "FenceAgentActionSucceeded"), condition_of(got.node.body, "Ready")
  local made, changed = time_of(remediation.metadata.creationTimestamp), time_of(ready.lastTransitionTime)
  if remediation.metadata.deletionTimestamp then
    return "is being deleted"
  elseif done.status ~= "True" or done.reason ~= "FenceAgentSucceeded" then
    return reasons[done.reason] or "says neither that its agent has succeeded nor that it has failed"
  elseif ready.status ~= "Unknown" then
    return "does not count yet: Kubernetes does not call the node Unknown"
  elseif not changed or made <= changed then
    -- By the control plane's clock, as Unknown is its own word: the kubelet's may be behind, and what it said then looks too old.
    return "was made before Kubernetes called the node down: have a new one made"
  end
  local begun, why = taken_on(remediation.metadata)
  local at = time_of(done.lastTransitionTime)
  if not begun then
    return why
  elseif not at or at < begun then
    return "was written to after its success (or the clock of FAR's node is behind)"
  end
  local fault = fault_of_agent(remediation.spec or {}, node, s)
  return fault and agent_of(remediation.spec or {}) .. " " .. fault
end

-- Of all that are for the node: what proves, and what does not.
local function found(node, s, got, sign)
  local all = {}
  for _, each in ipairs(got.remediations.body.items or {}) do
    if ((each.metadata.annotations or {})[node_name] or each.metadata.name) == node.name then
      local made, name = time_of(each.metadata.creationTimestamp), name_of(each, "FenceAgentsRemediation")
      local at_rest = condition_of(each, "FenceAgentActionSucceeded").status == "True" or condition_of(each, "Processing").status == "False"
      if not at_rest then
        all.at_work = all.at_work or name
      elseif not made or made <= sign then
        all.old = all.old or name
      else
        local fault = fault_of(each, node, s, got)
        all.fault = all.fault or fault and name .. " " .. fault
        all.proof = all.proof or not fault and { name = name, spec = each.spec } or nil
      end
    end
  end
  return all
end

-- The action may stand in a Secret. Without one it is reboot.
local function said_of(proof, node)
  local action = parameters_of(proof.spec, node)["--action"]
  local untold = action == nil and (proof.spec.sharedSecretName or proof.spec.nodeSecretNames)
  local again = action == "off" and "" or untold and ", and perhaps on again" or ", and on again"
  return proof.name .. ": " .. agent_of(proof.spec) .. " has switched it off" .. again
end

-- A node that is down needs a new one. A node that is Ready suffers from one that is left over.
local function said_without(all, is_ready)
  if all.old and is_ready then
    return "unknown", all.old .. " is older than the kubelet's last sign: delete it, its taint keeps pods off the node"
  elseif all.old then
    return "served", all.old .. " is older than the kubelet's last sign: delete it, and have a new one made"
  end
  -- It says nothing about power: a fencer behind it may still say off.
  return "served", "no FenceAgentsRemediation has switched it off" .. (is_ready and "" or ": NodeHealthCheck or a person has to make one")
end

-- nil where what is made by the template would count for the node, or there is none to look at.
local function fault_of_template(node, s, got)
  if s.template == "" then
    return nil
  elseif got.template.status ~= 200 then
    return "there is no FenceAgentsRemediationTemplate " .. s.namespace .. "/" .. s.template
  end
  local template = got.template.body
  local name, spec = name_of(template, "FenceAgentsRemediationTemplate"), template.spec.template.spec
  if ((template.status or {}).validationFailed or {})[node.name] then
    return name .. ": FAR's own test of the node has failed, its status says why"
  end
  local fault = fault_of_agent(spec, node, s)
  return fault and name .. ": " .. agent_of(spec) .. " " .. fault
end

return fencer {
  api = 1,
  name = "fence-agents-remediation",
  version = "0.1.0",
  summary = "Reads whether a fence agent has switched a machine off, by Fence Agents Remediation of medik8s",
  doc = "It makes and changes nothing. It needs allowedReads of v1/nodes, coordination.k8s.io/v1/leases, and of fenceagentsremediations "
    .. "and, with the setting template, fenceagentsremediationtemplates in fence-agents-remediation.medik8s.io/v1alpha1.",
  settings = {
    namespace = {
      type = "string",
      default = "fence-agents-remediation",
      doc = "Namespace of the remediations and of the template. Those of other namespaces are not seen.",
    },
    template = {
      type = "string",
      default = "",
      doc = "Name of a FenceAgentsRemediationTemplate: whether its success would count for the node is said before the outage.",
    },
    verifying = {
      type = "list",
      of = "string",
      default = {},
      doc = "Agents whose success says that the machine was read to be off.",
    },
  },
  plan = function(node, s, got)
    -- Without a namespace the list would be of all.
    if not got.node and s.namespace ~= "" then
      return {
        node = fence.get("v1", "nodes", "", node.name),
        lease = fence.get("coordination.k8s.io/v1", "leases", "kube-node-lease", node.name),
        template = s.template ~= "" and fence.get(api, "fenceagentsremediationtemplates", s.namespace, s.template) or nil,
        remediations = fence.list(api, "fenceagentsremediations", s.namespace),
      }
    end
  end,
  state = function(node, s, got)
    if s.namespace == "" then
      return "failed", "the setting namespace is empty"
    end
    local sign, why = last_sign(got)
    if not sign then
      return "unknown", why
    end
    local all = found(node, s, got, sign)
    if all.at_work then
      return "unknown", all.at_work .. " is at work, or waits for FAR: where that stays so, read FAR's log, delete it and have a new one made"
    elseif all.proof then
      return "off", said_of(all.proof, node)
    elseif all.fault then
      return "unknown", all.fault
    end
    local fault = fault_of_template(node, s, got)
    if fault then
      return "failed", fault
    end
    return said_without(all, condition_of(got.node.body, "Ready").status == "True")
  end,
}
