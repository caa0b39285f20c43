-- Asks Google Compute Engine for the state of an instance, and stops it. Its API: https://cloud.google.com/compute/docs/reference/rest/v1.
-- A managed instance group makes an instance anew under the old name. Its id is another one: a node's annotation must say which it was.

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

-- Project, zone and name in gce://PROJECT/ZONE/NAME; nil, and why.
local function instance_of(node)
  local given = node.provider_id
  local parts = given:starts_with("gce://") and given:sub(7):split("/") or {}
  for _, part in ipairs(parts) do
    if part == "" or part == "." or part == ".." then
      parts = {}
      break
    end
  end
  if #parts ~= 3 then
    return nil, "its providerID is '" .. given .. "'; expected is gce://PROJECT/ZONE/NAME, by Google's cloud provider"
  end
  return { project = parts[1], zone = parts[2], name = parts[3] }
end

return fencer {
  api = 1,
  name = "gce",
  version = "0.1.0",
  summary = "Reads the status of an instance from Google Compute Engine, and stops it",
  doc = "The endpoint has the url https://compute.googleapis.com and a login at the metadata server.",
  settings = {
    endpoint = { type = "string", default = "gce", doc = "Name of the endpoint." },
    id_annotation = {
      type = "string",
      default = "container.googleapis.com/instance_id",
      doc = "Annotation of nodes whose value is the instance's numeric id; GKE writes the default.",
    },
  },
  plan = function(node, s, got)
    local of = instance_of(node)
    if of and not got.instance then
      return {
        instance = fence.try(fence.http(s.endpoint, "/compute/v1/projects", of.project, "zones", of.zone, "instances", of.name)),
      }
    end
  end,
  state = function(node, s, got)
    local of, why = instance_of(node)
    if not of then
      return "failed", why
    end
    local answer = got.instance
    if answer.error == "unauthorized" or answer.status == 401 then
      return "failed", answer.message .. ": the account that moonfence's pods run as gets no valid token; see Workload Identity"
    elseif answer.status == 403 then
      return "failed", answer.message .. ": the account of endpoint " .. s.endpoint .. " needs compute.instances.get in project "
        .. of.project
    elseif answer.error then
      return "unknown", answer.message
    elseif answer.status == 404 then
      return "unknown", "there is no instance " .. of.name .. " in zone " .. of.zone .. ": it is deleted or moved, or the url of endpoint "
        .. s.endpoint .. " is wrong (it is https://compute.googleapis.com)"
    end
    if of.name ~= node.name then
      return "failed", "its providerID names instance " .. of.name .. ", which is not this node"
    end
    local ours, theirs = node.annotations[s.id_annotation], at(answer.body, "id")
    if not ours or ours == "" then
      return "failed", "the node lacks the annotation " .. s.id_annotation
        .. " with the instance's id: one made anew under its name looks the same"
    end
    if theirs ~= ours or at(answer.body, "name") ~= of.name then
      return "failed", "the instance is another one: its id is " .. tostring(theirs) .. ", the node's was " .. ours
    end
    local status = tostring(at(answer.body, "status"))
    if status == "RUNNING" then
      return "on", "status RUNNING"
    elseif status == "TERMINATED" or status == "STOPPED" then
      return "off", "status " .. status
    end
    return "unknown", "status " .. status
  end,
  -- The operating system is asked first; the power is cut after about 90 s, and not only when a configured graceful shutdown ends.
  off = function(node, s)
    local of = instance_of(node)
    local query = { noGracefulShutdown = true }
    return fence.post(s.endpoint, "/compute/v1/projects", {}, of.project, "zones", of.zone, "instances", of.name, "stop", query)
  end,
}
