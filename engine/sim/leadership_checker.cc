#include "sim/leadership_checker.h"

#include <chrono>

#include "sim/called_path.h"
#include "sim/fields.h"
#include "sim/slow_calls.h"
#include "sim/wire.h"

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
         (request.method == port::Method::Patch && resource == "nodes");
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
  if (!holder.starts_with(request.replica + "_")) {
    accuse(rules::kLeaseHolder, request.replica + " has done " + request.target +
                                    " while the Lease is held by " +
                                    (holder.empty() ? "nobody" : holder));
  }
}

void LeadershipChecker::on_ended(const WireRequest& request) {
  under_way_.erase(request.id);
}

}  // namespace moonfence::sim
