#pragma once

// What the audit must hold (invariants I9 and the audit's own promise): an intent before its call,
// an outcome after it, nothing done that it does not tell, nothing told that is not so; incidents
// one at a time for each node. What a crash cuts off is forgiven, and only that.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "sim/truth/brake_limits.h"
#include "sim/truth/checker.h"

namespace moonfence::sim {

class AuditChecker final : public Checker {
 public:
  explicit AuditChecker(Bench& bench) : Checker(bench), brake_(bench.plan) {}

  void on_died(const Life& life, bool told) override;
  void on_left(const WireRequest& request) override;
  void on_audit(const AuditLine& line) override;
  void on_change(const Change& change) override;
  void after_turn(const Standing& standing) override;
  void on_paused(const Life& life, bool paused) override;
  void at_end(Duration calm_for) override;

  [[nodiscard]] int opened() const { return opened_; }
  [[nodiscard]] int closed() const { return closed_; }

 private:
  struct Pending {
    Moment due{};         // of its outcome
    std::string subject;  // its UID
    std::string node_uid;
    bool releases = false;  // of one patch for several of them
    bool fails = false;     // a pod's status, before its deletion
    bool left = false;      // its call is on the way
  };
  struct Open {
    std::string node;
    Moment since{};
    bool acted = false;                              // so that it may await replacements
    std::optional<Moment> told_left = std::nullopt;  // that a volume stays attached
    bool kept_in_service = false;  // a policy wants it out of service, which may not be
  };
  struct Book {
    // Without an outcome yet, by incident and subject: a call may outlive its incident.
    std::map<std::pair<std::string, std::string>, Pending> intents;
    std::map<std::string, Open> incidents;  // by their ids
  };
  void check_known(const Change& change);
  void on_intent(const AuditLine& line);
  void on_outcome(const AuditLine& line);
  void check_claim(const AuditLine& line);
  // A policy that waits for something holds its incident open for as long.
  [[nodiscard]] bool may_wait() const;
  [[nodiscard]] std::ptrdiff_t signals() const;
  [[nodiscard]] std::string node_uid(const std::string& name) const;
  // Somebody holds it, or something on it.
  [[nodiscard]] bool is_held_up(const std::string& node) const;
  [[nodiscard]] bool is_vetoed(const std::string& node) const;
  [[nodiscard]] bool keeps_a_pod(const std::string& node) const;

  std::map<Life, Book> books_;  // of those that live
  // UIDs of pods, attachments and nodes, by anybody.
  std::set<std::string> intended_;
  std::set<std::string> opened_by_anybody_;  // incidents, by their ids
  BrakeTruth brake_;
  int opened_ = 0;
  int closed_ = 0;
};

}  // namespace moonfence::sim
