#include "sim/checkers/budget_checker.h"

#include <algorithm>
#include <chrono>

#include "sim/checkers/leadership_checker.h"
#include "sim/truth/called_path.h"

namespace moonfence::sim {

void BudgetChecker::on_died(const Life& life, bool /*told*/) {
  accounts_.erase(life);
  lists_.erase(life);
}

namespace {

double lists_of(Moment since, Moment now) {
  return BudgetChecker::kListsAtFirst +
         BudgetChecker::kListsEachSecond * std::chrono::duration<double>(now - since).count();
}

}  // namespace

auto BudgetChecker::older(Account* oldest, Account& account) -> Account* {
  return oldest == nullptr || account.since < oldest->since ? &account : oldest;
}

void BudgetChecker::on_audit(const AuditLine& line) {
  Accounts& accounts = accounts_[line.life];
  if (line.kind == "incident_opened") {
    accounts.insert_or_assign(line.incident, Account{.node = line.node, .since = now()});
  } else if (line.kind == "incident_closed") {
    const auto closed = accounts.find(line.incident);
    if (closed != accounts.end()) {
      lists_[line.life].allowed += lists_of(closed->second.since, now());
      accounts.erase(closed);
    }
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
    const bool of_a_node = request.target.find("spec.nodeName") != std::string::npos;
    if (path.resource == "pods" && path.name.empty() && !path.space.empty() && !of_a_node) {
      count_list(request);
    }
  } else if (is_destructive(request)) {
    std::string target = path.space + "/" + path.resource + "/" + path.name;
    if (request.body.find("moonfence.io~1out-of-service") != std::string::npos) {
      target += " out-of-service";
    }
    const auto released = removed_entries(request.body, "/status/volumesInUse");
    if (released.empty()) {
      count_try(request, target);
    }
    for (const std::string& volume : released) {
      std::string subject = target;
      count_try(request, subject.append(" ").append(volume));
    }
  }
}

// The call does not say which incident it belongs to, where a node has several: it is charged to
// all of them, and the oldest decides.
void BudgetChecker::count_look(const WireRequest& request, const std::string& node) {
  Account* oldest = nullptr;
  int incidents = 0;
  for (auto& [incident, account] : accounts_[life_of(request)]) {
    if (account.node == node) {
      ++account.looks;
      ++incidents;
      oldest = older(oldest, account);
    }
  }
  if (oldest == nullptr) {
    return;
  }
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(now() - oldest->since).count();
  if (oldest->looks > incidents * (kLooksAtFirst + kLooksEachSecond * age)) {
    overdraw(*oldest, request.replica + " looks at node " + node + " for the " +
                          std::to_string(oldest->looks) + "th time in " + std::to_string(age) +
                          " s");
  }
}

void BudgetChecker::count_list(const WireRequest& request) {
  Lists& lists = lists_[life_of(request)];
  Accounts& accounts = accounts_[life_of(request)];
  double allowed = lists.allowed;
  for (const auto& [incident, account] : accounts) {
    allowed += lists_of(account.since, now());
  }
  if (++lists.made > allowed && !accounts.empty()) {
    overdraw(accounts.begin()->second, request.replica + " lists the pods of a namespace for the " +
                                           std::to_string(lists.made) + "th time");
  }
}

// Nor which node. It is charged to all that are open: the youngest of them, which allows least, may
// be too young, so the oldest decides.
void BudgetChecker::count_try(const WireRequest& request, const std::string& target) {
  Account* oldest = nullptr;
  std::map<std::string, int> of_node;
  int incidents = 0;
  for (auto& [incident, account] : accounts_[life_of(request)]) {
    ++account.tries[target];
    incidents = std::max(incidents, ++of_node[account.node]);
    oldest = older(oldest, account);
  }
  if (oldest == nullptr) {
    return;
  }
  const auto more = (now() - oldest->since) / kSecondsForATry;
  const int tries = oldest->tries[target];
  if (tries > incidents * (kTriesAtFirst + more)) {
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
