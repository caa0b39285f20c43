#pragma once

// Elector carries out what Election decides: reads and writes the Lease on the lane that nothing
// else may block, and tells when leadership begins and ends. Writes carry `timeout=`, so that one
// that we gave up cannot be done by the server much later. How long a term lasts follows the
// server's pace: in what is left of it when a renewal is late, a call must still end.

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "kube/leader_election/election.h"
#include "kube/wire/caller.h"
#include "kube/wire/server_pace.h"
#include "loop/loop.h"
#include "port/log.h"
#include "port/random.h"
#include "port/wall_clock.h"

namespace moonfence::kube {

class Elector {
 public:
  struct Surroundings {
    loop::Loop& loop;
    Caller& caller;
    port::Random& random;
    port::WallClock& wall_clock;
    port::Log& log;
    const ServerPace& pace;
  };
  struct Receivers {
    std::function<void()> lead;
    std::function<void(const std::string& why)> lose;
    // Another replica sits better: end what was started, then hand_over().
    std::function<void()> wanted = [] {};
    // The Lease was written, by a request that left then.
    std::function<void(const Lease&, Moment sent)> wrote = [](const Lease&, Moment) {};
  };
  // Beyond a call: for the way of its answer.
  static constexpr Duration kTravel = std::chrono::milliseconds(500);
  // Whatever the server shows. So long the Lease of a leader that died may have to be waited out.
  static constexpr Duration kLongestTerm = Election::kLongestTerm;

  // All that is referred to must outlive the elector.
  Elector(Surroundings around, ObjectRef lease, std::string identity, ElectionRules rules,
          Receivers receivers, Seats seats = {});
  Elector(const Elector&) = delete;
  Elector& operator=(const Elector&) = delete;

  void start();
  // See Election::deposed(). `lose` is called in this turn, if at all.
  void deposed();
  // See Election::hand_over(). `lose` is called when it is freed.
  void hand_over();
  // Frees the Lease, then calls `released`; at once when we do not lead. Everything that rests on
  // leadership must have ended. Leadership is over when it is freed, `lose` is not called.
  void release(std::function<void()> released);

  // See Election::leading_until().
  [[nodiscard]] std::optional<Moment> leading_until() const { return election_.leading_until(); }
  [[nodiscard]] bool leads() const { return election_.state() == Election::State::Leading; }
  // Why the Lease could not be read or written when last tried, "" when it could.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] const std::string& holder() const { return election_.holder(); }
  // Of the last write that succeeded.
  [[nodiscard]] Duration term() const { return election_.held_term(); }
  [[nodiscard]] Seat seat() const { return election_.seat(); }

 private:
  void perform(const Election::Effects& effects);
  [[nodiscard]] Duration next_term() const;
  void read();
  void write(const Election::Write& write);
  void written(std::uint64_t id, const Result<ApiReply>& reply, Moment sent);
  void note_failure(const Error& error);

  Surroundings around_;
  const ObjectRef ref_;
  const ElectionRules rules_;
  const Receivers receivers_;
  Election election_;
  std::function<void()> released_;
  loop::Timer timer_;
  CallHandle reading_;
  std::map<std::uint64_t, CallHandle> writing_;
  std::uint64_t writes_ = 0;
  CallTimes renewals_;
  std::string problem_;
  bool told_of_old_lease_ = false;  // in this term
};

}  // namespace moonfence::kube
