#pragma once

// What ran before a faulty edit: the source, settings and reach of every binding, as last accepted,
// and the moonfence.yaml they were bound by. It is kept in ConfigMap `moonfence-lastgood`, so that
// a restart during a faulty edit does not lose them. A source is stored once under its digest; what
// does not match its digest is not used.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "policy/bundle/bindings.h"
#include "policy/bundle/reach.h"

namespace moonfence::policy {

struct LastGoodEntry {
  std::string policy;
  NamespaceScope scope = NamespaceScope::of({});
  std::string source_name;  // "builtin" or the key it came from
  std::string source;
  nlohmann::json settings = nlohmann::json::object();
  // How far it was let go. What does not say so observes, and is allowed nothing.
  Mode mode = Mode::Observe;
  Allowances allow = {};
  Duration hold_down = kHoldDown;

  [[nodiscard]] Reach reach() const {
    return {.scope = scope, .mode = mode, .allow = allow, .hold_down = hold_down};
  }
  friend bool operator==(const LastGoodEntry&, const LastGoodEntry&) = default;
};

struct LastGood {
  std::string bindings;  // text of moonfence.yaml; "" when there is nothing
  // Of the ConfigMap that said so. Another of its name was made after that one was deleted, which
  // ends whatever it bound.
  Uid map_uid = {};
  std::vector<LastGoodEntry> entries;

  // The entry of the same policy and namespaces; where a policy is bound once, then and now
  // (`only`: the binding is its policy's only one), that one although its namespaces have changed.
  [[nodiscard]] const LastGoodEntry* find(const BindingSpec& binding, bool only) const;

  friend bool operator==(const LastGood&, const LastGood&) = default;
};

using ConfigMapData = std::map<std::string, std::string>;

// At most 900 KiB, which a ConfigMap takes; entries that would go beyond are left out.
[[nodiscard]] ConfigMapData encode_last_good(const LastGood& good);

struct DecodedLastGood {
  LastGood good;
  std::vector<std::string> faults;  // one line for each entry that cannot be used
};
// Never fails: last-good is a convenience, and what cannot be read of it is done without.
[[nodiscard]] DecodedLastGood decode_last_good(const ConfigMapData& data);

}  // namespace moonfence::policy
