#pragma once

// Judge holds all checkers of a run, tells them what happens and keeps what they find.

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/checkers/audit_checker.h"
#include "sim/checkers/proof_checker.h"
#include "sim/checkers/volume_checker.h"
#include "sim/ground/story.h"
#include "sim/net/wire.h"
#include "sim/truth/checker.h"
#include "sim/truth/truth.h"

namespace moonfence::sim {

class Judge final : public WireListener {
 public:
  Judge(const Plan& plan, const Truth& truth, const TimeLine& time, const Story& story);

  // Everything that checkers are told.
  void on_left(const WireRequest& request) override;
  void on_answered(const WireRequest& request, const ServerAnswer& answer) override;
  void on_heard(const WireRequest& request, int status, std::string_view text) override;
  void on_ended(const WireRequest& request, int status, const port::HttpEnd& end) override;
  void on_started(const Life& life);
  void on_died(const Life& life, bool told);
  void on_audit(const Life& life, std::string_view text);
  void on_change(const Change& change);
  void after_turn(const Standing& standing);
  void after_cluster_turn();
  void on_paused(const Life& life, bool paused);
  void on_partitioned(const std::string& replica, bool partitioned);
  void on_link_cut(const std::string& replica, const std::string& node, bool cut);
  void on_ordered(const Life& life, const BmcPlan& bmc);
  void at_end(Duration calm_for);

  [[nodiscard]] const std::vector<Violation>& violations() const { return violations_; }
  [[nodiscard]] int accepted_double_writers() const { return volumes_->accepted(); }
  [[nodiscard]] int overlaps() const { return proof_->overlaps(); }
  [[nodiscard]] int isolated() const { return proof_->isolated(); }
  [[nodiscard]] int opened() const { return audit_->opened(); }
  [[nodiscard]] int closed() const { return audit_->closed(); }
  [[nodiscard]] int deletions() const { return static_cast<int>(deleted_.size()); }

 private:
  void accuse(std::string_view rule, std::string text);
  void tell(Happening::Kind kind, std::string_view subject, std::string what,
            std::string detail) const;
  template <class C>
  C& add();

  const TimeLine& time_;
  const Story& story_;
  Bench bench_;
  std::vector<std::unique_ptr<Checker>> checkers_;
  AuditChecker* audit_ = nullptr;  // among the checkers
  VolumeChecker* volumes_ = nullptr;
  ProofChecker* proof_ = nullptr;
  std::vector<Violation> violations_;
  std::set<std::string> deleted_;  // UIDs of pods that the engine deleted
};

}  // namespace moonfence::sim
