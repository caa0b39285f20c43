#include "kube/leases/revisions.h"

#include <algorithm>
#include <compare>

#include "kube/leases/lease.h"
#include "kube/text/json.h"
#include "kube/wire/list_plan.h"

namespace moonfence::kube {
namespace {

constexpr Duration kLimit = std::chrono::seconds(5);

}  // namespace

bool Revisions::note(const ResourceVersion& reached, Moment sent, Moment arrived) {
  bool went_on = true;
  if (!reached_.empty()) {
    const auto order = compare_versions(reached, reached_.back().version);
    if (!order || *order < 0) {
      reached_.clear();
      went_on = false;
    } else if (*order == 0) {
      reached_.back().last = sent;
      return true;
    }
  }
  reached_.push_back({.version = reached, .at = arrived, .last = sent});
  // One that is older than needed stays: in a quiet store it is the newest for long.
  while (reached_.size() > 1 && arrived - reached_[1].at > kRemembered) {
    reached_.pop_front();
  }
  return went_on;
}

std::optional<Moment> Revisions::since(const ResourceVersion& version) const {
  const auto found = first_beyond(version, false);
  return found == reached_.end() ? std::nullopt : std::optional(found->at);
}

std::optional<Moment> Revisions::not_beyond(const ResourceVersion& version) const {
  return last_before(version, true);
}

std::optional<Moment> Revisions::last_before(const ResourceVersion& version, bool or_at) const {
  if (reached_.empty() || !compare_versions(reached_.back().version, version)) {
    return std::nullopt;
  }
  const auto found = first_beyond(version, or_at);
  return found == reached_.begin() ? std::nullopt : std::optional(std::prev(found)->last);
}

std::deque<Revisions::Reached>::const_iterator Revisions::first_beyond(
    const ResourceVersion& version, bool not_at) const {
  return std::partition_point(reached_.begin(), reached_.end(), [&](const Reached& reached) {
    const auto order = compare_versions(reached.version, version);
    return !order || *order < 0 || (not_at && *order == 0);
  });
}

bool Revisions::is_beyond(const ResourceVersion& version) const {
  return !reached_.empty() &&
         compare_versions(reached_.back().version, version).value_or(std::strong_ordering::less) >
             0;
}

// Of two answers that cross, the older one may come last: whether the store went back only says one
// that we ask for now.
void LeaseRevisions::heard(const ResourceVersion& reached, Moment sent) {
  if (revisions_.is_beyond(reached) || !revisions_.note(reached, sent, loop_.now())) {
    ask();
  } else if (problem_.empty()) {
    next_ = loop_.after(kEvery, [this] { ask(); });
  }
}

void LeaseRevisions::ask() {
  next_ = loop_.after(kEvery, [this] { ask(); });
  if (call_) {
    return;  // a slow one is waited for
  }
  ApiRequest request;
  request.path = *leases_path(Namespace("kube-node-lease"));
  request.query = {{"fieldSelector", "metadata.name=moonfence-compares-versions"}};
  request.timeout = kLimit;
  call_ = caller_.call(std::move(request), [this,
                                            sent = loop_.now()](const Result<ApiReply>& reply) {
    const CallHandle ended = std::move(call_);
    if (!reply) {
      if (problem_.empty()) {
        log_.warning("lease_versions_unreadable", {{"error", reply.error().message()}});
      }
      problem_ =
          "the versions of Leases cannot be read, so a kubelet is silent only when its Lease stood "
          "still before our eyes: " +
          reply.error().message();
      const Duration asked = reply.error().retry_after.value_or(Duration::zero());
      next_ = loop_.after(std::max(kAfterFailure, asked), [this] { ask(); });
      return;
    }
    problem_.clear();
    Fields fields(reply->body);
    const ResourceVersion version(fields.required({"metadata", "resourceVersion"}));
    if (!fields.fault() && !revisions_.note(version, sent, loop_.now())) {
      caller_.went_back();
    }
  });
}

}  // namespace moonfence::kube
