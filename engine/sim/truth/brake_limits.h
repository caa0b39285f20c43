#pragma once

// The brake's limits as a plan sets them, and whether too many nodes are down in truth.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "sim/truth/checker.h"
#include "sim/truth/node_marks.h"

namespace moonfence::sim {

// A number of nodes or a share of the workers; without a value there is no limit.
struct BrakeLimit {
  std::optional<std::int64_t> value;
  bool percent = false;

  [[nodiscard]] bool exceeded_by(std::int64_t nodes, std::int64_t workers) const;
};

struct BrakePace {
  BrakeLimit at_once;
  BrakeLimit per_window;
};

struct BrakeLimits {
  BrakeLimit max_down = {.value = 50, .percent = true};
  BrakePace cluster = {.at_once = {.value = 5}, .per_window = {.value = 10}};
  BrakePace zone;
  // Of a zone's workers; it takes more than `zone_min_down` of them besides.
  BrakeLimit zone_max_down = {.value = 55, .percent = true};
  std::int64_t zone_min_down = 2;
  Duration window = std::chrono::minutes(10);
};

[[nodiscard]] std::optional<BrakeLimit> parse_brake_limit(std::string_view text);
[[nodiscard]] BrakeLimits brake_limits(const Plan& plan);

// The nodes by their own objects, one after another: who is a worker, and who fell when. A worker
// is a node that ordinary pods can run on; what it is it shows while it is Ready, and one that
// never was is not counted, nor is one that is excluded, or that somebody held when it was Ready.
class BrakeCensus {
 public:
  struct Asked {
    const std::string* zone = nullptr;                         // null: all
    std::optional<Moment> since = std::nullopt;                // who fell earlier is left out
    std::function<bool(const std::string& node)> counts = {};  // of those that fell; empty: all
  };
  void set(const std::string& node, const Json& object, const NodeMarks& marks, Moment now);
  void remove(const std::string& node) { nodes_.erase(node); }
  // What a list shows: who is not in it is gone.
  void keep_only(const std::set<std::string>& names);
  [[nodiscard]] std::int64_t up(const std::string* zone = nullptr) const;
  [[nodiscard]] std::int64_t down(const Asked& asked) const;
  // "" for a node that has none, or that nobody has heard of.
  [[nodiscard]] std::string zone_of(const std::string& node) const;
  [[nodiscard]] std::set<std::string> zones() const;

 private:
  struct Node {
    std::string zone;
    bool counts = true;
    std::optional<Moment> fell;  // while it is not Ready
  };
  std::map<std::string, Node> nodes_;
};

// Whether the node carries a pod that could run elsewhere, in truth.
[[nodiscard]] bool carries_something(const Truth& truth, const std::string& node);

// Follows the truth: whether and since when more nodes are down than the brake lets pass. While
// they are, and until everybody has noticed that they are not, nobody may expect anything to be
// done.
class BrakeTruth {
 public:
  explicit BrakeTruth(const Plan& plan) : limits_(brake_limits(plan)), marks_(node_marks(plan)) {}
  void on_change(const Change& change, const Truth& truth);
  [[nodiscard]] bool engaged_within(Moment now, Duration ago) const {
    return ever_ && over_.held_within(now, ago);
  }
  [[nodiscard]] bool ever_engaged() const { return ever_; }

 private:
  const BrakeLimits limits_;
  const NodeMarks marks_;
  BrakeCensus nodes_;
  Since over_;
  bool seeded_ = false;
  bool ever_ = false;
};

}  // namespace moonfence::sim
