#pragma once

// A real loop with a real HTTP client, and a sink that remembers what it heard in order.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loop/loop.h"
#include "os/net/curl_http.h"
#include "os/net/curl_poller.h"

namespace moonfence::test {

struct RecordingSink final : port::HttpSink {
  std::vector<std::string> calls;  // "head", "body", "end"
  port::HttpHead head;
  std::string body;
  std::optional<port::HttpEnd> end;
  std::function<void(const std::string&)> hook = [](const std::string&) {};

  void on_head(const port::HttpHead& received) override {
    head = received;
    note("head");
  }
  void on_body(std::string_view bytes) override {
    body += bytes;
    note("body");
  }
  void on_end(const port::HttpEnd& received) override {
    end = received;
    note("end");
  }

  [[nodiscard]] std::string error() const { return end && end->error ? end->error->message() : ""; }
  [[nodiscard]] std::optional<Error::Kind> kind() const {
    return end && end->error ? std::optional(end->error->kind) : std::nullopt;
  }

 private:
  void note(const std::string& call) {
    calls.push_back(call);
    const auto called = hook;
    called(call);
  }
};

struct HttpClient {
  os::CurlPoller poller;
  os::CurlHttp http;
  loop::Loop loop{poller};

  explicit HttpClient(os::HttpLimits limits = {}) : http(poller, limits) {}

  // Turns until `done` holds; false after ten seconds. Turns at least every 2 ms, because what a
  // test waits for may happen in a server's thread.
  bool run_until(const std::function<bool()>& done) {
    const Moment end = poller.now() + std::chrono::seconds(10);
    while (!done()) {
      if (poller.now() > end) {
        return false;
      }
      const loop::Timer tick = loop.after(std::chrono::milliseconds(2), [] {});
      loop.turn();
    }
    return true;
  }
  bool run_until_ended(const RecordingSink& sink) {
    return run_until([&sink] { return sink.end.has_value(); });
  }
  // One GET from start to end.
  bool get(const std::string& url, RecordingSink& sink) {
    const auto transfer = http.start({.url = url}, sink);
    return run_until_ended(sink);
  }
};

}  // namespace moonfence::test
