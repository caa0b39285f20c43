#include "fence/judge/failed_acts.h"

#include <algorithm>

namespace moonfence::fence {

using audit::Reason;

namespace {

// The server was asked.
bool is_of_server(Reason reason) {
  return reason == Reason::Refused || reason == Reason::Retryable ||
         reason == Reason::OutcomeLost || reason == Reason::NodeChanged ||
         reason == Reason::VersionUnknown;
}

}  // namespace

void FailedActs::begin_pass(const PassContext& context, Moment now) {
  if (stretch_ != context.stretch) {
    std::erase_if(failures_, [now](const auto& entry) { return entry.second.spared <= now; });
    refusals_.clear();
  }
  rules_ = context.retry;
  unread_ = context.unread;
  stretch_ = context.stretch;
  started_ = now;
}

void FailedActs::fail(const std::string& act, const std::string& what, const ActionOutcome& outcome,
                      PassResult& result, Moment now) {
  const bool was_asked = is_of_server(outcome.reason);
  if (was_asked) {
    refusals_.erase(act);
  }
  auto& acts = was_asked ? failures_ : refusals_;
  Failure& failure = acts.try_emplace(act, Failure{.first = started_ - unread_}).first->second;
  failure.text = outcome.about(what);
  failure.reason = outcome.reason;
  failure.spared = now + outcome.retry_after.value_or(Duration::zero());
  failure.again = rules_.next(failure.pause, started_, failure.first + unread_, failure.spared);
  result.fail(outcome.about(what), outcome.retry_after, outcome.reason);
  result.look_by(failure.again);
}

bool FailedActs::still_failed(const std::string& act, PassResult& result) const {
  const auto found = failures_.find(act);
  if (found == failures_.end() || started_ >= found->second.again) {
    return false;
  }
  const Failure& failure = found->second;
  result.fail(failure.text, failure.again - started_, failure.reason);
  result.look_by(failure.again);
  return true;
}

}  // namespace moonfence::fence
