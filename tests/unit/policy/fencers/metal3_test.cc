// The fields are those of metal3.io/v1alpha1 BareMetalHost.

#include "unit/policy/fencers/shipped_fencer.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

struct Metal3Test : testing::Test {
  ShippedFencer fencer{"metal3"};
  kube::Node node = machine("metal3://hosts/h1/m1");
  json host = {
      {"metadata", {{"name", "h1"}, {"namespace", "hosts"}, {"uid", "u1"}}},
      {"spec", {{"online", true}, {"consumerRef", {{"kind", "Metal3Machine"}, {"name", "m1"}}}}},
      {"status",
       {{"poweredOn", false},
        {"operationalStatus", "OK"},
        {"errorType", ""},
        {"errorMessage", ""},
        {"provisioning", {{"state", "provisioned"}}},
        {"lastUpdated", "2026-01-01T00:01:01Z"}}}};
  json node_object = {
      {"status",
       {{"conditions", json::array({{{"type", "Ready"},
                                     {"status", "Unknown"},
                                     {"lastHeartbeatTime", "2026-01-01T00:01:00Z"}}})}}}};

  Metal3Test() { host["metadata"]["annotations"]["reboot.metal3.io/moonfence"] = "x"; }
  json& annotations() { return host["metadata"]["annotations"]; }
  std::string says() {
    return fencer.says(node, {{"get metal3.io/v1alpha1 baremetalhosts hosts/h1", {.body = host}},
                              {"get v1 nodes n1", {.body = node_object}}});
  }
  std::string word() {
    const std::string said = says();
    return said.substr(0, said.find(':'));
  }
};

TEST_F(Metal3Test, a_host_that_is_held_off_and_says_so_since_the_kubelet_was_heard_is_off) {
  EXPECT_EQ(says(), "off: BareMetalHost hosts/h1 is off, held by reboot.metal3.io/moonfence");
  annotations() = {{"reboot.metal3.io/somebody", ""}};
  EXPECT_EQ(word(), "off");
  annotations() = json::object();
  host["spec"]["online"] = false;
  EXPECT_EQ(word(), "off");
  host["status"]["provisioning"]["state"] = "externally provisioned";
  EXPECT_EQ(word(), "off");
}

// The operator leaves the status as it was while it cannot see the machine.
TEST_F(Metal3Test, what_it_said_before_the_kubelet_was_last_heard_is_no_proof) {
  for (const json& time : {json("2026-01-01T00:01:00Z"), json("2026-01-01T00:00:59Z"), json("9"),
                           json(""), json(nullptr), json(5), json("2026-01-01T00:01:01+01:00")}) {
    host["status"]["lastUpdated"] = time;
    EXPECT_EQ(word(), "unknown") << time;
  }
  host["status"]["lastUpdated"] = "2026-01-01T00:01:01Z";
  node_object["status"] = nullptr;
  EXPECT_EQ(word(), "unknown");
}

// It is switched on in a moment.
TEST_F(Metal3Test, a_host_that_nobody_holds_off_is_not_off) {
  annotations() = json::object();
  EXPECT_EQ(word(), "unknown");
  annotations() = {{"reboot.metal3.io", ""}, {"reboot.metal3.io/", ""}};
  EXPECT_EQ(word(), "unknown") << "one restart";
}

TEST_F(Metal3Test, power_is_a_truth_value_and_nothing_else) {
  host["status"]["poweredOn"] = true;
  EXPECT_EQ(says(), "on: BareMetalHost hosts/h1 has power");
  for (const json& odd : {json(nullptr), json("false"), json(0)}) {
    host["status"]["poweredOn"] = odd;
    EXPECT_EQ(word(), "unknown") << odd;
  }
}

TEST_F(Metal3Test, an_error_or_a_host_between_two_states_is_unknown) {
  for (const char* status : {"error", "delayed", "detached", "servicing", "discovered", ""}) {
    host["status"]["operationalStatus"] = status;
    EXPECT_EQ(word(), "unknown") << status;
  }
  host["status"]["operationalStatus"] = "OK";
  host["status"]["errorType"] = "power management error";
  EXPECT_EQ(word(), "unknown");
  host["status"]["errorType"] = "";
  for (const char* state : {"available", "deprovisioning", "provisioning", "deleting", ""}) {
    host["status"]["provisioning"]["state"] = state;
    EXPECT_EQ(word(), "unknown") << state;
  }
}

TEST_F(Metal3Test, what_a_person_has_to_mend_is_a_failure) {
  const json good = host;
  annotations()["baremetalhost.metal3.io/paused"] = "";
  EXPECT_EQ(word(), "failed");
  host = good;
  annotations()["baremetalhost.metal3.io/detached"] = "";
  EXPECT_EQ(word(), "failed");
  host = good;
  host["spec"]["disablePowerOff"] = true;
  EXPECT_EQ(word(), "failed");
  for (const json& other : {json{{"kind", "Metal3Machine"}, {"name", "m2"}},
                            json{{"kind", "Machine"}, {"name", "m1"}}, json::object()}) {
    host = good;
    host["spec"]["consumerRef"] = other;
    EXPECT_EQ(word(), "failed") << other;
  }
}

TEST_F(Metal3Test, the_provider_id_is_read_strictly) {
  for (const char* id : {"", "metal3://", "metal3://u1", "metal3://hosts/h1", "metal3:///h1/m1",
                         "metal3://hosts//m1", "metal3://hosts/h1/", "metal3://hosts/h1/m1/x",
                         "openstack:///metal3://hosts/h1/m1"}) {
    node = machine(id);
    EXPECT_EQ(word(), "failed") << id;
    EXPECT_TRUE(fencer.asked.empty()) << id;
  }
}

TEST_F(Metal3Test, a_host_that_is_not_there_is_unknown) {
  EXPECT_EQ(fencer.word(node, {{"get metal3.io/v1alpha1 baremetalhosts hosts/h1", {.status = 404}},
                               {"get v1 nodes n1", {.body = node_object}}}),
            "unknown");
}

TEST_F(Metal3Test, it_is_held_off_by_an_annotation_of_that_very_host) {
  annotations() = json::object();
  host["status"]["poweredOn"] = true;
  EXPECT_EQ(word(), "on");
  EXPECT_EQ(fencer.order(node), R"(annotate metal3.io/v1alpha1 baremetalhosts hosts/h1 )"
                                R"({"reboot.metal3.io/moonfence":"{\"mode\":\"hard\"}"})");
  annotations()["reboot.metal3.io/metal3-remediation-7"] = "";
  EXPECT_EQ(word(), "on");
  EXPECT_TRUE(fencer.order(node).starts_with("not: a Metal3Remediation is at work"));
}

}  // namespace
}  // namespace moonfence::policy
