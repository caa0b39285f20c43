#pragma once

// What a node that came back without a reboot may still hold of what was taken from it, and whether
// what was read of it proves that it holds nothing any more. What runs is the kubelet's own word,
// for Ready proves nothing: a kubelet is Ready before it has stopped what it is to stop. Pure.
//
// Volumes: a kubelet that lives stops the containers of pods that are gone, unmounts their volumes
// and stops reporting them; one that was restarted meanwhile never reports the volumes that it
// found mounted when it started, so that for them silence proves nothing.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/time.h"
#include "fence/rules/our_taints.h"
#include "kube/kubelet/kubelet_api.h"
#include "kube/objects/objects.h"

namespace moonfence::fence {

// Why the node is not proven clean. The kinds are told apart so that one that goes on is told once.
struct Doubt {
  enum class Kind {
    Unread,          // of the API server
    KubeletSilent,   // no answer of the kubelet, or an error of its own
    KubeletUnclear,  // an answer that cannot be used
    NotAllowed,      // the API server does not let us ask kubelets
    StillRunning,    // a pod that is gone runs there
    StillWanted,     // its kubelet has not heard yet that the pod is gone
    BeingDeleted,
    StorageLeft,   // a volume is in use or attached that no pod of the node needs
    MaybeMounted,  // a volume may be mounted that its kubelet would not report
    MarkUnclear,   // nobody knows what our annotation says
    Held,          // somebody holds the node: nobody may touch it
  };
  Kind kind = Kind::Unread;
  std::string why;

  friend bool operator==(const Doubt&, const Doubt&) = default;
};
// It passes by itself when all is well, as a rule within a minute or two.
[[nodiscard]] bool may_pass(Doubt::Kind kind);
// It ends when a container, a pod or an attachment does: to be looked at often.
[[nodiscard]] bool awaits_an_end(Doubt::Kind kind);

// What is looked for.
struct Scope {
  bool kubelet = true;  // false: the node was booted again
  bool storage = true;
};

struct NodeLeftovers {
  // nullopt: it was not asked, because the node was booted again.
  std::optional<Result<kube::KubeletWord>> word;
  std::string unread;           // what else could not be read; "": everything could
  std::vector<kube::Pod> pods;  // every pod of the node, listed after the word had come
  // Read only when nothing above speaks against the node.
  std::set<std::string> used_volumes;      // unique names: by pods that are there to stay
  std::set<std::string> used_attachments;  // their names, likewise
  std::set<std::string> inline_drivers;    // of volumes that stand in such pods themselves
  nlohmann::json attachments;              // list of all VolumeAttachments
  std::optional<WallTime> lease_renewed;   // by the kubelet's clock
};

// Whether what the pod uses may be in use for good reason.
[[nodiscard]] bool is_there_to_stay(const kube::Pod& pod);

// By the kubelet's word and the pods alone.
[[nodiscard]] std::optional<Doubt> doubt_by_pods(const NodeName& node,
                                                 const NodeLeftovers& remains);

// By all that was read; nullopt: the node is clean. `now` by the API server's clock.
[[nodiscard]] std::optional<Doubt> doubt_about(const kube::Node& node, const FenceMark& mark,
                                               const NodeLeftovers& remains, WallTime now);

}  // namespace moonfence::fence
