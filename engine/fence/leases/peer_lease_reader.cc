#include "fence/leases/peer_lease_reader.h"

#include <utility>

namespace moonfence::fence {

PeerLeaseReader::PeerLeaseReader(loop::Loop& loop, kube::Reader& reader,
                                 const Leadership& leadership, std::function<WallTime()> server_now,
                                 const kube::Revisions& revisions,
                                 std::function<const cluster::Standing*(const NodeName&)> standing)
    : loop_(loop),
      reader_(reader),
      leadership_(leadership),
      server_now_(std::move(server_now)),
      revisions_(revisions),
      standing_(std::move(standing)),
      peer_leases_(revisions) {}

void PeerLeaseReader::ask(std::weak_ptr<const void> listener, Done done) {
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
    list(kube::ListFrom::Cache);
  }
}

void PeerLeaseReader::list(kube::ListFrom from) {
  const Moment now = loop_.now();
  call_ = reader_.list_node_leases(
      from, kLimit + kReads * slowness_of(leadership_.limits()),
      [this, from, now, server = server_now_()](const Result<kube::LeaseSigns>& signs) {
        if (signs && from == kube::ListFrom::Cache && !is_young(*signs, now)) {
          const kube::CallHandle ended = std::move(call_);
          list(kube::ListFrom::Store);
        } else {
          arrived(signs, now, server);
        }
      });
}

bool PeerLeaseReader::is_young(const kube::LeaseSigns& signs, Moment sent) const {
  const auto shown = revisions_.not_beyond(signs.version);
  return shown && sent - *shown <= kYoung + kReads * slowness_of(leadership_.limits());
}

void PeerLeaseReader::arrived(const Result<kube::LeaseSigns>& signs, Moment sent, WallTime server) {
  const kube::CallHandle ended = std::move(call_);
  if (signs) {
    peer_leases_.take(*signs, sent, server);
    good_ = sent;
  }
  const Result<void> outcome = signs ? Result<void>() : failure(signs.error());
  for (const Waiting& one : std::exchange(waiting_, {})) {
    if (!one.listener.expired()) {
      one.done(outcome);
    }
  }
}

bool PeerLeaseReader::is_alone_overdue(const NodeName& node) const {
  return peer_leases_.is_overdue(node) &&
         peer_leases_.are_others_on_time(
             node, [this](const NodeName& name) { return standing_(name) != nullptr; });
}

PeerLeaseReader::Silent PeerLeaseReader::silent_beside(const kube::Lease* lease,
                                                       Duration at_least) const {
  using Group = cluster::Standing::Group;
  Silent silent;
  silent.machines = peer_leases_.silent_beside(
      peer_leases_.silence_of(lease, at_least), [&](const NodeName& name) {
        const cluster::Standing* standing = standing_(name);
        const bool counts = standing != nullptr && standing->group != Group::None;
        silent.workers += counts && standing->group == Group::Worker ? 1 : 0;
        return counts;
      });
  return silent;
}

}  // namespace moonfence::fence
