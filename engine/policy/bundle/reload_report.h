#pragma once

// What a reload came to, for people: the document in ConfigMap `moonfence-status`, and the news
// since the report before. The same input gives the same text, so that it is written only when it
// says something new.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/names.h"
#include "base/time.h"
#include "policy/bundle/validation.h"
#include "policy/values/act_on.h"
#include "policy/values/mode.h"

namespace moonfence::policy {

struct PolicyStatus {
  enum class State {
    Active,    // may act
    Observe,   // decides, never acts
    Off,       // accepted, not looked at
    Stale,     // the last good source and settings run in place of rejected ones
    Rejected,  // nothing of it runs; a guard holds its scope
    Failing,   // accepted, but the breaker has stopped it for an incident
  };
  std::string name;
  std::string namespaces;      // "*" or "db, web": two bindings of a policy differ in them,
  ActOn act_on = ActOn::Down;  // or in this
  State state = State::Off;
  std::string source;  // "builtin" or the key
  std::string digest;  // hex, of what runs; "" when nothing does
  Mode mode = Mode::Off;
  // What its binding says, where the ceiling lets it observe only.
  std::optional<Mode> held_back = std::nullopt;
  bool holds = false;                // Rejected, and its scope is held: it is, or may be, a guard
  std::string rejected_digest = {};  // of what was rejected; "" when its text is not there
  std::optional<Rejection> error = std::nullopt;
  std::vector<std::string> warnings = {};
  std::set<Namespace> absent = {};  // of its namespaces those that do not exist
  WallTime since;                   // of this state and digest

  [[nodiscard]] bool is_same_binding(const PolicyStatus& other) const {
    return name == other.name && namespaces == other.namespaces && act_on == other.act_on;
  }
  friend bool operator==(const PolicyStatus&, const PolicyStatus&) = default;
};

[[nodiscard]] std::string_view to_string(PolicyStatus::State state);

// Why nothing is fenced whatever fails, though all runs as it is told to: to be said loudly, for
// that is how it looks when an edit has switched everything off by mistake.
struct Idleness {
  enum class Kind { None, NoConfigMap, ModeOff, NothingBound, NothingRuns };
  Kind kind = Kind::None;
  std::string text;  // "" of None

  friend bool operator==(const Idleness&, const Idleness&) = default;
};

[[nodiscard]] std::string_view to_string(Idleness::Kind kind);  // as metrics have it

struct ReloadReport {
  std::string resource_version;  // "" while there is no ConfigMap
  WallTime observed_at;
  std::string active_set;           // digest of the PolicySet in force
  Mode mode = Mode::Off;            // the ceiling over all bindings
  std::string mode_set_by;          // "--mode", "key mode", "moonfence.yaml", "no ConfigMap ..."
  std::vector<std::string> faults;  // of the mode key and of moonfence.yaml: nothing else changed
  std::string missing = {};         // "no ConfigMap": why nothing is bound; among the faults
  std::vector<PolicyStatus> policies;  // in the order of the bindings
  std::vector<std::string> unknown_keys;
  std::vector<std::string> unbound = {};  // policies of the ConfigMap that no binding names

  [[nodiscard]] Idleness idleness() const;
  friend bool operator==(const ReloadReport&, const ReloadReport&) = default;
};

// Takes over `since` of what has not changed from the report before.
void keep_since(ReloadReport& report, const ReloadReport& before);
// Those of the named policies that run are Failing.
void mark_failing(ReloadReport& report, const std::set<std::string>& names);
// "says enforce, and --mode holds it to observe"; "" of a policy that goes as far as it says.
[[nodiscard]] std::string held_back_text(const PolicyStatus& policy, const ReloadReport& report);
// Bindings that name one of these name one that does not exist.
void mark_absent(ReloadReport& report, const std::set<Namespace>& absent);
// Every namespace that the binding names, or any; "*" names none.
[[nodiscard]] std::set<Namespace> namespaces_of(const PolicyStatus& policy);
[[nodiscard]] std::set<Namespace> namespaces_of(const ReloadReport& report);

[[nodiscard]] nlohmann::json to_json(const ReloadReport& report);

struct ReloadNews {
  enum class Kind {
    PolicyActivated,
    PolicyRejected,
    PoliciesMissing,
    PolicyUnbound,
    PoliciesInactive
  };
  Kind kind = Kind::PolicyActivated;
  std::string policy;  // "" of PoliciesMissing and PoliciesInactive
  std::string digest;  // hex; of a rejection, of what was rejected
  std::string text;    // one line
};

[[nodiscard]] std::string_view to_string(ReloadNews::Kind kind);

// Tells that the configuration is missing, and why nothing is fenced, once until that is over, of
// each policy without a binding likewise, and each activation and
// rejection of a digest once, until something else is told of that
// binding: a revert is news, a status that is written again is not.
class Newsroom {
 public:
  [[nodiscard]] std::vector<ReloadNews> news_in(const ReloadReport& report);

 private:
  using Binding = std::tuple<std::string, std::string, ActOn>;  // policy, namespaces
  struct Told {
    ReloadNews::Kind kind;
    std::string digest;
    std::string message;  // tells rejections without a digest apart
    friend bool operator==(const Told&, const Told&) = default;
  };
  std::map<Binding, Told> told_;
  std::string told_missing_;
  Idleness told_idle_;
  std::set<std::string> told_unbound_;
};

}  // namespace moonfence::policy
