-- A Job replaces a pod when it hears that the pod has ended. On a dead node nobody says so: with
-- podReplacementPolicy Failed a pod that is only deleted is never replaced, and even a Job that has
-- done its work never completes. So the pod fails first. A Job counts that as any other failure; where
-- it would end the whole Job, a person is to decide.
local again = 10 -- seconds

-- What the Job does about a pod that was disrupted: the first of its rules that matches decides.
local function action_of(job)
  local policy = job.spec.podFailurePolicy
  for _, rule in ipairs(policy and policy.rules or {}) do
    for _, pattern in ipairs(rule.onPodConditions or {}) do
      if pattern.type == "DisruptionTarget" and (pattern.status or "True") == "True" then
        return rule.action
      end
    end
  end
  return "Count"
end

-- Why one more failed pod would end the Job, or one of its indexes; nil when it would not.
local function end_of(job, pod)
  local action = action_of(job)
  if action == "Ignore" then
    return nil
  end
  if action == "FailJob" or action == "FailIndex" then
    return "its podFailurePolicy says " .. action .. " for a disrupted pod"
  end
  local per_index = job.spec.backoffLimitPerIndex
  if per_index then
    local failed = tonumber(pod.annotations["batch.kubernetes.io/job-index-failure-count"] or "0") or per_index
    return failed >= per_index and "its index may not fail again (backoffLimitPerIndex " .. per_index .. ")" or nil
  end
  local limit = job.spec.backoffLimit or 6
  local failed = job.status and job.status.failed or 0
  return failed >= limit and "its Job may not fail again (backoffLimit " .. limit .. ")" or nil
end

return policy {
  api = 1,
  name = "jobs",
  version = "1.0.0",
  summary = "Let pods of Jobs fail before they are deleted, so that their Jobs go on",
  needs = { "volumes" },

  settings = {
    may_end_job = {
      type = "boolean", default = false,
      doc = "Act also where the failed pod ends the whole Job or one of its indexes",
    },
    with_claims = {
      type = "boolean", default = false,
      doc = "Act on pods with claims too: say so only if their work may run twice on these volumes",
    },
    require_proof = {
      type = "boolean", default = false,
      doc = "Act only once the machine is known to be off or isolated, or somebody attests it",
    },
  },

  trigger = { failures = 1, live_kubelet = false, deleted = false, sweep = true },

  fetch = function(pod, s, got)
    if got.job or pod.owner.kind ~= "Job" or pod.owner.api_group ~= "batch" then
      return nil
    end
    return { job = fence.get("batch/v1", "jobs", pod.namespace, pod.owner.name) }
  end,

  pod = function(pod, s)
    if pod.owner.kind ~= "Job" or pod.owner.api_group ~= "batch" then
      return fence.skip("no Job of batch owns it")
    end
    if #pod.claims > 0 and not s.with_claims then
      return fence.skip("it has claim " .. pod.claims[1].claim .. "; setting with_claims is off")
    end
    local answer = pod.fetched.job
    local job = answer.status == 200 and answer.body
    if not job or job.metadata.uid ~= pod.owner.uid then
      return fence.wait("its Job is not there any more; Kubernetes deletes its pods", again)
    end
    local manager = job.spec.managedBy or "kubernetes.io/job-controller"
    if manager ~= "kubernetes.io/job-controller" then
      return fence.skip("its Job is managed by " .. manager)
    end
    local why = not s.may_end_job and end_of(job, pod)
    if why then
      return fence.wait(why .. "; setting may_end_job is off", again)
    end
    return fence.delete_pod("its node is down; its Job goes on with another pod", {
      fail = true,
      proof = s.require_proof and { "off", "isolated", "attested" } or nil,
    })
  end,
}
