#pragma once

// The engine's own taint, moonfence.io/fenced:NoSchedule, and the annotation of the same name that
// says that it is ours: when we set it, in which incident, and which boot of the node it was set
// against. Kubernetes takes its own taint away the moment the node is Ready again; this one stays
// until the node is proven clean (fence/hand_back). Pure functions over Node objects; what they
// answer is sent by GuardedActions.
//
// A taint of that key without our annotation is somebody else's: it keeps replacements off like
// ours, and nobody here touches it.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/names.h"
#include "base/time.h"
#include "kube/objects.h"

namespace moonfence::fence {

// When the engine sets its taint (setting quarantine).
enum class Quarantine {
  Off,
  Missing,  // when the node carries none that says down although it has been down for a while
  Always,   // before the first deletion in any case: it outlives Kubernetes' own
};

// The annotation, read.
struct FenceMark {
  IncidentId incident;
  std::string boot_id;  // that the node named when it was set; "": none
  WallTime since{};
  // Unique names of what the node had in use or attached; "…" for more than can be told.
  std::vector<std::string> volumes = {};

  friend bool operator==(const FenceMark&, const FenceMark&) = default;
};
[[nodiscard]] std::string to_text(const FenceMark& mark);
// nullopt: nobody knows what it proves.
[[nodiscard]] std::optional<FenceMark> read_mark(std::string_view text);

enum class Carried {
  Nothing,
  Ours,       // with our mark, of this boot
  OutOfDate,  // with our mark, of another boot: the next hand-back would take it for a proof
  Foreign,    // the taint without our mark, or with one that cannot be read
  MarkOnly,   // somebody took the taint off
};
[[nodiscard]] Carried carried_by(const kube::Node& node);

// The mark for a node as it was read.
[[nodiscard]] FenceMark mark_for(const kube::Node& node, const IncidentId& incident, WallTime now);
// Unique names of the volumes that the node reports in use or that are attached to it, sorted.
[[nodiscard]] std::vector<std::string> volumes_of(const nlohmann::json& node);

// The change that puts taint and annotation on, with tests of all that it was read by. The node
// must carry its raw JSON.
[[nodiscard]] nlohmann::json operations_to_set(const kube::Node& node, const FenceMark& mark);
// The change that takes both off a node that is Ready; tests Ready and the boot ID as well.
[[nodiscard]] nlohmann::json operations_to_lift(const kube::Node& node);

}  // namespace moonfence::fence
