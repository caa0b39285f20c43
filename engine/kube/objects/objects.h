#pragma once

// The parts of Kubernetes objects that the engine itself reads, as values. Field names follow the
// API. An object fetched for a policy also keeps the JSON it came from; a watched one does not,
// which is what keeps 5,000 nodes small.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/names.h"
#include "base/time.h"

namespace moonfence::kube {

using Labels = std::map<std::string, std::string>;

struct OwnerReference {
  std::string api_version;
  std::string kind;
  std::string name;
  Uid uid;
  bool controller = false;
};

struct Condition {
  std::string status;  // "True", "False", "Unknown"; anything else is kept as sent
  std::optional<WallTime> last_transition_time;
  std::string reason = {};
};

struct Taint {
  std::string key;
  std::string value;
  std::string effect;  // NoSchedule, PreferNoSchedule, NoExecute

  friend bool operator==(const Taint&, const Taint&) = default;
};

// Where a node's kubelet listens, as its Node object says.
struct KubeletAddress {
  static constexpr std::uint16_t kPort = 10250;  // where the object names none
  std::vector<std::string> addresses = {};       // of type InternalIP, two at most
  std::uint16_t port = kPort;

  friend bool operator==(const KubeletAddress&, const KubeletAddress&) = default;
};

struct Node {
  NodeName name;
  Uid uid;
  ResourceVersion resource_version;
  std::optional<Condition> ready;  // the condition of type Ready; absent when the node has none
  std::vector<Taint> taints;
  Labels labels;
  std::optional<WallTime> created;
  bool unschedulable = false;
  std::optional<WallTime> cordoned;  // when its taint "unschedulable" was set
  std::string boot_id;
  std::string zone;  // label topology.kubernetes.io/zone, or its predecessor; "" without
  KubeletAddress kubelet;
  // Annotations moonfence.io/fenced, moonfence.io/out-of-service and moonfence.io/silent, cut at
  // 16 KiB; "" without.
  std::string fence_mark;
  std::string out_of_service_mark;
  std::string silent_mark;
  // What is told of it to others (fence/publication): annotation moonfence.io/fencing-evidence,
  // likewise, and whether its condition FencingEvidence is True.
  std::string evidence_mark = {};
  bool evidence_stands = false;
  // The whole object when it was read for a policy, else null.
  std::shared_ptr<const nlohmann::json> raw;
};

// What a live read of a node says of its volumes, and of the moment when its kubelet said it. No
// watched node carries it.
struct NodeStorage {
  std::string boot_id;
  bool attach_managed = false;        // kube-controller-manager attaches and detaches, no kubelet
  std::vector<std::string> in_use;    // status.volumesInUse, by the kubelet: unique names
  std::vector<std::string> attached;  // status.volumesAttached, by kube-controller-manager
  // The condition of type Ready: its place in the list and the kubelet's last word, as sent.
  std::optional<std::size_t> ready_index;
  std::string ready_status;
  std::string ready_heartbeat;
};

// Reason of a pod's condition DisruptionTarget that we set.
inline constexpr std::string_view kDeletionByMoonfence = "DeletionByMoonfence";

struct Pod {
  PodRef ref;
  Uid uid;
  ResourceVersion resource_version;
  NodeName node;                  // empty while unbound
  std::optional<WallTime> bound;  // by its condition PodScheduled, where a scheduler has set it
  Labels labels;
  std::string phase;
  // Its condition DisruptionTarget has our reason: its phase is Failed by us, which says nothing of
  // its containers and volumes.
  bool failed_by_us = false;
  std::int64_t priority = 0;
  std::optional<WallTime> deletion_timestamp;
  std::vector<OwnerReference> owners;
  bool is_mirror = false;  // annotation kubernetes.io/config.mirror: a static pod's shadow
  std::shared_ptr<const nlohmann::json> raw;

  // Nothing runs in it any more, by the word of its kubelet or of Kubernetes.
  [[nodiscard]] bool has_finished() const {
    return phase == "Succeeded" || (phase == "Failed" && !failed_by_us);
  }
  // The owner that manages the pod, null for a bare pod.
  [[nodiscard]] const OwnerReference* controller() const {
    for (const OwnerReference& owner : owners) {
      if (owner.controller) {
        return &owner;
      }
    }
    return nullptr;
  }
};

// A VolumeAttachment: a volume that a CSI driver has published, or is to publish, to a node. Its
// spec never changes.
struct Attachment {
  std::string name;
  Uid uid;
  std::string attacher;  // the CSI driver
  NodeName node;
  std::string volume;  // the PersistentVolume; "" for one that a pod declares inline
  // Marked for deletion; its attacher's finalizer keeps it until the storage has let go.
  bool terminating = false;
  // Held by external-attacher. Without it "gone" says nothing about the storage.
  bool held_by_attacher = false;
  std::string detach_error;  // the storage's last refusal to let go

  friend bool operator==(const Attachment&, const Attachment&) = default;
};

}  // namespace moonfence::kube
