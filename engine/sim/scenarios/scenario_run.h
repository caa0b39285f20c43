#pragma once

// Runs a scenario to its end and says what of it did not come true.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/ground/story.h"
#include "sim/scenarios/scenario.h"
#include "sim/scenarios/scenario_judge.h"
#include "sim/scenarios/scenario_wire.h"
#include "sim/truth/pod_ledger.h"
#include "sim/world/replica.h"
#include "sim/world/world.h"

namespace moonfence::sim {

class ScenarioRun {
 public:
  // `story` must outlive it.
  ScenarioRun(Scenario scenario, ReplicaFactory make_replica, Story& story);
  ScenarioRun(const ScenarioRun&) = delete;
  ScenarioRun& operator=(const ScenarioRun&) = delete;

  // One step of virtual time; false at the end.
  bool step();
  void run();

  [[nodiscard]] const Scenario& scenario() const { return scenario_; }
  [[nodiscard]] Duration elapsed() const { return world_.elapsed(); }
  [[nodiscard]] const PodLedger& pods() const { return pods_; }
  [[nodiscard]] World& world() { return world_; }
  [[nodiscard]] const std::vector<AuditRecord>& records() const { return evidence_.records; }
  [[nodiscard]] Outcome outcome() const { return world_.outcome(); }
  // After the end: one text for each expectation that was not met, and for each violation.
  [[nodiscard]] std::vector<std::string> failures();

 private:
  void read_audit();

  Scenario scenario_;
  World* running_ = nullptr;  // world_, once it is there
  ScenarioWire wire_;
  World world_;
  PodLedger pods_;
  ScenarioJudge judge_;
  Evidence evidence_;
};

}  // namespace moonfence::sim
