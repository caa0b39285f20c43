#include "app/simulate/sim_replica.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "app/engine/engine.h"
#include "app/engine/load_fencers.h"
#include "base/sha256.h"
#include "kube/wire/url.h"

namespace moonfence::app {
namespace {

constexpr std::string_view kNamespace = "moonfence";

// Those that come with the engine: settings_of() permits no others, and has loaded them once.
Assignment with_fencers(Assignment told, const sim::ReplicaSurroundings& around) {
  auto fencers = load_fencers(told.settings, around.files, around.cpu_clock);
  if (fencers) {
    told.fencers = *std::move(fencers);
  }
  return told;
}

class SimReplica final : public sim::Replica {
 public:
  SimReplica(const SimReplicaOptions& options, const sim::ReplicaSurroundings& around)
      : http_(around.http, around.loop, options.endpoints),
        engine_(with_fencers(sim_assignment(options, around.name, around.server, around.node,
                                            around.address),
                             around),
                {around.loop, http_, around.files, around.processes, around.wall_clock,
                 around.cpu_clock, around.random, around.log, around.append_audit,
                 options.status_board, /*on_evaluation=*/{}, &around.links}) {
    if (options.made) {
      options.made(engine_);
    }
  }

  void start() override { engine_.start(); }
  void drain(std::function<void()> left) override { engine_.drain(std::move(left)); }
  std::optional<std::string> answer(std::string_view path, Moment now) override {
    const std::size_t mark = path.find('?');
    std::map<std::string, std::string> query;
    for (const auto& [key, value] :
         kube::decoded_query(path.substr(std::min(mark, path.size() - 1) + 1))) {
      query[key] = value;
    }
    const auto answer = engine_.testify(query["nonce"], query["nodes"], now);
    return answer ? std::optional(*answer) : std::nullopt;
  }

 private:
  ScriptedEndpoints http_;
  Engine engine_;
};

}  // namespace

Assignment sim_assignment(const SimReplicaOptions& options, const std::string& name,
                          const std::string& server, const std::string& node,
                          const std::string& address) {
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
  told.witness_address = address;
  told.witness_secret = Sha256()(name);
  return told;
}

sim::ReplicaFactory make_sim_replicas(SimReplicaOptions options) {
  return [options = std::move(options)](const sim::ReplicaSurroundings& around) {
    return std::make_unique<SimReplica>(options, around);
  };
}

}  // namespace moonfence::app
