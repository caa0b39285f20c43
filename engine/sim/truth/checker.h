#pragma once

// A Checker watches a run with knowledge of the truth and speaks up when a rule is broken. It is
// told of everything in the moment when it happens; what it does not care about it leaves out.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "sim/ground/plan.h"
#include "sim/net/wire.h"
#include "sim/truth/rules.h"
#include "sim/truth/truth.h"

namespace moonfence::sim {

struct Violation {
  Duration at{};
  std::string rule;  // "uid-precondition", "recovered-node" …: docs/simulation.md lists them
  std::string text;
};

// One life of a replica's process.
struct Life {
  std::string replica;
  int incarnation = 0;

  friend auto operator<=>(const Life&, const Life&) = default;
};

// One line of a replica's audit, read.
struct AuditLine {
  Life life;
  std::string kind;  // "intent", "outcome", "incident_opened" …
  std::string reason;
  std::string incident;
  std::string node;
  std::string node_uid;
  std::string pod_uid;
  std::string pod;             // "space/name"
  std::string attachment_uid;  // of an action on a VolumeAttachment

  std::string action;
  std::string evidence;

  [[nodiscard]] bool changes_node() const {
    return action == "set_quarantine" || action == "taint_out_of_service" ||
           action == "taint_silent" || orders_off() || isolates() || lifts();
  }
  [[nodiscard]] bool orders_off() const { return action == "switch_off"; }
  [[nodiscard]] bool isolates() const { return action == "isolate"; }
  [[nodiscard]] bool fails_pod() const { return action == "fail_pod"; }
  [[nodiscard]] bool lifts() const {
    return action == "lift_quarantine" || action == "lift_silent_taint";
  }
  // Of a node that may well be up, and on which nothing is deleted for it.
  [[nodiscard]] bool is_of_silence() const {
    return action == "taint_silent" || action == "lift_silent_taint";
  }
  // What is acted on.
  [[nodiscard]] const std::string& subject() const {
    return changes_node() ? node_uid : attachment_uid.empty() ? pod_uid : attachment_uid;
  }
};
[[nodiscard]] AuditLine read_audit_line(const Life& life, std::string_view text);

// How a replica stands after a turn.
struct Standing {
  Life life;
  std::uint64_t turns = 0;
  std::size_t timers = 0;
  std::size_t writes = 0;
  std::size_t lists = 0;
  std::size_t watches = 0;
  std::size_t exchanges = 0;
};

// What a checker is given.
struct Bench {
  const Plan& plan;
  const Truth& truth;
  std::function<void(std::string_view rule, std::string text)> accuse;
};

class Checker {
 public:
  explicit Checker(Bench& bench) : bench_(bench) {}
  virtual ~Checker() = default;
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  virtual void on_started(const Life& /*life*/) {}
  // It ended by itself (`told`), or died.
  virtual void on_died(const Life& /*life*/, bool /*told*/) {}
  virtual void on_left(const WireRequest& /*request*/) {}
  virtual void on_answered(const WireRequest& /*request*/, const ServerAnswer& /*answer*/) {}
  virtual void on_heard(const WireRequest& /*request*/, int /*status*/, std::string_view /*text*/) {
  }
  // The replica has heard the end, whatever it was.
  virtual void on_ended(const WireRequest& /*request*/) {}
  virtual void on_audit(const AuditLine& /*line*/) {}
  virtual void on_change(const Change& /*change*/) {}
  virtual void after_turn(const Standing& /*standing*/) {}
  virtual void after_cluster_turn() {}
  // The engine's clients may have been held up: this replica takes no turns from now on or again.
  virtual void on_paused(const Life& /*life*/, bool /*paused*/) {}
  // Its network is gone, or there again.
  virtual void on_partitioned(const std::string& /*replica*/, bool /*partitioned*/) {}
  // Of the packets between a replica and a node's machine.
  virtual void on_link_cut(const std::string& /*replica*/, const std::string& /*node*/,
                           bool /*cut*/) {}
  // A replica's order to switch a machine off is leaving.
  virtual void on_ordered(const Life& /*life*/, const BmcPlan& /*bmc*/) {}
  virtual void at_end(Duration /*calm_for*/) {}

 protected:
  [[nodiscard]] const Truth& truth() const { return bench_.truth; }
  [[nodiscard]] Moment now() const { return bench_.truth.now(); }
  [[nodiscard]] const Plan& plan() const { return bench_.plan; }
  // A replica runs on it, and none on a node that is up: nobody may act there.
  [[nodiscard]] bool is_own_node_of_all(const std::string& node) const;
  // Somebody held a node of that name when it went: what is left of it stays.
  [[nodiscard]] bool was_node_held(const std::string& node) const;
  // Somebody holds the node, or the pod or its namespace, now.
  [[nodiscard]] bool is_node_held(const std::string& node) const;
  [[nodiscard]] bool is_pod_held(const PodTruth& pod) const;
  // What is demanded (`set proof`) may be missing: there is no person's word that names what its
  // kubelet has said last, and no honest BMC to say that the machine is off.
  [[nodiscard]] bool is_proof_awaited(const std::string& node) const;
  // There is such a word.
  [[nodiscard]] bool is_attested(const std::string& node) const;
  [[nodiscard]] bool is_shown_off(const std::string& node) const;
  void accuse(std::string_view rule, std::string text) const {
    bench_.accuse(rule, std::move(text));
  }

 private:
  Bench& bench_;
};

// The actor of a change, or the sender of a request: is it an engine?
[[nodiscard]] inline bool is_engine(std::string_view actor) {
  return actor.starts_with("moonfence-");
}

[[nodiscard]] inline Life life_of(const WireRequest& request) {
  return {.replica = request.replica, .incarnation = request.incarnation};
}

}  // namespace moonfence::sim
