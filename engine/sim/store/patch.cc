#include "sim/store/patch.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "sim/store/fields.h"
#include "sim/store/refusals.h"

namespace moonfence::sim {
namespace {

constexpr std::string_view kDeleteFrom = "$deleteFromPrimitiveList/";

// Lists that are merged element by element, and what tells their elements apart; the patchMergeKey
// tags of k8s.io/api. "" merges plain values. Every other list is replaced.
struct MergedList {
  std::string_view name;
  std::string_view key;
};
constexpr std::array<MergedList, 11> kMergedLists = {{{"conditions", "type"},
                                                      {"addresses", "type"},
                                                      {"containers", "name"},
                                                      {"initContainers", "name"},
                                                      {"env", "name"},
                                                      {"volumes", "name"},
                                                      {"volumeMounts", "mountPath"},
                                                      {"imagePullSecrets", "name"},
                                                      {"ownerReferences", "uid"},
                                                      {"podIPs", "ip"},
                                                      {"finalizers", ""}}};

const MergedList* find_merged(std::string_view name) {
  const auto* found = std::find_if(kMergedLists.begin(), kMergedLists.end(),
                                   [name](const MergedList& list) { return list.name == name; });
  return found == kMergedLists.end() ? nullptr : found;
}

void merge_object(Json& object, const Json& patch);

void merge_values(Json& list, const Json& patch) {
  for (const Json& value : patch) {
    if (std::find(list.begin(), list.end(), value) == list.end()) {
      list.push_back(value);
    }
  }
}

void merge_elements(Json& list, const Json& patch, std::string_view key) {
  for (const Json& element : patch) {
    const std::string& id = text_field(element, {key});
    const auto at = std::find_if(list.begin(), list.end(),
                                 [&](const Json& each) { return text_field(each, {key}) == id; });
    if (text_field(element, {"$patch"}) == "delete") {
      if (at != list.end()) {
        list.erase(at);
      }
    } else if (at != list.end()) {
      merge_object(*at, element);
    } else {
      Json fresh = Json::object();
      merge_object(fresh, element);
      list.push_back(std::move(fresh));
    }
  }
}

void merge_list(std::string_view name, Json& list, const Json& patch) {
  const MergedList* how = find_merged(name);
  if (how == nullptr || !list.is_array()) {
    list = patch;
  } else if (how->key.empty()) {
    merge_values(list, patch);
  } else {
    merge_elements(list, patch, how->key);
  }
}

void merge_object(Json& object, const Json& patch) {
  if (text_field(patch, {"$patch"}) == "replace") {
    object = patch;
    object.erase("$patch");
    return;
  }
  for (const auto& [name, value] : patch.items()) {
    if (std::string_view(name).starts_with(kDeleteFrom)) {
      const auto list = object.find(name.substr(kDeleteFrom.size()));
      for (const Json& gone : value) {
        if (list != object.end() && list->is_array()) {
          list->erase(std::remove(list->begin(), list->end(), gone), list->end());
        }
      }
    } else if (name.starts_with('$')) {
      continue;  // an order of elements, which nothing here depends on
    } else if (value.is_null()) {
      object.erase(name);
    } else if (value.is_object()) {
      Json& field = object[name];
      if (!field.is_object()) {
        field = Json::object();
      }
      merge_object(field, value);
    } else if (value.is_array()) {
      Json& field = object[name];
      if (field.is_null() && find_merged(name) != nullptr) {
        field = Json::array();
      }
      merge_list(name, field, value);
    } else {
      object[name] = value;
    }
  }
}

// As evanphx/json-patch does it: a test of null is met where nothing stands.
Json patched(Json object, const Json& patch) {
  for (const Json& operation : patch) {
    const bool is_test = operation.at("op") == "test";
    const Json::json_pointer path(operation.at("path").get<std::string>());
    if (is_test && operation.at("value").is_null() && !path.empty() &&
        object.contains(path.parent_pointer()) && !object.contains(path)) {
      continue;
    }
    object = object.patch(Json::array({operation}));
  }
  return object;
}

ApiFault unfit() {
  return {.code = 422,
          .reason = "Invalid",
          .message = "the server rejected our request due to an error in our request",
          .details = Json::object()};
}

}  // namespace

std::optional<PatchType> patch_type(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  if (content_type == "application/merge-patch+json") {
    return PatchType::MergePatch;
  }
  if (content_type == "application/json-patch+json") {
    return PatchType::JsonPatch;
  }
  if (content_type == "application/strategic-merge-patch+json") {
    return PatchType::StrategicMerge;
  }
  return std::nullopt;
}

std::optional<ApiFault> apply_patch(PatchType type, const Json& patch, Json& object) {
  if (type == PatchType::JsonPatch ? !patch.is_array() : !patch.is_object()) {
    return bad_request("the patch is no " +
                       std::string(type == PatchType::JsonPatch ? "list" : "object"));
  }
  switch (type) {
    case PatchType::MergePatch:
      object.merge_patch(patch);
      return std::nullopt;
    case PatchType::StrategicMerge:
      merge_object(object, patch);
      return std::nullopt;
    case PatchType::JsonPatch:
      try {
        object = patched(object, patch);
      } catch (const Json::exception&) {
        return unfit();
      }
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace moonfence::sim
