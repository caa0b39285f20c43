// The fields are those of fence-agents-remediation.medik8s.io/v1alpha1, and what FAR and the API
// server write into them.

#include "unit/policy/fencers/shipped_fencer.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

constexpr const char* kApi = "fence-agents-remediation.medik8s.io/v1alpha1";
constexpr const char* kFinalizer = "v:\"fence-agents-remediation.medik8s.io/far-finalizer\"";
constexpr const char* kSecret = "correct-horse-battery";

struct FenceAgentsRemediationTest : testing::Test {
  ShippedFencer fencer{"fence-agents-remediation",
                       {{"namespace", "far"},
                        {"template", "bmcs"},
                        {"verifying",
                         {"fence_ipmilan", "fence_redfish", "fence_gce", "fence_ilo3", "fence_scsi",
                          "fence_zvmip", "fence_vmware_rest", "fence_apc_snmp"}}}};
  kube::Node node = machine("");
  json spec = {{"agent", "fence_ipmilan"},
               {"retrycount", 5},
               {"retryinterval", "5s"},
               {"timeout", "1m0s"},
               {"remediationStrategy", "ResourceDeletion"},
               {"sharedparameters",
                {{"--lanplus", ""},
                 {"--method", "onoff"},
                 {"--username", "admin"},
                 {"--password", kSecret}}},
               {"nodeparameters", {{"--ip", {{"n1", "10.0.0.1"}, {"n2", "10.0.0.2"}}}}}};
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

  // One that FAR has ended well in this outage, made with the durations that its kind has by
  // default.
  json done(const std::string& name = "r1") const {
    const auto condition = [](const char* type, const char* status, const char* reason) {
      return json{{"type", type},
                  {"status", status},
                  {"reason", reason},
                  {"message", std::string("in words, ") + kSecret},
                  {"lastTransitionTime", "2026-01-01T00:02:30Z"}};
    };
    const json made = {
        {"manager", "nhc"},
        {"operation", "Update"},
        {"time", "2026-01-01T00:02:00Z"},
        {"fieldsV1",
         {{"f:spec", {{"f:agent", json::object()}, {"f:retrycount", json::object()}}}}}};
    const json taken_on = {
        {"manager", "manager"},
        {"operation", "Update"},
        {"time", "2026-01-01T00:02:01Z"},
        {"fieldsV1",
         {{"f:metadata", {{"f:finalizers", {{".", json::object()}, {kFinalizer, json::object()}}}}},
          {"f:spec", {{"f:timeout", json::object()}}}}}};
    const json told = {{"manager", "manager"},
                       {"operation", "Update"},
                       {"subresource", "status"},
                       {"time", "2026-01-01T00:02:40Z"},
                       {"fieldsV1", {{"f:status", {{"f:conditions", json::object()}}}}}};
    return {{"metadata",
             {{"name", name},
              {"namespace", "far"},
              {"generation", 2},
              {"creationTimestamp", "2026-01-01T00:02:00Z"},
              {"managedFields", {made, taken_on, told}},
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
  static json& written_by(json& of, std::size_t at) { return of["metadata"]["managedFields"][at]; }
  json& ready() { return node_object["status"]["conditions"][0]; }
  json& given() { return bmcs["spec"]["template"]["spec"]; }

  Cloud cloud() const {
    const std::string api(kApi);
    return {{"get v1 nodes n1", {.body = node_object}},
            {"get coordination.k8s.io/v1 leases kube-node-lease/n1", {.body = lease}},
            {"get " + api + " fenceagentsremediationtemplates far/bmcs", {.body = bmcs}},
            {"list " + api + " fenceagentsremediations", {.body = {{"items", remediations}}}}};
  }
  // None of what is said has a secret in it.
  std::string says() {
    std::string said = fencer.says(node, cloud());
    EXPECT_EQ(said.find(kSecret), std::string::npos) << said;
    return said;
  }
  std::string word() { return word_in(says()); }
  std::string says_of(const json& remediation) {
    remediations = {remediation};
    return says();
  }
  std::string word_of(const json& remediation) { return word_in(says_of(remediation)); }
  // Of a remediation that was made with this changed.
  std::string says_with(const json& changes) {
    const json good = spec;
    spec.merge_patch(changes);
    std::string said = says_of(done());
    spec = good;
    return said;
  }
  std::string says_given(const json& parameters) {
    return says_with({{"sharedparameters", parameters}});
  }
  static std::string word_in(const std::string& said) { return said.substr(0, said.find(':')); }
};

TEST_F(FenceAgentsRemediationTest, success_of_an_agent_that_verifies_is_off) {
  EXPECT_EQ(says_of(done()),
            "off: FenceAgentsRemediation far/r1: agent fence_ipmilan has switched it off, and on "
            "again");
  EXPECT_EQ(says_given({{"--action", "off"}}),
            "off: FenceAgentsRemediation far/r1: agent fence_ipmilan has switched it off");
  EXPECT_EQ(word_in(says_given({{"--action", "reboot"}, {"--method", nullptr}})), "off");
  EXPECT_EQ(says_with({{"sharedSecretName", "bmc"}}),
            "off: FenceAgentsRemediation far/r1: agent fence_ipmilan has switched it off")
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
  ready()["lastTransitionTime"] = "2026-01-01T00:00:10Z";
  ready()["status"] = "True";
  EXPECT_EQ(word_of(done()), "unknown") << "it does not call it so yet";
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
  json remediation = done();
  EXPECT_EQ(word_of(remediation), "off") << "60s is 1m0s now";
  remediation["metadata"]["generation"] = 1;
  written_by(remediation, 1)["fieldsV1"].erase("f:spec");
  EXPECT_EQ(word_of(remediation), "off") << "it was written so from the beginning";
  remediation["metadata"]["generation"] = 2;
  EXPECT_EQ(word_of(remediation), "unknown") << "FAR has rewritten nothing, somebody has";
  // Who makes it and FAR may call themselves the same: then all is of one.
  remediation = done();
  written_by(remediation, 1)["fieldsV1"]["f:spec"]["f:agent"] = json::object();
  remediation["metadata"]["managedFields"].erase(0);
  EXPECT_EQ(word_of(remediation), "off");
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
  EXPECT_EQ(says(), "unknown: FenceAgentsRemediation far/r2 is at work, or waits for FAR");
  at_work["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z";
  EXPECT_EQ(word_of(at_work), "unknown") << "also one of before: it may be run at any time";
  at_work.erase("status");
  EXPECT_EQ(word_of(at_work), "unknown") << "FAR has not seen it yet";
}

TEST_F(FenceAgentsRemediationTest, an_agent_counts_only_by_its_name) {
  const std::string r1 = "unknown: FenceAgentsRemediation far/r1 ";
  EXPECT_EQ(says_with({{"agent", "fence_apc"}}),
            r1 + "agent fence_apc is not in the setting verifying: name it there if its success "
                 "means that the machine was read to be off");
  EXPECT_EQ(says_with({{"agent", "fence_scsi"}}),
            r1 + "agent fence_scsi cuts off a storage: its success does not say that the machine "
                 "is off")
      << "whatever the setting says";
  for (const char* weak : {"fence_zvmip", "fence_vmware_rest", "fence_apc_snmp"}) {
    EXPECT_EQ(word_in(says_with({{"agent", weak}})), "unknown") << weak;
  }
}

TEST_F(FenceAgentsRemediationTest, an_agent_that_restarts_and_reads_nothing_proves_nothing) {
  const std::string agent = "unknown: FenceAgentsRemediation far/r1 agent fence_ipmilan ";
  const std::string cycle =
      "has the method cycle, which restarts the machine and never reads that it is off";
  EXPECT_EQ(says_given({{"--method", "cycle"}}), agent + cycle);
  EXPECT_EQ(says_with({{"nodeparameters", {{"--method", {{"n1", "cycle"}}}}}}), agent + cycle)
      << "what is the node's own wins";
  for (const char* method : {"CYCLE", "", "{{.NodeName}}", "on off", "password"}) {
    EXPECT_EQ(says_given({{"--method", method}}), agent + "has an unknown method") << method;
  }
  for (const char* by_default : {"fence_gce", "fence_ilo3"}) {
    const auto told = [&](const json& shared) {
      return word_in(says_with({{"agent", by_default}, {"sharedparameters", shared}}));
    };
    EXPECT_EQ(told({{"--lanplus", nullptr}, {"--method", nullptr}}), "unknown") << by_default;
    EXPECT_EQ(told({{"--lanplus", nullptr}}), "off") << by_default << " with its method";
    EXPECT_EQ(told(json::object()), "unknown") << "a word without a value may take the method";
  }
}

TEST_F(FenceAgentsRemediationTest, a_parameter_that_makes_success_worthless_is_refused) {
  for (const char* odd : {"--missing-as-off",
                          "--missing",
                          "--mi",
                          "--earlyexit",
                          "--e",
                          "--warntimeout",
                          "--warn",
                          "--network-fencing",
                          "--net",
                          "--baremetalsolution",
                          "--help",
                          "--he",
                          "--version",
                          "--v",
                          "-m",
                          "-o",
                          "-h",
                          "-mcycle",
                          "--meth",
                          "--m",
                          "--actio",
                          "--a",
                          "--method=cycle",
                          "--",
                          "-",
                          "",
                          "action",
                          "---method",
                          "--me thod",
                          "--\nmethod"}) {
    EXPECT_EQ(word_in(says_given({{odd, ""}})), "unknown") << odd;
    EXPECT_EQ(word_in(says_with({{"nodeparameters", {{odd, {{"n1", "1"}}}}}})), "unknown") << odd;
    EXPECT_EQ(word_in(says_with({{"nodeparameters", {{odd, {{"n2", "1"}}}}}})), "off") << odd;
  }
  EXPECT_EQ(says_given({{"--miss", ""}}),
            "unknown: FenceAgentsRemediation far/r1 agent fence_ipmilan has the parameter "
            "--missing-as-off, or the beginning of it: with it success does not say that anything "
            "is off");
  for (const char* fine : {"--verbose", "--ssl-insecure", "--tls1.0", "--resourceGroup", "--ipport",
                           "--vmware_type", "--power-timeout"}) {
    EXPECT_EQ(word_in(says_given({{fine, "1"}})), "off") << fine;
  }
  for (const char* action : {"status", "on", "", "{{.NodeName}}", "OFF"}) {
    EXPECT_EQ(says_given({{"--action", action}}),
              "unknown: FenceAgentsRemediation far/r1 agent fence_ipmilan has an unknown action")
        << action;
  }
}

// Also where it stands in the wrong place. says() looks for it.
TEST_F(FenceAgentsRemediationTest, no_parameter_is_ever_told) {
  const std::string secret(kSecret);
  for (const char* name : {"--action", "--method", "--password", "-p", "--ip"}) {
    says_given({{name, secret}});
    says_with({{"nodeparameters", {{name, {{"n1", secret}}}}}});
    says_with({{"nodeparameters", {{name, secret}}}});
  }
  for (const std::string& name : {secret, "--" + secret, "--password=" + secret}) {
    says_given({{name, ""}});
    says_with({{"nodeparameters", {{name, {{"n1", "1"}}}}}});
  }
  says_with({{"agent", "fence_x --password=" + secret}});
  says_with({{"sharedparameters", secret}});
  says_with({{"retrycount", secret}});
  json remediation = done();
  for (const char* status : {"False", "True"}) {
    succeeded(remediation)["status"] = status;
    succeeded(remediation)["reason"] = secret;
    says_of(remediation);
  }
  remediations = {};
  given() = spec;
  bmcs["status"]["validationFailed"] = {{"n1", "fence agent command failed (stderr: " + secret}};
  EXPECT_EQ(word(), "failed");
  bmcs.erase("status");
  for (const char* name : {"--action", "--method", "-p"}) {
    given()["sharedparameters"] = {{name, secret}};
    EXPECT_EQ(word(), "failed") << name;
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
            "failed, its status says why");
  EXPECT_EQ(word_of(done()), "off") << "what was done counts more than what was tested";
  remediations = {};
  bmcs["status"]["validationFailed"] = {{"n2", "no route to host"}};
  EXPECT_EQ(word(), "served");
  bmcs = good;
  given()["nodeparameters"]["--ip"].erase("n1");
  EXPECT_EQ(says(),
            "failed: FenceAgentsRemediationTemplate far/bmcs has no parameters for this node");
  given()["nodeSecretNames"] = {{"n1", "bmc-1"}};
  EXPECT_EQ(word(), "served") << "they are in a Secret";
  bmcs = good;
  given()["agent"] = "fence_apc";
  EXPECT_EQ(word(), "failed") << "what would prove nothing is told beforehand";
  Cloud without = cloud();
  without[std::string("get ") + kApi + " fenceagentsremediationtemplates far/bmcs"] = {.status =
                                                                                           404};
  EXPECT_EQ(fencer.says(node, without),
            "failed: there is no FenceAgentsRemediationTemplate far/bmcs");
  without[std::string("list ") + kApi + " fenceagentsremediations"] = {.status = 404};
  EXPECT_EQ(fencer.word(node, without), "failed");
}

TEST_F(FenceAgentsRemediationTest, without_the_setting_no_template_is_read) {
  ShippedFencer plain("fence-agents-remediation", {{"verifying", {"fence_ipmilan"}}});
  EXPECT_EQ(plain.word(node, cloud()), "served");
  EXPECT_EQ(plain.asked.size(), 3U);
  remediations = {done()};
  EXPECT_EQ(plain.word(node, cloud()), "off");
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

// Whatever stands there. says() looks for the secret.
TEST_F(FenceAgentsRemediationTest, what_is_said_of_odd_objects_has_no_parameter_in_it) {
  expect_never_off(done(), [this](const std::string&, const json& changed) { says_of(changed); });
  remediations = {};
  const json good = bmcs;
  expect_never_off(good, [this](const std::string&, const json& changed) {
    bmcs = changed;
    says();
  });
}

}  // namespace
}  // namespace moonfence::policy
