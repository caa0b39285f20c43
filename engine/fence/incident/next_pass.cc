#include "fence/incident/next_pass.h"

#include <algorithm>

#include "base/check.h"

namespace moonfence::fence {

bool has_failed(const PassResult& result) {
  return result.failed > 0 || !result.held_by_failure.empty();
}

void NextPass::pass_acts(Moment started, Moment now) {
  first_acting_ = first_acting_.value_or(started);
  acts_since_ = acts_since_.value_or(now);
}

// One that looks after others begins no further looks.
void NextPass::note_deletions(const PassResult& result) {
  if (result.deleted > 0 && !looking_) {
    looks_left_ = rules_.looks.size();
  }
}

std::optional<Moment> NextPass::after(Moment started, const PassResult& result, bool fell_silent,
                                      Moment now) {
  std::optional<Moment> next = retry(started, result, now);
  if (!next || retry_pause_ != Duration::zero()) {
    first_acting_.reset();  // the next pass has its own window, or none
  }
  const auto look_by = [&next](Moment moment) { next = std::min(next.value_or(moment), moment); };
  if (result.look_again) {
    look_by(now + *result.look_again);
  }
  if (result.look_at) {
    look_by(*result.look_at);
  }
  if (result.unreadable) {
    look_by(now + unreadable_pause());
  } else {
    unreadable_ = 0;
  }
  if (fell_silent) {
    look_by(now + rules_.taint_poll);
  }
  return look(result, next, now);
}

std::optional<Moment> NextPass::retry(Moment started, const PassResult& result, Moment now) {
  MOONFENCE_CHECK(first_acting_.has_value());
  const Moment asked = now + result.retry_after.value_or(Duration::zero());
  if (!has_failed(result)) {
    retry_pause_ = {};
    const Moment retry = std::max(started + rules_.retry.interval, asked);
    const bool inside = retry < *first_acting_ + rules_.retry.window;
    return result.failed_observing > 0 && inside ? std::optional(retry) : std::nullopt;
  }
  return rules_.retry.next(retry_pause_, started, *first_acting_, asked);
}

// `next`, or an earlier look.
std::optional<Moment> NextPass::look(const PassResult& result, const std::optional<Moment>& next,
                                     Moment now) {
  looking_ = false;
  // Where something failed the lists are read again soon enough, or were for long enough.
  if (looks_left_.value_or(0) == 0 || has_failed(result) || result.unreadable) {
    return next;
  }
  const Moment look = now + rules_.looks[rules_.looks.size() - *looks_left_];
  if (next && *next <= look) {
    return next;
  }
  --*looks_left_;
  looking_ = true;
  return look;
}

std::optional<Moment> NextPass::last_look(Moment now) const {
  const Moment due = *acts_since_ + rules_.looks.back();
  return looks_left_ || now >= due ? std::nullopt : std::optional(due);
}

Moment NextPass::after_unreadable(std::optional<Moment> unused_since, Moment now) {
  const Moment next = now + unreadable_pause();
  if (unused_since) {  // windows stand still meanwhile
    unread_ += next - *unused_since;
    if (first_acting_) {
      *first_acting_ += next - *unused_since;
    }
  }
  return next;
}

Duration NextPass::unreadable_pause() {
  const Duration doubled = rules_.retry.interval * (1 << std::min(unreadable_, 8U));
  ++unreadable_;
  return std::min(doubled, rules_.unreadable_interval_max);
}

void NextPass::end_pauses() {
  retry_pause_ = {};
  ++stretch_;
}

void NextPass::end_window() {
  first_acting_.reset();
  ++stretch_;
}

void NextPass::begin_anew() {
  looking_ = false;
  end_window();
  end_pauses();
}

void NextPass::keep_look() {
  if (looking_) {
    ++*looks_left_;
    looking_ = false;
  }
}

}  // namespace moonfence::fence
