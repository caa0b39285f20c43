#pragma once

// PowerQuestion asks the fencers of one machine whether it has power: one after the other, in their
// order, each with a time of its own. It only asks. A fencer is a Lua file that the engine's own
// configuration binds to nodes: it names what is to be read, and says what the answers mean. What
// one reads is read for it, and never reused.

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cluster/endpoints/endpoint.h"
#include "fence/proof/powers.h"
#include "fence/read/endpoint_lookups.h"
#include "fence/read/lookups.h"
#include "fence/read/policy_fetch.h"
#include "kube/calls/reader.h"
#include "loop/loop.h"
#include "policy/host/policy.h"
#include "policy/host/selector.h"

namespace moonfence::fence {

struct BoundFencer {
  std::shared_ptr<const policy::Policy> fencer;
  policy::LabelSelector nodes;
  bool may_act = false;                  // by the engine's configuration, and it can
  std::set<std::string> may_write = {};  // "group/version/resource"; likewise

  // What it would do about a machine of which it says so.
  [[nodiscard]] policy::FencerAct act_on(policy::Power power) const;
};

// Those that are asked about the node, in this order.
[[nodiscard]] std::vector<const BoundFencer*> fencers_of(const kube::Node& node,
                                                         const std::vector<BoundFencer>& fencers);

class PowerQuestion {
 public:
  // How long one fencer may take: what it would say then is too old to count.
  static constexpr Duration kLimit = std::chrono::seconds(8);
  // Who says isolated is asked once more after it, and has to say the same: storage refuses a
  // machine on one of its servers after the other, and says so before the last has heard of it.
  static constexpr Duration kPause = std::chrono::seconds(1);
  // Of an answer. What a controller says of a machine is a few dozen kilobytes; as JSON in memory
  // it takes many times its length, and every controller of the cluster is asked now and then.
  static constexpr std::size_t kAnswer = std::size_t{512} << 10U;

  enum class Until {
    // Who says off or isolated is the last, and so is who may do something about what it says; any
    // other leaves it to the next. Where one says on, no later one is believed that says off.
    FirstAnswer,
    All,  // every one is asked
  };
  struct Surroundings {
    loop::Loop& loop;
    kube::Reader& reader;
    const std::set<std::string>& allowed_reads;
    cluster::Endpoints* endpoints;
  };
  // What one of them said.
  struct Word {
    std::string fencer;
    policy::PowerState state = {};
    // What it would have done by its answers, or why it cannot, of one that would act.
    std::optional<PowerOrder> order = std::nullopt;
    std::string cannot = {};
  };
  // Called once, in a later turn. It may not be destroyed in it, but be left (see below).
  using Done = std::function<void(const PowerQuestion& question)>;

  // The node must carry its raw JSON; `whom` is not empty. All that is referred to must outlive it.
  PowerQuestion(const Surroundings& surroundings, kube::Node of,
                std::vector<const BoundFencer*> whom, Until until, Done done);
  PowerQuestion(const PowerQuestion&) = delete;
  PowerQuestion& operator=(const PowerQuestion&) = delete;
  ~PowerQuestion() = default;

  // Nobody is told any more. It may be up the stack: it dies at the end of the turn.
  static void leave(loop::Loop& loop, std::shared_ptr<PowerQuestion> question);

  [[nodiscard]] const kube::Node& node() const { return node_; }
  // Of those that were asked, in order.
  [[nodiscard]] const std::vector<Word>& words() const { return words_; }
  // All of it: "bmc: unknown, HTTP 503; cloud: off, stopped".
  [[nodiscard]] std::string told() const;
  // Who was asked last, since when, and the answers to it.
  [[nodiscard]] const BoundFencer& last() const { return *fencers_.at(at_); }
  [[nodiscard]] Moment began() const { return began_; }
  [[nodiscard]] const nlohmann::json& answers() const { return answers_; }

 private:
  void ask();
  void take(const Fetched& fetched);
  void heard(policy::PowerState said);
  [[nodiscard]] Word word_of(policy::PowerState said) const;

  const Surroundings around_;
  const kube::Node node_;
  const std::vector<const BoundFencer*> fencers_;
  const Until until_;
  const Done done_;
  std::size_t at_ = 0;
  bool waits_ = false;                             // for the word of that one
  std::optional<std::set<std::string>> isolated_;  // of these drivers, it has said once
  Moment began_{};
  nlohmann::json answers_;
  std::vector<Word> words_;
  std::unique_ptr<Lookups> lookups_;
  std::unique_ptr<EndpointLookups> endpoint_lookups_;
  std::unique_ptr<PolicyFetch> policy_fetch_;
  loop::Timer turn_;
  loop::Timer limit_;
};

}  // namespace moonfence::fence
