#include "fence/remediation/remediation_object.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "kube/text/json.h"

namespace moonfence::fence {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestText = 1200;  // longer than any of ours
constexpr std::size_t kLongestName = 253;

bool is_ours(std::string_view type) {
  return type == kProcessing || type == kSucceeded || type == kDeletionExpected;
}

// An RFC 1123 subdomain, which is what the API server takes for a Node's name.
bool is_node_name(std::string_view text) {
  const auto is_inner = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  const auto is_end = [](char c) { return c != '-' && c != '.'; };
  return !text.empty() && text.size() <= kLongestName &&
         std::all_of(text.begin(), text.end(), is_inner) && is_end(text.front()) &&
         is_end(text.back()) && text.find("..") == std::string_view::npos;
}

// "" of what is no string, or too long to be of use.
std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) {
    return {};
  }
  const auto& text = found->get_ref<const std::string&>();
  return text.size() > kLongestText ? std::string() : text;
}

const json* annotation(const json& object, std::string_view key) {
  const json::json_pointer at("/metadata/annotations");
  if (!object.contains(at) || !object.at(at).is_object()) {
    return nullptr;
  }
  const json& all = object.at(at);
  const auto found = all.find(std::string(key));
  return found == all.end() ? nullptr : &*found;
}

// The annotation speaks where it is there: of several objects for one node only one can have its
// name.
std::optional<NodeName> node_of(const json& object, const std::string& name) {
  const json* said = annotation(object, kNodeNameKey);
  const std::string text = said == nullptr     ? name
                           : said->is_string() ? said->get<std::string>()
                                               : std::string();
  return is_node_name(text) ? std::optional(NodeName(text)) : std::nullopt;
}

const json& conditions_in(const json& object) {
  static const json none = json::array();
  const json::json_pointer at("/status/conditions");
  return object.is_object() && object.contains(at) && object.at(at).is_array() ? object.at(at)
                                                                               : none;
}

}  // namespace

std::string_view RemediationObject::status_of(std::string_view type) const {
  const auto found = conditions.find(std::string(type));
  return found == conditions.end() ? std::string_view() : std::string_view(found->second.status);
}

bool RemediationObject::is_finished() const {
  const std::string_view succeeded = status_of(kSucceeded);
  return status_of(kProcessing) == "False" && (succeeded == "True" || succeeded == "False");
}

kube::WatchTarget remediation_target() {
  return {.resource = std::string(kRemediationResource),
          .path = "/apis/" + std::string(kRemediationApi) + "/" + std::string(kRemediationResource),
          .field_selector = {},
          .label_selector = {},
          .omitted = {{"spec"}, {"metadata", "managedFields"}, {"metadata", "labels"}}};
}

Result<RemediationObject> decode_remediation(const json& object) {
  kube::Fields fields(object, std::string(kRemediationResource));
  RemediationObject read;
  read.ref = {.space = Namespace(fields.required({"metadata", "namespace"})),
              .name = fields.required({"metadata", "name"})};
  read.uid = Uid(fields.required({"metadata", "uid"}));
  if (fields.fault()) {
    return failure(*fields.fault());
  }
  read.node = node_of(object, read.ref.name);
  read.timed_out = annotation(object, kTimedOutKey) != nullptr;
  read.leaving = object.contains(json::json_pointer("/metadata/deletionTimestamp"));
  read.node_uid = Uid(escaped(kube::text_at(object, "/status/nodeUID"), 64));
  for (const json& each : conditions_in(object)) {
    const std::string type = each.is_object() ? text_of(each, "type") : std::string();
    if (is_ours(type)) {
      read.conditions.insert_or_assign(type,
                                       RemediationCondition{.type = type,
                                                            .status = text_of(each, "status"),
                                                            .reason = text_of(each, "reason"),
                                                            .message = text_of(each, "message")});
    }
  }
  if (read.is_finished()) {  // nobody compares them any more, and there may be thousands
    for (auto& [type, condition] : read.conditions) {
      condition.reason.clear();
      condition.message.clear();
    }
  }
  return read;
}

std::string status_patch(const json& object, const std::vector<RemediationCondition>& wanted,
                         const Uid& node_uid, WallTime now) {
  std::map<std::string, json> known;
  json conditions = json::array();
  for (const json& each : conditions_in(object)) {
    const std::string type = each.is_object() ? text_of(each, "type") : std::string();
    if (is_ours(type)) {
      known.insert_or_assign(type, each);
    } else {
      conditions.push_back(each);
    }
  }
  for (const RemediationCondition& each : wanted) {
    const auto before = known.find(each.type);
    const std::string since =
        before != known.end() && text_of(before->second, "status") == each.status
            ? text_of(before->second, "lastTransitionTime")
            : std::string();
    conditions.push_back({{"type", each.type},
                          {"status", each.status},
                          {"reason", each.reason},
                          {"message", each.message},
                          {"lastTransitionTime", since.empty() ? format_rfc3339(now) : since}});
  }
  json patch = {{"metadata",
                 {{"uid", kube::text_at(object, "/metadata/uid")},
                  {"resourceVersion", kube::text_at(object, "/metadata/resourceVersion")}}},
                {"status", {{"conditions", std::move(conditions)}}}};
  if (!node_uid.empty()) {
    patch["status"]["nodeUID"] = node_uid.text();
  }
  return kube::to_text(patch);
}

}  // namespace moonfence::fence
