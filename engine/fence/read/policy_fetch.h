#pragma once

// PolicyFetch reads what one policy asks for by its `fetch` function for one pod, or by its health
// source, round by round, until the policy has enough. Only resources that the engine's
// configuration allows are read, and only endpoints that it names.

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "fence/read/endpoint_lookups.h"
#include "fence/read/lookups.h"
#include "kube/objects/objects.h"
#include "policy/host/policy.h"
#include "policy/values/failed_answer.h"

namespace moonfence::fence {

struct Fetched {
  nlohmann::json answers = nlohmann::json::object();  // by the policy's names
  std::string missing;                                // why not all could be had; "" when it was
};

// What a policy that asked by fence.try is told; nullopt: it is the engine's own fault, and nobody
// judges by it.
[[nodiscard]] std::optional<policy::FailedAnswer> told_of(const cluster::EndpointFailure& failure);

class PolicyFetch {
 public:
  static constexpr int kMostRounds = 4;
  // Of the answer to fence.list.
  static constexpr std::size_t kListLimit = std::size_t{512} << 10U;

  // "example.com/v1/arrays": what fence.get and fence.list may read. All must outlive it.
  PolicyFetch(Lookups& lookups, const std::set<std::string>& allowed,
              EndpointLookups& endpoint_lookups)
      : lookups_(lookups), allowed_(allowed), endpoint_lookups_(endpoint_lookups) {}

  // What is asked for beside the answers so far.
  using Plan = std::function<policy::Run<policy::Requests>(const nlohmann::json& got)>;

  // `done` is called once, at once or in a later turn.
  void ask(Plan plan, std::function<void(Fetched)> done);
  // The policy must live until then.
  void fetch(const policy::Policy& policy, const kube::Pod& pod, const policy::PodFacts& facts,
             std::function<void(Fetched)> done);

 private:
  struct Job;
  void next_round(const std::shared_ptr<Job>& job);
  void perform(const std::shared_ptr<Job>& job, const std::string& name,
               const policy::Request& request, const std::function<void()>& ended);
  void list(const std::shared_ptr<Job>& job, const std::string& name,
            const policy::Request& request, const std::function<void()>& ended);
  static void take(Job& job, const std::string& name, bool tries,
                   const cluster::EndpointResult& found);
  [[nodiscard]] std::string refusal(const policy::Request& request) const;

  Lookups& lookups_;
  const std::set<std::string>& allowed_;
  EndpointLookups& endpoint_lookups_;
};

}  // namespace moonfence::fence
