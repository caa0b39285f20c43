#include "app/settings/traces_settings.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "app/settings/endpoint_settings.h"
#include "app/settings/settings_values.h"
#include "base/text.h"

namespace moonfence::app {
namespace {

constexpr std::array<std::string_view, 6> kKeys = {"auth",    "cluster", "headers",
                                                   "timeout", "tls",     "url"};
constexpr std::size_t kLongestCluster = 128;

bool is_cluster(const std::string& text) {
  return !text.empty() && text.size() <= kLongestCluster &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

Result<void> read_entry(const std::string& file, const std::string& key, const YAML::Node& name,
                        const YAML::Node& value, TracesSetting& setting) {
  if (key != "cluster") {
    return read_endpoint_entry(file, key, name, value, setting.endpoint);
  }
  const std::string text = value.IsScalar() ? value.Scalar() : "";
  if (!is_cluster(text)) {
    return bad(file, name, "cluster: '" + escaped(text, 64) + "' is no name of a cluster",
               "write at most 128 letters, digits and marks without spaces, for example berlin-1");
  }
  setting.cluster = text;
  return {};
}

Result<void> check(const std::string& file, const YAML::Node& name, const TracesSetting& setting) {
  if (auto checked = check_endpoint(file, name, "traces", setting.endpoint); !checked) {
    return checked;
  }
  const cluster::EndpointRules& endpoint = setting.endpoint;
  if (endpoint.auth == cluster::EndpointRules::Auth::Aws) {
    return bad(file, name, "traces: auth of type aws is for services of AWS",
               "write another type, or none");
  }
  if (endpoint.url.ends_with("/v1/traces") || endpoint.url.ends_with("/v1/traces/")) {
    return bad(file, name, "traces: the url has /v1/traces",
               "write the receiver's base, for example https://otel-collector.observability:4318; "
               "moonfence adds /v1/traces");
  }
  return {};
}

}  // namespace

Result<void> read_traces(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                         std::optional<TracesSetting>& into) {
  TracesSetting setting;
  auto read = each_entry(file, name, value, kKeys,
                         [&](const std::string& key, const auto& key_node, const auto& key_value) {
                           return read_entry(file, key, key_node, key_value, setting);
                         });
  if (read) {
    read = check(file, name, setting);
  }
  if (read) {
    into = std::move(setting);
  }
  return read;
}

}  // namespace moonfence::app
