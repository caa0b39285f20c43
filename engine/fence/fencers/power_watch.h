#pragma once

// PowerWatch asks the fencers of nodes that are down whether their machines have power, and how
// they are switched off (fence/act/power_switch does that). A fencer is a Lua file that the
// engine's own configuration binds to nodes: it names what is to be read, and says what the answers
// mean. Off is a moment and no property: whatever restarts machines by itself makes it old. So a
// reading counts for some seconds, and is made again for as long as somebody looks at the node.
// Several fencers are asked one after the other: who says on or off is the last; who cannot say
// leaves it to the next.

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cluster/endpoints/endpoint.h"
#include "fence/proof/powers.h"
#include "kube/calls/reader.h"
#include "loop/loop.h"
#include "policy/host/policy.h"
#include "policy/host/selector.h"
#include "port/log.h"

namespace moonfence::fence {

struct BoundFencer {
  std::shared_ptr<const policy::Policy> fencer;
  policy::LabelSelector nodes;
  bool switches_off = false;  // by the engine's configuration, and it can
};

class PowerWatch final : public Powers {
 public:
  // Between two readings of a machine.
  static constexpr Duration kEvery = std::chrono::seconds(3);
  // How long one counts. A machine that is switched on again takes longer to start its kubelet.
  static constexpr Duration kLifetime = std::chrono::seconds(10);
  // How long one fencer may take: what it would say then is too old to count.
  static constexpr Duration kLimit = std::chrono::seconds(8);
  // Machines that are asked at the same time; a dead BMC takes up one place for its time-out.
  static constexpr std::size_t kAtOnce = 8;

  struct Surroundings {
    loop::Loop& loop;
    kube::Reader& reader;
    const std::set<std::string>& allowed_reads;
    cluster::Endpoints* endpoints;
    port::Log& log;
    // What was read of a machine may be acted by, and nothing of the kind was known before.
    std::function<void(const NodeName&)> found = [](const NodeName&) {};
  };
  // All must outlive it.
  PowerWatch(const Surroundings& surroundings, std::vector<BoundFencer> fencers);
  ~PowerWatch() override;
  PowerWatch(const PowerWatch&) = delete;
  PowerWatch& operator=(const PowerWatch&) = delete;

  [[nodiscard]] bool may_switch_off() const override;
  void look_at(const kube::Node& node) override;
  [[nodiscard]] std::optional<PowerReading> reading_of(const NodeName& node,
                                                       const Uid& uid) const override;
  [[nodiscard]] std::string told_of(const NodeName& node) const override;

 private:
  struct Question;
  struct Machine {
    std::optional<kube::Node> due = std::nullopt;  // it waits for its turn
    Uid node = {};
    std::optional<PowerReading> reading = std::nullopt;
    std::string told = {};
    Moment looked_at{};                          // when it was last asked for
    std::optional<Moment> asked = std::nullopt;  // when it was last asked
    std::shared_ptr<Question> question = nullptr;
  };
  // Those that wait, the one that was asked longest ago first.
  void give_turns();
  void ask(Machine& machine, kube::Node node);
  void ask_next(Question& question);
  void ended(Question& question, policy::PowerState said);
  [[nodiscard]] std::optional<policy::Request> order_of(Question& question,
                                                        const policy::PowerState& said) const;
  [[nodiscard]] Machine* machine_of(const Question& question);
  void end(Machine& machine);
  [[nodiscard]] std::size_t under_way() const;

  const Surroundings around_;
  const std::vector<BoundFencer> fencers_;
  std::map<NodeName, Machine> machines_;
};

}  // namespace moonfence::fence
