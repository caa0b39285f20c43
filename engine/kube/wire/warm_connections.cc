#include "kube/wire/warm_connections.h"

namespace moonfence::kube {

void WarmConnections::open(std::size_t count) {
  if (waiting_ > 0) {
    return;
  }
  calls_.clear();
  for (waiting_ = count; count > 0; --count) {
    calls_.push_back(caller_.call(ApiRequest{.path = "/livez",
                                             .query = {},
                                             .body = {},
                                             .content_type = {},
                                             .lane = port::Lane::Writes,
                                             .timeout = kLimit,
                                             .may_send = {},
                                             .observed = false},
                                  [this](const Result<ApiReply>& /*reply*/) { --waiting_; }));
  }
}

}  // namespace moonfence::kube
