#pragma once

// What a simulation comes to: for each node that was lost, what became of its pods with moonfence
// and what would have become of them without it. Facts are read from the simulated cluster's true
// state, reasons from the engine's audit.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/ground/story.h"
#include "sim/scenarios/scenario_judge.h"
#include "sim/truth/pod_ledger.h"

namespace moonfence::app {

// A pod of the lost node in one of the two runs.
struct PodFate {
  std::optional<Duration> deleted;
  std::optional<Duration> running;  // its replacement
  std::string replacement;          // "space/name"
  std::string node;                 // of the replacement
  bool stays = false;               // it is still there and Ready
};

struct PodFacts {
  std::string pod;
  PodFate fenced;
  PodFate stock;
  std::string reason;  // of the last decision about it: "policy_skips"
  std::string text;
};

struct NodeFacts {
  std::string node;
  std::string how;  // "power-off"
  Duration lost{};
  std::optional<Duration> noticed;  // Kubernetes called it not Ready
  std::string ready;                // as what: "Unknown"
  std::vector<PodFacts> pods;
};

struct SimulationFacts {
  std::vector<NodeFacts> nodes;
  sim::Outcome outcome;
  std::vector<std::string> failures;  // of expectations and of safety rules
  Duration stock_lived{};
  bool interrupted = false;

  // Pods of the lost nodes that were deleted, and not by the engine: by Kubernetes, because of a
  // taint, or by somebody.
  [[nodiscard]] int deleted_by_others() const;
};

// Remembers when nodes were called down; fed with the story of a run.
class NodeNotices {
 public:
  struct Notice {
    Duration at{};
    std::string ready;
  };
  void see(const sim::Happening& happening);
  // The first one not before `since`.
  [[nodiscard]] const Notice* after(const std::string& node, Duration since) const;

 private:
  std::map<std::string, std::vector<Notice>> notices_;
};

// Whether a step takes a node away.
[[nodiscard]] bool is_loss(sim::Verb verb);

[[nodiscard]] std::vector<NodeFacts> node_facts(const sim::Plan& plan, const sim::PodLedger& fenced,
                                                const sim::PodLedger& stock,
                                                const NodeNotices& notices,
                                                const std::vector<sim::AuditRecord>& records);

// What stock Kubernetes had for a pod of the start, or for the pod that `replacement` replaced, at
// that time: "Terminating on n1". "" when it is no such pod.
[[nodiscard]] std::string stock_beside(const sim::PodLedger& fenced, const sim::PodLedger& stock,
                                       const std::string& replacement, Duration at);

}  // namespace moonfence::app
