#pragma once

// Draws that the simulation needs, over port::Random.

#include <cstdint>

#include "port/random.h"
#include "sim/ground/faults.h"

namespace moonfence::sim {

[[nodiscard]] inline bool happens(port::Random& random, double probability) {
  // A fault that is switched off draws nothing: a calm run does not pay for it.
  return probability > 0 && random.unit() < probability;
}

// Uniform in [from, to].
[[nodiscard]] inline std::uint64_t number(port::Random& random, std::uint64_t from,
                                          std::uint64_t to) {
  return to <= from ? from : from + random.next() % (to - from + 1);
}

[[nodiscard]] inline Duration within(port::Random& random, const Range& range) {
  if (range.to <= range.from) {
    return range.from;
  }
  const auto width = static_cast<std::uint64_t>((range.to - range.from).count());
  return range.from + Duration(static_cast<Duration::rep>(random.next() % (width + 1)));
}

}  // namespace moonfence::sim
