#include "fence/publication/published_evidence.h"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "kube/text/json.h"

namespace moonfence::fence {

using nlohmann::json;
using policy::Evidence;

namespace {

constexpr std::size_t kLongestValue = std::size_t{16} << 10U;
constexpr std::size_t kLongestText = 256;
constexpr std::size_t kMostDrivers = 64;
constexpr std::size_t kLongestBoot = 256;
// What stops something, and what says most of it first.
constexpr std::array<Evidence, 3> kPublished = {Evidence::Off, Evidence::Attested,
                                                Evidence::Isolated};

const json* find_condition(const json& node, std::string_view type) {
  const json::json_pointer path("/status/conditions");
  if (!node.contains(path) || !node.at(path).is_array()) {
    return nullptr;
  }
  for (const json& each : node.at(path)) {
    if (each.is_object() && kube::text_at(each, "/type") == type) {
      return &each;
    }
  }
  return nullptr;
}

std::string heartbeat_of(const kube::Node& node) {
  const json* ready = find_condition(*node.raw, "Ready");
  return ready == nullptr ? std::string() : kube::text_at(*ready, "/lastHeartbeatTime");
}

const Proven* find(const std::vector<Proven>& proven, Evidence kind) {
  const auto found = std::find_if(proven.begin(), proven.end(),
                                  [kind](const Proven& each) { return each.kind == kind; });
  return found == proven.end() ? nullptr : &*found;
}

// What stands on the node as it was read.
struct Standing {
  bool any = false;      // something that says so, whatever it is
  bool is_true = false;  // the condition
  bool has_condition = false;
  std::optional<PublishedEvidence> evidence = std::nullopt;
};
Standing standing_on(const kube::Node& node) {
  Standing standing;
  const json* condition = find_condition(*node.raw, kEvidenceCondition);
  standing.has_condition = condition != nullptr;
  standing.is_true = condition != nullptr && kube::text_at(*condition, "/status") == "True";
  const json::json_pointer path("/metadata/annotations");
  const bool annotated = node.raw->contains(path) && node.raw->at(path).is_object() &&
                         node.raw->at(path).contains(std::string(kEvidenceKey));
  if (annotated) {
    const json& text = node.raw->at(path).at(std::string(kEvidenceKey));
    standing.evidence =
        text.is_string() ? parse_evidence(text.get_ref<const std::string&>()) : std::nullopt;
  }
  standing.any = annotated || standing.is_true;
  return standing;
}

std::optional<Proven> parse_proven(const json& value) {
  kube::Fields fields(value);
  if (fields.fault()) {
    return std::nullopt;
  }
  const auto kind = policy::find_evidence(fields.string({"kind"}));
  const auto at = fields.time({"at"});
  Proven proven = {.source = fields.required({"source"}), .text = fields.string({"text"})};
  const json* drivers = fields.array({"drivers"});
  for (const json& driver : drivers == nullptr ? json::array() : *drivers) {
    if (!driver.is_string() || proven.drivers.size() == kMostDrivers) {
      return std::nullopt;
    }
    proven.drivers.insert(driver.get<std::string>());
  }
  if (fields.fault() || !at || !kind ||
      std::find(kPublished.begin(), kPublished.end(), *kind) == kPublished.end()) {
    return std::nullopt;
  }
  proven.kind = *kind;
  proven.at = *at;
  return proven;
}

json to_json(const Proven& proven) {
  json value = {{"kind", policy::to_string(proven.kind)},
                {"source", proven.source},
                {"at", format_rfc3339(proven.at)},
                {"text", proven.text}};
  if (!proven.drivers.empty()) {
    value["drivers"] = proven.drivers;
  }
  return value;
}

// An attestation that was given anew is another one.
bool says_the_same(const Proven& before, const Proven& now) {
  return before.kind == Evidence::Attested
             ? before == now
             : before.source == now.source && before.drivers == now.drivers;
}

// It was not found again: whether that says anything against it.
bool stays(const Proven& before, const NodeFinding& finding) {
  const auto& power = finding.sightings.power;
  switch (before.kind) {
    case Evidence::Attested:
      return !finding.heeds_attestation || finding.sightings.attestation.counted.has_value();
    case Evidence::Isolated:
      return !power || (power->state.power != policy::Power::On &&
                        power->state.power != policy::Power::Served);
    // What has power was switched on again, or never was off: it asked about another machine.
    case Evidence::Off:
      return !power || power->state.power != policy::Power::On;
    case Evidence::Silent:
    case Evidence::Unreachable:
      break;
  }
  return false;
}

// What stands there and says the same stays as it is, with its time.
PublishedEvidence beside(PublishedEvidence wanted, const Standing& standing,
                         const kube::Node& node) {
  if (!standing.evidence || !holds_of(*standing.evidence, node)) {
    return wanted;
  }
  for (Proven& each : wanted.proven) {
    const Proven* before = find(standing.evidence->proven, each.kind);
    if (before != nullptr && says_the_same(*before, each)) {
      each = *before;
    }
  }
  if (wanted.proven == standing.evidence->proven) {
    return *standing.evidence;
  }
  return wanted;
}

std::string told(const Proven& proven, const std::string& boot_id) {
  const std::string at = " at " + format_rfc3339(proven.at);
  const std::string what_ran = "; what ran in boot " + escaped(boot_id, 64);
  switch (proven.kind) {
    case Evidence::Off:
      return "off: fencer " + proven.source + " read" + at + ": " + proven.text + what_ran +
             " does not run any more";
    case Evidence::Attested:
      return "attested: " + proven.source + " said" + at +
             " that the machine is off: " + proven.text + what_ran +
             " does not run any more, if that is right";
    case Evidence::Isolated:
      return "isolated: fencer " + proven.source + " read" + at + " that the storage of " +
             joined(std::vector<std::string>(proven.drivers.begin(), proven.drivers.end()), ", ") +
             " refuses the node: " + proven.text + what_ran +
             " may run and does not write there, until somebody lifts that";
    case Evidence::Silent:
    case Evidence::Unreachable:
      break;
  }
  return {};
}

std::string_view reason_of(Evidence kind) {
  return kind == Evidence::Off ? "Off" : kind == Evidence::Attested ? "Attested" : "Isolated";
}

// Another change of the node in between refuses it.
json patch_of(const kube::Node& node, const json& annotation, const json& condition) {
  json patch = {{"metadata",
                 {{"uid", node.uid.text()},
                  {"resourceVersion", node.resource_version.text()},
                  {"annotations", {{std::string(kEvidenceKey), annotation}}}}}};
  if (!condition.is_null()) {
    patch["status"]["conditions"] = json::array({condition});
  }
  return patch;
}

EvidenceChange publish(const kube::Node& node, const PublishedEvidence& wanted,
                       const Standing& standing, WallTime now) {
  EvidenceChange change;
  WallTime newest{};
  for (const Proven& each : wanted.proven) {
    const Proven* before = standing.evidence ? find(standing.evidence->proven, each.kind) : nullptr;
    if (before == nullptr || !holds_of(*standing.evidence, node)) {
      change.news.push_back(each);
    }
    newest = std::max(newest, each.at);
  }
  json condition = {{"type", kEvidenceCondition},
                    {"status", "True"},
                    {"reason", reason_of(wanted.proven.front().kind)},
                    {"message", told(wanted.proven, wanted.boot_id)},
                    {"lastHeartbeatTime", format_rfc3339(newest)}};
  if (!standing.is_true) {
    condition["lastTransitionTime"] = format_rfc3339(now);
  }
  change.patch = kube::to_text(patch_of(node, to_text(wanted), condition));
  return change;
}

EvidenceChange withdraw(const kube::Node& node, const Standing& standing, bool heard,
                        WallTime now) {
  json condition;
  if (standing.is_true) {
    condition = {{"type", kEvidenceCondition},
                 {"status", "False"},
                 {"reason", heard ? "Heard" : "Withdrawn"},
                 {"message", heard ? "the kubelet or the machine was heard again, or has booted: "
                                     "what was proven of it is void"
                                   : "what was proven is not proven any more"},
                 {"lastHeartbeatTime", format_rfc3339(now)},
                 {"lastTransitionTime", format_rfc3339(now)}};
  }
  return {.patch = kube::to_text(patch_of(node, json(), condition)), .withdraws = true};
}

}  // namespace

std::string to_text(const PublishedEvidence& evidence) {
  json list = json::array();
  for (const Proven& each : evidence.proven) {
    list.push_back(to_json(each));
  }
  return kube::to_text({{"node", evidence.node.text()},
                        {"bootID", evidence.boot_id},
                        {"incident", evidence.incident.text()},
                        {"renewTime", evidence.renewed},
                        {"lastHeartbeatTime", evidence.heartbeat},
                        {"evidence", std::move(list)}});
}

std::optional<PublishedEvidence> parse_evidence(std::string_view text) {
  if (text.size() >= kLongestValue) {
    return std::nullopt;
  }
  const auto value = kube::parse_json(text);
  if (!value || !value->is_object()) {
    return std::nullopt;
  }
  kube::Fields fields(*value);
  PublishedEvidence evidence = {.node = Uid(fields.required({"node"})),
                                .boot_id = fields.required({"bootID"}),
                                .incident = IncidentId(fields.string({"incident"})),
                                .renewed = fields.string({"renewTime"}),
                                .heartbeat = fields.string({"lastHeartbeatTime"})};
  const json* list = fields.array({"evidence"});
  if (fields.fault() || list == nullptr || list->empty() || list->size() > kPublished.size()) {
    return std::nullopt;
  }
  for (const json& each : *list) {
    auto proven = parse_proven(each);
    if (!proven || find(evidence.proven, proven->kind) != nullptr) {
      return std::nullopt;
    }
    evidence.proven.push_back(*std::move(proven));
  }
  return evidence;
}

bool is_about(const PublishedEvidence& evidence, const Uid& node, const std::string& boot_id) {
  return evidence.node == node && evidence.boot_id == boot_id;
}

bool holds_of(const PublishedEvidence& evidence, const kube::Node& node) {
  return is_about(evidence, node.uid, node.boot_id) && evidence.heartbeat == heartbeat_of(node);
}

PublishedEvidence proven_by(const NodeFinding& finding, WallTime now, Moment clock) {
  PublishedEvidence evidence = {
      .node = finding.node.uid,
      .boot_id = finding.node.boot_id,
      .incident = finding.incident,
      .renewed = finding.renewed ? format_rfc3339_micro(*finding.renewed) : std::string(),
      .heartbeat = heartbeat_of(finding.node)};
  if (evidence.node.empty() || evidence.boot_id.empty() || evidence.boot_id.size() > kLongestBoot) {
    return evidence;  // nobody could tell what it is about
  }
  Sightings sightings = finding.sightings;
  if (sightings.power) {
    sightings.storage = sightings.power->state.drivers;
  }
  const policy::EvidenceSet there = evidence_there(sightings);
  for (const Evidence kind : kPublished) {
    if (!there.contains(kind)) {
      continue;
    }
    if (kind == Evidence::Attested) {
      const Attestation& word = *sightings.attestation.counted;
      evidence.proven.push_back({.kind = kind,
                                 .source = escaped(word.by, kLongestText),
                                 .at = std::chrono::floor<std::chrono::seconds>(word.at),
                                 .text = escaped(word.reason, kLongestText)});
      continue;
    }
    const PowerReading& read = *sightings.power;
    Proven& proven = evidence.proven.emplace_back(
        Proven{.kind = kind,
               .source = read.fencer,
               .at = std::chrono::floor<std::chrono::seconds>(now - (clock - read.asked)),
               .text = escaped(read.state.why, kLongestText)});
    for (const std::string& driver : read.state.drivers) {
      if (proven.drivers.size() < kMostDrivers) {
        proven.drivers.insert(driver);
      }
    }
  }
  return evidence;
}

PublishedEvidence to_publish(const NodeFinding& finding, WallTime now, Moment clock) {
  PublishedEvidence fresh = proven_by(finding, now, clock);
  const Standing standing = standing_on(finding.node);
  if (!standing.evidence || !holds_of(*standing.evidence, finding.node)) {
    return fresh;
  }
  std::vector<Proven> proven;
  for (const Evidence kind : kPublished) {
    const Proven* before = find(standing.evidence->proven, kind);
    const Proven* found = find(fresh.proven, kind);
    if (found != nullptr) {
      proven.push_back(*found);
    } else if (before != nullptr && stays(*before, finding)) {
      proven.push_back(*before);
    }
  }
  fresh.proven = std::move(proven);
  return beside(std::move(fresh), standing, finding.node);
}

std::optional<EvidenceChange> change_of(const kube::Node& node,
                                        const std::optional<PublishedEvidence>& wanted,
                                        bool answers, WallTime now) {
  const Standing standing = standing_on(node);
  if (wanted && !answers && holds_of(*wanted, node)) {
    if (!wanted->proven.empty()) {
      const PublishedEvidence evidence = beside(*wanted, standing, node);
      return standing.is_true && standing.evidence == evidence
                 ? std::nullopt
                 : std::optional(publish(node, evidence, standing, now));
    }
    return standing.any ? std::optional(withdraw(node, standing, false, now)) : std::nullopt;
  }
  if (!standing.any) {
    return std::nullopt;
  }
  const bool is_ours = standing.evidence && standing.evidence->node == node.uid;
  if (is_ours && !answers && holds_of(*standing.evidence, node)) {
    return std::nullopt;
  }
  return withdraw(node, standing, is_ours, now);
}

std::string told(const std::vector<Proven>& proven, const std::string& boot_id) {
  std::vector<std::string> parts;
  parts.reserve(proven.size());
  for (const Proven& each : proven) {
    parts.push_back(told(each, boot_id));
  }
  return joined(parts, ". ");
}

}  // namespace moonfence::fence
