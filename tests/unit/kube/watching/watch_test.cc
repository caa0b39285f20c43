#include "kube/watching/watch.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonfence::kube {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using Type = FrameArrived::Type;
using Kind = Error::Kind;

struct WatchMachineTest : testing::Test {
  WatchMachine machine;
  Moment now{};
  double chance = 0;

  std::vector<std::string> step(const WatchEvent& event) {
    std::vector<std::string> out;
    for (const WatchEffect& effect : machine.step(now, chance, event)) {
      out.push_back(to_string(effect));
    }
    return out;
  }
  static PageArrived page(std::string version, std::string token = "") {
    return {ListMeta{.kind = "NodeList",
                     .resource_version = ResourceVersion(std::move(version)),
                     .continue_token = std::move(token)}};
  }
  static FrameArrived frame(Type type, std::string version) {
    return {.type = type, .version = ResourceVersion(std::move(version))};
  }
  static Error error(int status, Kind kind, std::string reason = "") {
    return {.kind = kind, .text = "e", .http_status = status, .reason = std::move(reason)};
  }
  static FrameArrived error_frame(Error what) { return {.type = Type::Error, .error = what}; }
  static Error refused() { return error(0, Kind::Retryable); }
  static Error gone() { return error(410, Kind::Gone, "Expired"); }

  // Lists at version 10 and opens the watch.
  void sync() {
    step(Started{});
    step(page("10"));
    step(WatchOpened{});
  }
  // Synced, and the watch has shown that it works.
  void prove() {
    sync();
    now += 5s;
    step(frame(Type::Modified, "12"));
  }
};

// Tried with a proxy that answered 200 and then said nothing: a node was dead for five minutes.
TEST_F(WatchMachineTest, a_watch_that_does_not_reach_what_the_server_has_is_listed_anew) {
  sync();
  EXPECT_THAT(step(ComparisonDue{}), ElementsAre("ask version"));
  EXPECT_THAT(step(VersionTold{ResourceVersion("20")}), ElementsAre());
  now += 75s;
  EXPECT_THAT(step(ComparisonDue{}), ElementsAre("ask version")) << "a bookmark may still come";
  EXPECT_THAT(step(VersionTold{ResourceVersion("21")}), ElementsAre());
  now += 1s;
  EXPECT_THAT(step(ComparisonDue{}), ElementsAre("note stands_still", "list limit=500"));
  EXPECT_THAT(step(page("22")), ElementsAre("emit init", "emit init_done", "watch rv=22 for 5m"));
  step(WatchOpened{});
  EXPECT_THAT(step(ComparisonDue{}), ElementsAre("ask version"));
}

TEST_F(WatchMachineTest, a_watch_that_reaches_it_is_whole_up_to_then) {
  sync();
  const Moment first = now;
  step(ComparisonDue{});
  step(VersionTold{ResourceVersion("20")});
  now += 15s;
  step(ComparisonDue{});
  step(VersionTold{ResourceVersion("30")});
  step(frame(Type::Modified, "19"));
  EXPECT_EQ(machine.whole_at(), Moment{}) << "by the list";
  now += 1s;
  step(frame(Type::Bookmark, "25"));
  EXPECT_EQ(machine.whole_at(), first);
  step(frame(Type::Bookmark, "30"));
  EXPECT_EQ(machine.whole_at(), first + 15s);
  now += 1h;
  step(ComparisonDue{});
  step(VersionTold{ResourceVersion("30")});
  EXPECT_EQ(machine.whole_at(), now) << "nothing has happened since";
}

TEST_F(WatchMachineTest, a_server_that_has_less_than_was_seen_is_listed_anew) {
  sync();
  step(ComparisonDue{});
  step(frame(Type::Modified, "15"));
  EXPECT_THAT(step(VersionTold{ResourceVersion("12")}), ElementsAre())
      << "the watch was faster than the answer";
  step(ComparisonDue{});
  EXPECT_THAT(step(VersionTold{ResourceVersion("14")}), ElementsAre("list limit=500"));
  EXPECT_THAT(step(page("14")), testing::Contains("note went_back"));
}

TEST_F(WatchMachineTest, without_a_watch_there_is_nothing_to_compare) {
  EXPECT_THAT(step(ComparisonDue{}), ElementsAre());
  step(Started{});
  EXPECT_THAT(step(ComparisonDue{}), ElementsAre());
  step(page("10"));
  EXPECT_THAT(step(ComparisonDue{}), ElementsAre()) << "it is not open yet";
  step(WatchOpened{});
  step(ComparisonDue{});
  step(StreamClosed{});
  EXPECT_THAT(step(VersionTold{ResourceVersion("20")}), ElementsAre());
}

TEST_F(WatchMachineTest, a_list_that_somebody_else_made_is_not_made_again) {
  EXPECT_THAT(step(Resumed{ResourceVersion("42")}), ElementsAre("watch rv=42 for 5m"));
  step(WatchOpened{});
  EXPECT_THAT(step(frame(Type::Modified, "43")), ElementsAre("emit apply"));
  // Once its version is gone everything is listed as ever.
  EXPECT_EQ(step(error_frame(gone())).back(),
            "list resourceVersion=43 resourceVersionMatch=NotOlderThan");
}

TEST_F(WatchMachineTest, a_list_without_a_version_is_made_anew) {
  EXPECT_THAT(step(Resumed{}), ElementsAre("list limit=500"));
}

TEST_F(WatchMachineTest, the_first_list_is_consistent_and_paged) {
  EXPECT_THAT(step(Started{}), ElementsAre("list limit=500"));
  EXPECT_THAT(step(ItemArrived{}), ElementsAre("emit init", "emit init_apply"));
  EXPECT_THAT(step(ItemArrived{}), ElementsAre("emit init_apply"));
  EXPECT_THAT(step(page("10", "t")), ElementsAre("list limit=500 continue=t"));
  EXPECT_EQ(machine.text(), "listing page 2");
  EXPECT_THAT(step(page("10", "t2")), ElementsAre("list limit=500 continue=t2"))
      << "an empty page in the middle is no end";
  EXPECT_THAT(step(page("10")), ElementsAre("emit init_done", "watch rv=10 for 5m"));
  EXPECT_EQ(machine.text(), "watching rv=10");
}

TEST_F(WatchMachineTest, an_empty_list_is_a_list) {
  step(Started{});
  EXPECT_THAT(step(page("10")), ElementsAre("emit init", "emit init_done", "watch rv=10 for 5m"));
}

TEST_F(WatchMachineTest, a_server_that_ignores_the_limit_is_fine) {
  step(Started{});
  for (int i = 0; i < 2000; ++i) {
    step(ItemArrived{});
  }
  EXPECT_THAT(step(page("10")), ElementsAre("emit init_done", "watch rv=10 for 5m"));
}

TEST_F(WatchMachineTest, a_token_expired_after_page_two_discards_everything) {
  step(Started{});
  step(ItemArrived{});
  step(page("10", "a"));
  step(ItemArrived{});
  step(page("10", "b"));
  EXPECT_THAT(step(ListFailed{gone()}), ElementsAre("note expired", "list"));
  EXPECT_THAT(step(ItemArrived{}), ElementsAre("emit init", "emit init_apply"));
  EXPECT_THAT(step(page("11")), ElementsAre("emit init_done", "watch rv=11 for 5m"));
}

TEST_F(WatchMachineTest, a_list_that_fails_leaves_the_old_picture_alone) {
  step(Started{});
  step(ItemArrived{});
  EXPECT_THAT(step(ListFailed{refused()}), ElementsAre("note list_failed", "stop", "timer 800ms"));
  EXPECT_THAT(step(ItemArrived{}), ElementsAre()) << "nothing of it counts any more";
  EXPECT_THAT(step(page("10")), ElementsAre());
  EXPECT_THAT(step(TimerFired{}), ElementsAre("list limit=500"));
}

TEST_F(WatchMachineTest, a_list_without_version_cannot_be_watched_from) {
  step(Started{});
  EXPECT_THAT(step(page("")), ElementsAre("note list_failed", "stop", "timer 800ms"));
}

TEST_F(WatchMachineTest, a_403_is_tried_again_with_growing_pauses) {
  step(Started{});
  EXPECT_THAT(step(ListFailed{error(403, Kind::Forbidden)}),
              ElementsAre("note list_failed", "stop", "timer 800ms"))
      << "an API server that has just started refuses what it will grant a moment later";
  step(TimerFired{});
  EXPECT_THAT(step(ListFailed{error(403, Kind::Forbidden)}),
              ElementsAre("note list_failed", "stop", "timer 1s600ms"));
}

TEST_F(WatchMachineTest, retry_after_is_a_minimum) {
  step(Started{});
  Error busy = error(429, Kind::Retryable);
  busy.retry_after = 7s;
  EXPECT_THAT(step(ListFailed{busy}), ElementsAre("note list_failed", "stop", "timer 7s"));
}

TEST_F(WatchMachineTest, events_are_passed_on_and_carry_the_version) {
  sync();
  EXPECT_THAT(step(frame(Type::Added, "11")), ElementsAre("emit apply"));
  EXPECT_THAT(step(frame(Type::Modified, "12")), ElementsAre("emit apply"));
  EXPECT_THAT(step(frame(Type::Deleted, "13")), ElementsAre("emit delete"));
  EXPECT_EQ(machine.version().text(), "13");
}

TEST_F(WatchMachineTest, a_bookmark_advances_the_version_and_nothing_else) {
  sync();
  EXPECT_THAT(step(frame(Type::Bookmark, "20")), ElementsAre());
  now += 60s;
  EXPECT_THAT(step(StreamClosed{}), ElementsAre("watch rv=20 for 5m"));
}

TEST_F(WatchMachineTest, fifty_normal_ends_cause_no_list) {
  sync();
  for (int i = 0; i < 50; ++i) {
    now += 10s;
    EXPECT_THAT(step(StreamClosed{}), ElementsAre("watch rv=10 for 5m"));
    step(WatchOpened{});
  }
}

TEST_F(WatchMachineTest, a_reset_of_a_living_watch_resumes_without_a_whole_list) {
  prove();
  EXPECT_THAT(step(StreamClosed{refused()}), ElementsAre("list limit=1"));
  EXPECT_EQ(machine.text(), "asking for the version");
  EXPECT_THAT(step(ItemArrived{}), ElementsAre()) << "only the version counts";
  EXPECT_THAT(step(page("15", "more")), ElementsAre("watch rv=12 for 5m"));
}

// Etcd was restored from a snapshot while the API server was away for three seconds. The watch on
// the nodes went on at the version that it had reached before, the server answered 200 and said
// nothing until the new history got as far: a node that died meanwhile was never seen.
TEST_F(WatchMachineTest, after_a_cut_a_version_that_went_back_lists_everything) {
  prove();
  step(StreamClosed{refused()});
  EXPECT_THAT(step(page("9")), ElementsAre("list limit=500"));
  EXPECT_THAT(step(ItemArrived{}), ElementsAre("emit init", "emit init_apply"));
  EXPECT_THAT(step(page("9")),
              ElementsAre("note went_back", "emit init_done", "watch rv=9 for 5m"));
}

// A server that has just been restored is asked by everybody at once.
TEST_F(WatchMachineTest, a_429_to_the_question_is_no_answer) {
  prove();
  step(StreamClosed{refused()});
  step(ListFailed{error(429, Kind::Retryable, "TooManyRequests")});
  EXPECT_THAT(step(TimerFired{}), ElementsAre("list limit=1"));
}

TEST_F(WatchMachineTest, a_version_that_cannot_be_compared_lists_everything) {
  prove();
  step(StreamClosed{refused()});
  EXPECT_THAT(step(page("x")), ElementsAre("list limit=500"));
}

TEST_F(WatchMachineTest, whoever_cannot_be_asked_for_the_version_is_asked_again) {
  prove();
  step(StreamClosed{refused()});
  EXPECT_THAT(step(ListFailed{refused()}), ElementsAre("stop", "note watch_failed", "timer 800ms"));
  EXPECT_THAT(step(TimerFired{}), ElementsAre("list limit=1"));
  EXPECT_THAT(step(Stalled{}), ElementsAre("stop", "note watch_failed", "timer 1s600ms"));
  EXPECT_THAT(step(TimerFired{}), ElementsAre("list limit=1"));
  EXPECT_THAT(step(page("")), ElementsAre("stop", "note watch_failed", "timer 3s200ms"))
      << "an answer without a version says nothing";
  step(TimerFired{});
  EXPECT_THAT(step(ListWanted{}), ElementsAre("list limit=500"));
}

TEST_F(WatchMachineTest, a_watch_that_closes_at_once_is_a_failure) {
  sync();
  EXPECT_THAT(step(StreamClosed{}), ElementsAre("note watch_failed", "timer 800ms"));
  int requests = 0;
  const Moment begin = now;
  while (now - begin < 60s) {
    now += 800ms;  // the shortest delay there is
    ASSERT_THAT(step(TimerFired{}), ElementsAre("list limit=1"));
    ASSERT_THAT(step(page("10")), ElementsAre("watch rv=10 for 5m"));
    requests += 2;
    step(WatchOpened{});
    for (const WatchEffect& effect : machine.step(now, chance, StreamClosed{})) {
      if (const auto* timer = std::get_if<SetTimer>(&effect)) {
        now += timer->delay - 800ms;
      }
    }
  }
  EXPECT_LT(requests, 60);
}

TEST_F(WatchMachineTest, a_server_that_says_one_word_and_closes_is_not_asked_without_end) {
  sync();
  step(frame(Type::Bookmark, "11"));
  EXPECT_THAT(step(StreamClosed{}), ElementsAre("watch rv=11 for 5m"));
  step(WatchOpened{});
  step(frame(Type::Bookmark, "11"));
  EXPECT_THAT(step(StreamClosed{}), ElementsAre("note watch_failed", "timer 800ms"));
}

// A network that cut everything three times within moments, again and again: with pauses that went
// on growing from one time to the next the nodes were not watched for half a minute, and one that
// was made and failed meanwhile was never fenced.
TEST_F(WatchMachineTest, cuts_do_not_add_up_over_a_watch_that_lived_in_between) {
  prove();
  for (int time = 0; time < 10; ++time) {
    EXPECT_THAT(step(StreamClosed{refused()}), ElementsAre("list limit=1"));
    step(page("12"));
    for (const std::string pause : {"800ms", "1s600ms"}) {
      step(WatchOpened{});
      now += 100ms;
      EXPECT_THAT(step(StreamClosed{refused()}), ElementsAre("note watch_failed", "timer " + pause))
          << time;
      now += 2s;
      step(TimerFired{});
      step(page("12"));
    }
    step(WatchOpened{});
    now += 10s;
  }
}

TEST_F(WatchMachineTest, a_server_down_for_twenty_seconds_costs_no_whole_list) {
  prove();
  step(StreamClosed{refused()});
  const Moment begin = now;
  while (now - begin < 20s) {
    for (const WatchEffect& effect : machine.step(now, chance, ListFailed{refused()})) {
      EXPECT_EQ(std::get_if<StartList>(&effect), nullptr);
      if (const auto* timer = std::get_if<SetTimer>(&effect)) {
        now += timer->delay;
      }
    }
    EXPECT_THAT(step(TimerFired{}), ElementsAre("list limit=1"));
  }
  EXPECT_THAT(step(page("12")), ElementsAre("watch rv=12 for 5m"));
  step(WatchOpened{});
  EXPECT_THAT(step(frame(Type::Modified, "13")), ElementsAre("emit apply"));
}

// Each refusal as HTTP status and as ERROR frame.
TEST_F(WatchMachineTest, a_410_lists_again_from_the_last_version) {
  for (const bool as_frame : {false, true}) {
    machine = WatchMachine();
    prove();
    if (as_frame) {
      EXPECT_THAT(step(error_frame(gone())),
                  ElementsAre("stop", "note expired",
                              "list resourceVersion=12 resourceVersionMatch=NotOlderThan"));
    } else {
      now += 5s;
      step(StreamClosed{});
      EXPECT_THAT(
          step(StreamClosed{gone()}),
          ElementsAre("note expired", "list resourceVersion=12 resourceVersionMatch=NotOlderThan"));
    }
  }
}

TEST_F(WatchMachineTest, the_410_ladder_ends_at_the_most_recent_state) {
  for (const Error& second : {gone(), error(504, Kind::Retryable, "ResourceVersionTooLarge")}) {
    machine = WatchMachine();
    prove();
    step(error_frame(gone()));
    EXPECT_THAT(step(ListFailed{second}), ElementsAre("note expired", "list limit=500"));
    step(ListFailed{refused()});
    EXPECT_THAT(step(TimerFired{}), ElementsAre("list limit=500"))
        << "until a list succeeds the last version is not asked for again";
  }
}

TEST_F(WatchMachineTest, a_410_right_after_a_list_waits) {
  sync();
  EXPECT_THAT(step(error_frame(gone())), ElementsAre("stop", "note expired", "timer 800ms"));
  EXPECT_THAT(step(TimerFired{}),
              ElementsAre("list resourceVersion=10 resourceVersionMatch=NotOlderThan"));
}

TEST_F(WatchMachineTest, a_429_keeps_the_version) {
  for (const bool as_frame : {false, true}) {
    machine = WatchMachine();
    step(Started{});
    step(page("10"));
    const Error busy = error(429, Kind::Retryable, "TooManyRequests");
    as_frame ? (step(WatchOpened{}), step(error_frame(busy))) : step(StreamClosed{busy});
    EXPECT_EQ(machine.text(), "backing off, then watch");
    EXPECT_THAT(step(TimerFired{}), ElementsAre("watch rv=10 for 5m"));
  }
}

TEST_F(WatchMachineTest, server_errors_keep_the_version_five_times) {
  const Error broken = error(500, Kind::Retryable, "InternalError");
  for (const bool as_frame : {false, true}) {
    machine = WatchMachine();
    step(Started{});
    step(page("10"));
    for (int i = 0; i < 6; ++i) {
      as_frame ? (step(WatchOpened{}), step(error_frame(broken))) : step(StreamClosed{broken});
      EXPECT_EQ(machine.text(), i < 5 ? "backing off, then watch" : "backing off, then list");
      step(TimerFired{});
      step(page("10"));
    }
  }
}

TEST_F(WatchMachineTest, any_other_error_ends_the_stream_and_lists_again) {
  for (const Error& other :
       {error(403, Kind::Forbidden), error(422, Kind::Invalid), error(0, Kind::Malformed),
        error(401, Kind::Unauthorized), error(504, Kind::Retryable, "ResourceVersionTooLarge")}) {
    machine = WatchMachine();
    prove();
    const auto effects = step(error_frame(other));
    EXPECT_EQ(effects.at(0), "stop");
    EXPECT_EQ(machine.text(), "backing off, then list");
  }
}

TEST_F(WatchMachineTest, what_is_not_understood_forces_a_list) {
  prove();
  EXPECT_THAT(step(FrameArrived{.type = Type::Undecodable, .text = "FOO"}),
              ElementsAre("note undecodable", "stop", "timer 800ms"));
  EXPECT_THAT(step(frame(Type::Modified, "99")), ElementsAre()) << "nothing after it counts";
  EXPECT_THAT(step(TimerFired{}),
              ElementsAre("list resourceVersion=12 resourceVersionMatch=NotOlderThan"));
}

TEST_F(WatchMachineTest, a_silent_watch_is_opened_again_at_the_same_version) {
  prove();
  now += 130s;
  EXPECT_THAT(step(Stalled{}), ElementsAre("note stalled", "list limit=1"));
  EXPECT_THAT(step(page("12")), ElementsAre("watch rv=12 for 5m"));
  EXPECT_THAT(step(Stalled{}), ElementsAre("note stalled", "stop", "timer 800ms"))
      << "one that never opened is a failure";
  EXPECT_EQ(machine.text(), "backing off, then watch");
}

TEST_F(WatchMachineTest, a_silent_list_has_failed) {
  step(Started{});
  EXPECT_THAT(step(Stalled{}), ElementsAre("note list_failed", "stop", "timer 800ms"));
}

TEST_F(WatchMachineTest, timeouts_spread_between_five_and_ten_minutes) {
  sync();
  std::set<std::int64_t> seen;
  for (int i = 0; i < 100; ++i) {
    now += 5s;
    chance = i / 100.0;
    for (const WatchEffect& effect : machine.step(now, chance, StreamClosed{})) {
      const auto& watch = std::get<StartWatch>(effect);
      seen.insert(watch.timeout.count());
      EXPECT_EQ(watch.deadline, watch.timeout + 10s);
    }
    step(WatchOpened{});
  }
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_EQ(*seen.begin(), 300);
  EXPECT_LE(*seen.rbegin(), 600);
  chance = 0.9999999;
  now += 5s;
  EXPECT_THAT(step(StreamClosed{}), ElementsAre("watch rv=10 for 10m"));
}

TEST_F(WatchMachineTest, everything_is_listed_again_now_and_then) {
  sync();
  now += 14min;
  EXPECT_THAT(step(StreamClosed{}), ElementsAre("watch rv=10 for 5m"));
  step(WatchOpened{});
  now += 2min;
  EXPECT_THAT(step(StreamClosed{}), ElementsAre("note audit", "list limit=500"));
  step(page("30"));
  step(WatchOpened{});
  now += 14min;
  EXPECT_THAT(step(StreamClosed{}), ElementsAre("watch rv=30 for 5m"));
}

TEST_F(WatchMachineTest, a_failed_audit_does_not_blind_the_watch) {
  prove();
  now += 16min;
  EXPECT_THAT(step(StreamClosed{}), ElementsAre("note audit", "list limit=500"));
  step(ItemArrived{});
  EXPECT_THAT(step(ListFailed{refused()}), ElementsAre("note list_failed", "stop", "timer 800ms"));
  EXPECT_THAT(step(TimerFired{}), ElementsAre("list limit=1"));
  EXPECT_THAT(step(page("12")), ElementsAre("watch rv=12 for 5m"));
}

TEST_F(WatchMachineTest, a_wanted_list_asks_for_the_most_recent_state) {
  prove();
  EXPECT_THAT(step(ListWanted{}), ElementsAre("list limit=500"));
  EXPECT_THAT(step(page("20")), ElementsAre("emit init", "emit init_done", "watch rv=20 for 5m"));
}

TEST_F(WatchMachineTest, a_list_that_was_begun_before_one_was_wanted_does_not_count) {
  step(Started{});
  step(ItemArrived{});
  EXPECT_THAT(step(ListWanted{}), ElementsAre("list limit=500"));
  EXPECT_THAT(step(ItemArrived{}), ElementsAre("emit init", "emit init_apply"));
}

TEST_F(WatchMachineTest, a_wanted_list_does_not_wait_for_a_pause_to_end) {
  prove();
  step(StreamClosed{refused()});
  step(ListFailed{refused()});
  ASSERT_THAT(machine.text(), testing::StartsWith("backing off"));
  EXPECT_THAT(step(ListWanted{}), ElementsAre("list limit=500"));
  EXPECT_THAT(step(TimerFired{}), ElementsAre()) << "the pause is over when the list has begun";
}

TEST_F(WatchMachineTest, a_version_that_went_back_is_noted) {
  prove();
  step(error_frame(gone()));
  step(ListFailed{gone()});
  EXPECT_THAT(step(page("3")),
              ElementsAre("emit init", "note went_back", "emit init_done", "watch rv=3 for 5m"));
}

TEST_F(WatchMachineTest, ten_minutes_of_outage_cost_few_requests) {
  step(Started{});
  int requests = 1;
  while (now - Moment{} < 10min) {
    for (const WatchEffect& effect : machine.step(now, chance, ListFailed{refused()})) {
      if (const auto* timer = std::get_if<SetTimer>(&effect)) {
        now += timer->delay;
      }
    }
    requests += step(TimerFired{}).empty() ? 0 : 1;
  }
  EXPECT_LT(requests, 30);
}

}  // namespace
}  // namespace moonfence::kube
