#pragma once

// What coverage is measured against: the lines of a policy that can run, and the places where it
// makes a verdict; and beside them the places where it asks for something. All are read from the
// bytecode that Lua makes of the text, so that neither comments nor the `end` after a `return`
// count. Only what was just compiled here is ever read.

#include <map>
#include <set>
#include <string>

#include "base/result.h"
#include "policy/host/policy.h"
#include "policy/lua/trace.h"
#include "port/cpu_clock.h"

namespace moonfence::policy {

struct ChunkMap {
  std::set<int> lines;                  // on which something can run
  std::set<VerdictSite> verdicts;       // every `fence.NAME` of the text that makes one
  std::map<int, std::string> requests;  // lines that name `fence.get` or `fence.http`, as they are
};

// `file` stands in messages. Fails for what does not compile.
[[nodiscard]] Result<ChunkMap> map_chunk(const std::string& source, const std::string& file,
                                         port::CpuClock& clock);

}  // namespace moonfence::policy
