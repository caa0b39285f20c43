#pragma once

// The setting `proof`: what has to be known of a node before a pod of it is deleted, everywhere, in
// a namespace, or where a volume of a CSI driver is used.

#include <string>

#include <yaml-cpp/yaml.h>

#include "base/result.h"
#include "fence/proof/demanded_proof.h"

namespace moonfence::app {

[[nodiscard]] Result<void> read_proof(const std::string& file, const YAML::Node& name,
                                      const YAML::Node& value, fence::DemandedProof& into);

// Only a machine that is watched can be silent: a demand for nothing else would never be met.
[[nodiscard]] Result<void> check_proof(const std::string& file, const fence::DemandedProof& proof,
                                       bool detection);

}  // namespace moonfence::app
