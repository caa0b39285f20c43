// What FAR says of a node, and when that is of this outage.

#include "unit/policy/fencers/far.h"

namespace moonfence::policy::far {
namespace {

TEST_F(FenceAgentsRemediationTest, success_of_an_agent_that_verifies_is_off) {
  EXPECT_EQ(says_of(done()),
            "off: FenceAgentsRemediation far/r1: agent fence_ipmilan has switched it off, and on "
            "again");
  EXPECT_EQ(says_given({{"--action", "off"}}),
            "off: FenceAgentsRemediation far/r1: agent fence_ipmilan has switched it off");
  EXPECT_EQ(word_in(says_given({{"--action", "reboot"}, {"--method", nullptr}})), "off");
  EXPECT_EQ(
      says_with({{"sharedSecretName", "bmc"}}),
      "off: FenceAgentsRemediation far/r1: agent fence_ipmilan has switched it off, and perhaps "
      "on again")
      << "what the action is the Secret says";
  EXPECT_EQ(word_in(says_with({{"agent", "fence_redfish"}})), "off");
}

// Before FAR has deleted its pods.
TEST_F(FenceAgentsRemediationTest, the_agent_counts_and_not_what_far_does_after_it) {
  json remediation = done();
  processing(remediation)["status"] = "True";
  EXPECT_EQ(word_of(remediation), "off");
}

TEST_F(FenceAgentsRemediationTest, without_an_object_nothing_has_switched_it_off) {
  EXPECT_EQ(says(),
            "served: no FenceAgentsRemediation has switched it off: NodeHealthCheck or a person "
            "has to make one");
  json other = done();
  other["metadata"]["annotations"]["remediation.medik8s.io/node-name"] = "n2";
  EXPECT_EQ(word_of(other), "served") << "it is another node's";
  other["metadata"].erase("annotations");
  written_by(other, 0)["fieldsV1"].erase("f:metadata");
  EXPECT_EQ(word_of(other), "served");
  other["metadata"]["name"] = "n1";
  EXPECT_EQ(word_of(other), "off") << "the name is the node's, as FAR has it";
}

TEST_F(FenceAgentsRemediationTest, it_has_nothing_made_and_nothing_changed) {
  for (const json& each : {done(), json(nullptr)}) {
    remediations = each.is_null() ? std::vector<json>() : std::vector<json>{each};
    says();
    for (const std::string& request : fencer.asked) {
      EXPECT_TRUE(request.starts_with("get ") || request.starts_with("list ")) << request;
    }
    EXPECT_TRUE(fencer.order(node).starts_with("error")) << fencer.order(node);
  }
}

TEST_F(FenceAgentsRemediationTest, success_of_another_outage_is_none_of_this_one) {
  for (const json& time : {json("2026-01-01T00:01:00Z"), json("2026-01-01T00:00:00Z"), json(""),
                           json("9"), json(nullptr), json(5), json("2026-01-01T00:02:00+01:00")}) {
    json remediation = done();
    remediation["metadata"]["creationTimestamp"] = time;
    EXPECT_EQ(word_of(remediation), "served") << "made at " << time;
    remediation = done();
    succeeded(remediation)["lastTransitionTime"] = time;
    EXPECT_EQ(word_of(remediation), "unknown") << "ended at " << time;
  }
}

// It reports once in five minutes while nothing changes.
TEST_F(FenceAgentsRemediationTest, the_lease_tells_of_the_time_between_two_reports) {
  lease["spec"]["renewTime"] = "2026-01-01T00:02:00.000001Z";
  EXPECT_NE(word_of(done()), "off");
  lease["spec"]["renewTime"] = "2026-01-01T00:00:10.000000Z";
  EXPECT_EQ(word_of(done()), "off");
  ready()["lastHeartbeatTime"] = "2026-01-01T00:02:00Z";
  EXPECT_NE(word_of(done()), "off");
}

// A clock of a node that is behind makes what its kubelet said look older than it is.
TEST_F(FenceAgentsRemediationTest,
       what_was_made_before_kubernetes_called_the_node_down_is_of_before) {
  ready()["lastTransitionTime"] = "2026-01-01T00:02:00Z";
  EXPECT_EQ(says_of(done()),
            "unknown: FenceAgentsRemediation far/r1 was made before Kubernetes called the node "
            "down: have a new one made");
  ready()["lastTransitionTime"] = nullptr;
  EXPECT_EQ(word_of(done()), "unknown");
  ready()["lastTransitionTime"] = "2026-01-01T00:01:40Z";
  EXPECT_EQ(word_of(done()), "off");
}

// False is the kubelet's word, and the time of it the node's.
TEST_F(FenceAgentsRemediationTest, nothing_counts_before_kubernetes_itself_calls_the_node_unknown) {
  for (const json& status : {json("True"), json("False"), json(""), json(nullptr)}) {
    ready()["status"] = status;
    EXPECT_EQ(says_of(done()),
              "unknown: FenceAgentsRemediation far/r1 does not count yet: Kubernetes does not call "
              "the node Unknown")
        << status;
  }
}

TEST_F(FenceAgentsRemediationTest, without_a_last_sign_nothing_counts) {
  const json good = node_object;
  for (const json& time : {json(""), json(nullptr), json("2026-01-01T00:01:00"), json(7)}) {
    ready()["lastHeartbeatTime"] = time;
    EXPECT_EQ(word_of(done()), "unknown") << time;
    node_object = good;
    lease["spec"]["renewTime"] = time;
    EXPECT_EQ(word_of(done()), "unknown") << time;
    lease["spec"]["renewTime"] = "2026-01-01T00:01:00.123456Z";
  }
  EXPECT_EQ(word_of(done()), "off");
  for (const char* key :
       {"get coordination.k8s.io/v1 leases kube-node-lease/n1", "get v1 nodes n1"}) {
    Cloud without = cloud();
    without[key] = {.status = 404};
    EXPECT_EQ(fencer.word(node, without), "unknown") << key;
  }
}

TEST_F(FenceAgentsRemediationTest, one_that_has_failed_or_goes_is_unknown) {
  json remediation = done();
  for (const char* status : {"False", "Unknown", ""}) {
    succeeded(remediation)["status"] = status;
    succeeded(remediation)["reason"] = "FenceAgentFailed";
    EXPECT_EQ(says_of(remediation),
              "unknown: FenceAgentsRemediation far/r1 says that its agent has failed")
        << status;
  }
  remediation = done();
  succeeded(remediation)["reason"] = "SomethingElse";
  EXPECT_EQ(word_of(remediation), "unknown");
  remediation = done();
  remediation["metadata"]["deletionTimestamp"] = "2026-01-01T00:03:00Z";
  EXPECT_EQ(word_of(remediation), "unknown");
}

TEST_F(FenceAgentsRemediationTest, fars_own_writing_of_durations_is_no_change) {
  json remediation = rewritten(done());
  EXPECT_EQ(word_of(remediation), "off") << "60s is 1m0s now";
  written_by(remediation, 1)["fieldsV1"]["f:spec"].erase("f:retryinterval");
  EXPECT_EQ(word_of(remediation), "off") << "one of them was written so from the beginning";
  for (const json& owned :
       {json(nullptr), json::object(), json("f:timeout"), json({{"f:agent", json::object()}})}) {
    remediation = rewritten(done());
    written_by(remediation, 1)["fieldsV1"]["f:spec"] = owned;
    EXPECT_EQ(word_of(remediation), "unknown") << "somebody else has written: " << owned;
  }
}

// Who makes it may call himself as FAR does. Then what FAR owns is no proof that FAR has written
// it: the second writing may have taken a parameter out.
TEST_F(FenceAgentsRemediationTest, a_generation_that_may_be_somebody_elses_proves_nothing) {
  for (const char* field :
       {".", "f:agent", "f:sharedparameters", "f:nodeparameters", "f:retrycount"}) {
    json remediation = rewritten(done());
    written_by(remediation, 1)["fieldsV1"]["f:spec"][field] = json::object();
    EXPECT_EQ(word_of(remediation), "unknown") << field;
    remediation["metadata"]["managedFields"].erase(0);
    EXPECT_EQ(word_of(remediation), "unknown") << field << ", and all is of one";
    remediation["metadata"]["generation"] = 1;
    EXPECT_EQ(word_of(remediation), "off") << field << ", and nothing was written since";
  }
}

TEST_F(FenceAgentsRemediationTest, one_that_was_given_another_node_since_proves_nothing) {
  json remediation = done();
  const json of_the_node = {{"f:annotations", {{kNodeNameField, json::object()}}}};
  remediation["metadata"]["managedFields"].push_back({{"manager", "kubectl-edit"},
                                                      {"operation", "Update"},
                                                      {"time", "2026-01-01T00:02:01Z"},
                                                      {"fieldsV1", {{"f:metadata", of_the_node}}}});
  EXPECT_EQ(word_of(remediation), "off") << "before FAR read it";
  for (const json& time : {json("2026-01-01T00:02:02Z"), json("2026-01-01T00:05:00Z"), json("")}) {
    written_by(remediation, 3)["time"] = time;
    EXPECT_EQ(says_of(remediation),
              "unknown: FenceAgentsRemediation far/r1 was changed since FAR took it on: its agent "
              "may have been given something else. Have a new one made")
        << time;
  }
  written_by(remediation,
             3)["fieldsV1"]["f:metadata"] = {{"f:annotations", {{"f:another", json::object()}}}};
  EXPECT_EQ(word_of(remediation), "off") << "another annotation says of no node";
}

TEST_F(FenceAgentsRemediationTest, a_spec_that_was_changed_since_far_took_it_on_proves_nothing) {
  const std::string changed =
      "unknown: FenceAgentsRemediation far/r1 was changed since FAR took it on: its agent may have "
      "been given something else. Have a new one made";
  // While the agent ran, and after its success.
  for (const json& time : {json("2026-01-01T00:02:02Z"), json("2026-01-01T00:05:00Z"), json(""),
                           json("2026"), json(nullptr)}) {
    json remediation = done();
    written_by(remediation, 0)["time"] = time;
    EXPECT_EQ(says_of(remediation), changed) << time;
  }
  json remediation = done();
  for (const int generation : {2, 3}) {
    remediation["metadata"]["generation"] = generation;
    EXPECT_EQ(says_of(remediation), changed) << generation;
  }
  remediation = rewritten(done());
  remediation["metadata"]["generation"] = 3;
  EXPECT_EQ(says_of(remediation), changed) << "something was taken out, which nobody owns then";
  remediation = done();
  written_by(remediation, 1)["time"] = "2026-01-01T00:02:31Z";
  EXPECT_EQ(says_of(remediation),
            "unknown: FenceAgentsRemediation far/r1 was written to after its success (or the clock "
            "of FAR's node is behind)")
      << "by somebody who calls himself as FAR does";
  remediation = done();
  remediation["metadata"].erase("managedFields");
  EXPECT_EQ(says_of(remediation),
            "unknown: FenceAgentsRemediation far/r1 does not tell when FAR took it on");
}

TEST_F(FenceAgentsRemediationTest, while_one_is_at_work_nothing_is_said_whatever_another_says) {
  json at_work = done("r2");
  processing(at_work)["status"] = "True";
  succeeded(at_work)["status"] = "Unknown";
  remediations = {done(), at_work};
  EXPECT_EQ(says(),
            "unknown: FenceAgentsRemediation far/r2 is at work, or waits for FAR: where that stays "
            "so, read FAR's log, delete it and have a new one made");
  at_work["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z";
  EXPECT_EQ(word_of(at_work), "unknown") << "also one of before: it may be run at any time";
  at_work.erase("status");
  EXPECT_EQ(word_of(at_work), "unknown") << "FAR has not seen it yet";
}

// A kind that nobody serves is an error, and no answer.
TEST_F(FenceAgentsRemediationTest, without_far_nothing_is_known) {
  Cloud without = cloud();
  without[std::string("list ") + kApi + " fenceagentsremediations far"] = {.status = 404};
  EXPECT_EQ(fencer.word(node, without), "unknown");
}

// Who may make one anywhere would name a BMC of his own for any node.
TEST_F(FenceAgentsRemediationTest, those_of_other_namespaces_are_not_asked_for) {
  says();
  for (const std::string& request : fencer.asked) {
    EXPECT_TRUE(request.starts_with("get ") || request.ends_with(" far")) << request;
  }
  ShippedFencer all("fence-agents-remediation",
                    {{"namespace", ""}, {"verifying", {"fence_ipmilan"}}});
  remediations = {done()};
  EXPECT_EQ(all.says(node, cloud()), "failed: the setting namespace is empty");
}

// Its taint stays as long as it does.
TEST_F(FenceAgentsRemediationTest, one_that_is_left_over_is_no_obstacle_but_a_ready_node_shows_it) {
  json old = done();
  old["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z";
  EXPECT_EQ(says_of(old),
            "served: FenceAgentsRemediation far/r1 is older than the kubelet's last sign: delete "
            "it, and have a new one made");
  ready()["status"] = "True";
  EXPECT_EQ(says_of(old),
            "unknown: FenceAgentsRemediation far/r1 is older than the kubelet's last sign: delete "
            "it, its taint keeps pods off the node");
}

TEST_F(FenceAgentsRemediationTest, each_field_of_a_success_matters) {
  const json good = done();
  expect_each_matters(
      good,
      {"/metadata/creationTimestamp", "/metadata/generation", "/metadata/managedFields/1/time",
       "/metadata/managedFields/1/fieldsV1/f:metadata/f:finalizers", "/spec/agent",
       "/status/conditions/1/status", "/status/conditions/1/reason", "/status/conditions/1/type",
       "/status/conditions/1/lastTransitionTime"},
      [this](const json& remediation) { return says_of(remediation); });
}

}  // namespace
}  // namespace moonfence::policy::far
