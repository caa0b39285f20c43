#include "app/sim_replica.h"

#include <memory>
#include <string_view>
#include <utility>

#include "app/engine.h"

namespace moonfence::app {
namespace {

constexpr std::string_view kNamespace = "moonfence";

Assignment assignment(const SimReplicaOptions& options, const sim::ReplicaSurroundings& around) {
  Assignment told;
  told.settings = options.settings;
  told.mode = options.mode;
  told.leader_elect = options.leader_elect;
  told.config.connection.server = around.server;
  told.config.connection.identity.token = around.name;
  told.config.connection.origin = "simulation";
  told.engine_namespace = kNamespace;
  told.instance = around.name;
  told.node_name = around.node;
  return told;
}

class SimReplica final : public sim::Replica {
 public:
  SimReplica(const SimReplicaOptions& options, const sim::ReplicaSurroundings& around)
      : http_(around.http, around.loop, options.endpoints),
        engine_(assignment(options, around),
                {around.loop, http_, around.files, around.processes, around.wall_clock,
                 around.cpu_clock, around.random, around.log, around.append_audit}) {}

  void start() override { engine_.start(); }
  void drain(std::function<void()> left) override { engine_.drain(std::move(left)); }

 private:
  ScriptedEndpoints http_;
  Engine engine_;
};

}  // namespace

sim::ReplicaFactory make_sim_replicas(SimReplicaOptions options) {
  return [options = std::move(options)](const sim::ReplicaSurroundings& around) {
    return std::make_unique<SimReplica>(options, around);
  };
}

}  // namespace moonfence::app
