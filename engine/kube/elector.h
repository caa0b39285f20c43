#pragma once

// Elector carries out what Election decides: reads and writes the Lease, one request at a time, on
// the lane that nothing else may block, and tells when leadership begins and ends. Requests carry
// `timeout=`, so that a renewal that we gave up cannot be done by the server much later.

#include <cstdint>
#include <functional>
#include <string>

#include "kube/caller.h"
#include "kube/election.h"
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
  };
  struct Receivers {
    std::function<void()> lead;
    std::function<void(const std::string& why)> lose;
  };

  // All that is referred to must outlive the elector.
  Elector(Surroundings around, ObjectRef lease, std::string identity, ElectionRules rules,
          Receivers receivers);
  Elector(const Elector&) = delete;
  Elector& operator=(const Elector&) = delete;

  void start();
  // See Election::deposed(). `lose` is called in this turn.
  void deposed();
  // Frees the Lease, then calls `released`; at once when we do not lead. Everything that rests on
  // leadership must have ended. Leadership is over when it is freed, `lose` is not called.
  void release(std::function<void()> released);

  // See Election::leading_until().
  [[nodiscard]] std::optional<Moment> leading_until() const { return election_.leading_until(); }
  [[nodiscard]] bool leads() const { return election_.state() == Election::State::Leading; }
  // Why the Lease could not be read or written when last tried, "" when it could.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] const std::string& holder() const { return election_.holder(); }

 private:
  void perform(const Election::Effects& effects);
  void read();
  void write(const Election::Write& write);
  void written(const Result<ApiReply>& reply, Moment sent);
  void note_failure(const Error& error);

  Surroundings around_;
  const ObjectRef ref_;
  const Duration request_limit_;
  const Receivers receivers_;
  Election election_;
  std::function<void()> released_;
  loop::Timer timer_;
  CallHandle call_;
  std::string problem_;
};

}  // namespace moonfence::kube
