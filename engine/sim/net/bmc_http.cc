#include "sim/net/bmc_http.h"

#include <algorithm>
#include <utility>

#include "sim/net/chance.h"

namespace moonfence::sim {
namespace {

constexpr std::string_view kScheme = "http://";
constexpr std::string_view kHostEnd = ".bmc.sim";

}  // namespace

std::string bmc_url(std::string_view endpoint) {
  std::string url(kScheme);
  url.append(endpoint).append(kHostEnd);
  return url;
}

class BmcHttp::Exchange final : public port::Transfer {
 public:
  Exchange(BmcHttp& owner, port::HttpRequest request, port::HttpSink& sink)
      : owner_(owner), sink_(sink), self_(std::make_shared<Exchange*>(this)) {
    if (request.may_send && !request.may_send()) {
      fail(Duration(1), Error::Kind::Cancelled, "the request was not allowed to be sent", false);
      return;
    }
    if (request.timeout > Duration::zero()) {
      fail(request.timeout, Error::Kind::Retryable, "no answer in time", true);
    }
    if (!owner_.may_leave_()) {
      return;
    }
    const std::string_view rest = std::string_view(request.url).substr(kScheme.size());
    const std::size_t host_end = rest.find(kHostEnd);
    BmcQuestion question{.bmc = std::string(rest.substr(0, host_end)),
                         .method = request.method,
                         .path = std::string(rest.substr(host_end + kHostEnd.size())),
                         .body = std::move(request.body)};
    if (request.method != port::Method::Get) {
      owner_.around_.on_ordered(question.bmc);
    }
    owner_.around_.send(draw_way(), std::move(question),
                        [self = std::weak_ptr(self_)](const BmcAnswer& answer) {
                          if (const auto alive = self.lock()) {
                            (*alive)->arrived(answer);
                          }
                        });
  }

 private:
  [[nodiscard]] Duration draw_way() {
    return within(*owner_.random_, owner_.around_.wire.latency());
  }

  void fail(Duration after, Error::Kind kind, std::string_view text, bool sent) {
    limit_ = owner_.around_.own.after(after, [this, kind, text, sent] {
      back_.cancel();
      sink_.on_end({.error = Error{.kind = kind, .text = std::string(text)}, .sent = sent});
    });
  }

  // At the BMC; the replica may have had its last turn a while ago.
  void arrived(const BmcAnswer& answer) {
    const Duration behind = owner_.around_.wire.now() - owner_.around_.own.now();
    back_ = owner_.around_.own.after(behind + answer.takes + draw_way(), [this, answer] {
      limit_.cancel();
      if (answer.status == 0) {
        sink_.on_end({.error = Error{.kind = Error::Kind::Retryable, .text = "cannot connect"},
                      .sent = false});
        return;
      }
      sink_.on_head({.status = answer.status, .headers = {{"content-type", "application/json"}}});
      sink_.on_body(answer.body);
      sink_.on_end({.error = std::nullopt, .sent = true});
    });
  }

  BmcHttp& owner_;
  port::HttpSink& sink_;
  std::shared_ptr<Exchange*> self_;
  loop::Timer back_;
  loop::Timer limit_;
};

BmcHttp::BmcHttp(Surroundings around, std::unique_ptr<port::Random> random,
                 std::function<bool()> may_leave)
    : around_(std::move(around)), random_(std::move(random)), may_leave_(std::move(may_leave)) {}

std::unique_ptr<port::Transfer> BmcHttp::start(port::HttpRequest request, port::HttpSink& sink) {
  const std::size_t host_end = request.url.find('/', kScheme.size());
  if (!std::string_view(request.url).substr(0, host_end).ends_with(kHostEnd)) {
    return around_.others.start(std::move(request), sink);
  }
  return std::make_unique<Exchange>(*this, std::move(request), sink);
}

}  // namespace moonfence::sim
