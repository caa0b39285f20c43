#include "app/policies/policy_reports.h"

#include <map>
#include <utility>

namespace moonfence::app {

void PolicyReports::tell_reload(const policy::ReloadReport& report,
                                const std::vector<policy::ReloadNews>& news, WallTime now) {
  show(report, now);
  tell_stale(report, now);
  for (const std::string& fault : report.faults) {
    log_.warning("policies_faulty", {{"text", fault}});
  }
  for (const std::string& key : report.unknown_keys) {
    log_.warning("policies_unknown_key", {{"key", key}});
  }
  for (const policy::ReloadNews& item : news) {
    log_.write(item.kind == policy::ReloadNews::Kind::PolicyActivated ? port::Log::Level::Info
                                                                      : port::Log::Level::Warning,
               "policy", {{"news", policy::to_string(item.kind)}, {"text", item.text}});
  }
  log_.info("policies_in_force", {{"mode", policy::to_string(report.mode)},
                                  {"set_by", report.mode_set_by},
                                  {"version", report.resource_version},
                                  {"set", report.active_set.substr(0, 12)}});
}

void PolicyReports::show(const policy::ReloadReport& report, WallTime now) {
  bool accepted = report.faults.empty();
  std::vector<Metrics::PolicyInfo> shown;
  std::map<std::string, std::size_t> absent;
  for (const policy::PolicyStatus& status : report.policies) {
    accepted = accepted && !status.error;
    if (!status.absent.empty()) {
      absent[status.name] += status.absent.size();
    }
    shown.push_back({.policy = status.name,
                     .version = version_of(status),
                     .digest = status.digest,
                     .mode = std::string(policy::to_string(status.mode)),
                     .state = std::string(policy::to_string(status.state))});
  }
  metrics_.set_policies(shown);
  metrics_.set_absent_namespaces(absent);
  const policy::Idleness idle = report.idleness();
  metrics_.set_idle(std::string(policy::to_string(idle.kind)));
  metrics_.set_unbound(report.unbound);
  health_.note("policies", idle.text.empty() ? "" : "nothing is fenced: " + idle.text);
  if (report.resource_version != counted_version_) {  // else only the mode has changed
    counted_version_ = report.resource_version;
    metrics_.count_reload(accepted);
    if (accepted) {
      metrics_.set_reloaded(now);
    }
  }
}

std::string PolicyReports::version_of(const policy::PolicyStatus& status) const {
  for (const policy::Binding& binding : active_.current()->bindings) {
    if (binding.name == status.name && binding.policy != nullptr &&
        binding.digest == status.digest) {
      return binding.policy->version();
    }
  }
  return {};
}

void PolicyReports::tell_stale(const policy::ReloadReport& report, WallTime now) {
  std::map<std::string, Duration> stale;
  for (const policy::PolicyStatus& status : report.policies) {
    if (status.state == policy::PolicyStatus::State::Stale) {
      stale[status.name] = now - status.since;
    }
  }
  metrics_.set_stale(stale);
}

}  // namespace moonfence::app
