#include "kube/text/yaml_values.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/text.h"

namespace moonfence::kube {
namespace {

using nlohmann::json;

constexpr std::string_view kDigits = "0123456789";

bool consists_of(std::string_view text, std::string_view letters) {
  return !text.empty() && text.find_first_not_of(letters) == std::string_view::npos;
}

bool is_sign(char c) {
  return c == '-' || c == '+';
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool is_float(std::string_view text) {
  const auto take_digits = [&text] {
    const auto count = std::min(text.find_first_not_of(kDigits), text.size());
    text.remove_prefix(count);
    return count;
  };
  if (!text.empty() && is_sign(text.front())) {
    text.remove_prefix(1);
  }
  std::size_t digits = take_digits();
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    digits += take_digits();
  }
  if (digits == 0) {
    return false;
  }
  if (text.empty()) {
    return true;
  }
  if (text.front() != 'e' && text.front() != 'E') {
    return false;
  }
  text.remove_prefix(1);
  if (!text.empty() && is_sign(text.front())) {
    text.remove_prefix(1);
  }
  return consists_of(text, kDigits);
}

bool is_special_float(std::string_view text) {
  for (const std::string_view nan : {".nan", ".NaN", ".NAN"}) {
    if (text == nan) {
      return true;
    }
  }
  if (!text.empty() && is_sign(text.front())) {
    text.remove_prefix(1);
  }
  return text == ".inf" || text == ".Inf" || text == ".INF";
}

Failure no_number(std::string_view text) {
  return failure(Error::Kind::Invalid,
                 "is '" + escaped(text, 64) + "', a number that cannot be kept exactly",
                 "quote it if it is text");
}

Result<json> integer(std::string_view whole, std::string_view digits, int base) {
  std::int64_t value = 0;
  const auto [end, fault] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (fault != std::errc() || end != digits.data() + digits.size()) {
    return no_number(whole);
  }
  return json(value);
}

Result<json> floating(std::string_view whole) {
  std::string_view digits = whole;
  if (digits.starts_with('+')) {
    digits.remove_prefix(1);
  }
  double value = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (fault != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value)) {
    return no_number(whole);
  }
  return json(value);
}

Result<json> scalar(const Yaml& value) {
  const std::string_view text = value.text;
  if (value.quoted) {
    return json(value.text);
  }
  if (text == "true" || text == "True" || text == "TRUE") {
    return json(true);
  }
  if (text == "false" || text == "False" || text == "FALSE") {
    return json(false);
  }
  if (text.starts_with("0o") && consists_of(text.substr(2), "01234567")) {
    return integer(text, text.substr(2), 8);
  }
  if (text.starts_with("0x") && consists_of(text.substr(2), "0123456789abcdefABCDEF")) {
    return integer(text, text.substr(2), 16);
  }
  const bool is_signed = !text.empty() && is_sign(text.front());
  if (consists_of(text.substr(is_signed ? 1 : 0), kDigits)) {
    return integer(text, text.substr(text.starts_with('+') ? 1 : 0), 10);
  }
  if (is_float(text)) {
    return floating(text);
  }
  if (is_special_float(text)) {
    return no_number(text);
  }
  return json(value.text);
}

}  // namespace

Result<json> to_json(const Yaml& value) {
  switch (value.kind) {
    case Yaml::Kind::Null:
      return json();
    case Yaml::Kind::Scalar:
      return scalar(value);
    case Yaml::Kind::Sequence:
    case Yaml::Kind::Map:
      break;
  }
  const bool is_map = value.kind == Yaml::Kind::Map;
  json out = is_map ? json::object() : json::array();
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    auto item = to_json(value.items[i]);
    if (!item) {
      return item;
    }
    if (is_map) {
      out[value.keys[i]] = *std::move(item);
    } else {
      out.push_back(*std::move(item));
    }
  }
  return out;
}

std::string described(const Yaml& value) {
  switch (value.kind) {
    case Yaml::Kind::Null:
      return "nothing";
    case Yaml::Kind::Sequence:
      return "a list";
    case Yaml::Kind::Map:
      return "a map";
    case Yaml::Kind::Scalar:
      break;
  }
  const auto json = scalar(value);
  const std::string text = "'" + escaped(value.text, 64) + "'";
  if (json && json->is_boolean()) {
    return "the truth value " + text;
  }
  return json && json->is_string() ? text : "the number " + text;
}

}  // namespace moonfence::kube
