#pragma once

// ScenarioWire sits between the engine's replicas and their network. It writes down what they send,
// answers what the scenario wants answered, and sets off the steps that wait for a request. What it
// does not answer goes on to the simulated cluster unchanged.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "port/http.h"
#include "sim/scenarios/scenario.h"
#include "sim/world/replica.h"

namespace moonfence::sim {

// A request of a replica, at the moment it was given to the wire.
struct SeenRequest {
  Duration at{};
  std::string replica;
  std::string verb;     // "GET", "LIST", "WATCH", "DELETE", "POST" …
  std::string path;     // with its query, percent-encoded
  std::string subject;  // of pods: "space/name"; of a list: the node; of a node: its name; or ""
};

[[nodiscard]] SeenRequest describe_request(port::Method method, std::string_view url);

class ScenarioWire {
 public:
  struct World {
    std::function<Duration()> elapsed;
    std::function<void(const Step&)> perform;
  };

  // Both must outlive it, and it the replicas it is wrapped around.
  ScenarioWire(const Scenario& scenario, World world);
  ScenarioWire(const ScenarioWire&) = delete;
  ScenarioWire& operator=(const ScenarioWire&) = delete;

  [[nodiscard]] ReplicaFactory wrap(ReplicaFactory inner);
  [[nodiscard]] const std::vector<SeenRequest>& seen() const { return seen_; }

 private:
  class Line;
  class Wrapped;

  // What happens to a request that is about to leave.
  struct Fate {
    const AnswerRule* answer = nullptr;
    std::vector<const Step*> when_answered;
  };
  Fate see(SeenRequest request);

  const Scenario& scenario_;
  World world_;
  std::vector<int> answered_;  // how often, by rule
  std::vector<bool> fired_;    // by trigger
  std::vector<SeenRequest> seen_;
};

}  // namespace moonfence::sim
