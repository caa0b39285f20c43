#pragma once

// `moonfence.yaml`: which policies run where, how far they may go, and with which settings. Strict:
// an unknown key, a key given twice, an anchor or a value of the wrong type refuses the file, with
// its line and the nearest known word. At most 256 KiB and 64 bindings.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "policy/bundle/policy_set.h"
#include "policy/bundle/reach.h"
#include "policy/values/mode.h"

namespace moonfence::policy {

inline constexpr std::string_view kBindingsKey = "moonfence.yaml";
inline constexpr std::string_view kBuiltin = "builtin";
inline constexpr std::size_t kMostPolicies = 64;

struct BindingSpec {
  enum class OnReject {
    Keep,     // what ran before a faulty edit goes on
    Disable,  // a faulty edit takes the policy out
  };
  std::string policy;
  std::string source{kBuiltin};  // "builtin", or the ConfigMap key "NAME.lua"
  NamespaceScope scope = NamespaceScope::of({});
  Mode mode = Mode::Observe;
  nlohmann::json settings = nlohmann::json::object();
  Allowances allow;
  Duration hold_down = kHoldDown;
  OnReject on_reject = OnReject::Keep;
  std::string place;  // "moonfence.yaml:12: bindings[2]", for messages

  // Which binding of the policy it is: no two of a file have the same policy and namespaces, unless
  // they act by different words.
  [[nodiscard]] bool is_same_place(const BindingSpec& other) const {
    return is_same_kind(other) && scope == other.scope;
  }
  [[nodiscard]] bool is_same_kind(const BindingSpec& other) const {
    return policy == other.policy && allow.act_on == other.allow.act_on;
  }
  [[nodiscard]] Reach reach() const {
    return {.scope = scope, .mode = mode, .allow = allow, .hold_down = hold_down};
  }
};

struct BindingsFile {
  Mode mode = Mode::Enforce;  // the ceiling; Enforce when the file sets none
  std::vector<BindingSpec> bindings;
};

struct ParsedBindings {
  Result<BindingsFile> file;
  // The ceiling as far as it can be read even if the file is refused: Off for a word that is no
  // mode, nullopt when there is none or the text is no YAML.
  std::optional<Mode> mode;
};

// `least_after`: what the engine's configuration demands of `after`, whoever edits bindings.
[[nodiscard]] ParsedBindings parse_bindings(std::string_view text,
                                            Duration least_after = kLostAfter);

// "db, web" or "*", sorted.
[[nodiscard]] std::string to_text(const NamespaceScope& scope);

}  // namespace moonfence::policy
