#include "fence/roll_call.h"

#include <utility>

namespace moonfence::fence {

RollCall::RollCall(loop::Loop& loop, kube::Reader& reader, std::function<WallTime()> server_now,
                   std::function<const cluster::Standing*(const NodeName&)> standing)
    : loop_(loop),
      reader_(reader),
      server_now_(std::move(server_now)),
      standing_(std::move(standing)) {}

void RollCall::ask(std::weak_ptr<const void> listener, Done done) {
  const Moment now = loop_.now();
  if (good_ && now - *good_ <= kShared) {
    loop_.defer([listener = std::move(listener), done = std::move(done)] {
      if (!listener.expired()) {
        done({});
      }
    });
    return;
  }
  waiting_.push_back({.listener = std::move(listener), .done = std::move(done)});
  if (!call_) {
    call_ = reader_.list_node_leases(
        kLimit, [this, now, server = server_now_()](const Result<kube::LeaseSigns>& signs) {
          arrived(signs, now, server);
        });
  }
}

void RollCall::arrived(const Result<kube::LeaseSigns>& signs, Moment sent, WallTime server) {
  const kube::CallHandle ended = std::move(call_);
  if (signs) {
    roll_.take(*signs, sent, server);
    good_ = sent;
  }
  const Result<void> outcome = signs ? Result<void>() : failure(signs.error());
  for (const Waiting& one : std::exchange(waiting_, {})) {
    if (!one.listener.expired()) {
      one.done(outcome);
    }
  }
}

RollCall::Silent RollCall::silent_beside(std::optional<WallTime> renewed,
                                         std::optional<WallTime> changed) const {
  using Group = cluster::Standing::Group;
  const Duration age = roll_.age_of(renewed, changed);
  Silent silent;
  silent.machines = roll_.silent_beside(age, [&](const NodeName& name) {
    const cluster::Standing* standing = standing_(name);
    const bool counts = standing != nullptr && standing->group != Group::None;
    silent.workers += counts && standing->group == Group::Worker ? 1 : 0;
    return counts;
  });
  return silent;
}

}  // namespace moonfence::fence
