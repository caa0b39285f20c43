#pragma once

// The keys of the engine's configuration that are about releases: whether volumes are released at
// all, and whose Leases show that those who act on it are alive.

#include <string>

#include <yaml-cpp/yaml.h>

#include "base/result.h"
#include "fence/rules/volume_release.h"

namespace moonfence::app {

// `release: on`; `name` is the key's node in all of them.
[[nodiscard]] Result<void> read_release(const std::string& file, const YAML::Node& name,
                                        const YAML::Node& value, fence::ReleaseRules& rules);
// `controllerLease: kube-system/kube-controller-manager`
[[nodiscard]] Result<void> read_controller_lease(const std::string& file, const YAML::Node& name,
                                                 const YAML::Node& value,
                                                 fence::ReleaseRules& rules);
// `attacherLeases: {csi.example.com: storage/external-attacher-leader-csi-example-com}`
[[nodiscard]] Result<void> read_attacher_leases(const std::string& file, const YAML::Node& name,
                                                const YAML::Node& value,
                                                fence::ReleaseRules& rules);

}  // namespace moonfence::app
