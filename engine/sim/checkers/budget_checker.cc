#include "sim/checkers/budget_checker.h"

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

void BudgetChecker::on_audit(const AuditLine& line) {
  Accounts& accounts = accounts_[line.life];
  if (line.kind == "incident_opened") {
    accounts.insert_or_assign(line.node, Account{.since = now()});
  } else if (line.kind == "incident_closed") {
    const auto closed = accounts.find(line.node);
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

void BudgetChecker::count_list(const WireRequest& request) {
  Lists& lists = lists_[life_of(request)];
  Accounts& accounts = accounts_[life_of(request)];
  double allowed = lists.allowed;
  for (const auto& [node, account] : accounts) {
    allowed += lists_of(account.since, now());
  }
  if (++lists.made > allowed && !accounts.empty()) {
    overdraw(accounts.begin()->second, request.replica + " lists the pods of a namespace for the " +
                                           std::to_string(lists.made) + "th time");
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
