#include "sim/ground/plan.h"

#include <string>
#include <string_view>

namespace moonfence::sim {

Duration duration_argument(const Step& step, const std::string& name) {
  const auto found = step.arguments.find(name);
  if (found == step.arguments.end()) {
    return {};
  }
  const bool negative = found->second.starts_with('-');
  const Duration length =
      parse_duration(std::string_view(found->second).substr(negative ? 1 : 0)).value_or(Duration());
  return negative ? -length : length;
}

bool detects(const Plan& plan) {
  const auto found = plan.settings.find(std::string(kDetectionWord));
  return found != plan.settings.end() && found->second == "on";
}

}  // namespace moonfence::sim
