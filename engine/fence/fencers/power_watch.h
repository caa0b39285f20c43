#pragma once

// PowerWatch asks the fencers of nodes that are down whether their machines have power
// (fence/fencers/power_question), and how they are switched off or isolated
// (fence/act/fencer_orders does that). Off is a moment and no property: whatever restarts machines
// by itself makes it old. So a reading counts for some seconds, and is made again for as long as
// somebody looks at the node. That its storage refuses a node is read in the same way. Several
// fencers are asked one after the other, by the rules of PowerQuestion::Until::FirstAnswer.

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cluster/endpoints/endpoint.h"
#include "fence/fencers/power_question.h"
#include "fence/proof/powers.h"
#include "kube/calls/reader.h"
#include "loop/loop.h"
#include "policy/host/policy.h"
#include "port/log.h"

namespace moonfence::fence {

class PowerWatch final : public Powers {
 public:
  // Between two readings of a machine.
  static constexpr Duration kEvery = std::chrono::seconds(3);
  // When it is read after it was told to switch off. Most controllers cut the power at once.
  static constexpr std::array<Duration, 4> kAfterOrder = {
      std::chrono::seconds(1), std::chrono::seconds(2), std::chrono::seconds(3),
      std::chrono::seconds(5)};
  // How long one counts. A machine that is switched on again takes longer to start its kubelet.
  static constexpr Duration kLifetime = std::chrono::seconds(10);
  // How long one fencer may take.
  static constexpr Duration kLimit = PowerQuestion::kLimit;
  // Machines that are asked at the same time; a dead BMC takes up one place for its time-out.
  static constexpr std::size_t kAtOnce = 8;
  // Whoever was off and is on was switched on by somebody, and needs time until its kubelet speaks:
  // until that has told of another boot, and at most for so long, it is not switched off again.
  static constexpr Duration kSwitchedOn = std::chrono::minutes(10);

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

  [[nodiscard]] bool may_act() const override;
  void look_at(const kube::Node& node) override;
  [[nodiscard]] std::optional<PowerReading> reading_of(const NodeName& node,
                                                       const Uid& uid) const override;
  [[nodiscard]] std::string told_of(const NodeName& node) const override;
  void order_begins(const NodeName& node, const PowerOrder& order) override;
  void order_ended(const NodeName& node, const PowerOrder& order, bool may_have_arrived) override;
  [[nodiscard]] std::optional<LastOrder> last_order(const NodeName& node) const override;

 private:
  struct Machine {
    std::optional<kube::Node> due = std::nullopt;  // it waits for its turn
    Uid node = {};
    std::optional<PowerReading> reading = std::nullopt;
    std::string told = {};
    Moment looked_at{};                          // when it was last asked for
    std::optional<Moment> asked = std::nullopt;  // when it was last asked
    std::optional<LastOrder> ordered = std::nullopt;
    std::optional<Moment> off = std::nullopt;        // when it was last read to be off
    std::optional<kube::Node> about = std::nullopt;  // as it was last looked at
    loop::Timer after_order = {};
    std::shared_ptr<PowerQuestion> question = nullptr;
  };
  // Those that wait, the one that was asked longest ago first.
  void give_turns();
  void read_after_order(const NodeName& node, std::size_t step);
  void ask(Machine& machine, kube::Node node);
  void ended(const PowerQuestion& question);
  [[nodiscard]] std::optional<PowerOrder> order_of(const Machine& machine,
                                                   const PowerQuestion& question,
                                                   std::string& told) const;
  void end(Machine& machine);
  [[nodiscard]] std::size_t under_way() const;

  const Surroundings around_;
  const std::vector<BoundFencer> fencers_;
  std::map<NodeName, Machine> machines_;
};

}  // namespace moonfence::fence
