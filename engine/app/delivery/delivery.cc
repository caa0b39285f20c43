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
}

void Delivery::step_down() {
  leads_ = false;
  next_.cancel();
  call_.reset();
  drop_all(Loss::SteppedDown);
  pause_ = Duration::zero();
  is_put_off_ = false;
  if (!is_unwanted_) {
    problem_.clear();
  }
}

Delivery::Counts Delivery::counts() const {
  Counts counts = counts_;
  counts.waiting = queue_.size();
  return counts;
}

void Delivery::add(Message message) {
  if (!leads_) {
    return;
  }
  if (is_unwanted_ || message.body.size() > manner_.limits.bytes) {
    ++counts_.lost[is_unwanted_ ? Loss::Unwanted : Loss::Full];
    return;
  }
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
    const std::size_t oldest = call_ != nullptr && queue_.size() > 1 ? 1 : 0;
    if (oldest == 0) {
      call_.reset();
    }
    const auto place = queue_.begin() + static_cast<std::ptrdiff_t>(oldest);
    bytes_ -= place->message.body.size();
    queue_.erase(place);
    ++counts_.lost[Loss::Full];
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
  Waiting& first = queue_.front();
  ++first.tries;
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
  if (!queue_.empty()) {
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
    is_unwanted_ = true;
    problem_ += ": the receiver wants no more messages; none is sent until moonfence starts again";
    drop_all(Loss::Unwanted);
  } else if (refusal == Refusal::OfMessage && queue_.front().tries >= manner_.tries_of_refused) {
    drop_first(Loss::Refused);
  }
  if (was_well || is_unwanted_) {
    around_.log.warning("delivery_fails", {{"to", manner_.name}, {"text", problem_}});
  }
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

void Delivery::drop_first(Loss why) {
  bytes_ -= queue_.front().message.body.size();
  queue_.pop_front();
  ++counts_.lost[why];
}

void Delivery::drop_all(Loss why) {
  counts_.lost[why] += queue_.size();
  queue_.clear();
  bytes_ = 0;
}

}  // namespace moonfence::app
