#include "policy/bundle/reload_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence::policy {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using testing::IsEmpty;
using testing::SizeIs;
using State = PolicyStatus::State;

constexpr WallTime kTen{seconds(1'795'168'800)};  // 2026-11-20T10:00:00Z

PolicyStatus active(const std::string& digest) {
  return {.name = "longhorn",
          .namespaces = "*",
          .state = State::Active,
          .source = "builtin",
          .digest = digest,
          .mode = Mode::Enforce,
          .since = kTen};
}

PolicyStatus stale(const std::string& digest, const std::string& rejected) {
  return {.name = "my-db",
          .namespaces = "db, shop",
          .state = State::Stale,
          .source = "my-db.lua",
          .digest = digest,
          .mode = Mode::Observe,
          .rejected_digest = rejected,
          .error = Rejection{.stage = "load",
                             .line = 12,
                             .message = "pod has no field 'lables' (did you mean 'labels'?)",
                             .hint = "look",
                             .quote = "   12 |   if pod.lables.tier then"},
          .since = kTen - seconds(108)};
}

ReloadReport report_of(std::vector<PolicyStatus> policies) {
  return {.resource_version = "48211",
          .observed_at = kTen,
          .active_set = "9c1d",
          .mode = Mode::Enforce,
          .mode_set_by = "--mode",
          .faults = {},
          .policies = std::move(policies),
          .unknown_keys = {}};
}

TEST(ReloadReportTest, the_document_says_what_is_in_force_and_why) {
  ReloadReport report = report_of({active("3f2a"), stale("77aa", "88bb")});
  report.unknown_keys = {"longhorn.luaa (did you mean longhorn.lua?)"};
  report.faults = {"moonfence.yaml:3: bindings: must be a list"};
  report.policies[0].warnings = {"old name"};
  EXPECT_EQ(to_json(report), json::parse(R"J({
    "observedResourceVersion": "48211", "observedAt": "2026-11-20T10:00:00Z",
    "activeSet": "sha256:9c1d", "mode": "enforce", "modeSetBy": "--mode",
    "faults": ["moonfence.yaml:3: bindings: must be a list"],
    "policies": [
      {"name": "longhorn", "namespaces": "*", "state": "Active", "source": "builtin",
       "digest": "sha256:3f2a", "mode": "enforce", "since": "2026-11-20T10:00:00Z",
       "warnings": ["old name"]},
      {"name": "my-db", "namespaces": "db, shop", "state": "Stale", "source": "my-db.lua",
       "digest": "sha256:77aa", "mode": "observe", "since": "2026-11-20T09:58:12Z",
       "rejectedDigest": "sha256:88bb", "warnings": [],
       "error": {"stage": "load", "line": 12, "hint": "look",
                 "quote": "   12 |   if pod.lables.tier then",
                 "message": "pod has no field 'lables' (did you mean 'labels'?)"}}],
    "unknownKeys": ["longhorn.luaa (did you mean longhorn.lua?)"]})J"));
}

TEST(ReloadReportTest, a_guard_that_is_not_there_says_that_it_holds) {
  PolicyStatus guard = active("");
  guard.state = State::Rejected;
  guard.holds = true;
  guard.error = Rejection{.stage = "load", .message = "broken"};
  const json policy = to_json(report_of({guard})).at("policies").at(0);
  EXPECT_EQ(policy.at("state"), "Rejected");
  EXPECT_EQ(policy.at("holds"), true);
  EXPECT_FALSE(policy.contains("digest"));
  EXPECT_FALSE(policy.at("error").contains("line"));
}

TEST(ReloadReportTest, since_stays_while_nothing_changes) {
  const ReloadReport before = report_of({active("1"), stale("2", "3")});
  ReloadReport after = before;
  for (PolicyStatus& policy : after.policies) {
    policy.since = kTen + seconds(60);
  }
  keep_since(after, before);
  EXPECT_EQ(after, before);
  after.policies[0].digest = "other";
  after.policies[1].state = State::Off;
  for (PolicyStatus& policy : after.policies) {
    policy.since = kTen + seconds(60);
  }
  keep_since(after, before);
  EXPECT_EQ(after.policies[0].since, kTen + seconds(60));
  EXPECT_EQ(after.policies[1].since, kTen + seconds(60));
}

TEST(ReloadReportTest, only_what_runs_can_be_failing) {
  PolicyStatus rejected = active("");
  rejected.state = State::Rejected;
  PolicyStatus off = active("1");
  off.state = State::Off;
  ReloadReport report = report_of({active("1"), stale("2", "3"), rejected, off});
  mark_failing(report, {"longhorn", "my-db"});
  EXPECT_EQ(report.policies[0].state, State::Failing);
  EXPECT_EQ(report.policies[1].state, State::Failing);
  EXPECT_EQ(report.policies[2].state, State::Rejected);
  EXPECT_EQ(report.policies[3].state, State::Off);
  EXPECT_EQ(to_json(report).at("policies").at(0).at("state"), "Failing");
}

TEST(ReloadReportTest, that_nothing_is_fenced_has_a_reason) {
  PolicyStatus off = active("1");
  off.state = State::Off;
  PolicyStatus rejected = active("");
  rejected.state = State::Rejected;
  using Kind = Idleness::Kind;
  EXPECT_EQ(report_of({active("1")}).idleness().kind, Kind::None);
  EXPECT_EQ(report_of({off, active("1")}).idleness().kind, Kind::None);
  EXPECT_EQ(report_of({off, rejected}).idleness().kind, Kind::NothingRuns);
  ReloadReport report = report_of({});
  EXPECT_EQ(report.idleness().kind, Kind::NothingBound);
  EXPECT_EQ(to_json(report).at("nothingFenced"),
            "moonfence.yaml binds no policy, and there is nothing to enforce");
  report = report_of({active("1")});
  report.mode = Mode::Off;
  EXPECT_EQ(report.idleness(), (Idleness{Kind::ModeOff, "the mode is off, set by --mode"}));
  report.missing = "no ConfigMap";
  EXPECT_EQ(report.idleness().kind, Kind::NoConfigMap);
  EXPECT_FALSE(to_json(report_of({active("1")})).contains("nothingFenced"));
}

TEST(NewsroomTest, that_nothing_is_fenced_is_told_once_until_it_is_over) {
  Newsroom newsroom;
  const auto first = newsroom.news_in(report_of({}));
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].kind, ReloadNews::Kind::PoliciesInactive);
  EXPECT_THAT(newsroom.news_in(report_of({})), IsEmpty());
  ReloadReport off = report_of({});
  off.mode = Mode::Off;
  EXPECT_THAT(newsroom.news_in(off), SizeIs(1)) << "another reason";
  EXPECT_THAT(newsroom.news_in(report_of({active("1")})), SizeIs(1));
  EXPECT_THAT(newsroom.news_in(report_of({})), SizeIs(1));
}

TEST(NewsroomTest, a_policy_that_no_binding_names_is_told_once) {
  Newsroom newsroom;
  ReloadReport report = report_of({active("1")});
  report.unbound = {"my-db"};
  const auto news = newsroom.news_in(report);
  ASSERT_THAT(news, SizeIs(2));
  const ReloadNews& unbound = news[0];
  EXPECT_EQ(unbound.kind, ReloadNews::Kind::PolicyUnbound);
  EXPECT_EQ(unbound.policy, "my-db");
  EXPECT_EQ(to_json(report).at("unbound"), json::array({"my-db"}));
  EXPECT_THAT(newsroom.news_in(report), IsEmpty());
  report.unbound.clear();
  EXPECT_THAT(newsroom.news_in(report), IsEmpty());
  report.unbound = {"my-db"};
  EXPECT_THAT(newsroom.news_in(report), SizeIs(1));
}

TEST(NewsroomTest, each_activation_and_rejection_is_told_once) {
  Newsroom newsroom;
  const ReloadReport report = report_of({active("3f2a"), stale("77aa", "88bb")});
  const auto news = newsroom.news_in(report);
  ASSERT_THAT(news, SizeIs(2));
  EXPECT_EQ(news[0].kind, ReloadNews::Kind::PolicyActivated);
  EXPECT_EQ(news[0].policy, "longhorn");
  EXPECT_EQ(news[0].digest, "3f2a");
  EXPECT_EQ(news[0].text,
            "policy longhorn (builtin, sha256:3f2a) is active in mode enforce for namespaces *");
  EXPECT_EQ(news[1].kind, ReloadNews::Kind::PolicyRejected);
  EXPECT_EQ(news[1].digest, "88bb");
  EXPECT_EQ(news[1].text,
            "my-db.lua:12: pod has no field 'lables' (did you mean 'labels'?) (look); sha256:77aa "
            "goes on");
  EXPECT_THAT(newsroom.news_in(report), IsEmpty());
}

TEST(NewsroomTest, what_is_held_back_says_by_what) {
  PolicyStatus held = active("3f2a");
  held.state = State::Observe;
  held.mode = Mode::Observe;
  held.held_back = Mode::Enforce;
  ReloadReport report = report_of({held});
  report.mode_set_by = "--mode";
  const auto news = Newsroom().news_in(report);
  ASSERT_THAT(news, SizeIs(1));
  EXPECT_EQ(news[0].text,
            "policy longhorn (builtin, sha256:3f2a) is active in mode observe for namespaces *: it "
            "says enforce, and --mode holds it to observe");
  EXPECT_EQ(to_json(report).at("policies").at(0).at("heldBackFrom"), "enforce");
}

TEST(NewsroomTest, another_text_a_fix_and_a_revert_are_news) {
  Newsroom newsroom;
  EXPECT_THAT(newsroom.news_in(report_of({stale("1", "2")})), SizeIs(1));
  EXPECT_THAT(newsroom.news_in(report_of({stale("1", "3")})), SizeIs(1)) << "another fault";
  PolicyStatus fixed = stale("1", "");
  fixed.state = State::Observe;
  fixed.error.reset();
  EXPECT_THAT(newsroom.news_in(report_of({fixed})), SizeIs(1));
  EXPECT_THAT(newsroom.news_in(report_of({stale("1", "3")})), SizeIs(1));
  EXPECT_THAT(newsroom.news_in(report_of({fixed})), SizeIs(1));
}

TEST(NewsroomTest, off_and_on_again_is_no_news_of_a_policy) {
  Newsroom newsroom;
  PolicyStatus other = active("2");
  other.name = "other";
  EXPECT_THAT(newsroom.news_in(report_of({active("1"), other})), SizeIs(2));
  PolicyStatus off = active("1");
  off.state = State::Off;
  EXPECT_THAT(newsroom.news_in(report_of({off, other})), IsEmpty());
  EXPECT_THAT(newsroom.news_in(report_of({active("1"), other})), IsEmpty());
  EXPECT_THAT(newsroom.news_in(report_of({other})), IsEmpty());
  EXPECT_THAT(newsroom.news_in(report_of({active("1"), other})), SizeIs(1))
      << "it was unbound between";
}

}  // namespace
}  // namespace moonfence::policy
