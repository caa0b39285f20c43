#pragma once

// Recovery is how one node that carries a taint of ours (fence/quarantine) proves itself clean: a
// pure machine. It is told events with the time and answers with effects; fence/hand_back performs
// them.
//
//   Asleep ──Ready, and we act──▶ Queued ──▶ Reading ──another boot──▶ Lifting
//                                              │ same boot, Ready for 30 s
//                                              ▼
//                                           Searching ──nothing left──▶ Confirming ──▶ Lifting
//
// Out of service, another boot is searched as well: what is still attached to the node Kubernetes
// detaches by force as long as it believes in the taint. An annotation whose taint somebody took
// off is no less a question than the taint: what it proves is what the next incident goes by.
//
// Whatever is in doubt leaves the taint where it is, and the node is looked at again after 30 s, 1
// min … 5 min. The proof is an observation of ours: Ready by live readings with one and the same
// transition time, the first of them 30 s, three of the kubelet's status ticks, before the last.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/names.h"
#include "base/time.h"
#include "fence/quarantine.h"
#include "kube/objects.h"

namespace moonfence::fence {

class Recovery {
 public:
  static constexpr Duration kReadyFor = std::chrono::seconds(30);
  static constexpr Duration kFirstPause = std::chrono::seconds(30);
  static constexpr Duration kLongestPause = std::chrono::minutes(5);

  enum class State { Asleep, Queued, Reading, Searching, Confirming, Lifting, Resting };

  struct Queue {};   // call admitted() when there is room to look
  struct Read {};    // the node, live
  struct Search {};  // for what the node may still hold (fence/remains)
  struct Lift {
    std::string why;
  };
  struct Doubt {  // the taint stays
    std::string why;
  };
  struct SetTimer {
    Duration delay;
  };
  struct Stop {};  // reads, timers and what has not left yet
  using Effect = std::variant<Queue, Read, Search, Lift, Doubt, SetTimer, Stop>;
  using Effects = std::vector<Effect>;

  // The node is Ready by the watch, and this replica acts; or one of them is not so any more.
  [[nodiscard]] Effects wake();
  [[nodiscard]] Effects sleep();
  [[nodiscard]] Effects admitted();
  // nullopt: it could not be read.
  [[nodiscard]] Effects read(const std::optional<kube::Node>& node, Moment now);
  // "": nothing speaks against it.
  [[nodiscard]] Effects searched(const std::string& doubt);
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
  [[nodiscard]] Effects doubt(std::string why);
  Effects rest();
  Effects lift(std::string why);

  State state_ = State::Asleep;
  std::optional<Stamp> stamp_;
  Moment since_{};        // of the first reading with this stamp
  unsigned doubts_ = 0;   // in a row
  unsigned retries_ = 0;  // of lifting, in a row
};

}  // namespace moonfence::fence
