#pragma once

// A simulated world that stands still, for what comes, asks and goes: an API server that answers
// whoever asks, and a clock of the asker's own.

#include <memory>
#include <string>
#include <utility>

#include "app/rehearsal/rehearsal.h"
#include "sim/scenarios/scenario_run.h"
#include "support/fake_files.h"
#include "support/fake_poller.h"
#include "support/fake_processes.h"
#include "support/fake_random.h"
#include "support/policies.h"

namespace moonfence::app {

class FrozenHttp final : public port::Http {
 public:
  FrozenHttp(sim::ApiServer& server, test::FakePoller& poller, std::string origin)
      : server_(server), poller_(poller), origin_(std::move(origin)) {}

  [[nodiscard]] std::unique_ptr<port::Transfer> start(port::HttpRequest request,
                                                      port::HttpSink& sink) override {
    auto exchange = std::make_shared<Exchange>(sink);
    poller_.deliver([this, request = std::move(request), alive = std::weak_ptr(exchange)] {
      if (const auto found = alive.lock()) {
        answer(request, *found);
      }
    });
    return std::make_unique<Handle>(std::move(exchange));
  }
  void use_tls(port::TlsSettings /*settings*/) override {}
  void drop_connections() override {}

 private:
  struct Exchange final : sim::WatchSink {
    explicit Exchange(port::HttpSink& sink) : sink(sink) {}
    void on_line(std::string_view line) override { sink.on_body(line); }
    void on_end() override { sink.on_end({}); }
    port::HttpSink& sink;
    sim::ServerAnswer given;
  };
  class Handle final : public port::Transfer {
   public:
    explicit Handle(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}

   private:
    std::shared_ptr<Exchange> exchange_;
  };

  void answer(const port::HttpRequest& request, Exchange& exchange) {
    if (request.may_send && !request.may_send()) {
      exchange.sink.on_end({.error = Error{.kind = Error::Kind::Cancelled, .text = "not sent"}});
      return;
    }
    exchange.given = server_.handle({.method = request.method,
                                     .target = request.url.substr(origin_.size()),
                                     .headers = request.headers,
                                     .body = request.body,
                                     .user = "moonfence-0"},
                                    &exchange);
    exchange.sink.on_head({.status = exchange.given.status, .headers = exchange.given.headers});
    if (exchange.given.watch == nullptr) {
      exchange.sink.on_body(exchange.given.body);
      exchange.sink.on_end({.error = std::nullopt, .sent = true});
    }
  }

  sim::ApiServer& server_;
  test::FakePoller& poller_;
  const std::string origin_;
};

// Its time begins when it is made.
struct FrozenWorld {
  struct Clock final : port::WallClock {
    Clock(test::FakePoller& poller, WallTime start) : poller(poller), start(start) {}
    WallTime now() override { return start + poller.now().time_since_epoch(); }
    test::FakePoller& poller;
    const WallTime start;
  };

  FrozenWorld(sim::ApiServer& server, const std::string& origin, WallTime now)
      : http(server, poller, origin), clock(poller, now) {}

  [[nodiscard]] RehearsalGround ground() {
    return {
        .poller = poller,
        .http = http,
        .files = files,
        .wall_clock = clock,
        .cpu_clock = cpu_clock,
        .random = random,
        .processes = [this](loop::Loop&) { return std::make_unique<test::FakeProcesses>(poller); }};
  }

  test::FakePoller poller;
  FrozenHttp http;
  Clock clock;
  test::FakeFiles files;
  StoppedCpuClock cpu_clock;
  test::FakeRandom random;
};

}  // namespace moonfence::app
