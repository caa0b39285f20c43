-- Longhorn keeps several replicas of a volume, so another node can attach it as soon as its attachment
-- to the dead node is gone. What Longhorn's own pod controller does about the pods of a node that is
-- down is done here, under the names of its settings; the README lists the differences.
local driver = "driver.longhorn.io"
local again = 10 -- seconds; Longhorn looks every 30 s

local covered_kinds = {
  ["do-nothing"] = {},
  ["delete-statefulset-pod"] = { "StatefulSet" },
  ["delete-deployment-pod"] = { "ReplicaSet" },
  ["delete-both-statefulset-and-deployment-pod"] = { "StatefulSet", "ReplicaSet" },
}

-- Longhorn calls a volume unknown as long as it is attached to a node that is down.
local fit_robustness = {
  ["not-faulted"] = { "healthy", "degraded", "unknown" },
  ["healthy-or-degraded"] = { "healthy", "degraded" },
}

local function of_longhorn(pod)
  local mine = {}
  for _, volume in ipairs(pod.volumes) do
    if volume.driver == driver then
      table.insert(mine, volume)
    end
  end
  return mine
end

local function still_attached(volumes)
  local held = {}
  for _, volume in ipairs(volumes) do
    if volume.attachment then
      table.insert(held, volume)
    end
  end
  return held
end

-- A claim that cannot be followed may lead to Longhorn.
local function unresolved_claim(pod)
  for _, claim in ipairs(pod.claims) do
    if claim.state ~= "bound" then
      return claim
    end
  end
end

local function is_covered(pod, s)
  if table.contains(covered_kinds[s.node_down_pod_deletion_policy], pod.owner.kind) then
    return true
  end
  return s.deletion_annotation ~= "" and pod.annotations[s.deletion_annotation] == "true"
end

-- ---- robustness, as Longhorn's own Volume objects say it -----------------------------------------

local function robustness_of(pod, volume)
  local answer = pod.fetched[volume.handle]
  local status = answer.status == 200 and answer.body.status
  return status and status.robustness or "not known to Longhorn"
end

local function unfit_volume(pod, s, mine)
  for _, volume in ipairs(mine) do
    if not table.contains(fit_robustness[s.volume_robustness], robustness_of(pod, volume)) then
      return volume
    end
  end
end

-- ---- other pods of the same claim ----------------------------------------------------------------

local function is_last_terminating(pod, volume)
  for _, other in ipairs(pod.siblings) do
    if other.claim == volume.claim and other.terminating then
      return false
    end
  end
  return true
end

-- Whether all that is left of the workload waits for this volume.
local function is_awaited(pod, volume)
  local awaited = false
  for _, other in ipairs(pod.siblings) do
    local finished = other.phase == "Succeeded" or other.phase == "Failed"
    if other.claim == volume.claim and not other.terminating and not finished then
      if other.phase ~= "Pending" then
        return false
      end
      awaited = true
    end
  end
  return awaited
end

-- "Volume is already used by pod(s) web-0, web-1": whole words, for web-1 is not web-10.
local function names_pod(message, name)
  for _, word in ipairs(message:split(" ")) do
    if word == name or word == name .. "," then
      return true
    end
  end
  return false
end

-- Whether a replacement on another node was refused this volume because of this very pod.
local function blocks_replacement(pod, volume)
  for _, other in ipairs(pod.siblings) do
    if other.claim == volume.claim and other.node_name ~= "" and other.phase == "Pending"
       and not other.terminating and other.attach_error:contains("Multi-Attach error")
       and names_pod(other.attach_error, pod.name) then
      return true
    end
  end
  return false
end

local function only(volumes, pod, fits)
  local found = {}
  for _, volume in ipairs(volumes) do
    if fits(pod, volume) then
      table.insert(found, volume)
    end
  end
  return found
end

-- Seconds until the deadline of its deletion. While the kubelet is silent nobody uses a long grace,
-- so it is never further away than the setting allows.
local function left_of(pod, s, now, node)
  local deadline = pod.deletion_timestamp
  if node.ready_status == "unknown" then
    deadline = math.min(deadline, deadline - (pod.grace_period or 0) + s.grace_limit)
  end
  return deadline - now
end

-- ---- what becomes of the pod ---------------------------------------------------------------------

-- A covered pod: its attachments, then itself. `left` is the time until its deletion deadline.
local function delete(pod, s, mine, left)
  local held = still_attached(mine)
  local recovery = s.volume_attachment_recovery_policy
  if #held > 0 and recovery ~= "never" and (left <= 0 or recovery ~= "wait") then
    return fence.delete_attachments("terminating; its Longhorn volumes are detached before it goes", held, {
      wait = s.attachment_wait,
      on_timeout = left <= 0 and s.attachment_timeout or "hold",
    })
  end
  if left > 0 then
    return fence.wait("its deletion deadline is not reached", left)
  end
  local freed = only(held, pod, is_last_terminating)
  if #freed > 0 then
    return fence.delete_pod_and_attachments("past its deletion deadline; its attachments go with the last pod", freed)
  end
  return fence.delete_pod("past its deletion deadline; uses Longhorn volume " .. mine[1].claim)
end

-- A Deployment's pod that is not covered: it stays, but its replacement may get the volume.
local function recover(pod, s, mine, left)
  local recovery = s.volume_attachment_recovery_policy
  if recovery == "never" then
    return fence.wait("its attachments stay while it is terminating", again)
  end
  local awaited = only(still_attached(mine), pod, is_awaited)
  if recovery == "wait" then
    if left > 0 then
      return fence.wait("its attachments stay until its deletion deadline", left)
    end
    awaited = only(awaited, pod, is_last_terminating)
  end
  if #awaited > 0 then
    return fence.delete_attachments("its replacement waits for Longhorn volume " .. awaited[1].claim, awaited, {
      wait = s.attachment_wait,
    })
  end
  return fence.wait("no replacement alone waits for its Longhorn volumes", again)
end

return policy {
  api = 1,
  name = "longhorn",
  version = "1.0.0",
  summary = "Delete terminating pods with Longhorn volumes of a node that is down, their attachments first",
  -- Other pods of a claim, and their events, are read for the settings alone that ask about them.
  needs = function(s)
    if s.volume_attachment_recovery_policy ~= "off" or s.clean_up_forced_deletions then
      return { "volumes", "siblings" }
    end
    return { "volumes" }
  end,

  settings = {
    node_down_pod_deletion_policy = {
      type = "enum", default = "do-nothing",
      values = { "do-nothing", "delete-statefulset-pod", "delete-deployment-pod",
                 "delete-both-statefulset-and-deployment-pod" },
      doc = "Whose pods are deleted; a Deployment's pods are those of a ReplicaSet",
    },
    deletion_annotation = {
      type = "string", default = "",
      doc = "Annotation whose value true covers a pod whatever owns it, such as longhorn.io/allow-deletion",
    },
    volume_attachment_recovery_policy = {
      type = "enum", default = "off", values = { "off", "never", "wait", "immediate" },
      doc = "When attachments of terminating pods may go: after the pod, at its deadline, at once",
    },
    clean_up_forced_deletions = {
      type = "boolean", default = false,
      doc = "Detach what a pod that was force-deleted but still exists withholds from its replacement",
    },
    volume_robustness = {
      type = "enum", default = "ignore", values = { "ignore", "not-faulted", "healthy-or-degraded" },
      doc = "What Longhorn must say of each volume before anything is done",
    },
    longhorn_namespace = { type = "string", default = "longhorn-system", doc = "Where its Volume objects are" },
    ready_false_delay = {
      type = "duration", default = "15s", min = "0s", max = "1h",
      doc = "How long Ready=False must last; a restart of the kubelet is shorter",
    },
    grace_limit = {
      type = "duration", default = "1h", min = "0s",
      doc = "On a node whose kubelet is silent: the longest grace of a deletion that is waited for",
    },
    attachment_wait = {
      type = "duration", default = "60s", min = "1s", max = "1h",
      doc = "How long attachments may take before attachment_timeout says what happens",
    },
    attachment_timeout = {
      type = "enum", default = "hold", values = { "hold", "delete" },
      doc = "When attachments do not go: leave the pod (hold) or delete it all the same (delete)",
    },
  },

  trigger = { failures = 1, live_kubelet = true, deleted = true, sweep = true },

  node = function(node, s, cluster)
    if node.ready_status == "unknown" or node.ready_status == "deleted" then
      return fence.proceed("the node is " .. node.ready_status)
    end
    if node.ready_status == "false" then
      local lasted = cluster.now - (node.not_ready_since or cluster.now)
      if lasted < s.ready_false_delay then
        return fence.hold("Ready=False may be a restart of the kubelet", s.ready_false_delay - lasted)
      end
      return fence.proceed("Ready=False has lasted")
    end
    return fence.hold("Ready is " .. node.ready_status .. ", which Longhorn does not take for down", 30)
  end,

  fetch = function(pod, s, got)
    if s.volume_robustness == "ignore" or not pod.terminating then
      return nil
    end
    local wanted, count = {}, 0
    for _, volume in ipairs(of_longhorn(pod)) do
      if not got[volume.handle] and count < 8 then
        wanted[volume.handle] = fence.get("longhorn.io/v1beta2", "volumes", s.longhorn_namespace, volume.handle)
        count = count + 1
      end
    end
    return wanted
  end,

  pod = function(pod, s, cluster, node)
    local mine = of_longhorn(pod)
    if #mine == 0 then
      local claim = unresolved_claim(pod)
      if claim then
        return fence.wait("claim " .. claim.claim .. " is " .. claim.state .. "; its driver is not known", again)
      end
      return fence.skip("no volume of " .. driver)
    end
    local covered = is_covered(pod, s)
    local recovers = pod.owner.kind == "ReplicaSet" and s.volume_attachment_recovery_policy ~= "off"
    if not covered and not recovers and not s.clean_up_forced_deletions then
      return fence.skip("owner kind '" .. pod.owner.kind .. "' is not covered by "
                        .. s.node_down_pod_deletion_policy)
    end
    if not pod.terminating then
      return fence.wait("not terminating yet", again)
    end
    if s.volume_robustness ~= "ignore" then
      local unfit = unfit_volume(pod, s, mine)
      if unfit then
        return fence.wait("volume " .. unfit.claim .. " is " .. robustness_of(pod, unfit), again)
      end
    end
    if s.clean_up_forced_deletions and pod.grace_period == 0 then
      local stuck = only(still_attached(mine), pod, blocks_replacement)
      if #stuck > 0 then
        return fence.delete_attachments("force-deleted, yet its replacement cannot attach " .. stuck[1].claim, stuck, {
          wait = s.attachment_wait,
        })
      end
    end
    local left = left_of(pod, s, cluster.now, node)
    if covered then
      return delete(pod, s, mine, left)
    end
    if recovers then
      return recover(pod, s, mine, left)
    end
    return fence.wait("no replacement is refused a volume because of it", again)
  end,
}
