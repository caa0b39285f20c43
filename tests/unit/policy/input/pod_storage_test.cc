#include "policy/input/pod_storage.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence::policy {
namespace {

using nlohmann::json;
using Drivers = std::set<std::string>;

json claim(const std::string& name) {
  return {{"name", name}, {"persistentVolumeClaim", {{"claimName", "c-" + name}}}};
}

struct PodStorageTest : testing::Test {
  json volumes = json::array({claim("a")});
  std::vector<VolumeFacts> facts = {bound("a", "a.example.com")};

  static VolumeFacts bound(const std::string& name, const std::string& driver) {
    return {.name = name,
            .claim = "c-" + name,
            .state = "bound",
            .pv = "pv-" + name,
            .driver = driver,
            .handle = "h-" + name};
  }
  [[nodiscard]] Drivers drivers() const {
    return storage_drivers({{"spec", {{"volumes", volumes}}}}, facts);
  }
};

TEST_F(PodStorageTest, the_drivers_of_all_claims) {
  EXPECT_EQ(drivers(), Drivers{"a.example.com"});
  volumes.push_back(claim("b"));
  facts.push_back(bound("b", "b.example.com"));
  EXPECT_EQ(drivers(), (Drivers{"a.example.com", "b.example.com"}));
}

TEST_F(PodStorageTest, what_another_node_gets_anew_is_none) {
  for (const char* kind :
       {"configMap", "secret", "emptyDir", "projected", "downwardAPI", "image"}) {
    volumes.push_back({{"name", kind}, {kind, json::object()}});
  }
  EXPECT_EQ(drivers(), Drivers{"a.example.com"});
}

TEST_F(PodStorageTest, whatever_else_may_last_leaves_nothing_said) {
  for (const char* kind : {"hostPath", "nfs", "csi", "iscsi", "rbd", "awsElasticBlockStore",
                           "flexVolume", "ofTomorrow"}) {
    volumes = json::array({claim("a"), {{"name", kind}, {kind, {{"driver", "a.example.com"}}}}});
    EXPECT_EQ(drivers(), Drivers{}) << kind;
  }
  volumes = json::array(
      {claim("a"), {{"name", "x"}, {"emptyDir", json::object()}, {"nfs", json::object()}}});
  EXPECT_EQ(drivers(), Drivers{}) << "two things in one";
  for (const json& odd :
       {json(5), json::object(), json{{"name", "x"}}, json{{"name", 5}, {"emptyDir", {}}}}) {
    volumes = json::array({claim("a"), odd});
    EXPECT_EQ(drivers(), Drivers{}) << odd;
  }
}

TEST_F(PodStorageTest, a_claim_that_is_not_known_to_be_of_a_csi_volume_leaves_nothing_said) {
  const VolumeFacts good = facts[0];
  for (const char* state : {"unbound", "claim_missing", "volume_missing", ""}) {
    facts = {good};
    facts[0].state = state;
    EXPECT_EQ(drivers(), Drivers{}) << state;
  }
  facts = {good};
  facts[0].driver = "";
  EXPECT_EQ(drivers(), Drivers{});
  facts = {good};
  facts[0].handle = "";  // of an old kind, which Kubernetes translates
  EXPECT_EQ(drivers(), Drivers{});
  facts = {bound("b", "a.example.com")};
  EXPECT_EQ(drivers(), Drivers{}) << "of another volume";
  facts = {};
  EXPECT_EQ(drivers(), Drivers{});
  facts = {good};
  volumes.push_back(claim("b"));
  EXPECT_EQ(drivers(), Drivers{}) << "one of two";
}

TEST_F(PodStorageTest, without_volumes_or_anybody_who_looked_nothing_is_said) {
  EXPECT_EQ(storage_drivers({{"spec", {{"volumes", volumes}}}}, std::nullopt), Drivers{});
  EXPECT_EQ(storage_drivers({{"spec", {{"volumes", 5}}}}, facts), Drivers{});
  EXPECT_EQ(storage_drivers(json::object(), facts), Drivers{});
  volumes = json::array();
  EXPECT_EQ(drivers(), Drivers{});
}

TEST_F(PodStorageTest, a_pod_that_reaches_more_than_its_volumes_leaves_nothing_said) {
  const json pod = {{"spec", {{"volumes", volumes}}}};
  const json plain = {{"name", "c"}, {"securityContext", {{"privileged", false}}}};
  for (const char* kind : {"containers", "initContainers", "ephemeralContainers"}) {
    json with = pod;
    with["spec"][kind] = json::array({json{{"name", "c"}}, plain});
    EXPECT_EQ(storage_drivers(with, facts), Drivers{"a.example.com"}) << kind;
    json privileged = plain;
    for (const json& said : {json(true), json(1), json("no")}) {
      privileged["securityContext"]["privileged"] = said;
      with["spec"][kind] = json::array({plain, privileged});
      EXPECT_EQ(storage_drivers(with, facts), Drivers{}) << kind;
    }
    for (const json& odd : {json(5), json::array({5})}) {
      with["spec"][kind] = odd;
      EXPECT_EQ(storage_drivers(with, facts), Drivers{}) << kind;
    }
  }
  json with = pod;
  with["spec"]["resourceClaims"] = json::array();
  EXPECT_EQ(storage_drivers(with, facts), Drivers{"a.example.com"});
  with["spec"]["resourceClaims"].push_back({{"name", "gpu"}, {"resourceClaimName", "x"}});
  EXPECT_EQ(storage_drivers(with, facts), Drivers{});
}

TEST_F(PodStorageTest, a_claim_that_lives_with_the_pod_counts_too) {
  volumes =
      json::array({{{"name", "a"}, {"ephemeral", {{"volumeClaimTemplate", json::object()}}}}});
  EXPECT_EQ(drivers(), Drivers{"a.example.com"});
}

}  // namespace
}  // namespace moonfence::policy
