-- orders-0 of a StatefulSet and a pod of Deployment web on node-1, which is down; both are terminating
-- and due at 10:06:30. Fixtures are what kubectl prints; LH-* are rows of docs/conformance.md.
local nodes = fixture "testdata/nodes.json"
local statefulset = fixture "testdata/statefulset.json" -- an attachment of the same volume to node-2 too
local deployment = fixture "testdata/deployment.json"   -- with its Pending replacement on node-2
local three = fixture "testdata/three-volumes.json"
local mixed = fixture "testdata/mixed.json"             -- an EBS volume beside
local static = fixture "testdata/static.json"

local week = fixture "testdata/week.json" -- orders-0, asked to go at 10:06:00 with a week of grace

local old = "web-6d4b75cb6d-x7lqp"
-- A second pod of web that is terminating.
local second = {
  kind = "Pod",
  metadata = { name = "web-6d4b75cb6d-q5z8c", namespace = "shop", deletionTimestamp = "2026-11-20T10:06:30Z" },
  spec = { nodeName = "node-1", volumes = { { name = "data", persistentVolumeClaim = { claimName = "web-data" } } } },
}
local volume = "get longhorn.io/v1beta2 volumes longhorn-system/pvc-e31312fa-6550-4d0b-8b89-57a3e8f0fd3a"
local sts = { node_down_pod_deletion_policy = "delete-statefulset-pod" }
local deploy = { node_down_pod_deletion_policy = "delete-deployment-pod" }
local both = { node_down_pod_deletion_policy = "delete-both-statefulset-and-deployment-pod" }
local detached = { ["pod.volumes[1].attachment"] = false }
local due = "2026-11-20T10:06:30Z"
local before = "2026-11-20T10:06:10Z" -- 20 s left

-- Another pod of web, and one that shares only the EBS volume of orders-2.
local function web_pod(phase)
  return { kind = "Pod", metadata = { name = "web-6d4b75cb6d-b7w2f", namespace = "shop" },
           spec = { nodeName = "node-3", volumes = second.spec.volumes }, status = { phase = phase } }
end
local on_scratch = {
  kind = "Pod", metadata = { name = "copy-0", namespace = "shop" }, status = { phase = "Pending" },
  spec = { nodeName = "node-2",
           volumes = { { name = "s", persistentVolumeClaim = { claimName = "scratch-orders-2" } } } },
}

-- A terminating pod with nine Longhorn volumes, one more than fetch may ask for at once.
local function many_volumes()
  local objects, answers = {}, {}
  local owner = { apiVersion = "apps/v1", kind = "StatefulSet", name = "wide", uid = "u", controller = true }
  local pod = { kind = "Pod", spec = { nodeName = "node-1", volumes = {} },
                metadata = { name = "wide-0", namespace = "shop", ownerReferences = { owner },
                             deletionTimestamp = "2026-11-20T10:06:30Z" } }
  for _, letter in ipairs { "a", "b", "c", "d", "e", "f", "g", "h", "i" } do
    table.insert(pod.spec.volumes, { name = letter, persistentVolumeClaim = { claimName = letter } })
    table.insert(objects, { kind = "PersistentVolumeClaim", metadata = { name = letter, namespace = "shop" },
                            spec = { volumeName = "pv-" .. letter } })
    table.insert(objects, { kind = "PersistentVolume", metadata = { name = "pv-" .. letter },
                            spec = { csi = { driver = "driver.longhorn.io", volumeHandle = "volume-" .. letter } } })
    answers["get longhorn.io/v1beta2 volumes longhorn-system/volume-" .. letter] =
      { status = 200, body = { status = { robustness = letter == "i" and "faulted" or "healthy" } } }
  end
  table.insert(objects, pod)
  return objects, answers
end
local wide, wide_answers = many_volumes()

local function longhorn_says(robustness)
  return { [volume] = { status = 200, body = { kind = "Volume", status = { robustness = robustness } } } }
end

local function owned_by(kind)
  return { ["pod.volumes[1].attachment"] = false, ["pod.owner.kind"] = kind }
end

return tests {
  now = "2026-11-20T10:07:00Z",

  -- ---- whose pods ----
  case { name = "LH-01 do-nothing leaves a StatefulSet's pod", objects = statefulset,
         settings = { node_down_pod_deletion_policy = "do-nothing" },
         expect = { verdict = "skip", reason = "~do-nothing", reads = { "pod.owner.kind" } } },
  case { name = "LH-02 nothing is set: nothing is done", objects = statefulset,
         expect = { verdict = "skip" } },
  case { name = "LH-03 a StatefulSet's pod without an attachment is deleted", objects = statefulset,
         settings = sts, patch = detached,
         expect = { verdict = "delete_pod", reason = "~past its deletion deadline" } },
  case { name = "LH-04 delete-statefulset-pod keeps a Deployment's pod", objects = deployment, pod = old,
         settings = sts, patch = detached, expect = { verdict = "skip" } },
  case { name = "LH-05 delete-deployment-pod deletes a Deployment's pod", objects = deployment, pod = old,
         settings = deploy, patch = detached, expect = { verdict = "delete_pod" } },
  case { name = "LH-05 delete-deployment-pod keeps a StatefulSet's pod", objects = statefulset,
         settings = deploy, patch = detached, expect = { verdict = "skip" } },
  case { name = "LH-06 delete-both deletes a StatefulSet's pod", objects = statefulset,
         settings = both, patch = detached, expect = { verdict = "delete_pod" } },
  case { name = "LH-06 delete-both deletes a Deployment's pod", objects = deployment, pod = old,
         settings = both, patch = detached, expect = { verdict = "delete_pod" } },
  case { name = "LH-07 a DaemonSet's pod is left", objects = statefulset, settings = both,
         patch = owned_by("DaemonSet"), expect = { verdict = "skip" } },
  case { name = "LH-07 a Job's pod is left", objects = statefulset, settings = both,
         patch = owned_by("Job"), expect = { verdict = "skip" } },
  case { name = "LH-07 a pod of an operator's own kind is left", objects = statefulset, settings = both,
         patch = owned_by("PostgresCluster"), expect = { verdict = "skip" } },
  case { name = "LH-07 a bare pod is left", objects = statefulset, settings = both, patch = owned_by(""),
         expect = { verdict = "skip", reason = "~owner kind ''" } },
  case { name = "LH-07 kinds are case-exact", objects = statefulset, settings = both,
         patch = owned_by("statefulset"), expect = { verdict = "skip" } },
  case { name = "LH-08 an owner that is no controller does not count", objects = statefulset, settings = both,
         patch = { ["pod.volumes[1].attachment"] = false, ["pod.raw.metadata.ownerReferences"] = {
           { apiVersion = "apps/v1", kind = "StatefulSet", name = "orders", uid = "u", controller = false } } },
         expect = { verdict = "skip" } },

  -- ---- when ----
  case { name = "LH-09 a pod that nobody deletes is waited for", objects = statefulset, settings = both,
         patch = { ["pod.deletion_timestamp"] = false },
         expect = { verdict = "wait", reason = "not terminating yet" } },
  case { name = "LH-24 a pod that may become terminating is looked at again within 30 s", objects = statefulset,
         settings = both, patch = { ["pod.deletion_timestamp"] = false },
         expect = { verdict = "wait", seconds = 10 } },
  case { name = "LH-10 before the deadline the attachment goes at once", objects = statefulset,
         settings = sts, now = before,
         expect = { verdict = "delete_attachments", volumes = { "data-orders-0" }, on_timeout = "hold" } },
  case { name = "LH-10 before the deadline the pod stays", objects = statefulset, settings = sts,
         patch = detached, now = before, expect = { verdict = "wait", seconds = 20 } },
  case { name = "LH-10 at the deadline the pod goes", objects = statefulset, settings = sts,
         patch = detached, now = due, expect = { verdict = "delete_pod" } },
  case { name = "a week of grace on a silent node is bounded", objects = week, settings = sts,
         patch = detached, now = "2026-11-20T11:05:50Z", expect = { verdict = "wait", seconds = 10 } },
  case { name = "the limit can be another", objects = week, patch = detached, now = "2026-11-20T10:07:00Z",
         settings = { node_down_pod_deletion_policy = "delete-statefulset-pod", grace_limit = "30s" },
         expect = { verdict = "delete_pod" } },

  -- ---- attachments first ----
  case { name = "LH-11 an attachment that is still there keeps the pod", objects = statefulset, settings = sts,
         expect = { verdict = "delete_attachments", seconds = 60, on_timeout = "hold" } },
  case { name = "LH-12 a bounded wait may end with the pod's deletion", objects = statefulset,
         settings = { node_down_pod_deletion_policy = "delete-statefulset-pod", attachment_wait = "2m",
                      attachment_timeout = "delete" },
         expect = { verdict = "delete_attachments", seconds = 120, on_timeout = "delete" } },
  case { name = "LH-12 from the deadline on", objects = statefulset, now = due,
         settings = { node_down_pod_deletion_policy = "delete-statefulset-pod", attachment_timeout = "delete" },
         expect = { verdict = "delete_attachments", on_timeout = "delete" } },
  case { name = "LH-12 but not before the deadline", objects = statefulset, now = before,
         settings = { node_down_pod_deletion_policy = "delete-statefulset-pod", attachment_timeout = "delete" },
         expect = { verdict = "delete_attachments", on_timeout = "hold" } },
  case { name = "LH-13 three attachments go in one pass", objects = three, settings = sts,
         expect = { verdict = "delete_attachments",
                    volumes = { "data-orders-1", "wal-orders-1", "logs-orders-1" } } },
  case { name = "LH-13 those that are gone are not asked for again", objects = three, settings = sts,
         patch = { ["pod.volumes[2].attachment"] = false },
         expect = { verdict = "delete_attachments", volumes = { "data-orders-1", "logs-orders-1" } } },
  case { name = "LH-14 an attachment to another node does not keep the pod", objects = statefulset,
         settings = sts, patch = detached, expect = { verdict = "delete_pod" } },
  case { name = "LH-15 another driver's attachment is left", objects = mixed, settings = sts,
         expect = { verdict = "delete_attachments", volumes = { "data-orders-2" } } },
  case { name = "LH-15 and does not keep the pod", objects = mixed, settings = sts, patch = detached,
         expect = { verdict = "delete_pod" } },

  -- ---- whose volumes ----
  case { name = "LH-16 another driver's volumes alone are none of ours", objects = statefulset, settings = both,
         patch = { ["pod.volumes[1].driver"] = "ebs.csi.aws.com" },
         expect = { verdict = "skip", reason = "no volume of driver.longhorn.io" } },
  case { name = "LH-16 a pod without claims is none of ours", objects = statefulset, settings = both,
         patch = { ["pod.raw.spec.volumes"] = false }, expect = { verdict = "skip" } },
  case { name = "LH-16 drivers are case-exact", objects = statefulset, settings = both,
         patch = { ["pod.volumes[1].driver"] = "Driver.Longhorn.io" }, expect = { verdict = "skip" } },
  case { name = "LH-17 a static volume counts like any other", objects = static, settings = sts,
         expect = { verdict = "delete_pod", reason = "~archive" } },
  case { name = "LH-18 a missing claim beside a Longhorn volume is ignored", objects = mixed, settings = sts,
         patch = { ["pod.volumes[1].attachment"] = false, ["pod.claims[2].state"] = "claim_missing" },
         expect = { verdict = "delete_pod" } },
  case { name = "LH-18 a missing claim alone is waited for", objects = statefulset, settings = sts,
         patch = { ["pod.claims[1].state"] = "claim_missing" },
         expect = { verdict = "wait", seconds = 10, reason = "~claim_missing" } },
  case { name = "siblings that cannot be read defer who asks about them", objects = deployment, pod = old,
         settings = { volume_attachment_recovery_policy = "wait" }, fail = { "siblings" },
         expect = { outcome = "deferred" } },
  case { name = "siblings that cannot be read defer a clean-up", objects = deployment, pod = old,
         settings = { clean_up_forced_deletions = true }, fail = { "siblings" },
         expect = { outcome = "deferred" } },
  case { name = "volumes cannot be read: deferred", objects = statefulset, settings = sts,
         fail = { "volumes" }, expect = { outcome = "deferred" } },

  -- ---- the node ----
  case { name = "LH-19 Ready=False for 10 s is not down yet", objects = { statefulset, nodes },
         patch = { ["node.ready_status"] = "false" }, now = "2026-11-20T10:01:00Z",
         expect = { verdict = "hold", seconds = 5 } },
  case { name = "LH-19 Ready=False for 15 s is", objects = { statefulset, nodes },
         patch = { ["node.ready_status"] = "false" }, now = "2026-11-20T10:01:05Z",
         expect = { verdict = "proceed" } },
  case { name = "LH-20 Ready=Unknown for 1 s is down", objects = { statefulset, nodes },
         now = "2026-11-20T10:00:51Z", expect = { verdict = "proceed", reason = "the node is unknown" } },
  case { name = "LH-21 a Ready node under memory pressure is not down", objects = { statefulset, nodes },
         patch = { ["node.ready_status"] = "true" }, expect = { verdict = "hold" } },
  case { name = "LH-22 a deleted node is down", objects = { statefulset, nodes },
         patch = { ["node.ready_status"] = "deleted" }, expect = { verdict = "proceed" } },
  case { name = "LH-22 its terminating pod is deleted", objects = { statefulset, nodes }, settings = sts,
         patch = { ["node.ready_status"] = "deleted", ["pod.volumes[1].attachment"] = false },
         expect = { verdict = "delete_pod" } },
  case { name = "LH-23 a node without a Ready condition is not down", objects = { statefulset, nodes },
         patch = { ["node.ready_status"] = "missing" },
         expect = { verdict = "hold", reason = "~missing" } },

  -- ---- opt-in by annotation ----
  case { name = "LH-27 an annotated pod of an operator is covered: attachments", objects = statefulset,
         settings = { deletion_annotation = "longhorn.io/allow-deletion" },
         patch = { ["pod.owner.kind"] = "PostgresCluster",
                   ['pod.annotations["longhorn.io/allow-deletion"]'] = "true" },
         expect = { verdict = "delete_attachments", volumes = { "data-orders-0" } } },
  case { name = "LH-27 an annotated pod of an operator is covered: the pod", objects = statefulset,
         settings = { deletion_annotation = "longhorn.io/allow-deletion" },
         patch = { ["pod.owner.kind"] = "PostgresCluster", ["pod.volumes[1].attachment"] = false,
                   ['pod.annotations["longhorn.io/allow-deletion"]'] = "true" },
         expect = { verdict = "delete_pod" } },
  case { name = "LH-27 any other value does not cover it", objects = statefulset,
         settings = { deletion_annotation = "longhorn.io/allow-deletion" },
         patch = { ["pod.owner.kind"] = "PostgresCluster",
                   ['pod.annotations["longhorn.io/allow-deletion"]'] = "false" },
         expect = { verdict = "skip" } },

  -- ---- clean-up after a forced deletion ----
  case { name = "LH-26 a force-deleted pod that blocks its replacement is detached", objects = deployment, pod = old,
         settings = { clean_up_forced_deletions = true }, patch = { ["pod.grace_period"] = 0 },
         expect = { verdict = "delete_attachments", volumes = { "web-data" }, on_timeout = "hold" } },
  case { name = "LH-26 without the event it is kept", objects = deployment, pod = old,
         settings = { clean_up_forced_deletions = true },
         patch = { ["pod.grace_period"] = 0, ["pod.siblings[1].attach_error"] = "" },
         expect = { verdict = "wait" } },
  case { name = "LH-26 an event that names another pod does not count", objects = deployment, pod = old,
         settings = { clean_up_forced_deletions = true },
         patch = { ["pod.grace_period"] = 0, ["pod.siblings[1].attach_error"] =
           "Multi-Attach error for volume \"v\" Volume is already used by pod(s) web-6d4b75cb6d-x7lqp2" },
         expect = { verdict = "wait" } },
  case { name = "LH-26 one of several names does", objects = deployment, pod = old,
         settings = { clean_up_forced_deletions = true },
         patch = { ["pod.grace_period"] = 0, ["pod.siblings[1].attach_error"] =
           "Multi-Attach error for volume \"v\" Volume is already used by pod(s) web-6d4b75cb6d-x7lqp, other" },
         expect = { verdict = "delete_attachments" } },
  case { name = "LH-26 a replacement that is not scheduled does not count", objects = deployment, pod = old,
         settings = { clean_up_forced_deletions = true },
         patch = { ["pod.grace_period"] = 0, ["pod.siblings[1].node_name"] = "" },
         expect = { verdict = "wait" } },
  case { name = "LH-26 a pod that was not force-deleted is left", objects = deployment, pod = old,
         settings = { clean_up_forced_deletions = true },
         expect = { verdict = "wait", seconds = 10, reason = "~no replacement is refused" } },

  -- ---- volume_attachment_recovery_policy ----
  case { name = "LH-28 never: the attachment stays while the pod is terminating", objects = deployment, pod = old,
         settings = { volume_attachment_recovery_policy = "never" },
         expect = { verdict = "wait", seconds = 10, reason = "~while it is terminating" } },
  case { name = "LH-28 never: with the last terminating pod it goes", objects = deployment, pod = old,
         settings = { volume_attachment_recovery_policy = "never",
                      node_down_pod_deletion_policy = "delete-deployment-pod" },
         expect = { verdict = "delete_pod_and_attachments", volumes = { "web-data" }, release = false } },
  case { name = "LH-28 never: another terminating pod keeps it", objects = deployment, pod = old,
         settings = { volume_attachment_recovery_policy = "never",
                      node_down_pod_deletion_policy = "delete-deployment-pod" },
         patch = { ["pod.siblings[1].terminating"] = true }, expect = { verdict = "delete_pod" } },
  case { name = "LH-28 never: and before the deadline nothing goes", objects = deployment, pod = old, now = before,
         settings = { volume_attachment_recovery_policy = "never",
                      node_down_pod_deletion_policy = "delete-deployment-pod" },
         expect = { verdict = "wait", seconds = 20 } },
  case { name = "LH-29 wait: before the deadline the attachment stays", objects = deployment, pod = old, now = before,
         settings = { volume_attachment_recovery_policy = "wait" },
         expect = { verdict = "wait", seconds = 20, reason = "~until its deletion deadline" } },
  case { name = "LH-29 wait: at the deadline it goes", objects = deployment, pod = old, now = due,
         settings = { volume_attachment_recovery_policy = "wait" },
         expect = { verdict = "delete_attachments", volumes = { "web-data" }, on_timeout = "hold" } },
  case { name = "LH-29 wait: another terminating pod keeps it", objects = { deployment, second }, pod = old,
         settings = { volume_attachment_recovery_policy = "wait" },
         expect = { verdict = "wait", reason = "~no replacement alone waits" } },
  case { name = "LH-29 wait: a covered pod's attachment waits for the deadline too", objects = deployment, pod = old,
         now = before, settings = { volume_attachment_recovery_policy = "wait",
                                    node_down_pod_deletion_policy = "delete-deployment-pod" },
         expect = { verdict = "wait", seconds = 20 } },
  case { name = "LH-29 wait: and goes with it", objects = deployment, pod = old,
         now = due, settings = { volume_attachment_recovery_policy = "wait",
                                 node_down_pod_deletion_policy = "delete-deployment-pod" },
         expect = { verdict = "delete_attachments" } },
  case { name = "LH-30 immediate: the attachment goes at once", objects = deployment, pod = old, now = before,
         settings = { volume_attachment_recovery_policy = "immediate" },
         expect = { verdict = "delete_attachments", volumes = { "web-data" } } },
  case { name = "LH-31 a StatefulSet's attachment stays", objects = statefulset,
         settings = { volume_attachment_recovery_policy = "immediate" }, expect = { verdict = "skip" } },
  case { name = "LH-31 a pod of it that is covered goes by the rules for covered pods", objects = statefulset,
         settings = { volume_attachment_recovery_policy = "immediate",
                      node_down_pod_deletion_policy = "delete-statefulset-pod" },
         expect = { verdict = "delete_attachments" } },
  case { name = "LH-31 and so with both kinds", objects = statefulset,
         settings = { volume_attachment_recovery_policy = "immediate",
                      node_down_pod_deletion_policy = "delete-both-statefulset-and-deployment-pod" },
         expect = { verdict = "delete_attachments" } },
  case { name = "LH-31 without a Pending replacement it stays", objects = deployment, pod = old,
         settings = { volume_attachment_recovery_policy = "immediate" },
         patch = { ["pod.siblings[1].phase"] = "Running" },
         expect = { verdict = "wait", seconds = 10, reason = "~no replacement alone waits" } },
  case { name = "LH-31 one that runs beside a Pending one keeps it", objects = { deployment, web_pod("Running") },
         pod = old, settings = { volume_attachment_recovery_policy = "immediate" }, expect = { verdict = "wait" } },
  case { name = "LH-30 a failed pod beside does not keep it", objects = { deployment, web_pod("Failed") },
         pod = old, settings = { volume_attachment_recovery_policy = "immediate" },
         expect = { verdict = "delete_attachments", volumes = { "web-data" } } },
  case { name = "LH-30 a finished pod beside does not keep it", objects = { deployment, web_pod("Succeeded") },
         pod = old, settings = { volume_attachment_recovery_policy = "immediate" },
         expect = { verdict = "delete_attachments", volumes = { "web-data" } } },
  case { name = "LH-31 a Pending pod that waits for another volume does not count", objects = { mixed, on_scratch },
         pod = "orders-2", settings = { volume_attachment_recovery_policy = "immediate" },
         patch = { ["pod.owner.kind"] = "ReplicaSet" }, expect = { verdict = "wait" } },
  case { name = "LH-31 a finished pod is no replacement", objects = deployment, pod = old,
         settings = { volume_attachment_recovery_policy = "wait" },
         patch = { ["pod.siblings[1].phase"] = "Failed" }, expect = { verdict = "wait" } },
  case { name = "LH-31 nothing goes from a Ready node", objects = { deployment, nodes }, pod = old,
         settings = { volume_attachment_recovery_policy = "immediate" },
         patch = { ["node.ready_status"] = "true" }, expect = { verdict = "hold" } },

  -- ---- robustness ----
  case { name = "a healthy volume's pod goes its way", objects = statefulset, responses = longhorn_says("healthy"),
         settings = { node_down_pod_deletion_policy = "delete-statefulset-pod", volume_robustness = "not-faulted" },
         expect = { verdict = "delete_attachments" } },
  case { name = "unknown is what a volume on a dead node is", objects = statefulset,
         responses = longhorn_says("unknown"),
         settings = { node_down_pod_deletion_policy = "delete-statefulset-pod", volume_robustness = "not-faulted" },
         expect = { verdict = "delete_attachments" } },
  case { name = "a faulted volume is waited for, not skipped", objects = statefulset,
         responses = longhorn_says("faulted"),
         settings = { node_down_pod_deletion_policy = "delete-statefulset-pod", volume_robustness = "not-faulted" },
         expect = { verdict = "wait", seconds = 10, reason = "volume data-orders-0 is faulted" } },
  case { name = "healthy-or-degraded does not take unknown", objects = statefulset,
         responses = longhorn_says("unknown"),
         settings = { node_down_pod_deletion_policy = "delete-statefulset-pod",
                      volume_robustness = "healthy-or-degraded" },
         expect = { verdict = "wait" } },
  case { name = "a volume that Longhorn does not know is waited for", objects = statefulset,
         responses = { [volume] = { status = 404, body = { kind = "Status" } } },
         settings = { node_down_pod_deletion_policy = "delete-statefulset-pod", volume_robustness = "not-faulted" },
         expect = { verdict = "wait", reason = "~not known to Longhorn" } },
  case { name = "a volume without a status is waited for", objects = statefulset,
         responses = { [volume] = { status = 200, body = { kind = "Volume" } } },
         settings = { node_down_pod_deletion_policy = "delete-statefulset-pod", volume_robustness = "not-faulted" },
         expect = { verdict = "wait", reason = "~not known to Longhorn" } },
  case { name = "nine volumes are asked about in two rounds", objects = wide, pod = "wide-0", responses = wide_answers,
         settings = { node_down_pod_deletion_policy = "delete-statefulset-pod", volume_robustness = "not-faulted" },
         expect = { verdict = "wait", reason = "volume i is faulted" } },
  case { name = "an answer that fails defers", objects = statefulset,
         responses = { [volume] = { status = 503 } },
         settings = { node_down_pod_deletion_policy = "delete-statefulset-pod", volume_robustness = "not-faulted" },
         expect = { outcome = "deferred" } },
  case { name = "a pod that is not terminating needs no answer", objects = statefulset,
         settings = { node_down_pod_deletion_policy = "delete-statefulset-pod", volume_robustness = "not-faulted" },
         patch = { ["pod.deletion_timestamp"] = false }, expect = { verdict = "wait" } },
}
