#include "sim/checkers/bounds_checker.h"

#include <chrono>

namespace moonfence::sim {

BoundsChecker::Count& BoundsChecker::count_of(const Life& life) {
  Count& count = counts_[life];
  const auto second =
      std::chrono::duration_cast<std::chrono::seconds>(now().time_since_epoch()).count();
  if (count.second != second) {
    count = {.second = second};
  }
  return count;
}

void BoundsChecker::tell(Count& count, std::string_view rule, const std::string& text) {
  if (count.broken.insert(rule).second) {
    accuse(rule, text);
  }
}

void BoundsChecker::on_left(const WireRequest& request) {
  Count& count = count_of(life_of(request));
  ++count.requests;
  if (count.requests > kRequestsPerSecond) {
    tell(count, rules::kBoundedRequests,
         request.replica + " sends request " + std::to_string(count.requests) +
             " of this second: " + request.target);
  }
}

void BoundsChecker::after_turn(const Standing& standing) {
  Count& count = count_of(standing.life);
  ++count.turns;
  const std::string& who = standing.life.replica;
  if (count.turns > kTurnsPerSecond) {
    tell(count, rules::kBoundedTurns,
         who + " takes more than " + std::to_string(kTurnsPerSecond) + " turns in a second");
  }
  if (standing.timers > kTimers) {
    tell(count, rules::kBoundedTimers, who + " has " + std::to_string(standing.timers) + " timers");
  }
  if (standing.writes > kWrites || standing.lists > kLists || standing.watches > kWatches ||
      standing.exchanges > kExchanges) {
    tell(count, rules::kBoundedLane,
         who + " has " + std::to_string(standing.writes) + " writes, " +
             std::to_string(standing.lists) + " lists and " + std::to_string(standing.watches) +
             " watches under way, " + std::to_string(standing.exchanges) + " exchanges in all");
  }
}

}  // namespace moonfence::sim
