#pragma once

// Election decides who of several replicas acts: a pure machine over one Lease, compatible with
// client-go's leader election in what it writes, and stricter in what it concludes from it.
//
//   Following ──free, or unchanged for its whole duration──▶ Taking ──written──▶ Leading
//       ▲                                                      │                   │
//       └────────── somebody else wrote, or it failed ─────────┘    lost ◀─────────┘
//
// Only our own monotonic clock counts. A record is judged by how long *we* have seen it unchanged,
// and what we hold counts from the moment the successful write was *sent*: client-go counts from
// the answer, and a process that slept in between would believe too long (k8s-client.md items 108,
// 111). leading_until() is when another replica may take over at the earliest. Whoever acts must be
// done by then; the guard sees to that.
//
// A write whose answer was lost may have been done: the machine reads, and when it finds its own
// record, it leads from the moment that write was sent.

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "kube/lease.h"

namespace moonfence::kube {

// client-go's defaults. duration > renew_deadline > retry * 1.2.
struct ElectionRules {
  Duration duration = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);  // without success for that long: step down
  Duration retry = std::chrono::seconds(2);
};

class Election {
 public:
  enum class State { Following, Taking, Leading, Releasing, Stopped };

  // Effects, in the order in which they are to be performed. At most one request is under way.
  struct Read {};
  struct Write {
    LeaseRecord record;
    std::optional<Lease> over;  // what it replaces; absent: create
  };
  struct SetTimer {
    Duration delay;
  };
  struct Lead {};  // we became the leader
  struct Lose {
    std::string why;
  };
  struct Released {};  // after release(): the Lease is free, or could not be freed
  using Effect = std::variant<Read, Write, SetTimer, Lead, Lose, Released>;
  using Effects = std::vector<Effect>;

  // `identity`: "<pod name>_<uuid>", never used twice.
  Election(std::string identity, ElectionRules rules)
      : identity_(std::move(identity)), rules_(rules) {}

  [[nodiscard]] Effects start();
  // `chance` in [0, 1) spreads the candidates' attempts.
  [[nodiscard]] Effects timer_fired(Moment now, WallTime wall, double chance);
  // nullopt: there is no Lease yet.
  [[nodiscard]] Effects read(const std::optional<Lease>& lease, Moment now, WallTime wall,
                             double chance);
  [[nodiscard]] Effects read_failed(Moment now, double chance);
  // `sent`: when the request left.
  [[nodiscard]] Effects written(const Lease& lease, Moment sent, Moment now, double chance);
  [[nodiscard]] Effects write_failed(const Error& error, Moment now, double chance);
  // A write was refused because, by the Lease, another one leads: it is read again before long.
  [[nodiscard]] Effects deposed(Moment now, double chance);
  // Free the Lease, when all that we started has ended. A follower stops at once.
  [[nodiscard]] Effects release(WallTime wall);

  [[nodiscard]] State state() const { return state_; }
  // Nobody else can lead before this moment; nullopt: we do not lead.
  [[nodiscard]] std::optional<Moment> leading_until() const;
  // Who holds it as far as we know; "" nobody.
  [[nodiscard]] const std::string& holder() const { return seen_.holder; }
  [[nodiscard]] const std::string& identity() const { return identity_; }

 private:
  Effects wait(Duration delay, double chance);
  Effects judge(Moment now, WallTime wall, double chance);
  Effects renew(Moment now, WallTime wall);
  Effects lead(Moment sent, Moment now, double chance);
  Effects lose(std::string why, Moment now, double chance);
  void observe(const std::optional<Lease>& lease, Moment now);

  std::string identity_;
  ElectionRules rules_;
  State state_ = State::Following;
  std::optional<Lease> lease_;  // newest seen
  LeaseRecord seen_;            // its record
  Moment seen_since_{};         // since when it has not changed
  bool seen_any_ = false;
  std::optional<Moment> sent_;  // of the newest write known to have succeeded
  // A write whose fate is unknown: what it said and when it left.
  std::optional<LeaseRecord> tried_;
  Moment tried_at_{};
};

[[nodiscard]] std::string_view to_string(Election::State state);

}  // namespace moonfence::kube
