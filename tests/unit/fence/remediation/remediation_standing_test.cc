#include "fence/remediation/remediation_standing.h"

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using Stage = RemediationStage;

struct RemediationStandingTest : testing::Test {
  RemediationObject object = {.ref = {.space = Namespace("medik8s"), .name = "n1"},
                              .uid = Uid("u1"),
                              .node = NodeName("n1"),
                              .node_uid = Uid("node-1"),
                              .conditions = {}};
  cluster::NodeView node = {
      .name = NodeName("n1"), .uid = Uid("node-1"), .readiness = cluster::Readiness::Unknown};
  IncidentStatus open = {.incident = IncidentId("i1"), .node = NodeName("n1")};
  EndedIncidents ended = {.last = IncidentId("i1"), .settled = true, .done = true};
  NodeFacts facts = {.node = &node};

  [[nodiscard]] Stage stage() const { return standing_of(object, facts).stage; }
  [[nodiscard]] std::string message() const { return standing_of(object, facts).message; }
  [[nodiscard]] std::string told() const {
    std::string text;
    for (const RemediationCondition& each : conditions_of(standing_of(object, facts))) {
      text += each.type + "=" + each.status + " ";
    }
    return text;
  }
};

constexpr const char* kGoesOn =
    "Processing=True Succeeded=Unknown PermanentNodeDeletionExpected=False ";
constexpr const char* kDone =
    "Processing=False Succeeded=True PermanentNodeDeletionExpected=False ";
constexpr const char* kFailed =
    "Processing=False Succeeded=False PermanentNodeDeletionExpected=False ";

TEST_F(RemediationStandingTest, a_node_that_kubernetes_calls_ready_is_waited_for) {
  node.readiness = cluster::Readiness::True;
  facts.ended = &ended;  // of another outage
  EXPECT_EQ(stage(), Stage::NodeIsReady);
  EXPECT_EQ(told(), kGoesOn);
  EXPECT_EQ(message(),
            "Kubernetes calls node n1 Ready, and moonfence waits until it does not: see `kubectl "
            "describe node n1`.");
}

TEST_F(RemediationStandingTest, it_goes_on_while_an_incident_is_open_and_is_over_when_it_settled) {
  EXPECT_EQ(stage(), Stage::Looking);
  facts.open = &open;
  facts.ended = &ended;  // another one
  open.state = IncidentStatus::State::Held;
  open.reason = audit::Reason::ProofMissing;
  open.text = "demands proof: off";
  EXPECT_EQ(stage(), Stage::IncidentOpen);
  EXPECT_EQ(message(),
            "Incident i1: held: proof_missing: demands proof: off (see `moonfence plan n1`)");
  EXPECT_EQ(told(), kGoesOn);
  facts.open = nullptr;
  EXPECT_EQ(stage(), Stage::NothingLeftToDo);
  EXPECT_EQ(told(), kDone);
  ended.settled = false;
  EXPECT_EQ(told(), kGoesOn);
}

TEST_F(RemediationStandingTest, what_was_not_done_is_no_success) {
  facts.ended = &ended;
  ended.done = false;
  EXPECT_EQ(told(), kDone);  // nothing was to be done
  ended.done = true;         // something else
  ended.observed = Kept{.pod = PodRef{.space = Namespace("db"), .name = "web-0"}};
  EXPECT_EQ(stage(), Stage::OnlyObserved);
  EXPECT_EQ(told(), kFailed);
  EXPECT_EQ(message(),
            "Policies whose mode is observe would delete more on node n1: see `moonfence explain "
            "web-0 -n db` (incident i1).");
  ended.refused = Kept{.reason = audit::Reason::ProtectedNamespace};
  EXPECT_EQ(stage(), Stage::Refused);
  EXPECT_EQ(told(), kFailed);
  EXPECT_EQ(message(),
            "Policies want more deleted on node n1 than the engine ever deletes, "
            "protected_namespace: see `moonfence plan n1` (incident i1).");
}

TEST_F(RemediationStandingTest, what_node_health_check_gave_up_is_over_whatever_is_under_way) {
  object.timed_out = true;
  facts.open = &open;
  EXPECT_EQ(stage(), Stage::TimedOut);
  EXPECT_EQ(told(), kFailed);
}

TEST_F(RemediationStandingTest, a_node_that_is_gone_or_another_is_not_remediated) {
  facts.node = nullptr;
  EXPECT_EQ(stage(), Stage::Looking);
  facts.absent_for_long = true;
  EXPECT_EQ(stage(), Stage::NodeDeleted);
  EXPECT_EQ(told(), kFailed);
  facts.open = &open;  // for policies that act on deleted nodes
  EXPECT_EQ(stage(), Stage::IncidentOpen);
  facts.open = nullptr;
  object.node_uid = {};
  EXPECT_EQ(stage(), Stage::NodeNotFound);
  EXPECT_EQ(told(), kFailed);
  facts = {.node = &node};
  object.node_uid = Uid("the one before");
  facts.open = &open;
  EXPECT_EQ(stage(), Stage::NodeReplaced);
  EXPECT_EQ(told(), kFailed);
  object.node = std::nullopt;
  EXPECT_EQ(stage(), Stage::InvalidNodeName);
  EXPECT_EQ(told(), kFailed);
}

TEST_F(RemediationStandingTest, what_nobody_acts_on_is_said_and_waited_for) {
  facts.asked_in_vain = true;
  EXPECT_EQ(stage(), Stage::NoPolicyActs);
  facts.joining = true;
  EXPECT_EQ(stage(), Stage::NodeIsJoining);
  EXPECT_EQ(told(), kGoesOn);
}

// A Node is never deleted by us, and a condition's message has room for so much only.
TEST_F(RemediationStandingTest, no_stage_expects_the_nodes_deletion_and_no_message_is_too_long) {
  open.text = std::string(5000, '"');
  facts.open = &open;
  EXPECT_LE(message().size(), 1100U);
  for (int stage = 0; stage <= static_cast<int>(Stage::InvalidNodeName); ++stage) {
    const auto conditions = conditions_of({.stage = static_cast<Stage>(stage), .message = "m"});
    EXPECT_EQ(conditions.at(2).type, kDeletionExpected);
    EXPECT_EQ(conditions.at(2).status, "False");
  }
}

}  // namespace
}  // namespace moonfence::fence
