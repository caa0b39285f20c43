// Policies that let a pod fail before it is deleted, so that its Job replaces it. To the Job and to
// the volumes the patch of its status is as good as the deletion: whatever stops one stops the
// other, and what changes between the two stops the second.

#include <algorithm>

#include "unit/fence/incidents_fixture.h"

namespace moonfence::fence {
namespace {

constexpr const char* kStatus = "/api/v1/namespaces/db/pods/web-0/status";

struct PodFailingTest : IncidentsTest {
  std::function<void()> between = [] {};   // in the moment in which the patch is answered
  std::vector<test::FakeAnswer> refusals;  // of the next patches, in place of doing them
  std::vector<nlohmann::json> patches;

  PodFailingTest() {
    protections.fail_pods = true;
    http.on(port::Method::Patch, kStatus, [this](const test::FakeRequest& request) {
      EXPECT_EQ(request.header("Content-Type"), "application/strategic-merge-patch+json");
      patches.push_back(nlohmann::json::parse(request.body));
      between();
      if (!refusals.empty()) {
        const test::FakeAnswer answer = refusals.front();
        refusals.erase(refusals.begin());
        return answer;
      }
      nlohmann::json& pod = pods.at("web-0");
      const nlohmann::json& patch = patches.back();
      if (patch["metadata"]["uid"] != pod["metadata"]["uid"] ||
          patch["metadata"]["resourceVersion"] != pod["metadata"]["resourceVersion"]) {
        return status(409, "Conflict", "web-0");
      }
      pod["status"]["phase"] = "Failed";
      pod["status"]["conditions"] = patch["status"]["conditions"];
      pod["metadata"]["resourceVersion"] = "12";
      return test::FakeAnswer{.body = pod.dump()};
    });
    add_pod("web-0");
    pods["web-0"]["metadata"]["resourceVersion"] = "11";
  }
  void begin(Mode mode = Mode::Enforce) {
    take_up_nodes(on_every_signal("return fence.delete_pod('its node is dead', { fail = true })"),
                  mode);
    tell(Look::Fell);
  }
  [[nodiscard]] bool is_open() const { return incidents->open_incidents() > 0; }
  // "intent policy_fails_pod", "outcome done" and so on, of both calls.
  [[nodiscard]] Lines calls() const {
    Lines lines;
    for (const Record& record : story.records) {
      if (record.action == "fail_pod" || record.action == "delete_pod") {
        if (record.kind != Record::Kind::Verdict) {
          lines.push_back(record.action + " " + std::string(to_string(record.kind)) + " " +
                          std::string(code(record.reason)));
        }
      }
    }
    return lines;
  }
};

const Lines kBoth = {"fail_pod intent policy_fails_pod", "fail_pod outcome done",
                     "delete_pod intent policy_deletes_pod", "delete_pod outcome done"};

TEST_F(PodFailingTest, it_fails_and_then_it_is_deleted) {
  begin();
  EXPECT_TRUE(run_until([this] { return !is_open(); }));
  EXPECT_EQ(calls(), kBoth);
  ASSERT_EQ(patches.size(), 1U);
  const nlohmann::json& patch = patches.front();
  EXPECT_EQ(patch["metadata"], nlohmann::json({{"uid", "uid-web-0"}, {"resourceVersion", "11"}}));
  EXPECT_EQ(patch["status"]["phase"], "Failed");
  const nlohmann::json& condition = patch["status"]["conditions"][0];
  EXPECT_EQ(condition["type"], "DisruptionTarget");
  EXPECT_EQ(condition["status"], "True");
  EXPECT_EQ(condition["reason"], "DeletionByMoonfence");
  EXPECT_TRUE(parse_rfc3339(condition["lastTransitionTime"].get<std::string>()));
  EXPECT_FALSE(pods.contains("web-0"));
}

TEST_F(PodFailingTest, without_fail_its_status_is_left_alone) {
  take_up_nodes();
  run_incident();
  EXPECT_TRUE(patches.empty());
  EXPECT_FALSE(pods.contains("web-0"));
}

// It is nobody's business to close an incident over a switch: the pod is still there.
TEST_F(PodFailingTest, without_the_switch_it_is_held) {
  protections.fail_pods = false;
  begin();
  run_for(10min);
  EXPECT_TRUE(patches.empty());
  EXPECT_TRUE(deletes().empty());
  EXPECT_TRUE(is_open());
  const std::size_t told = story.count(Record::Kind::Refusal, Reason::FailingNotServed);
  EXPECT_GE(told, 2U);
  EXPECT_LE(told, 41U);
}

TEST_F(PodFailingTest, what_only_observes_lets_nothing_fail) {
  begin(Mode::Observe);
  run_for(5min);
  EXPECT_TRUE(patches.empty());
  EXPECT_TRUE(deletes().empty());
}

TEST_F(PodFailingTest, what_keeps_it_from_being_deleted_keeps_it_from_failing) {
  protections.namespaces = {Namespace("db")};  // which the guard alone knows
  begin();
  run_for(1min);
  EXPECT_TRUE(patches.empty());
  EXPECT_TRUE(deletes().empty());
  EXPECT_EQ(story.count(Record::Kind::Intent, Reason::PolicyFailsPod), 0U);
  EXPECT_GE(story.count(Record::Kind::Refusal, Reason::ProtectedNamespace), 1U);
}

// Who tries a policy hears of the missing switch before it enforces.
TEST_F(PodFailingTest, what_observes_is_told_that_the_switch_is_off) {
  begin(Mode::Observe);
  run_for(10s);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::FailingNotServed), 0U);
  EXPECT_GE(story.count(Record::Kind::Refusal, Reason::ModeObserves), 1U);
  incidents.reset();
  protections.fail_pods = false;
  begin(Mode::Observe);
  run_for(10s);
  EXPECT_GE(story.count(Record::Kind::Refusal, Reason::FailingNotServed), 1U);
  EXPECT_TRUE(patches.empty());
}

TEST_F(PodFailingTest, what_an_earlier_leader_let_fail_is_only_deleted) {
  pods["web-0"]["status"] = {
      {"phase", "Failed"},
      {"conditions",
       {{{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "DeletionByMoonfence"}}}}};
  begin();
  EXPECT_TRUE(run_until([this] { return !is_open(); }));
  EXPECT_TRUE(patches.empty());
  EXPECT_FALSE(pods.contains("web-0"));
}

TEST_F(PodFailingTest, what_failed_by_itself_is_left_alone) {
  pods["web-0"]["status"] = {
      {"phase", "Failed"},
      {"conditions",
       {{{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "TerminationByKubelet"}}}}};
  begin();
  EXPECT_TRUE(run_until([this] { return !is_open(); }));
  EXPECT_TRUE(patches.empty());
  EXPECT_TRUE(deletes().empty());
}

TEST_F(PodFailingTest, a_pod_that_has_changed_is_read_and_judged_again) {
  between = [this] {
    pods["web-0"]["metadata"]["resourceVersion"] = "20";
    between = [] {};
  };
  begin();
  EXPECT_TRUE(run_until([this] { return !is_open(); }));
  Lines expected = {"fail_pod intent policy_fails_pod", "fail_pod outcome pod_changed"};
  expected.insert(expected.end(), kBoth.begin(), kBoth.end());
  EXPECT_EQ(calls(), expected);
  EXPECT_EQ(patches.back()["metadata"]["resourceVersion"], "20");
}

// An admission policy answers 422, as a test of a JSON patch does. It is no sign that the pod has
// changed: somebody has to mend it, and is told.
TEST_F(PodFailingTest, what_an_admission_policy_denies_is_refused_and_tried_again) {
  refusals = {status(422, "Invalid", "web-0"), status(403, "Forbidden", "web-0")};
  begin();
  EXPECT_TRUE(run_until([this] { return !is_open(); }));
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Refused), 2U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::PodChanged), 0U);
  EXPECT_EQ(deletes().size(), 1U);
}

TEST_F(PodFailingTest, without_an_answer_it_is_not_deleted_before_it_was_read_again) {
  refusals = {test::FakeAnswer::lost()};
  begin();
  EXPECT_TRUE(run_until([this] { return !patches.empty(); }));
  EXPECT_TRUE(deletes().empty());
  EXPECT_TRUE(run_until([this] { return !is_open(); }));
  EXPECT_EQ(deletes().size(), 1U);
  EXPECT_EQ(patches.size(), 2U);
}

// Each of these would have stopped the deletion, and nobody has deleted yet.
TEST_F(PodFailingTest, what_happens_after_it_failed_stops_the_deletion) {
  const std::vector<std::pair<Reason, std::function<void()>>> events = {
      {Reason::NotLeader, [this] { leadership.until = std::nullopt; }},
      {Reason::TooManyDown, [this] { count_nodes(10, 9); }},
      {Reason::PolicyChanged, [this] { activate({}); }}};
  for (const auto& [reason, happens] : events) {
    between = happens;
    begin();
    EXPECT_TRUE(run_until([this] { return !patches.empty(); }));
    run_for(100ms);
    EXPECT_TRUE(deletes().empty()) << code(reason);
    EXPECT_EQ(story.count(Record::Kind::Refusal, reason), 1U) << code(reason);
    incidents.reset();
    leadership.until = Moment::max();
    count_nodes(10, 1);
    story.records.clear();
    patches.clear();
    pods.clear();
    add_pod("web-0");
    pods["web-0"]["metadata"]["resourceVersion"] = "11";
  }
}

TEST_F(PodFailingTest, what_lacks_a_version_is_never_patched) {
  pods["web-0"]["metadata"].erase("resourceVersion");
  begin();
  run_for(30s);
  EXPECT_TRUE(patches.empty());
  EXPECT_TRUE(deletes().empty());
  EXPECT_TRUE(is_open());
}

}  // namespace
}  // namespace moonfence::fence
