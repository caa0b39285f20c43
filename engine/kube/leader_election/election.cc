#include "kube/leader_election/election.h"

#include <algorithm>
#include <utility>

#include "kube/wire/list_plan.h"

namespace moonfence::kube {
namespace {

// client-go's JitterFactor: candidates that started together drift apart.
constexpr double kJitter = 1.2;

// How often a Lease is tried to be freed over what we ourselves had written meanwhile.
constexpr int kMostFrees = 3;

// MicroTime has no finer digits; what we compare must survive the trip.
WallTime as_written(WallTime time) {
  return std::chrono::floor<std::chrono::microseconds>(time);
}

// How long a free Lease is left to replicas that sit better: they look twice a second or oftener.
Duration deference(Seat seat) {
  switch (seat) {
    case Seat::Well:
      return Duration::zero();
    case Seat::Leaving:
      return std::chrono::seconds(3);
    case Seat::Down:
      return std::chrono::seconds(6);
  }
  return Duration::zero();
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
  // One that is being freed may be another's before we hear that it is free.
  return state_ == State::Leading ? held_until_ : std::nullopt;
}

// Only the leader asks health sources: what they call its own node it has to say itself.
constexpr const char* kSitsDown = " down";

Seat Election::seat_of(const std::string& node) const {
  return seats_.seat_of && !node.empty() ? seats_.seat_of(node) : Seat::Well;
}

// A note of somebody who held it before says nothing.
Seat Election::seat_of_holder() const {
  const std::string& note = lease_ ? lease_->notes.seat : identity_;
  const std::string prefix = seen_.holder + " ";
  if (seen_.holder.empty() || !note.starts_with(prefix)) {
    return Seat::Well;
  }
  return note.ends_with(kSitsDown) ? Seat::Down : seat_of(note.substr(prefix.size()));
}

LeaseNotes Election::own_notes() const {
  LeaseNotes notes;
  if (!seats_.node.empty()) {
    const bool knows_better = state_ == State::Leading && seat() == Seat::Down;
    notes.seat = identity_ + " " + seats_.node + (knows_better ? kSitsDown : "");
  }
  // Who asked in vain, because by what we know our node is well, asks again if he knows better.
  notes.wanted_by = lease_ && wanted_ ? lease_->notes.wanted_by : "";
  return notes;
}

Election::Effects Election::start() {
  return {Read{}};
}

Election::Effects Election::wait(Duration delay, double chance) {
  const double stretched = static_cast<double>(delay.count()) * (1 + kJitter * chance);
  return {SetTimer{Duration(static_cast<Duration::rep>(stretched))}};
}

Election::Effects Election::follow(std::optional<Moment> free_at, Moment now, double chance) {
  Effects effects = wait(rules_.retry / 2, chance / 6);
  auto& timer = std::get<SetTimer>(effects.front());
  if (free_at && *free_at > now) {
    timer.delay = std::min(timer.delay, *free_at - now);
  }
  return effects;
}

Election::Effects Election::timer_fired(Moment now, WallTime wall, double /*chance*/) {
  switch (state_) {
    case State::Following:
      return {Read{}};
    case State::Leading:
      if (is_past_deadline(now)) {
        return lose("the Lease could be neither renewed nor read in time", now, 0);
      }
      if (writing_ > 0) {
        return look_beside(now);
      }
      return tried_ ? Effects{Read{}} : renew(now, wall);
    case State::Taking:
      return look_beside(now);
    case State::Releasing:
    case State::Stopped:
      return {};
  }
  return {};
}

Election::Effects Election::look_beside(Moment now) {
  Effects effects = {Read{}};
  if (writing_ == 1 && tried_ && now - tried_at_ >= 2 * rules_.retry) {
    ++writing_;
    // Over the very version that the first is over: what was written meanwhile stands.
    effects.emplace_back(Write{.record = *tried_, .over = tried_over_, .notes = own_notes()});
  }
  return effects;
}

// What was seen before is not the past of this one.
bool Election::went_back(const std::optional<Lease>& lease) const {
  if (!lease_ || !lease || lease->uid != lease_->uid) {
    return lease_.has_value();
  }
  const auto order = compare_versions(lease->version, lease_->version);
  return order && *order == std::strong_ordering::less;
}

void Election::observe(const std::optional<Lease>& lease, Moment now) {
  const LeaseRecord record = lease ? lease->record : LeaseRecord{};
  // While our own term lasts nobody else can have held it.
  if (went_back(lease) && !(state_ == State::Leading && held_until_ && now < *held_until_)) {
    lost_until_ = now + kLongestTerm;
  }
  if (!seen_any_ || record != seen_) {
    seen_since_ = now;
  }
  seen_any_ = true;
  seen_ = record;
  lease_ = lease;
  deposed_ = deposed_ && record.holder == identity_;
}

Election::Effects Election::read(const std::optional<Lease>& lease, Moment sent, Moment now,
                                 WallTime wall, double chance) {
  if (state_ == State::Releasing) {
    observe(lease, now);
    return loss() ? freed(now, chance) : free(wall);
  }
  if (state_ == State::Stopped || (state_ == State::Leading && sent < answered_at_)) {
    return {};  // what it shows may be older than what we wrote
  }
  if (tried_ && lease && lease->record == *tried_) {
    const LeaseRecord ours = *std::exchange(tried_, std::nullopt);
    writing_ = 0;
    observe(lease, now);
    return lead(std::max(tried_at_, not_before_), ours.duration, now, chance);
  }
  const bool is_as_before = lease.has_value() == tried_over_.has_value() &&
                            (!lease || lease->version == tried_over_->version);
  observe(lease, now);
  if (writing_ > 0 && tried_ && is_as_before) {  // not done yet
    not_before_ = sent;
    held_at_ = state_ == State::Leading ? sent : held_at_;
    return {SetTimer{rules_.retry}};
  }
  if (writing_ > 0 && state_ != State::Leading) {
    return {SetTimer{rules_.retry}};  // what it comes to decides
  }
  if (writing_ == 0) {
    tried_.reset();
  }
  held_at_ = state_ == State::Leading && !loss() ? sent : held_at_;
  return judge(now, wall, chance);
}

std::optional<std::string> Election::loss() const {
  if (lease_.has_value() && seen_.holder == identity_) {
    return std::nullopt;
  }
  return seen_.holder.empty() ? "the Lease was taken from us" : seen_.holder + " holds it";
}

Election::Effects Election::judge(Moment now, WallTime wall, double chance) {
  if (state_ != State::Leading) {
    return judge_free(now, wall, chance);
  }
  if (const auto why = loss()) {
    return lose(*why, now, chance);
  }
  const bool was_wanted = wanted_;
  wanted_ = was_wanted || (!lease_->notes.wanted_by.empty() && seat() != Seat::Well);
  if (wanted_ && !was_wanted) {
    return {SetTimer{rules_.retry}, Wanted{}};  // a renewal would race with freeing it
  }
  return writing_ > 0 ? Effects{SetTimer{rules_.retry}} : renew(now, wall);  // over the newest
}

Election::Effects Election::judge_free(Moment now, WallTime wall, double chance) {
  state_ = State::Following;
  const bool ours = lease_.has_value() && seen_.holder == identity_;
  const bool unwanted = !seen_.preferred_holder.empty() && seen_.preferred_holder != identity_;
  Moment free_at = seen_since_ + (seen_.holder.empty() ? Duration::zero() : seen_.duration);
  free_at = ours ? now : free_at + deference(seat());
  free_at = std::max(free_at, lost_until_);
  if (unwanted || now < free_at) {
    const bool asks = !unwanted && !seen_.holder.empty() && seat_of_holder() > seat() &&
                      lease_->notes.wanted_by.empty();
    return asks ? ask() : follow(free_at, now, chance);
  }
  state_ = State::Taking;
  LeaseRecord record = seen_;
  record.holder = identity_;
  record.acquired = as_written(wall);
  record.renewed = record.acquired;
  record.transitions += lease_ && !ours ? 1 : 0;
  return write(std::move(record), now);
}

// The record stays as it is: whoever counts how long it has not changed goes on counting.
Election::Effects Election::ask() {
  LeaseNotes notes = lease_->notes;
  notes.wanted_by = identity_;
  ++writing_;
  return {Write{.record = seen_, .over = lease_, .notes = std::move(notes)}};
}

Election::Effects Election::renew(Moment now, WallTime wall) {
  LeaseRecord record = seen_;
  record.renewed = as_written(wall);
  if (record.renewed == seen_.renewed) {  // whose write it was is told by its stamp
    *record.renewed += std::chrono::microseconds(1);
  }
  return write(std::move(record), now);
}

Election::Effects Election::write(LeaseRecord record, Moment now) {
  // What was begun under a longer term may be under way until its end: a shorter one must free
  // nobody before. That holds also while the answer to this write is unheard of.
  tried_until_ = std::max(now + term_, leading_until().value_or(now));
  record.duration = std::chrono::ceil<std::chrono::seconds>(tried_until_ - now);
  tried_ = record;
  tried_over_ = lease_;
  tried_at_ = now;
  term_at_trial_ = term_;
  not_before_ = {};
  ++writing_;
  return {Write{.record = std::move(record), .over = lease_, .notes = own_notes()},
          SetTimer{rules_.retry}};
}

Election::Effects Election::read_failed(Moment now, double chance) {
  switch (state_) {
    case State::Leading:
      if (is_past_deadline(now)) {
        return lose("the Lease could not be read in time", now, chance);
      }
      return {SetTimer{rules_.retry}};
    case State::Taking:
      return {SetTimer{rules_.retry}};
    case State::Following:
      return wait(4 * rules_.retry, chance);  // nobody could be followed either
    case State::Releasing:
      return writing_ > 0 ? Effects{} : freed(now, chance);
    case State::Stopped:
      return {};
  }
  return {};
}

Election::Effects Election::written(const Lease& lease, Moment sent, Moment now, double chance) {
  writing_ = 0;
  if (state_ == State::Releasing) {
    return freed(now, chance);
  }
  if (state_ == State::Stopped) {
    return {};
  }
  const auto tried = std::exchange(tried_, std::nullopt);
  if (!tried) {  // we asked for it
    observe(lease, now);
    return follow(std::nullopt, now, chance);
  }
  // An answer that does not say what we wrote proves nothing.
  if (lease.record.holder != tried->holder || lease.record.renewed != tried->renewed) {
    return {Read{}};
  }
  observe(lease, now);
  answered_at_ = now;
  return lead(std::max(sent, not_before_), tried->duration, now, chance);
}

Election::Effects Election::lead(Moment from, Duration term, Moment now, double chance) {
  const bool is_new = state_ != State::Leading;
  if (!seen_.preferred_holder.empty() && seen_.preferred_holder != identity_ && !is_new) {
    return lose(seen_.preferred_holder + " is preferred", now, chance);
  }
  if (is_new && now - from >= term) {
    state_ = State::Following;  // by now somebody else may have it
    return {Read{}};
  }
  state_ = State::Leading;
  // Others count the whole of it from when they see it; we, no more than we promised.
  held_until_ = std::max(from + term_at_trial_, tried_until_);
  held_term_ = term;
  held_at_ = from;
  Effects effects;
  if (is_new) {
    wanted_ = false;
    effects.emplace_back(Lead{});
  }
  // What took long is begun anew at once.
  effects.emplace_back(
      SetTimer{now - tried_at_ >= 2 * rules_.retry ? Duration::zero() : rules_.retry});
  return effects;
}

Election::Effects Election::lose(std::string why, Moment /*now*/, double chance) {
  state_ = State::Following;
  held_until_.reset();
  tried_.reset();
  writing_ = 0;
  wanted_ = false;
  Effects effects = wait(2 * rules_.retry, chance);
  effects.insert(effects.begin(), Lose{std::move(why)});
  return effects;
}

Election::Effects Election::write_failed(const Error& error, Moment now, double chance) {
  if (state_ == State::Stopped) {
    return {};
  }
  writing_ = std::max(0, writing_ - 1);
  if (state_ == State::Releasing) {
    if (writing_ > 0) {
      return {};
    }
    // A renewal that was under way was done first: it is freed over that one.
    return error.kind == Error::Kind::Conflict && ++frees_ < kMostFrees
               ? Effects{Read{}}
               : freed(now, chance);  // it runs out by itself
  }
  if (error.kind == Error::Kind::NotFound && !tried_over_ && writing_ == 0) {
    tried_.reset();  // there is no namespace to create it in
    state_ = State::Following;
    return wait(4 * rules_.retry, chance);
  }
  if (error.kind == Error::Kind::Conflict || error.kind == Error::Kind::NotFound) {
    return {Read{}};  // it was not done; or it was, and this was the second of its kind
  }
  if (writing_ > 0) {
    return {};
  }
  if (error.kind != Error::Kind::Unknown) {
    tried_.reset();
  }
  if (state_ == State::Leading) {
    return is_past_deadline(now) ? lose("the Lease could not be renewed in time", now, chance)
                                 : Effects{SetTimer{rules_.retry}};
  }
  state_ = State::Following;
  return wait(2 * rules_.retry, chance);
}

Election::Effects Election::deposed(Moment now, double chance) {
  if (state_ != State::Leading || std::exchange(deposed_, true)) {
    return {};
  }
  return lose("the API server says that another one leads", now, chance);
}

Election::Effects Election::free(WallTime wall) {
  state_ = State::Releasing;
  LeaseRecord record = seen_;
  record.holder.clear();
  record.duration = std::chrono::seconds(1);  // as client-go does: also old readers take it soon
  record.renewed = as_written(wall);
  record.acquired = record.renewed;
  writing_ = 1;
  return {Write{.record = record, .over = lease_}};
}

Election::Effects Election::freed(Moment now, double chance) {
  held_until_.reset();
  tried_.reset();
  writing_ = 0;
  if (!std::exchange(returns_, false)) {
    state_ = State::Stopped;
    return {Released{}};
  }
  seen_any_ = false;
  return lose("handed over: our node is not well", now, chance);
}

Election::Effects Election::hand_over(WallTime wall) {
  if (state_ != State::Leading) {
    return {};
  }
  returns_ = true;
  frees_ = 0;
  return free(wall);
}

Election::Effects Election::release(WallTime wall) {
  returns_ = false;
  if (state_ == State::Leading) {
    frees_ = 0;
    return free(wall);
  }
  if (state_ == State::Releasing) {
    return {};
  }
  state_ = State::Stopped;
  return {Released{}};
}

}  // namespace moonfence::kube
