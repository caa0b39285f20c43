#pragma once

// A simulated API server over an empty store, in virtual time.

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/server/api_server.h"
#include "support/fake_poller.h"
#include "support/fake_random.h"

namespace moonfence::sim {

using namespace std::chrono_literals;

struct Lines final : WatchSink {
  std::vector<Json> events;
  bool ended = false;
  std::function<void()> hook = [] {};

  void on_line(std::string_view line) override {
    events.push_back(Json::parse(line));
    hook();
  }
  void on_end() override { ended = true; }
  [[nodiscard]] std::vector<std::string> told() const {
    std::vector<std::string> out;
    for (const Json& event : events) {
      out.push_back(event["type"].get<std::string>() + " " +
                    event["object"]["metadata"].value("name", ""));
    }
    return out;
  }
};

struct ServerFixture : testing::Test {
  ServerAnswer ask(const std::string& target, WatchSink* sink = nullptr) {
    return server->handle({.target = target, .user = "admin"}, sink);
  }
  ServerAnswer send(port::Method method, const std::string& target, const Json& body,
                    const std::string& type = "application/json") {
    return server->handle({.method = method,
                           .target = target,
                           .headers = {{"Content-Type", type}},
                           .body = body.dump(),
                           .user = "admin"},
                          nullptr);
  }
  void create(const std::string& name, const Json& labels = Json::object(),
              const std::string& resource = "pods") {
    (void)store.create(resource, resource == "nodes" ? "" : "db",
                       {{"metadata", {{"name", name}, {"labels", labels}}}}, "test");
  }
  void restart_with(ServerRules rules) {
    server = std::make_unique<ApiServer>(
        loop, store, random, [this] { return now(); }, std::move(rules));
  }
  [[nodiscard]] WallTime now() const {
    return WallTime(1'800'000'000s) + loop.now().time_since_epoch();
  }
  static std::string version(const ServerAnswer& answer) {
    return Json::parse(answer.body)["metadata"]["resourceVersion"];
  }

  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeRandom random;
  ObjectStore store{[this] { return now(); }, random};
  std::unique_ptr<ApiServer> server = std::make_unique<ApiServer>(
      loop, store, random, [this] { return now(); }, ServerRules{});
};

inline constexpr const char* kPods = "/api/v1/namespaces/db/pods";

}  // namespace moonfence::sim
