#pragma once

// Brake keeps a fault that looks like many dead nodes from becoming one: it says whether a node may
// be fenced now, given how many are down and how many are being fenced. A ledger and arithmetic,
// without I/O: told of the census, of nodes that begin and end being fenced, and of time. It is
// asked before a pass reads anything, when its reading has arrived, in front of every deletion and
// again when its bytes leave.
//
//   down      nothing is done while more of the workers are newly down than max_down: then it is
//   the
//             network, the control plane or we ourselves, or there is no room for replacements. A
//             worker is a node that ordinary pods can run on, and newly down one that was Ready
//             within the window or is part of a storm that lasts (fence/brake/storm). All machines,
//             with those that a taint reserves, have to pass the same limit (cluster/nodes/census).
//   at once   nodes being fenced side by side.
//   window    nodes on which something was done within the window, and those being fenced.
//   zone      the latter two again for each zone; and while more than max_down of a zone and more
//             than min_down nodes of it are down, one of its nodes at a time.
//
// What was exceeded counts as exceeded until it has not been for `cool_down`, or a value that
// swings around the threshold would let something through with each swing. The default of 10 s is a
// kubelet's heartbeat: within it each node that lives has said so since the numbers fell.
//
// Nodes being fenced are ranked in the order in which they began; a node that has not begun comes
// after them. A limit of five permits the ranks 0 to 4. So a limit that shrinks in the middle (a
// zone is disrupted) stops all but the first, whoever asks.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "audit/reason.h"
#include "base/names.h"
#include "base/time.h"
#include "cluster/nodes/census.h"
#include "fence/brake/storm.h"

namespace moonfence::fence {

// A number of nodes or a share of the workers; without a value there is no limit.
struct Limit {
  std::optional<std::int64_t> value;
  bool percent = false;

  [[nodiscard]] static Limit off() { return {}; }
  [[nodiscard]] static Limit of(std::int64_t nodes) { return {.value = nodes}; }
  [[nodiscard]] static Limit share(std::int64_t percent) {
    return {.value = percent, .percent = true};
  }

  [[nodiscard]] bool exceeded_by(std::int64_t nodes, std::int64_t workers) const;
  // How many nodes it leaves room for. A share of a small cluster is one node at least: it is there
  // to slow down, not to stop.
  [[nodiscard]] std::int64_t room(std::int64_t workers) const;

  friend bool operator==(const Limit&, const Limit&) = default;
};

struct BrakeRules {
  struct Pace {
    Limit at_once;
    Limit per_window;

    friend bool operator==(const Pace&, const Pace&) = default;
  };
  Limit max_down = Limit::share(50);
  Pace cluster = {.at_once = Limit::of(5), .per_window = Limit::of(10)};
  Limit zone_max_down = Limit::share(55);
  std::int64_t zone_min_down = 2;
  Pace zone;
  Duration window = std::chrono::minutes(10);
  Duration memory = std::chrono::hours(24);       // of a storm that lasts
  std::vector<cluster::LabelMatch> exclude = {};  // nodes that are not counted at all
  Duration cool_down = std::chrono::seconds(10);

  friend bool operator==(const BrakeRules&, const BrakeRules&) = default;
};

// Each limit that is on by default, as the configuration calls it, and whether it is switched off.
[[nodiscard]] std::map<std::string, bool> switched_off(const BrakeRules& rules);

// One of the brake's refusals, or that we doubt ourselves, which incidents wait out alike.
[[nodiscard]] bool is_braking(audit::Reason reason);

class Brake {
 public:
  explicit Brake(BrakeRules rules) : rules_(std::move(rules)) {}
  Brake(const Brake&) = delete;
  Brake& operator=(const Brake&) = delete;

  // A share in a node's being fenced, held by a pass and by each deletion under way; the node is
  // being fenced until the last is gone. The brake must outlive it.
  class [[nodiscard]] Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept;
    Place& operator=(Place&& other) noexcept;
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { leave(); }
    void leave();

   private:
    friend class Brake;
    Place(Brake& brake, NodeName node) : brake_(&brake), node_(std::move(node)) {}
    Brake* brake_ = nullptr;
    NodeName node_;
  };

  struct Candidate {
    NodeName node;
    std::string zone;
  };

  // How many are down. Until it was told once nothing may be fenced.
  void count(const cluster::Census& census, Moment now);
  // Counts again where time alone changes who is newly down.
  void pass_time(Moment now);
  // Whether it would be too many if so many more workers, and machines in all, were down than the
  // census tells; false without a limit.
  [[nodiscard]] bool too_many_with(std::int64_t workers, std::int64_t machines) const;
  // Who is newly down: of the workers, or where only all machines together are too many, of these.
  struct Count {
    std::int64_t workers = 0;
    std::int64_t down = 0;
    bool dedicated_too = false;  // "workers" are all machines
    std::vector<NodeName> names = {};

    // "5 of 8 workers are newly down: n1, n2", with ten names at most.
    [[nodiscard]] std::string text() const;
  };
  [[nodiscard]] Count newly_down() const;
  [[nodiscard]] bool limits_down() const { return rules_.max_down.value.has_value(); }
  // There are signs that too many are down although the census does not show it yet: nothing is
  // done for the cool-down.
  void suspect(Moment now) { suspected_ = now; }
  // nullopt: the node may be fenced, or go on being fenced.
  [[nodiscard]] std::optional<audit::Reason> refuse(const Candidate& candidate, Moment now) const;
  Place begin(const Candidate& candidate);
  // A deletion on the node is about to be made: it counts for the window from now on.
  void acted(const Candidate& candidate, Moment now);
  // The same of one that another leader made at that moment.
  void recall(const Candidate& candidate, Moment at);

  [[nodiscard]] bool too_many_down() const { return down_.over; }
  // We acted there in this storm: that it carries nothing may be our own doing.
  [[nodiscard]] bool dealt_with(const NodeName& node, Moment now) const;
  // Too many nodes are down, or were within the cool-down.
  [[nodiscard]] bool engaged(Moment now) const;
  // When passing time alone may permit what is refused now; nullopt: never.
  [[nodiscard]] std::optional<Moment> next_release(Moment now) const;
  [[nodiscard]] std::size_t being_fenced() const { return ledger_.size(); }
  [[nodiscard]] std::size_t disrupted_zones(Moment now) const;

  // Called when a node's last place is gone; null: `who` is not told any more.
  void on_room(const void* who, std::function<void()> room);

 private:
  // A limit on nodes that are down, with its memory.
  struct Trip {
    bool over = false;
    std::optional<Moment> ended;

    void note(bool is_over, Moment now);
    [[nodiscard]] bool holds(Moment now, Duration cool_down) const;
  };
  struct Entry {
    Candidate who;
    int places = 0;
  };
  struct Acted {
    std::string zone;
    Moment last;
  };

  // Nodes of the zone (null: of all) that stand before the candidate: in the ledger, and of those
  // in the window that are not in the ledger.
  struct Before {
    std::int64_t at_once = 0;
    std::int64_t in_window = 0;
  };
  [[nodiscard]] Before before(const Candidate& candidate, const std::string* zone,
                              Moment now) const;
  [[nodiscard]] bool acted_lately(const NodeName& node, Moment now) const;
  // Of all, or of one zone.
  [[nodiscard]] Storm storm_in(const cluster::Census::Group& group, const std::string* zone,
                               Moment now) const;
  void count_zones(Moment now);
  // By how many a share of the workers is measured; where all machines are dedicated, by these.
  [[nodiscard]] std::int64_t workers(const std::string* zone = nullptr) const;
  [[nodiscard]] std::optional<audit::Reason> refuse_by(const BrakeRules::Pace& pace,
                                                       const Before& before, bool known,
                                                       std::int64_t workers) const;
  void leave(const NodeName& node);
  [[nodiscard]] bool suspects(Moment now) const;
  [[nodiscard]] Duration suspicion() const;

  const BrakeRules rules_;
  cluster::Census census_;
  bool counted_ = false;
  Storm workers_;
  Storm machines_;
  Trip down_;
  std::optional<Moment> suspected_;
  std::map<std::string, Trip> zones_;
  std::vector<Entry> ledger_;        // in the order in which they began
  std::map<NodeName, Acted> acted_;  // within the window, and what was not swept out yet
  std::vector<std::pair<const void*, std::function<void()>>> room_;  // in the order of coming
};

}  // namespace moonfence::fence
