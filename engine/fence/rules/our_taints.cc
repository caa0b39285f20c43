#include "fence/rules/our_taints.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <utility>

#include "cluster/nodes/node_view.h"
#include "kube/text/json.h"

namespace moonfence::fence {
namespace {

using nlohmann::json;

constexpr std::string_view kTaints = "/spec/taints";
constexpr std::string_view kAnnotations = "/metadata/annotations";

struct Form {
  OwnTaint taint;
  std::string_view key;
  std::string_view effect;
  std::string_view annotation;
  std::string_view path;  // of the annotation: "/" in a key is "~1" in a JSON pointer
};
constexpr std::array<Form, 3> kForms = {
    {{OwnTaint::Fenced, cluster::kFencedKey, "NoSchedule", "moonfence.io/fenced",
      "/metadata/annotations/moonfence.io~1fenced"},
     {OwnTaint::OutOfService, cluster::kOutOfServiceKey, "NoExecute", "moonfence.io/out-of-service",
      "/metadata/annotations/moonfence.io~1out-of-service"},
     {OwnTaint::Silent, cluster::kSilentKey, "NoSchedule", "moonfence.io/silent",
      "/metadata/annotations/moonfence.io~1silent"}}};

const Form& form_of(OwnTaint taint) {
  return kForms.at(static_cast<std::size_t>(taint));
}

// What stands there; null when nothing does, which is also how a test of absence is written.
json value_at(const json& node, const std::string& path) {
  const json::json_pointer pointer(path);
  return node.contains(pointer) ? node.at(pointer) : json();
}

json test_of(const json& node, const std::string& path) {
  return {{"op", "test"}, {"path", path}, {"value", value_at(node, path)}};
}

bool is_it(const json& taint, const Form& form) {
  return taint.value("key", "") == form.key && taint.value("effect", "") == form.effect;
}

void drop(json& taints, const Form& form) {
  json others = json::array();
  for (const json& taint : taints) {
    if (!is_it(taint, form)) {
      others.push_back(taint);
    }
  }
  taints = std::move(others);
}

json taints_of(const json& node) {
  json taints = value_at(node, std::string(kTaints));
  return taints.is_null() ? json::array() : taints;
}

// Where the Ready condition stands in the list; "" when it stands nowhere.
std::string ready_path(const json& node) {
  const json conditions = value_at(node, "/status/conditions");
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    if (conditions[i].value("type", "") == "Ready") {
      return "/status/conditions/" + std::to_string(i);
    }
  }
  return {};
}

// What the kubelet last said of itself. Without a heartbeat any condition may be its newest word.
void test_ready(json& operations, const json& node, bool heartbeat) {
  const std::string ready = ready_path(node);
  if (heartbeat && (ready.empty() || value_at(node, ready + "/lastHeartbeatTime").is_null())) {
    operations.push_back(test_of(node, "/status/conditions"));
    return;
  }
  if (ready.empty()) {
    return;
  }
  operations.push_back(test_of(node, ready + "/type"));
  operations.push_back(test_of(node, ready + "/status"));
  if (heartbeat) {
    operations.push_back(test_of(node, ready + "/lastHeartbeatTime"));
  }
}

bool carries(const kube::Node& node, const Form& form, bool with_any_effect) {
  return std::any_of(node.taints.begin(), node.taints.end(), [&](const kube::Taint& taint) {
    return taint.key == form.key && (with_any_effect || taint.effect == form.effect);
  });
}

// A heartbeat is posted every five minutes while nothing changes, a Lease renewed every ten
// seconds: the newer of both. A stamp in the future is of a clock that is wrong, and so is one that
// is younger than Ready's being Unknown, by the control plane's clock.
std::optional<WallTime> heard_of(const kube::Node& node, WallTime now,
                                 std::optional<WallTime> renewed) {
  const std::string ready = ready_path(*node.raw);
  const json stamp = ready.empty() ? json() : value_at(*node.raw, ready + "/lastHeartbeatTime");
  const json status = ready.empty() ? json() : value_at(*node.raw, ready + "/status");
  const json turned = ready.empty() ? json() : value_at(*node.raw, ready + "/lastTransitionTime");
  if (status == "Unknown" && turned.is_string()) {
    now = std::min(now, parse_rfc3339(turned.get<std::string>()).value_or(now));
  }
  std::optional<WallTime> heard;
  for (const auto& sign :
       {stamp.is_string() ? parse_rfc3339(stamp.get<std::string>()) : std::nullopt, renewed}) {
    if (sign && *sign <= now) {
      heard = std::max(heard.value_or(*sign), *sign);
    }
  }
  return heard;
}

}  // namespace

std::string to_text(const FenceMark& mark) {
  json text = {{"incident", mark.incident.text()},
               {"bootID", mark.boot_id},
               {"since", format_rfc3339(mark.since)},
               {"volumes", mark.volumes}};
  if (mark.heard) {
    text["heard"] = format_rfc3339(*mark.heard);
  }
  return kube::to_text(text);
}

std::optional<FenceMark> read_mark(std::string_view text) {
  const auto parsed = kube::parse_json(text);
  if (!parsed || !parsed->is_object()) {
    return std::nullopt;
  }
  kube::Fields fields(*parsed);
  FenceMark mark = {.incident = IncidentId(fields.string({"incident"})),
                    .boot_id = fields.string({"bootID"})};
  const auto since = fields.time({"since"});
  const auto heard = fields.time({"heard"});
  if (fields.fault() || !since || mark.incident.empty()) {
    return std::nullopt;
  }
  mark.since = *since;
  mark.heard = heard;
  if (const json* volumes = fields.array({"volumes"}); volumes != nullptr) {
    for (const json& volume : *volumes) {
      if (!volume.is_string()) {
        return std::nullopt;
      }
      mark.volumes.push_back(volume.get<std::string>());
    }
  }
  return mark;
}

bool has_rebooted(const kube::Node& node, const FenceMark& mark) {
  return mark.boot_id != node.boot_id && !mark.boot_id.empty() && !node.boot_id.empty();
}

std::vector<std::string> volumes_of(const json& node) {
  std::set<std::string> names;
  for (const json& name : value_at(node, "/status/volumesInUse")) {
    if (name.is_string()) {
      names.insert(name.get<std::string>());
    }
  }
  for (const json& attached : value_at(node, "/status/volumesAttached")) {
    if (attached.is_object()) {
      names.insert(attached.value("name", ""));
    }
  }
  return {names.begin(), names.end()};
}

const std::string& mark_text(const kube::Node& node, OwnTaint taint) {
  switch (taint) {
    case OwnTaint::OutOfService:
      return node.out_of_service_mark;
    case OwnTaint::Silent:
      return node.silent_mark;
    case OwnTaint::Fenced:
      break;
  }
  return node.fence_mark;
}

FenceMark mark_for(const kube::Node& node, const IncidentId& incident, WallTime now,
                   std::optional<WallTime> renewed, OwnTaint taint) {
  constexpr std::size_t kMost = 32;
  constexpr std::size_t kLongest = 8U << 10U;
  FenceMark mark = {.incident = incident,
                    .boot_id = node.boot_id,
                    .since = now,
                    .heard = heard_of(node, now, renewed)};
  std::vector<std::string> names = volumes_of(*node.raw);
  if (const auto old = read_mark(mark_text(node, taint)); old && old->boot_id == node.boot_id) {
    mark.since = old->since;  // of the same boot: what it had then may still be there
    mark.heard = old->heard;
    names.insert(names.end(), old->volumes.begin(), old->volumes.end());
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
  }
  std::size_t length = 0;
  for (std::string& name : names) {
    length += name.size();
    if (mark.volumes.size() == kMost || length > kLongest) {
      mark.volumes.emplace_back("…");
      break;
    }
    mark.volumes.push_back(std::move(name));
  }
  return mark;
}

Carried carried_by(const kube::Node& node, OwnTaint taint) {
  const Form& form = form_of(taint);
  const std::string& text = mark_text(node, taint);
  if (text.empty()) {
    // Kubernetes heeds out-of-service with any effect.
    const bool foreign = carries(node, form, taint == OwnTaint::OutOfService);
    return foreign ? Carried::Foreign : Carried::Nothing;
  }
  if (!carries(node, form, false)) {
    return Carried::MarkOnly;
  }
  const auto mark = read_mark(text);
  if (!mark) {
    return Carried::Foreign;
  }
  return mark->boot_id == node.boot_id ? Carried::Ours : Carried::OutOfDate;
}

json operations_to_set(const kube::Node& node, const FenceMark& mark, OwnTaint taint) {
  const Form& form = form_of(taint);
  const json& raw = *node.raw;
  json taints = taints_of(raw);
  drop(taints, form);
  json own = {{"key", form.key}, {"effect", form.effect}};
  if (taint != OwnTaint::Silent) {
    own["value"] = taint == OwnTaint::Fenced ? mark.incident.text() : std::string("nodeshutdown");
  }
  taints.push_back(std::move(own));
  json operations =
      json::array({test_of(raw, "/status/nodeInfo/bootID"), test_of(raw, std::string(kTaints))});
  if (taint == OwnTaint::OutOfService) {
    test_ready(operations, raw, /*heartbeat=*/true);
  }
  if (value_at(raw, std::string(kAnnotations)).is_null()) {
    operations.push_back(test_of(raw, std::string(kAnnotations)));
    operations.push_back(
        {{"op", "add"}, {"path", kAnnotations}, {"value", {{form.annotation, to_text(mark)}}}});
  } else {
    operations.push_back(test_of(raw, std::string(form.path)));
    operations.push_back({{"op", "add"}, {"path", form.path}, {"value", to_text(mark)}});
  }
  operations.push_back({{"op", "add"}, {"path", kTaints}, {"value", std::move(taints)}});
  return operations;
}

namespace {

json take_off(json operations, const kube::Node& node, std::span<const Form> forms) {
  const json& raw = *node.raw;
  operations.push_back(test_of(raw, std::string(kTaints)));
  const json before = taints_of(raw);
  json taints = before;
  for (const Form& form : forms) {
    if (mark_text(node, form.taint).empty()) {
      continue;
    }
    operations.push_back(test_of(raw, std::string(form.path)));
    operations.push_back({{"op", "remove"}, {"path", form.path}});
    drop(taints, form);
  }
  if (taints != before) {
    if (taints.empty()) {
      operations.push_back({{"op", "remove"}, {"path", kTaints}});
    } else {
      operations.push_back({{"op", "replace"}, {"path", kTaints}, {"value", std::move(taints)}});
    }
  }
  return operations;
}

}  // namespace

json operations_to_lift(const kube::Node& node) {
  json tests = json::array();
  test_ready(tests, *node.raw, /*heartbeat=*/false);
  tests.push_back(test_of(*node.raw, "/status/nodeInfo/bootID"));
  return take_off(std::move(tests), node, kForms);
}

json operations_to_lift_silent(const kube::Node& node) {
  return take_off(json::array(), node, {&form_of(OwnTaint::Silent), 1});
}

bool said_ready_since(const kube::Node& node, std::string_view mark) {
  const std::string ready = ready_path(*node.raw);
  if (ready.empty() || value_at(*node.raw, ready + "/status") != "True") {
    return false;
  }
  const auto read = read_mark(mark);
  if (!read || read->boot_id != node.boot_id) {
    return true;
  }
  const json stamp = value_at(*node.raw, ready + "/lastHeartbeatTime");
  const auto heartbeat = stamp.is_string() ? parse_rfc3339(stamp.get<std::string>()) : std::nullopt;
  return heartbeat && *heartbeat > read->since;
}

bool changes_taints(const json& operations) {
  return std::any_of(operations.begin(), operations.end(), [](const json& operation) {
    return operation.value("op", "") != "test" && operation.value("path", "").starts_with(kTaints);
  });
}

}  // namespace moonfence::fence
