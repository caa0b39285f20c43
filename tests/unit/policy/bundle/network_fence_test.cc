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
  static constexpr const char* kClasses = "csiaddons.openshift.io/networkfenceclass-names";
  StoppedCpuClock clock;
  json settings = {{"drivers", json::array({"rbd.example.com"})}, {"classes", json::array({"c"})}};
  json node = {{"metadata",
                {{"name", "n1"}, {"uid", "node-1"}, {"creationTimestamp", "2026-01-01T00:00:00Z"}}},
               {"status",
                {{"conditions", json::array({{{"type", "DiskPressure"}, {"status", "False"}},
                                             {{"type", "Ready"},
                                              {"status", "Unknown"},
                                              {"lastTransitionTime", "2026-01-01T00:01:01Z"},
                                              {"lastHeartbeatTime", "2026-01-01T00:01:00Z"}}})}}}};
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
    made["metadata"]["annotations"][kClasses] = json::array({fence_class}).dump();
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
        {"metadata",
         {{"name", "f1"}, {"generation", 1}, {"creationTimestamp", "2026-01-01T00:01:01Z"}}},
        {"spec", {{"networkFenceClassName", fence_class}, {"fenceState", "Fenced"}}},
        {"status", {{"result", "Succeeded"}, {"message", "fencing operation successful"}}}};
    made["spec"]["cidrs"] = json::array({cidr});
    return made;
  }
  json& clients(std::size_t i) { return nodes[i]["status"]["networkFenceClientStatus"]; }
  json& ready() { return node["status"]["conditions"][1]; }
  json& annotation(std::size_t i) { return nodes[i]["metadata"]["annotations"][kClasses]; }
  [[nodiscard]] Policy fencer() const {
    for (const BuiltinPolicy& builtin : builtin_fencers()) {
      if (builtin.name == "network-fence") {
        auto loaded = Policy::load(std::string(builtin.source), "network-fence/fencer.lua",
                                   const_cast<StoppedCpuClock&>(clock));
        EXPECT_TRUE(loaded) << loaded.error().message();
        auto settled = loaded->with_settings(settings);
        EXPECT_TRUE(settled) << settled.error().message();
        return *std::move(settled);
      }
    }
    throw std::runtime_error("no such fencer");
  }
  [[nodiscard]] kube::Node about() const {
    kube::Node about;
    about.name = NodeName("n1");
    about.raw = std::make_shared<const json>(node);
    return about;
  }
  [[nodiscard]] json got() const {
    const auto answer = [](const json& body) {
      return body.is_null() ? json{{"status", 404}} : json{{"status", 200}, {"body", body}};
    };
    return {{"node", answer(node)},
            {"nodes", answer(nodes.is_null() ? nodes : json{{"items", nodes}})},
            {"fences", answer(fences.is_null() ? fences : json{{"items", fences}})}};
  }
  // "isolated rbd.example.com: rbd.example.com isolated: NetworkFence f1"
  [[nodiscard]] std::string said() const {
    const auto run = fencer().power_of(about(), got());
    if (!run.result) {
      return "error " + run.result.error().message();
    }
    std::string text(to_string(run.result->power));
    for (const std::string& driver : run.result->drivers) {
      text += " " + driver;
    }
    return text + ": " + run.result->why;
  }
  // "create … rbd.example.com", "not: …"
  [[nodiscard]] std::string order() const {
    const auto run = fencer().order(about(), got());
    if (!run.result || !run.result->request) {
      return run.result ? "not: " + run.result->why_not : "error " + run.result.error().message();
    }
    std::string text = run.result->request->text();
    for (const std::string& driver : run.result->drivers) {
      text += " " + driver;
    }
    return text;
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

// It does not say that the machine has power.
TEST_F(NetworkFenceTest, without_one_the_storage_serves_it) {
  fences = json::array();
  const std::string why = ": no NetworkFence of class c is over its addresses";
  EXPECT_EQ(said(), "served: rbd.example.com served" + why);
  fences = json::array({fence("10.0.0.2/32")});  // of another node
  EXPECT_EQ(said(), "served: rbd.example.com served" + why);
  ready()["status"] = "True";
  EXPECT_EQ(said(), "served: rbd.example.com served" + why);
}

// One of an outage before is no obstacle to another, and a node that is Ready suffers from it.
TEST_F(NetworkFenceTest, one_that_was_never_lifted_is_told_of_a_node_that_is_ready) {
  fences[0]["metadata"]["creationTimestamp"] = "2026-01-01T00:00:59Z";
  EXPECT_TRUE(said().starts_with("served: ")) << said();
  ready()["status"] = "True";
  EXPECT_TRUE(said().starts_with("unknown: ")) << said();
}

TEST_F(NetworkFenceTest, it_is_isolated_by_a_fence_of_its_own_addresses_named_after_the_outage) {
  fences = json::array();
  EXPECT_EQ(
      order(),
      "create csiaddons.openshift.io/v1alpha1 networkfences "
      "moonfence-node-1-c-20260101t000100z "
      R"({"apiVersion":"csiaddons.openshift.io/v1alpha1","kind":"NetworkFence","metadata":)"
      R"({"annotations":{"moonfence.io/node":"n1"},"labels":{"app.kubernetes.io/managed-by":)"
      R"("moonfence"},"name":"moonfence-node-1-c-20260101t000100z"},"spec":{"cidrs":)"
      R"(["10.0.0.1/32"],"fenceState":"Fenced","networkFenceClassName":"c"}} rbd.example.com)");
  clients(0)[0]["ClientDetails"].push_back(details("2", "10.0.0.9/32"));
  EXPECT_NE(order().find(R"("cidrs":["10.0.0.1/32","10.0.0.9/32"])"), std::string::npos);
  ready()["lastHeartbeatTime"] = nullptr;
  EXPECT_TRUE(order().starts_with("not: the Node has no heartbeat")) << order();
}

TEST_F(NetworkFenceTest, each_cluster_gets_one_of_its_own_and_those_that_refuse_it_none) {
  settings["classes"] = {"c", "d"};
  annotation(0) = R"(["c", "d"])";
  clients(0).push_back(client("10.0.0.1/32", "d"));
  EXPECT_NE(order().find("moonfence-node-1-d-"), std::string::npos) << order();
  fences.push_back(fence("10.0.0.1/32", "d"));
  EXPECT_EQ(order(), "not: nothing is left to be made");
}

// A fence that would not be enough cuts off a node for nothing.
TEST_F(NetworkFenceTest, where_one_cluster_cannot_be_told_no_other_is) {
  settings["classes"] = {"c", "d"};
  annotation(0) = R"(["c", "d"])";
  clients(0).push_back(client("10.0.0.1/32", "d"));
  fences = json::array({fence("10.0.0.1/32", "d")});
  fences[0]["status"] = nullptr;
  EXPECT_TRUE(said().starts_with("unknown: ")) << said();
  EXPECT_EQ(order(), "not: nothing is left to be made");
}

// A class of the setting that nobody tells of the node would never be proven.
TEST_F(NetworkFenceTest, where_the_addresses_for_a_named_class_are_not_told_none_is_made) {
  settings["classes"] = {"c", "d"};
  fences = json::array();
  EXPECT_TRUE(
      said().starts_with("unknown: no CSIAddonsNode of the node tells its addresses for class d"))
      << said();
}

// It would be made again and again, and never look new.
TEST_F(NetworkFenceTest, a_clock_that_is_ahead_has_nothing_made_and_neither_has_one_that_is_there) {
  fences = json::array();
  ready()["lastTransitionTime"] = "2026-01-01T00:01:00Z";
  EXPECT_TRUE(order().starts_with("not: the node's clock is ahead")) << order();
  ready()["lastTransitionTime"] = nullptr;
  EXPECT_TRUE(order().starts_with("not: the node's clock is ahead")) << order();
  ready()["status"] = "True";
  EXPECT_TRUE(order().starts_with("create ")) << "as before the night";
  ready()["status"] = "Unknown";
  ready()["lastTransitionTime"] = "2026-01-01T00:01:01Z";
  fences.push_back(fence("10.0.0.2/32"));
  fences[0]["metadata"]["name"] = "moonfence-node-1-c-20260101t000100z";
  EXPECT_TRUE(order().ends_with("is there already")) << order();
}

TEST_F(NetworkFenceTest, of_two_drivers_one_that_is_isolated_stays_so_and_one_that_fails_is_left) {
  settings["drivers"] = {"cephfs.example.com", "nfs.example.com", "rbd.example.com"};
  nodes.push_back(csi_node("n1", "10.0.0.1/32", "cephfs.example.com", "c"));
  nodes.push_back(csi_node("n1", "10.0.0.0/24", "nfs.example.com", "c"));
  fences = json::array();
  EXPECT_TRUE(said().starts_with("failed: ")) << said();
  EXPECT_TRUE(order().ends_with(" cephfs.example.com rbd.example.com")) << order();
}

// It says Succeeded for ever, also after the machine was back and the isolation lifted elsewhere.
TEST_F(NetworkFenceTest, one_of_an_earlier_outage_proves_nothing_of_this_one) {
  const std::string older = "is older than this outage: make a new one";
  json& made = fences[0]["metadata"]["creationTimestamp"];
  for (const char* time : {"2026-01-01T00:00:59Z", "2026-01-01T00:01:00Z", "2025-12-31T23:59:59Z",
                           "2026-01-01T00:01:01", "2026-01-01T00:01:01+00:00", "tomorrow",
                           "2026-01-01Tx0:01:01Z", "9026-01-01 00:01:01Z", ""}) {
    made = time;
    is_no_proof(older);
  }
  made = nullptr;
  is_no_proof(older);
  made = 5;
  is_no_proof(older);
  made = "2026-01-01T00:01:01Z";
  EXPECT_TRUE(said().starts_with("isolated"));
  ready()["lastHeartbeatTime"] = made;
  is_no_proof(older);
  for (const json& odd : {json(nullptr), json(5), json(""), json("2026")}) {
    ready()["lastHeartbeatTime"] = odd;
    is_no_proof(older);
  }
  node["status"]["conditions"] = json::array();
  is_no_proof(older);
  node.erase("status");
  is_no_proof(older);
}

// A kubelet that lives reports every five minutes, by its own clock. Since when it is not heard
// Kubernetes says.
TEST_F(NetworkFenceTest, one_from_before_the_node_was_unknown_may_be_of_an_earlier_outage) {
  const std::string older = "is older than this outage: make a new one";
  ready()["lastTransitionTime"] = "2026-01-01T00:01:02Z";
  is_no_proof(older);
  for (const json& odd : {json(nullptr), json(5), json(""), json("2026")}) {
    ready()["lastTransitionTime"] = odd;
    is_no_proof(older);
  }
  ready()["lastTransitionTime"] = "2026-01-01T00:01:01Z";
  EXPECT_TRUE(said().starts_with("isolated"));
}

TEST_F(NetworkFenceTest, where_the_kubelet_itself_was_the_last_to_speak_nobody_knows) {
  ready()["status"] = "False";
  is_no_proof("Kubernetes has not called the node Unknown yet");
  EXPECT_TRUE(said().starts_with("unknown: ")) << said();
  fences = json::array();
  EXPECT_EQ(order(), "not: Kubernetes has not called the node Unknown yet");
}

// One is left of each outage.
TEST_F(NetworkFenceTest, a_new_one_counts_beside_an_old_one) {
  json old = fence("10.0.0.1/32");
  old["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z";
  fences = json::array({old, fence("10.0.0.1/32"), old});
  EXPECT_TRUE(said().starts_with("isolated"));
  fences = json::array({old, old});
  is_no_proof("is older than this outage");
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

TEST_F(NetworkFenceTest, one_address_is_known_however_it_is_written) {
  json lifts = fence("fd00:0:0::00AB/128", "another class");
  lifts["spec"]["fenceState"] = "Unfenced";
  nodes = json::array({csi_node("n1", "fd00::ab/128"), csi_node("n2", "fd00::ac/128")});
  fences = json::array({fence("FD00:0::ab/128"), lifts});
  is_no_proof("lifts it");
  lifts["spec"]["cidrs"][0] = "fd00::ac/128";
  fences[1] = lifts;
  EXPECT_TRUE(said().starts_with("isolated")) << said();
  nodes[1] = csi_node("n2", "fd00:0:0:0:0:0:0:ab/128");
  is_no_proof("fd00::ab/128 is an address of node n2 too");
  nodes.erase(1);
  for (const char* odd :
       {"::ffff:10.0.0.1/128", "::ffff:a00:1/128", "fd00::1::2/128", "fd00:::1/128", "fd00::g/128",
        "fd00::12345/128", "fd00:1/128", "/128", "fd00:: 1/128", "fd00::-1/128", "010.0.0.1/32",
        "10.0.1/32", "10.0.0.256/32", "10.0.0.1 /32", "1:2:3:4:5:6:7:8::/128"}) {
    lifts["spec"]["cidrs"][0] = odd;  // may be any
    fences[1] = lifts;
    is_no_proof("lifts it");
  }
}

TEST_F(NetworkFenceTest, it_names_all_addresses_of_the_node_and_none_of_others) {
  clients(0)[0]["ClientDetails"].push_back(details("2", "10.0.1.1/32"));
  is_no_proof("does not name 10.0.1.1/32");
  fences[0]["spec"]["cidrs"] = json::array({"10.0.1.1/32", "10.0.0.1/32"});
  EXPECT_TRUE(said().starts_with("isolated"));
  fences[0]["spec"]["cidrs"].push_back("10.0.0.9/32");  // it had this one before, perhaps
  EXPECT_TRUE(said().starts_with("isolated"));
  for (const char* other : {"10.0.0.2/32", "10.1.0.0/24", "10.1.0.1"}) {
    fences[0]["spec"]["cidrs"][2] = other;
    is_no_proof("names other addresses than the node's: " + std::string(other));
  }
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
  nodes = json::array({csi_node("n1", "10.0.0.1/32"), csi_node("n2", "10.0.0.0/24", "x", "x")});
  fences = json::array({fence("10.0.0.1/32")});
  is_no_proof("10.0.0.0/24 of node n2 is more than one address");
  nodes = json::array({csi_node("n1", "fd00::1/128")});
  fences = json::array({fence("fd00::1/128")});
  EXPECT_TRUE(said().starts_with("isolated"));
  clients(0)[0]["ClientDetails"] = json::array();
  is_no_proof("knows no address");
}

TEST_F(NetworkFenceTest, every_cluster_of_the_driver_has_to_refuse_it) {
  clients(0).push_back(client("10.0.0.1/32", "c2"));
  settings["classes"].push_back("c2");
  is_no_proof("no NetworkFence of class c2");
  fences.push_back(fence("10.0.0.1/32", "c2"));
  EXPECT_TRUE(said().starts_with("isolated"));
}

// The driver is asked of one class after the other, and some may have said nothing yet.
TEST_F(NetworkFenceTest, a_cluster_of_which_no_address_is_told_proves_nothing) {
  annotation(0) = R"([ "c", "c2" ])";
  is_no_proof("tells no address for class c2");
  for (const char* odd :
       {"", "c", "[c]", "[\"c\", 5]", "{}", "[\"\"]", "[\"]", "[", "null", R"(["\u0063"])"}) {
    annotation(0) = odd;
    is_no_proof("has an odd annotation");
  }
  annotation(0) = "[]";
  EXPECT_TRUE(said().starts_with("isolated"));
  nodes[0]["metadata"].erase("annotations");
  EXPECT_TRUE(said().starts_with("isolated"));
}

// One without a NetworkFenceClass is seen nowhere.
TEST_F(NetworkFenceTest, the_classes_of_all_clusters_are_named_by_the_setting) {
  settings["classes"] = json::array({"c", "c2"});
  is_no_proof("no CSIAddonsNode of the node tells its addresses for class c2");
  settings["classes"] = json::array({"c2"});
  is_no_proof("class c is not among the setting classes");
  settings["classes"] = json::array();
  is_no_proof("the setting classes is empty");
  settings.erase("classes");
  EXPECT_TRUE(said().starts_with("failed: "));
}

// The machine that had the name before had another address, perhaps.
TEST_F(NetworkFenceTest, what_is_older_than_the_node_says_nothing_about_it) {
  json& made = node["metadata"]["creationTimestamp"];
  made = "2026-01-01T00:00:06Z";
  is_no_proof("older than the Node");
  for (const json& odd : {json(nullptr), json(5), json(""), json("2025-12-31")}) {
    made = odd;
    is_no_proof("older than the Node");
  }
}

// By what is left alone it would need less.
TEST_F(NetworkFenceTest, of_two_of_its_objects_neither_is_left_out) {
  json other = csi_node("n1", "10.0.1.1/32");
  other["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z";
  nodes.push_back(other);
  is_no_proof("older than the Node");
  other["metadata"]["creationTimestamp"] = "2026-01-01T00:00:05Z";
  nodes[2] = other;
  is_no_proof("does not name 10.0.1.1/32");
}

TEST_F(NetworkFenceTest, each_driver_is_judged_by_itself) {
  settings["drivers"].push_back("cephfs.example.com");
  settings["classes"].push_back("d");
  nodes.push_back(csi_node("n1", "10.0.0.1/32", "cephfs.example.com", "d"));
  EXPECT_TRUE(
      said().starts_with("isolated rbd.example.com: rbd.example.com isolated: "
                         "NetworkFence f1; cephfs.example.com served: "))
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
