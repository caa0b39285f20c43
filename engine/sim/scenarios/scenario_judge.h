#pragma once

// ScenarioJudge holds a run against what its scenario expects. States are looked at while the run
// goes on, what happened is counted at its end.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/scenarios/scenario.h"
#include "sim/scenarios/scenario_wire.h"
#include "sim/store/object_store.h"
#include "sim/world/world.h"

namespace moonfence::sim {

struct AuditRecord {
  Duration at{};
  Json json;
};

struct Evidence {
  std::vector<AuditRecord> records;
  std::vector<SeenRequest> requests;
  Outcome outcome;
};

class ScenarioJudge {
 public:
  // Before the run's first step. Both must outlive it.
  ScenarioJudge(const Scenario& scenario, const ObjectStore& store);
  ScenarioJudge(const ScenarioJudge&) = delete;
  ScenarioJudge& operator=(const ScenarioJudge&) = delete;

  // After each step of the run.
  void look(Duration now);
  // At its end: one text for each expectation that was not met, with its line.
  [[nodiscard]] std::vector<std::string> failures(const Evidence& evidence);

 private:
  struct Origin {
    std::string uid;
    std::string node;
    std::string workload;
  };
  struct Sight {
    bool met = false;
    bool final = false;
    std::string seen;  // what was there instead
  };

  [[nodiscard]] Sight look_at(const StateCheck& check) const;
  [[nodiscard]] Sight look_at_pod(const StateCheck& check) const;
  [[nodiscard]] Sight look_at_workload(const StateCheck& check) const;
  [[nodiscard]] Sight look_at_node(const StateCheck& check) const;
  [[nodiscard]] Sight look_at_policy(const StateCheck& check) const;
  [[nodiscard]] std::string judge(const EventCheck& check, const Window& window,
                                  const Evidence& evidence) const;
  [[nodiscard]] std::string judge(const AttemptsCheck& check, const Evidence& evidence) const;
  [[nodiscard]] int count_objects(const EventCheck& check) const;

  const Scenario& scenario_;
  const ObjectStore& store_;
  std::map<std::string, Origin> origins_;  // pods of the start by "space/name"
  std::vector<Sight> sights_;              // by expectation
  std::int64_t looked_at_ = -1;            // the store's version
};

}  // namespace moonfence::sim
