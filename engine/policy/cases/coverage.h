#pragma once

// Coverage is what cases made a policy do, of what it can do: lines that ran, and places that made
// the verdict which was returned. Counted, never rounded.

#include <set>
#include <string>

#include "policy/cases/chunk_map.h"

namespace moonfence::policy {

struct Coverage {
  ChunkMap all;
  std::set<int> lines;
  std::set<VerdictSite> verdicts;

  void add(const Trace& trace);
  // Whether lines and verdicts both reach `percent` of what there is.
  [[nodiscard]] bool reaches(unsigned percent) const;
  // "lines 18/19 (not run: 12), verdicts 4/5 (never returned: fence.skip at line 40)".
  [[nodiscard]] std::string text() const;
};

}  // namespace moonfence::policy
