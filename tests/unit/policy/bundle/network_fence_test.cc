// The fencer network-fence, by the shapes of csi-addons/kubernetes-csi-addons v0.14.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "policy/bundle/builtin.h"
#include "policy/host/policy.h"
#include "support/policies.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

struct NetworkFenceTest : testing::Test {
  StoppedCpuClock clock;
  json settings = {{"drivers", json::array({"rbd.example.com"})}};
  json node = {{"metadata", {{"name", "n1"}, {"creationTimestamp", "2026-01-01T00:00:00Z"}}}};
  json nodes = json::array({csi_node("n1", "10.0.0.1/32"), csi_node("n2", "10.0.0.2/32")});
  json fences = json::array({fence("10.0.0.1/32")});

  static json csi_node(const std::string& name, const std::string& cidr,
                       const std::string& driver = "rbd.example.com",
                       const std::string& fence_class = "c") {
    json made = {
        {"metadata",
         {{"name", name + "-" + driver}, {"creationTimestamp", "2026-01-01T00:00:05Z"}}},
        {"spec", {{"driver", {{"name", driver}, {"nodeID", name}, {"endpoint", "pod://x"}}}}},
        {"status", {{"state", "Connected"}}}};
    made["status"]["networkFenceClientStatus"] = json::array({client(cidr, fence_class)});
    return made;
  }
  static json client(const std::string& cidr, const std::string& fence_class) {
    json made = {{"networkFenceClassName", fence_class}};
    made["ClientDetails"] = json::array({details("1", cidr)});
    return made;
  }
  static json details(const std::string& id, const std::string& cidr) {
    json made = {{"id", id}};
    made["cidrs"] = json::array({cidr});
    return made;
  }
  static json fence(const std::string& cidr, const std::string& fence_class = "c") {
    json made = {
        {"metadata", {{"name", "f1"}, {"generation", 1}}},
        {"spec", {{"networkFenceClassName", fence_class}, {"fenceState", "Fenced"}}},
        {"status", {{"result", "Succeeded"}, {"message", "fencing operation successful"}}}};
    made["spec"]["cidrs"] = json::array({cidr});
    return made;
  }
  json& clients(std::size_t i) { return nodes[i]["status"]["networkFenceClientStatus"]; }
  // "isolated rbd.example.com: rbd.example.com isolated: NetworkFence f1"
  [[nodiscard]] std::string said() const {
    for (const BuiltinPolicy& builtin : builtin_fencers()) {
      if (builtin.name != "network-fence") {
        continue;
      }
      auto loaded = Policy::load(std::string(builtin.source), "network-fence/fencer.lua",
                                 const_cast<StoppedCpuClock&>(clock));
      EXPECT_TRUE(loaded) << loaded.error().message();
      const auto settled = loaded->with_settings(settings);
      EXPECT_TRUE(settled) << settled.error().message();
      kube::Node about;
      about.name = NodeName("n1");
      about.raw = std::make_shared<const json>(node);
      const auto answer = [](const json& body) {
        return body.is_null() ? json{{"status", 404}} : json{{"status", 200}, {"body", body}};
      };
      const json got = {{"node", answer(node)},
                        {"nodes", answer(nodes.is_null() ? nodes : json{{"items", nodes}})},
                        {"fences", answer(fences.is_null() ? fences : json{{"items", fences}})}};
      const auto run = settled->power_of(about, got);
      if (!run.result) {
        return "error " + run.result.error().message();
      }
      std::string text(to_string(run.result->power));
      for (const std::string& driver : run.result->drivers) {
        text += " " + driver;
      }
      return text + ": " + run.result->why;
    }
    return "no such fencer";
  }
  // What it says is no proof, and has this in it.
  void is_no_proof(const std::string& part) const {
    const std::string text = said();
    EXPECT_FALSE(text.starts_with("isolated") || text.starts_with("off")) << text;
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
};

TEST_F(NetworkFenceTest, a_fence_that_succeeded_over_the_node_s_own_address_isolates_it) {
  EXPECT_EQ(said(), "isolated rbd.example.com: rbd.example.com isolated: NetworkFence f1");
  for (json& client : clients(0)) {  // as the documents write it
    client["clientDetails"] = client["ClientDetails"];
    client.erase("ClientDetails");
  }
  EXPECT_TRUE(said().starts_with("isolated rbd.example.com: "));
}

TEST_F(NetworkFenceTest, without_one_the_node_is_on) {
  fences = json::array();
  EXPECT_EQ(said(), "on: rbd.example.com on: no NetworkFence of class c is over its addresses");
  fences = json::array({fence("10.0.0.2/32")});  // of another node
  EXPECT_TRUE(said().starts_with("on: "));
}

TEST_F(NetworkFenceTest, a_result_that_is_missing_failed_or_of_the_unfencing_is_none) {
  fences[0]["status"] = nullptr;
  is_no_proof("has no result yet");
  fences[0]["status"] = json::object();
  is_no_proof("has no result yet");
  fences[0]["status"] = {{"result", "Failed"}, {"message", "no such cluster"}};
  is_no_proof("Failed: no such cluster");
  fences[0]["status"] = {{"result", "Succeeded"}, {"message", "unfencing operation successful"}};
  is_no_proof("says 'unfencing operation successful'");
  fences[0]["status"] = {{"result", "Succeeded"}};
  is_no_proof("says 'nil'");
}

// Its status is not cleared when its spec changes, and has no generation of its own.
TEST_F(NetworkFenceTest, one_that_was_changed_since_it_was_made_or_is_being_deleted_is_none) {
  fences[0]["metadata"]["generation"] = 2;
  is_no_proof("was changed since it was made");
  fences[0]["metadata"].erase("generation");
  is_no_proof("was changed since it was made");
  fences[0] = fence("10.0.0.1/32");
  fences[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:09Z";
  is_no_proof("is being deleted");
}

TEST_F(NetworkFenceTest, another_that_lifts_it_speaks_against_it_in_any_order) {
  json lifts = fence("10.0.0.1/32", "another class");
  lifts["spec"]["fenceState"] = "Unfenced";
  fences = json::array({fence("10.0.0.1/32"), lifts});
  is_no_proof("lifts it");
  lifts["spec"]["cidrs"] = json::array({"10.0.0.0/24"});
  fences = json::array({lifts, fence("10.0.0.1/32")});
  is_no_proof("lifts it");
  lifts["spec"].erase("fenceState");
  fences = json::array({lifts, fence("10.0.0.1/32")});
  is_no_proof("lifts it");
  lifts["spec"]["cidrs"] = json::array({"10.0.0.2/32"});  // of another node
  fences = json::array({lifts, fence("10.0.0.1/32")});
  EXPECT_TRUE(said().starts_with("isolated"));
}

TEST_F(NetworkFenceTest, it_names_the_node_s_addresses_and_no_others) {
  clients(0)[0]["ClientDetails"].push_back(details("2", "10.0.1.1/32"));
  is_no_proof("names other addresses");
  fences[0]["spec"]["cidrs"] = json::array({"10.0.1.1/32", "10.0.0.1/32"});
  EXPECT_TRUE(said().starts_with("isolated"));
  fences[0]["spec"]["cidrs"].push_back("10.0.0.9/32");
  is_no_proof("names other addresses");
  fences[0] = fence("10.0.0.1/32", "another class");
  is_no_proof("no NetworkFence of class c");
}

TEST_F(NetworkFenceTest, an_address_that_is_another_s_too_or_wide_or_missing_proves_nothing) {
  clients(1)[0]["ClientDetails"][0]["cidrs"].push_back("10.0.0.1/32");
  is_no_proof("10.0.0.1/32 is an address of node n2 too");
  nodes[1] = csi_node("n2", "10.0.0.1/32", "cephfs.example.com", "d");  // by another driver
  is_no_proof("10.0.0.1/32 is an address of node n2 too");
  for (const char* wide : {"10.0.0.0/24", "10.0.0.1", "fd00::1/64", "fd00::1/32", "::/0", ""}) {
    nodes = json::array({csi_node("n1", wide)});
    fences = json::array({fence(wide)});
    is_no_proof("is more than one address");
  }
  nodes = json::array({csi_node("n1", "fd00::1/128")});
  fences = json::array({fence("fd00::1/128")});
  EXPECT_TRUE(said().starts_with("isolated"));
  clients(0)[0]["ClientDetails"] = json::array();
  is_no_proof("knows no address");
}

TEST_F(NetworkFenceTest, every_cluster_of_the_driver_has_to_refuse_it) {
  clients(0).push_back(client("10.0.0.1/32", "c2"));
  is_no_proof("no NetworkFence of class c2");
  fences.push_back(fence("10.0.0.1/32", "c2"));
  EXPECT_TRUE(said().starts_with("isolated"));
}

// The machine that had the name before had another address, perhaps.
TEST_F(NetworkFenceTest, what_is_older_than_the_node_says_nothing_about_it) {
  node["metadata"]["creationTimestamp"] = "2026-01-01T00:00:06Z";
  is_no_proof("no CSIAddonsNode");
}

TEST_F(NetworkFenceTest, each_driver_is_judged_by_itself) {
  settings["drivers"].push_back("cephfs.example.com");
  nodes.push_back(csi_node("n1", "10.0.0.1/32", "cephfs.example.com", "d"));
  EXPECT_TRUE(
      said().starts_with("isolated rbd.example.com: rbd.example.com isolated: "
                         "NetworkFence f1; cephfs.example.com on: "))
      << said();
  fences.push_back(fence("10.0.0.1/32", "d"));
  EXPECT_TRUE(said().starts_with("isolated cephfs.example.com rbd.example.com: "));
  settings["drivers"] = json::array();
  EXPECT_TRUE(said().starts_with("failed: "));
}

TEST_F(NetworkFenceTest, without_csi_addons_it_fails_and_nonsense_is_an_error) {
  const json good = nodes;
  nodes = nullptr;
  is_no_proof("CSI-Addons is not installed");
  for (const char* odd :
       {"[5]", R"([{"spec": 5}])", R"([{"spec": {"driver": 5}}])", "{}", "5",
        R"([{"metadata": 5, "spec": {"driver": {"name": "rbd.example.com", "nodeID": "n1"}}}])"}) {
    nodes = json::parse(odd);
    is_no_proof("");
  }
  nodes = good;
  for (
      const char* odd :
      {"[5]", R"([{"spec": {"cidrs": 5}}])", "{}", "5",
       R"([{"metadata": {"name": "f"}, "spec": {"cidrs": [5]}}])",
       R"([{"spec": {"cidrs": ["10.0.0.1/32"], "networkFenceClassName": "c", "fenceState": "Fenced"}}])"}) {
    fences = json::parse(odd);
    is_no_proof("");
  }
}

// As many as a list may show (fence/read/policy_fetch.h).
TEST_F(NetworkFenceTest, it_can_be_asked_about_a_cluster_of_many_nodes) {
  for (int i = 0; i < 1000; ++i) {
    nodes.push_back(csi_node("m" + std::to_string(i), "10.1." + std::to_string(i / 200) + "." +
                                                          std::to_string(i % 200) + "/32"));
  }
  EXPECT_TRUE(said().starts_with("isolated")) << said();
}

}  // namespace
}  // namespace moonfence::policy
