#include "app/settings/endpoint_auth_settings.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "app/settings/login_body.h"
#include "app/settings/settings_values.h"
#include "base/text.h"
#include "kube/auth/server_url.h"

namespace moonfence::app {
namespace {

using cluster::EndpointRules;
using cluster::LoginRules;
using Auth = EndpointRules::Auth;
using Send = LoginRules::Send;

constexpr std::array<std::string_view, 23> kAuthKeys = {
    "accessKeyFile", "body",          "expiresField",     "expiresHeader", "headers",
    "lifetime",      "passwordField", "passwordFile",     "path",          "region",
    "secretKeyFile", "send",          "sendHeader",       "sendPrefix",    "service",
    "tokenField",    "tokenFile",     "sessionTokenFile", "tokenHeader",   "type",
    "url",           "usernameField", "usernameFile"};

bool is_file(const std::string& text) {
  return text.size() > 1 && text.front() == '/' && text.back() != '/';
}

bool is_word(const std::string& text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.").find(c) != std::string_view::npos;
  });
}

bool is_label(const std::string& text) {
  return is_dns_label(text);
}

bool is_login_path(const std::string& text) {
  return text.size() > 1 && text.front() == '/' && text.find("..") == std::string::npos &&
         text.find("//") == std::string::npos && std::all_of(text.begin(), text.end(), [](char c) {
           return c > ' ' && c <= '~' && c != '#' && c != '\\' && c != '"' && c != '%';
         });
}

// What can stand in a header, on one line.
bool is_printable(const std::string& text) {
  return text.size() <= 256 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
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
constexpr TextRule kPlace = {.fits = is_label,
                             .what = "no name of a region or service of AWS",
                             .hint = "for example eu-central-1, and ec2"};
constexpr TextRule kPath = {
    .fits = is_login_path, .what = "no path below the url", .hint = "for example /v2/auth/login"};
constexpr TextRule kPrefix = {.fits = is_printable,
                              .what = "no beginning of a header",
                              .hint = "for example 'PVEAPIToken='; the token follows it"};

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

// One of these words.
template <class T, std::size_t kCount>
Result<void> read_word(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                       const std::array<std::pair<std::string_view, T>, kCount>& words,
                       const std::string& what, T& into) {
  std::string known;
  for (const auto& [word, meaning] : words) {
    if (value.IsScalar() && value.Scalar() == word) {
      into = meaning;
      return {};
    }
    known.append(known.empty() ? "one of " : ", ").append(word);
  }
  return bad(file, name,
             name.Scalar() + ": '" + escaped(value.IsScalar() ? value.Scalar() : "…", 128) +
                 "' is no way to " + what,
             known);
}

constexpr std::array<std::pair<std::string_view, Auth>, 5> kTypes = {{{"none", Auth::None},
                                                                      {"basic", Auth::Basic},
                                                                      {"bearer", Auth::Bearer},
                                                                      {"login", Auth::Login},
                                                                      {"aws", Auth::Aws}}};
constexpr std::array<std::pair<std::string_view, Send>, 4> kSends = {{{"json", Send::Json},
                                                                      {"form", Send::Form},
                                                                      {"basic", Send::Basic},
                                                                      {"nothing", Send::Nothing}}};

// Which keys each type of authentication takes beside `type`, and which of them it cannot do
// without.
struct AuthType {
  Auth auth;
  std::vector<std::string_view> required;
  std::vector<std::string_view> optional;
};

const std::vector<AuthType>& auth_types() {
  static const std::vector<AuthType> types = {
      {.auth = Auth::None, .required = {}, .optional = {}},
      {.auth = Auth::Basic, .required = {"usernameFile", "passwordFile"}, .optional = {}},
      {.auth = Auth::Bearer, .required = {"tokenFile"}, .optional = {"sendHeader", "sendPrefix"}},
      {.auth = Auth::Login,
       .required = {"path"},
       .optional = {"url", "send", "body", "headers", "usernameFile", "passwordFile",
                    "usernameField", "passwordField", "tokenHeader", "tokenField", "expiresHeader",
                    "expiresField", "lifetime", "sendHeader", "sendPrefix"}},
      {.auth = Auth::Aws,
       .required = {"region", "accessKeyFile", "secretKeyFile"},
       .optional = {"service", "sessionTokenFile"}}};
  return types;
}

Result<void> read_auth_entry(const std::string& file, const std::string& key,
                             const YAML::Node& name, const YAML::Node& value,
                             EndpointRules& rules) {
  if (key == "type") {
    return read_word(file, name, value, kTypes, "authenticate", rules.auth);
  }
  if (key == "send") {
    return read_word(file, name, value, kSends, "log in", rules.login.send);
  }
  if (key == "url") {
    return read_url(file, name, value, rules.login.url);
  }
  if (key == "body") {
    return read_login_body(file, name, value, rules.login.body);
  }
  if (key == "headers") {
    return read_headers(file, name, value, rules.login.headers);
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
      {"region", {&rules.aws.region, &kPlace}},
      {"service", {&rules.aws.service, &kPlace}},
      {"accessKeyFile", {&rules.aws.access_key_file, &kFile}},
      {"secretKeyFile", {&rules.aws.secret_key_file, &kFile}},
      {"sessionTokenFile", {&rules.aws.session_token_file, &kFile}},
      {"path", {&rules.login.path, &kPath}},
      {"usernameField", {&rules.login.username_field, &kWord}},
      {"passwordField", {&rules.login.password_field, &kWord}},
      {"tokenHeader", {&rules.login.token_header, &kWord}},
      {"tokenField", {&rules.login.token_field, &kWord}},
      {"expiresHeader", {&rules.login.expires_header, &kWord}},
      {"expiresField", {&rules.login.expires_field, &kWord}},
      {"sendHeader", {&rules.token_header, &kWord}},
      {"sendPrefix", {&rules.token_prefix, &kPrefix}}};
  const auto& [into, rule] = texts.at(key);
  return read_text(file, name, value, *rule, *into);
}

using Given = std::set<std::string>;

// Where the token of a login is, and what is sent for it.
Result<void> check_login(const std::string& file, const YAML::Node& name, const Given& given,
                         const EndpointRules& rules) {
  const LoginRules& login = rules.login;
  const auto refuse = [&](const std::string& what, const std::string& hint = "") {
    return bad(file, name, "auth: " + what, hint);
  };
  if (login.token_header.empty() == login.token_field.empty()) {
    return refuse("a login needs tokenHeader or tokenField",
                  "where its answer has the token; one of the two");
  }
  if (!login.expires_header.empty() && !login.expires_field.empty()) {
    return refuse("expiresHeader and expiresField exclude each other");
  }
  const bool posts = login.send == Send::Json || login.send == Send::Form;
  const bool has_body = given.contains("body");
  const std::string word(std::find_if(kSends.begin(), kSends.end(), [&login](const auto& each) {
                           return each.second == login.send;
                         })->first);
  for (const char* key : {"body", "usernameField", "passwordField"}) {
    if (given.contains(key) && !posts) {
      return refuse("send " + word + " takes no " + key);
    }
    if (given.contains(key) && has_body && std::string_view(key) != "body") {
      return refuse("body and " + std::string(key) + " exclude each other");
    }
  }
  for (const auto& [key, placeholder] : {std::pair("usernameFile", LoginRules::kUsername),
                                         std::pair("passwordFile", LoginRules::kPassword)}) {
    const bool needed =
        has_body ? holds_text(login.body, placeholder) : login.send != Send::Nothing;
    if (needed && !given.contains(key)) {
      return refuse(has_body ? "body has " + std::string(placeholder) + " and there is no " + key
                             : "type login needs " + std::string(key));
    }
    if (!needed && given.contains(key)) {
      return refuse(has_body ? "there is " + std::string(key) + " and body has no '" +
                                   std::string(placeholder) + "'"
                             : "send " + word + " takes no " + key);
    }
  }
  return login.send == Send::Form && has_body && !is_flat(login.body)
             ? refuse("body: a form is a mapping of texts", "or send: json")
             : Result<void>();
}

// What we or the transport set.
bool is_ours(const std::string& header) {
  static constexpr std::array<std::string_view, 11> kOurs = {
      "accept",    "authorization", "connection", "content-length", "content-type",
      "expect",    "host",          "te",         "upgrade",        "transfer-encoding",
      "user-agent"};
  return std::find(kOurs.begin(), kOurs.end(), lower_cased(header)) != kOurs.end();
}

// The keys belong to the type, and none is missing.
Result<void> check_auth(const std::string& file, const YAML::Node& name, const Given& given,
                        const EndpointRules& rules) {
  if (!given.contains("type")) {
    return bad(file, name, "auth: type is missing", "one of none, basic, bearer, login, aws");
  }
  const auto type =
      std::find_if(auth_types().begin(), auth_types().end(),
                   [&rules](const AuthType& each) { return each.auth == rules.auth; });
  const auto refuse = [&](std::string_view what, std::string_view key) {
    const auto word = std::find_if(kTypes.begin(), kTypes.end(), [&rules](const auto& each) {
      return each.second == rules.auth;
    });
    std::string text = "auth: type ";
    text.append(word->first).append(what).append(key);
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
  if (is_ours(rules.token_header) && lower_cased(rules.token_header) != "authorization") {
    return bad(file, name, "auth: sendHeader: " + rules.token_header + " is set by moonfence",
               "the header in which the service wants the token, for example X-Auth-Token");
  }
  return rules.auth == Auth::Login ? check_login(file, name, given, rules) : Result<void>();
}

// Of a cloud, which the machine alone reaches: nothing is shown to it, and it has no certificate.
bool is_metadata_server(const std::string& url) {
  constexpr std::array<std::string_view, 2> kServers = {"http://169.254.169.254",
                                                        "http://metadata.google.internal"};
  return std::any_of(kServers.begin(), kServers.end(), [&url](std::string_view server) {
    return url == server || url == std::string(server) + ":80";
  });
}

}  // namespace

Result<void> check_together(const std::string& file, const YAML::Node& name,
                            const std::string& place, const EndpointRules& rules) {
  const bool shows_token = rules.auth == Auth::Bearer || rules.auth == Auth::Login;
  for (const port::Header& header : rules.headers) {
    if (shows_token && lower_cased(header.name) == lower_cased(rules.token_header)) {
      return bad(file, name, place + ": headers has " + header.name + ", which shows the token",
                 "take it out, or name another header in auth.sendHeader");
    }
    if (rules.auth == Auth::Aws && lower_cased(header.name).starts_with("x-amz-")) {
      return bad(file, name,
                 place + ": headers has " + header.name + ", which is part of a signature",
                 "take it out; a session token is named by auth.sessionTokenFile");
    }
  }
  const bool shows_nothing = rules.username_file.empty() && rules.password_file.empty();
  if (rules.auth == Auth::Login && rules.login.url.starts_with("http://") &&
      rules.url.starts_with("https://") &&
      !(shows_nothing && is_metadata_server(rules.login.url))) {
    return bad(file, name,
               place + ": auth.url is http and url is https: the login would go in clear text",
               "write auth.url as https://; http is for a cloud's metadata server "
               "(169.254.169.254, metadata.google.internal), with send: nothing");
  }
  return {};
}

Result<void> read_auth(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                       EndpointRules& rules) {
  Given given;
  auto read = each_entry(file, name, value, kAuthKeys,
                         [&](const std::string& key, const auto& key_name, const auto& key_value) {
                           given.insert(key);
                           return read_auth_entry(file, key, key_name, key_value, rules);
                         });
  // "Bearer" belongs to the header Authorization.
  if (given.contains("sendHeader") && !given.contains("sendPrefix") &&
      lower_cased(rules.token_header) != "authorization") {
    rules.token_prefix.clear();
  }
  return read ? check_auth(file, name, given, rules) : read;
}

Result<void> read_headers(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                          std::vector<port::Header>& into) {
  constexpr std::size_t kMost = 8;
  if (!value.IsMap() || value.size() > kMost) {
    return bad(file, name, "headers: not a mapping of at most 8", "write {NAME: VALUE}");
  }
  for (const auto& entry : value) {
    const std::string header = entry.first.IsScalar() ? entry.first.Scalar() : "";
    const std::string text = entry.second.IsScalar() ? entry.second.Scalar() : "";
    if (!is_word(header) || text.empty() || !is_printable(text)) {
      return bad(file, entry.first, "headers: '" + escaped(header, 64) + "' is no header",
                 "write {NAME: VALUE}, in one line of plain letters");
    }
    if (is_ours(header)) {
      return bad(file, entry.first, "headers: " + escaped(header, 64) + " is set by moonfence",
                 "auth says how moonfence shows who it is");
    }
    into.push_back({header, text});
  }
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

Result<void> read_file_name(const std::string& file, const YAML::Node& name,
                            const YAML::Node& value, std::string& into) {
  return read_text(file, name, value, kFile, into);
}

}  // namespace moonfence::app
