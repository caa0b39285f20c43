#include "sim/truth/rules.h"
#include "unit/sim/judge_fixture.h"

namespace moonfence::sim {
namespace {

struct OutOfServiceTest : JudgeTest {
  OutOfServiceTest() {
    plan.kubernetes = 36;
    bind("allow: [out-of-service]");
    read_node();
  }
  void bind(const std::string& more) {
    const auto edit = [&more](Json& map) {
      map["data"]["moonfence.yaml"] =
          "api: 1\nbindings:\n- {policy: retiring, source: retiring.lua, namespaces: [noobaa], "
          "mode: enforce, " +
          more + "}\n";
      map["data"]["retiring.lua"] = "return policy { trigger = { failures = 1 } }";
    };
    (void)store.update(
        {.resource = "configmaps", .space = "moonfence", .name = "moonfence-policies"}, edit,
        ObjectStore::Part::Whole, "admin");
    hear_policies();
    pass(2s);  // what was bound before does not count any more
    read_node();
  }
  // As the engine's patch is when it sets the taint; `action`: what the intent calls it.
  void patch(const std::string& action = "taint_out_of_service") {
    const std::string node = uid("nodes", "", "n1");
    judge.on_audit(life, Json{{"kind", "intent"},
                              {"reason", "sets_out_of_service"},
                              {"incident", "i1"},
                              {"node", "n1"},
                              {"node_uid", node},
                              {"action", action}}
                             .dump());
    judge.on_left(
        request(port::Method::Patch, "/api/v1/nodes/n1",
                Json::array({{{"op", "test"}, {"path", "/metadata/uid"}, {"value", node}},
                             {{"op", "test"}, {"path", "/spec/taints"}, {"value", nullptr}},
                             {{"op", "add"},
                              {"path", "/spec/taints"},
                              {"value", Json::array({{{"key", "node.kubernetes.io/out-of-service"},
                                                      {"value", "nodeshutdown"},
                                                      {"effect", "NoExecute"}}})}}})
                    .dump()));
  }
  // A pod that no binding covers.
  void make_dns(const Json& tolerations, const Json& volumes = Json::array()) {
    (void)make_pod("dns-0", "n1", "ReplicaSet", "kube-system");
    (void)store.update(
        {.resource = "pods", .space = "kube-system", .name = "dns-0"},
        [&](Json& pod) {
          pod["spec"]["tolerations"] = tolerations;
          pod["spec"]["volumes"] = volumes;
        },
        ObjectStore::Part::Whole, "admin");
    pass(10s);
    bind("allow: [out-of-service]");
  }
  void change(const std::function<void(Json&)>& edit, const std::string& actor = "moonfence-0") {
    (void)store.update({.resource = "nodes", .space = {}, .name = "n1"}, edit,
                       ObjectStore::Part::Whole, actor);
  }
  static void taint(Json& node) {
    node["spec"]["taints"].push_back({{"key", "node.kubernetes.io/out-of-service"},
                                      {"value", "nodeshutdown"},
                                      {"effect", "NoExecute"}});
  }
  static void mark(Json& node) {
    node["metadata"]["annotations"]["moonfence.io/out-of-service"] = R"({"bootID":"old"})";
  }
  static void lift(Json& node) {
    node["spec"]["taints"] = Json::array();
    node["metadata"]["annotations"].erase("moonfence.io/out-of-service");
  }
};

TEST_F(OutOfServiceTest, a_silent_node_whose_pods_the_binding_covers_is_in_order) {
  patch();
  EXPECT_FALSE(breaks(rules::kOutOfService));
}

TEST_F(OutOfServiceTest, an_old_version_is_seen) {
  plan.kubernetes = 25;
  patch();
  EXPECT_TRUE(breaks(rules::kOutOfService));
}

TEST_F(OutOfServiceTest, a_binding_without_the_allowance_is_seen) {
  pass(10s);
  bind("allow: [bare-pods]");
  patch();
  EXPECT_TRUE(breaks(rules::kOutOfService));
}

TEST_F(OutOfServiceTest, a_protected_pod_is_seen_unless_it_tolerates_the_taint) {
  (void)make_pod("dns-0", "n1", "ReplicaSet", "kube-system");
  const Key key{.resource = "pods", .space = "kube-system", .name = "dns-0"};
  (void)store.update(
      key,
      [](Json& pod) {
        pod["spec"]["tolerations"] = Json::array({{{"operator", "Exists"}}});
      },
      ObjectStore::Part::Whole, "admin");
  pass(10s);
  bind("allow: [out-of-service]");
  patch();
  EXPECT_FALSE(breaks(rules::kOutOfService));
  (void)store.update(
      key, [](Json& pod) { pod["spec"].erase("tolerations"); }, ObjectStore::Part::Whole, "admin");
  patch();
  EXPECT_TRUE(breaks(rules::kOutOfService));
}

TEST_F(OutOfServiceTest, whatever_the_intent_calls_it) {
  make_dns(Json::array());
  patch("set_quarantine");
  EXPECT_TRUE(breaks(rules::kOutOfService));
}

TEST_F(OutOfServiceTest, the_first_toleration_that_matches_counts) {
  make_dns(Json::array(
      {{{"operator", "Exists"}, {"tolerationSeconds", 300}}, {{"operator", "Exists"}}}));
  patch();
  EXPECT_TRUE(breaks(rules::kOutOfService));
}

TEST_F(OutOfServiceTest, the_other_taints_of_the_node_evict_too) {
  make_dns(Json::array({{{"key", "node.kubernetes.io/out-of-service"}, {"operator", "Exists"}}}));
  patch();
  EXPECT_TRUE(breaks(rules::kOutOfService));
}

TEST_F(OutOfServiceTest, a_pod_with_a_claim_counts_whatever_it_tolerates) {
  make_dns(Json::array({{{"operator", "Exists"}}}),
           Json::array({{{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "c"}}}}}));
  patch();
  EXPECT_TRUE(breaks(rules::kOutOfService));
}

TEST_F(OutOfServiceTest, a_pod_of_another_namespace_or_a_bare_one_is_seen) {
  (void)make_pod("bare", "n1", "");
  pass(10s);
  bind("allow: [out-of-service, bare-pods]");
  patch();
  EXPECT_FALSE(breaks(rules::kOutOfService));
  pass(10s);
  bind("allow: [out-of-service]");
  patch();
  EXPECT_TRUE(breaks(rules::kOutOfService));
}

TEST_F(OutOfServiceTest, a_kubelet_that_is_not_silent_is_seen) {
  set_node("n1", "False", true);
  pass(2s);
  read_node();
  patch();
  EXPECT_TRUE(breaks(rules::kOutOfService));
}

TEST_F(OutOfServiceTest, it_stands_in_the_record_first) {
  change([](Json& node) {
    taint(node);
    mark(node);
  });
  EXPECT_TRUE(breaks(rules::kRecordFirst));
  EXPECT_FALSE(breaks(rules::kOwnTaint));
}

TEST_F(OutOfServiceTest, the_taint_without_its_annotation_is_seen) {
  change(taint);
  EXPECT_TRUE(breaks(rules::kOwnTaint));
}

TEST_F(OutOfServiceTest, somebody_else_s_is_not_to_be_touched) {
  change(taint, "admin");
  change([](Json& node) { node["spec"]["taints"] = Json::array(); });
  EXPECT_TRUE(breaks(rules::kOwnTaint));
}

// An attachment of n1 that core-0 needs, and the node is back.
struct HandBackTest : OutOfServiceTest {
  HandBackTest() {
    (void)store.create("persistentvolumeclaims", "noobaa",
                       {{"metadata", {{"name", "data-0"}}}, {"spec", {{"volumeName", "pv-1"}}}},
                       "admin");
    (void)store.update(
        kCore,
        [](Json& pod) {
          pod["spec"]["volumes"] = Json::array(
              {{{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "data-0"}}}}});
        },
        ObjectStore::Part::Whole, "admin");
    (void)store.create("volumeattachments", "",
                       {{"metadata", {{"name", "csi-1"}, {"finalizers", {"held"}}}},
                        {"spec",
                         {{"nodeName", "n1"},
                          {"attacher", "csi.example.com"},
                          {"source", {{"persistentVolumeName", "pv-1"}}}}}},
                       "attachdetach-controller");
    recover("n1");
    pass(60s);
    change(
        [](Json& node) {
          taint(node);
          mark(node);
        },
        "admin");
  }
  const Key kCore{.resource = "pods", .space = "noobaa", .name = "core-0"};
};

TEST_F(HandBackTest, with_what_its_pods_need_it_is_clean) {
  change(lift);
  EXPECT_FALSE(breaks(rules::kHandedBackClean));
}

TEST_F(HandBackTest, not_while_an_attachment_is_going) {
  (void)store.remove({.resource = "volumeattachments", .space = {}, .name = "csi-1"}, {},
                     "attachdetach-controller");
  change(lift);
  EXPECT_TRUE(breaks(rules::kHandedBackClean));
}

TEST_F(HandBackTest, not_with_an_attachment_that_no_pod_needs) {
  (void)store.remove(kCore, {}, "admin");
  change(lift);
  EXPECT_FALSE(breaks(rules::kHandedBackClean));  // the list may not have known
  change(
      [](Json& node) {
        taint(node);
        mark(node);
      },
      "admin");
  pass(10s);
  change(lift);
  EXPECT_TRUE(breaks(rules::kHandedBackClean));
}

}  // namespace
}  // namespace moonfence::sim
