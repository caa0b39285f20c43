#include "sim/checkers/leadership_checker.h"

#include <chrono>

#include "sim/net/slow_calls.h"
#include "sim/net/wire.h"
#include "sim/store/fields.h"
#include "sim/truth/called_path.h"

namespace moonfence::sim {
namespace {

// As long as both sides wait, and its bytes and the answer travel.
Duration call_time(const WireRequest& request) {
  return server_limit(request) + std::chrono::milliseconds(500);
}

}  // namespace

bool is_destructive(const WireRequest& request) {
  const std::string resource = read_path(request.target).resource;
  // Of ConfigMaps it deletes only its own records.
  return (request.method == port::Method::Delete && resource != "configmaps") ||
         // To a Job and to the volumes a pod that is made to fail is as good as deleted.
         (request.method == port::Method::Patch && resource == "pods") ||
         (request.method == port::Method::Patch && resource == "nodes" &&
          !tells_evidence(request.target, request.body));
}

// A single replica needs no Lease.
bool LeadershipChecker::concerns(const WireRequest& request) const {
  return plan().engines > 1 && is_destructive(request);
}

void LeadershipChecker::on_left(const WireRequest& request) {
  if (!concerns(request)) {
    return;
  }
  std::erase_if(under_way_, [this](const auto& entry) { return now() > entry.second.until; });
  const Life life = life_of(request);
  for (const auto& [id, call] : under_way_) {
    if (call.life != life) {
      accuse(rules::kOneActor, request.replica + " sends " + request.target + " while a call of " +
                                   call.life.replica + " is under way");
      break;
    }
  }
  under_way_.insert_or_assign(request.id, Call{.life = life, .until = now() + call_time(request)});
}

void LeadershipChecker::on_answered(const WireRequest& request, const ServerAnswer& answer) {
  if (!concerns(request)) {
    return;
  }
  under_way_.erase(request.id);
  if (!answer.committed || now() - request.left > call_time(request)) {
    return;
  }
  const Object lease =
      truth().store().find({.resource = "leases", .space = "moonfence", .name = "moonfence"});
  const std::string holder =
      lease == nullptr ? std::string() : text_field(*lease, {"spec", "holderIdentity"});
  if (!holder.starts_with(request.replica + "_") && !holds_by_lost_record(request.replica)) {
    accuse(rules::kLeaseHolder, request.replica + " has done " + request.target +
                                    " while the Lease is held by " +
                                    (holder.empty() ? "nobody" : holder));
  }
}

// Nobody else can know that it went, and whoever takes the Lease waits for as long.
bool LeadershipChecker::holds_by_lost_record(const std::string& replica) const {
  return lost_holder_.starts_with(replica + "_") && now() <= lost_until_;
}

void LeadershipChecker::on_change(const Change& change) {
  if (!change.restores || change.before == nullptr || change.key.resource != "leases" ||
      change.key.space != "moonfence") {
    return;
  }
  lost_holder_ = text_field(*change.before, {"spec", "holderIdentity"});
  lost_until_ =
      now() + std::chrono::seconds(
                  number_field(*change.before, {"spec", "leaseDurationSeconds"}).value_or(0));
}

void LeadershipChecker::on_ended(const WireRequest& request) {
  under_way_.erase(request.id);
}

}  // namespace moonfence::sim
