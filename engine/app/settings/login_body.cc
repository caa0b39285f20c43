#include "app/settings/login_body.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "app/settings/settings_values.h"
#include "base/text.h"
#include "cluster/endpoints/endpoint_login.h"

namespace moonfence::app {
namespace {

using cluster::LoginRules;
using nlohmann::json;

constexpr int kDeepest = 8;
constexpr std::size_t kLongestList = 32;

bool is_placeholder(const std::string& text) {
  return text == LoginRules::kUsername || text == LoginRules::kPassword;
}

// It would be sent as it stands.
bool looks_replaced(const std::string& text) {
  return (text.starts_with('{') && text.ends_with('}')) ||
         text.find(LoginRules::kUsername) != std::string::npos ||
         text.find(LoginRules::kPassword) != std::string::npos;
}

json scalar_of(const YAML::Node& value) {
  const std::string& text = value.Scalar();
  const bool quoted = value.Tag() == "!";
  if (!quoted && (text == "true" || text == "false")) {
    return text == "true";
  }
  return text;
}

// Empty: it is none, and `fault` says why.
std::optional<json> json_of(const YAML::Node& value, int depth, std::string& fault) {
  if (depth > kDeepest || value.size() > kLongestList) {
    fault = "too deep or too long";
    return std::nullopt;
  }
  if (value.IsNull()) {
    return json();
  }
  if (value.IsScalar()) {
    const std::string& text = value.Scalar();
    if (looks_replaced(text) && !is_placeholder(text)) {
      fault = "'" + escaped(text, 64) + "' is neither {username} nor {password}";
      return std::nullopt;
    }
    return scalar_of(value);
  }
  json made = value.IsMap() ? json::object() : json::array();
  for (const auto& entry : value) {
    const YAML::Node& inner = value.IsMap() ? entry.second : static_cast<const YAML::Node&>(entry);
    auto read = json_of(inner, depth + 1, fault);
    if (!read) {
      return std::nullopt;
    }
    if (!value.IsMap()) {
      made.push_back(*std::move(read));
    } else if (entry.first.IsScalar()) {
      made[entry.first.Scalar()] = *std::move(read);
    } else {
      fault = "a name is a text";
      return std::nullopt;
    }
  }
  return made;
}

}  // namespace

Result<void> read_login_body(const std::string& file, const YAML::Node& name,
                             const YAML::Node& value, json& into) {
  std::string fault = value.IsMap() ? "it is empty" : "not a mapping";
  auto read = value.IsMap() && value.size() > 0 ? json_of(value, 0, fault) : std::nullopt;
  if (!read) {
    return bad(file, name, "body: " + fault,
               "write {NAME: VALUE}, with \"{username}\" and \"{password}\" where the contents of "
               "usernameFile and passwordFile go");
  }
  into = *std::move(read);
  return {};
}

bool holds_text(const json& body, std::string_view text) {
  if (body.is_string()) {
    return body.get_ref<const std::string&>() == text;
  }
  return body.is_structured() && std::any_of(body.begin(), body.end(), [text](const json& each) {
           return holds_text(each, text);
         });
}

bool is_flat(const json& body) {
  return std::none_of(body.begin(), body.end(),
                      [](const json& each) { return each.is_structured() || each.is_null(); });
}

}  // namespace moonfence::app
