#include "kube/heartbeat.h"

namespace moonfence::kube {
namespace {

// Only what a fresh connection can cure is a miss. Whatever carries an HTTP status came from a
// living peer, and credentials that cannot be had are not the connection's fault.
bool is_miss(const Result<ApiReply>& reply) {
  return !reply && reply.error().http_status == 0 && reply.error().kind == Error::Kind::Retryable;
}

}  // namespace

void Heartbeat::beat() {
  timer_ = loop_.after(kInterval, [this] { beat(); });
  call_ = ask([this](const Result<ApiReply>& reply) { on_outcome(reply); });
  const std::size_t questions = well_ ? kWarm : kWhileUnwell;
  for (std::size_t i = 0; i < beside_.size(); ++i) {
    beside_[i] = i + 1 < questions ? ask([](const Result<ApiReply>& /*reply*/) {}) : nullptr;
  }
}

CallHandle Heartbeat::ask(std::function<void(Result<ApiReply>)> done) {
  return caller_.call(ApiRequest{.path = "/livez",
                                 .query = {},
                                 .body = {},
                                 .content_type = {},
                                 .lane = port::Lane::Writes,
                                 .timeout = kLimit,
                                 .may_send = {}},
                      std::move(done));
}

void Heartbeat::on_outcome(const Result<ApiReply>& reply) {
  well_ = reply || reply.error().kind == Error::Kind::Malformed;  // "ok" is no JSON
  if (!is_miss(reply)) {
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
