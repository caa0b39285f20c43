#include "app/settings/webhook_settings.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "app/settings/endpoint_auth_settings.h"
#include "app/settings/endpoint_settings.h"
#include "app/settings/settings_values.h"
#include "base/text.h"
#include "kube/wire/url.h"

namespace moonfence::app {
namespace {

constexpr std::array<std::string_view, 8> kKeys = {"auth",   "events",  "headers", "secretFile",
                                                   "source", "timeout", "tls",     "url"};
constexpr std::size_t kLongestSource = 256;
constexpr std::string_view kPathMarks = "!$&'()*+,;=:@";  // stand for themselves (RFC 3986)
constexpr std::string_view kMarks = "-._~:/?#[]@!$&'()*+,;=%";

// Characters of a URI reference (RFC 3986).
bool is_source(const std::string& text) {
  return !text.empty() && text.size() <= kLongestSource &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  kMarks.find(c) != std::string_view::npos;
         });
}

// With the slashes at its end: a receiver may tell /hook from /hook/. Its path may be all the
// secret that it has, so none is quoted.
Result<void> read_receiver(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                           std::string& into) {
  if (auto read = read_url(file, name, value, into); !read) {
    return read;
  }
  into += value.Scalar().substr(into.size());
  const std::size_t host = into.find("://") + 3;
  std::string path = into.substr(std::min(into.find('/', host), into.size()));
  std::replace_if(
      path.begin(), path.end(), [](char c) { return kPathMarks.find(c) != std::string_view::npos; },
      '-');
  if (!path.empty() && !kube::is_built_path(path)) {
    return bad(file, name, "url: its path has characters that must be percent-encoded",
               "for example %7C for |, and %25 for a % that begins no code");
  }
  return {};
}

Result<void> read_source(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                         std::string& into) {
  const std::string text = value.IsScalar() ? value.Scalar() : "";
  if (!is_source(text)) {
    return bad(file, name, "source: '" + escaped(text, 64) + "' is no URI reference",
               "name the cluster in 256 plain letters at most, for example /clusters/berlin-1");
  }
  into = text;
  return {};
}

Result<void> read_events(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                         std::set<IncidentPhase>& into) {
  constexpr std::array<std::pair<std::string_view, IncidentPhase>, 4> kPhases = {
      {{"opened", IncidentPhase::Opened},
       {"acting", IncidentPhase::Acting},
       {"attention", IncidentPhase::Attention},
       {"settled", IncidentPhase::Settled}}};
  constexpr const char* kHint =
      "write a list of opened, acting, attention and settled; without the key all are told";
  if (!value.IsSequence() || value.size() == 0) {
    return bad(file, name, "events is no list with entries", kHint);
  }
  into.clear();
  for (const YAML::Node& entry : value) {
    const std::string word = entry.IsScalar() ? entry.Scalar() : "";
    const auto* known = std::find_if(kPhases.begin(), kPhases.end(),
                                     [&word](const auto& each) { return each.first == word; });
    if (known == kPhases.end()) {
      return bad(file, entry, "events: '" + escaped(word, 64) + "' is not known", kHint);
    }
    into.insert(known->second);
  }
  return {};
}

Result<void> read_entry(const std::string& file, const std::string& key, const YAML::Node& name,
                        const YAML::Node& value, WebhookSetting& setting) {
  if (key == "url") {
    return read_receiver(file, name, value, setting.endpoint.url);
  }
  if (key == "secretFile") {
    return read_file_name(file, name, value, setting.secret_file);
  }
  if (key == "source") {
    return read_source(file, name, value, setting.source);
  }
  if (key == "events") {
    return read_events(file, name, value, setting.events);
  }
  return read_endpoint_entry(file, key, name, value, setting.endpoint);
}

Result<void> check(const std::string& file, const YAML::Node& name, const WebhookSetting& setting) {
  if (auto checked = check_endpoint(file, name, "webhook", setting.endpoint); !checked) {
    return checked;
  }
  if (setting.secret_file.empty()) {
    return bad(file, name, "webhook has no secretFile",
               "a file with whsec_ and 24 to 64 bytes in base64, which messages are signed with");
  }
  if (setting.endpoint.auth == cluster::EndpointRules::Auth::Aws) {
    return bad(file, name, "webhook: auth of type aws is for services of AWS",
               "write another type, or none: messages are signed");
  }
  const auto& headers = setting.endpoint.headers;
  const auto taken = std::find_if(headers.begin(), headers.end(), [](const auto& header) {
    return lower_cased(header.name).starts_with("webhook-");
  });
  if (taken != headers.end()) {
    return bad(file, name, "webhook: header " + escaped(taken->name, 64) + " is set by moonfence",
               "headers that begin with webhook- carry the signature");
  }
  return {};
}

}  // namespace

Result<void> read_webhook(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                          std::optional<WebhookSetting>& into) {
  WebhookSetting setting;
  auto read = each_entry(file, name, value, kKeys,
                         [&](const std::string& key, const auto& key_node, const auto& key_value) {
                           return read_entry(file, key, key_node, key_value, setting);
                         });
  if (read) {
    read = check(file, name, setting);
  }
  if (read) {
    cluster::EndpointRules& rules = setting.endpoint;
    if (rules.auth == cluster::EndpointRules::Auth::Login && rules.login.url.empty()) {
      rules.login.url = rules.url;  // auth.path follows, with its own slash
      while (rules.login.url.ends_with('/')) {
        rules.login.url.pop_back();
      }
    }
    into = std::move(setting);
  }
  return read;
}

}  // namespace moonfence::app
