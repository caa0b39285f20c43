#include "sim/checkers/brake_checker.h"

#include <algorithm>
#include <set>

#include "sim/store/fields.h"
#include "sim/truth/called_path.h"

namespace moonfence::sim {
namespace {

// From hearing of a node until deletions that have left the engine's hands are stopped.
constexpr Duration kNoticed = std::chrono::seconds(1);

}  // namespace

void BrakeChecker::on_left(const WireRequest& request) {
  const bool changes =
      request.method == port::Method::Delete || request.method == port::Method::Patch;
  if (!changes || read_path(request.target).resource != "pods") {
    return;
  }
  const Known& known = known_[life_of(request)];
  if (known.over.held_for(now(), kNoticed) && is_over(known, nullptr, /*carrying=*/true)) {
    accuse(rules::kBrakeDown, std::string(port::to_string(request.method)) + " of " +
                                  request.replica + ": " + request.target + " while it knows " +
                                  std::to_string(newly_down(known, nullptr, true)) +
                                  " workers to be newly down beside " +
                                  std::to_string(known.nodes.up()) + " that are up");
  }
}

void BrakeChecker::on_audit(const AuditLine& line) {
  if (line.lifts() || line.is_of_silence()) {
    return;  // of a node that came back, or on which nothing is deleted
  }
  Known& known = known_[line.life];
  const std::pair key(line.incident, line.subject());
  if (line.kind == "intent") {
    const Intent intent = intent_of(line, known);
    check_zone(line, known, intent);
    known.intents.insert_or_assign(key, intent);
    known.acted.insert_or_assign(line.node, Acted{.zone = intent.zone, .last = now()});
    check_pace(line, known, limits_.cluster, nullptr);
    if (!intent.zone.empty()) {
      check_pace(line, known, limits_.zone, &intent.zone);
    }
  } else if (line.kind == "outcome" || line.kind == "refusal") {
    known.intents.erase(key);
  }
}

std::int64_t BrakeChecker::newly_down(const Known& known, const std::string* zone,
                                      bool carrying) const {
  BrakeCensus::Asked asked = {.zone = zone, .since = now() - limits_.window};
  if (carrying) {
    asked.counts = [this](const std::string& node) { return carries_something(truth(), node); };
  }
  return known.nodes.down(asked);
}

bool BrakeChecker::is_over(const Known& known, const std::string* zone, bool carrying) const {
  const std::int64_t down = newly_down(known, zone, carrying);
  const std::int64_t workers = known.nodes.up(zone) + down;
  return zone == nullptr
             ? limits_.max_down.exceeded_by(down, workers)
             : down > limits_.zone_min_down && limits_.zone_max_down.exceeded_by(down, workers);
}

void BrakeChecker::check_pace(const AuditLine& line, const Known& known, const BrakePace& pace,
                              const std::string* zone) const {
  const std::string where = zone == nullptr ? "" : " of zone " + *zone;
  const std::int64_t workers = known.nodes.up(zone) + known.nodes.down({.zone = zone});
  std::set<std::string> at_once;
  for (const auto& [key, intent] : known.intents) {
    if (zone == nullptr || intent.zone == *zone) {
      at_once.insert(intent.node);
    }
  }
  const auto nodes = static_cast<std::int64_t>(at_once.size());
  if (pace.at_once.exceeded_by(nodes, workers) && nodes > 1) {
    accuse(rules::kBrakePace,
           line.life.replica + " fences " + std::to_string(nodes) + " nodes" + where + " at once");
  }
  const auto lately = std::count_if(known.acted.begin(), known.acted.end(), [&](const auto& acted) {
    return (zone == nullptr || acted.second.zone == *zone) &&
           now() - acted.second.last < limits_.window;
  });
  if (pace.per_window.exceeded_by(lately, workers) && lately > 1) {
    accuse(rules::kBrakePace, line.life.replica + " fences " + std::to_string(lately) + " nodes" +
                                  where + " within " + format_duration(limits_.window));
  }
}

BrakeChecker::Intent BrakeChecker::intent_of(const AuditLine& line, const Known& known) const {
  Intent intent = {.node = line.node, .zone = known.nodes.zone_of(line.node), .disrupted = {}};
  const auto zone = known.disrupted.find(intent.zone);
  if (zone != known.disrupted.end() && zone->second.held_for(now(), kNoticed)) {
    intent.disrupted = zone->second.changed;
  }
  return intent;
}

// What left before the zone was known to be disrupted may end beside the node that goes on.
void BrakeChecker::check_zone(const AuditLine& line, const Known& known,
                              const Intent& intent) const {
  for (const auto& [key, other] : known.intents) {
    if (intent.disrupted && other.zone == intent.zone && other.disrupted == intent.disrupted &&
        other.node != intent.node && is_over(known, &intent.zone, /*carrying=*/true)) {
      accuse(rules::kBrakePace, line.life.replica + " fences " + intent.node + " beside " +
                                    other.node + " of zone " + intent.zone +
                                    ", most of which it knows to be down");
    }
  }
}

void BrakeChecker::note_zones(Known& known) const {
  const std::set<std::string> zones = known.nodes.zones();
  std::erase_if(known.disrupted,
                [&zones](const auto& zone) { return !zones.contains(zone.first); });
  for (const std::string& zone : zones) {
    known.disrupted[zone].set(is_over(known, &zone, /*carrying=*/false), now());
  }
}

void BrakeChecker::on_heard(const WireRequest& request, int status, std::string_view text) {
  const CalledPath target = read_path(request.target);
  if (status != 200 || request.method != port::Method::Get || target.resource != "nodes" ||
      !target.name.empty() || request.target.find("fieldSelector=") != std::string::npos) {
    return;  // a list of some names shows nothing of the others
  }
  const Json said = Json::parse(text, nullptr, false);
  if (said.is_discarded()) {
    return;
  }
  Known& known = known_[life_of(request)];
  if (const Json* node = find_field(said, {"object"})) {  // a line of the watch
    const std::string& type = text_field(said, {"type"});
    if (type == "DELETED") {
      known.nodes.remove(text_field(*node, {"metadata", "name"}));
    } else if (type == "ADDED" || type == "MODIFIED") {
      known.nodes.set(text_field(*node, {"metadata", "name"}), *node, marks_, now());
    }
  } else {
    read_list(known, request, said);
  }
  known.over.set(is_over(known, nullptr, /*carrying=*/false), now());
  note_zones(known);
}

void BrakeChecker::read_list(Known& known, const WireRequest& request, const Json& list) const {
  if (request.target.find("continue=") == std::string::npos) {
    known.listed = {};
  }
  if (const Json* items = find_field(list, {"items"}); items != nullptr && items->is_array()) {
    for (const Json& node : *items) {
      const std::string& name = text_field(node, {"metadata", "name"});
      known.nodes.set(name, node, marks_, now());
      known.listed.insert(name);
    }
  }
  if (text_field(list, {"metadata", "continue"}).empty()) {
    known.nodes.keep_only(known.listed);
  }
}

}  // namespace moonfence::sim
