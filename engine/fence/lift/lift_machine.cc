#include "fence/lift/lift_machine.h"

#include <algorithm>
#include <utility>

#include "cluster/nodes/ready_condition.h"
#include "fence/rules/hold_annotations.h"

namespace moonfence::fence {

bool LiftMachine::is_looked_at() const {
  return state_ == State::Reading || state_ == State::Searching || state_ == State::Confirming ||
         state_ == State::Lifting;
}

LiftMachine::Effects LiftMachine::wake() {
  if (state_ != State::Asleep) {
    return {};
  }
  state_ = State::Queued;
  return {Queue{}};
}

LiftMachine::Effects LiftMachine::sleep() {
  if (state_ == State::Asleep) {
    return {};
  }
  state_ = State::Asleep;
  stamp_.reset();
  word_.reset();
  doubts_ = 0;
  retries_ = 0;
  return {Stop{}};
}

LiftMachine::Effects LiftMachine::admitted() {
  if (state_ != State::Queued) {
    return {};
  }
  state_ = State::Reading;
  return {Read{}};
}

LiftMachine::Effects LiftMachine::read(const std::optional<kube::Node>& node, Moment now,
                                       const std::optional<std::string>& hold) {
  if (state_ != State::Reading && state_ != State::Confirming) {
    return {};
  }
  if (!node || cluster::readiness_of(*node) != cluster::Readiness::True) {
    stamp_.reset();
    word_.reset();
    return rest();
  }
  if (hold) {
    word_.reset();
    Effects effects = rest_for(kHoldPause);
    effects.insert(effects.begin(), Keep{{Doubt::Kind::Held, "somebody holds the node: " + *hold}});
    return effects;
  }
  return judge(*node, now);
}

LiftMachine::Effects LiftMachine::judge(const kube::Node& node, Moment now) {
  bool marked = false;
  bool rebooted = true;
  for (const OwnTaint taint : {OwnTaint::Fenced, OwnTaint::OutOfService}) {
    const std::string& text = mark_text(node, taint);
    if (text.empty()) {
      continue;
    }
    const auto mark = read_mark(text);
    if (!mark) {
      return keep({Doubt::Kind::MarkUnclear,
                   "its annotation moonfence.io/" +
                       std::string(taint == OwnTaint::Fenced ? "fenced" : "out-of-service") +
                       " cannot be read. Make sure that nothing of the old pods runs there and "
                       "take the annotation and the taint off"},
                  now);
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
  return search({.kubelet = false, .storage = true});
}

LiftMachine::Effects LiftMachine::watch(const kube::Node& node, Moment now) {
  const Stamp stamp = {
      .uid = node.uid, .boot_id = node.boot_id, .ready_since = node.ready->last_transition_time};
  if (stamp_ != stamp) {
    stamp_ = stamp;
    since_ = now;
    word_.reset();
    state_ = State::Reading;
  }
  if (now - since_ < kReadyFor) {
    return rest_for(kReadyFor - (now - since_));
  }
  if (state_ == State::Confirming && scope_.kubelet) {
    return lift("the kubelet is back, and nothing of what was there before is left");
  }
  if (word_ && now - word_->heard < kApart) {
    return rest_for(kApart - (now - word_->heard));
  }
  return search({.kubelet = true, .storage = word_.has_value()});
}

LiftMachine::Effects LiftMachine::search(Scope scope) {
  scope_ = scope;
  state_ = State::Searching;
  return {Search{scope}};
}

LiftMachine::Effects LiftMachine::searched(const Finding& finding, Moment now) {
  if (state_ != State::Searching) {
    return {};
  }
  if (finding.doubt) {
    return keep(*finding.doubt, now);
  }
  if (scope_.kubelet) {
    if (!finding.kubelet_started) {
      return keep({Doubt::Kind::KubeletSilent, "its kubelet was not asked what still runs there"},
                  now);
    }
    // The start is computed anew for each answer, from when the machine was booted, in seconds.
    constexpr Duration kSame = std::chrono::seconds(2);
    const bool again = scope_.storage && word_ &&
                       *finding.kubelet_started - word_->started <= kSame &&
                       word_->started - *finding.kubelet_started <= kSame;
    if (!again) {
      word_ = Word{.heard = now, .started = *finding.kubelet_started};
      doubts_ = 0;
      return rest_for(kApart);
    }
  }
  state_ = State::Confirming;
  return {Read{}};
}

LiftMachine::Effects LiftMachine::keep(Doubt doubt, Moment now) {
  word_.reset();
  Effects effects = awaits_an_end(doubt.kind)
                        ? rest_for(now - since_ < kSlowly ? kWhileEnding : kWhileEndingSlowly)
                        : rest();
  effects.insert(effects.begin(), Keep{std::move(doubt)});
  return effects;
}

LiftMachine::Effects LiftMachine::lifted(bool done, bool again) {
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

LiftMachine::Effects LiftMachine::timer_fired() {
  if (state_ != State::Resting) {
    return {};
  }
  state_ = State::Queued;
  return {Queue{}};
}

LiftMachine::Effects LiftMachine::rest() {
  const Duration pause = std::min(kFirstPause * (1 << std::min(doubts_, 8U)), kLongestPause);
  ++doubts_;
  return rest_for(pause);
}

LiftMachine::Effects LiftMachine::rest_for(Duration pause) {
  state_ = State::Resting;
  return {SetTimer{pause}};
}

LiftMachine::Effects LiftMachine::lift(std::string why) {
  state_ = State::Lifting;
  return {Lift{std::move(why)}};
}

}  // namespace moonfence::fence
