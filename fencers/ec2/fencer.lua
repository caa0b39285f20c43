-- Asks AWS EC2 for the state of an instance, and stops it. Its API: https://docs.aws.amazon.com/AWSEC2/latest/APIReference.
-- Ids of instances are never given again, but a Node keeps the id of an instance whose name another one has taken over. EC2 does not
-- tell the UUID that the kubelet reports, so what else both of them know is compared: an address, or a time.

local version = "2016-11-15"

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

local function list_at(value, ...)
  local list = at(value, ...)
  return type(list) == "userdata" and list or {}
end

local function text_at(value, ...)
  local text = at(value, ...)
  return type(text) == "string" and text or ""
end

local function is_id(text)
  if not text:starts_with("i-") or (#text ~= 10 and #text ~= 19) then
    return false
  end
  for i = 3, #text do
    local byte = text:byte(i)
    if not (byte >= 48 and byte <= 57 or byte >= 97 and byte <= 102) then
      return false
    end
  end
  return true
end

-- The id and the zone in `aws:///ZONE/ID`; nil, and why.
local function id_of(node)
  local given = node.provider_id
  local parts = given:starts_with("aws:///") and given:sub(8):split("/") or {}
  if #parts == 2 and parts[1] ~= "" and is_id(parts[2]) then
    return parts[2], parts[1]
  end
  return nil, "its providerID is '" .. given .. "'; expected is aws:///ZONE/i-…, by AWS's cloud provider"
end

-- What a person has to mend, by EC2's word.
local mend = {
  AuthFailure = "EC2 does not know the access key, the secret key is another's, or the clock is wrong here",
  SignatureDoesNotMatch = "the secret key is another's, or the clock is wrong here",
  InvalidClientTokenId = "EC2 does not know the access key, or it needs a session token",
  UnrecognizedClientException = "EC2 does not know the access key, or it needs a session token",
  ExpiredToken = "the session token is too old",
  RequestExpired = "the clock is wrong here, or the session token is too old",
  MissingAuthenticationToken = "the request was not signed",
  OptInRequired = "the account may not use this region",
  PendingVerification = "the account may not use this region yet",
  Blocked = "the account is blocked",
  UnauthorizedOperation = "who the access key belongs to needs ec2:DescribeInstances",
}

-- Of an answer that is none: the word, and why.
local function refusal(answer, id, s)
  local cause = answer.code and mend[answer.code]
  if cause then
    return "failed", answer.message .. ": " .. cause .. "; see the files of endpoint " .. s.endpoint
  elseif answer.error == "unauthorized" or answer.status == 401 or answer.status == 403 then
    return "failed", answer.message .. ": see the files of endpoint " .. s.endpoint
  elseif answer.code == "InvalidInstanceID.NotFound" then
    return "unknown", answer.message .. ": there is no instance " .. id .. ": it was terminated an hour ago or more, or it is of another "
      .. "region or account than endpoint " .. s.endpoint
  end
  return "unknown", answer.message
end

-- The one instance that was asked for; nil, and why.
local function instance_in(answer, id)
  local reservations = list_at(answer.body, "DescribeInstancesResponse", "reservationSet")
  local instances = #reservations == 1 and list_at(reservations[1], "instancesSet") or {}
  if #instances ~= 1 then
    return nil, "the answer does not tell of one instance"
  end
  return instances[1]
end

-- Whether it has one of the addresses by which the node is known in the cluster.
local function shares_address(instance, node)
  local its = { [text_at(instance, "privateIpAddress")] = true }
  local interfaces = list_at(instance, "networkInterfaceSet")
  for i = 1, #interfaces do
    its[text_at(interfaces[i], "privateIpAddress")] = true
    local more = list_at(interfaces[i], "ipv6AddressesSet")
    for j = 1, #more do
      its[text_at(more[j], "ipv6Address")] = true
    end
  end
  its[""] = nil
  local addresses = list_at(node, "status", "addresses")
  for i = 1, #addresses do
    if text_at(addresses[i], "type") == "InternalIP" and its[text_at(addresses[i], "address")] then
      return true
    end
  end
  return false
end

-- Of "2026-01-30 23:55:00", with any letter between day and hour; nil for anything else.
local function seconds_of(text)
  if #text ~= 19 or not text:glob("????-??-?????:??:??") then
    return nil
  end
  local numbers = {}
  for _, place in ipairs({ { 1, 4 }, { 6, 7 }, { 9, 10 }, { 12, 13 }, { 15, 16 }, { 18, 19 } }) do
    for i = place[1], place[2] do
      if text:byte(i) < 48 or text:byte(i) > 57 then
        return nil
      end
    end
    table.insert(numbers, tonumber(text:sub(place[1], place[2]), 10))
  end
  local year, month, day = numbers[1], numbers[2], numbers[3]
  -- Days since the first of March of the year 0, which makes the leap day the last one of a year.
  if month <= 2 then
    year = year - 1
  end
  local days = year * 365 + year // 4 - year // 100 + year // 400 + (153 * ((month + 9) % 12) + 2) // 5 + day
  return ((days * 24 + numbers[4]) * 60 + numbers[5]) * 60 + numbers[6]
end

-- When it was told to end, as in "User initiated (2026-01-30 23:55:00 GMT)".
local function ended_at(instance)
  local parts = text_at(instance, "reason"):split("(")
  local last = parts[#parts]
  return (last:ends_with(" GMT)") or last:ends_with(" UTC)")) and seconds_of(last:sub(1, -6)) or nil
end

local function heard_at(node)
  local conditions = list_at(node, "status", "conditions")
  for i = 1, #conditions do
    local time = text_at(conditions[i], "lastHeartbeatTime")
    if text_at(conditions[i], "type") == "Ready" and time:ends_with("Z") then
      return seconds_of(time:sub(1, -2))
    end
  end
end

-- A machine that ends by itself tells of it first: this many seconds are its own.
local last_words = 60

-- An instance that is terminated has no addresses any more.
local function of_terminated(instance, node)
  local ended, heard = ended_at(instance), heard_at(node)
  if not ended or not heard then
    return "unknown", "terminated, and it cannot be told whether that was before the kubelet reported last"
  elseif heard > ended + last_words then
    return "failed", "it was terminated before the kubelet reported last: the node's machine is another one"
  end
  return "off", "state terminated"
end

-- Its memory is on disk where it was hibernated: it would go on where it stood. So the reason counts, and only one that is known.
local keeps_no_memory = { ["Client.UserInitiatedShutdown"] = true }
local keeps_none_unless_it_hibernates = { ["Client.InstanceInitiatedShutdown"] = true, ["Server.ScheduledStop"] = true }

local function of_stopped(instance)
  local code = text_at(instance, "stateReason", "code")
  local told = (code .. text_at(instance, "stateReason", "message") .. text_at(instance, "reason")):lower()
  if told:contains("hibernat") then
    return "unknown", "stopped, hibernated"
  elseif keeps_no_memory[code] then
    return "off", "state stopped, " .. code
  elseif keeps_none_unless_it_hibernates[code] and at(instance, "hibernationOptions", "configured") == "false"
    and at(instance, "instanceLifecycle") == nil then
    return "off", "state stopped, " .. code
  end
  return "unknown", "stopped, and it may have been hibernated: its reason is '" .. code .. "'"
end

local codes = { running = 16, terminated = 48, stopped = 80 }

return fencer {
  api = 1,
  name = "ec2",
  version = "0.1.0",
  summary = "Reads the state of an instance from AWS EC2, and stops it",
  doc = "The endpoint has the url https://ec2.REGION.amazonaws.com and authentication of type aws. allowedReads has v1/nodes.",
  settings = {
    endpoint = { type = "string", default = "ec2", doc = "Name of the endpoint." },
    skip_os_shutdown = {
      type = "boolean",
      default = true,
      doc = "Stop without the operating system. false where the region does not know the parameter SkipOsShutdown.",
    },
  },
  plan = function(node, s, got)
    local id = id_of(node)
    if id and not got.ec2 then
      local query = { Action = "DescribeInstances", Version = version, ["InstanceId.1"] = id }
      return { ec2 = fence.try(fence.http(s.endpoint, "/", query)), node = fence.get("v1", "nodes", "", node.name) }
    end
  end,
  state = function(node, s, got)
    local id, zone = id_of(node)
    if not id then
      return "failed", zone
    end
    local answer = got.ec2
    if answer.error then
      return refusal(answer, id, s)
    elseif got.node.status ~= 200 then
      return "unknown", "there is no Node of that name any more"
    elseif answer.status ~= 200 then
      return "unknown", "HTTP " .. answer.status .. ": the url of endpoint " .. s.endpoint .. " is wrong (it is https://ec2.REGION.amazonaws.com)"
    end
    local instance, why = instance_in(answer, id)
    if not instance then
      return "unknown", why
    end
    if text_at(instance, "instanceId") ~= id then
      return "failed", "the answer is about another instance than " .. id
    end
    if text_at(instance, "placement", "availabilityZone") ~= zone then
      return "failed", "the instance is in zone '" .. text_at(instance, "placement", "availabilityZone") .. "', the providerID says " .. zone
    end
    if at(got.node.body, "spec", "providerID") ~= node.provider_id then
      return "failed", "the Node has got another providerID meanwhile"
    end
    local state, code = text_at(instance, "instanceState", "name"), tonumber(text_at(instance, "instanceState", "code"), 10)
    -- The upper byte of the code is EC2's own.
    if not codes[state] or not code or code & 255 ~= codes[state] then
      return "unknown", "state " .. state
    elseif state == "terminated" then
      return of_terminated(instance, got.node.body)
    end
    if not shares_address(instance, got.node.body) then
      return "failed", "the instance has none of the node's addresses of type InternalIP: it is another machine, or that cannot be told"
    end
    if state == "running" then
      return "on", "state running"
    end
    return of_stopped(instance)
  end,
  off = function(node, s, got)
    local id = id_of(node)
    if text_at(instance_in(got.ec2, id), "rootDeviceType") == "instance-store" then
      return nil, "its root device is an instance store: EC2 can terminate it, and not stop it"
    end
    local order = { Action = "StopInstances", Version = version, ["InstanceId.1"] = id, Force = true }
    if s.skip_os_shutdown then
      order.SkipOsShutdown = true
    end
    return fence.post(s.endpoint, "/", order)
  end,
}
