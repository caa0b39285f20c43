#pragma once

// Chance in production.

#include <array>
#include <memory>
#include <string_view>

#include "port/random.h"
#include "port/seeded_random.h"

namespace moonfence::os {

// A secret of getrandom(2).
[[nodiscard]] std::array<unsigned char, 32> system_secret();

// For jitter and names, nothing secret.
class SystemRandom final : public port::Random {
 public:
  SystemRandom();  // seeded with getrandom(2)

  std::uint64_t next() override { return generator_.next(); }
  [[nodiscard]] std::unique_ptr<port::Random> fork(std::string_view name) override {
    return generator_.fork(name);
  }

 private:
  port::SeededRandom generator_;
};

}  // namespace moonfence::os
