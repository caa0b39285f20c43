#pragma once

// What is seen of the pods that may replace a deleted one, of their owners and their volumes, and
// what keeps one of them from being Ready. Plain facts out of Kubernetes objects, without I/O.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "audit/reason.h"
#include "base/names.h"
#include "base/time.h"
#include "kube/objects/objects.h"

namespace moonfence::fence {

// A pod of the namespace.
struct NamespacePod {
  PodRef ref;
  Uid uid;
  Uid owner;      // its controller, empty for none
  NodeName node;  // empty while unbound
  std::optional<WallTime> created;
  std::optional<WallTime> ready_since;  // present: it is Ready, or has done its work
  bool terminating = false;
  bool failed = false;  // nothing runs and nothing will
  bool begun = false;   // a container of it runs, or ran
  bool has_claims = false;
  std::string finalizers;   // "a, b"
  std::string unscheduled;  // the scheduler's words
  std::string waiting;      // the kubelet's words on the first container that waits
};
[[nodiscard]] NamespacePod namespace_pod(const kube::Pod& pod);

// A pod's controller. A kind that is read is one whose path and count of pods are known.
struct OwnerSight {
  bool gone = false;  // or being deleted, or done
  std::optional<std::int64_t> replicas;
  std::int64_t first = 0;  // ordinal of a StatefulSet's first pod
};
[[nodiscard]] std::string_view readable_collection(const kube::OwnerReference& owner);
[[nodiscard]] OwnerSight owner_sight_of(const nlohmann::json& object, const Uid& expected);
// Whether a StatefulSet with so many pods wants one of this name.
[[nodiscard]] bool wants_ordinal(const OwnerSight& owner, const std::string& pod);

// What the events about a pod say of its volumes.
struct StorageSight {
  bool attached = false;  // and mounted, or on the way there
  std::string failure;    // the newest refusal, unless it was overcome
};
[[nodiscard]] StorageSight storage_sight_of(const nlohmann::json& events, const Uid& pod);

// Of a namespace's pods those that matter to what is awaited there; see Replacements::see.
struct PodSights {
  std::vector<NamespacePod> pods;
  std::size_t ready = 0;  // among them
  // How many pods a controller has that neither end nor have failed, of those that are awaited.
  std::map<Uid, std::size_t> alive;
};

// What was read in one look. A namespace that could not be read is absent.
struct Sighting {
  std::map<Namespace, PodSights> pods;
  std::map<Uid, OwnerSight> owners;
  std::map<Uid, StorageSight> storage;  // by pod
};

// Why a replacement is not Ready, and in whose words.
struct Obstacle {
  audit::Reason reason = audit::Reason::ReplacementAbsent;
  std::string text = {};
};
// Of a pod that is not Ready, or bound to the node that failed.
[[nodiscard]] Obstacle obstacle_of(const NamespacePod& pod, const NodeName& failed,
                                   const StorageSight* storage);

}  // namespace moonfence::fence
