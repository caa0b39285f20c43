#pragma once

// The setting `proof`: what has to be known of a node before a pod of it is deleted, everywhere, in
// a namespace, or where a volume of a CSI driver is used.

#include <string>

#include <yaml-cpp/yaml.h>

#include "app/settings/settings.h"
#include "base/result.h"
#include "fence/proof/demanded_proof.h"

namespace moonfence::app {

[[nodiscard]] Result<void> read_proof(const std::string& file, const YAML::Node& name,
                                      const YAML::Node& value, fence::DemandedProof& into);

// What nothing can ever bring is not demanded: silence needs detection, and off a fencer.
[[nodiscard]] Result<void> check_proof(const std::string& file, const Settings& settings);

}  // namespace moonfence::app
