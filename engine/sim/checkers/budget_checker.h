#pragma once

// What one incident may cost: looking at its node, and trying to act on one object. An engine that
// looks without end because nothing changes, or hammers at one deletion, is wrong however slowly it
// does so. The bounds grow with the incident's age, for it may have to wait for hours.

#include <map>
#include <string>

#include "sim/truth/checker.h"

namespace moonfence::sim {

class BudgetChecker final : public Checker {
 public:
  // Of the node and of its Lease, each counted as one. An acknowledged release is looked for every
  // 25 ms at first.
  static constexpr int kLooksAtFirst = 120;
  static constexpr int kLooksEachSecond = 3;
  // Lists of a namespace's pods, from all nodes; the incidents that a replica had lend each other.
  static constexpr double kListsAtFirst = 30;
  static constexpr double kListsEachSecond = 1;
  // Of one pod, attachment or node. Of a node's volumes each is released on its own, and of its two
  // taints each is set on its own.
  static constexpr int kTriesAtFirst = 4;
  static constexpr Duration kSecondsForATry = std::chrono::seconds(2);

  explicit BudgetChecker(Bench& bench) : Checker(bench) {}
  void on_died(const Life& life, bool told) override;
  void on_left(const WireRequest& request) override;
  void on_audit(const AuditLine& line) override;

 private:
  struct Account {
    std::string node;
    Moment since{};
    int looks = 0;
    std::map<std::string, int> tries = {};  // by target
    bool told = false;
  };
  using Accounts = std::map<std::string, Account>;  // of open incidents
  struct Lists {
    int made = 0;
    double allowed = 0;  // by the incidents that are closed
  };

  [[nodiscard]] static Account* older(Account* oldest, Account& account);
  void count_look(const WireRequest& request, const std::string& node);
  void count_list(const WireRequest& request);
  void count_try(const WireRequest& request, const std::string& target);
  void overdraw(Account& account, const std::string& text);

  std::map<Life, Accounts> accounts_;
  std::map<Life, Lists> lists_;
};

}  // namespace moonfence::sim
