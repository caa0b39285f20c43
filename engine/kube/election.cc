#include "kube/election.h"

#include <algorithm>
#include <utility>

namespace moonfence::kube {
namespace {

// client-go's JitterFactor: candidates that started together drift apart.
constexpr double kJitter = 1.2;

// MicroTime has no finer digits; what we compare must survive the trip.
WallTime as_written(WallTime time) {
  return std::chrono::floor<std::chrono::microseconds>(time);
}

}  // namespace

std::string_view to_string(Election::State state) {
  switch (state) {
    case Election::State::Following:
      return "following";
    case Election::State::Taking:
      return "taking";
    case Election::State::Leading:
      return "leading";
    case Election::State::Releasing:
      return "releasing";
    case Election::State::Stopped:
      return "stopped";
  }
  return "stopped";
}

std::optional<Moment> Election::leading_until() const {
  const bool holds = state_ == State::Leading || state_ == State::Releasing;
  return holds && sent_ ? std::optional(*sent_ + rules_.duration) : std::nullopt;
}

Election::Effects Election::start() {
  return {Read{}};
}

Election::Effects Election::wait(Duration delay, double chance) {
  const double stretched = static_cast<double>(delay.count()) * (1 + kJitter * chance);
  return {SetTimer{Duration(static_cast<Duration::rep>(stretched))}};
}

Election::Effects Election::timer_fired(Moment now, WallTime wall, double chance) {
  switch (state_) {
    case State::Following:
      return {Read{}};
    case State::Leading:
      if (now - *sent_ >= rules_.renew_deadline) {
        return lose("the Lease could not be renewed in time", now, chance);
      }
      return tried_ ? Effects{Read{}} : renew(now, wall);
    case State::Taking:
    case State::Releasing:
    case State::Stopped:
      return {};
  }
  return {};
}

void Election::observe(const std::optional<Lease>& lease, Moment now) {
  const LeaseRecord record = lease ? lease->record : LeaseRecord{};
  if (!seen_any_ || record != seen_) {
    seen_since_ = now;
  }
  seen_any_ = true;
  seen_ = record;
  lease_ = lease;
}

Election::Effects Election::read(const std::optional<Lease>& lease, Moment now, WallTime wall,
                                 double chance) {
  if (state_ == State::Releasing || state_ == State::Stopped) {
    return {};
  }
  observe(lease, now);
  if (tried_ && seen_ == *std::exchange(tried_, std::nullopt)) {
    return lead(tried_at_, now, chance);  // it was done after all
  }
  return judge(now, wall, chance);
}

Election::Effects Election::judge(Moment now, WallTime wall, double chance) {
  const bool ours = lease_.has_value() && seen_.holder == identity_;
  if (state_ == State::Leading) {
    if (!ours) {
      return lose(seen_.holder.empty() ? "the Lease was taken from us" : seen_.holder + " holds it",
                  now, chance);
    }
    return renew(now, wall);
  }
  const bool unwanted = !seen_.preferred_holder.empty() && seen_.preferred_holder != identity_;
  const bool free = seen_.holder.empty() || ours || now - seen_since_ >= seen_.duration;
  if (unwanted || !free) {
    state_ = State::Following;
    return wait(rules_.retry, chance);
  }
  state_ = State::Taking;
  LeaseRecord record = seen_;
  record.holder = identity_;
  record.duration = rules_.duration;
  record.acquired = as_written(wall);
  record.renewed = record.acquired;
  record.transitions += lease_ && !ours ? 1 : 0;
  tried_ = record;
  tried_at_ = now;
  return {Write{.record = record, .over = lease_}};
}

Election::Effects Election::renew(Moment now, WallTime wall) {
  LeaseRecord record = seen_;
  record.duration = rules_.duration;
  record.renewed = as_written(wall);
  tried_ = record;
  tried_at_ = now;
  return {Write{.record = record, .over = lease_}};
}

Election::Effects Election::read_failed(Moment now, double chance) {
  switch (state_) {
    case State::Leading:
      if (now - *sent_ >= rules_.renew_deadline) {
        return lose("the Lease could not be read in time", now, chance);
      }
      return wait(rules_.retry, 0);
    case State::Following:
    case State::Taking:
      state_ = State::Following;
      return wait(rules_.retry, chance);
    case State::Releasing:
    case State::Stopped:
      return {};
  }
  return {};
}

Election::Effects Election::written(const Lease& lease, Moment sent, Moment now, double chance) {
  tried_.reset();
  if (state_ == State::Releasing) {
    state_ = State::Stopped;
    sent_.reset();
    return {Released{}};
  }
  if (state_ == State::Stopped) {
    return {};
  }
  observe(lease, now);
  if (seen_.holder != identity_) {  // an answer that does not say what we wrote proves nothing
    return state_ == State::Leading ? lose("the answer names another holder", now, chance)
                                    : read_failed(now, chance);
  }
  return lead(sent, now, chance);
}

Election::Effects Election::lead(Moment sent, Moment now, double chance) {
  const bool is_new = state_ != State::Leading;
  // A late answer must not make the past look longer: it counts from when the request left.
  if (now - sent >= rules_.renew_deadline) {
    return is_new ? read_failed(now, chance) : lose("the Lease was renewed too late", now, chance);
  }
  if (!seen_.preferred_holder.empty() && seen_.preferred_holder != identity_ && !is_new) {
    return lose(seen_.preferred_holder + " is preferred", now, chance);
  }
  state_ = State::Leading;
  sent_ = sent;
  Effects effects;
  if (is_new) {
    effects.emplace_back(Lead{});
  }
  effects.emplace_back(SetTimer{rules_.retry});
  return effects;
}

Election::Effects Election::lose(std::string why, Moment /*now*/, double chance) {
  state_ = State::Following;
  sent_.reset();
  tried_.reset();
  Effects effects = wait(rules_.retry, chance);
  effects.insert(effects.begin(), Lose{std::move(why)});
  return effects;
}

Election::Effects Election::write_failed(const Error& error, Moment now, double chance) {
  if (state_ == State::Stopped) {
    return {};
  }
  if (state_ == State::Releasing) {
    state_ = State::Stopped;  // it runs out by itself
    sent_.reset();
    return {Released{}};
  }
  if (error.kind == Error::Kind::Conflict || error.kind == Error::Kind::NotFound) {
    tried_.reset();  // it was not done
    return {Read{}};
  }
  if (error.kind != Error::Kind::Unknown) {
    tried_.reset();
  }
  if (state_ == State::Taking) {
    state_ = State::Following;
    return wait(rules_.retry, chance);
  }
  if (now - *sent_ >= rules_.renew_deadline) {
    return lose("the Lease could not be renewed in time", now, chance);
  }
  return wait(rules_.retry, 0);
}

Election::Effects Election::deposed(Moment now, double chance) {
  return state_ == State::Leading ? lose("the API server says that another one leads", now, chance)
                                  : Effects{};
}

Election::Effects Election::release(WallTime wall) {
  const bool leads = state_ == State::Leading;
  state_ = leads ? State::Releasing : State::Stopped;
  if (!leads) {
    return {Released{}};
  }
  LeaseRecord record = seen_;
  record.holder.clear();
  record.duration = std::chrono::seconds(1);  // as client-go does: also old readers take it soon
  record.renewed = as_written(wall);
  record.acquired = record.renewed;
  return {Write{.record = record, .over = lease_}};
}

}  // namespace moonfence::kube
