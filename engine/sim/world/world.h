#pragma once

// World runs a Plan: the cluster, the engine replicas, the wire between them, the faults, the
// checkers, in virtual time. The same plan and seed give the same run to the byte. Time jumps to
// the next thing that is due anywhere: a timer of the cluster, a timer of a replica, a byte.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/ground/plan.h"
#include "sim/ground/story.h"
#include "sim/truth/checker.h"
#include "sim/world/cluster.h"
#include "sim/world/replica.h"

namespace moonfence::sim {

struct Outcome {
  std::string audit_hash;  // SHA-256 over all audit lines of all replicas, in order
  std::vector<Violation> violations;
  // Two writers that the policy accepts, because it judges by Ready alone: counted, not violations.
  int accepted_double_writers = 0;
  // In worlds with BMCs: pods that the engine deleted and that ran beside their replacements, or
  // wrote what others wrote, while their storage did not refuse their machine. Violations where
  // proof is demanded and neither BMC nor storage lies.
  int overlaps = 0;
  int isolated = 0;  // deletions of pods whose evidence was that it does
  int incidents_opened = 0;
  int incidents_closed = 0;
  int deletions = 0;        // committed by the engine
  std::uint64_t turns = 0;  // of all replicas
  Duration lived{};
};

class World {
 public:
  World(Plan plan, std::uint64_t seed, ReplicaFactory make_replica, Story& story);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Until the plan's end, or the first violation when `stop_at_violation`. Then the liveness
  // checks.
  Outcome run(bool stop_at_violation = true);
  // One step of virtual time: everything that is due at the next due moment. False at the end. What
  // `moonfence simulate` calls to run beside a real clock.
  bool step();
  // A step that is not in the plan: as soon as the turn that is under way is over.
  void perform(const Step& step);
  [[nodiscard]] Duration elapsed() const;
  [[nodiscard]] Cluster& cluster();
  [[nodiscard]] const std::vector<std::string>& audit_lines() const;
  [[nodiscard]] Outcome outcome() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moonfence::sim
