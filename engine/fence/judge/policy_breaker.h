#pragma once

// PolicyBreaker stops asking a policy that fails, for the rest of one pass: after five errors in a
// row, after one broken limit, or when its evaluations in the pass have used their CPU time up (a
// policy that needs 50 ms for each of 5,000 pods would hold the loop for minutes). Its pods are
// held and reported, and asked about again in the next pass. Of a policy that only observes it is
// for the rest of the incident: nothing waits for it. One breaker belongs to one incident; a reload
// resets it.
//
// The errors that a policy may make, and the limits that it may break, double with each pass that
// they have stopped: pods that it can judge come up in the end, however many it fails on stand
// before them. The CPU time does not grow: whoever has used it up is asked about the pods that did
// not come up before it is asked about the others again.
//
// Who fails is known by a key of the caller's: one per binding that may fail apart.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "base/time.h"
#include "policy/host/policy.h"

namespace moonfence::fence {

struct BreakerLimits {
  std::uint32_t errors_in_a_row = 5;
  Duration cpu = std::chrono::seconds(2);  // per policy, over all evaluations of one pass
};

class PolicyBreaker {
 public:
  explicit PolicyBreaker(BreakerLimits limits = {}) : limits_(limits) {}

  // False once it has tripped for this key: hold the pod instead of evaluating.
  [[nodiscard]] bool may_run(std::string_view key) const;
  // False of a pod that it was asked about in a pass that its CPU time ended, while others wait.
  [[nodiscard]] bool has_turn(std::string_view key, const Uid& pod) const;
  // It is asked about the pod now.
  void asked(std::string_view key, const Uid& pod);
  // After each evaluation. When it has just tripped: why, in one line for people that follows
  // the policy's name; nullopt otherwise, also for what comes after the trip.
  [[nodiscard]] std::optional<std::string> note(std::string_view key,
                                                const policy::Evaluation& evaluation);
  // The same for a run that gives no Verdict (a node's verdict, a plan); `fault` null: it
  // succeeded.
  [[nodiscard]] std::optional<std::string> note(std::string_view key, const Error* fault,
                                                const policy::Usage& usage);

  // Why the policy is failing; "" when it is not.
  [[nodiscard]] std::string reason(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> failing() const;  // keys, sorted

  // Nobody has used any CPU time yet.
  void begin_pass();
  // And who failed may run again.
  void begin_anew();
  // Everybody may run again: the policies were reloaded.
  void reset() { records_.clear(); }

 private:
  struct Record {
    std::uint32_t errors = 0;    // in a row
    std::uint32_t limits = 0;    // that it broke
    std::uint32_t patience = 1;  // times as many as the limit says
    Duration cpu{};
    std::set<Uid> asked;   // in this pass
    std::set<Uid> served;  // in passes that its CPU time ended, since all had their turn
    std::string reason;    // of the trip, "" before
  };

  BreakerLimits limits_;
  std::map<std::string, Record, std::less<>> records_;  // by key
};

}  // namespace moonfence::fence
