#pragma once

// Election decides who of several replicas acts: a pure machine over one Lease, compatible with
// client-go's leader election in what it writes, and stricter in what it concludes from it.
//
//   Following ──free, or unchanged for its whole duration──▶ Taking ──written──▶ Leading
//       ▲                                                      │                   │
//       └────────── somebody else wrote, or it failed ─────────┘    lost ◀─────────┘
//
// Only our own monotonic clock counts. A record is judged by how long *we* have seen it unchanged,
// and what we hold counts from the moment the successful write was *sent*, or from a read sent
// later that still showed the record before it: client-go counts from the answer, and a process
// that slept in between would believe too long. leading_until() is
// when another replica may take over at the earliest. Whoever acts must be done by then; the guard
// sees to that. A term that ran out ends acting, not leading: nobody else leads before he has
// written his name there, and we look.
//
// A write may take longer than a term: it is waited for, and meanwhile the Lease is read beside it,
// and after two renewals' time the write is sent once more, in case the first was lost: of two over
// one version only one is done.
// A write whose answer was lost may have been done: when a read finds our own record, it was.
// Leadership is lost to somebody else's name, or when we could neither write nor read ours for
// `renew_deadline`.
//
// A Lease can go back in time, with the whole store, or be deleted. Then nobody knows who held it,
// and he may believe for a whole term that it is his, whatever it says now, be it our own name. So
// long nobody takes it but the one who held it.
//
// Where we sit: a replica whose own node is down or being emptied does not act on that node, and
// may be gone in a moment. It leaves a free Lease to the others for a while; another one that sits
// better asks for the Lease, by a note on it, and the leader then hands it over. Without one that
// asks it goes on: somebody has to lead.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "kube/leases/lease.h"

namespace moonfence::kube {

struct ElectionRules {
  Duration duration = std::chrono::seconds(5);  // of a term at least
  Duration renew_deadline = std::chrono::seconds(10);
  Duration retry = std::chrono::seconds(1);  // between two renewals
};

// How well a node carries a replica: the higher, the worse.
enum class Seat {
  Well,     // or nobody knows
  Leaving,  // nothing new is to run on it: it is being emptied
  Down,
};

// Who sits where: on which node we do, "" not known, and how well any node carries a replica.
struct Seats {
  std::string node = {};
  std::function<Seat(const std::string& node)> seat_of = {};  // empty: nobody knows
};

class Election {
 public:
  static constexpr Duration kLongestTerm = std::chrono::seconds(75);

  enum class State { Following, Taking, Leading, Releasing, Stopped };

  // Effects, in the order in which they are to be performed. At most two writes are under way, and
  // one read.
  struct Read {};
  struct Write {
    LeaseRecord record;
    std::optional<Lease> over;  // what it replaces; absent: create
    LeaseNotes notes = {};
  };
  struct SetTimer {
    Duration delay;
  };
  struct Lead {};  // we became the leader
  struct Lose {
    std::string why;
  };
  struct Wanted {};    // one that sits better asks for it: end what was started, then hand_over()
  struct Released {};  // after release(): the Lease is free, or could not be freed
  using Effect = std::variant<Read, Write, SetTimer, Lead, Lose, Wanted, Released>;
  using Effects = std::vector<Effect>;

  // `identity`: "<pod name>_<uuid>", never used twice.
  Election(std::string identity, ElectionRules rules, Seats seats = {})
      : identity_(std::move(identity)),
        rules_(rules),
        term_(rules.duration),
        seats_(std::move(seats)) {}

  [[nodiscard]] Effects start();
  // How long the terms of the next writes are to last.
  void set_term(Duration term) { term_ = term; }
  // `chance` in [0, 1) spreads the candidates' attempts.
  [[nodiscard]] Effects timer_fired(Moment now, WallTime wall, double chance);
  // nullopt: there is no Lease yet. `sent`: when the request left.
  [[nodiscard]] Effects read(const std::optional<Lease>& lease, Moment sent, Moment now,
                             WallTime wall, double chance);
  [[nodiscard]] Effects read_failed(Moment now, double chance);
  [[nodiscard]] Effects written(const Lease& lease, Moment sent, Moment now, double chance);
  [[nodiscard]] Effects write_failed(const Error& error, Moment now, double chance);
  // A write was refused because, by the Lease, another one leads: it is read again before long.
  // Where it names us then, and has named nobody else since, the server judges by an old copy of it
  // (kubernetes/kubernetes#130887): to be told so once more ends nothing. Renewals show who leads.
  [[nodiscard]] Effects deposed(Moment now, double chance);
  // After Wanted, when all that we started has ended: free it, and follow.
  [[nodiscard]] Effects hand_over(WallTime wall);
  // Free the Lease, when all that we started has ended. A follower stops at once.
  [[nodiscard]] Effects release(WallTime wall);

  [[nodiscard]] State state() const { return state_; }
  // Nobody else can lead before this moment; nullopt: we do not lead.
  [[nodiscard]] std::optional<Moment> leading_until() const;
  // How long the term lasts that was written last.
  [[nodiscard]] Duration held_term() const { return held_term_; }
  [[nodiscard]] bool is_writing() const { return writing_ > 0; }
  // Who holds it as far as we know; "" nobody.
  [[nodiscard]] const std::string& holder() const { return seen_.holder; }
  [[nodiscard]] const std::string& identity() const { return identity_; }
  [[nodiscard]] Seat seat() const { return seat_of(seats_.node); }

 private:
  Effects wait(Duration delay, double chance);
  // Until the next look of a follower: soon, and in the very moment in which the Lease is free.
  Effects follow(std::optional<Moment> free_at, Moment now, double chance);
  Effects judge(Moment now, WallTime wall, double chance);
  Effects judge_free(Moment now, WallTime wall, double chance);
  Effects renew(Moment now, WallTime wall);
  Effects write(LeaseRecord record, Moment now);
  Effects ask();
  // While our write is under way.
  Effects look_beside(Moment now);
  Effects lead(Moment from, Duration term, Moment now, double chance);
  Effects lose(std::string why, Moment now, double chance);
  Effects free(WallTime wall);
  // What a read showed while we lead; nullopt: it is ours still, and no more.
  [[nodiscard]] std::optional<std::string> loss() const;
  Effects freed(Moment now, double chance);
  [[nodiscard]] bool went_back(const std::optional<Lease>& lease) const;
  void observe(const std::optional<Lease>& lease, Moment now);
  [[nodiscard]] bool is_past_deadline(Moment now) const {
    return now - held_at_ >= rules_.renew_deadline;
  }
  [[nodiscard]] Seat seat_of(const std::string& node) const;
  [[nodiscard]] Seat seat_of_holder() const;
  [[nodiscard]] LeaseNotes own_notes() const;

  std::string identity_;
  ElectionRules rules_;
  Duration term_;
  Seats seats_;
  State state_ = State::Following;
  std::optional<Lease> lease_;  // newest seen
  LeaseRecord seen_;            // its record
  Moment seen_since_{};         // since when it has not changed
  bool seen_any_ = false;
  Moment lost_until_{};  // the term of a holder whose record is there no more may last till then
  std::optional<Moment> held_until_;  // nobody else can lead before
  Duration held_term_{};
  Moment held_at_{};  // the newest moment at which the Lease is known to have been ours
  // A write that is under way, or whose fate is unknown: what it said and when it left.
  std::optional<LeaseRecord> tried_;
  std::optional<Lease> tried_over_;
  Moment tried_at_{};
  Moment tried_until_{};  // what it promises us at least
  Duration term_at_trial_{};
  Moment answered_at_{};  // when a write of ours was last known to be done
  int frees_ = 0;         // how often it was to be freed
  int writing_ = 0;       // under way; a second one where the first may have been lost
  Moment not_before_{};   // it was not done yet when this read was sent
  bool wanted_ = false;   // Wanted was told
  bool deposed_ = false;  // and whatever we have seen of the Lease since named us
  bool returns_ = false;  // Releasing: to follow afterwards
};

[[nodiscard]] std::string_view to_string(Election::State state);

}  // namespace moonfence::kube
