#include "fence/rules/self_doubt.h"

#include <algorithm>
#include <utility>

namespace moonfence::fence {

namespace {

constexpr Duration kBucket = std::chrono::seconds(1);

}  // namespace

void SelfDoubt::call_ended(bool failed, Moment now) {
  if (calls_.empty() || now >= calls_.back().since + kBucket) {
    calls_.push_back({.since = now});
  }
  ++calls_.back().all;
  calls_.back().failed += failed ? 1 : 0;
  while (now - calls_.front().since > rules_.window) {
    calls_.pop_front();
  }
}

SelfDoubt::Outcome SelfDoubt::look(const Signs& signs, Moment now) {
  Outcome outcome;
  const std::set<Cause> last = std::exchange(present_, causes_of(signs, now));
  looked_ = now;
  bool lasts = false;
  for (const Cause cause : present_) {
    if (!last.contains(cause) || cause == Cause::Stopped) {
      outcome.begun.insert(cause);
    }
    // Having been stopped is over when it is noticed, and an unseen node when all are listed.
    lasts = lasts || (cause != Cause::Stopped && cause != Cause::NodesUnwatched);
  }
  if (!present_.empty()) {
    causes_ = present_;
  }
  outage_ = outage_ || present_.contains(Cause::CallsFail) ||
            present_.contains(Cause::RenewsLate) ||
            present_.contains(Cause::WentBack);  // no kubelet has renewed in this one yet
  if (lasts) {
    state_ = State::Doubting;
    return outcome;
  }
  if (state_ == State::Doubting || present_.contains(Cause::Stopped) ||
      (state_ == State::Trusting && !present_.empty())) {
    state_ = State::CatchingUp;
    lists_before_ = signs.node_lists;
    outcome.list_nodes = true;
  }
  if (state_ == State::CatchingUp && present_.empty() && signs.node_lists > lists_before_) {
    state_ = State::Trusting;
    causes_.clear();
    outcome.trusts_again = true;
    if (std::exchange(outage_, false)) {
      outage_ended_ = now;
    }
  }
  return outcome;
}

std::optional<SelfDoubt::Cause> SelfDoubt::cause(Moment now) const {
  if (!looked_ || now - *looked_ > rules_.longest_pause) {
    return Cause::Stopped;
  }
  return causes_.empty() ? std::nullopt : std::optional(*causes_.begin());
}

std::set<SelfDoubt::Cause> SelfDoubt::causes_of(const Signs& signs, Moment now) {
  std::set<Cause> causes;
  if (looked_ && now - *looked_ > rules_.longest_pause) {
    causes.insert(Cause::Stopped);
  }
  if (calls_fail(now)) {
    causes.insert(Cause::CallsFail);
  }
  if (signs.nodes_silent > (signs.nodes_watched ? rules_.longest_silence : rules_.longest_gap)) {
    causes.insert(Cause::NodesUnwatched);
  }
  if (signs.policies_silent && *signs.policies_silent > rules_.longest_unverified) {
    causes.insert(Cause::PoliciesUnwatched);
  }
  if (signs.went_back) {
    causes.insert(Cause::WentBack);
  }
  if (signs.term &&
      *signs.term - signs.term_left > std::max<Duration>(*signs.term / 2, rules_.latest_renewal)) {
    causes.insert(Cause::RenewsLate);
  }
  return causes;
}

bool SelfDoubt::calls_fail(Moment now) {
  std::int64_t all = 0;
  std::int64_t failed = 0;
  for (const Calls& calls : calls_) {
    if (now - calls.since <= rules_.window) {
      all += calls.all;
      failed += calls.failed;
    }
  }
  return all >= rules_.fewest_calls && failed * 2 > all;
}

std::string_view to_string(SelfDoubt::Cause cause) {
  switch (cause) {
    case SelfDoubt::Cause::Stopped:
      return "stopped";
    case SelfDoubt::Cause::CallsFail:
      return "calls_fail";
    case SelfDoubt::Cause::NodesUnwatched:
      return "nodes_unwatched";
    case SelfDoubt::Cause::PoliciesUnwatched:
      return "policies_unwatched";
    case SelfDoubt::Cause::WentBack:
      return "went_back";
    case SelfDoubt::Cause::RenewsLate:
      return "renews_late";
  }
  return "stopped";
}

}  // namespace moonfence::fence
