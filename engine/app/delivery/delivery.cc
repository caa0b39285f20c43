#include "app/delivery/delivery.h"

#include <algorithm>
#include <utility>

namespace moonfence::app {

std::string_view to_string(Delivery::Loss why) {
  switch (why) {
    case Delivery::Loss::Full:
      return "full";
    case Delivery::Loss::TooOld:
      return "too_old";
    case Delivery::Loss::Refused:
      return "refused";
    case Delivery::Loss::Unwanted:
      return "unwanted";
    case Delivery::Loss::SteppedDown:
      break;
  }
  return "stepped_down";
}

Delivery::Delivery(Surroundings around, Manner manner)
    : around_(std::move(around)), manner_(std::move(manner)) {
  for (const Loss why :
       {Loss::Full, Loss::TooOld, Loss::Refused, Loss::Unwanted, Loss::SteppedDown}) {
    counts_.lost[why] = 0;
  }
}

void Delivery::lead() {
  leads_ = true;
  if (unwanted_until_) {
    unwanted_until_.reset();
    problem_.clear();
  }
}

void Delivery::step_down() {
  leads_ = false;
  next_.cancel();
  call_.reset();
  drop_all(Loss::SteppedDown);
  pause_ = Duration::zero();
  is_put_off_ = false;
  loss_.clear();
  if (!unwanted_until_) {
    problem_.clear();
  }
}

Delivery::Counts Delivery::counts() const {
  Counts counts = counts_;
  counts.waiting = queue_.size();
  return counts;
}

std::string Delivery::problem() const {
  return problem_ + (problem_.empty() || loss_.empty() ? "" : "; ") + loss_;
}

bool Delivery::is_unwanted() const {
  return unwanted_until_ && around_.loop.now() < *unwanted_until_;
}

void Delivery::add(Message message) {
  if (!leads_) {
    return;
  }
  if (is_unwanted() || message.body.size() > manner_.limits.bytes) {
    lose(is_unwanted() ? Loss::Unwanted : Loss::Full);
    return;
  }
  unwanted_until_.reset();
  make_room(message.body.size());
  bytes_ += message.body.size();
  queue_.push_back({.message = std::move(message), .since = around_.loop.now()});
  if (call_ == nullptr && !next_.pending()) {
    next_later(Duration::zero());
  }
}

// The one that is under way stays: it may have arrived.
void Delivery::make_room(std::size_t bytes) {
  const Limits& limits = manner_.limits;
  while (!queue_.empty() && (queue_.size() >= limits.messages || bytes_ + bytes > limits.bytes)) {
    const auto oldest = queue_.begin() + (call_ != nullptr && queue_.size() > 1 ? 1 : 0);
    const auto minor = std::find_if(oldest, queue_.end(),
                                    [](const Waiting& each) { return !each.message.matters; });
    const auto place = minor == queue_.end() ? oldest : minor;
    if (place == queue_.begin()) {
      call_.reset();
    }
    bytes_ -= place->message.body.size();
    queue_.erase(place);
    lose(Loss::Full);
  }
}

void Delivery::next_later(Duration pause) {
  next_ = around_.loop.after(pause, [this] { next(); });
}

void Delivery::next() {
  const Moment now = around_.loop.now();
  while (!queue_.empty() && now - queue_.front().since >= manner_.limits.age) {
    drop_first(Loss::TooOld);
  }
  if (!leads_ || queue_.empty() || call_ != nullptr) {
    is_put_off_ = false;
    return;
  }
  if (around_.is_acting()) {
    if (!std::exchange(is_put_off_, true)) {
      put_off_until_ = now + kGiveWay;
    }
    if (now < put_off_until_) {
      next_later(kLookAgain);
      return;
    }
  }
  is_put_off_ = false;
  attempt();
}

void Delivery::attempt() {
  const Waiting& first = queue_.front();
  auto headers = manner_.stamp ? manner_.stamp(first.message) : std::vector<port::Header>();
  if (!headers) {
    failed(std::move(headers.error()).within(manner_.name));
    return;
  }
  call_ = around_.sender.send({.body = first.message.body,
                               .content_type = first.message.content_type,
                               .headers = *std::move(headers),
                               .may_send = around_.may_send,
                               .heard = manner_.heard},
                              [this](const Result<void>& outcome) { attempted(outcome); });
}

void Delivery::attempted(const Result<void>& outcome) {
  if (outcome) {
    taken();
  } else {
    failed(outcome.error());
  }
  call_.reset();  // last: it is what called us
}

void Delivery::taken() {
  ++counts_.delivered;
  bytes_ -= queue_.front().message.body.size();
  queue_.pop_front();
  pause_ = Duration::zero();
  if (!std::exchange(problem_, "").empty()) {
    around_.log.info("delivery_works_again",
                     {{"to", manner_.name}, {"waiting", static_cast<std::int64_t>(queue_.size())}});
  }
  if (queue_.empty()) {
    loss_.clear();
  } else {
    next_later(Duration::zero());
  }
}

void Delivery::failed(const Error& error) {
  if (error.kind == Error::Kind::Cancelled) {
    next_later(kFirstPause);  // it was not ours to send any more
    return;
  }
  ++counts_.failed_attempts;
  const bool was_well = problem_.empty();
  problem_ = error.message();
  const Refusal refusal = error.http_status == 0 || manner_.refusal_of == nullptr
                              ? Refusal::ForNow
                              : manner_.refusal_of(error.http_status);
  if (refusal == Refusal::ForEver) {
    unwanted_until_ = around_.loop.now() + kUnwanted;
    problem_ += ": the receiver wants no more messages; this replica sends none for a day";
  }
  if (was_well || unwanted_until_) {
    around_.log.warning("delivery_fails", {{"to", manner_.name}, {"text", problem_}});
  }
  refused(refusal);
  if (!queue_.empty()) {
    next_later(pause_after(error));
  }
}

Duration Delivery::pause_after(const Error& error) {
  pause_ = pause_ == Duration::zero() ? kFirstPause : std::min(pause_ * 2, kLongestPause);
  const auto more =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double, Duration::period>(
          static_cast<double>(pause_.count()) / 2 * around_.random.unit()));
  return std::max(pause_ + more, error.retry_after.value_or(Duration::zero()));
}

void Delivery::refused(Refusal refusal) {
  if (refusal == Refusal::ForEver) {
    drop_all(Loss::Unwanted);
    return;
  }
  if (refusal == Refusal::ForNow || ++queue_.front().refusals < manner_.tries_of_refused) {
    return;
  }
  if (refusal == Refusal::OfMessage) {
    drop_first(Loss::Refused);
    return;
  }
  queue_.front().refusals = 0;
  queue_.push_back(std::move(queue_.front()));
  queue_.pop_front();
}

void Delivery::drop_first(Loss why) {
  bytes_ -= queue_.front().message.body.size();
  queue_.pop_front();
  lose(why);
}

void Delivery::drop_all(Loss why) {
  const std::size_t messages = queue_.size();
  queue_.clear();
  bytes_ = 0;
  lose(why, messages);
}

void Delivery::lose(Loss why, std::size_t messages) {
  counts_.lost[why] += messages;
  // Of the others the log has the cause.
  const bool is_told = why == Loss::Full || why == Loss::TooOld || why == Loss::Refused;
  if (!is_told || !loss_.empty()) {
    return;
  }
  loss_ = "messages were lost (" + std::string(to_string(why)) + ")";
  around_.log.warning("delivery_loses", {{"to", manner_.name},
                                         {"reason", to_string(why)},
                                         {"waiting", static_cast<std::int64_t>(queue_.size())}});
}

}  // namespace moonfence::app
