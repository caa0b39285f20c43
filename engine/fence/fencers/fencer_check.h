#pragma once

// FencerCheck asks the fencers of nodes that are Ready, every few hours and all of them, so that
// one that would prove nothing is known before the night in which it is needed. It only asks: what
// it finds is told, and nothing else depends on it. Only whoever leads asks; a few machines at a
// time, and one a second, because what is asked may be one gateway for a whole hall.
//
// One failure is no fault: a controller restarts, a cable is moved. What failed is asked again
// after some minutes, also to see that it was mended; who fails twice in a row is broken.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/nodes/node_view.h"
#include "fence/fencers/fencer_state.h"
#include "fence/fencers/power_question.h"
#include "kube/calls/reader.h"
#include "loop/loop.h"
#include "port/log.h"

namespace moonfence::fence {

class FencerCheck {
 public:
  // After we began to lead, or the node came.
  static constexpr Duration kFirst = std::chrono::minutes(5);
  static constexpr Duration kEvery = std::chrono::hours(6);
  // After the first failure, and doubled with each that follows, up to kEvery.
  static constexpr Duration kAgain = std::chrono::minutes(10);
  static constexpr int kFailures = 2;                          // in a row
  static constexpr Duration kPause = std::chrono::seconds(1);  // between two nodes
  static constexpr std::size_t kAtOnce = 4;
  // Between two looks at which nodes there are; what is told changes as often.
  static constexpr Duration kLook = std::chrono::minutes(1);
  static constexpr std::size_t kMostTold = 20;

  struct Broken {
    NodeName node;
    Uid uid = {};
    std::string why = {};  // "bmc: unknown, HTTP 401"
    WallTime since{};
  };
  // Of nodes that are Ready and were asked about; one that has failed for the first time is as it
  // was before.
  struct Told {
    FencerCounts counts = {};
    std::vector<Broken> broken = {};  // by name
    std::size_t broken_cut = 0;       // and how many more
  };
  struct Surroundings {
    loop::Loop& loop;
    kube::Reader& reader;
    const std::set<std::string>& allowed_reads;
    cluster::Endpoints* endpoints;
    port::Log& log;
    // Tells of every node that the watch shows.
    std::function<void(const std::function<void(const cluster::NodeView&)>&)> each_node;
    std::function<WallTime()> now;
    std::function<void(const Broken&)> broke;  // is told once, until it works again
  };

  // All must outlive it. It does nothing before lead().
  FencerCheck(Surroundings surroundings, const std::vector<BoundFencer>& fencers);
  ~FencerCheck();
  FencerCheck(const FencerCheck&) = delete;
  FencerCheck& operator=(const FencerCheck&) = delete;

  void lead();
  void step_down();

  [[nodiscard]] const Told& told() const { return told_; }

 private:
  struct Machine {
    Uid uid = {};
    bool is_ready = true;
    Moment seen{};  // when it was last looked at
    Moment due{};
    int failures = 0;  // in a row
    std::optional<FencerState> state = std::nullopt;
    std::string why = {};
    WallTime since{};  // it is broken
    kube::CallHandle reading = nullptr;
    std::shared_ptr<PowerQuestion> question = nullptr;

    [[nodiscard]] bool is_asked() const { return reading != nullptr || question != nullptr; }
  };
  void turn();
  void look(Moment now);
  // When there is something to do again.
  [[nodiscard]] Moment begin_next(Moment now);
  void read(const NodeName& name, Machine& machine);
  void ask(const NodeName& name, Machine& machine, const Result<kube::Node>& node);
  void settle(const NodeName& name, Machine& machine, FencerState found, std::string why);
  void leave(Machine& machine);
  [[nodiscard]] std::size_t under_way() const;
  void tell();

  const Surroundings around_;
  const std::vector<BoundFencer>& fencers_;
  std::map<NodeName, Machine> machines_;  // its elements stay in place
  std::optional<Moment> looked_;
  Told told_;
  bool leads_ = false;
  loop::Timer timer_;
};

}  // namespace moonfence::fence
