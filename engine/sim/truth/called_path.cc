#include "sim/truth/called_path.h"

#include <algorithm>
#include <initializer_list>

#include "sim/server/target.h"
#include "sim/store/fields.h"

namespace moonfence::sim {
namespace {

// An object with none but these.
bool has_only(const Json& object, std::initializer_list<std::string_view> keys) {
  if (!object.is_object()) {
    return false;
  }
  for (const auto& [key, value] : object.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string tested_uid(const std::string& body) {
  const Json patch = Json::parse(body, nullptr, false);
  return patch.is_array() && !patch.empty() && text_field(patch[0], {"op"}) == "test" &&
                 text_field(patch[0], {"path"}) == "/metadata/uid"
             ? text_field(patch[0], {"value"})
             : "";
}

std::vector<std::string> removed_entries(const std::string& body, std::string_view path) {
  const Json patch = Json::parse(body, nullptr, false);
  Json before = Json::array();
  Json after = Json::array();
  for (const Json& step : patch.is_array() ? patch : Json::array()) {
    if (text_field(step, {"path"}) == path) {
      (text_field(step, {"op"}) == "test" ? before : after) = step.value("value", Json::array());
    }
  }
  std::vector<std::string> removed;
  for (const Json& entry : before) {
    if (entry.is_string() && std::find(after.begin(), after.end(), entry) == after.end()) {
      removed.push_back(entry.get<std::string>());
    }
  }
  return removed;
}

bool tells_evidence(std::string_view target, const std::string& body) {
  const CalledPath path = read_path(target);
  const Json patch = Json::parse(body, nullptr, false);
  if (path.resource != "nodes" || path.subresource != "status" ||
      text_field(patch, {"metadata", "uid"}).empty() ||
      find_field(patch, {"metadata", "annotations", "moonfence.io/fencing-evidence"}) == nullptr ||
      !has_only(patch, {"metadata", "status"}) ||
      !has_only(patch["metadata"], {"uid", "resourceVersion", "annotations"}) ||
      patch["metadata"]["annotations"].size() != 1) {
    return false;
  }
  if (!patch.contains("status")) {
    return true;
  }
  const Json* conditions = find_field(patch, {"status", "conditions"});
  return conditions != nullptr && conditions->is_array() &&
         has_only(patch["status"], {"conditions"}) &&
         std::all_of(conditions->begin(), conditions->end(), [](const Json& condition) {
           return text_field(condition, {"type"}) == "FencingEvidence";
         });
}

std::string uid_precondition(const std::string& body) {
  const Json options = Json::parse(body, nullptr, false);
  return options.is_discarded() ? "" : text_field(options, {"preconditions", "uid"});
}

std::string merged_uid(const std::string& body) {
  const Json patch = Json::parse(body, nullptr, false);
  return patch.is_object() && !text_field(patch, {"metadata", "resourceVersion"}).empty()
             ? text_field(patch, {"metadata", "uid"})
             : "";
}

CalledPath read_path(std::string_view target) {
  CalledPath out;
  const auto mark = target.find('?');
  if (mark != std::string_view::npos) {
    out.query = target.substr(mark + 1);
    target = target.substr(0, mark);
  }
  std::vector<std::string> parts;
  parts.reserve(8);
  while (!target.empty()) {
    target.remove_prefix(1);
    const std::string_view part = target.substr(0, target.find('/'));
    parts.push_back(percent_decoded(part, /*is_query=*/true));
    target.remove_prefix(part.size());
  }
  // "api", version or "apis", group, version
  const std::size_t root = parts.empty()        ? 0
                           : parts[0] == "api"  ? 2
                           : parts[0] == "apis" ? 3
                                                : parts.size();
  std::size_t next = root;
  if (next + 2 < parts.size() && parts[next] == "namespaces") {
    out.space = parts[next + 1];
    next += 2;
  }
  const auto take = [&parts, &next] { return next < parts.size() ? parts[next++] : std::string(); };
  out.resource = take();
  out.name = take();
  out.subresource = take();
  return out;
}

}  // namespace moonfence::sim
