#pragma once

// The refusals of an API server, worded as kube-apiserver words them.

#include <string>
#include <string_view>

#include "sim/store/object.h"

namespace moonfence::sim {

struct ResourceKind;

[[nodiscard]] ApiFault not_found(const ResourceKind& kind, const std::string& name);
[[nodiscard]] ApiFault already_exists(const ResourceKind& kind, const std::string& name);
// "Operation cannot be fulfilled on …". `word` is the resource of an update and the kind of a
// delete: the real server is not consistent here.
[[nodiscard]] ApiFault conflict(const ResourceKind& kind, std::string_view word,
                                const std::string& name, std::string_view why);
// One field breaks a rule: 422. `what` is the whole complaint, "metadata.name: Required value: …".
[[nodiscard]] ApiFault invalid(const ResourceKind& kind, const std::string& name,
                               const std::string& field, const std::string& cause,
                               const std::string& what);
[[nodiscard]] ApiFault bad_request(std::string message);
[[nodiscard]] ApiFault expired(std::string message);
[[nodiscard]] ApiFault unknown_resource();

}  // namespace moonfence::sim
