#include "sim/store/fields.h"

namespace moonfence::sim {

const Json* find_field(const Json& object, Path path) {
  const Json* at = &object;
  for (const std::string_view name : path) {
    if (!at->is_object()) {
      return nullptr;
    }
    const auto found = at->find(name);
    if (found == at->end()) {
      return nullptr;
    }
    at = &*found;
  }
  return at;
}

const std::string& text_field(const Json& object, Path path) {
  static const std::string nothing;
  const Json* found = find_field(object, path);
  const auto* text = found == nullptr ? nullptr : found->get_ptr<const std::string*>();
  return text == nullptr ? nothing : *text;
}

std::optional<std::int64_t> number_field(const Json& object, Path path) {
  const Json* found = find_field(object, path);
  if (found == nullptr || !found->is_number_integer()) {
    return std::nullopt;
  }
  return found->get<std::int64_t>();
}

bool has_content(const Json& object, Path path) {
  const Json* found = find_field(object, path);
  return found != nullptr && (found->is_array() || found->is_object()) && !found->empty();
}

}  // namespace moonfence::sim
