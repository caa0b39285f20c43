#include "unit/sim/judge_fixture.h"

namespace moonfence::sim {
namespace {

using Names = std::vector<std::string>;

// Two replicas; who holds the Lease, and what they send.
struct ReplicasTest : JudgeTest {
  const Key kElection{.resource = "leases", .space = "moonfence", .name = "moonfence"};
  const Life other{.replica = "moonfence-1", .incarnation = 1};

  ReplicasTest() {
    plan.engines = 2;
    (void)store.create("leases", kElection.space,
                       {{"metadata", {{"name", kElection.name}}},
                        {"spec", {{"holderIdentity", "moonfence-0_uuid"}}}},
                       "moonfence-0");
    prepare();
  }
  void give_lease_to(const std::string& identity) {
    (void)store.update(
        kElection, [&identity](Json& lease) { lease["spec"]["holderIdentity"] = identity; },
        ObjectStore::Part::Whole, "somebody");
  }
  WireRequest deletion(const Life& sender, std::uint64_t id) const {
    WireRequest made =
        request(port::Method::Delete, "/api/v1/namespaces/noobaa/pods/core-0?timeout=5s",
                R"({"preconditions":{"uid":")" + pod_uid + R"("}})");
    made.replica = sender.replica;
    made.incarnation = sender.incarnation;
    made.id = id;
    return made;
  }
  void answer_committed(const WireRequest& call) {
    ServerAnswer answer;
    answer.committed = Change{};
    judge.on_answered(call, answer);
  }
};

TEST_F(ReplicasTest, whoever_holds_the_lease_may_act) {
  const WireRequest call = deletion(life, 1);
  judge.on_left(call);
  answer_committed(call);
  EXPECT_EQ(broken(), Names{});
}

TEST_F(ReplicasTest, a_call_that_is_done_after_the_lease_has_passed_on_is_seen) {
  const WireRequest call = deletion(life, 1);
  judge.on_left(call);
  give_lease_to("moonfence-1_uuid");
  answer_committed(call);
  EXPECT_EQ(broken(), Names{"lease-holder"});
}

TEST_F(ReplicasTest, nobody_acts_when_nobody_holds_it) {
  const WireRequest call = deletion(life, 1);
  judge.on_left(call);
  give_lease_to("");
  answer_committed(call);
  EXPECT_TRUE(breaks(rules::kLeaseHolder));
}

TEST_F(ReplicasTest, a_name_that_begins_alike_is_another_replica) {
  const WireRequest call = deletion(life, 1);
  judge.on_left(call);
  give_lease_to("moonfence-01_uuid");
  answer_committed(call);
  EXPECT_TRUE(breaks(rules::kLeaseHolder));
}

TEST_F(ReplicasTest, a_call_that_did_nothing_does_not_count) {
  const WireRequest call = deletion(life, 1);
  judge.on_left(call);
  give_lease_to("moonfence-1_uuid");
  judge.on_answered(call, ServerAnswer{});
  EXPECT_EQ(broken(), Names{});
}

TEST_F(ReplicasTest, what_was_on_the_wire_for_too_long_cannot_be_called_back) {
  const WireRequest call = deletion(life, 1);
  judge.on_left(call);
  pass(5501ms);
  give_lease_to("moonfence-1_uuid");
  answer_committed(call);
  EXPECT_FALSE(breaks(rules::kLeaseHolder));
}

TEST_F(ReplicasTest, a_single_replica_needs_no_lease) {
  plan.engines = 1;
  give_lease_to("");
  const WireRequest call = deletion(life, 1);
  judge.on_left(call);
  answer_committed(call);
  EXPECT_EQ(broken(), Names{});
}

TEST_F(ReplicasTest, two_replicas_do_not_act_at_the_same_time) {
  judge.on_left(deletion(life, 1));
  pass(5s);
  judge.on_left(deletion(other, 2));
  EXPECT_TRUE(breaks(rules::kOneActor));
}

TEST_F(ReplicasTest, one_after_the_other_is_in_order) {
  const WireRequest first = deletion(life, 1);
  judge.on_left(first);
  answer_committed(first);
  judge.on_left(deletion(other, 2));
  EXPECT_FALSE(breaks(rules::kOneActor));
}

TEST_F(ReplicasTest, a_call_whose_end_is_heard_is_over) {
  const WireRequest first = deletion(life, 1);
  judge.on_left(first);
  judge.on_ended(first, 0, {});
  judge.on_left(deletion(other, 2));
  EXPECT_FALSE(breaks(rules::kOneActor));
}

TEST_F(ReplicasTest, a_call_that_was_lost_is_over_when_its_time_is) {
  judge.on_left(deletion(life, 1));
  pass(5501ms);
  judge.on_left(deletion(other, 2));
  EXPECT_FALSE(breaks(rules::kOneActor));
}

// --- the audit, of more than pods

TEST_F(JudgeTest, an_attachment_that_the_audit_does_not_know_is_seen) {
  (void)store.create("volumeattachments", "",
                     {{"metadata", {{"name", "csi-1"}}},
                      {"spec", {{"nodeName", "n1"}, {"attacher", "csi.example.com"}}}},
                     "attachdetach-controller");
  (void)store.remove({.resource = "volumeattachments", .space = {}, .name = "csi-1"}, {},
                     "moonfence-0");
  EXPECT_TRUE(breaks(rules::kAuditComplete));
}

TEST_F(JudgeTest, a_node_that_the_audit_does_not_know_is_not_changed) {
  const auto edit = [](Json& node) { node["metadata"]["annotations"]["a"] = "b"; };
  const Key key{.resource = "nodes", .space = {}, .name = "n1"};
  (void)store.update(key, edit, ObjectStore::Part::Whole, "moonfence-0");
  EXPECT_EQ(broken(), (Names{"own-taint", "audit-complete"}));
}

TEST_F(JudgeTest, a_node_that_was_meant_may_be_changed) {
  prepare();
  const auto edit = [](Json& node) { node["metadata"]["annotations"]["a"] = "b"; };
  (void)store.update({.resource = "nodes", .space = {}, .name = "n1"}, edit,
                     ObjectStore::Part::Whole, "moonfence-0");
  EXPECT_FALSE(breaks(rules::kAuditComplete));
}

TEST_F(JudgeTest, a_patch_of_a_node_needs_an_intent) {
  judge.on_left(request(port::Method::Patch, "/api/v1/nodes/n1/status", "[]"));
  EXPECT_TRUE(breaks(rules::kIntentFirst));
}

TEST_F(JudgeTest, the_intent_to_delete_a_pod_is_none_to_release) {
  prepare();
  judge.on_left(request(port::Method::Patch, "/api/v1/nodes/n1/status", "[]"));
  EXPECT_TRUE(breaks(rules::kIntentFirst));
}

TEST_F(JudgeTest, what_is_told_of_a_node_needs_none_and_a_release_beside_it_does) {
  Json patch = {
      {"metadata", {{"uid", "n1-uid"}, {"annotations", {{"moonfence.io/fencing-evidence", "{}"}}}}},
      {"status", {{"conditions", Json::array({{{"type", "FencingEvidence"}}})}}}};
  judge.on_left(request(port::Method::Patch, "/api/v1/nodes/n1/status", patch.dump()));
  EXPECT_FALSE(breaks(rules::kIntentFirst));
  patch["status"]["volumesInUse"] = Json::array();
  judge.on_left(request(port::Method::Patch, "/api/v1/nodes/n1/status", patch.dump()));
  EXPECT_TRUE(breaks(rules::kIntentFirst));
}

TEST_F(JudgeTest, a_patch_of_a_node_with_an_intent_about_it_is_in_order) {
  prepare();
  tell("intent", "policy_releases", pod_uid);
  judge.on_left(request(port::Method::Patch, "/api/v1/nodes/n1/status", "[]"));
  EXPECT_FALSE(breaks(rules::kIntentFirst));
}

// --- releasing

struct ReleaseTest : JudgeTest {
  const std::string name = "kubernetes.io/csi/csi.example.com^vol-1";

  ReleaseTest() {
    (void)store.create(
        "persistentvolumes", "",
        {{"metadata", {{"name", "pv-1"}}},
         {"spec", {{"csi", {{"driver", "csi.example.com"}, {"volumeHandle", "vol-1"}}}}}},
        "admin");
    (void)store.create("persistentvolumeclaims", "noobaa",
                       {{"metadata", {{"name", "claim"}}},
                        {"spec", {{"volumeName", "pv-1"}}},
                        {"status", {{"phase", "Bound"}}}},
                       "admin");
    prepare();
  }
  void change_node(const std::function<void(Json&)>& edit, const std::string& actor) {
    (void)store.update({.resource = "nodes", .space = {}, .name = "n1"}, edit,
                       ObjectStore::Part::Whole, actor);
  }
  void release() {
    change_node([this](Json& node) { node["status"]["volumesInUse"] = Json::array({name}); },
                "kubelet");
    change_node([](Json& node) { node["status"].erase("volumesInUse"); }, "moonfence-0");
  }
};

TEST_F(ReleaseTest, what_is_detached_may_be_released) {
  release();
  EXPECT_EQ(broken(), Names{});
}

TEST_F(ReleaseTest, a_volume_is_not_released_while_the_storage_has_it_there) {
  machines.published["vol-1"].insert("n1");
  release();
  EXPECT_EQ(broken(), Names{"released-last"});
}

TEST_F(ReleaseTest, a_volume_is_not_released_while_its_attachment_is_there) {
  (void)store.create("volumeattachments", "",
                     {{"metadata", {{"name", "csi-1"}}},
                      {"spec",
                       {{"nodeName", "n1"},
                        {"attacher", "csi.example.com"},
                        {"source", {{"persistentVolumeName", "pv-1"}}}}}},
                     "attachdetach-controller");
  release();
  EXPECT_EQ(broken(), Names{"released-last"});
}

TEST_F(ReleaseTest, a_volume_is_not_released_while_a_pod_of_the_node_uses_it) {
  (void)store.update(
      {.resource = "pods", .space = "noobaa", .name = "core-0"},
      [](Json& pod) {
        pod["spec"]["volumes"] =
            Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "claim"}}}}});
      },
      ObjectStore::Part::Whole, "admin");
  release();
  EXPECT_EQ(broken(), Names{"released-last"});
}

TEST_F(ReleaseTest, a_volume_is_not_released_from_a_node_that_is_ready) {
  recover("n1");
  release();
  EXPECT_EQ(broken(), Names{"released-last"});
}

TEST_F(ReleaseTest, what_the_kubelet_takes_away_is_its_own_word) {
  machines.published["vol-1"].insert("n1");
  change_node([this](Json& node) { node["status"]["volumesInUse"] = Json::array({name}); },
              "kubelet");
  change_node([](Json& node) { node["status"].erase("volumesInUse"); }, "kubelet");
  EXPECT_EQ(broken(), Names{});
}

// --- what an incident costs

TEST_F(JudgeTest, an_incident_looks_at_its_node_so_often_and_no_oftener) {
  tell("incident_opened", "node_unknown");
  for (int i = 0; i < 120; ++i) {
    judge.on_left(request(port::Method::Get, "/api/v1/nodes/n1"));
  }
  EXPECT_FALSE(breaks(rules::kBoundedIncident));
  judge.on_left(request(port::Method::Get,
                        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"));
  EXPECT_TRUE(breaks(rules::kBoundedIncident));
}

TEST_F(JudgeTest, an_incident_may_look_for_as_long_as_it_is_open) {
  tell("incident_opened", "node_unknown");
  for (int i = 0; i < 1000; ++i) {
    pass(334ms);
    judge.on_left(request(port::Method::Get, "/api/v1/nodes/n1"));
  }
  EXPECT_FALSE(breaks(rules::kBoundedIncident));
}

TEST_F(JudgeTest, one_deletion_is_tried_so_often_and_no_oftener) {
  tell("incident_opened", "node_unknown");
  for (int i = 0; i < 4; ++i) {
    send_delete(pod_uid);
  }
  EXPECT_FALSE(breaks(rules::kBoundedIncident));
  send_delete(pod_uid);
  EXPECT_TRUE(breaks(rules::kBoundedIncident));
}

// One after the other lets go, and each goes as soon as it may.
TEST_F(JudgeTest, every_volume_of_a_node_may_be_released_so_often_and_no_oftener) {
  tell("incident_opened", "node_unknown");
  Json in_use = {"one", "two", "three", "four", "five", "six"};
  const auto release_first = [&in_use, this] {
    const std::string path = "/status/volumesInUse";
    Json left = in_use;
    left.erase(0);
    WireRequest release = request(port::Method::Patch, "/api/v1/nodes/n1/status?timeout=5s");
    release.body = Json::array({{{"op", "test"}, {"path", "/metadata/uid"}, {"value", "u"}},
                                {{"op", "test"}, {"path", path}, {"value", in_use}},
                                {{"op", "replace"}, {"path", path}, {"value", left}}})
                       .dump();
    judge.on_left(release);
  };
  while (in_use.size() > 1) {
    release_first();
    in_use.erase(0);
  }
  EXPECT_FALSE(breaks(rules::kBoundedIncident));
  for (int i = 0; i < 5; ++i) {
    release_first();
  }
  EXPECT_TRUE(breaks(rules::kBoundedIncident));
}

// Seed 518956: a busy server refused both, and their tries were counted together.
TEST_F(JudgeTest, each_taint_of_a_node_may_be_tried_so_often_and_no_oftener) {
  tell("incident_opened", "node_unknown");
  const auto patch = [this](const std::string& mark) {
    WireRequest patched = request(port::Method::Patch, "/api/v1/nodes/n1?timeout=5s");
    patched.body = Json::array({{{"op", "add"},
                                 {"path", "/metadata/annotations/moonfence.io~1" + mark},
                                 {"value", "i1"}}})
                       .dump();
    judge.on_left(patched);
  };
  for (int i = 0; i < 4; ++i) {
    patch("fenced");
    patch("out-of-service");
  }
  EXPECT_FALSE(breaks(rules::kBoundedIncident));
  patch("out-of-service");
  EXPECT_TRUE(breaks(rules::kBoundedIncident));
}

}  // namespace
}  // namespace moonfence::sim
