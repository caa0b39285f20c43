#pragma once

// The one generator behind every port::Random: xoshiro256** (Blackman, Vigna), seeded through
// splitmix64. The same seed gives the same draws on every machine; os/system/entropy.h seeds it
// from the system and the simulation from its seed.

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <string_view>

#include "port/random.h"

namespace moonfence::port {

class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
      word = split_mix(seed);
    }
  }

  std::uint64_t next() override {
    const std::uint64_t result = std::rotl(state_[1] * 5U, 7) * 9U;
    const std::uint64_t shifted = state_[1] << 17U;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Does not draw from this stream: the order in which consumers fork does not matter.
  [[nodiscard]] std::unique_ptr<Random> fork(std::string_view name) override {
    std::uint64_t seed = 0xCBF29CE484222325U;  // FNV-1a of the name
    for (const char c : name) {
      seed = (seed ^ static_cast<std::uint8_t>(c)) * 0x100000001B3U;
    }
    for (const std::uint64_t word : state_) {
      seed ^= word;
      seed = split_mix(seed);
    }
    return std::make_unique<SeededRandom>(seed);
  }

 private:
  static std::uint64_t split_mix(std::uint64_t& state) {
    state += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }

  std::array<std::uint64_t, 4> state_{};
};

}  // namespace moonfence::port
