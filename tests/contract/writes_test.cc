// POST, PUT and PATCH.

#include "contract/fixture.h"

namespace moonfence::contract {
namespace {

struct Writes : Contract {};

TEST_F(Writes, create_sets_what_the_server_owns) {
  const Json made = config_map("a", {{"x", "y"}});
  EXPECT_EQ(made["kind"], "ConfigMap");
  EXPECT_EQ(made["apiVersion"], "v1");
  EXPECT_EQ(uid_of(made).size(), 36U);
  EXPECT_EQ(made["metadata"]["namespace"], space);
  EXPECT_TRUE(parse_rfc3339(made["metadata"]["creationTimestamp"].get<std::string>()));
  EXPECT_TRUE(is_later(version_of(made), "0"));
  EXPECT_EQ(get(in("configmaps", "a")).body["data"], Json({{"k", "v"}}));
}

TEST_F(Writes, second_of_a_name_already_exists) {
  config_map("a");
  const Reply reply = post(in("configmaps"), {{"metadata", {{"name", "a"}}}});
  expect_refusal(reply, 409, "AlreadyExists", "configmaps \"a\" already exists");
  EXPECT_EQ(reply.body["details"], Json({{"name", "a"}, {"kind", "configmaps"}}));
}

TEST_F(Writes, name_is_generated) {
  const Reply reply = post(in("configmaps"), {{"metadata", {{"generateName", "a-"}}}});
  EXPECT_EQ(reply.status, 201);
  EXPECT_THAT(reply.body["metadata"]["name"].get<std::string>(),
              testing::MatchesRegex("a-[a-z0-9]{5}"));
}

TEST_F(Writes, every_write_has_a_later_version) {
  const Json a = config_map("a");
  const Json b = config_map("b");
  EXPECT_TRUE(is_later(version_of(b), version_of(a)));
  const Json c = patch(in("configmaps", "a"), {{"data", {{"k", "w"}}}}).body;
  EXPECT_TRUE(is_later(version_of(c), version_of(b)));
}

TEST_F(Writes, write_that_changes_nothing_keeps_the_version) {
  const Json made = config_map("a");
  const Reply reply = patch(in("configmaps", "a"), {{"data", {{"k", "v"}}}});
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(version_of(reply.body), version_of(made));
}

TEST_F(Writes, dry_run_answers_and_stores_nothing) {
  const Reply made = post(in("configmaps") + "?dryRun=All", {{"metadata", {{"name", "a"}}}});
  EXPECT_EQ(made.status, 201);
  EXPECT_FALSE(made.body["metadata"].contains("resourceVersion"));
  EXPECT_EQ(get(in("configmaps", "a")).status, 404);

  const Json real = config_map("a");
  const Reply patched = patch(in("configmaps", "a") + "?dryRun=All", {{"data", {{"k", "w"}}}});
  EXPECT_EQ(patched.status, 200);
  EXPECT_EQ(patched.body["data"]["k"], "w");
  EXPECT_EQ(get(in("configmaps", "a")).body["data"]["k"], "v");
  EXPECT_EQ(version_of(get(in("configmaps", "a")).body), version_of(real));
}

TEST_F(Writes, unknown_dry_run_is_422) {
  expect_refusal(post(in("configmaps") + "?dryRun=Some", {{"metadata", {{"name", "a"}}}}), 422,
                 "Invalid", "dryRun: Unsupported value: [\"Some\"]");
}

TEST_F(Writes, put_of_an_old_version_conflicts) {
  Json object = config_map("a");
  patch(in("configmaps", "a"), {{"data", {{"k", "w"}}}});
  object["data"]["k"] = "late";
  const Reply reply = put(in("configmaps", "a"), object);
  expect_refusal(reply, 409, "Conflict",
                 "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; "
                 "please apply your changes to the latest version and try again");
  EXPECT_EQ(reply.body["details"], Json({{"name", "a"}, {"kind", "configmaps"}}));
}

TEST_F(Writes, put_without_a_version_wins) {
  const Json made = config_map("a");
  const Reply reply =
      put(in("configmaps", "a"), {{"metadata", {{"name", "a"}}}, {"data", {{"k", "w"}}}});
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(uid_of(reply.body), uid_of(made));
  EXPECT_EQ(reply.body["metadata"]["creationTimestamp"], made["metadata"]["creationTimestamp"]);
}

TEST_F(Writes, put_of_another_uid_conflicts) {
  config_map("a");
  expect_refusal(put(in("configmaps", "a"), {{"metadata", {{"name", "a"}, {"uid", "other"}}}}), 409,
                 "Conflict",
                 "Precondition failed: UID in precondition: other, UID in object meta:");
}

TEST_F(Writes, put_under_another_name_is_400) {
  config_map("a");
  expect_refusal(put(in("configmaps", "a"), {{"metadata", {{"name", "b"}}}}), 400, "BadRequest",
                 "the name of the object (b) does not match the name on the URL (a)");
}

TEST_F(Writes, put_on_nothing_is_404_but_makes_a_lease) {
  EXPECT_EQ(put(in("configmaps", "a"), {{"metadata", {{"name", "a"}}}}).status, 404);
  const Reply lease = put(leases("a"), {{"metadata", {{"name", "a"}, {"namespace", space}}},
                                        {"spec", {{"holderIdentity", "me"}}}});
  EXPECT_EQ(lease.status, 201);
  EXPECT_EQ(lease.body["apiVersion"], "coordination.k8s.io/v1");
}

TEST_F(Writes, merge_patch_takes_away_with_null) {
  config_map("a", {{"x", "1"}, {"y", "2"}}, {{"k", "v"}, {"l", "w"}});
  const Json now = patch(in("configmaps", "a"), {{"metadata", {{"labels", {{"x", nullptr}}}}},
                                                 {"data", {{"k", nullptr}, {"m", "n"}}}})
                       .body;
  EXPECT_EQ(now["metadata"]["labels"], Json({{"y", "2"}}));
  EXPECT_EQ(now["data"], Json({{"l", "w"}, {"m", "n"}}));
}

TEST_F(Writes, patch_with_an_old_version_conflicts) {
  config_map("a");
  expect_refusal(patch(in("configmaps", "a"), {{"metadata", {{"resourceVersion", "1"}}}}), 409,
                 "Conflict", "the object has been modified");
}

TEST_F(Writes, patch_with_another_uid_is_422) {
  const Json made = config_map("a");
  expect_refusal(patch(in("configmaps", "a"), {{"metadata", {{"uid", "other"}}}}), 422, "Invalid",
                 "metadata.uid: Invalid value: \"other\": field is immutable");
  const Reply same =
      patch(in("configmaps", "a"), {{"metadata", {{"uid", uid_of(made)}}}, {"data", {{"k", "w"}}}});
  EXPECT_EQ(same.status, 200);
}

TEST_F(Writes, patch_of_nothing_is_404) {
  expect_refusal(patch(in("configmaps", "a"), {{"data", {{"k", "v"}}}}), 404, "NotFound",
                 "configmaps \"a\" not found");
}

TEST_F(Writes, json_patch_tests_first) {
  config_map("a");
  const Json failing = {{{"op", "test"}, {"path", "/data/k"}, {"value", "other"}},
                        {{"op", "replace"}, {"path", "/data/k"}, {"value", "w"}}};
  expect_refusal(patch(in("configmaps", "a"), failing, "json-patch"), 422, "Invalid",
                 "the server rejected our request due to an error in our request");
  EXPECT_EQ(get(in("configmaps", "a")).body["data"]["k"], "v");
  const Json passing = {{{"op", "test"}, {"path", "/data/k"}, {"value", "v"}},
                        {{"op", "replace"}, {"path", "/data/k"}, {"value", "w"}}};
  EXPECT_EQ(patch(in("configmaps", "a"), passing, "json-patch").body["data"]["k"], "w");
  const Json nowhere = {{{"op", "replace"}, {"path", "/nothing/k"}, {"value", "w"}}};
  EXPECT_EQ(patch(in("configmaps", "a"), nowhere, "json-patch").status, 422);
}

TEST_F(Writes, strategic_patch_merges_conditions_by_type) {
  pod("p");
  const auto condition = [](const char* type, const char* status) {
    return Json({{"status", {{"conditions", {{{"type", type}, {"status", status}}}}}}});
  };
  const std::string path = in("pods", "p") + "/status";
  EXPECT_EQ(patch(path, condition("Ready", "True"), "strategic-merge-patch").status, 200);
  patch(path, condition("Other", "True"), "strategic-merge-patch");
  const Json now = patch(path, condition("Ready", "False"), "strategic-merge-patch").body;
  std::map<std::string, std::string> found;
  for (const Json& each : now["status"]["conditions"]) {
    found[each["type"]] = each["status"];
  }
  EXPECT_EQ(found, (std::map<std::string, std::string>{{"Ready", "False"}, {"Other", "True"}}));
}

TEST_F(Writes, status_and_the_rest_have_paths_of_their_own) {
  const Json made = pod("p", {{"status", {{"phase", "Running"}}}});
  EXPECT_EQ(made["status"]["phase"], "Pending");
  patch(in("pods", "p"), {{"status", {{"phase", "Running"}}}});
  EXPECT_EQ(get(in("pods", "p")).body["status"]["phase"], "Pending");
  const Reply reply = patch(in("pods", "p") + "/status", {{"status", {{"phase", "Running"}}}});
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(get(in("pods", "p")).body["status"]["phase"], "Running");
}

TEST_F(Writes, node_of_a_pod_never_changes) {
  pod("p");
  expect_refusal(patch(in("pods", "p"), {{"spec", {{"nodeName", "other"}}}}), 422, "Invalid",
                 "pod updates may not change fields other than");
}

TEST_F(Writes, events_have_two_faces) {
  const Json regarding = {{"kind", "Pod"}, {"name", "p"}, {"namespace", space}};
  const Reply made = post("/apis/events.k8s.io/v1/namespaces/" + space + "/events",
                          {{"metadata", {{"name", "p.1"}, {"namespace", space}}},
                           {"eventTime", "2026-01-02T03:04:05.000006Z"},
                           {"reportingController", "moonfence.io/moonfence"},
                           {"reportingInstance", "moonfence-0"},
                           {"action", "Fencing"},
                           {"reason", "Fenced"},
                           {"type", "Normal"},
                           {"note", "words"},
                           {"regarding", regarding}});
  EXPECT_EQ(made.status, 201) << made.text;
  EXPECT_EQ(made.body["apiVersion"], "events.k8s.io/v1");
  const Json core = get(in("events", "p.1")).body;
  EXPECT_EQ(core["message"], "words");
  EXPECT_EQ(core["involvedObject"], regarding);
  EXPECT_EQ(core["reportingComponent"], "moonfence.io/moonfence");
  const Reply repeated =
      patch("/apis/events.k8s.io/v1/namespaces/" + space + "/events/p.1",
            {{"series", {{"count", 2}, {"lastObservedTime", "2026-01-02T03:05:05.000006Z"}}}});
  EXPECT_EQ(repeated.status, 200) << repeated.text;
  EXPECT_EQ(repeated.body["series"]["count"], 2);
}

}  // namespace
}  // namespace moonfence::contract
