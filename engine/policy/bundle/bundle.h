#pragma once

// What the keys of ConfigMap `moonfence-policies` are: `moonfence.yaml`, `mode`, `NAME.lua`,
// `NAME_test.lua` and `NAME.<fixture>.json`. Every other key is reported with the nearest name that
// would be read; a misspelled one is never just not there.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kube/calls/config_maps.h"
#include "policy/values/mode.h"

namespace moonfence::policy {

inline constexpr std::string_view kModeKey = "mode";
inline constexpr std::size_t kMostSetBytes = 512U << 10U;

struct PolicyFiles {
  std::optional<std::string> source;  // absent: only tests, for a policy that is built in
  std::optional<std::string> test;
  std::map<std::string, std::string> fixtures;  // by the whole key
};

struct Bundle {
  std::optional<std::string> bindings;  // text of moonfence.yaml
  std::optional<Mode> mode;             // of the key `mode`; Off for what is no mode
  std::string mode_error;               // why it counts as Off
  std::map<std::string, PolicyFiles> policies;
  std::set<std::string> binary_keys;
  // "db.luaa (did you mean db.lua?)", sorted; at most 100, then "and N more".
  std::vector<std::string> unknown_keys;
  // The set is too large, or moonfence.yaml is no text: nothing of it but the mode can be used.
  std::optional<Error> fault;
  std::string fingerprint;  // over the data alone: equal when a change was in the metadata only
};

// `builtins`: names of policies that tests may be brought for without a source.
[[nodiscard]] Bundle read_bundle(const kube::ConfigMap& map, const std::set<std::string>& builtins);
[[nodiscard]] std::string fingerprint_of(const kube::ConfigMap& map);

}  // namespace moonfence::policy
