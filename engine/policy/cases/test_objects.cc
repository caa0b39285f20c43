#include "base/text.h"
#include "policy/cases/test_file.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

constexpr std::size_t kMostObjects = 20'000;

std::string text_in(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Result<void> add_one(const json& object, const std::string& place, Objects& into) {
  const auto metadata = object.find("metadata");
  if (text_in(object, "kind").empty()) {
    return failure(Error::Kind::Invalid, place + " has no kind, so it is no Kubernetes object",
                   "use what `kubectl get KIND NAME -o json` prints");
  }
  if (metadata == object.end() || !metadata->is_object() || text_in(*metadata, "name").empty()) {
    return failure(Error::Kind::Invalid,
                   place + ": " + escaped(text_in(object, "kind"), 64) + " has no metadata.name",
                   "use what `kubectl get KIND NAME -o json` prints");
  }
  if (into.size() >= kMostObjects) {
    return failure(Error::Kind::Limit,
                   place + ": more than " + std::to_string(kMostObjects) + " objects in one case",
                   "keep what the pod and its node need");
  }
  into.push_back(std::make_shared<const json>(object));
  return {};
}

}  // namespace

Result<void> add_objects(const json& value, const std::string& place, Objects& into) {
  if (value.is_array()) {
    std::size_t position = 0;
    for (const json& element : value) {
      const std::string name = place + "[" + std::to_string(++position) + "]";
      if (auto added = add_objects(element, name, into); !added) {
        return added;
      }
    }
    return {};
  }
  if (!value.is_object()) {
    return failure(Error::Kind::Invalid,
                   place + " is " + value.type_name() + ", not a Kubernetes object",
                   "use what `kubectl get ... -o json` prints: an object, or a List of them");
  }
  const auto items = value.find("items");
  if (items != value.end() && text_in(value, "kind").ends_with("List")) {
    return items->is_array() ? add_objects(*items, place + ".items", into)
                             : failure(Error::Kind::Invalid, place + ".items is no list",
                                       "a List of kubectl holds its objects there");
  }
  return add_one(value, place, into);
}

std::optional<WallTime> time_of(const json& value) {
  constexpr std::int64_t kLatest = 9'000'000'000;  // the nanoseconds of a WallTime end in 2262
  if (value.is_number_integer()) {
    const auto seconds = value.get<std::int64_t>();
    return seconds >= 0 && seconds <= kLatest
               ? std::optional(WallTime(std::chrono::seconds(seconds)))
               : std::nullopt;
  }
  return value.is_string() ? parse_rfc3339(value.get_ref<const std::string&>()) : std::nullopt;
}

std::string folder_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? "" : std::string(path.substr(0, slash + 1));
}

std::string display_of(std::string_view path) {
  const std::string base(path.substr(folder_of(path).size()));
  if (!base.starts_with("policy")) {
    return escaped(base, 128);
  }
  const std::string folder = folder_of(path);
  const auto parts =
      split(std::string_view(folder).substr(0, folder.empty() ? 0 : folder.size() - 1), '/');
  return escaped(parts.back().empty() ? base : std::string(parts.back()) + "/" + base, 128);
}

}  // namespace moonfence::policy
