#include <algorithm>
#include <string_view>

#include "sim/store/object_store.h"

namespace moonfence::sim {

const std::vector<ResourceKind>& all_kinds() {
  static const std::vector<ResourceKind> kinds = {
      {"configmaps", "ConfigMap", "", "v1", true, false},
      {"namespaces", "Namespace", "", "v1", false, true},
      {"nodes", "Node", "", "v1", false, true},
      {"persistentvolumeclaims", "PersistentVolumeClaim", "", "v1", true, true},
      {"persistentvolumes", "PersistentVolume", "", "v1", false, true},
      {"pods", "Pod", "", "v1", true, true},
      {"events", "Event", "events.k8s.io", "v1", true, false},
      {"leases", "Lease", "coordination.k8s.io", "v1", true, false},
      {"csidrivers", "CSIDriver", "storage.k8s.io", "v1", false, false},
      {"csinodes", "CSINode", "storage.k8s.io", "v1", false, false},
      {"storageclasses", "StorageClass", "storage.k8s.io", "v1", false, false},
      {"volumeattachments", "VolumeAttachment", "storage.k8s.io", "v1", false, true},
      {"daemonsets", "DaemonSet", "apps", "v1", true, true},
      {"deployments", "Deployment", "apps", "v1", true, true},
      {"replicasets", "ReplicaSet", "apps", "v1", true, true},
      {"statefulsets", "StatefulSet", "apps", "v1", true, true},
      {"jobs", "Job", "batch", "v1", true, true},
      {"csiaddonsnodes", "CSIAddonsNode", "csiaddons.openshift.io", "v1alpha1", true, true},
      {"networkfences", "NetworkFence", "csiaddons.openshift.io", "v1alpha1", false, true},
  };
  return kinds;
}

const ResourceKind* find_kind(std::string_view resource) {
  const auto& kinds = all_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(), [resource](const ResourceKind& kind) {
    return kind.resource == resource;
  });
  return found == kinds.end() ? nullptr : &*found;
}

}  // namespace moonfence::sim
