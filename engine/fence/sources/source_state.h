#pragma once

// How a health source is heard: what whoever runs the cluster has to know, for a source that nobody
// can read, or that speaks of nodes by other names, fences nothing and looks like one by which all
// is well.

#include <string>
#include <vector>

#include "base/names.h"
#include "base/time.h"

namespace moonfence::fence {

struct SourceState {
  // A reading or two may fail; this long is told.
  static constexpr Duration kPatience = std::chrono::minutes(1);

  std::string policy;
  std::string fault;                // why nothing was read of it for kPatience; "": it was
  std::vector<NodeName> strangers;  // that it names, and of which there is no Node; sorted

  friend bool operator==(const SourceState&, const SourceState&) = default;
};

}  // namespace moonfence::fence
