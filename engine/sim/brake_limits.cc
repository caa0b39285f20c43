#include "sim/brake_limits.h"

#include <algorithm>
#include <charconv>

#include "sim/fields.h"

namespace moonfence::sim {
namespace {

bool is_worker(const Json& node) {
  const Json* taints = find_field(node, {"spec", "taints"});
  return taints == nullptr || !taints->is_array() ||
         std::none_of(taints->begin(), taints->end(), [](const Json& taint) {
           const std::string& key = text_field(taint, {"key"});
           return key == "node-role.kubernetes.io/control-plane" ||
                  key == "node-role.kubernetes.io/master";
         });
}

bool is_ready(const Json& node) {
  const Json* conditions = find_field(node, {"status", "conditions"});
  return conditions != nullptr && conditions->is_array() &&
         std::any_of(conditions->begin(), conditions->end(), [](const Json& condition) {
           return text_field(condition, {"type"}) == "Ready" &&
                  text_field(condition, {"status"}) == "True";
         });
}

}  // namespace

bool BrakeLimit::exceeded_by(std::int64_t nodes, std::int64_t workers) const {
  return value && (percent ? nodes * 100 > *value * workers : nodes > *value);
}

std::optional<BrakeLimit> parse_brake_limit(std::string_view text) {
  if (text == "off" || text == "0") {
    return BrakeLimit{};
  }
  const bool percent = text.ends_with('%');
  const std::string_view digits = text.substr(0, text.size() - (percent ? 1 : 0));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 1 ||
      value > (percent ? 100 : 1'000'000)) {
    return std::nullopt;
  }
  return BrakeLimit{.value = value, .percent = percent};
}

BrakeLimits brake_limits(const Plan& plan) {
  BrakeLimits limits;
  const auto read = [&plan](const char* name, BrakeLimit& into) {
    const auto found = plan.settings.find(name);
    if (found != plan.settings.end()) {
      into = parse_brake_limit(found->second).value_or(into);
    }
  };
  read("max-down", limits.max_down);
  read("max-at-once", limits.cluster.at_once);
  read("max-per-window", limits.cluster.per_window);
  read("zone-max-down", limits.zone_max_down);
  read("zone-max-at-once", limits.zone.at_once);
  read("zone-max-per-window", limits.zone.per_window);
  const auto window = plan.settings.find("brake-window");
  if (window != plan.settings.end()) {
    limits.window = parse_duration(window->second).value_or(limits.window);
  }
  return limits;
}

void BrakeCensus::set(const std::string& node, const Json& object) {
  nodes_[node] = {.zone = text_field(object, {"metadata", "labels", "topology.kubernetes.io/zone"}),
                  .worker = is_worker(object),
                  .down = !is_ready(object)};
}

std::int64_t BrakeCensus::workers(const std::string* zone) const {
  return std::count_if(nodes_.begin(), nodes_.end(), [zone](const auto& node) {
    return node.second.worker && (zone == nullptr || node.second.zone == *zone);
  });
}

std::int64_t BrakeCensus::down(const std::string* zone) const {
  return std::count_if(nodes_.begin(), nodes_.end(), [zone](const auto& node) {
    return node.second.worker && node.second.down && (zone == nullptr || node.second.zone == *zone);
  });
}

std::string BrakeCensus::zone_of(const std::string& node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? std::string() : found->second.zone;
}

std::set<std::string> BrakeCensus::zones() const {
  std::set<std::string> zones;
  for (const auto& [name, node] : nodes_) {
    if (!node.zone.empty()) {
      zones.insert(node.zone);
    }
  }
  return zones;
}

void BrakeTruth::on_change(const Change& change, const Truth& truth) {
  if (change.key.resource != "nodes") {
    return;
  }
  const bool alike = change.type == ChangeType::Modified && change.before != nullptr &&
                     is_worker(*change.before) == is_worker(*change.after) &&
                     is_ready(*change.before) == is_ready(*change.after);
  if (alike && counted_) {
    return;
  }
  counted_ = true;
  BrakeCensus census;
  for (const Object& node : truth.store().list("nodes")) {
    census.set(text_field(*node, {"metadata", "name"}), *node);
  }
  const bool over = limits_.max_down.exceeded_by(census.down(), census.workers());
  over_.set(over, truth.now());
  ever_ = ever_ || over;
}

}  // namespace moonfence::sim
