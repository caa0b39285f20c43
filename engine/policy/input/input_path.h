#pragma once

// InputPath names one input as a policy reads it: pod.owner.kind, pod.volumes[1].driver,
// pod.labels["app.kubernetes.io/name"]. Tests patch inputs by it.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace moonfence::policy {

struct PathStep {
  std::string name;          // "" for a position
  std::size_t position = 0;  // from 1
};

struct InputPath {
  std::string text;
  std::vector<PathStep> steps;  // never empty, the first has a name

  [[nodiscard]] const std::string& root() const { return steps.front().name; }
  // The name at a step, "" beyond the end and for positions.
  [[nodiscard]] std::string_view name(std::size_t step) const {
    return step < steps.size() ? std::string_view(steps[step].name) : std::string_view();
  }
};

[[nodiscard]] Result<InputPath> parse_input_path(std::string_view text);

}  // namespace moonfence::policy
