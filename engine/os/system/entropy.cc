#include "os/system/entropy.h"

#include <sys/random.h>

#include "base/check.h"

namespace moonfence::os {
namespace {

std::uint64_t system_seed() {
  std::uint64_t seed = 0;
  // Up to 256 bytes come whole and uninterrupted once the pool is ready (random(7)).
  MOONFENCE_CHECK(getrandom(&seed, sizeof seed, 0) == static_cast<ssize_t>(sizeof seed));
  return seed;
}

}  // namespace

SystemRandom::SystemRandom() : generator_(system_seed()) {}

}  // namespace moonfence::os
