-- Argo CD's health of a FencingIncident, for its ConfigMap argocd-cm, key
-- resource.customizations.health.moonfence.io_FencingIncident (docs/incident-record.md, "As an object").
local found = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    if condition.status == "True" then
      found[condition.type] = condition.message
    end
  end
end
if found.Stalled ~= nil then
  return { status = "Degraded", message = found.Stalled }
end
if found.Settled ~= nil then
  return { status = "Healthy", message = found.Settled }
end
return { status = "Progressing", message = found.Reconciling or "moonfence has not said how it stands" }
