#pragma once

// A hold is somebody's word that a node, a namespace or a pod must not be touched, by any policy:
// the annotation moonfence.io/hold, whose value says why. It ends when the annotation is taken off.
// The engine's own configuration may name annotations of others that mean the same on a node.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/names.h"
#include "base/time.h"
#include "kube/objects/objects.h"

namespace moonfence::fence {

// Annotations of nodes that are a hold: "key", whatever its value is, or "key=value".
using HoldMarks = std::set<std::string>;

// Why nobody may touch the object: its annotation, escaped and cut; nullopt: none holds it. One
// that says nothing is a hold all the same.
[[nodiscard]] std::optional<std::string> hold_on(const nlohmann::json& object);
// The same of a node.
[[nodiscard]] std::optional<std::string> hold_on_node(const nlohmann::json& node,
                                                      const HoldMarks& marks);

// What a live read said of a namespace.
struct NamespaceWord {
  bool known = false;                              // false: it could not be read
  std::optional<std::string> hold = std::nullopt;  // why
  std::string error = {};                          // why it could not
  Moment sent{};                                   // when it was asked
};
using NamespaceWords = std::map<Namespace, NamespaceWord>;
// Why, as the newest list shows them.
using HeldPods = std::map<Uid, std::string>;

// How old a namespace's word, and the list that showed a pod, may be when something is deleted.
constexpr Duration kHoldLifetime = std::chrono::seconds(5);
// Asked again a little sooner: what is fresh when a call leaves is to be fresh at the wire.
constexpr Duration kHoldFreshness = std::chrono::seconds(4);
// When what is held is looked at again.
constexpr Duration kHoldPause = std::chrono::seconds(15);

// Who holds the pod, or its node or namespace, and why, as far as is known; "" when nobody does.
[[nodiscard]] std::string hold_text(const NodeName& node, const std::optional<std::string>& of_node,
                                    const kube::Pod& pod, const NamespaceWords& words,
                                    const HeldPods& pods);

}  // namespace moonfence::fence
