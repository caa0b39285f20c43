#include "app/simulate/sim_replica.h"

#include <memory>
#include <string_view>
#include <utility>

#include "app/engine/engine.h"

namespace moonfence::app {
namespace {

constexpr std::string_view kNamespace = "moonfence";

class SimReplica final : public sim::Replica {
 public:
  SimReplica(const SimReplicaOptions& options, const sim::ReplicaSurroundings& around)
      : http_(around.http, around.loop, options.endpoints),
        engine_(sim_assignment(options, around.name, around.server, around.node),
                {around.loop, http_, around.files, around.processes, around.wall_clock,
                 around.cpu_clock, around.random, around.log, around.append_audit,
                 options.status_board, /*on_evaluation=*/{}, &around.links}) {
    if (options.made) {
      options.made(engine_);
    }
  }

  void start() override { engine_.start(); }
  void drain(std::function<void()> left) override { engine_.drain(std::move(left)); }

 private:
  ScriptedEndpoints http_;
  Engine engine_;
};

}  // namespace

Assignment sim_assignment(const SimReplicaOptions& options, const std::string& name,
                          const std::string& server, const std::string& node) {
  Assignment told;
  told.settings = options.settings;
  told.mode = options.mode;
  told.leader_elect = options.leader_elect;
  told.config.connection.server = server;
  told.config.connection.identity.token = name;
  told.config.connection.origin = "simulation";
  told.engine_namespace = kNamespace;
  told.instance = name;
  told.node_name = node;
  return told;
}

sim::ReplicaFactory make_sim_replicas(SimReplicaOptions options) {
  return [options = std::move(options)](const sim::ReplicaSurroundings& around) {
    return std::make_unique<SimReplica>(options, around);
  };
}

}  // namespace moonfence::app
