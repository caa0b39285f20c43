#include "sim/net/peer_http.h"

#include <string_view>

#include "sim/net/chance.h"

namespace moonfence::sim {
namespace {

constexpr std::string_view kScheme = "http://";
constexpr std::string_view kPeers = "10.255.0.";

}  // namespace

std::string peer_address(int index) {
  return std::string(kPeers) + std::to_string(index + 1) + ":8081";
}

class PeerHttp::Exchange final : public port::Transfer {
 public:
  Exchange(PeerHttp& owner, const port::HttpRequest& request, port::HttpSink& sink)
      : owner_(owner), sink_(sink) {
    const std::string_view rest = std::string_view(request.url).substr(kScheme.size());
    address_ = rest.substr(0, rest.find('/'));
    path_ = rest.substr(address_.size());
    limit_ = owner_.around_.own.after(request.timeout, [this] {
      packet_.cancel();
      sink_.on_end({.error = Error{.kind = Error::Kind::Retryable, .text = "no answer in time"},
                    .sent = true});
    });
    if (owner_.may_leave_() && !owner_.is_lost()) {
      // The cluster's loop may have had its last turn a while ago.
      const Duration behind = owner_.around_.wire.now() - owner_.around_.cluster.now();
      packet_ = owner_.around_.cluster.after(owner_.draw_latency() + behind, [this] { arrive(); });
    }
  }

 private:
  void arrive() {
    const auto answer = owner_.around_.ask(address_, path_);
    if (!answer || owner_.is_lost()) {
      return;  // until the limit
    }
    const Duration behind = owner_.around_.wire.now() - owner_.around_.own.now();
    back_ = owner_.around_.own.after(owner_.draw_latency() + behind, [this, body = *answer] {
      limit_.cancel();
      sink_.on_head({.status = 200, .headers = {{"content-type", "application/json"}}});
      sink_.on_body(body);
      sink_.on_end({.error = std::nullopt, .sent = true});
    });
  }

  PeerHttp& owner_;
  port::HttpSink& sink_;
  std::string address_;
  std::string path_;
  loop::Timer packet_;
  loop::Timer back_;
  loop::Timer limit_;
};

PeerHttp::PeerHttp(Surroundings around, std::string replica, std::unique_ptr<port::Random> random,
                   std::function<bool()> may_leave)
    : around_(std::move(around)),
      replica_(std::move(replica)),
      random_(std::move(random)),
      may_leave_(std::move(may_leave)) {}

Duration PeerHttp::draw_latency() {
  return within(*random_, around_.wire.latency());
}

bool PeerHttp::is_lost() {
  const double lost = around_.wire.lost_packet();
  return around_.wire.partitioned(replica_) || (lost > 0 && happens(*random_, lost));
}

std::unique_ptr<port::Transfer> PeerHttp::start(port::HttpRequest request, port::HttpSink& sink) {
  const std::string_view rest = std::string_view(request.url).substr(kScheme.size());
  if (!rest.starts_with(kPeers)) {
    return around_.others.start(std::move(request), sink);
  }
  return std::make_unique<Exchange>(*this, request, sink);
}

}  // namespace moonfence::sim
