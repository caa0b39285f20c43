-- Asks Proxmox VE for the state of the virtual machine that a node is, and stops it. Its API: https://pve.proxmox.com/pve-docs/api-viewer.
-- The machine is found by its VMID and recognised by the UUID of its firmware, `smbios1` in its configuration, which the kubelet reports.

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

local function vmid_in(text)
  local id = #text <= 9 and text:byte(1) ~= 48 and tonumber(text, 10)
  return id and tostring(id) == text and id > 0 and id or nil
end

-- nil, and why.
local function vmid_of(node, s)
  if s.vmid_label ~= "" then
    local label = node.labels[s.vmid_label]
    if not label then
      return nil, "the node lacks the label " .. s.vmid_label
    end
    local id = vmid_in(label)
    return id, not id and "its label " .. s.vmid_label .. " is '" .. label .. "'; expected is a VMID" or nil
  end
  local given = node.provider_id
  local parts = given:starts_with("proxmox://") and given:sub(11):split("/") or {}
  local id = #parts == 2 and vmid_in(parts[2]) or nil
  if not id then
    return nil, "its providerID is '" .. given .. "'; expected is proxmox://REGION/VMID. Else write the VMID into a label of the node, "
      .. "and its name into vmid_label"
  end
  if s.region == "" and parts[1] ~= "" then
    return nil, "it is in region '" .. parts[1] .. "', and any cluster may have a machine " .. id .. ": write the region that endpoint "
      .. s.endpoint .. " is into the setting region"
  end
  if parts[1] ~= s.region then
    return nil, "it is in region '" .. parts[1] .. "', and this fencer asks that of " .. s.region
  end
  return id
end

-- Its hexadecimal digits.
local function digits(uuid)
  return table.concat(uuid:lower():split("-"), "")
end

-- Of "uuid=…,manufacturer=…"; "" when there is none.
local function uuid_in(smbios)
  for _, part in ipairs(smbios:split(",")) do
    if part:starts_with("uuid=") then
      return part:sub(6)
    end
  end
  return ""
end

-- The answer that is no answer: its word and why; nil for a good one.
local function fault_of(answer, what, s)
  if answer.error == "unauthorized" or answer.status == 401 then
    return "failed", answer.message .. ": put USER@REALM!TOKENID=SECRET of a valid API token into the tokenFile of endpoint " .. s.endpoint
  elseif answer.status == 403 then
    return "failed", answer.message .. ": the API token of endpoint " .. s.endpoint .. " needs VM.Audit on the machine"
  elseif answer.error then
    return "unknown", answer.message
  elseif answer.status == 404 then
    return "unknown", "Proxmox VE knows no " .. what .. ": it is deleted, or the url of endpoint " .. s.endpoint
      .. " is wrong (it ends in /api2/json)"
  end
end

-- The member of the cluster that has the machine; nil, its word and why.
local function host_of(got, id, s)
  local word, why = fault_of(got.machines, "list of machines", s)
  if word then
    return nil, word, why
  end
  local host
  local list = at(got.machines.body, "data")
  if type(list) ~= "userdata" then
    return nil, "unknown", "the list of machines is none"
  end
  for i = 1, #list do
    local each = list[i]
    if each == nil then
      return nil, "unknown", "the list of machines has an entry that is none"
    end
    if at(each, "vmid") == id and at(each, "type") == "qemu" then
      if host then
        return nil, "unknown", "machine " .. id .. " is listed twice"
      end
      host = at(each, "node")
    end
  end
  if type(host) ~= "string" or host == "" then
    return nil, "failed", "there is no virtual machine " .. id .. ", or the API token may not see it (VM.Audit)"
  end
  return host
end

return fencer {
  api = 1,
  name = "proxmox",
  version = "0.1.0",
  summary = "Reads the state of a virtual machine from Proxmox VE, and stops it",
  doc = "The endpoint has the url https://HOST:8006/api2/json and authentication of type bearer with sendPrefix PVEAPIToken=.",
  settings = {
    endpoint = { type = "string", default = "proxmox", doc = "Name of the endpoint." },
    region = { type = "string", default = "", doc = "The region that the endpoint is. A providerID with a region needs it." },
    vmid_label = { type = "string", default = "", doc = "Label of nodes whose value is the VMID; without it the providerID has it." },
  },
  plan = function(node, s, got)
    local id = vmid_of(node, s)
    if not id then
      return nil
    end
    if not got.machines then
      return { machines = fence.try(fence.http(s.endpoint, "/cluster/resources", { type = "vm" })) }
    end
    local host = host_of(got, id, s)
    if host and not got.current then
      return {
        current = fence.try(fence.http(s.endpoint, "/nodes", host, "qemu", id, "status", "current")),
        config = fence.try(fence.http(s.endpoint, "/nodes", host, "qemu", id, "config", { current = 1 })),
      }
    end
  end,
  state = function(node, s, got)
    local id, why = vmid_of(node, s)
    if not id then
      return "failed", why
    end
    local host, word, told = host_of(got, id, s)
    if not host then
      return word, told
    end
    for _, answer in ipairs({ got.current, got.config }) do
      word, why = fault_of(answer, "machine " .. id .. " on " .. host, s)
      if word then
        return word, why
      end
    end
    local smbios = at(got.config.body, "data", "smbios1")
    local theirs, ours = type(smbios) == "string" and uuid_in(smbios) or "", node.system_uuid
    if #digits(ours) ~= 32 or digits(theirs) ~= digits(ours) then
      return "failed", "machine " .. id .. " is another one, or that cannot be told: the uuid of its smbios1 is '" .. theirs
        .. "', the kubelet reported '" .. ours .. "'"
    end
    local current = at(got.current.body, "data")
    if at(current, "vmid") ~= id then
      return "failed", "the answer is about machine " .. tostring(at(current, "vmid")) .. ", asked was for " .. id
    end
    local status, qemu = tostring(at(current, "status")), tostring(at(current, "qmpstatus"))
    local said = "status " .. status .. ", qmpstatus " .. qemu
    -- A machine whose memory is on disk is stopped and has the lock `suspended`: it would go on where it stood.
    local lock = at(current, "lock")
    if lock ~= nil then
      return "unknown", said .. ", lock " .. tostring(lock)
    end
    if status == "running" and qemu == "running" then
      return "on", said
    elseif status == "stopped" and qemu == "stopped" then
      return "off", said
    end
    return "unknown", said
  end,
  -- Not shutdown, which asks the operating system. Where the high availability manager has the machine, this tells it.
  off = function(node, s, got)
    local id = vmid_of(node, s)
    return fence.post(s.endpoint, "/nodes", {}, host_of(got, id, s), "qemu", id, "status", "stop")
  end,
}
