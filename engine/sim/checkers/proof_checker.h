#pragma once

// Worlds whose machines have BMCs, or whose storage can refuse them: whether a machine was off, or
// refused, when something was deleted for it, who was ordered off or isolated, and the pods that
// went on running beside their replacements. The last are what proof is for: where none is
// demanded, or a BMC or a storage lies, they are counted. Who can write nothing is none of them.
// And what is told of nodes to others: whether it is so, and goes when the Node shows that it is
// void.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
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
  void at_end(Duration calm_for) override;

  [[nodiscard]] int overlaps() const { return static_cast<int>(overlaps_.size()); }
  // Deletions of pods whose evidence was that the storage refuses their node.
  [[nodiscard]] int isolated() const { return static_cast<int>(isolated_.size()); }
  // The last one, for the story; "" for nothing new.
  [[nodiscard]] std::string take_news() { return std::exchange(news_, {}); }

 private:
  [[nodiscard]] bool is_proof_certain(const std::string& node) const;
  // Of what is deleted.
  struct Storage {
    bool concerned = true;  // something is demanded before it goes
    // By whom its machine has to be refused so that it writes nothing; empty: it may all the same.
    std::set<std::string> clusters = {};
  };
  [[nodiscard]] Storage storage_of_pod(const std::string& uid, const PodTruth& pod) const;
  [[nodiscard]] Storage storage_of_attachment(const Json& attachment) const;
  void check_power(const std::string& what, const std::string& node, Duration on_its_way,
                   const Storage& storage) const;
  struct Order {
    std::string node_uid;
    bool by_silence = false;  // no word of Kubernetes', but what the engine hears of the machine
  };
  using Orders = std::map<std::tuple<Life, std::string, std::string>, Order>;
  // Takes the intent of what is leaving, and says what is wrong with it.
  void check_order(std::string_view rule, const std::string& what, Orders::iterator intent);
  void check_isolation(const WireRequest& request);
  void check_addresses(const std::string& what, const std::string& node, const Json& fence) const;
  void check_down(std::string_view rule, const std::string& what, const NodeTruth& node,
                  const Order& order) const;
  [[nodiscard]] bool is_renewed(const NodeTruth& node, const Order& order) const;
  void note_removed(const Change& change);
  void note_told(const Change& change);
  void look_at(const Machine& machine, const Container& ghost);

  Orders orders_;  // intents of those that have not left, by the Node's name and what is done
  std::set<std::string> lost_;          // incidents that began with a machine that is not heard
  std::set<std::string> evicted_;       // nodes that the engine has put out of service
  std::set<std::string> removed_;       // UIDs of pods that are gone by the engine's doing
  std::set<std::string> by_isolation_;  // UIDs of pods that are to go, by their newest intent
  std::set<std::string> isolated_;      // that have gone so
  std::set<std::pair<std::string, std::string>> overlaps_;  // UIDs
  std::map<std::string, Moment> void_since_;  // nodes, by what stands there of them for others
  std::string news_;
};

}  // namespace moonfence::sim
