#pragma once

// A release takes volumes that the storage has let go of out of a dead node's status.volumesInUse.
// kube-controller-manager's attach/detach controller detaches at once then, instead of noticing
// within a minute. It comes last, when the attachment is gone: it only tells the
// controller what the storage has confirmed. Here is what a release is made of, as pure functions;
// whether it may happen says the guard.

#include <map>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/names.h"
#include "base/time.h"
#include "kube/leases/lease.h"
#include "kube/objects/objects.h"
#include "policy/values/facts.h"

namespace moonfence::fence {

// What the engine's own configuration says of releases.
struct ReleaseRules {
  bool on = false;
  // The Lease of kube-controller-manager: without it nobody would act on a release, or somebody
  // later, on old facts.
  ObjectRef controller = {.space = Namespace("kube-system"), .name = "kube-controller-manager"};
  // Leader Leases of the attachers, by CSI driver.
  std::map<std::string, ObjectRef> attachers = {};
};

// Whether a replacement waits for the volume at all: one of several nodes is attached elsewhere
// while it still is here, and an ephemeral one nobody wants again.
[[nodiscard]] bool gains_by_release(const policy::VolumeFacts& volume);

// What the node's status calls the volume of this attachment, "kubernetes.io/csi/DRIVER^HANDLE";
// "" when no name of it leads to the attachment. Found by the attachment's name, so that volumes
// that Kubernetes translates to CSI need no table.
[[nodiscard]] std::string unique_name(const std::string& attachment,
                                      const kube::NodeStorage& storage, const NodeName& node);
// The attachment's name that such a name of a volume leads to; "" for one that is no CSI driver's.
[[nodiscard]] std::string attachment_behind(std::string_view unique_name, const NodeName& node);
[[nodiscard]] bool is_in_use(const kube::NodeStorage& storage, const std::string& name);
[[nodiscard]] bool is_attached(const kube::NodeStorage& storage, const std::string& name);
// The controller splits names at every '^' and could not detach such a volume.
[[nodiscard]] bool is_releasable(const std::string& unique_name);

// The operations of one JSON patch of the node's status: tests that pin all that the kubelet
// writes, then the list without `names`. What others write at the same time does not matter. The
// node's UID is tested by kube::Destroyer.
[[nodiscard]] nlohmann::json release_operations(const kube::NodeStorage& storage,
                                                const std::set<std::string>& names);

}  // namespace moonfence::fence
