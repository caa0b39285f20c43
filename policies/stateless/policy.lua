-- A pod without volumes of its own keeps nothing that could be written twice. Its controller makes
-- another one as soon as it is deleted, in place of five minutes after the loss of its node. A second
-- pod of a StatefulSet has the same name as the first: to whoever counts on there being one of each,
-- a node that is only cut off still runs the first.
return policy {
  api = 1,
  name = "stateless",
  version = "1.0.0",
  summary = "Delete pods without claims of Deployments, and of other kinds that are named",
  needs = { "volumes" },

  settings = {
    kinds = {
      type = "list", of = "string", default = { "ReplicaSet" },
      doc = "Kinds of controllers whose pods it deletes; a Deployment's pods are those of a ReplicaSet",
    },
    planned_wait = {
      type = "duration", default = "10m", min = "0s", max = "1h",
      doc = "For how long a drain that goes on is left to move the pods itself",
    },
  },

  trigger = { failures = 1, live_kubelet = false, deleted = true, sweep = true },

  pod = function(pod, s, cluster, node)
    if not table.contains(s.kinds, pod.owner.kind) then
      return fence.skip("owner kind '" .. pod.owner.kind .. "' is not in setting kinds")
    end
    if #pod.claims > 0 then
      return fence.skip("it has claim " .. pod.claims[1].claim)
    end
    local drain = node.planned.DrainInProgress
    local since = drain and drain.last_transition_time
    if since and cluster.now - since < s.planned_wait then
      return fence.wait("its node is being drained", s.planned_wait - (cluster.now - since))
    end
    return fence.delete_pod("its node is down, and it has no volume")
  end,
}
