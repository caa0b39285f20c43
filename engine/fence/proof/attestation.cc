#include "fence/proof/attestation.h"

#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace moonfence::fence {

using nlohmann::json;

namespace {

constexpr std::size_t kLongestValue = 4096;
constexpr std::size_t kLongestText = 512;
constexpr std::size_t kKeys = 9;
// Two clocks, and the seconds of a stamp.
constexpr Duration kSameMoment = std::chrono::seconds(2);

std::string heartbeat_of(const json& node) {
  const json::json_pointer path("/status/conditions");
  if (!node.contains(path) || !node.at(path).is_array()) {
    return {};
  }
  for (const json& condition : node.at(path)) {
    if (condition.is_object() && condition.value("type", json()) == "Ready") {
      const json heartbeat = condition.value("lastHeartbeatTime", json());
      return heartbeat.is_string() ? heartbeat.get<std::string>() : std::string();
    }
  }
  return {};
}

std::optional<std::string> annotation_of(const json& node) {
  const json::json_pointer path("/metadata/annotations");
  if (!node.contains(path) || !node.at(path).is_object()) {
    return std::nullopt;
  }
  const auto found = node.at(path).find(kAttestedKey);
  if (found == node.at(path).end()) {
    return std::nullopt;
  }
  return found->is_string() ? found->get<std::string>() : std::string();
}

Failure wrong(const std::string& what) {
  return failure(Error::Kind::Malformed, "annotation " + std::string(kAttestedKey) + ": " + what,
                 "write it by `moonfence attest NODE --off --reason TEXT`");
}

// What has changed since, for people; "" for nothing.
std::string difference(const KubeletSigns& then, const KubeletSigns& now) {
  if (then.node != now.node) {
    return "the Node was made anew since";
  }
  if (then.boot_id != now.boot_id) {
    return "the machine has booted since";
  }
  if (then.lease != now.lease || then.renewed != now.renewed) {
    return "the kubelet has renewed its Lease since";
  }
  return then.heartbeat == now.heartbeat ? "" : "the kubelet has reported its status since";
}

}  // namespace

Result<KubeletSigns> signs_of(const kube::Node& node, const kube::Lease& lease) {
  KubeletSigns signs = {
      .node = node.uid,
      .boot_id = node.boot_id,
      .lease = lease.uid,
      .renewed = lease.record.renewed ? format_rfc3339_micro(*lease.record.renewed) : std::string(),
      .heartbeat = heartbeat_of(*node.raw)};
  const auto lacks = [](const std::string& what) {
    return failure(Error::Kind::Invalid, what +
                                             ", so that nobody could tell whether the kubelet "
                                             "has spoken since");
  };
  if (signs.boot_id.empty()) {
    return lacks("the Node names no boot (status.nodeInfo.bootID)");
  }
  if (signs.renewed.empty()) {
    return lacks("the kubelet's Lease was never renewed");
  }
  if (signs.heartbeat.empty()) {
    return lacks("the condition Ready has no lastHeartbeatTime");
  }
  return signs;
}

std::string to_text(const Attestation& word) {
  return json{{"state", "off"},
              {"node", word.signs.node.text()},
              {"bootID", word.signs.boot_id},
              {"lease", word.signs.lease.text()},
              {"renewTime", word.signs.renewed},
              {"lastHeartbeatTime", word.signs.heartbeat},
              {"at", format_rfc3339(word.at)},
              {"by", word.by},
              {"reason", word.reason}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Attestation> parse_attestation(std::string_view text) {
  if (text.size() > kLongestValue) {
    return wrong("it is longer than " + std::to_string(kLongestValue) + " bytes");
  }
  const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object() || value.size() != kKeys) {
    return wrong("it is no JSON object with the " + std::to_string(kKeys) + " keys of a word");
  }
  Attestation word;
  std::string state;
  std::string node;
  std::string lease;
  std::string at;
  const std::array<std::pair<const char*, std::string*>, kKeys> fields = {
      {{"state", &state},
       {"node", &node},
       {"bootID", &word.signs.boot_id},
       {"lease", &lease},
       {"renewTime", &word.signs.renewed},
       {"lastHeartbeatTime", &word.signs.heartbeat},
       {"at", &at},
       {"by", &word.by},
       {"reason", &word.reason}}};
  for (const auto& [key, into] : fields) {
    const auto found = value.find(key);
    if (found == value.end() || !found->is_string() ||
        found->get_ref<const std::string&>().empty()) {
      return wrong(std::string(key) + " is missing, empty or no text");
    }
    *into = found->get<std::string>();
  }
  const auto when = parse_rfc3339(at);
  if (!when) {
    return wrong("at is no time in RFC 3339");
  }
  if (state != "off") {
    return wrong("state is '" + escaped(state, 32) + "', which is not off");
  }
  word.signs.node = Uid(node);
  word.signs.lease = Uid(lease);
  word.at = *when;
  // A key that stands there twice would have another meaning for whoever looks for a text in it.
  if (to_text(word) != text) {
    return wrong("it is not in the form in which moonfence writes it");
  }
  word.by = escaped(word.by, kLongestText);
  word.reason = escaped(word.reason, kLongestText);
  return word;
}

AttestationCheck check_attestation(const kube::Node& node, const KubeletFinding& finding) {
  const auto text = annotation_of(*node.raw);
  if (!text) {
    return {};
  }
  auto word = parse_attestation(*text);
  if (!word) {
    return {.why_not = word.error().message()};
  }
  if (!finding.lease) {
    return {.why_not = "the kubelet's Lease cannot be read: " + finding.lease.error().message()};
  }
  const auto now = signs_of(node, *finding.lease);
  if (!now) {
    return {.why_not = now.error().message()};
  }
  if (std::string why = difference(word->signs, *now); !why.empty()) {
    return {.why_not = std::move(why)};
  }
  if (word->at > finding.now + kSameMoment) {
    return {.why_not = "it is dated " + format_rfc3339(word->at) + ", which is still to come"};
  }
  if (finding.heard && *finding.heard > word->at + kSameMoment) {
    return {.why_not = "the machine was heard since"};
  }
  if (finding.kubelet_lease != KubeletLease::Dead) {
    return {.why_not = "not yet: the kubelet's Lease is not dead; nobody has to do anything",
            .is_futile = true};
  }
  return {.counted = *std::move(word)};
}

}  // namespace moonfence::fence
