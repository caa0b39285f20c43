#pragma once

// Everything that could grow has a bound, and an engine that spins in one place is as wrong as one
// that floods the server.

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "sim/truth/checker.h"

namespace moonfence::sim {

class BoundsChecker final : public Checker {
 public:
  static constexpr std::size_t kWrites = 192;
  static constexpr std::size_t kLists = 4;
  // Of nodes and policies, and of the pods of nodes that are waited for.
  static constexpr std::size_t kWatches = 36;
  static constexpr std::size_t kExchanges = 512;
  static constexpr std::size_t kRequestsPerSecond = 500;
  static constexpr std::uint64_t kTurnsPerSecond = 20'000;
  static constexpr std::size_t kTimers = 1'000;

  explicit BoundsChecker(Bench& bench) : Checker(bench) {}
  void on_left(const WireRequest& request) override;
  void after_turn(const Standing& standing) override;

 private:
  // Counted in whole seconds of the run.
  struct Count {
    Duration::rep second = -1;
    std::uint64_t requests = 0;
    std::uint64_t turns = 0;
    std::set<std::string_view> broken;  // told once a second
  };
  Count& count_of(const Life& life);
  void tell(Count& count, std::string_view rule, const std::string& text);

  std::map<Life, Count> counts_;
};

}  // namespace moonfence::sim
