#pragma once

// What one run of a policy may cost, and what it has cost.

#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace moonfence::policy {

struct Limits {
  std::size_t source_bytes = 64U << 10U;
  std::uint64_t instructions = 1'000'000;
  std::size_t memory_bytes = 4U << 20U;
  Duration cpu = std::chrono::milliseconds(50);
  Duration compile_cpu = std::chrono::milliseconds(20);  // the compiler has no hook
};

// What a run has cost. Instructions include the work that host functions and the allocator charge.
struct Usage {
  std::uint64_t instructions = 0;
  std::size_t memory_bytes = 0;  // at its peak
  Duration cpu{};
  Duration deciding{};  // of cpu: after the fresh state was made and the text compiled and run
};

}  // namespace moonfence::policy
