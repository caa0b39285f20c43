-- After three probes of a node that is not Ready, IOMesh's Pod HA deletes its pods so that they start
-- elsewhere. The pod alone goes: the attach/detach controller then detaches the volumes itself, six
-- minutes later, and its picture of the cluster stays right.
local covered_kinds = {
  ["no-delete-pod"] = {},
  ["delete-deployment-pod"] = { "ReplicaSet" },
  ["delete-statefulset-pod"] = { "StatefulSet" },
  ["delete-both-statefulset-and-deployment-pod"] = { "StatefulSet", "ReplicaSet" },
}

-- Kinds of volumes that hold nothing of the node, and those that are claims and looked at as such. Every
-- pod has a projected one. A CSI volume that a pod declares inline is made with it and ends with it, such
-- as those of the secrets store.
local harmless_kinds = {
  "configMap", "downwardAPI", "emptyDir", "projected", "secret", "persistentVolumeClaim", "ephemeral",
  "csi", "image",
}

local live_phases = { "Running", "Pending", "Unknown" }

local single_node_modes = { "ReadWriteOnce", "ReadWriteOncePod" }

local function other_kind(pod)
  for _, kind in ipairs(pod.volume_kinds) do
    if not table.contains(harmless_kinds, kind) then
      return kind
    end
  end
end

local function is_shared(volume)
  for _, mode in ipairs(volume.access_modes) do
    if not table.contains(single_node_modes, mode) then
      return true
    end
  end
  return false
end

-- What `kubectl get pods` does not show as Running. A dead node's pods keep their phase until they are
-- deleted.
local function is_running(pod)
  return not pod.terminating and pod.phase == "Running"
end

return policy {
  api = 1,
  name = "iomesh",
  version = "1.0.0",
  summary = "Delete pods whose volumes are all IOMesh's from a node that stays not Ready",
  needs = { "volumes", "placement" },

  settings = {
    pod_delete_policy = {
      type = "enum", default = "no-delete-pod",
      values = { "no-delete-pod", "delete-deployment-pod", "delete-statefulset-pod",
                 "delete-both-statefulset-and-deployment-pod" },
      doc = "Whose pods are deleted; a Deployment's pods are those of a ReplicaSet",
    },
    driver = { type = "string", default = "com.iomesh.csi-driver", doc = "Name of the CSI driver" },
    probe_failures = {
      type = "integer", default = 3, min = 1, max = 100,
      doc = "How many probes in a row must find the node not Ready",
    },
    probe_interval = {
      type = "duration", default = "30s", min = "1s", max = "1h", doc = "Time between probes",
    },
    other_volumes = {
      type = "enum", default = "refuse", values = { "refuse", "ignore" },
      doc = "Volumes that are no claims, such as hostPath: leave the pod (refuse) or ignore them",
    },
    shared_volumes = {
      type = "boolean", default = false,
      doc = "Also pods with volumes that several nodes may use at once (ReadWriteMany)",
    },
    attachments = {
      type = "enum", default = "keep", values = { "keep", "delete" },
      doc = "Leave detaching to Kubernetes (keep) or delete the attachments once the pod is gone (delete)",
    },
  },

  trigger = function(s)
    return { failures = s.probe_failures, interval = s.probe_interval,
             live_kubelet = true, deleted = false, sweep = true }
  end,

  pod = function(pod, s)
    if not table.contains(covered_kinds[s.pod_delete_policy], pod.owner.kind) then
      return fence.skip("owner kind '" .. pod.owner.kind .. "' is not covered by " .. s.pod_delete_policy)
    end
    -- One that finished while it was being deleted holds its name, and only a kubelet would let it go.
    if not pod.terminating and not table.contains(live_phases, pod.phase) then
      return fence.skip("its phase is '" .. pod.phase .. "': nothing to move")
    end
    if #pod.claims == 0 then
      return fence.skip("it has no claim")
    end
    for _, claim in ipairs(pod.claims) do
      if claim.state ~= "bound" then
        return fence.wait("claim " .. claim.claim .. " is " .. claim.state, s.probe_interval)
      end
      if claim.driver ~= s.driver then
        return fence.skip("volume of claim " .. claim.claim .. " is not IOMesh's")
      end
      if is_shared(claim) and not s.shared_volumes then
        return fence.skip("volume of claim " .. claim.claim .. " may be used by several nodes")
      end
    end
    local other = other_kind(pod)
    if other and s.other_volumes == "refuse" then
      return fence.skip("it has a volume of kind " .. other)
    end
    if is_running(pod) then
      return fence.wait("it still counts as Running", s.probe_interval)
    end
    if #pod.placement.candidates == 0 then
      return fence.wait("no other node can take it", s.probe_interval)
    end
    if s.attachments == "delete" then
      return fence.delete_pod_and_attachments("all its volumes are IOMesh's, and another node can take it")
    end
    return fence.delete_pod("all its volumes are IOMesh's, and another node can take it")
  end,
}
