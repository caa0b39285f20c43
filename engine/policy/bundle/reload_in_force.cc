// What a Reloader has in force: the set, the report of it, and what is kept for a restart.

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "kube/text/json.h"
#include "policy/bundle/reload.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

json scope_json(const Binding& binding) {
  json row = {binding.name,
              to_text(binding.scope),
              to_string(binding.mode),
              binding.digest,
              binding.error,
              binding.policy != nullptr,
              {binding.allow.out_of_service, binding.allow.bare_pods, binding.allow.finished_pods},
              format_duration(binding.hold_down)};
  // Only where it is said: every other set keeps its digest.
  if (binding.allow.act_on != ActOn::Down) {
    row.push_back((binding.allow.act_on == ActOn::Off ? "off:" : "") +
                  format_duration(binding.allow.after));
  }
  return row;
}

}  // namespace

Reloader::Ceiling Reloader::ceiling_of(const Sight& sight) const {
  if (std::string missing = sight.missing(); !missing.empty()) {
    return {.mode = Mode::Off, .set_by = std::move(missing)};
  }
  Ceiling ceiling{.mode = rules_.ceiling, .set_by = "--mode"};
  const Mode file = sight.is_sound() ? sight.bindings->file->mode : file_mode_;
  if (file <= ceiling.mode) {
    ceiling = {.mode = file, .set_by = std::string(kBindingsKey)};
  }
  if (sight.bundle.mode && *sight.bundle.mode < ceiling.mode) {
    ceiling = {.mode = *sight.bundle.mode, .set_by = "key mode"};
  }
  return ceiling;
}

PolicySet Reloader::make_set() const {
  PolicySet set;
  json rows = json::array();
  for (const Entry& entry : entries_) {
    const Mode mode = lowest(ceiling_.mode, entry.reach.mode);
    if (mode == Mode::Off || (entry.policy == nullptr && !entry.holds)) {
      continue;
    }
    Binding binding{.name = entry.spec.policy,
                    .policy = entry.policy,
                    .scope = entry.reach.scope,
                    .mode = mode,
                    .allow = entry.reach.allow,
                    .hold_down = entry.reach.hold_down,
                    .digest = entry.digest,
                    .error = entry.policy == nullptr ? entry.rejection->text() : std::string()};
    rows.push_back(scope_json(binding));
    set.bindings.push_back(std::move(binding));
  }
  set.digest = sha256_hex(kube::to_text(rows));
  return set;
}

// Why the engine's own word changes nothing for the binding, or not as much as it should.
std::string Reloader::act_on_fault(ActOn act_on, const Policy* policy) const {
  if (act_on == ActOn::Down) {
    return {};
  }
  if (!rules_.lost_is_inert.empty()) {
    return rules_.lost_is_inert;
  }
  if (policy != nullptr && policy->health_source()) {
    return act_on == ActOn::Off ? "deletes nothing: the policy goes by its own source, and no "
                                  "fencer is asked by that"
                                : "changes nothing: the policy goes by its own source";
  }
  return act_on == ActOn::Off ? rules_.off_is_inert : std::string();
}

PolicyStatus Reloader::status_of(const Entry& entry) const {
  using State = PolicyStatus::State;
  PolicyStatus status;
  status.name = entry.spec.policy;
  status.namespaces = to_text(entry.spec.scope);
  status.act_on = entry.spec.allow.act_on;
  status.source = entry.is_stale ? entry.substitute->source_name : entry.spec.source;
  status.digest = entry.digest;
  status.mode = lowest(ceiling_.mode, entry.reach.mode);
  if (status.mode == Mode::Observe && entry.reach.mode == Mode::Enforce) {
    status.held_back = entry.reach.mode;
  }
  status.holds = entry.holds && status.mode != Mode::Off;
  status.error = entry.rejection;
  status.warnings = entry.warnings;
  const std::string fault = act_on_fault(status.act_on, entry.policy.get());
  if (!fault.empty()) {
    status.warnings.push_back("actOn: " + std::string(to_string(status.act_on)) + " " + fault);
  }
  status.since = current_->at;
  if (entry.rejection && entry.wanted) {
    status.rejected_digest = entry.wanted->candidate.digest();
  }
  if (entry.policy == nullptr) {
    status.state = State::Rejected;
  } else if (status.mode == Mode::Off) {
    status.state = State::Off;
  } else if (entry.is_stale) {
    status.state = State::Stale;
  } else {
    status.state = status.mode == Mode::Enforce ? State::Active : State::Observe;
  }
  return status;
}

ReloadReport Reloader::make_report(const std::string& set_digest) const {
  ReloadReport report;
  report.resource_version = current_->resource_version;
  report.observed_at = current_->at;
  report.active_set = set_digest;
  report.mode = ceiling_.mode;
  report.mode_set_by = ceiling_.set_by;
  report.missing = current_->missing();
  for (const std::string& fault :
       {report.missing, current_->bundle.mode_error, current_->fault()}) {
    if (!fault.empty()) {
      report.faults.push_back(fault);
    }
  }
  report.unknown_keys = current_->bundle.unknown_keys;
  std::set<std::string> bound;
  for (const Entry& entry : entries_) {
    report.policies.push_back(status_of(entry));
    bound.insert(entry.spec.source);
  }
  for (const auto& [name, files] : current_->bundle.policies) {
    if (current_->is_sound() && files.source && !bound.contains(name + ".lua")) {
      report.unknown_keys.push_back(name + ".lua (no binding names it)");
      report.unbound.push_back(name);
    }
  }
  std::sort(report.unknown_keys.begin(), report.unknown_keys.end());
  return report;
}

// Accepted entries as they are now; rejected ones keep what they had.
LastGood Reloader::make_last_good() const {
  LastGood good{
      .bindings = *current_->bundle.bindings, .map_uid = current_->map_uid, .entries = {}};
  for (const Entry& entry : entries_) {
    const auto& kept = entry.rejection ? entry.substitute : entry.wanted;
    if (kept) {
      good.entries.push_back({.policy = entry.spec.policy,
                              .scope = kept->reach.scope,
                              .source_name = kept->source_name,
                              .source = kept->candidate.source,
                              .settings = kept->candidate.settings,
                              .mode = kept->reach.mode,
                              .allow = kept->reach.allow,
                              .hold_down = kept->reach.hold_down});
    }
  }
  return good;
}

}  // namespace moonfence::policy
