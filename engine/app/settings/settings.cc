#include "app/settings/settings.h"

#include <algorithm>
#include <array>
#include <utility>

#include <yaml-cpp/yaml.h>

#include "app/settings/brake_settings.h"
#include "app/settings/endpoint_settings.h"
#include "app/settings/fencer_settings.h"
#include "app/settings/proof_settings.h"
#include "app/settings/release_settings.h"
#include "app/settings/settings_values.h"
#include "app/settings/traces_settings.h"
#include "app/settings/webhook_settings.h"
#include "base/text.h"
#include "fence/leadership/limits.h"
#include "kube/text/yaml.h"
#include "kube/wire/server_pace.h"

namespace moonfence::app {
namespace {

constexpr std::array<std::string_view, 30> kKeys = {"allowedWrites",
                                                    "allowedReads",
                                                    "api",
                                                    "attacherLeases",
                                                    "brake",
                                                    "cacheExpiry",
                                                    "controllerLease",
                                                    "detection",
                                                    "endpoints",
                                                    "failPods",
                                                    "fencers",
                                                    "fencingDrivers",
                                                    "holdMarks",
                                                    "incidentObjects",
                                                    "leaseDuration",
                                                    "leaseRenewDeadline",
                                                    "leaseRetry",
                                                    "leastAfter",
                                                    "proof",
                                                    "protectedNamespaces",
                                                    "publishEvidence",
                                                    "quarantine",
                                                    "release",
                                                    "remediation",
                                                    "replacementWait",
                                                    "retryInterval",
                                                    "retryWindow",
                                                    "silentTaint",
                                                    "traces",
                                                    "webhook"};

Result<void> read_namespaces(const std::string& file, const YAML::Node& name,
                             const YAML::Node& value, std::set<Namespace>& into) {
  std::set<Namespace> read;
  bool good = value.IsSequence();
  for (std::size_t i = 0; good && i < value.size(); ++i) {
    good = value[i].IsScalar() && is_dns_label(value[i].Scalar());
    if (good) {
      read.emplace(value[i].Scalar());
    }
  }
  if (!good) {
    return bad(file, name, name.Scalar() + ": not a list of namespaces",
               "for example [kube-system, storage]; [] protects none");
  }
  into = std::move(read);
  return {};
}

// "example.com/v1/arrays", "v1/configmaps"; never secrets, which no policy may see.
bool is_resource(const std::string& text) {
  const auto parts = std::count(text.begin(), text.end(), '/');
  const auto is_inner = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '/';
  };
  return (parts == 1 || parts == 2) && text.front() != '/' && text.back() != '/' &&
         text.find("//") == std::string::npos && !text.ends_with("/secrets") &&
         std::all_of(text.begin(), text.end(), is_inner);
}

// Of a group that somebody has added to Kubernetes.
bool is_custom_resource(const std::string& text) {
  const std::string group = text.substr(0, text.find('/'));
  return is_resource(text) && std::count(text.begin(), text.end(), '/') == 2 &&
         group.find('.') != std::string::npos && group != "k8s.io" && !group.ends_with(".k8s.io");
}

// "example.com/key", "example.com/key=value".
bool is_annotation(const std::string& text) {
  const std::string key = text.substr(0, text.find('='));
  const auto is_inner = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '/';
  };
  return !key.empty() && std::count(key.begin(), key.end(), '/') <= 1 && key.front() != '/' &&
         key.back() != '/' && std::all_of(key.begin(), key.end(), is_inner);
}

struct ListRule {
  bool (*fits)(const std::string& text);
  std::string_view what;
  std::string_view hint;
};
constexpr ListRule kDrivers = {.fits = is_driver_name,
                               .what = "no name of a CSI driver",
                               .hint = "write what `kubectl get csidrivers` shows under NAME"};
constexpr ListRule kMarks = {
    .fits = is_annotation,
    .what = "no annotation, with or without a value",
    .hint = "write key or key=value, for example node.beta.openyurt.io/autonomy=true"};
constexpr ListRule kReads = {
    .fits = is_resource,
    .what = "no resource that policies may read",
    .hint = "write group/version/resource, for example example.com/v1/arrays"};

constexpr ListRule kWrites = {
    .fits = is_custom_resource,
    .what = "no custom resource",
    .hint =
        "write group/version/resource, for example "
        "csiaddons.openshift.io/v1alpha1/networkfences; Kubernetes' own kinds are never made"};

Result<void> read_list(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                       const ListRule& rule, std::set<std::string>& into) {
  if (!value.IsSequence()) {
    return bad(file, name, name.Scalar() + " is no list",
               "write a list, for example [a, b], or [] for none");
  }
  for (const YAML::Node& entry : value) {
    if (!entry.IsScalar() || !rule.fits(entry.Scalar())) {
      return bad(file, entry,
                 name.Scalar() + ": '" + escaped(entry.IsScalar() ? entry.Scalar() : "…", 128) +
                     "' is " + std::string(rule.what),
                 std::string(rule.hint));
    }
    into.insert(entry.Scalar());
  }
  return {};
}

Result<void> read_quarantine(const std::string& file, const YAML::Node& name,
                             const YAML::Node& value, fence::Quarantine& into) {
  constexpr std::array<std::pair<std::string_view, fence::Quarantine>, 3> kWords = {
      {{"off", fence::Quarantine::Off},
       {"missing", fence::Quarantine::Missing},
       {"always", fence::Quarantine::Always}}};
  const std::string word = value.IsScalar() ? value.Scalar() : "";
  for (const auto& [known, quarantine] : kWords) {
    if (known == word) {
      into = quarantine;
      return {};
    }
  }
  return bad(file, name, "quarantine: '" + escaped(word, 64) + "' is not known",
             "write off, missing or always");
}

Result<void> read_remediation(const std::string& file, const YAML::Node& name,
                              const YAML::Node& value, bool& into) {
  const std::string word = value.IsScalar() ? value.Scalar() : "";
  if (word != "off" && word != "nodeHealthCheck") {
    return bad(file, name, "remediation: '" + escaped(word, 64) + "' is not known",
               "write off or nodeHealthCheck");
  }
  into = word == "nodeHealthCheck";
  return {};
}

// Null: no time has that key.
Duration* time_of(const std::string& key, Settings& settings) {
  const std::array<std::pair<std::string_view, Duration*>, 8> times = {
      {{"cacheExpiry", &settings.cache_expiry},
       {"leaseDuration", &settings.election.duration},
       {"leaseRenewDeadline", &settings.election.renew_deadline},
       {"leaseRetry", &settings.election.retry},
       {"leastAfter", &settings.least_after},
       {"replacementWait", &settings.replacement_wait},
       {"retryInterval", &settings.retry_interval},
       {"retryWindow", &settings.retry_window}}};
  const auto* found = std::find_if(times.begin(), times.end(),
                                   [&key](const auto& entry) { return entry.first == key; });
  return found == times.end() ? nullptr : found->second;
}

struct Switch {
  std::string_view key;
  std::string_view needs;  // what on takes
  bool* into = nullptr;
};
// `into` is null: no switch has that key.
Switch switch_of(const std::string& key, Settings& settings) {
  constexpr std::string_view kStatus = "on needs the permission to patch nodes/status";
  const std::array<Switch, 6> switches = {
      {{"detection", "on needs connections from moonfence's pods to the kubelets' port (10250)",
        &settings.detection.on},
       {"failPods", "on needs the permission to patch pods/status", &settings.fail_pods},
       {"incidentObjects", "on needs the kind FencingIncident", &settings.incident_objects},
       {"publishEvidence", kStatus, &settings.publish_evidence},
       {"release", kStatus, &settings.release.on},
       {"silentTaint", "on needs the permission to patch nodes", &settings.silent_taint}}};
  const auto* found = std::find_if(switches.begin(), switches.end(),
                                   [&key](const Switch& each) { return each.key == key; });
  return found == switches.end() ? Switch{} : *found;
}

Result<void> read_entry(const std::string& file, const std::string& key, const YAML::Node& name,
                        const YAML::Node& value, Settings& settings) {
  if (key == "api") {
    return value.IsScalar() && value.Scalar() == "1"
               ? Result<void>()
               : bad(file, value, "api: this engine speaks 1", "write api: 1");
  }
  if (Duration* time = time_of(key, settings)) {
    return read_duration(file, name, value, *time);
  }
  if (key == "fencingDrivers") {
    return read_list(file, name, value, kDrivers, settings.fencing_drivers);
  }
  if (key == "holdMarks") {
    return read_list(file, name, value, kMarks, settings.hold_marks);
  }
  if (key == "allowedReads") {
    return read_list(file, name, value, kReads, settings.allowed_reads);
  }
  if (key == "allowedWrites") {
    return read_list(file, name, value, kWrites, settings.allowed_writes);
  }
  if (key == "quarantine") {
    return read_quarantine(file, name, value, settings.quarantine);
  }
  if (key == "remediation") {
    return read_remediation(file, name, value, settings.node_health_check);
  }
  if (const Switch found = switch_of(key, settings); found.into != nullptr) {
    return read_switch(file, name, value, std::string(found.needs), *found.into);
  }
  if (key == "fencers") {
    return read_fencers(file, name, value, settings.fencers);
  }
  if (key == "proof") {
    return read_proof(file, name, value, settings.proof);
  }
  if (key == "brake") {
    return read_brake(file, name, value, settings.brake);
  }
  if (key == "endpoints") {
    return read_endpoints(file, name, value, settings.endpoints);
  }
  if (key == "traces") {
    return read_traces(file, name, value, settings.traces);
  }
  if (key == "webhook") {
    return read_webhook(file, name, value, settings.webhook);
  }
  if (key == "controllerLease") {
    return read_controller_lease(file, name, value, settings.release);
  }
  if (key == "attacherLeases") {
    return read_attacher_leases(file, name, value, settings.release);
  }
  if (key == "protectedNamespaces") {
    return read_namespaces(file, name, value, settings.protected_namespaces);
  }
  return unknown_key(file, name, kKeys);
}

// "line 3: not YAML" in the words of the other messages: "FILE:3: not YAML".
Error unsound(const std::string& file, Error error) {
  constexpr std::string_view kLine = "line ";
  if (error.text.starts_with(kLine)) {
    error.text = file + ":" + error.text.substr(kLine.size());
  } else {
    error.text = file + ": " + error.text;
  }
  if (error.hint.empty()) {
    error.hint = "the file is one YAML document of `key: value` lines";
  }
  return error;
}

// A term that a renewal cannot keep, or in which no call can end, would be leadership in name only.
Result<void> check_election(const std::string& file, const kube::ElectionRules& rules) {
  const auto refuse = [&file](const std::string& what) {
    return failure(Error::Kind::Invalid, file + ": " + what,
                   "the defaults are leaseDuration 5s, leaseRenewDeadline 10s, leaseRetry 1s");
  };
  if (rules.retry < std::chrono::milliseconds(100)) {
    return refuse("leaseRetry: " + format_duration(rules.retry) + " is shorter than 100ms");
  }
  if (rules.renew_deadline <= rules.retry + rules.retry / 5) {
    return refuse("leaseRenewDeadline: " + format_duration(rules.renew_deadline) +
                  " leaves no room to renew every " + format_duration(rules.retry));
  }
  if (rules.duration % std::chrono::seconds(1) != Duration::zero()) {
    return refuse("leaseDuration: " + format_duration(rules.duration) +
                  " is no number of whole seconds, which is all that a Lease can say");
  }
  const Duration span = fence::Limits{.call = kube::ServerPace::kShortestCall}.action_span();
  if (rules.duration < span + rules.retry) {
    return refuse("leaseDuration: " + format_duration(rules.duration) +
                  " is too short: a deletion may take " + format_duration(span) +
                  ", and the Lease is renewed every " + format_duration(rules.retry));
  }
  return {};
}

Result<void> check_times(const std::string& file, const Settings& settings) {
  if (settings.retry_interval < std::chrono::milliseconds(100)) {
    return failure(Error::Kind::Invalid,
                   file + ": retryInterval: " + format_duration(settings.retry_interval) +
                       " is shorter than 100ms",
                   "the API server needs room between passes; the default is 5s");
  }
  if (settings.retry_window < settings.retry_interval) {
    return failure(Error::Kind::Invalid,
                   file + ": retryWindow: " + format_duration(settings.retry_window) +
                       " is shorter than retryInterval " + format_duration(settings.retry_interval),
                   "make it at least one interval long; the default is 25s");
  }
  if (settings.cache_expiry > Duration::zero() && settings.cache_expiry < settings.retry_window) {
    return failure(Error::Kind::Invalid,
                   file + ": cacheExpiry: " + format_duration(settings.cache_expiry) +
                       " is shorter than retryWindow " + format_duration(settings.retry_window),
                   "a node must not be looked at anew while it is being dealt with; 0 means never");
  }
  if (settings.least_after < policy::kLeastOffAfter ||
      settings.least_after > policy::kLongestAfter) {
    return failure(Error::Kind::Invalid,
                   file + ": leastAfter: " + format_duration(settings.least_after) +
                       " is not from " + format_duration(policy::kLeastOffAfter) + " to 1h",
                   "no binding acts on a silent machine earlier; the default is 12s, and what less "
                   "costs is in docs/detection.md");
  }
  if (auto checked = check_proof(file, settings); !checked) {
    return checked;
  }
  return check_election(file, settings.election);
}

}  // namespace

Result<Settings> parse_settings(const std::string& text, const std::string& file) {
  Settings settings;
  // Size, nesting, a second document: the parser below would pass over the rest in silence.
  if (auto sound = kube::parse_yaml(text); !sound) {
    return failure(unsound(file, sound.error()));
  }
  try {
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) {
      return settings;
    }
    if (!root.IsMap()) {
      return failure(Error::Kind::Invalid, file + ": not a mapping",
                     "the file consists of `key: value` lines");
    }
    if (!root["api"]) {
      return failure(Error::Kind::Invalid, file + ": api is missing", "begin with api: 1");
    }
    for (const auto& entry : root) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      if (auto read = read_entry(file, key, entry.first, entry.second, settings); !read) {
        return failure(read.error());
      }
    }
  } catch (const YAML::Exception& fault) {
    return failure(Error::Kind::Invalid, place(file, fault.mark) + ": " + escaped(fault.msg),
                   "the file is YAML");
  }
  if (auto checked = check_times(file, settings); !checked) {
    return failure(checked.error());
  }
  return settings;
}

}  // namespace moonfence::app
