#include "kube/text/json.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "kube/text/nesting.h"

namespace moonfence::kube {
namespace {

using nlohmann::json;

// No bracket closes to this depth: the whole text is read.
constexpr int kToTheEnd = -(1 << 30);

Nesting nesting_of(std::string_view text) {
  Nesting nesting;
  nesting.follow(text, kToTheEnd);
  return nesting;
}

std::string joined_path(std::string_view place, Fields::Path path) {
  std::string text(place);
  for (const std::string_view key : path) {
    if (!text.empty()) {
      text += '.';
    }
    text += escaped(key, 128);
  }
  return text.empty() ? "the value" : text;
}

}  // namespace

Result<json> parse_json(std::string_view text) {
  if (nesting_of(text).deepest > kJsonDepthLimit) {
    return failure(Error::Kind::Malformed,
                   "JSON nested deeper than " + std::to_string(kJsonDepthLimit) + " levels");
  }
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return failure(Error::Kind::Malformed, "not JSON: \"" + escaped(text, 120) + "\"");
  }
  return value;
}

bool is_cut_short(std::string_view text) {
  const std::string_view inner = trimmed(text);
  if (inner.empty()) {
    return true;
  }
  if (inner.front() != '{' && inner.front() != '[') {
    return false;
  }
  const Nesting nesting = nesting_of(inner);
  return nesting.in_string || nesting.depth > 0;
}

std::string to_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string text_at(const json& value, const char* pointer) {
  const json::json_pointer place(pointer);
  return value.contains(place) && value[place].is_string() ? value[place].get<std::string>() : "";
}

Fields::Fields(const json& value, std::string place) : value_(value), place_(std::move(place)) {
  if (!value_.is_object()) {
    refuse({}, std::string("expected an object, found ") + value_.type_name());
  }
}

const json* Fields::find(Path path) {
  const json* here = &value_;
  for (const std::string_view key : path) {
    if (here->is_null()) {
      return nullptr;
    }
    if (!here->is_object()) {
      refuse(path, std::string("lies inside ") + here->type_name() + " instead of an object");
      return nullptr;
    }
    const auto found = here->find(key);
    if (found == here->end()) {
      return nullptr;
    }
    here = &*found;
  }
  return here->is_null() ? nullptr : here;
}

void Fields::refuse(Path path, std::string_view rule) {
  if (!fault_) {
    fault_ = Error{.kind = Error::Kind::Malformed,
                   .text = joined_path(place_, path) + ": " + std::string(rule)};
  }
}

void Fields::adopt(const Fields& part) {
  if (!fault_) {
    fault_ = part.fault_;
  }
}

std::string Fields::string(Path path) {
  const json* found = find(path);
  if (found == nullptr) {
    return {};
  }
  if (!found->is_string()) {
    refuse(path, std::string("expected a string, found ") + found->type_name());
    return {};
  }
  return found->get_ref<const std::string&>();
}

std::int64_t Fields::integer(Path path, std::int64_t missing) {
  const json* found = find(path);
  if (found == nullptr) {
    return missing;
  }
  const bool fits =
      found->is_number_integer() &&
      (!found->is_number_unsigned() || std::in_range<std::int64_t>(found->get<std::uint64_t>()));
  if (!fits) {
    refuse(path, std::string("expected a 64-bit integer, found ") + found->type_name());
    return missing;
  }
  return found->get<std::int64_t>();
}

bool Fields::boolean(Path path) {
  const json* found = find(path);
  if (found == nullptr) {
    return false;
  }
  if (!found->is_boolean()) {
    refuse(path, std::string("expected true or false, found ") + found->type_name());
    return false;
  }
  return found->get<bool>();
}

std::optional<WallTime> Fields::time(Path path) {
  const std::string text = string(path);
  if (text.empty()) {
    return std::nullopt;
  }
  const auto time = parse_rfc3339(text);
  if (!time) {
    refuse(path, "expected an RFC 3339 time, found \"" + escaped(text, 64) + "\"");
  }
  return time;
}

std::map<std::string, std::string> Fields::strings(Path path) {
  std::map<std::string, std::string> out;
  const json* found = object(path);
  if (found == nullptr) {
    return out;
  }
  for (const auto& [key, value] : found->items()) {
    if (value.is_string()) {
      out.emplace(key, value.get_ref<const std::string&>());
    } else if (!value.is_null()) {
      refuse(path, "value of \"" + escaped(key, 128) + "\": expected a string, found " +
                       value.type_name());
    }
  }
  return out;
}

const json* Fields::object(Path path) {
  const json* found = find(path);
  if (found != nullptr && !found->is_object()) {
    refuse(path, std::string("expected an object, found ") + found->type_name());
    return nullptr;
  }
  return found;
}

const json* Fields::array(Path path) {
  const json* found = find(path);
  if (found != nullptr && !found->is_array()) {
    refuse(path, std::string("expected an array, found ") + found->type_name());
    return nullptr;
  }
  return found;
}

std::string Fields::required(Path path) {
  std::string text = string(path);
  if (text.empty()) {
    refuse(path, "is required");
  }
  return text;
}

}  // namespace moonfence::kube
