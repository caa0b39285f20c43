#pragma once

// The product's engine as a replica of a simulated world. It is the class that the daemon runs;
// only what surrounds it differs.

#include <functional>
#include <memory>
#include <optional>

#include "app/engine/engine.h"
#include "app/settings/settings.h"
#include "app/simulate/endpoint_script.h"
#include "policy/values/mode.h"
#include "sim/world/replica.h"

namespace moonfence::app {

struct SimReplicaOptions {
  Settings settings;
  bool leader_elect = false;
  std::optional<policy::Mode> mode;  // the ceiling of what the ConfigMap says
  std::shared_ptr<EndpointScript> endpoints = std::make_shared<EndpointScript>();
  StatusBoard* status_board = nullptr;     // where a status page would read
  std::function<void(Engine&)> made = {};  // called with each engine before it starts
};

// Its policies are those of ConfigMap moonfence/moonfence-policies of the simulated cluster.
[[nodiscard]] Assignment sim_assignment(const SimReplicaOptions& options, const std::string& name,
                                        const std::string& server, const std::string& node,
                                        const std::string& address = {});
[[nodiscard]] sim::ReplicaFactory make_sim_replicas(SimReplicaOptions options);

}  // namespace moonfence::app
