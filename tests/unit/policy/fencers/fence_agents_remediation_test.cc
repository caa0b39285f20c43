// The fields are those of fence-agents-remediation.medik8s.io/v1alpha1.

#include "unit/policy/fencers/shipped_fencer.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

constexpr const char* kApi = "fence-agents-remediation.medik8s.io/v1alpha1";

struct FenceAgentsRemediationTest : testing::Test {
  ShippedFencer fencer{
      "fence-agents-remediation",
      {{"namespace", "far"},
       {"template", "bmcs"},
       {"verifying",
        {"fence_ipmilan/onoff", "fence_ipmilan/cycle", "fence_redfish", "fence_scsi"}}}};
  kube::Node node = machine("");
  json spec = {{"agent", "fence_ipmilan"},
               {"retrycount", 5},
               {"retryinterval", "5s"},
               {"timeout", "60s"},
               {"remediationStrategy", "ResourceDeletion"},
               {"sharedSecretName", "bmc"},
               {"sharedparameters", {{"--lanplus", ""}, {"--method", "onoff"}}},
               {"nodeparameters", {{"--ip", {{"n1", "10.0.0.1"}, {"n2", "10.0.0.2"}}}}},
               {"nodeSecretNames", {{"n1", "bmc-1"}, {"n2", "bmc-2"}}}};
  json bmcs = {{"metadata", {{"name", "bmcs"}, {"namespace", "far"}}},
               {"spec", {{"template", {{"spec", spec}}}}}};
  // The kubelet was heard at 00:01:00 for the last time, Kubernetes called it Unknown at 00:01:40.
  json node_object = {
      {"metadata", {{"name", "n1"}, {"uid", "u1"}}},
      {"status",
       {{"conditions", json::array({{{"type", "Ready"},
                                     {"status", "Unknown"},
                                     {"lastHeartbeatTime", "2026-01-01T00:00:50Z"},
                                     {"lastTransitionTime", "2026-01-01T00:01:40Z"}}})}}}};
  json lease = {{"spec", {{"renewTime", "2026-01-01T00:01:00.123456Z"}}}};
  std::vector<json> remediations = {};

  // One that FAR has ended well in this outage.
  json done(const std::string& name = "r1") const {
    const auto condition = [](const char* type, const char* status, const char* reason) {
      return json{{"type", type},
                  {"status", status},
                  {"reason", reason},
                  {"message", "in words"},
                  {"lastTransitionTime", "2026-01-01T00:02:30Z"}};
    };
    return {{"metadata",
             {{"name", name},
              {"namespace", "far"},
              {"generation", 1},
              {"creationTimestamp", "2026-01-01T00:02:00Z"},
              {"annotations", {{"remediation.medik8s.io/node-name", "n1"}}}}},
            {"spec", spec},
            {"status",
             {{"conditions",
               json::array({condition("Processing", "False", "RemediationFinishedSuccessfully"),
                            condition("FenceAgentActionSucceeded", "True", "FenceAgentSucceeded"),
                            condition("Succeeded", "True", "RemediationFinishedSuccessfully")})}}}};
  }
  static json& processing(json& of) { return of["status"]["conditions"][0]; }
  static json& succeeded(json& of) { return of["status"]["conditions"][1]; }
  json& ready() { return node_object["status"]["conditions"][0]; }
  json& given() { return bmcs["spec"]["template"]["spec"]; }

  Cloud cloud() const {
    const std::string api(kApi);
    return {{"get v1 nodes n1", {.body = node_object}},
            {"get coordination.k8s.io/v1 leases kube-node-lease/n1", {.body = lease}},
            {"get " + api + " fenceagentsremediationtemplates far/bmcs", {.body = bmcs}},
            {"list " + api + " fenceagentsremediations", {.body = {{"items", remediations}}}}};
  }
  std::string says() { return fencer.says(node, cloud()); }
  std::string word() { return fencer.word(node, cloud()); }
  std::string says_of(const json& remediation) {
    remediations = {remediation};
    return says();
  }
  std::string word_of(const json& remediation) {
    const std::string said = says_of(remediation);
    return said.substr(0, said.find(':'));
  }
};

TEST_F(FenceAgentsRemediationTest, success_of_an_agent_that_verifies_is_off) {
  EXPECT_EQ(says_of(done()),
            "off: FenceAgentsRemediation far/r1: fence_ipmilan has switched it off, and on again");
  spec["sharedparameters"]["--action"] = "off";
  EXPECT_EQ(says_of(done()),
            "off: FenceAgentsRemediation far/r1: fence_ipmilan has switched it off");
  spec["sharedparameters"] = {{"--action", "reboot"}};
  spec["agent"] = "fence_redfish";
  EXPECT_EQ(word_of(done()), "off");
}

// Before FAR has deleted its pods.
TEST_F(FenceAgentsRemediationTest, the_agent_counts_and_not_what_far_does_after_it) {
  json remediation = done();
  processing(remediation)["status"] = "True";
  EXPECT_EQ(word_of(remediation), "off");
}

TEST_F(FenceAgentsRemediationTest, without_an_object_nothing_has_switched_it_off) {
  EXPECT_EQ(says(), "on: no FenceAgentsRemediation of this outage has switched it off");
  json other = done();
  other["metadata"]["annotations"]["remediation.medik8s.io/node-name"] = "n2";
  EXPECT_EQ(word_of(other), "on") << "it is another node's";
  other["metadata"].erase("annotations");
  EXPECT_EQ(word_of(other), "on");
  other["metadata"]["name"] = "n1";
  EXPECT_EQ(word_of(other), "off") << "the name is the node's, as FAR has it";
}

TEST_F(FenceAgentsRemediationTest, success_of_another_outage_is_none_of_this_one) {
  for (const json& time : {json("2026-01-01T00:01:00Z"), json("2026-01-01T00:00:00Z"), json(""),
                           json("9"), json(nullptr), json(5), json("2026-01-01T00:02:00+01:00")}) {
    json remediation = done();
    remediation["metadata"]["creationTimestamp"] = time;
    EXPECT_EQ(word_of(remediation), "on") << "made at " << time;
    remediation = done();
    succeeded(remediation)["lastTransitionTime"] = time;
    EXPECT_EQ(word_of(remediation), "unknown") << "ended at " << time;
  }
  json remediation = done("moonfence-u1-20260101t000100z");
  EXPECT_EQ(word_of(remediation), "off");
  succeeded(remediation)["lastTransitionTime"] = "2026-01-01T00:01:00Z";
  EXPECT_EQ(word_of(remediation), "unknown") << "by its own clock";
}

// It reports once in five minutes while nothing changes.
TEST_F(FenceAgentsRemediationTest, the_lease_tells_of_the_time_between_two_reports) {
  lease["spec"]["renewTime"] = "2026-01-01T00:02:30.000001Z";
  EXPECT_NE(word_of(done()), "off");
  lease["spec"]["renewTime"] = "2026-01-01T00:00:10.000000Z";
  EXPECT_EQ(word_of(done()), "off");
  ready()["lastHeartbeatTime"] = "2026-01-01T00:02:30Z";
  EXPECT_NE(word_of(done()), "off");
}

// A clock of a node that is behind makes what its kubelet said look older than it is.
TEST_F(FenceAgentsRemediationTest, success_before_kubernetes_called_the_node_down_is_of_before) {
  ready()["lastTransitionTime"] = "2026-01-01T00:02:30Z";
  EXPECT_EQ(says_of(done()),
            "unknown: FenceAgentsRemediation far/r1 succeeded before Kubernetes called the node "
            "down");
  ready()["lastTransitionTime"] = nullptr;
  EXPECT_EQ(word_of(done()), "unknown");
  ready()["lastTransitionTime"] = "2026-01-01T00:00:10Z";
  ready()["status"] = "True";
  EXPECT_EQ(word_of(done()), "unknown") << "it does not call it so yet";
}

// Its name has the kubelet's last sign in it.
TEST_F(FenceAgentsRemediationTest, moonfences_own_is_of_this_outage_by_any_clock) {
  const json own = done("moonfence-u1-20260101t000100z");
  for (const char* status : {"True", "Unknown"}) {
    ready()["status"] = status;
    ready()["lastTransitionTime"] = "2026-01-01T00:05:00Z";
    EXPECT_EQ(word_of(own), "off") << status;
    EXPECT_EQ(word_of(done("moonfence-u1-20260101t000000z")), "unknown") << status;
    EXPECT_EQ(word_of(done("moonfence-u2-20260101t000100z")), "unknown") << status;
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
  Cloud without = cloud();
  without["get coordination.k8s.io/v1 leases kube-node-lease/n1"] = {.status = 404};
  EXPECT_EQ(fencer.word(node, without), "unknown");
  without = cloud();
  without["get v1 nodes n1"] = {.status = 404};
  EXPECT_EQ(fencer.word(node, without), "unknown");
}

TEST_F(FenceAgentsRemediationTest, one_that_failed_or_was_changed_or_goes_is_unknown) {
  json remediation = done();
  for (const char* status : {"False", "Unknown", ""}) {
    succeeded(remediation)["status"] = status;
    succeeded(remediation)["reason"] = "FenceAgentFailed";
    EXPECT_EQ(says_of(remediation),
              "unknown: FenceAgentsRemediation far/r1 says FenceAgentFailed: in words")
        << status;
  }
  remediation = done();
  succeeded(remediation)["reason"] = "SomethingElse";
  EXPECT_EQ(word_of(remediation), "unknown");
  remediation = done();
  remediation["metadata"]["generation"] = 2;
  EXPECT_EQ(word_of(remediation), "unknown");
  remediation = done();
  remediation["metadata"]["deletionTimestamp"] = "2026-01-01T00:03:00Z";
  EXPECT_EQ(word_of(remediation), "unknown");
}

TEST_F(FenceAgentsRemediationTest, while_one_is_at_work_nothing_is_said_whatever_another_says) {
  json at_work = done("r2");
  processing(at_work)["status"] = "True";
  succeeded(at_work)["status"] = "Unknown";
  remediations = {done(), at_work};
  EXPECT_EQ(says(), "unknown: FenceAgentsRemediation far/r2 is at work, or waits for FAR");
  at_work["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z";
  EXPECT_EQ(word_of(at_work), "unknown") << "also one of before: it may be run at any time";
  at_work.erase("status");
  EXPECT_EQ(word_of(at_work), "unknown") << "FAR has not seen it yet";
}

TEST_F(FenceAgentsRemediationTest, an_agent_counts_only_by_its_name_and_method) {
  const json good = spec;
  const auto told = [this, &good](const json& changes) {
    spec = good;
    spec.merge_patch(changes);
    return says_of(done());
  };
  const std::string r1 = "unknown: FenceAgentsRemediation far/r1 agent ";
  EXPECT_EQ(told({{"sharedparameters", {{"--method", "cycle"}}}}),
            r1 + "fence_ipmilan/cycle restarts the machine and never reads that it is off");
  EXPECT_TRUE(told({{"sharedparameters", {{"--method", "CYCLE"}}}}).starts_with("unknown"));
  EXPECT_EQ(told({{"nodeparameters", {{"--method", {{"n1", "cycle"}}}}}}),
            r1 + "fence_ipmilan/cycle restarts the machine and never reads that it is off")
      << "what is the node's own wins";
  EXPECT_EQ(told({{"sharedparameters", {{"--method", nullptr}}}}),
            r1 + "fence_ipmilan is not in the setting verifying: name it there if its success "
                 "means that the machine was read to be off");
  EXPECT_EQ(told({{"agent", "fence_scsi"}, {"sharedparameters", {{"--method", nullptr}}}}),
            r1 + "fence_scsi cuts off a storage: that says nothing about power")
      << "whatever the setting says";
  EXPECT_TRUE(told({{"agent", "fence_redfish"}}).starts_with("unknown")) << "with a method";
  for (const char* odd : {"-m", "-o", "--meth", "--m", "--actio", "--a"}) {
    EXPECT_TRUE(told({{"sharedparameters", {{odd, "cycle"}}}}).starts_with("unknown")) << odd;
  }
  for (const char* action : {"status", "on", "", "{{.NodeName}}"}) {
    EXPECT_TRUE(told({{"sharedparameters", {{"--action", action}}}}).starts_with("unknown"))
        << action;
  }
}

// FAR then runs nothing, and says that it has succeeded.
TEST_F(FenceAgentsRemediationTest, an_agent_that_is_never_run_proves_nothing) {
  for (const json& count : {json(0), json(-1), json("5"), json(nullptr)}) {
    spec["retrycount"] = count;
    EXPECT_EQ(word_of(done()), "unknown") << count;
  }
}

TEST_F(FenceAgentsRemediationTest, a_template_that_is_no_good_for_the_node_is_a_failure) {
  const json good = bmcs;
  bmcs["status"]["validationFailed"] = {{"n1", "no route to host"}};
  EXPECT_EQ(says(),
            "failed: FenceAgentsRemediationTemplate far/bmcs: FAR's own test of the node has "
            "failed: no route to host");
  EXPECT_EQ(word_of(done()), "off") << "what was done counts more than what was tested";
  remediations = {};
  bmcs["status"]["validationFailed"] = {{"n2", "no route to host"}};
  EXPECT_EQ(word(), "on");
  bmcs = good;
  given()["nodeparameters"]["--ip"].erase("n1");
  EXPECT_EQ(says(),
            "failed: FenceAgentsRemediationTemplate far/bmcs has no nodeparameters for "
            "this node");
  bmcs = good;
  given()["agent"] = "fence_apc";
  EXPECT_EQ(word(), "failed") << "what would prove nothing is not asked for";
  Cloud without = cloud();
  without[std::string("get ") + kApi + " fenceagentsremediationtemplates far/bmcs"] = {.status =
                                                                                           404};
  EXPECT_EQ(fencer.says(node, without),
            "failed: there is no FenceAgentsRemediationTemplate far/bmcs");
  without[std::string("list ") + kApi + " fenceagentsremediations"] = {.status = 404};
  EXPECT_EQ(fencer.word(node, without), "failed");
}

// Its taint stays as long as it does.
TEST_F(FenceAgentsRemediationTest, one_that_is_left_over_is_no_obstacle_but_a_ready_node_shows_it) {
  json old = done();
  old["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z";
  EXPECT_EQ(word_of(old), "on");
  ready()["status"] = "True";
  EXPECT_EQ(says_of(old),
            "unknown: FenceAgentsRemediation far/r1 is older than the kubelet's last sign: delete "
            "it, its taint keeps pods off the node");
}

TEST_F(FenceAgentsRemediationTest, one_is_made_for_an_outage_with_what_is_the_nodes_alone) {
  ASSERT_EQ(word(), "on");
  const std::string order = fencer.order(node);
  const std::string begin =
      "create fence-agents-remediation.medik8s.io/v1alpha1 fenceagentsremediations "
      "far/moonfence-u1-20260101t000100z ";
  ASSERT_TRUE(order.starts_with(begin)) << order;
  const json made = json::parse(order.substr(begin.size()));
  EXPECT_EQ(made["kind"], "FenceAgentsRemediation");
  EXPECT_EQ(made["metadata"]["annotations"],
            json({{"remediation.medik8s.io/node-name", "n1"},
                  {"remediation.medik8s.io/template-name", "bmcs"}}));
  json expected = spec;
  expected["nodeparameters"]["--ip"].erase("n2");
  expected["nodeSecretNames"].erase("n2");
  EXPECT_EQ(made["spec"], expected);
  ready()["status"] = "True";  // Kubernetes' word comes later in the same outage
  ASSERT_EQ(word(), "on");
  EXPECT_EQ(fencer.order(node), order);
}

TEST_F(FenceAgentsRemediationTest, none_is_made_that_would_not_count_or_is_there) {
  ready()["lastTransitionTime"] = "2026-01-01T00:01:00Z";
  ASSERT_EQ(word(), "on");
  EXPECT_TRUE(fencer.order(node).starts_with("not: the node's clock is ahead"));
  ready()["lastTransitionTime"] = "2026-01-01T00:01:40Z";
  json there = done("moonfence-u1-20260101t000100z");
  there["metadata"]["creationTimestamp"] = "2026-01-01T00:00:59Z";
  ASSERT_EQ(word_of(there), "on");
  EXPECT_EQ(fencer.order(node),
            "not: FenceAgentsRemediation far/moonfence-u1-20260101t000100z is there already");
  remediations = {};
  given()["newField"] = "x";
  ASSERT_EQ(word(), "on");
  EXPECT_TRUE(fencer.order(node).starts_with("not: its template has newField")) << "not in part";
}

TEST_F(FenceAgentsRemediationTest, each_field_of_a_success_matters) {
  const json good = done();
  expect_each_matters(good,
                      {"/metadata/creationTimestamp", "/metadata/generation", "/spec/agent",
                       "/spec/sharedparameters/--method", "/status/conditions/1/status",
                       "/status/conditions/1/reason", "/status/conditions/1/type",
                       "/status/conditions/1/lastTransitionTime"},
                      [this](const json& remediation) { return says_of(remediation); });
}

}  // namespace
}  // namespace moonfence::policy
