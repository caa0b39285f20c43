#include "kube/watching/watcher.h"

#include "unit/kube/wire_fixture.h"

namespace moonfence::kube {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using port::Method;
using test::FakeAnswer;

std::string node(const std::string& name, const std::string& version) {
  return R"({"metadata":{"name":")" + name + R"(","uid":"u","resourceVersion":")" + version +
         R"("}})";
}
std::string frame(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}\n";
}
FakeAnswer list(const std::string& items, const std::string& version,
                const std::string& token = "") {
  return {.body = R"({"kind":"NodeList","metadata":{"resourceVersion":")" + version +
                  R"(","continue":")" + token + R"("},"items":[)" + items + "]}",
          .chunk = 13};
}

struct Listener final : WatchListener {
  void on_init() override { add("init"); }
  void on_init_apply(const json& object) override { add("init " + name(object)); }
  void on_init_done() override { add("done"); }
  void on_apply(const json& object) override { add("apply " + name(object)); }
  void on_delete(const json& object) override { add("delete " + name(object)); }

  static std::string name(const json& object) { return object.at("metadata").at("name"); }
  void add(const std::string& what) {
    seen.push_back(what);
    if (what == destroy_at) {
      destroy();
    }
  }

  std::vector<std::string> seen;
  std::string destroy_at;
  std::function<void()> destroy;
};

struct WatcherTest : WireTest {
  using Seen = std::vector<std::string>;
  test::FakeRandom random;
  Listener listener;
  const std::string nodes = "/prefix/api/v1/nodes";
  std::unique_ptr<Watcher> watcher = std::make_unique<Watcher>(loop, caller, random, log,
                                                               WatchTarget{.resource = "nodes",
                                                                           .path = "/api/v1/nodes",
                                                                           .field_selector = "",
                                                                           .label_selector = "a=b"},
                                                               listener);

  void serve(const std::string& frames = {}) {
    http.on(Method::Get, nodes, list(node("a", "5"), "10"));
    http.on(Method::Get, nodes + "?watch=1", FakeAnswer::watch(frames));
  }
  void start(Duration duration = 1s) {
    watcher->start();
    test::run_for(loop, duration);
  }
  [[nodiscard]] std::size_t watches() const { return http.count("watch=1"); }
  // For the collection's version alone.
  [[nodiscard]] std::size_t questions() const { return http.count("limit=1"); }
  // The same, beside a watch.
  [[nodiscard]] std::size_t comparisons() const { return http.count("compares-versions"); }
  [[nodiscard]] std::size_t lists() const {
    return http.requests.size() - watches() - questions() - comparisons();
  }
};

TEST_F(WatcherTest, lists_then_watches_with_the_selectors_on_their_lanes) {
  serve();
  start();
  EXPECT_EQ(listener.seen, (Seen{"init", "init a", "done"}));
  ASSERT_EQ(http.requests.size(), 2U);
  EXPECT_EQ(http.requests[0].query, "limit=500&labelSelector=a%3Db");
  EXPECT_EQ(http.requests[0].lane, port::Lane::Bulk);
  EXPECT_TRUE(http.requests[1].query.starts_with(
      "watch=1&allowWatchBookmarks=true&resourceVersion=10&timeoutSeconds="));
  EXPECT_TRUE(http.requests[1].query.ends_with("&labelSelector=a%3Db"));
  EXPECT_EQ(http.requests[1].lane, port::Lane::Watches);
  EXPECT_GE(http.requests[1].timeout, 310s);
  EXPECT_TRUE(watcher->health().synced);
  EXPECT_TRUE(watcher->health().connected);
}

TEST_F(WatcherTest, frames_arrive_however_they_are_cut) {
  const std::string text = frame("ADDED", node("ü", "11")) + frame("MODIFIED", node("b", "12")) +
                           frame("BOOKMARK", R"({"metadata":{"resourceVersion":"20"}})") +
                           frame("DELETED", node("b", "21")) + R"({"type":"ADDED","object":{)";
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{2}, text.size()}) {
    listener.seen.clear();
    http.on(Method::Get, nodes, list(node("a", "5"), "10"));
    FakeAnswer answer = FakeAnswer::watch(text);
    answer.chunk = chunk;
    http.on(Method::Get, nodes + "?watch=1", answer);
    watcher = std::make_unique<Watcher>(loop, caller, random, log,
                                        WatchTarget{"nodes", "/api/v1/nodes", "", ""}, listener);
    start();
    EXPECT_EQ(listener.seen, (Seen{"init", "init a", "done", "apply ü", "apply b", "delete b"}));
    EXPECT_EQ(watcher->health().events, 3U);
    EXPECT_EQ(watcher->health().bookmarks, 1U);
  }
}

struct NewsTest : WatcherTest {
  NewsTest() {
    watcher = std::make_unique<Watcher>(loop, caller, random, log,
                                        WatchTarget{.resource = "nodes",
                                                    .path = "/api/v1/nodes",
                                                    .field_selector = {},
                                                    .label_selector = {},
                                                    .omitted = {{"status", "beat"}},
                                                    .only_news = true},
                                        listener);
  }
  static std::string beat(const std::string& version, const std::string& ready = "True",
                          const std::string& name = "a") {
    return R"({"metadata":{"name":")" + name + R"(","resourceVersion":")" + version +
           R"("},"status":{"beat":")" + version + R"(","ready":")" + ready + R"("}})";
  }
};

TEST_F(NewsTest, what_was_told_in_these_words_is_not_told_again) {
  serve(frame("MODIFIED", beat("11")) + frame("MODIFIED", beat("12")) +
        frame("MODIFIED", beat("13", "False")) + frame("MODIFIED", beat("14", "False")) +
        frame("MODIFIED", beat("15")) + frame("MODIFIED", beat("16", "True", "b")) +
        frame("MODIFIED", beat("17")));
  start();
  EXPECT_EQ(listener.seen,
            (Seen{"init", "init a", "done", "apply a", "apply a", "apply a", "apply b"}));
  EXPECT_EQ(watcher->health().events, 7U) << "all were heard";
}

TEST_F(NewsTest, what_is_not_told_moves_the_version_all_the_same) {
  serve(frame("MODIFIED", beat("11")) + frame("MODIFIED", beat("12")));
  start();
  serve();
  EXPECT_EQ(http.close("watch=1"), 1U);
  test::run_for(loop, 5s);
  EXPECT_EQ(http.count("resourceVersion=12&timeout"), 1U);
}

TEST_F(NewsTest, what_went_and_came_back_is_told) {
  serve(frame("ADDED", beat("11")) + frame("DELETED", beat("12")) + frame("ADDED", beat("13")));
  start();
  EXPECT_EQ(listener.seen, (Seen{"init", "init a", "done", "apply a", "delete a", "apply a"}));
}

TEST_F(NewsTest, a_bookmark_is_no_news_of_any_object) {
  serve(frame("MODIFIED", beat("11")) +
        frame("BOOKMARK", R"({"metadata":{"resourceVersion":"12"}})") +
        frame("MODIFIED", beat("13")));
  start();
  EXPECT_EQ(listener.seen, (Seen{"init", "init a", "done", "apply a"}));
  EXPECT_EQ(watcher->health().bookmarks, 1U);
}

// A text that is too long for a glance says False in between; what was told before must not count.
TEST_F(NewsTest, what_cannot_be_glanced_at_is_told_and_what_follows_it_too) {
  std::string large = beat("12", "False");
  large.insert(large.size() - 1, R"(,"long":")" + std::string(300'000, 'x') + R"(")");
  serve(frame("MODIFIED", beat("11")) + frame("MODIFIED", large) + frame("MODIFIED", beat("13")));
  start();
  EXPECT_EQ(listener.seen, (Seen{"init", "init a", "done", "apply a", "apply a", "apply a"}));
}

TEST_F(NewsTest, a_list_begins_anew) {
  serve(frame("MODIFIED", beat("11")));
  start();
  http.on(Method::Get, nodes, list(beat("12", "False"), "20"));
  http.on(Method::Get, nodes + "?watch=1", FakeAnswer::watch());
  watcher->list_anew();
  test::run_for(loop, 1s);
  listener.seen.clear();
  http.push("watch=1", frame("MODIFIED", beat("21")));
  test::run_for(loop, 1s);
  EXPECT_EQ(listener.seen, Seen{"apply a"}) << "the list said something else in between";
}

TEST_F(WatcherTest, whoever_wants_all_is_told_all) {
  serve(frame("MODIFIED", NewsTest::beat("11")) + frame("MODIFIED", NewsTest::beat("12")));
  start();
  EXPECT_EQ(listener.seen, (Seen{"init", "init a", "done", "apply a", "apply a"}));
}

TEST_F(WatcherTest, a_close_resumes_after_the_last_event_without_a_list) {
  serve(frame("MODIFIED", node("a", "15")));
  start();
  serve();
  test::run_for(loop, 5s);
  EXPECT_EQ(http.close("watch=1"), 1U);
  test::run_for(loop, 1s);
  EXPECT_EQ(lists(), 1U);
  EXPECT_EQ(http.count("resourceVersion=15&timeout"), 1U);
}

TEST_F(WatcherTest, a_truncated_list_leaves_the_old_picture_alone) {
  FakeAnswer half = list(node("a", "5") + "," + node("b", "6"), "10");
  half.body.resize(half.body.size() - 1);
  http.on(Method::Get, nodes, half);
  start(30s);
  EXPECT_GT(lists(), 2U);
  EXPECT_EQ(std::count(listener.seen.begin(), listener.seen.end(), "done"), 0);
  EXPECT_FALSE(watcher->health().synced);
  EXPECT_FALSE(watcher->health().last_error.empty());
}

TEST_F(WatcherTest, foreign_bodies_are_no_list) {
  for (const FakeAnswer& foreign :
       {FakeAnswer{.body = R"({"kind":"Table","items":[]})"},
        FakeAnswer{.body = R"({"kind":"Status","status":"Failure","code":500})"},
        FakeAnswer{.body = "<html>", .headers = {{"content-type", "text/html"}}},
        FakeAnswer{
            .body =
                R"({"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[{"a":}]})"}}) {
    http.on(Method::Get, nodes, foreign);
    watcher = std::make_unique<Watcher>(loop, caller, random, log,
                                        WatchTarget{"nodes", "/api/v1/nodes", "", ""}, listener);
    start(10s);
    EXPECT_FALSE(watcher->health().synced);
  }
  EXPECT_EQ(std::count(listener.seen.begin(), listener.seen.end(), "done"), 0);
}

TEST_F(WatcherTest, pages_make_one_picture) {
  http.on(Method::Get, nodes, list(node("a", "5"), "10", "t1"));
  http.on(Method::Get, nodes + "?continue=t1", list("", "10", "t2"));
  http.on(Method::Get, nodes + "?continue=t2", list(node("b", "6"), "10"));
  http.on(Method::Get, nodes + "?watch=1", FakeAnswer::watch());
  start();
  EXPECT_EQ(listener.seen, (Seen{"init", "init a", "init b", "done"}));
}

TEST_F(WatcherTest, a_410_frame_relists_and_the_deleted_are_not_announced_one_by_one) {
  serve(frame("MODIFIED", node("a", "15")));
  start();
  listener.seen.clear();
  http.on(Method::Get, nodes + "?resourceVersion=15", list(node("b", "16"), "20"));
  http.on(Method::Get, nodes + "?watch=1", FakeAnswer::watch());
  http.push("watch=1", frame("ERROR", R"({"kind":"Status","code":410,"reason":"Expired"})"));
  test::run_for(loop, 1s);
  EXPECT_EQ(listener.seen, (Seen{"init", "init b", "done"}));
  EXPECT_EQ(watcher->health().relists, 1U);
  EXPECT_EQ(http.open_exchanges(), 1U) << "the old stream is gone";
}

TEST_F(WatcherTest, unknown_types_and_broken_objects_are_counted_and_force_a_list) {
  for (const std::string& odd :
       {frame("FOO", node("x", "11")), frame("ADDED", "5"), frame("ADDED", R"({"metadata":{}})"),
        frame("BOOKMARK", "{}"), std::string("not json\n"), std::string("[]\n"),
        std::string("{\"type\":\"ADDED\",\"object\":{\"a\":\"\xff\"}}\n")}) {
    http.requests.clear();
    serve(odd + frame("ADDED", node("after", "12")));
    listener.seen.clear();
    watcher = std::make_unique<Watcher>(loop, caller, random, log,
                                        WatchTarget{"nodes", "/api/v1/nodes", "", ""}, listener);
    start(2s);
    EXPECT_GE(watcher->health().undecodable, 1U) << odd;
    EXPECT_GE(lists(), 2U) << odd;
    EXPECT_EQ(std::count(listener.seen.begin(), listener.seen.end(), "apply after"), 0);
  }
}

TEST_F(WatcherTest, a_frozen_stream_is_noticed_and_resumed_without_a_list) {
  serve();
  start(129s);
  EXPECT_EQ(watches(), 1U);
  http.push("watch=1", frame("BOOKMARK", R"({"metadata":{"resourceVersion":"20"}})"));
  http.on(Method::Get, nodes, list("", "20"));
  test::run_for(loop, 129s);
  EXPECT_EQ(watches(), 1U);
  test::run_for(loop, 1500ms);
  EXPECT_EQ(watches(), 2U);
  EXPECT_EQ(lists(), 1U);
  EXPECT_EQ(questions(), 1U);
  EXPECT_EQ(http.count("resourceVersion=20&"), 1U);
  EXPECT_EQ(watcher->health().stalls, 1U);
}

TEST_F(WatcherTest, a_server_that_ignores_timeout_seconds_is_left_at_our_deadline) {
  serve();
  start();
  for (int i = 0; i < 60; ++i) {
    http.push("watch=1", frame("BOOKMARK", R"({"metadata":{"resourceVersion":"20"}})"));
    test::run_for(loop, 11s);
  }
  EXPECT_GE(watches(), 2U);
}

TEST_F(WatcherTest, a_server_down_for_twenty_seconds_costs_no_list) {
  serve(frame("MODIFIED", node("a", "15")));
  start(5s);
  http.on(Method::Get, nodes, FakeAnswer::refused());
  http.on(Method::Get, nodes + "?watch=1", FakeAnswer::refused());
  http.drop_connections();
  test::run_for(loop, 20s);
  EXPECT_FALSE(watcher->health().connected);
  http.on(Method::Get, nodes, list("", "15"));
  http.on(Method::Get, nodes + "?watch=1", FakeAnswer::watch());
  test::run_for(loop, 60s);
  EXPECT_TRUE(watcher->health().connected);
  EXPECT_EQ(lists(), 1U);
}

TEST_F(WatcherTest, a_watch_that_closes_at_once_is_asked_less_than_once_a_second) {
  http.on(Method::Get, nodes, list("", "10"));
  http.on(Method::Get, nodes + "?watch=1", FakeAnswer{.body = ""});
  start(60s);
  EXPECT_LT(watches(), 30U);
  EXPECT_EQ(lists(), 1U);
}

// Seen on a real server behind a proxy that stalled a relist after its head: 131 s of blindness.
TEST_F(WatcherTest, a_list_that_falls_silent_is_asked_for_again_within_half_a_minute) {
  http.sequence(Method::Get, nodes, {FakeAnswer{.body = "{", .hold = true}, list("", "10")});
  http.on(Method::Get, nodes + "?watch=1", FakeAnswer::watch());
  start(35s);
  EXPECT_EQ(lists(), 2U);
  EXPECT_TRUE(watcher->health().synced);
}

// Seen in a simulated world: the request was lost on its way, and for 130 s a leader did not learn
// of the replica that heard the machine it took for dead.
TEST_F(WatcherTest, a_watch_that_is_not_answered_is_asked_for_again_within_half_a_minute) {
  http.on(Method::Get, nodes, list("", "10"));
  http.sequence(Method::Get, nodes + "?watch=1", {FakeAnswer::silent(), FakeAnswer::watch()});
  start(29s);
  EXPECT_EQ(watches(), 1U);
  EXPECT_FALSE(watcher->health().connected);
  test::run_for(loop, 4s);
  EXPECT_EQ(watches(), 2U);
  EXPECT_TRUE(watcher->health().connected);
  EXPECT_EQ(watcher->health().stalls, 1U);
  test::run_for(loop, 120s);
  EXPECT_EQ(watches(), 2U) << "one that was answered may be quiet for longer";
}

TEST_F(WatcherTest, a_frame_of_three_mebibytes_arrives) {
  const std::string big = R"({"metadata":{"name":"big","resourceVersion":"11"},"x":")" +
                          std::string(3U << 20U, 'x') + "\"}";
  FakeAnswer answer = FakeAnswer::watch(frame("ADDED", big));
  answer.chunk = 16384;
  http.on(Method::Get, nodes, list("", "10"));
  http.on(Method::Get, nodes + "?watch=1", answer);
  start();
  EXPECT_EQ(listener.seen.back(), "apply big");
}

TEST_F(WatcherTest, a_missing_permission_is_logged_once) {
  http.on(Method::Get, nodes, status(403, "Forbidden"));
  start(10min);
  EXPECT_GT(lists(), 5U);
  EXPECT_LT(lists(), 26U);
  EXPECT_EQ(log.count("warning watch_trouble"), 1U);
}

TEST_F(WatcherTest, may_be_destroyed_inside_every_listener_call) {
  for (const std::string where : {"init", "init a", "done", "apply b", "delete b"}) {
    listener.seen.clear();
    listener.destroy_at = where;
    listener.destroy = [this] { watcher.reset(); };
    serve(frame("ADDED", node("b", "11")) + frame("DELETED", node("b", "12")) +
          frame("ADDED", node("c", "13")));
    watcher = std::make_unique<Watcher>(loop, caller, random, log,
                                        WatchTarget{"nodes", "/api/v1/nodes", "", ""}, listener);
    start(5s);
    EXPECT_EQ(watcher, nullptr);
    EXPECT_EQ(listener.seen.back(), where);
    EXPECT_EQ(http.open_exchanges(), 0U);
  }
}

}  // namespace
}  // namespace moonfence::kube
