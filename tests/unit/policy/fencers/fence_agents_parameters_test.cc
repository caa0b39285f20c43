// Agents and parameters of FAR: what an exit code of 0 of them is worth.

#include "unit/policy/fencers/far.h"

namespace moonfence::policy::far {
namespace {

// FAR leaves out what has no value for the node. What is left may be another machine's.
TEST_F(FenceAgentsRemediationTest,
       without_all_its_parameters_for_the_node_an_agent_proves_nothing) {
  const std::string lacks =
      "unknown: FenceAgentsRemediation far/r1 agent fence_ipmilan has no parameters for this node, "
      "or not each that others have: with what is left it may reach another machine";
  EXPECT_EQ(says_with({{"nodeparameters", {{"--ip", {{"n1", nullptr}}}}}}), lacks);
  spec["sharedparameters"]["--ip"] = "10.0.0.9";
  EXPECT_EQ(says_with({{"nodeparameters", {{"--ip", {{"n1", nullptr}}}}}}), lacks)
      << "what is shared is no value of its own";
  EXPECT_EQ(says_with({{"nodeparameters", {{"--plug", {{"n2", "2"}}}}}}), lacks);
  EXPECT_EQ(word_in(says_with({{"nodeparameters", {{"--plug", {{"n1", "1"}}}}}})), "off");
  EXPECT_EQ(says_with({{"nodeSecretNames", {{"n2", "bmc-2"}}}}), lacks);
  EXPECT_EQ(word_in(says_with({{"nodeSecretNames", {{"n1", "bmc-1"}}}})), "off");
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
  for (const char* weak :
       {"fence_zvmip", "fence_vmware_rest", "fence_apc_snmp", "fence_tripplite_snmp",
        "fence_ilo3_ssh", "fence_ilo4_ssh", "fence_ilo5_ssh"}) {
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
  EXPECT_EQ(
      says(),
      "failed: FenceAgentsRemediationTemplate far/bmcs: agent fence_ipmilan has no parameters "
      "for this node, or not each that others have: with what is left it may reach another "
      "machine");
  given().erase("nodeparameters");
  given()["nodeSecretNames"] = {{"n1", "bmc-1"}};
  EXPECT_EQ(word(), "served") << "they are in a Secret";
  given()["nodeSecretNames"] = {{"n2", "bmc-2"}};
  EXPECT_EQ(word(), "failed");
  bmcs = good;
  given()["agent"] = "fence_apc";
  EXPECT_EQ(word(), "failed") << "what would prove nothing is told beforehand";
  Cloud without = cloud();
  without[std::string("get ") + kApi + " fenceagentsremediationtemplates far/bmcs"] = {.status =
                                                                                           404};
  EXPECT_EQ(fencer.says(node, without),
            "failed: there is no FenceAgentsRemediationTemplate far/bmcs");
}

TEST_F(FenceAgentsRemediationTest, without_the_setting_no_template_is_read) {
  ShippedFencer plain("fence-agents-remediation",
                      {{"namespace", "far"}, {"verifying", {"fence_ipmilan"}}});
  EXPECT_EQ(plain.word(node, cloud()), "served");
  EXPECT_EQ(plain.asked.size(), 3U);
  remediations = {done()};
  EXPECT_EQ(plain.word(node, cloud()), "off");
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
}  // namespace moonfence::policy::far
