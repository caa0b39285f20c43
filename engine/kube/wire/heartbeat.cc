#include "kube/wire/heartbeat.h"

#include <algorithm>
#include <utility>

#include "kube/wire/server_pace.h"

namespace moonfence::kube {
namespace {

// Only what a fresh connection can cure is a miss. Whatever carries an HTTP status came from a
// living peer, and credentials that cannot be had are not the connection's fault.
bool is_miss(const Result<ApiReply>& reply) {
  return !reply && reply.error().http_status == 0 && reply.error().kind == Error::Kind::Retryable;
}

}  // namespace

Duration Heartbeat::limit() const {
  const ServerPace* pace = caller_.pace();
  const Duration slow = pace != nullptr ? pace->slowest_read(loop_.now()) * 2 : Duration::zero();
  // Whoever is never waited for long enough looks dead for ever.
  const Duration patient = kLimit * (1 << std::min(misses_, 2));
  return std::clamp<Duration>(std::max(slow, patient), kLimit, kLongestLimit);
}

void Heartbeat::beat() {
  timer_ = loop_.after(kInterval, [this] { beat(); });
  if (call_ == nullptr) {
    asked_ = loop_.now();
    call_ = ask([this](const Result<ApiReply>& reply) { on_outcome(reply); });
  }
  beside_.clear();
  for (std::size_t asked = 1; asked < (well_ ? kWarm : kWhileUnwell); ++asked) {
    beside_.push_back(ask([](const Result<ApiReply>& /*reply*/) {}));
  }
}

// Only who has just answered well is asked that often.
void Heartbeat::warm_up_for_deletions() {
  if (!well_) {
    until_wide_ = 1;  // the connections may be gone: with the second good answer
  } else if (until_wide_ > 0) {
    --until_wide_;
  } else {
    until_wide_ = kWideEvery - 1;
    for_deletions_.open(kWide - kWarm);
  }
}

CallHandle Heartbeat::ask(std::function<void(Result<ApiReply>)> done) {
  return caller_.call(ApiRequest{.path = "/livez",
                                 .query = {},
                                 .body = {},
                                 .content_type = {},
                                 .lane = port::Lane::Writes,
                                 .timeout = limit(),
                                 .may_send = {}},
                      std::move(done));
}

void Heartbeat::on_outcome(const Result<ApiReply>& reply) {
  const CallHandle ended = std::move(call_);
  well_ = reply || reply.error().kind == Error::Kind::Malformed;  // "ok" is no JSON
  warm_up_for_deletions();
  const bool heard = caller_.pace() != nullptr && caller_.pace()->answered_at() > asked_;
  if (!is_miss(reply) || heard) {
    if (misses_ >= kMisses) {
      log_.info("api_server_heard_again");
    }
    misses_ = 0;
    return;
  }
  if (++misses_ == kMisses) {
    log_.warning("api_server_silent", {{"text", reply.error().text}});
    http_.drop_connections();
  }
}

}  // namespace moonfence::kube
