#pragma once

// The keys of the engine's configuration that say whose Leases show that those who act on a release
// are alive.

#include <string>

#include <yaml-cpp/yaml.h>

#include "base/result.h"
#include "fence/rules/volume_release.h"

namespace moonfence::app {

// `controllerLease: kube-system/kube-controller-manager`; `name` is the key's node.
[[nodiscard]] Result<void> read_controller_lease(const std::string& file, const YAML::Node& name,
                                                 const YAML::Node& value,
                                                 fence::ReleaseRules& rules);
// `attacherLeases: {csi.example.com: storage/external-attacher-leader-csi-example-com}`
[[nodiscard]] Result<void> read_attacher_leases(const std::string& file, const YAML::Node& name,
                                                const YAML::Node& value,
                                                fence::ReleaseRules& rules);

}  // namespace moonfence::app
