#include "sim/store/validation.h"

#include <array>
#include <string_view>

#include "sim/store/fields.h"
#include "sim/store/refusals.h"

namespace moonfence::sim {
namespace {

constexpr std::int64_t kDefaultGraceS = 30;

bool starts_pending(const ResourceKind& kind) {
  return kind.resource == "pods" || kind.resource == "persistentvolumes" ||
         kind.resource == "persistentvolumeclaims";
}

// A pod's spec without what may change.
Json fixed_part(const Json& object) {
  constexpr std::array<std::string_view, 3> kOpen = {"activeDeadlineSeconds", "tolerations",
                                                     "terminationGracePeriodSeconds"};
  const Json* spec = find_field(object, {"spec"});
  if (spec == nullptr) {
    return Json::object();
  }
  Json out = *spec;
  for (const std::string_view field : kOpen) {
    out.erase(std::string(field));
  }
  for (const char* list : {"containers", "initContainers"}) {
    if (const auto containers = out.find(list); containers != out.end()) {
      for (Json& container : *containers) {
        container.erase("image");
      }
    }
  }
  return out;
}

}  // namespace

void complete_new(const ResourceKind& kind, Json& object) {
  if (kind.resource == "nodes" || !kind.has_status) {
    return;  // a node is registered with its status
  }
  object.erase("status");
  if (starts_pending(kind)) {
    object["status"] = {{"phase", "Pending"}};
  } else if (kind.resource == "namespaces") {
    object["status"] = {{"phase", "Active"}};
  } else if (kind.resource == "volumeattachments") {
    object["status"] = {{"attached", false}};
  }
  if (kind.resource == "pods") {
    Json& spec = object["spec"];
    if (spec.is_null()) {
      spec = Json::object();
    }
    if (!spec.contains("terminationGracePeriodSeconds")) {
      spec["terminationGracePeriodSeconds"] = kDefaultGraceS;
    }
    if (!spec.contains("restartPolicy")) {
      spec["restartPolicy"] = "Always";
    }
  }
}

std::optional<ApiFault> check_unchanged(const ResourceKind& kind, const std::string& name,
                                        const Json& before, const Json& after) {
  if (kind.resource == "pods" && fixed_part(before) != fixed_part(after)) {
    return invalid(kind, name, "spec", "FieldValueForbidden",
                   "Forbidden: pod updates may not change fields other than "
                   "`spec.containers[*].image`, `spec.initContainers[*].image`, "
                   "`spec.activeDeadlineSeconds` or `spec.tolerations` (only additions to existing "
                   "tolerations)");
  }
  if (kind.resource == "volumeattachments") {
    const Json* spec = find_field(before, {"spec"});
    const Json* wish = find_field(after, {"spec"});
    if (spec != nullptr && (wish == nullptr || *spec != *wish)) {
      return invalid(kind, name, "spec", "FieldValueInvalid", "Invalid value: field is immutable");
    }
  }
  return std::nullopt;
}

std::optional<ApiFault> check_same_uid(const ResourceKind& kind, const std::string& name,
                                       const std::string& uid, const Json& after) {
  const std::string& wish = text_field(after, {"metadata", "uid"});
  if (wish.empty() || wish == uid) {
    return std::nullopt;
  }
  return invalid(kind, name, "metadata.uid", "FieldValueInvalid",
                 "Invalid value: \"" + wish + "\": field is immutable");
}

}  // namespace moonfence::sim
