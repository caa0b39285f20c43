#pragma once

// Worlds whose machines have BMCs: whether a machine was off when something was deleted for it, who
// was ordered off, and the pods that went on running beside their replacements. The last are what
// proof is for: where none is demanded, or a BMC lies, they are counted.

#include <map>
#include <set>
#include <string>
#include <utility>

#include "sim/truth/checker.h"

namespace moonfence::sim {

class ProofChecker final : public Checker {
 public:
  explicit ProofChecker(Bench& bench) : Checker(bench) {}
  void on_left(const WireRequest& request) override;
  void on_ordered(const Life& life, const BmcPlan& bmc) override;
  void on_audit(const AuditLine& line) override;
  void on_change(const Change& change) override;
  void after_cluster_turn() override;

  [[nodiscard]] int overlaps() const { return static_cast<int>(overlaps_.size()); }
  // The last one, for the story; "" for nothing new.
  [[nodiscard]] std::string take_news() { return std::exchange(news_, {}); }

 private:
  [[nodiscard]] bool is_proof_certain(const std::string& node) const;
  void check_power(const std::string& what, const std::string& node, Duration on_its_way) const;
  struct Order {
    std::string node_uid;
    bool by_silence = false;  // no word of Kubernetes', but what the engine hears of the machine
  };
  void check_down(const std::string& what, const NodeTruth& node, const Order& order) const;
  [[nodiscard]] bool is_renewed(const NodeTruth& node, const Order& order) const;
  void note_removed(const Change& change);
  void look_at(const Machine& machine, const Container& ghost);

  // Intents of orders that have not left, by the Node's name.
  std::map<std::pair<Life, std::string>, Order> orders_;
  std::set<std::string> lost_;     // incidents that began with a machine that is not heard
  std::set<std::string> evicted_;  // nodes that the engine has put out of service
  std::set<std::string> removed_;  // UIDs of pods that are gone by the engine's doing
  std::set<std::pair<std::string, std::string>> overlaps_;  // UIDs
  std::string news_;
};

}  // namespace moonfence::sim
