#include "app/settings/endpoint_settings.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "app/settings/settings_values.h"
#include "base/text.h"
#include "kube/auth/server_url.h"

namespace moonfence::app {
namespace {

using cluster::EndpointRules;
using Auth = EndpointRules::Auth;

constexpr std::array<std::string_view, 4> kEndpointKeys = {"auth", "timeout", "tls", "url"};
constexpr std::array<std::string_view, 3> kTlsKeys = {"ca", "clientCertificate", "clientKey"};
constexpr std::array<std::string_view, 12> kAuthKeys = {
    "expiresField", "expiresHeader", "lifetime",      "passwordField",
    "passwordFile", "path",          "tokenField",    "tokenFile",
    "tokenHeader",  "type",          "usernameField", "usernameFile"};
constexpr std::size_t kLongestName = 40;

// What a policy can write in fence.http.
bool is_endpoint_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && text.front() >= 'a' &&
         text.front() <= 'z' && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

bool is_file(const std::string& text) {
  return text.size() > 1 && text.front() == '/' && text.back() != '/';
}

bool is_word(const std::string& text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.").find(c) != std::string_view::npos;
  });
}

bool is_login_path(const std::string& text) {
  return text.size() > 1 && text.front() == '/' && text.find("..") == std::string::npos &&
         text.find("//") == std::string::npos && std::all_of(text.begin(), text.end(), [](char c) {
           return c > ' ' && c <= '~' && c != '#' && c != '\\' && c != '"' && c != '%';
         });
}

struct TextRule {
  bool (*fits)(const std::string& text);
  std::string_view what;
  std::string_view hint;
};
constexpr TextRule kFile = {
    .fits = is_file,
    .what = "no path of a file",
    .hint = "write it from the root, for example /etc/moonfence/x/password"};
constexpr TextRule kWord = {
    .fits = is_word,
    .what = "no name of a header or a field",
    .hint = "letters, digits, - and _; a field may lie deeper: session.token"};
constexpr TextRule kPath = {
    .fits = is_login_path, .what = "no path below the url", .hint = "for example /v2/auth/login"};

Result<void> read_text(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                       const TextRule& rule, std::string& into) {
  if (!value.IsScalar() || !rule.fits(value.Scalar())) {
    return bad(file, name,
               name.Scalar() + ": '" + escaped(value.IsScalar() ? value.Scalar() : "…", 128) +
                   "' is " + std::string(rule.what),
               std::string(rule.hint));
  }
  into = value.Scalar();
  return {};
}

Result<void> read_url(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                      std::string& into) {
  auto url = value.IsScalar() ? kube::server_url(value.Scalar())
                              : Result<std::string>(failure(Error::Kind::Invalid, "server"));
  if (!url) {
    constexpr std::string_view kServer = "server";
    return bad(file, name, "url" + url.error().text.substr(kServer.size()),
               "write it as https://HOST:PORT, with a path when there is one");
  }
  into = *std::move(url);
  return {};
}

Result<void> read_tls_entry(const std::string& file, const std::string& key, const YAML::Node& name,
                            const YAML::Node& value, EndpointRules& rules) {
  std::string& into = key == "ca"                  ? rules.ca_file
                      : key == "clientCertificate" ? rules.certificate_file
                                                   : rules.key_file;
  return read_text(file, name, value, kFile, into);
}

// Which keys each type of authentication takes beside `type`, and which of them it cannot do
// without.
struct AuthType {
  std::string_view word;
  Auth auth;
  std::vector<std::string_view> required;
  std::vector<std::string_view> optional;
};

const std::vector<AuthType>& auth_types() {
  static const std::vector<AuthType> types = {
      {.word = "none", .auth = Auth::None, .required = {}, .optional = {}},
      {.word = "basic",
       .auth = Auth::Basic,
       .required = {"usernameFile", "passwordFile"},
       .optional = {}},
      {.word = "bearer", .auth = Auth::Bearer, .required = {"tokenFile"}, .optional = {}},
      {.word = "login",
       .auth = Auth::Login,
       .required = {"path", "usernameFile", "passwordFile"},
       .optional = {"usernameField", "passwordField", "tokenHeader", "tokenField", "expiresHeader",
                    "expiresField", "lifetime"}}};
  return types;
}

Result<void> read_type(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                       EndpointRules& rules) {
  for (const AuthType& type : auth_types()) {
    if (value.IsScalar() && value.Scalar() == type.word) {
      rules.auth = type.auth;
      return {};
    }
  }
  return bad(file, name,
             "type: '" + escaped(value.IsScalar() ? value.Scalar() : "…", 128) +
                 "' is no way to authenticate",
             "one of none, basic, bearer, login");
}

Result<void> read_auth_entry(const std::string& file, const std::string& key,
                             const YAML::Node& name, const YAML::Node& value,
                             EndpointRules& rules) {
  if (key == "type") {
    return read_type(file, name, value, rules);
  }
  if (key == "lifetime") {
    auto read = read_duration(file, name, value, rules.login.lifetime);
    return read && rules.login.lifetime < std::chrono::seconds(1)
               ? bad(file, name, "lifetime: shorter than 1s", "how long a token is good for")
               : read;
  }
  const std::map<std::string_view, std::pair<std::string*, const TextRule*>> texts = {
      {"usernameFile", {&rules.username_file, &kFile}},
      {"passwordFile", {&rules.password_file, &kFile}},
      {"tokenFile", {&rules.token_file, &kFile}},
      {"path", {&rules.login.path, &kPath}},
      {"usernameField", {&rules.login.username_field, &kWord}},
      {"passwordField", {&rules.login.password_field, &kWord}},
      {"tokenHeader", {&rules.login.token_header, &kWord}},
      {"tokenField", {&rules.login.token_field, &kWord}},
      {"expiresHeader", {&rules.login.expires_header, &kWord}},
      {"expiresField", {&rules.login.expires_field, &kWord}}};
  const auto& [into, rule] = texts.at(key);
  return read_text(file, name, value, *rule, *into);
}

// The keys belong to the type, and none is missing.
Result<void> check_auth(const std::string& file, const YAML::Node& name,
                        const std::set<std::string>& given, const EndpointRules& rules) {
  if (!given.contains("type")) {
    return bad(file, name, "auth: type is missing", "one of none, basic, bearer, login");
  }
  const auto type =
      std::find_if(auth_types().begin(), auth_types().end(),
                   [&rules](const AuthType& each) { return each.auth == rules.auth; });
  const auto refuse = [&](std::string_view what, std::string_view key) {
    std::string text = "auth: type ";
    text.append(type->word).append(what).append(key);
    return bad(file, name, text, "");
  };
  for (const std::string_view key : type->required) {
    if (!given.contains(std::string(key))) {
      return refuse(" needs ", key);
    }
  }
  const auto has = [](const std::vector<std::string_view>& keys, std::string_view key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  for (const std::string& key : given) {
    if (key != "type" && !has(type->required, key) && !has(type->optional, key)) {
      return refuse(" takes no ", key);
    }
  }
  const auto one = [&rules](const std::string& header, const std::string& field) {
    return rules.auth != Auth::Login || header.empty() != field.empty();
  };
  if (!one(rules.login.token_header, rules.login.token_field)) {
    return bad(file, name, "auth: a login needs tokenHeader or tokenField",
               "where its answer has the token; one of the two");
  }
  if (!rules.login.expires_header.empty() && !rules.login.expires_field.empty()) {
    return bad(file, name, "auth: expiresHeader and expiresField exclude each other", "");
  }
  return {};
}

Result<void> read_auth(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                       EndpointRules& rules) {
  std::set<std::string> given;
  auto read = each_entry(file, name, value, kAuthKeys,
                         [&](const std::string& key, const auto& key_name, const auto& key_value) {
                           given.insert(key);
                           return read_auth_entry(file, key, key_name, key_value, rules);
                         });
  return read ? check_auth(file, name, given, rules) : read;
}

Result<void> check_endpoint(const std::string& file, const YAML::Node& name,
                            const EndpointRules& rules) {
  const std::string place = "endpoints: " + escaped(name.Scalar(), 64);
  if (rules.url.empty()) {
    return bad(file, name, place + " has no url", "for example url: https://HOST:PORT");
  }
  const bool secure = rules.url.starts_with("https://");
  if (!secure &&
      (!rules.ca_file.empty() || !rules.certificate_file.empty() || !rules.key_file.empty())) {
    return bad(file, name, place + " has tls, and its url is no https", "");
  }
  if (rules.certificate_file.empty() != rules.key_file.empty()) {
    return bad(file, name, place + ": tls needs clientCertificate and clientKey together", "");
  }
  if (rules.timeout < std::chrono::milliseconds(100) || rules.timeout > std::chrono::minutes(1)) {
    return bad(file, name, place + ": timeout must be from 100ms to 1m", "the default is 5s");
  }
  return {};
}

Result<void> read_endpoint_entry(const std::string& file, const std::string& key,
                                 const YAML::Node& name, const YAML::Node& value,
                                 EndpointRules& rules) {
  if (key == "url") {
    return read_url(file, name, value, rules.url);
  }
  if (key == "timeout") {
    return read_duration(file, name, value, rules.timeout);
  }
  if (key == "auth") {
    return read_auth(file, name, value, rules);
  }
  return each_entry(file, name, value, kTlsKeys,
                    [&](const std::string& inner, const auto& inner_name, const auto& inner_value) {
                      return read_tls_entry(file, inner, inner_name, inner_value, rules);
                    });
}

}  // namespace

Result<void> read_endpoints(const std::string& file, const YAML::Node& name,
                            const YAML::Node& value, cluster::EndpointTable& table) {
  if (!value.IsMap()) {
    return bad(file, name, "endpoints: not a mapping",
               "endpoints: {NAME: {url: https://HOST:PORT, auth: {type: none}}}");
  }
  for (const auto& entry : value) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (!is_endpoint_name(key)) {
      return bad(file, entry.first, "endpoints: '" + escaped(key, 64) + "' is no name",
                 "a name is [a-z][a-z0-9-]* of at most 40 letters");
    }
    EndpointRules rules;
    auto read =
        each_entry(file, entry.first, entry.second, kEndpointKeys,
                   [&](const std::string& inner, const auto& inner_name, const auto& inner_value) {
                     return read_endpoint_entry(file, inner, inner_name, inner_value, rules);
                   });
    if (read) {
      read = check_endpoint(file, entry.first, rules);
    }
    if (!read) {
      return read;
    }
    table.insert_or_assign(key, std::move(rules));
  }
  return {};
}

}  // namespace moonfence::app
