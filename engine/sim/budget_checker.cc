#include "sim/budget_checker.h"

#include <chrono>

#include "sim/called_path.h"
#include "sim/leadership_checker.h"

namespace moonfence::sim {

void BudgetChecker::on_died(const Life& life, bool /*told*/) {
  accounts_.erase(life);
}

void BudgetChecker::on_audit(const AuditLine& line) {
  Accounts& accounts = accounts_[line.life];
  if (line.kind == "incident_opened") {
    accounts.insert_or_assign(line.node, Account{.since = now()});
  } else if (line.kind == "incident_closed") {
    accounts.erase(line.node);
  }
}

void BudgetChecker::on_left(const WireRequest& request) {
  const CalledPath path = read_path(request.target);
  if (request.method == port::Method::Get) {
    const bool of_node = path.resource == "nodes" && !path.name.empty();
    const bool of_lease = path.resource == "leases" && path.space == "kube-node-lease";
    if (of_node || of_lease) {
      count_look(request, path.name);
    }
  } else if (is_destructive(request)) {
    count_try(request, path.space + "/" + path.resource + "/" + path.name);
  }
}

void BudgetChecker::count_look(const WireRequest& request, const std::string& node) {
  Accounts& accounts = accounts_[life_of(request)];
  const auto found = accounts.find(node);
  if (found == accounts.end()) {
    return;
  }
  Account& account = found->second;
  ++account.looks;
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(now() - account.since).count();
  if (account.looks > kLooksAtFirst + kLooksEachSecond * age) {
    overdraw(account, request.replica + " looks at node " + node + " for the " +
                          std::to_string(account.looks) + "th time in " + std::to_string(age) +
                          " s");
  }
}

// The call does not say which incident it belongs to. It is charged to all that are open: the
// youngest of them, which allows least, may be too young, so the oldest decides.
void BudgetChecker::count_try(const WireRequest& request, const std::string& target) {
  Account* oldest = nullptr;
  for (auto& [node, account] : accounts_[life_of(request)]) {
    ++account.tries[target];
    if (oldest == nullptr || account.since < oldest->since) {
      oldest = &account;
    }
  }
  if (oldest == nullptr) {
    return;
  }
  const auto more = (now() - oldest->since) / kSecondsForATry;
  const int tries = oldest->tries[target];
  if (tries > kTriesAtFirst + more) {
    overdraw(*oldest, request.replica + " sends " + request.target + " for the " +
                          std::to_string(tries) + "th time");
  }
}

void BudgetChecker::overdraw(Account& account, const std::string& text) {
  if (!account.told) {
    account.told = true;
    accuse(rules::kBoundedIncident, text);
  }
}

}  // namespace moonfence::sim
