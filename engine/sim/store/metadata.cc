#include "sim/store/metadata.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"
#include "sim/store/fields.h"
#include "sim/store/refusals.h"

namespace moonfence::sim {
namespace {

constexpr std::size_t kLongestName = 253;
constexpr std::array<std::string_view, 7> kFixed = {"name",
                                                    "namespace",
                                                    "uid",
                                                    "creationTimestamp",
                                                    "deletionTimestamp",
                                                    "deletionGracePeriodSeconds",
                                                    "resourceVersion"};

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool is_label(std::string_view text) {
  return !text.empty() && is_letter_or_digit(text.front()) && is_letter_or_digit(text.back()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return c == '-' || is_letter_or_digit(c); });
}

// RFC 1123.
bool is_subdomain(std::string_view text) {
  const auto labels = split(text, '.');
  return text.size() <= kLongestName && std::all_of(labels.begin(), labels.end(), is_label);
}

}  // namespace

std::optional<ApiFault> check_name(const ResourceKind& kind, const std::string& name) {
  if (name.empty()) {
    return invalid(kind, name, "metadata.name", "FieldValueRequired",
                   "Required value: name or generateName is required");
  }
  if (!is_subdomain(name)) {
    return invalid(kind, name, "metadata.name", "FieldValueInvalid",
                   "Invalid value: \"" + name +
                       "\": a lowercase RFC 1123 subdomain must consist of lower case "
                       "alphanumeric characters, '-' or '.', and must start and end with an "
                       "alphanumeric character (e.g. 'example.com', regex used for validation is "
                       "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')");
  }
  return std::nullopt;
}

std::optional<ApiFault> check_identity(const ResourceKind& kind, const Key& key, const Json& before,
                                       const Json& after) {
  if (const std::string& name = text_field(after, {"metadata", "name"}); name != key.name) {
    return bad_request("the name of the object (" + name +
                       ") does not match the name on the URL (" + key.name + ")");
  }
  const std::string& version = text_field(after, {"metadata", "resourceVersion"});
  const std::string& current = text_field(before, {"metadata", "resourceVersion"});
  if (!version.empty() && version != "0" && version != current) {
    return conflict(kind, kind.resource, key.name,
                    "the object has been modified; please apply your changes to the latest version "
                    "and try again");
  }
  const std::string& uid = text_field(after, {"metadata", "uid"});
  const std::string& owned = text_field(before, {"metadata", "uid"});
  if (!uid.empty() && uid != owned) {
    return conflict(
        kind, kind.resource, key.name,
        "Precondition failed: UID in precondition: " + uid + ", UID in object meta: " + owned);
  }
  return std::nullopt;
}

void keep_metadata(const Json& before, Json& after) {
  const Json& kept = before.at("metadata");
  Json& metadata = after["metadata"];
  for (const std::string_view field : kFixed) {
    const auto found = kept.find(field);
    const auto edited = metadata.find(field);
    if (found == kept.end()) {
      if (edited != metadata.end()) {
        metadata.erase(edited);
      }
    } else if (edited == metadata.end()) {
      metadata[std::string(field)] = *found;
    } else if (*edited != *found) {
      *edited = *found;
    }
  }
}

}  // namespace moonfence::sim
