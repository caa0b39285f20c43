-- count-x7k2p of Job count on node-1, which is down. The Job as the API server has it.
local pod = {
  kind = "Pod",
  metadata = {
    name = "count-x7k2p", namespace = "batch", uid = "pod-uid", annotations = {},
    ownerReferences = { { apiVersion = "batch/v1", kind = "Job", name = "count", uid = "job-uid", controller = true } },
  },
  spec = { nodeName = "node-1" },
  status = { phase = "Running" },
}
local claim = { ["pod.raw.spec.volumes"] = { { name = "data", persistentVolumeClaim = { claimName = "out" } } } }
local with_claim = { pod, { kind = "PersistentVolumeClaim", metadata = { name = "out", namespace = "batch", uid = "claim-uid" },
                            spec = { accessModes = { "ReadWriteOnce" } }, status = { phase = "Pending" } } }
local request = "get batch/v1 jobs batch/count"

-- The Job with this specification, of which so many pods have failed.
local function job(spec, failed, uid)
  return { [request] = { status = 200, body = {
    metadata = { name = "count", uid = uid or "job-uid" }, spec = spec, status = failed and { failed = failed } } } }
end

local function rule(action, condition)
  return { podFailurePolicy = { rules = {
    { action = "FailJob", onExitCodes = { operator = "In", values = { 42 } } },
    { action = action, onPodConditions = { condition or { type = "DisruptionTarget", status = "True" } } } } },
    backoffLimit = 0 }
end

local function index(count)
  return { ['pod.annotations["batch.kubernetes.io/job-index-failure-count"]'] = count }
end

return tests {
  case { name = "it fails and is deleted", objects = pod, responses = job({ backoffLimit = 6 }, 5),
         expect = { verdict = "delete_pod", fail = true, proof = {} } },
  case { name = "a Job that has not counted anything yet", objects = pod, responses = job({}),
         expect = { verdict = "delete_pod", fail = true } },
  case { name = "one failure too many ends the Job", objects = pod, responses = job({ backoffLimit = 6 }, 6),
         expect = { verdict = "wait", reason = "~may not fail again (backoffLimit 6)" } },
  case { name = "the usual limit is six", objects = pod, responses = job({}, 6),
         expect = { verdict = "wait", reason = "~(backoffLimit 6)" } },
  case { name = "a limit of none", objects = pod, responses = job({ backoffLimit = 0 }),
         expect = { verdict = "wait", reason = "~(backoffLimit 0)" } },
  case { name = "with may_end_job it fails all the same", objects = pod, responses = job({ backoffLimit = 0 }),
         settings = { may_end_job = true }, expect = { verdict = "delete_pod", fail = true } },

  case { name = "a rule that ignores disruptions", objects = pod, responses = job(rule("Ignore"), 9),
         expect = { verdict = "delete_pod", fail = true } },
  case { name = "a rule without a status means True", objects = pod,
         responses = job(rule("Ignore", { type = "DisruptionTarget" }), 9),
         expect = { verdict = "delete_pod", fail = true } },
  case { name = "a rule for the opposite does not match", objects = pod,
         responses = job(rule("Ignore", { type = "DisruptionTarget", status = "False" }), 9),
         expect = { verdict = "wait", reason = "~(backoffLimit 0)" } },
  case { name = "a rule for another condition does not match", objects = pod,
         responses = job(rule("Ignore", { type = "ConfigIssue", status = "True" })),
         expect = { verdict = "wait", reason = "~(backoffLimit 0)" } },
  case { name = "a rule that fails the Job", objects = pod, responses = job(rule("FailJob")),
         expect = { verdict = "wait", reason = "~says FailJob" } },
  case { name = "a rule that fails the index", objects = pod, responses = job(rule("FailIndex")),
         expect = { verdict = "wait", reason = "~says FailIndex" } },
  case { name = "a rule that counts", objects = pod, responses = job(rule("Count")),
         expect = { verdict = "wait", reason = "~(backoffLimit 0)" } },

  case { name = "an index that may fail again", objects = pod, responses = job({ backoffLimitPerIndex = 1 }, 30),
         patch = index("0"), expect = { verdict = "delete_pod", fail = true } },
  case { name = "an index that may not", objects = pod, responses = job({ backoffLimitPerIndex = 1 }, 1),
         patch = index("1"), expect = { verdict = "wait", reason = "~backoffLimitPerIndex 1" } },
  case { name = "an index without a count has not failed", objects = pod, responses = job({ backoffLimitPerIndex = 1 }),
         expect = { verdict = "delete_pod", fail = true } },
  case { name = "a count that cannot be read may be too many", objects = pod, responses = job({ backoffLimitPerIndex = 1 }),
         patch = index("many"), expect = { verdict = "wait", reason = "~backoffLimitPerIndex 1" } },

  case { name = "with require_proof", objects = pod, responses = job({}), settings = { require_proof = true },
         expect = { verdict = "delete_pod", fail = true, proof = { "off", "isolated", "attested" } } },
  case { name = "a pod with a claim is left", objects = with_claim, responses = job({}), patch = claim,
         expect = { verdict = "skip", reason = "it has claim out; setting with_claims is off" } },
  case { name = "with with_claims it is not", objects = with_claim, responses = job({}), settings = { with_claims = true },
         patch = claim, expect = { verdict = "delete_pod", fail = true } },
  case { name = "who manages it elsewhere decides there", objects = pod,
         responses = job({ managedBy = "kueue.x-k8s.io/multikueue" }),
         expect = { verdict = "skip", reason = "its Job is managed by kueue.x-k8s.io/multikueue" } },
  case { name = "Kubernetes' own manager by its name", objects = pod,
         responses = job({ managedBy = "kubernetes.io/job-controller" }),
         expect = { verdict = "delete_pod", fail = true } },
  case { name = "a Job that is gone", objects = pod, responses = { [request] = { status = 404 } },
         expect = { verdict = "wait", reason = "~its Job is not there any more" } },
  case { name = "another Job of its name", objects = pod, responses = job({}, 0, "other-uid"),
         expect = { verdict = "wait", reason = "~its Job is not there any more" } },
  case { name = "while the Job cannot be read nothing is judged", objects = pod, responses = job({}), fail = { "fetch" },
         expect = { outcome = "deferred" } },
  case { name = "a StatefulSet's pod is left", objects = pod, patch = { ["pod.owner.kind"] = "StatefulSet" },
         expect = { verdict = "skip", reason = "no Job of batch owns it" } },
  case { name = "a Job of another group is left", objects = pod,
         patch = { ["pod.owner.api_version"] = "batch.volcano.sh/v1alpha1" },
         expect = { verdict = "skip", reason = "no Job of batch owns it" } },
}
