#pragma once

// The product's engine as a replica of a simulated world. It is the class that the daemon runs;
// only what surrounds it differs.

#include <memory>
#include <optional>

#include "app/endpoint_script.h"
#include "app/settings.h"
#include "policy/mode.h"
#include "sim/replica.h"

namespace moonfence::app {

struct SimReplicaOptions {
  Settings settings;
  bool leader_elect = false;
  std::optional<policy::Mode> mode;  // the ceiling of what the ConfigMap says
  std::shared_ptr<EndpointScript> endpoints = std::make_shared<EndpointScript>();
};

// Its policies are those of ConfigMap moonfence/moonfence-policies of the simulated cluster.
[[nodiscard]] sim::ReplicaFactory make_sim_replicas(SimReplicaOptions options);

}  // namespace moonfence::app
