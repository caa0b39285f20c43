#include "sim/ground/plan.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/text.h"

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

namespace {

bool names_evidence(const Plan& plan, std::string_view setting, std::string_view evidence) {
  const auto found = plan.settings.find(std::string(setting));
  if (found == plan.settings.end()) {
    return false;
  }
  const std::vector<std::string_view> words = split(found->second, ',');
  return std::find(words.begin(), words.end(), evidence) != words.end();
}

}  // namespace

bool demands(const Plan& plan, std::string_view evidence) {
  return names_evidence(plan, "proof", evidence);
}

bool demands_of_volumes(const Plan& plan, std::string_view evidence) {
  return names_evidence(plan, kVolumeProofWord, evidence);
}

bool switches_off(const Plan& plan) {
  return plan.config.find("switchOff: true") != std::string::npos;
}

bool isolates(const Plan& plan) {
  return plan.config.find("isolate: true") != std::string::npos;
}

const BmcPlan* bmc_of(const Plan& plan, std::string_view node) {
  const auto found = std::find_if(plan.bmcs.begin(), plan.bmcs.end(),
                                  [node](const BmcPlan& bmc) { return bmc.node == node; });
  return found == plan.bmcs.end() ? nullptr : &*found;
}

}  // namespace moonfence::sim
