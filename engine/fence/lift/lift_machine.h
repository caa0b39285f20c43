#pragma once

// LiftMachine is how one node that carries a taint of ours (fence/rules/our_taints) proves itself
// clean: a pure machine. It is told events with the time and answers with effects;
// fence/lift/taint_lifter performs them.
//
//   Asleep ──Ready, and we act──▶ Queued ──▶ Reading ──another boot──▶ Lifting
//                                              │ same boot, Ready for 30 s
//                                              ▼
//                                           Searching ──nothing left, twice──▶ Confirming ──▶
//                                           Lifting
//
// The kubelet is asked twice, 5 s apart, and must be the same process both times: what it says runs
// there comes from a cache, and an old pod that it was about to start when it was asked first it
// has started by then. Storage is searched the second time only.
//
// Out of service, another boot is searched as well, but for what runs there: what is still attached
// to the node Kubernetes detaches by force as long as it believes in the taint. An annotation whose
// taint somebody took off is no less a question than the taint: what it proves is what the next
// incident goes by.
//
// Whatever is in doubt leaves the taint where it is, and the node is looked at again: while a
// container or a pod has to end, every 10 s, after ten minutes every 30 s; else after 30 s, 1 min …
// 5 min. Ready proves nothing by itself, but what the node reports of its volumes is up to date
// only after it: by live readings with one and the same transition time, the first of them 30 s,
// three of the kubelet's status ticks, before the last.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/names.h"
#include "base/time.h"
#include "fence/lift/node_leftovers.h"
#include "fence/rules/our_taints.h"
#include "kube/objects/objects.h"

namespace moonfence::fence {

class LiftMachine {
 public:
  static constexpr Duration kReadyFor = std::chrono::seconds(30);
  // Longer than the kubelet's cache of what runs lasts (kube/kubelet/kubelet_api.h).
  static constexpr Duration kApart = std::chrono::seconds(5);
  static constexpr Duration kWhileEnding = std::chrono::seconds(10);
  static constexpr Duration kWhileEndingSlowly = std::chrono::seconds(30);
  static constexpr Duration kSlowly = std::chrono::minutes(10);
  static constexpr Duration kFirstPause = std::chrono::seconds(30);
  static constexpr Duration kLongestPause = std::chrono::minutes(5);

  enum class State { Asleep, Queued, Reading, Searching, Confirming, Lifting, Resting };

  struct Queue {};  // call admitted() when there is room to look
  struct Read {};   // the node, live
  struct Search {   // for what the node may still hold
    Scope scope;
  };
  struct Lift {
    std::string why;
  };
  struct Keep {  // the taint stays
    Doubt doubt;
  };
  struct SetTimer {
    Duration delay;
  };
  struct Stop {};  // reads, timers and what has not left yet
  using Effect = std::variant<Queue, Read, Search, Lift, Keep, SetTimer, Stop>;
  using Effects = std::vector<Effect>;

  // The node is Ready by the watch, and this replica acts; or one of them is not so any more.
  [[nodiscard]] Effects wake();
  [[nodiscard]] Effects sleep();
  [[nodiscard]] Effects admitted();
  // nullopt: it could not be read.
  // `hold`: why nobody may touch it.
  [[nodiscard]] Effects read(const std::optional<kube::Node>& node, Moment now,
                             const std::optional<std::string>& hold = std::nullopt);
  // What a search came to. `doubt`: nullopt: nothing speaks against the node. `kubelet_started`: by
  // its word, if it was asked and answered.
  struct Finding {
    std::optional<Doubt> doubt;
    std::optional<WallTime> kubelet_started;
  };
  [[nodiscard]] Effects searched(const Finding& finding, Moment now);
  // `again`: what was tested is no longer so, or nobody knows.
  [[nodiscard]] Effects lifted(bool done, bool again);
  [[nodiscard]] Effects timer_fired();

  [[nodiscard]] State state() const { return state_; }
  // It takes one of the places of those that are looked at.
  [[nodiscard]] bool is_looked_at() const;

 private:
  struct Stamp {
    Uid uid;
    std::string boot_id;
    std::optional<WallTime> ready_since;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  [[nodiscard]] Effects judge(const kube::Node& node, Moment now);
  [[nodiscard]] Effects watch(const kube::Node& node, Moment now);
  [[nodiscard]] Effects search(Scope scope);
  [[nodiscard]] Effects keep(Doubt doubt, Moment now);
  Effects rest();
  Effects rest_for(Duration pause);
  Effects lift(std::string why);

  State state_ = State::Asleep;
  // The kubelet has said once that nothing is left.
  struct Word {
    Moment heard;
    WallTime started;  // its process
  };
  std::optional<Stamp> stamp_;
  Moment since_{};  // of the first reading with this stamp
  std::optional<Word> word_;
  Scope scope_;           // of the search under way
  unsigned doubts_ = 0;   // in a row
  unsigned retries_ = 0;  // of lifting, in a row
};

}  // namespace moonfence::fence
