#include "sim/truth/brake_limits.h"

#include <algorithm>
#include <charconv>

#include "sim/ground/facts.h"
#include "sim/store/fields.h"

namespace moonfence::sim {
namespace {

bool is_worker(const Json& node) {
  if (find_field(node, {"spec", "unschedulable"}) != nullptr) {
    return false;
  }
  const Json* taints = find_field(node, {"spec", "taints"});
  return taints == nullptr || !taints->is_array() ||
         std::none_of(taints->begin(), taints->end(), [](const Json& taint) {
           const std::string& key = text_field(taint, {"key"});
           const std::string& effect = text_field(taint, {"effect"});
           return effect != "PreferNoSchedule" && !key.starts_with("node.kubernetes.io/") &&
                  !key.starts_with("moonfence.io/");
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

bool is_daemon_or_mirror(const Json& pod) {
  const Json* owners = find_field(pod, {"metadata", "ownerReferences"});
  return find_field(pod, {"metadata", "annotations", "kubernetes.io/config.mirror"}) != nullptr ||
         (owners != nullptr && owners->is_array() &&
          std::any_of(owners->begin(), owners->end(), [](const Json& owner) {
            const std::string& kind = text_field(owner, {"kind"});
            return kind == "DaemonSet" || kind == "Node";
          }));
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

void BrakeCensus::set(const std::string& node, const Json& object, const NodeMarks& marks,
                      Moment now) {
  const auto [entry, is_new] = nodes_.try_emplace(node);
  Node& known = entry->second;
  known.zone = text_field(object, {"metadata", "labels", "topology.kubernetes.io/zone"});
  if (is_ready(object)) {
    known.counts = is_worker(object) && !marks.hold(object) && !marks.exclude(object);
    known.fell = std::nullopt;
    return;
  }
  known.counts = known.counts && !is_new && !marks.exclude(object);
  known.fell = known.fell.value_or(now);
}

void BrakeCensus::keep_only(const std::set<std::string>& names) {
  std::erase_if(nodes_, [&names](const auto& node) { return !names.contains(node.first); });
}

std::int64_t BrakeCensus::up(const std::string* zone) const {
  return std::count_if(nodes_.begin(), nodes_.end(), [zone](const auto& node) {
    return node.second.counts && !node.second.fell &&
           (zone == nullptr || node.second.zone == *zone);
  });
}

std::int64_t BrakeCensus::down(const Asked& asked) const {
  return std::count_if(nodes_.begin(), nodes_.end(), [&asked](const auto& node) {
    return node.second.counts && node.second.fell &&
           (asked.zone == nullptr || node.second.zone == *asked.zone) &&
           (!asked.since || *node.second.fell > *asked.since) &&
           (!asked.counts || asked.counts(node.first));
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

bool carries_something(const Truth& truth, const std::string& node) {
  const auto pods = truth.store().list("pods");
  return std::any_of(pods.begin(), pods.end(), [&node](const Object& pod) {
    const bool goes = find_field(*pod, {"metadata", "deletionTimestamp"}) != nullptr;
    return text_field(*pod, {"spec", "nodeName"}) == node && !is_daemon_or_mirror(*pod) &&
           (!has_ended_by_itself(*pod) || goes);
  });
}

// All that fell count, however long ago: more than the engine may go by, and never less.
void BrakeTruth::on_change(const Change& change, const Truth& truth) {
  if (change.key.resource != "nodes") {
    return;
  }
  if (!seeded_) {
    seeded_ = true;
    for (const Object& node : truth.store().list("nodes")) {
      nodes_.set(text_field(*node, {"metadata", "name"}), *node, marks_, truth.now());
    }
  }
  if (change.type == ChangeType::Deleted) {
    nodes_.remove(change.key.name);
  } else {
    if (change.before != nullptr) {  // those of the start were made before anybody was told
      nodes_.set(change.key.name, *change.before, marks_, truth.now());
    }
    nodes_.set(change.key.name, *change.after, marks_, truth.now());
  }
  const std::int64_t down = nodes_.down({});
  const bool over = limits_.max_down.exceeded_by(down, nodes_.up() + down);
  over_.set(over, truth.now());
  ever_ = ever_ || over;
}

}  // namespace moonfence::sim
