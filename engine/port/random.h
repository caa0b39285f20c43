#pragma once

// Chance, injected like time. One stream per consumer: a new draw in one place must not shift the
// draws of another, or no seed could be replayed after a change.

#include <cstdint>
#include <memory>
#include <string_view>

namespace moonfence::port {

class Random {
 public:
  virtual ~Random() = default;
  // Uniform over all 64-bit values.
  virtual std::uint64_t next() = 0;
  // An independent stream; the same name forked from the same state gives the same stream.
  [[nodiscard]] virtual std::unique_ptr<Random> fork(std::string_view name) = 0;

  // Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }
};

}  // namespace moonfence::port
