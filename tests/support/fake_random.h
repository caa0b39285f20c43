#pragma once

// Chance that repeats: SplitMix64 from a seed, or one fixed value.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "port/random.h"

namespace moonfence::test {

class FakeRandom final : public port::Random {
 public:
  explicit FakeRandom(std::uint64_t seed = 1) : state_(seed) {}

  std::uint64_t next() override {
    if (fixed_) {
      return *fixed_;
    }
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  [[nodiscard]] std::unique_ptr<port::Random> fork(std::string_view name) override {
    std::uint64_t seed = state_;
    for (const char c : name) {
      seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
    }
    auto child = std::make_unique<FakeRandom>(seed);
    child->fixed_ = fixed_;
    return child;
  }

  // From now on unit() gives this, in [0, 1).
  void fix(double unit) { fixed_ = static_cast<std::uint64_t>(unit * 0x1.0p53) << 11U; }

 private:
  std::uint64_t state_;
  std::optional<std::uint64_t> fixed_;
};

}  // namespace moonfence::test
