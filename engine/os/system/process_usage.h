#pragma once

// What this process takes of its machine.

namespace moonfence::os {

struct ProcessUsage {
  double cpu_seconds = 0;
  double resident_bytes = 0;
  double open_files = 0;
  double most_files = 0;
};

// What cannot be found out is 0.
[[nodiscard]] ProcessUsage process_usage();

}  // namespace moonfence::os
