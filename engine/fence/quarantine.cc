#include "fence/quarantine.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cluster/node_view.h"
#include "kube/json.h"

namespace moonfence::fence {
namespace {

using nlohmann::json;

constexpr std::string_view kTaints = "/spec/taints";
constexpr std::string_view kAnnotations = "/metadata/annotations";

std::string mark_path() {
  // "/" in a key is "~1" in a JSON pointer.
  return std::string(kAnnotations) + "/moonfence.io~1fenced";
}

// What stands there; null when nothing does, which is also how a test of absence is written.
json value_at(const json& node, const std::string& path) {
  const json::json_pointer pointer(path);
  return node.contains(pointer) ? node.at(pointer) : json();
}

json test_of(const json& node, const std::string& path) {
  return {{"op", "test"}, {"path", path}, {"value", value_at(node, path)}};
}

bool is_ours(const json& taint) {
  return taint.value("key", "") == cluster::kFencedKey && taint.value("effect", "") == "NoSchedule";
}

json other_taints(const json& node) {
  json others = json::array();
  for (const json& taint : value_at(node, std::string(kTaints))) {
    if (!is_ours(taint)) {
      others.push_back(taint);
    }
  }
  return others;
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

}  // namespace

std::string to_text(const FenceMark& mark) {
  return kube::to_text({{"incident", mark.incident.text()},
                        {"bootID", mark.boot_id},
                        {"since", format_rfc3339(mark.since)},
                        {"volumes", mark.volumes}});
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
  if (fields.fault() || !since || mark.incident.empty()) {
    return std::nullopt;
  }
  mark.since = *since;
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

FenceMark mark_for(const kube::Node& node, const IncidentId& incident, WallTime now) {
  constexpr std::size_t kMost = 32;
  constexpr std::size_t kLongest = 8U << 10U;
  FenceMark mark = {.incident = incident, .boot_id = node.boot_id, .since = now};
  std::vector<std::string> names = volumes_of(*node.raw);
  if (const auto old = read_mark(node.fence_mark); old && old->boot_id == node.boot_id) {
    mark.since = old->since;  // of the same boot: what it had then may still be there
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

Carried carried_by(const kube::Node& node) {
  const bool tainted = cluster::carries_fenced_taint(node);
  if (node.fence_mark.empty()) {
    return tainted ? Carried::Foreign : Carried::Nothing;
  }
  const auto mark = read_mark(node.fence_mark);
  if (!tainted) {
    return Carried::MarkOnly;
  }
  if (!mark) {
    return Carried::Foreign;
  }
  return mark->boot_id == node.boot_id ? Carried::Ours : Carried::OutOfDate;
}

json operations_to_set(const kube::Node& node, const FenceMark& mark) {
  const json& raw = *node.raw;
  json taints = other_taints(raw);
  taints.push_back(
      {{"key", cluster::kFencedKey}, {"value", mark.incident.text()}, {"effect", "NoSchedule"}});
  json operations =
      json::array({test_of(raw, "/status/nodeInfo/bootID"), test_of(raw, std::string(kTaints))});
  if (value_at(raw, std::string(kAnnotations)).is_null()) {
    operations.push_back(test_of(raw, std::string(kAnnotations)));
    operations.push_back(
        {{"op", "add"}, {"path", kAnnotations}, {"value", {{cluster::kFencedKey, to_text(mark)}}}});
  } else {
    operations.push_back(test_of(raw, mark_path()));
    operations.push_back({{"op", "add"}, {"path", mark_path()}, {"value", to_text(mark)}});
  }
  operations.push_back({{"op", "add"}, {"path", kTaints}, {"value", std::move(taints)}});
  return operations;
}

json operations_to_lift(const kube::Node& node) {
  const json& raw = *node.raw;
  json operations = json::array();
  if (const std::string ready = ready_path(raw); !ready.empty()) {
    operations.push_back(test_of(raw, ready + "/type"));
    operations.push_back(test_of(raw, ready + "/status"));
  }
  operations.push_back(test_of(raw, "/status/nodeInfo/bootID"));
  operations.push_back(test_of(raw, std::string(kTaints)));
  operations.push_back(test_of(raw, mark_path()));
  operations.push_back({{"op", "remove"}, {"path", mark_path()}});
  if (carried_by(node) != Carried::MarkOnly) {
    json others = other_taints(raw);
    if (others.empty()) {
      operations.push_back({{"op", "remove"}, {"path", kTaints}});
    } else {
      operations.push_back({{"op", "replace"}, {"path", kTaints}, {"value", std::move(others)}});
    }
  }
  return operations;
}

}  // namespace moonfence::fence
