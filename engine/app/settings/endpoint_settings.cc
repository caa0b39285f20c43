#include "app/settings/endpoint_settings.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "app/settings/endpoint_auth_settings.h"
#include "app/settings/settings_values.h"
#include "base/text.h"

namespace moonfence::app {
namespace {

using cluster::EndpointRules;

constexpr std::array<std::string_view, 5> kKeys = {"auth", "headers", "timeout", "tls", "url"};
constexpr std::array<std::string_view, 3> kTlsKeys = {"ca", "clientCertificate", "clientKey"};
constexpr std::size_t kLongestName = 40;

// What a policy can write in fence.http.
bool is_endpoint_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && text.front() >= 'a' &&
         text.front() <= 'z' && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

Result<void> read_tls_entry(const std::string& file, const std::string& key, const YAML::Node& name,
                            const YAML::Node& value, EndpointRules& rules) {
  std::string& into = key == "ca"                  ? rules.ca_file
                      : key == "clientCertificate" ? rules.certificate_file
                                                   : rules.key_file;
  return read_file_name(file, name, value, into);
}

}  // namespace

Result<void> check_endpoint(const std::string& file, const YAML::Node& name,
                            const std::string& place, const EndpointRules& rules) {
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
  return check_together(file, name, place, rules);
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
  if (key == "headers") {
    return read_headers(file, name, value, rules.headers);
  }
  return each_entry(file, name, value, kTlsKeys,
                    [&](const std::string& inner, const auto& inner_name, const auto& inner_value) {
                      return read_tls_entry(file, inner, inner_name, inner_value, rules);
                    });
}

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
        each_entry(file, entry.first, entry.second, kKeys,
                   [&](const std::string& inner, const auto& inner_name, const auto& inner_value) {
                     return read_endpoint_entry(file, inner, inner_name, inner_value, rules);
                   });
    if (read) {
      read = check_endpoint(file, entry.first, "endpoints: " + escaped(key, 64), rules);
    }
    if (!read) {
      return read;
    }
    table.insert_or_assign(key, std::move(rules));
  }
  return {};
}

}  // namespace moonfence::app
