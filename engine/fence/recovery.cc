#include "fence/recovery.h"

#include <algorithm>
#include <utility>

#include "cluster/readiness.h"

namespace moonfence::fence {

bool Recovery::is_looked_at() const {
  return state_ == State::Reading || state_ == State::Searching || state_ == State::Confirming ||
         state_ == State::Lifting;
}

Recovery::Effects Recovery::wake() {
  if (state_ != State::Asleep) {
    return {};
  }
  state_ = State::Queued;
  return {Queue{}};
}

Recovery::Effects Recovery::sleep() {
  if (state_ == State::Asleep) {
    return {};
  }
  state_ = State::Asleep;
  stamp_.reset();
  doubts_ = 0;
  retries_ = 0;
  return {Stop{}};
}

Recovery::Effects Recovery::admitted() {
  if (state_ != State::Queued) {
    return {};
  }
  state_ = State::Reading;
  return {Read{}};
}

Recovery::Effects Recovery::read(const std::optional<kube::Node>& node, Moment now) {
  if (state_ != State::Reading && state_ != State::Confirming) {
    return {};
  }
  if (!node || cluster::readiness_of(*node) != cluster::Readiness::True) {
    stamp_.reset();
    return rest();
  }
  return judge(*node, now);
}

Recovery::Effects Recovery::judge(const kube::Node& node, Moment now) {
  bool marked = false;
  bool rebooted = true;
  for (const OwnTaint taint : {OwnTaint::Fenced, OwnTaint::OutOfService}) {
    const std::string& text = mark_text(node, taint);
    if (text.empty()) {
      continue;
    }
    const auto mark = read_mark(text);
    if (!mark) {
      return doubt("its annotation moonfence.io/" +
                   std::string(taint == OwnTaint::Fenced ? "fenced" : "out-of-service") +
                   " cannot be read");
    }
    marked = true;
    rebooted = rebooted && has_rebooted(node, *mark);
  }
  if (!marked) {
    return sleep();  // the watch will say so
  }
  if (!rebooted) {
    return watch(node, now);
  }
  if (node.out_of_service_mark.empty() || state_ == State::Confirming) {
    return lift("the node was booted again");
  }
  state_ = State::Searching;
  return {Search{}};
}

Recovery::Effects Recovery::watch(const kube::Node& node, Moment now) {
  const Stamp stamp = {
      .uid = node.uid, .boot_id = node.boot_id, .ready_since = node.ready->last_transition_time};
  if (stamp_ != stamp) {
    stamp_ = stamp;
    since_ = now;
    state_ = State::Reading;
  }
  if (now - since_ < kReadyFor) {
    state_ = State::Resting;
    return {SetTimer{kReadyFor - (now - since_)}};
  }
  if (state_ == State::Confirming) {
    return lift("the kubelet is back, and nothing of what was there before is left");
  }
  state_ = State::Searching;
  return {Search{}};
}

Recovery::Effects Recovery::searched(const std::string& doubt) {
  if (state_ != State::Searching) {
    return {};
  }
  if (doubt.empty()) {
    state_ = State::Confirming;
    return {Read{}};
  }
  return this->doubt(doubt);
}

Recovery::Effects Recovery::doubt(std::string why) {
  Effects effects = rest();
  effects.insert(effects.begin(), Doubt{std::move(why)});
  return effects;
}

Recovery::Effects Recovery::lifted(bool done, bool again) {
  if (state_ != State::Lifting) {
    return {};
  }
  if (done) {
    return sleep();
  }
  constexpr unsigned kRetries = 3;
  if (again && retries_ < kRetries) {
    ++retries_;
    state_ = State::Resting;
    return {SetTimer{std::chrono::seconds(1)}};
  }
  retries_ = 0;
  return rest();
}

Recovery::Effects Recovery::timer_fired() {
  if (state_ != State::Resting) {
    return {};
  }
  state_ = State::Queued;
  return {Queue{}};
}

Recovery::Effects Recovery::rest() {
  state_ = State::Resting;
  const Duration pause = std::min(kFirstPause * (1 << std::min(doubts_, 8U)), kLongestPause);
  ++doubts_;
  return {SetTimer{pause}};
}

Recovery::Effects Recovery::lift(std::string why) {
  state_ = State::Lifting;
  return {Lift{std::move(why)}};
}

}  // namespace moonfence::fence
