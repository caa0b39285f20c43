#pragma once

// The taints that the engine sets, and for each the annotation that says that it is ours: when we
// set it, in which incident, and which boot of the node it was set against. Kubernetes takes its
// own taints away the moment the node is Ready again; these stay until the node is proven clean
// (fence/lift/taint_lifter). Pure functions over Node objects; what they answer is sent by
// GuardedCall.
//
//   moonfence.io/fenced:NoSchedule                               keeps replacements off
//   node.kubernetes.io/out-of-service=nodeshutdown:NoExecute     Kubernetes' own: evicts every pod
//     and detaches its volumes (fence/act/out_of_service_setter); annotation
//     moonfence.io/out-of-service
//   moonfence.io/silent:NoSchedule                               keeps new pods off a node whose
//     machine does not answer (fence/silence/silent_taints), until it is heard: nothing was done
//     there, and nothing has to be proven; annotation moonfence.io/silent
//
// A taint of such a key without our annotation is somebody else's: it does what ours does, and
// nobody here touches it.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/names.h"
#include "base/time.h"
#include "kube/objects/objects.h"

namespace moonfence::fence {

// When the engine sets its taint (setting quarantine).
enum class Quarantine {
  Off,
  Missing,  // when the node carries none that says down although it has been down for a while
  Always,   // before the first deletion in any case: it outlives Kubernetes' own
};

enum class OwnTaint { Fenced, OutOfService, Silent };

// The annotation, read.
struct FenceMark {
  IncidentId incident;
  std::string boot_id;  // that the node named when it was set; "": none
  WallTime since{};
  // The kubelet's last sign of life before it, its heartbeat or the renewal of its Lease, by the
  // clock of its machine; nullopt: none is known, or it lay in the future of the API server.
  std::optional<WallTime> heard = std::nullopt;
  // Unique names of what the node had in use or attached; "…" for more than can be told.
  std::vector<std::string> volumes = {};

  friend bool operator==(const FenceMark&, const FenceMark&) = default;
};
[[nodiscard]] std::string to_text(const FenceMark& mark);
// nullopt: nobody knows what it proves.
[[nodiscard]] std::optional<FenceMark> read_mark(std::string_view text);
// Another boot than the one it was set against: nothing of that one runs any more.
[[nodiscard]] bool has_rebooted(const kube::Node& node, const FenceMark& mark);

enum class Carried {
  Nothing,
  Ours,       // with our mark, of this boot
  OutOfDate,  // with our mark, of another boot: the next hand-back would take it for a proof
  Foreign,    // the taint without our mark, or with one that cannot be read
  MarkOnly,   // somebody took the taint off
};
[[nodiscard]] Carried carried_by(const kube::Node& node, OwnTaint taint = OwnTaint::Fenced);
// It does its work, whoever set it, and a hand-back would not take it for an older one.
[[nodiscard]] constexpr bool is_in_place(Carried carried) {
  return carried == Carried::Ours || carried == Carried::Foreign;
}

// The annotation as it stands there; "" without.
[[nodiscard]] const std::string& mark_text(const kube::Node& node, OwnTaint taint);

// The mark for a node as it was read, and its Lease beside it: `renewed`, if that is known. `now`:
// by the API server's clock.
[[nodiscard]] FenceMark mark_for(const kube::Node& node, const IncidentId& incident, WallTime now,
                                 std::optional<WallTime> renewed,
                                 OwnTaint taint = OwnTaint::Fenced);
// Unique names of the volumes that the node reports in use or that are attached to it, sorted.
[[nodiscard]] std::vector<std::string> volumes_of(const nlohmann::json& node);

// The change that puts taint and annotation on, with tests of all that it was read by. The node
// must carry its raw JSON. Out of service a node is put only as long as its kubelet has not said
// anything new: Ready and its heartbeat are tested too.
[[nodiscard]] nlohmann::json operations_to_set(const kube::Node& node, const FenceMark& mark,
                                               OwnTaint taint = OwnTaint::Fenced);
// The change that takes all that is ours off a node that is Ready; tests Ready and the boot ID too.
[[nodiscard]] nlohmann::json operations_to_lift(const kube::Node& node);
// The same of the taint of a silent machine alone, whatever Ready says.
[[nodiscard]] nlohmann::json operations_to_lift_silent(const kube::Node& node);
// Whether the node's kubelet has said Ready since it got that mark, by its heartbeat or after
// another boot. Of a mark that cannot be read nobody knows since when it is there: Ready is enough.
[[nodiscard]] bool said_ready_since(const kube::Node& node, std::string_view mark);
// Whether operations change a node's taints, or only our marks.
[[nodiscard]] bool changes_taints(const nlohmann::json& operations);

}  // namespace moonfence::fence
