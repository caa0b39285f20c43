#pragma once

// HealthSourcePoll asks one policy's `source`: every so often for all nodes, and at once whenever
// an incident wants its word on one. Both are the same question, whose answers are read by the
// policy; each successful one goes into the SourceHealth, and what is news there is told. A
// question that fails changes nothing.

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/endpoints/endpoint.h"
#include "fence/leadership/leadership.h"
#include "fence/read/policy_fetch.h"
#include "fence/sources/node_health_feed.h"
#include "fence/sources/source_state.h"
#include "kube/calls/reader.h"
#include "loop/loop.h"
#include "policy/host/policy.h"
#include "port/log.h"

namespace moonfence::fence {

class HealthSourcePoll final : public NodeHealthFeed {
 public:
  struct Surroundings {
    loop::Loop& loop;
    kube::Reader& reader;
    const std::set<std::string>& allowed_reads;
    cluster::Endpoints* endpoints;
    port::Log& log;
    const Leadership& leadership;
  };
  // `key`: of its bindings. All but the policy outlive it.
  HealthSourcePoll(const Surroundings& surroundings, std::shared_ptr<const policy::Policy> policy,
                   std::string key, Tell tell);
  ~HealthSourcePoll() override;
  HealthSourcePoll(const HealthSourcePoll&) = delete;
  HealthSourcePoll& operator=(const HealthSourcePoll&) = delete;

  void start() override;
  void stop() override;
  void tell_again() override;
  void suppose_failed(const NodeName& node) override;

  [[nodiscard]] std::unique_ptr<Question> ask(const NodeName& node, Done done) override;
  [[nodiscard]] const std::string& key() const override { return key_; }
  [[nodiscard]] const SourceHealth& source_health() const override { return source_health_; }
  [[nodiscard]] const std::string& origin() const override { return policy_->name(); }
  [[nodiscard]] std::string lasting_fault() const override;

 private:
  struct Asked;
  struct Run;
  class Handle;
  void poll();
  Run& begin();
  void set_out(Run& run);
  void answered(Run& run, const Fetched& fetched);
  void take(Run& run, Result<policy::NodeStates> states);
  void note(const policy::NodeStates& states, Moment began);
  void tell(const SourceHealth::News& news);
  void note_fault(const std::string& fault);

  const Surroundings around_;
  const std::shared_ptr<const policy::Policy> policy_;
  const std::string key_;
  const Tell tell_;
  SourceHealth source_health_;
  std::map<NodeName, SourceHealth::Change> untold_;
  std::set<NodeName> supposed_failed_;
  std::list<std::unique_ptr<Run>> runs_;  // in the order in which they began
  Moment noted_{};                        // when the newest reading in the book began
  loop::Timer next_poll_;
  std::string fault_;  // why the last reading failed; "" when it went well
  std::optional<Moment> failing_since_;
  bool running_ = false;
};

}  // namespace moonfence::fence
