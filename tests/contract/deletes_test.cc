// DELETE: preconditions, grace, finalizers, what is answered.

#include "contract/fixture.h"

namespace moonfence::contract {
namespace {

struct Deletes : Contract {
  static Json options(const Json& more) {
    Json out = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
    out.update(more);
    return out;
  }
  static Json with_uid(const std::string& uid, Json more = Json::object()) {
    more["preconditions"]["uid"] = uid;
    return options(more);
  }
};

TEST_F(Deletes, gone_is_gone) {
  const Json made = config_map("a");
  const Reply reply = remove(in("configmaps", "a"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body["kind"], "Status");
  EXPECT_EQ(reply.body["status"], "Success");
  EXPECT_EQ(reply.body["details"],
            Json({{"name", "a"}, {"kind", "configmaps"}, {"uid", uid_of(made)}}));
  EXPECT_EQ(get(in("configmaps", "a")).status, 404);
  expect_refusal(remove(in("configmaps", "a")), 404, "NotFound", "configmaps \"a\" not found");
}

TEST_F(Deletes, another_uid_is_left_alone) {
  const Json made = config_map("a");
  const Reply reply = remove(in("configmaps", "a"), with_uid("other"));
  expect_refusal(reply, 409, "Conflict",
                 "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition "
                 "(other) does not match the UID in record (" +
                     uid_of(made) + "). The object might have been deleted and then recreated");
  EXPECT_EQ(reply.body["details"], Json({{"name", "a"}, {"kind", "ConfigMap"}}));
  EXPECT_EQ(get(in("configmaps", "a")).status, 200);
  EXPECT_EQ(remove(in("configmaps", "a"), with_uid(uid_of(made))).status, 200);
}

TEST_F(Deletes, pod_of_another_uid_is_left_alone) {
  pod("p");
  const Reply reply = remove(in("pods", "p"), with_uid("other", {{"gracePeriodSeconds", 0}}));
  expect_refusal(reply, 409, "Conflict",
                 "Operation cannot be fulfilled on Pod \"p\": the UID in the precondition (other)");
  EXPECT_FALSE(get(in("pods", "p")).body["metadata"].contains("deletionTimestamp"));
}

TEST_F(Deletes, another_version_is_left_alone) {
  const Json made = config_map("a");
  expect_refusal(
      remove(in("configmaps", "a"), options({{"preconditions", {{"resourceVersion", "1"}}}})), 409,
      "Conflict",
      "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (" +
          version_of(made) + "). The object might have been modified");
}

TEST_F(Deletes, dry_run_leaves_everything) {
  const Json made = pod("p");
  const Reply reply = remove(
      in("pods", "p"), with_uid(uid_of(made), {{"gracePeriodSeconds", 0}, {"dryRun", {"All"}}}));
  EXPECT_EQ(reply.status, 200);
  EXPECT_FALSE(get(in("pods", "p")).body["metadata"].contains("deletionTimestamp"));
  EXPECT_EQ(version_of(get(in("pods", "p")).body), version_of(made));
  EXPECT_EQ(remove(in("pods", "p"), with_uid("other", {{"dryRun", {"All"}}})).status, 409);
}

TEST_F(Deletes, unknown_dry_run_is_422) {
  config_map("a");
  expect_refusal(remove(in("configmaps", "a") + "?dryRun=Some"), 422, "Invalid",
                 "DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value");
}

// Why moonfence says it in both places.
TEST_F(Deletes, dry_run_in_the_query_does_not_count_besides_a_body) {
  const Json made = config_map("a");
  EXPECT_EQ(remove(in("configmaps", "a") + "?dryRun=All", with_uid(uid_of(made))).status, 200);
  EXPECT_EQ(get(in("configmaps", "a")).status, 404);
}

TEST_F(Deletes, bound_pod_is_given_time) {
  const Json made = pod("p", {{"spec", {{"terminationGracePeriodSeconds", 20}}}});
  const Reply reply = remove(in("pods", "p"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body["kind"], "Pod");
  EXPECT_EQ(reply.body["metadata"]["deletionGracePeriodSeconds"], 20);
  const Json left = get(in("pods", "p")).body;
  const auto due = parse_rfc3339(left["metadata"]["deletionTimestamp"].get<std::string>());
  const auto born = parse_rfc3339(made["metadata"]["creationTimestamp"].get<std::string>());
  ASSERT_TRUE(due && born);
  EXPECT_GE(*due - *born, 20s);
  EXPECT_LE(*due - *born, 25s);
  EXPECT_TRUE(is_later(version_of(left), version_of(made)));
}

TEST_F(Deletes, grace_may_only_become_shorter) {
  pod("p");
  remove(in("pods", "p"), options({{"gracePeriodSeconds", 30}}));
  const Json first = get(in("pods", "p")).body["metadata"];
  remove(in("pods", "p"), options({{"gracePeriodSeconds", 50}}));
  EXPECT_EQ(get(in("pods", "p")).body["metadata"], first);
  remove(in("pods", "p"));
  EXPECT_EQ(get(in("pods", "p")).body["metadata"], first);
  remove(in("pods", "p"), options({{"gracePeriodSeconds", 10}}));
  const Json shorter = get(in("pods", "p")).body["metadata"];
  EXPECT_EQ(shorter["deletionGracePeriodSeconds"], 10);
  EXPECT_EQ(*parse_rfc3339(first["deletionTimestamp"].get<std::string>()) -
                *parse_rfc3339(shorter["deletionTimestamp"].get<std::string>()),
            20s);
  EXPECT_EQ(remove(in("pods", "p"), options({{"gracePeriodSeconds", 0}})).status, 200);
  EXPECT_EQ(get(in("pods", "p")).status, 404);
}

TEST_F(Deletes, forced_delete_shows_the_pod_as_it_was) {
  const Json made = pod("p");
  const Reply reply = remove(in("pods", "p"), with_uid(uid_of(made), {{"gracePeriodSeconds", 0}}));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body["kind"], "Pod");
  EXPECT_EQ(uid_of(reply.body), uid_of(made));
  EXPECT_EQ(reply.body["metadata"]["deletionGracePeriodSeconds"], 0);
  EXPECT_EQ(get(in("pods", "p")).status, 404);
}

TEST_F(Deletes, pod_that_is_not_bound_goes_at_once) {
  pod("p", {{"spec", {{"nodeName", nullptr}, {"nodeSelector", {{"no", "where"}}}}}});
  EXPECT_EQ(remove(in("pods", "p")).status, 200);
  EXPECT_EQ(get(in("pods", "p")).status, 404);
}

TEST_F(Deletes, finished_pod_goes_at_once) {
  pod("p");
  patch(in("pods", "p") + "/status", {{"status", {{"phase", "Succeeded"}}}});
  EXPECT_EQ(remove(in("pods", "p")).status, 200);
  EXPECT_EQ(get(in("pods", "p")).status, 404);
}

TEST_F(Deletes, finalizer_keeps_an_object) {
  const Json made = config_map("a");
  patch(in("configmaps", "a"), {{"metadata", {{"finalizers", {"example.com/keep"}}}}});
  const Reply reply = remove(in("configmaps", "a"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body["kind"], "ConfigMap");
  const Json left = get(in("configmaps", "a")).body["metadata"];
  EXPECT_TRUE(left.contains("deletionTimestamp"));
  EXPECT_EQ(left["deletionGracePeriodSeconds"], 0);
  const Reply last = patch(in("configmaps", "a"), {{"metadata", {{"finalizers", nullptr}}}});
  EXPECT_EQ(last.status, 200);
  EXPECT_EQ(get(in("configmaps", "a")).status, 404);
  EXPECT_EQ(uid_of(last.body), uid_of(made));
}

TEST_F(Deletes, finalizer_keeps_a_forced_pod) {
  const Json made = pod("p", {{"metadata", {{"finalizers", {"example.com/keep"}}}}});
  const Reply reply = remove(in("pods", "p"), with_uid(uid_of(made), {{"gracePeriodSeconds", 0}}));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body["metadata"]["deletionGracePeriodSeconds"], 0);
  EXPECT_EQ(reply.body["metadata"]["finalizers"], Json({"example.com/keep"}));
  EXPECT_EQ(get(in("pods", "p")).status, 200);
  patch(in("pods", "p"), {{"metadata", {{"finalizers", nullptr}}}});
  EXPECT_EQ(get(in("pods", "p")).status, 404);
}

TEST_F(Deletes, pod_within_its_grace_survives_its_finalizers) {
  pod("p", {{"metadata", {{"finalizers", {"example.com/keep"}}}}});
  remove(in("pods", "p"), options({{"gracePeriodSeconds", 30}}));
  patch(in("pods", "p"), {{"metadata", {{"finalizers", nullptr}}}});
  EXPECT_EQ(get(in("pods", "p")).body["metadata"]["deletionGracePeriodSeconds"], 30);
}

TEST_F(Deletes, attachment_is_deleted_by_its_uid) {
  const std::string all = "/apis/storage.k8s.io/v1/volumeattachments";
  const std::string name = space + "-attachment";
  const Reply made = post(all, {{"metadata", {{"name", name}}},
                                {"spec",
                                 {{"attacher", "csi.example.com"},
                                  {"nodeName", "contract-node"},
                                  {"source", {{"persistentVolumeName", "pv-1"}}}}}});
  ASSERT_EQ(made.status, 201) << made.text;
  EXPECT_EQ(made.body["status"]["attached"], false);
  const Reply other = remove(all + "/" + name, with_uid("other"));
  expect_refusal(other, 409, "Conflict",
                 "Operation cannot be fulfilled on VolumeAttachment.storage.k8s.io \"" + name +
                     "\": the UID in the precondition (other)");
  const Reply changed = patch(all + "/" + name, {{"spec", {{"nodeName", "another"}}}});
  EXPECT_EQ(changed.status, 422);
  const Reply gone = remove(all + "/" + name, with_uid(uid_of(made.body)));
  EXPECT_EQ(gone.status, 200);
  EXPECT_EQ(gone.body["kind"], "VolumeAttachment") << gone.text;
  // A cluster with an attacher for every driver may have put its finalizer there meanwhile.
  for (int i = 0; i < 100 && get(all + "/" + name).status != 404; ++i) {
    api->pass(100ms);
  }
  EXPECT_EQ(get(all + "/" + name).status, 404);
}

TEST_F(Deletes, node_and_lease_are_answered_with_a_status) {
  const std::string node = "/api/v1/nodes/" + space;
  ASSERT_EQ(post("/api/v1/nodes", {{"metadata", {{"name", space}}}}).status, 201);
  EXPECT_EQ(remove(node).body["kind"], "Status");
  ASSERT_EQ(post(leases(), {{"metadata", {{"name", "l"}}}}).status, 201);
  const Reply reply = remove(leases("l"));
  EXPECT_EQ(reply.body["kind"], "Status");
  EXPECT_EQ(reply.body["details"]["group"], "coordination.k8s.io");
}

TEST_F(Deletes, recreated_object_has_another_uid) {
  const Json first = config_map("a");
  remove(in("configmaps", "a"));
  const Json second = config_map("a");
  EXPECT_NE(uid_of(first), uid_of(second));
  EXPECT_EQ(remove(in("configmaps", "a"), with_uid(uid_of(first))).status, 409);
}

}  // namespace
}  // namespace moonfence::contract
