#include "sim/net/wire.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "port/seeded_random.h"
#include "sim/net/sim_http.h"
#include "sim/server/api_server.h"

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;

class Poller final : public loop::Poller {
 public:
  explicit Poller(const TimeLine& time) : time_(time) {}
  [[nodiscard]] Moment now() override { return time_.now; }
  void wait(std::optional<Duration> /*limit*/) override {}
  void perform() override {}

 private:
  const TimeLine& time_;
};

struct Sink final : port::HttpSink {
  void on_head(const port::HttpHead& head) override { status = head.status; }
  void on_body(std::string_view bytes) override {
    body += bytes;
    ++pieces;
  }
  void on_end(const port::HttpEnd& how) override {
    ended = true;
    end = how;
  }
  int status = 0;
  std::string body;
  int pieces = 0;
  bool ended = false;
  port::HttpEnd end;
};

struct Ear final : WireListener {
  void on_left(const WireRequest& request) override { left.push_back(request.target); }
  void on_answered(const WireRequest& request, const ServerAnswer& answer) override {
    answered.push_back(request.target);
    committed += answer.committed ? 1 : 0;
  }
  void on_heard(const WireRequest& /*request*/, int /*status*/, std::string_view text) override {
    heard.emplace_back(text);
  }
  void on_ended(const WireRequest& /*request*/, int /*status*/,
                const port::HttpEnd& /*end*/) override {}
  std::vector<std::string> left;
  std::vector<std::string> answered;
  std::vector<std::string> heard;
  int committed = 0;
};

struct WireTest : ::testing::Test {
  void begin(const Faults& faults = {}) {
    wire = std::make_unique<Wire>(
        loop, time, random, faults,
        ServerChoice{.count = 1, .at = [this](std::size_t) -> ApiServer& { return server; }}, ear);
    http = std::make_unique<SimHttp>(*wire, "moonfence-0", 1, [] { return true; });
    (void)store.create("pods", "db", {{"metadata", {{"name", "web-0"}}}}, "test");
  }
  std::unique_ptr<port::Transfer> get(Sink& sink, const std::string& path = "/api/v1/pods",
                                      Duration timeout = 5s) {
    auto transfer = http->start({.url = "http://api-0.sim" + path, .timeout = timeout}, sink);
    http->flush();
    return transfer;
  }
  std::unique_ptr<port::Transfer> remove(Sink& sink, std::function<bool()> may_send = nullptr) {
    auto transfer =
        http->start({.method = port::Method::Delete,
                     .url = "http://api-0.sim/api/v1/namespaces/db/pods/web-0",
                     .headers = {{"Content-Type", "application/json"}},
                     .body = R"({"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0})",
                     .timeout = 5s,
                     .may_send = std::move(may_send)},
                    sink);
    http->flush();
    return transfer;
  }
  void run(Duration length = 60s) {
    const Moment end = time.now + length;
    for (;;) {
      Moment next = end;
      next = std::min(next, loop.next_due().value_or(end));
      next = std::min(next, http->next_due().value_or(end));
      if (next >= end) {
        break;
      }
      time.now = std::max(time.now, next);
      loop.turn();
      http->perform();
      http->flush();
    }
    time.now = end;
    loop.turn();
  }
  [[nodiscard]] bool pod_is_there() const {
    return store.find({.resource = "pods", .space = "db", .name = "web-0"}) != nullptr;
  }

  TimeLine time;
  Poller poller{time};
  loop::Loop loop{poller};
  port::SeededRandom random{5};
  port::SeededRandom uids{6};
  port::SeededRandom server_random{7};
  ObjectStore store{[this] { return true_wall_time(time); }, uids};
  ApiServer server{loop, store, server_random, [this] { return true_wall_time(time); },
                   ServerRules{}};
  Ear ear;
  std::unique_ptr<Wire> wire;
  std::unique_ptr<SimHttp> http;
};

TEST_F(WireTest, an_answer_comes_later_and_in_pieces) {
  begin({.piece_limit = 7, .piece_gap = {1ms, 3ms}});
  Sink sink;
  const auto transfer = get(sink);
  EXPECT_EQ(sink.status, 0);
  run();
  EXPECT_EQ(sink.status, 200);
  EXPECT_TRUE(sink.ended && !sink.end.error);
  EXPECT_GT(sink.pieces, 10);
  EXPECT_NE(sink.body.find("web-0"), std::string::npos);
  ASSERT_EQ(ear.heard.size(), 1U);
  EXPECT_EQ(ear.heard[0], sink.body);
}

TEST_F(WireTest, a_refused_connection_sends_nothing) {
  begin({.refused = 1});
  Sink sink;
  const auto transfer = remove(sink);
  run();
  EXPECT_TRUE(sink.end.error && !sink.end.sent);
  EXPECT_TRUE(ear.left.empty());
  EXPECT_TRUE(pod_is_there());
}

TEST_F(WireTest, a_lost_request_changes_nothing_and_leaves_the_sender_in_doubt) {
  begin({.lost_request = 1});
  Sink sink;
  const auto transfer = remove(sink);
  run();
  EXPECT_TRUE(sink.end.error && sink.end.sent);
  EXPECT_TRUE(pod_is_there());
}

TEST_F(WireTest, a_lost_reply_follows_a_commit) {
  begin({.lost_reply = 1});
  Sink sink;
  const auto transfer = remove(sink);
  run();
  EXPECT_TRUE(sink.end.error && sink.end.sent);
  EXPECT_EQ(sink.status, 0);
  EXPECT_FALSE(pod_is_there());
}

TEST_F(WireTest, a_request_that_is_given_up_on_the_way_still_arrives) {
  begin();
  Sink sink;
  auto transfer = remove(sink);
  run(600us);
  while (ear.left.empty()) {
    run(100us);
  }
  transfer.reset();
  run();
  EXPECT_FALSE(sink.ended);
  EXPECT_FALSE(pod_is_there());
}

TEST_F(WireTest, a_black_hole_lasts_until_the_time_is_up) {
  begin({.black_hole = 1});
  Sink sink;
  const auto transfer = get(sink);
  run(4900ms);
  EXPECT_FALSE(sink.ended);
  run(200ms);
  ASSERT_TRUE(sink.ended && sink.end.error);
  EXPECT_EQ(sink.end.error->kind, Error::Kind::Retryable);
}

TEST_F(WireTest, a_truncated_answer_is_shorter) {
  begin({.truncated = 1});
  Sink sink;
  const auto transfer = get(sink);
  run();
  EXPECT_TRUE(sink.ended);
  EXPECT_FALSE(sink.body.ends_with('}') && sink.body.starts_with('{') &&
               std::count(sink.body.begin(), sink.body.end(), '{') ==
                   std::count(sink.body.begin(), sink.body.end(), '}'));
}

TEST_F(WireTest, the_guard_is_asked_when_the_bytes_leave) {
  begin();
  Sink sink;
  bool may = true;
  int asked = 0;
  const auto transfer = remove(sink, [&] {
    ++asked;
    return may;
  });
  EXPECT_EQ(asked, 0);  // still connecting
  may = false;
  run();
  EXPECT_EQ(asked, 1);
  ASSERT_TRUE(sink.end.error);
  EXPECT_EQ(sink.end.error->kind, Error::Kind::Cancelled);
  EXPECT_FALSE(sink.end.sent);
  EXPECT_TRUE(pod_is_there());
}

TEST_F(WireTest, nothing_passes_a_partition) {
  begin();
  wire->set_partitioned("moonfence-0", true);
  Sink sink;
  const auto transfer = get(sink);
  run();
  ASSERT_TRUE(sink.end.error);
  EXPECT_TRUE(ear.left.empty());
}

TEST_F(WireTest, what_was_on_its_way_waits_for_the_end_of_a_partition) {
  begin({.latency = {500ms, 500ms}});
  Sink sink;
  const auto transfer = get(sink);
  run(1600ms);  // 1 s to connect, then 0.5 s of the request's way
  wire->set_partitioned("moonfence-0", true);
  run(1s);
  EXPECT_EQ(sink.status, 0);
  wire->set_partitioned("moonfence-0", false);
  run(1s);
  EXPECT_EQ(sink.status, 200);
}

TEST_F(WireTest, dropped_connections_fail_at_once) {
  begin({.black_hole = 1});
  Sink sink;
  const auto transfer = get(sink);
  run(1s);
  http->drop_connections();
  run(1ms);
  ASSERT_TRUE(sink.ended && sink.end.error);
}

TEST_F(WireTest, a_watch_ends_with_its_server_and_a_server_that_is_down_refuses) {
  begin();
  Sink sink;
  const auto watch = http->start({.url = "http://api-0.sim/api/v1/pods?watch=1&resourceVersion=" +
                                         std::to_string(store.version()),
                                  .lane = port::Lane::Watches},
                                 sink);
  http->flush();
  run(1s);
  EXPECT_EQ(sink.status, 200);
  (void)store.create("pods", "db", {{"metadata", {{"name", "web-1"}}}}, "test");
  run(1s);
  EXPECT_NE(sink.body.find("web-1"), std::string::npos);
  ServerMood mood = server.mood();
  mood.down = true;
  server.set_mood(mood);
  server.restart();
  run(1s);
  EXPECT_TRUE(sink.ended);
  Sink refused;
  const auto transfer = get(refused, "/livez");
  run(1s);
  EXPECT_TRUE(refused.end.error);
}

TEST_F(WireTest, lists_wait_for_one_another) {
  begin({.latency = {100ms, 100ms}});
  std::vector<Sink> sinks(6);
  std::vector<std::unique_ptr<port::Transfer>> transfers;
  for (Sink& sink : sinks) {
    transfers.push_back(http->start(
        {.url = "http://api-0.sim/api/v1/pods", .lane = port::Lane::Bulk, .timeout = 30s}, sink));
  }
  http->flush();
  EXPECT_EQ(http->running(port::Lane::Bulk), SimHttp::kBulk);
  EXPECT_EQ(http->queued(port::Lane::Bulk), 2U);
  run();
  EXPECT_TRUE(std::all_of(sinks.begin(), sinks.end(), [](const Sink& s) { return s.ended; }));
}

}  // namespace
}  // namespace moonfence::sim
