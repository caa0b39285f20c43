#include "fence/read/policy_fetch.h"

#include <utility>

#include "kube/wire/url.h"
#include "policy/values/list_answer.h"

namespace moonfence::fence {

std::optional<policy::FailedAnswer> told_of(const cluster::EndpointFailure& failure) {
  using Why = cluster::EndpointFailure::Why;
  const auto told = [&failure](std::string_view error) {
    const int status = failure.error.http_status;
    return policy::FailedAnswer{
        .error = std::string(error),
        .message = failure.error.text,
        .since = std::chrono::floor<std::chrono::seconds>(failure.since).count(),
        .status = status == 0 ? std::nullopt : std::optional(status),
        .code = failure.code};
  };
  switch (failure.why) {
    case Why::Unconfigured:
    case Why::Refused:
      return std::nullopt;
    case Why::Unauthorized:
      return told("unauthorized");
    case Why::Timeout:
      return told("timeout");
    case Why::Unreachable:
      return told("unreachable");
    case Why::Status:
      return told("status");
    case Why::NotJson:
      return told("not_json");
    case Why::TooLarge:
      return told("too_large");
  }
  return std::nullopt;
}

namespace {

std::string fault_of(const policy::Request& request, const Result<Lookups::Body>& found) {
  if (!found && found.error().kind == Error::Kind::Limit) {
    return policy::too_large_list(request, PolicyFetch::kListLimit);
  }
  if (!found) {
    return found.error().message();
  }
  // 404: there is no such kind, which is an answer.
  return *found == nullptr ? std::string() : policy::fault_of_list(request, **found);
}

}  // namespace

struct PolicyFetch::Job {
  Job(Plan planned, std::function<void(Fetched)> told)
      : plan(std::move(planned)), done(std::move(told)) {}
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void lacks(const std::string& what) {
    if (fetched.missing.empty()) {
      fetched.missing = what;
    }
  }

  const Plan plan;
  std::function<void(Fetched)> done;
  Fetched fetched;
  int rounds = 0;
  std::size_t open = 0;  // answers of the round that are still to come
};

void PolicyFetch::take(Job& job, const std::string& name, bool tries,
                       const cluster::EndpointResult& found) {
  if (found) {
    job.fetched.answers[name] = tries ? policy::tried_json(found->status, found->body.get())
                                      : policy::answer_json(found->status, found->body.get());
    return;
  }
  const auto told = tries ? told_of(found.error()) : std::nullopt;
  if (told) {
    job.fetched.answers[name] = policy::failed_json(*told);
  } else {
    job.lacks(found.error().error.message());
  }
}

void PolicyFetch::ask(Plan plan, std::function<void(Fetched)> done) {
  next_round(std::make_shared<Job>(std::move(plan), std::move(done)));
}

void PolicyFetch::fetch(const policy::Policy& policy, const kube::Pod& pod,
                        const policy::PodFacts& facts, std::function<void(Fetched)> done) {
  ask([&policy, pod, facts](const auto& got) { return policy.plan_fetch(pod, facts, got); },
      std::move(done));
}

void PolicyFetch::next_round(const std::shared_ptr<Job>& job) {
  const auto plan = job->plan(job->fetched.answers);
  if (!plan.result) {
    job->lacks(plan.result.error().message());
  } else if (!plan.result->empty() && ++job->rounds > kMostRounds) {
    job->lacks("it still asks after " + std::to_string(kMostRounds) + " rounds");
  }
  if (!job->fetched.missing.empty() || plan.result->empty()) {
    job->done(std::move(job->fetched));
    return;
  }
  const auto ended = [this, job] {
    if (--job->open > 0) {
      return;
    }
    if (job->fetched.missing.empty()) {
      next_round(job);
    } else {
      job->done(std::move(job->fetched));
    }
  };
  job->open = plan.result->size() + 1;
  for (const auto& [name, request] : *plan.result) {
    perform(job, name, request, ended);
  }
  ended();
}

void PolicyFetch::perform(const std::shared_ptr<Job>& job, const std::string& name,
                          const policy::Request& request, const std::function<void()>& ended) {
  if (request.kind == policy::Request::Kind::Http) {
    endpoint_lookups_.get(
        request.endpoint, request.path,
        [job, ended, name, tries = request.tries](const cluster::EndpointResult& found) {
          take(*job, name, tries, found);
          ended();
        });
    return;
  }
  if (const std::string why = refusal(request); !why.empty()) {
    job->lacks(why);
    ended();
    return;
  }
  if (request.kind == policy::Request::Kind::List) {
    list(job, name, request, ended);
    return;
  }
  const auto path = kube::object_path(request.api_version, request.resource,
                                      Namespace(request.space), request.name);
  lookups_.get(path, [job, ended, name](const Result<Lookups::Body>& found) {
    if (!found) {
      job->lacks(found.error().message());
    } else {
      job->fetched.answers[name] = policy::answer_json(*found == nullptr ? 404 : 200, found->get());
    }
    ended();
  });
}

// All of them, or none: who judges by a part takes what it does not see for absent.
void PolicyFetch::list(const std::shared_ptr<Job>& job, const std::string& name,
                       const policy::Request& request, const std::function<void()>& ended) {
  kube::Query query = {{"limit", std::to_string(policy::kMostListed)}};
  if (!request.labels.empty()) {
    query.emplace_back("labelSelector", request.labels);
  }
  lookups_.list(kube::objects_path(request.api_version, request.resource, Namespace(request.space)),
                query,
                [job, ended, name, request](const Result<Lookups::Body>& found) {
                  if (const std::string fault = fault_of(request, found); !fault.empty()) {
                    job->lacks(fault);
                  } else {
                    job->fetched.answers[name] =
                        policy::answer_json(*found == nullptr ? 404 : 200, found->get());
                  }
                  ended();
                },
                {.limit = kListLimit, .metadata_only = request.metadata_only});
}

std::string PolicyFetch::refusal(const policy::Request& request) const {
  const std::string resource = request.api_version + "/" + request.resource;
  return allowed_.contains(resource)
             ? std::string()
             : request.text() + ": " + resource +
                   " is not among allowedReads of the engine's configuration";
}

}  // namespace moonfence::fence
