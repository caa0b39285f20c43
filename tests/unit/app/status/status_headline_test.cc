#include "app/status/status_headline.h"

#include <gtest/gtest.h>

#include "app/status/status_words.h"
#include "unit/app/status_fixture.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using State = policy::PolicyStatus::State;

Headline of(const StatusSnapshot& snapshot) {
  return headline_of(snapshot, kTestNow);
}

TEST(StatusHeadline, without_anything_to_tell_all_is_quiet) {
  const Headline headline = of(quiet_snapshot());
  EXPECT_EQ(headline.title, "All quiet");
  EXPECT_EQ(headline.tone, Tone::Good);
  EXPECT_TRUE(headline.notices.empty());
}

TEST(StatusHeadline, a_policy_that_says_enforce_and_may_only_observe_is_told) {
  StatusSnapshot snapshot = quiet_snapshot();
  snapshot.policies.mode_set_by = "--mode";
  snapshot.policies.mode = policy::Mode::Observe;
  snapshot.policies.policies[0].mode = policy::Mode::Observe;
  snapshot.policies.policies[0].held_back = policy::Mode::Enforce;
  EXPECT_EQ(of(snapshot).tone, Tone::Warning);
  ASSERT_EQ(of(snapshot).notices.size(), 1U);
  EXPECT_EQ(of(snapshot).notices[0].text,
            "Policy noobaa for namespaces db says enforce, and --mode holds it to observe: it "
            "deletes nothing");
}

TEST(StatusHeadline, a_health_source_that_nobody_can_read_is_an_alarm) {
  StatusSnapshot snapshot = quiet_snapshot();
  snapshot.guard.sources = {{.policy = "quiet", .fault = "", .strangers = {}}};
  EXPECT_EQ(of(snapshot).tone, Tone::Good);
  snapshot.guard.sources[0].strangers = {NodeName("n1.example.com")};
  EXPECT_EQ(of(snapshot).tone, Tone::Warning);
  ASSERT_EQ(of(snapshot).notices.size(), 1U);
  EXPECT_NE(of(snapshot).notices[0].text.find("names 1 node that the cluster does not have: "
                                              "n1.example.com"),
            std::string::npos);
  snapshot.guard.sources[0].fault = "HTTP 503";
  EXPECT_EQ(of(snapshot).tone, Tone::Alarm);
  ASSERT_EQ(of(snapshot).notices.size(), 2U);
  EXPECT_NE(of(snapshot).notices[0].text.find("HTTP 503"), std::string::npos);
}

TEST(StatusHeadline, a_fencer_that_does_not_work_is_to_be_looked_at) {
  StatusSnapshot snapshot = quiet_snapshot();
  snapshot.fencers = fence::FencerCheck::Told{.counts = {.works = 28, .none = 2}};
  EXPECT_EQ(of(snapshot).title, "All quiet") << "not every node needs one";
  snapshot.fencers->counts.broken = 1;
  EXPECT_EQ(of(snapshot).title, "Quiet, but look at this");
  ASSERT_EQ(of(snapshot).notices.size(), 1U);
  EXPECT_TRUE(of(snapshot).notices[0].text.starts_with("1 node has a fencer that does not work"));
}

TEST(StatusHeadline, a_picture_that_is_old_hides_everything_else) {
  StatusSnapshot snapshot = quiet_snapshot();
  snapshot.taken = kTestNow - 11s;
  EXPECT_EQ(of(snapshot).title, "This picture is old");
  EXPECT_EQ(of(snapshot).tone, Tone::Alarm);
}

TEST(StatusHeadline, each_state_has_a_title_of_its_own) {
  StatusSnapshot snapshot = quiet_snapshot();
  snapshot.open_incidents = 2;
  EXPECT_EQ(of(snapshot).title, "Fencing: 2 incidents under way");
  snapshot.policies.mode = policy::Mode::Observe;
  EXPECT_EQ(of(snapshot).title, "Observing: 2 incidents under way");
  snapshot.guard.too_many_down = true;
  EXPECT_EQ(of(snapshot).title, "Frozen: too many nodes are down");
  snapshot.policies.mode = policy::Mode::Off;
  EXPECT_EQ(of(snapshot).title, "Off: nothing is judged")
      << "whoever has stopped it sees that, also when the brake would hold it, too";
  snapshot.replica.leads = false;
  EXPECT_EQ(of(snapshot).title, "Standing by");
  EXPECT_NE(of(snapshot).text.find("moonfence-0"), std::string::npos);
  snapshot.guard.doubts = {"calls_fail"};
  EXPECT_EQ(of(snapshot).title, "Frozen: the engine doubts itself");
  EXPECT_NE(of(snapshot).text.find("most calls to the API server fail"), std::string::npos);
  snapshot.synced = false;
  EXPECT_EQ(of(snapshot).title, "Starting");
}

TEST(StatusHeadline, one_is_and_two_are) {
  StatusSnapshot snapshot = quiet_snapshot();
  snapshot.open_incidents = 2;
  snapshot.guard.waiting = 1;
  EXPECT_NE(of(snapshot).text.find(" 1 incident waits for the brake."), std::string::npos);
  snapshot.guard.waiting = 2;
  snapshot.guard.doubtful_nodes = 2;
  snapshot.guard.disrupted_zones = 2;
  EXPECT_NE(of(snapshot).text.find(" 2 incidents wait for the brake."), std::string::npos);
  EXPECT_EQ(of(snapshot).notices[0].text,
            "Most of 2 zones are down: one node at a time is fenced there");
  EXPECT_EQ(of(snapshot).notices[1].text,
            "2 nodes came back and are not proven clean; our taint stays");
  EXPECT_EQ(of(snapshot).tone, Tone::Busy);
  snapshot.guard.failing = 1;
  EXPECT_EQ(of(snapshot).tone, Tone::Alarm);
  EXPECT_NE(of(snapshot).text.find("In 1 incident something has failed for more than a minute"),
            std::string::npos);
}

TEST(StatusHeadline, a_policy_that_does_not_run_is_noticed_even_when_it_is_quiet) {
  StatusSnapshot snapshot = quiet_snapshot();
  snapshot.policies.policies[0].state = State::Stale;
  snapshot.policies.policies.push_back(policy_status("guard", State::Rejected));
  snapshot.policies.policies[1].error = policy::Rejection{.stage = "load", .message = "no such"};
  snapshot.policies.policies[1].holds = true;
  const Headline headline = of(snapshot);
  EXPECT_EQ(headline.title, "Quiet, but look at this");
  EXPECT_EQ(headline.tone, Tone::Alarm);
  ASSERT_EQ(headline.notices.size(), 2U);
  EXPECT_EQ(headline.notices[0].text,
            "Policy guard was rejected, and nothing of it runs; the pods in its scope are held");
  EXPECT_EQ(headline.notices[0].hint, "no such");
  EXPECT_EQ(headline.notices[1].tone, Tone::Warning);
}

TEST(StatusHeadline, what_is_not_ready_lost_or_doubtful_is_noticed) {
  StatusSnapshot snapshot = quiet_snapshot();
  snapshot.not_ready["lease"] = "forbidden";
  snapshot.guard.audit_failures = 1;
  snapshot.guard.doubtful_nodes = 2;
  snapshot.guard.disrupted_zones = 1;
  snapshot.policies.faults = {"mode: 'on' is no mode"};
  EXPECT_EQ(of(snapshot).notices.size(), 5U);
}

TEST(StatusWords, spans_and_ages_are_short) {
  EXPECT_EQ(span_text(12ms), "12 ms");
  EXPECT_EQ(span_text(21400ms), "21.4 s");
  EXPECT_EQ(span_text(60s), "1 min");
  EXPECT_EQ(span_text(125s), "2 min 05 s");
  EXPECT_EQ(span_text(125min), "2 h 05 min");
  EXPECT_EQ(span_text(100h), "4 d");
  EXPECT_EQ(age_text(kTestNow, kTestNow), "just now");
  EXPECT_EQ(age_text(kTestNow - 59s, kTestNow), "59 s ago");
  EXPECT_EQ(age_text(kTestNow - 200s, kTestNow), "3 min ago");
  EXPECT_EQ(age_text(kTestNow + 1min, kTestNow), "in the future");
  EXPECT_EQ(counted(1, "node"), "1 node");
  EXPECT_EQ(counted(0, "node"), "0 nodes");
}

TEST(StatusWords, what_follows_within_a_second_is_told_apart) {
  EXPECT_EQ(exact_time_html(kTestNow + 12ms, kTestNow).text(),
            "<time datetime=\"2026-03-04T10:30:00.012000Z\" "
            "title=\"2026-03-04T10:30:00.012000Z\">10:30:00.012</time>");
}

TEST(StatusWords, a_limit_may_be_none) {
  EXPECT_EQ(limit_text("off"), "no limit");
  EXPECT_EQ(limit_text("50 %"), "limit 50 %");
}

TEST(StatusWords, a_time_is_machine_readable_and_has_its_date_when_it_is_not_today) {
  EXPECT_EQ(time_html(kTestNow - 60s, kTestNow).text(),
            "<time datetime=\"2026-03-04T10:29:00Z\" title=\"2026-03-04T10:29:00Z\">10:29:00"
            "</time>");
  EXPECT_NE(time_html(kTestNow - 24h, kTestNow).text().find(">2026-03-03 10:30:00<"),
            std::string::npos);
}

}  // namespace
}  // namespace moonfence::app
