#include "policy/bundle/reload_report.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;
using State = PolicyStatus::State;

std::string tagged(const std::string& digest) {
  return digest.empty() ? std::string() : "sha256:" + digest;
}

// Enough to tell two texts apart in a line for people.
std::string shortened(const std::string& digest) {
  return tagged(digest.substr(0, 12));
}

json error_json(const Rejection& rejection) {
  json out = {{"stage", rejection.stage}, {"message", rejection.message}};
  if (rejection.line > 0) {
    out["line"] = rejection.line;
  }
  if (!rejection.quote.empty()) {
    out["quote"] = rejection.quote;
  }
  if (!rejection.hint.empty()) {
    out["hint"] = rejection.hint;
  }
  return out;
}

json policy_json(const PolicyStatus& policy) {
  json out = {{"name", policy.name},
              {"namespaces", policy.namespaces},
              {"state", to_string(policy.state)},
              {"source", policy.source},
              {"mode", to_string(policy.mode)},
              {"since", format_rfc3339(policy.since)},
              {"warnings", policy.warnings}};
  if (!policy.digest.empty()) {
    out["digest"] = tagged(policy.digest);
  }
  if (!policy.rejected_digest.empty()) {
    out["rejectedDigest"] = tagged(policy.rejected_digest);
  }
  if (policy.held_back) {
    out["heldBackFrom"] = to_string(*policy.held_back);
  }
  if (policy.act_on != ActOn::Down) {
    out["actOn"] = to_string(policy.act_on);
  }
  if (policy.holds) {
    out["holds"] = true;
  }
  if (policy.error) {
    out["error"] = error_json(*policy.error);
  }
  for (const Namespace& space : policy.absent) {
    out["absentNamespaces"].push_back(space.text());
  }
  return out;
}

// "db.lua:12: message (hint)"
std::string rejection_line(const PolicyStatus& policy) {
  const Rejection& error = *policy.error;
  return error.line > 0 ? policy.name + ".lua:" + std::to_string(error.line) + ": " + error.text()
                        : error.text();
}

std::string consequence(const PolicyStatus& policy) {
  if (policy.state != State::Rejected) {
    return policy.digest.empty() ? "" : "; " + shortened(policy.digest) + " goes on";
  }
  return policy.holds ? "; every pod in its namespaces is held" : "; nothing of it runs";
}

}  // namespace

std::string_view to_string(State state) {
  switch (state) {
    case State::Active:
      return "Active";
    case State::Observe:
      return "Observe";
    case State::Off:
      return "Off";
    case State::Stale:
      return "Stale";
    case State::Rejected:
      return "Rejected";
    case State::Failing:
      return "Failing";
  }
  return "Off";
}

std::string_view to_string(ReloadNews::Kind kind) {
  switch (kind) {
    case ReloadNews::Kind::PolicyActivated:
      return "PolicyActivated";
    case ReloadNews::Kind::PolicyRejected:
      return "PolicyRejected";
    case ReloadNews::Kind::PoliciesMissing:
      return "PoliciesMissing";
    case ReloadNews::Kind::PolicyUnbound:
      return "PolicyUnbound";
    case ReloadNews::Kind::PoliciesInactive:
      return "PoliciesInactive";
  }
  return "PolicyRejected";
}

std::string_view to_string(Idleness::Kind kind) {
  switch (kind) {
    case Idleness::Kind::None:
      return "";
    case Idleness::Kind::NoConfigMap:
      return "no_config_map";
    case Idleness::Kind::ModeOff:
      return "mode_off";
    case Idleness::Kind::NothingBound:
      return "nothing_bound";
    case Idleness::Kind::NothingRuns:
      return "nothing_runs";
  }
  return "";
}

Idleness ReloadReport::idleness() const {
  if (!missing.empty()) {
    return {Idleness::Kind::NoConfigMap, missing + ": nothing is bound"};
  }
  if (mode == Mode::Off) {
    return {Idleness::Kind::ModeOff, "the mode is off, set by " + mode_set_by};
  }
  if (policies.empty()) {
    return {Idleness::Kind::NothingBound,
            "moonfence.yaml binds no policy" +
                std::string(mode == Mode::Enforce ? ", and there is nothing to enforce" : "")};
  }
  const bool runs = std::any_of(policies.begin(), policies.end(), [](const PolicyStatus& policy) {
    return policy.state != State::Off && policy.state != State::Rejected;
  });
  return runs ? Idleness{}
              : Idleness{Idleness::Kind::NothingRuns,
                         "every policy that is bound is off or was rejected"};
}

void keep_since(ReloadReport& report, const ReloadReport& before) {
  for (PolicyStatus& policy : report.policies) {
    for (const PolicyStatus& old : before.policies) {
      if (policy.is_same_binding(old) && policy.state == old.state && policy.digest == old.digest) {
        policy.since = old.since;
      }
    }
  }
}

std::string held_back_text(const PolicyStatus& policy, const ReloadReport& report) {
  return policy.held_back
             ? "says " + std::string(to_string(*policy.held_back)) + ", and " + report.mode_set_by +
                   " holds it to " + std::string(to_string(policy.mode))
             : std::string();
}

void mark_failing(ReloadReport& report, const std::set<std::string>& names) {
  for (PolicyStatus& policy : report.policies) {
    const bool runs = policy.state == State::Active || policy.state == State::Observe ||
                      policy.state == State::Stale;
    if (runs && names.contains(policy.name)) {
      policy.state = State::Failing;
    }
  }
}

// "db, web"; "*" names none.
std::set<Namespace> namespaces_of(const PolicyStatus& policy) {
  std::set<Namespace> spaces;
  std::string_view rest = policy.namespaces;
  while (!rest.empty() && rest != "*") {
    const std::size_t end = rest.find(", ");
    spaces.emplace(std::string(rest.substr(0, end)));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 2);
  }
  return spaces;
}

std::set<Namespace> namespaces_of(const ReloadReport& report) {
  std::set<Namespace> all;
  for (const PolicyStatus& policy : report.policies) {
    all.merge(namespaces_of(policy));
  }
  return all;
}

void mark_absent(ReloadReport& report, const std::set<Namespace>& absent) {
  for (PolicyStatus& policy : report.policies) {
    for (const Namespace& space : namespaces_of(policy)) {
      if (absent.contains(space)) {
        policy.absent.insert(space);
      }
    }
  }
}

json to_json(const ReloadReport& report) {
  json policies = json::array();
  for (const PolicyStatus& policy : report.policies) {
    policies.push_back(policy_json(policy));
  }
  json out = {{"observedResourceVersion", report.resource_version},
              {"observedAt", format_rfc3339(report.observed_at)},
              {"activeSet", tagged(report.active_set)},
              {"mode", to_string(report.mode)},
              {"modeSetBy", report.mode_set_by},
              {"faults", report.faults},
              {"policies", std::move(policies)},
              {"unknownKeys", report.unknown_keys}};
  if (const Idleness idle = report.idleness(); idle.kind != Idleness::Kind::None) {
    out["nothingFenced"] = idle.text;
  }
  if (!report.unbound.empty()) {
    out["unbound"] = report.unbound;
  }
  return out;
}

std::vector<ReloadNews> Newsroom::news_in(const ReloadReport& report) {
  std::vector<ReloadNews> news;
  if (!report.missing.empty() && told_missing_ != report.missing) {
    news.push_back({.kind = ReloadNews::Kind::PoliciesMissing,
                    .policy = {},
                    .digest = {},
                    .text = report.missing + ": nothing is bound, everything is off"});
  }
  told_missing_ = report.missing;
  const Idleness idle = report.idleness();
  if (idle != told_idle_ && idle.kind != Idleness::Kind::None &&
      idle.kind != Idleness::Kind::NoConfigMap) {
    news.push_back({.kind = ReloadNews::Kind::PoliciesInactive,
                    .policy = {},
                    .digest = {},
                    .text = idle.text + ": nothing is fenced, whatever fails"});
  }
  told_idle_ = idle;
  for (const std::string& name : report.unbound) {
    if (!told_unbound_.contains(name)) {
      news.push_back(
          {.kind = ReloadNews::Kind::PolicyUnbound,
           .policy = name,
           .digest = {},
           .text = "no binding of moonfence.yaml names " + name + ".lua: it is not in force"});
    }
  }
  told_unbound_ = {report.unbound.begin(), report.unbound.end()};
  std::map<Binding, Told> told;
  for (const PolicyStatus& policy : report.policies) {
    const Binding binding{policy.name, policy.namespaces, policy.act_on};
    const auto before = told_.find(binding);
    ReloadNews item{.policy = policy.name};
    if (policy.error) {
      item.kind = ReloadNews::Kind::PolicyRejected;
      item.digest = policy.rejected_digest;
      item.text = rejection_line(policy) + consequence(policy);
    } else if (policy.state == State::Active || policy.state == State::Observe) {
      item.kind = ReloadNews::Kind::PolicyActivated;
      item.digest = policy.digest;
      item.text = "policy " + policy.name + " (" + policy.source + ", " + shortened(policy.digest) +
                  ") is active in mode " + std::string(to_string(policy.mode)) +
                  " for namespaces " + policy.namespaces +
                  std::string(which_nodes(to_string(policy.act_on)));
      const std::string held = held_back_text(policy, report);
      item.text += held.empty() ? std::string() : ": it " + held;
    } else {
      if (before != told_.end()) {
        told.insert(*before);  // off and on again is no news of the policy
      }
      continue;
    }
    const Told now{.kind = item.kind,
                   .digest = item.digest,
                   .message = item.digest.empty() ? item.text : std::string()};
    if (before == told_.end() || before->second != now) {
      news.push_back(std::move(item));
    }
    told.emplace(binding, now);
  }
  told_ = std::move(told);
  return news;
}

}  // namespace moonfence::policy
