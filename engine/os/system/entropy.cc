#include "os/system/entropy.h"

#include <sys/random.h>

#include "base/check.h"

namespace moonfence::os {
namespace {

// Up to 256 bytes come whole and uninterrupted once the pool is ready (random(7)).
template <typename Drawn>
Drawn drawn_by_system() {
  Drawn drawn{};
  MOONFENCE_CHECK(getrandom(&drawn, sizeof drawn, 0) == static_cast<ssize_t>(sizeof drawn));
  return drawn;
}

}  // namespace

std::array<unsigned char, 32> system_secret() {
  return drawn_by_system<std::array<unsigned char, 32>>();
}

SystemRandom::SystemRandom() : generator_(drawn_by_system<std::uint64_t>()) {}

}  // namespace moonfence::os
