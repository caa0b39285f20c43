#include "unit/sim/server_fixture.h"

namespace moonfence::sim {
namespace {

using testing::ElementsAre;

struct WatchTest : ServerFixture {
  std::string from_now(const std::string& more = {}) {
    return std::string(kPods) + "?watch=1&resourceVersion=" + std::to_string(store.version()) +
           more;
  }
  Lines lines;
};

TEST_F(WatchTest, nothing_is_told_inside_the_call) {
  create("a");
  const ServerAnswer answer = ask(std::string(kPods) + "?watch=1", &lines);
  EXPECT_TRUE(lines.events.empty());
  test::run_for(loop, 1ms);
  EXPECT_THAT(lines.told(), ElementsAre("ADDED a"));
}

TEST_F(WatchTest, lagging_server_tells_late) {
  const ServerAnswer answer = ask(from_now(), &lines);
  server->set_mood({.cache_lag = 2s});
  create("a");
  test::run_for(loop, 1999ms);
  EXPECT_TRUE(lines.events.empty());
  server->set_mood({});
  create("b");
  test::run_for(loop, 1ms);
  EXPECT_THAT(lines.told(), ElementsAre("ADDED a", "ADDED b"));
}

TEST_F(WatchTest, closed_watch_hears_nothing_more) {
  ServerAnswer answer = ask(from_now(), &lines);
  lines.hook = [&answer] { answer.watch.reset(); };
  create("a");
  create("b");
  test::run_for(loop, 1s);
  EXPECT_THAT(lines.told(), ElementsAre("ADDED a"));
  EXPECT_FALSE(lines.ended);
}

TEST_F(WatchTest, watch_may_outlive_its_server) {
  ServerAnswer answer = ask(from_now(), &lines);
  create("a");
  server.reset();
  test::run_for(loop, 1s);
  EXPECT_TRUE(lines.events.empty());
  answer.watch.reset();
}

TEST_F(WatchTest, restart_ends_watches_and_forgets) {
  const ServerAnswer answer = ask(from_now(), &lines);
  create("a");
  const std::string old = from_now();
  create("b");
  server->restart();
  EXPECT_TRUE(lines.ended);
  Lines again;
  const ServerAnswer second = ask(old, &again);
  test::run_for(loop, 1ms);
  ASSERT_EQ(again.events.size(), 1U);
  EXPECT_EQ(again.events[0]["object"]["code"], 410);
  EXPECT_TRUE(again.ended);
}

TEST_F(WatchTest, compaction_spares_open_watches) {
  const ServerAnswer answer = ask(from_now(), &lines);
  const std::string old = from_now();
  create("a");
  server->compact();
  create("b");
  test::run_for(loop, 1ms);
  EXPECT_THAT(lines.told(), ElementsAre("ADDED a", "ADDED b"));
  Lines again;
  const ServerAnswer second = ask(old, &again);
  test::run_for(loop, 1ms);
  EXPECT_EQ(again.events.at(0)["type"], "ERROR");
}

TEST_F(WatchTest, history_is_bounded) {
  restart_with({.history = 2});
  const std::string old = from_now();
  create("a");
  create("b");
  Lines enough;
  const ServerAnswer first = ask(old, &enough);
  create("c");
  const ServerAnswer second = ask(old, &lines);
  test::run_for(loop, 1ms);
  EXPECT_THAT(enough.told(), ElementsAre("ADDED a", "ADDED b", "ADDED c"));
  EXPECT_EQ(lines.events.at(0)["type"], "ERROR");
}

TEST_F(WatchTest, forgotten_version_may_be_an_answer) {
  const std::string old = from_now();
  create("a");
  server->restart();
  server->set_mood({.gone_as_answer = 1});
  const ServerAnswer answer = ask(old, &lines);
  EXPECT_EQ(answer.status, 410);
  EXPECT_EQ(answer.watch, nullptr);
}

TEST_F(WatchTest, bookmarks_come_in_their_interval) {
  const ServerAnswer answer = ask(from_now("&allowWatchBookmarks=true"), &lines);
  test::run_for(loop, 70s);
  EXPECT_TRUE(lines.events.empty()) << "there is nothing new to say";
  (void)store.create("pods", "other", {{"metadata", {{"name", "x"}}}}, "test");
  test::run_for(loop, 60s);
  ASSERT_EQ(lines.events.size(), 1U);
  EXPECT_EQ(lines.events[0]["type"], "BOOKMARK");
  EXPECT_EQ(lines.events[0]["object"]["metadata"]["resourceVersion"],
            std::to_string(store.version()));
}

TEST_F(WatchTest, list_in_a_watch_ends_with_its_bookmark) {
  restart_with({.watch_list = true});
  create("a");
  const ServerAnswer answer = ask(std::string(kPods) +
                                      "?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&"
                                      "resourceVersionMatch=NotOlderThan",
                                  &lines);
  test::run_for(loop, 1ms);
  ASSERT_THAT(lines.told(), ElementsAre("ADDED a", "BOOKMARK "));
  EXPECT_EQ(lines.events[1]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
            "true");
}

TEST_F(WatchTest, server_that_goes_down_ends_its_watches) {
  const ServerAnswer answer = ask(from_now(), &lines);
  server->set_mood({.down = true});
  EXPECT_TRUE(lines.ended);
}

TEST_F(WatchTest, watch_without_a_timeout_ends_within_the_hour) {
  const ServerAnswer answer = ask(from_now(), &lines);
  test::run_for(loop, 29min);
  EXPECT_FALSE(lines.ended);
  test::run_for(loop, 32min);
  EXPECT_TRUE(lines.ended);
}

}  // namespace
}  // namespace moonfence::sim
