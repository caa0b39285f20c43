#include "kube/calls/destroyer.h"

#include "unit/kube/wire_fixture.h"

namespace moonfence::kube {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using port::Method;
using test::FakeAnswer;
using Kind = Error::Kind;

struct DestroyerTest : WireTest {
  Destroyer destroyer{caller};
  const std::string path = "/prefix/api/v1/namespaces/ns/pods/p";

  Result<DeleteReply> remove(DeleteRequest request, const PodRef& ref = {Namespace("ns"), "p"}) {
    std::optional<Result<DeleteReply>> slot;
    const CallHandle handle = destroyer.delete_pod(
        ref, std::move(request), [&slot](Result<DeleteReply> reply) { slot = std::move(reply); });
    EXPECT_FALSE(slot);
    return wait_for(slot);
  }
  static DeleteRequest of(std::string uid) {
    DeleteRequest request;
    request.uid = Uid(std::move(uid));
    return request;
  }
};

TEST_F(DestroyerTest, a_delete_says_which_pod_it_means_and_bounds_both_sides) {
  http.on(Method::Delete, path,
          FakeAnswer{.body = R"({"kind":"Pod","metadata":{"name":"p"}})",
                     .headers = {{"content-type", "application/json"}, {"audit-id", "a1"}}});
  const auto reply = remove(of("u1"));
  ASSERT_TRUE(reply) << reply.error().text;
  EXPECT_FALSE(reply->marked_only);
  EXPECT_EQ(reply->audit_id, "a1");
  EXPECT_EQ(reply->http_status, 200);
  const test::FakeRequest& seen = http.requests.at(0);
  EXPECT_EQ(seen.query, "timeout=5s");
  EXPECT_GT(seen.timeout, 5s);
  EXPECT_LE(seen.timeout, 6s);
  EXPECT_EQ(seen.lane, port::Lane::Writes);
  EXPECT_EQ(json::parse(seen.body), json::parse(R"({"apiVersion":"v1","kind":"DeleteOptions",
    "gracePeriodSeconds":0,"preconditions":{"uid":"u1"},"propagationPolicy":"Background"})"));
}

TEST_F(DestroyerTest, a_dry_run_says_so_twice) {
  http.on(Method::Delete, path, FakeAnswer{.body = "{}"});
  DeleteRequest request = of("u1");
  request.dry_run = true;
  ASSERT_TRUE(remove(request));
  EXPECT_EQ(http.requests.at(0).query, "timeout=5s&dryRun=All");
  EXPECT_EQ(json::parse(http.requests.at(0).body)["dryRun"], json::parse(R"(["All"])"));
}

TEST_F(DestroyerTest, a_delete_without_uid_is_never_sent) {
  EXPECT_EQ(remove(of("")).error().kind, Kind::Invalid);
  EXPECT_EQ(remove(of("u"), {Namespace(), "p"}).error().kind, Kind::Invalid);
  for (const std::string name : {"..", "a/b", "a%2e", ""}) {
    EXPECT_EQ(remove(of("u"), {Namespace("ns"), name}).error().kind, Kind::Invalid);
  }
  EXPECT_TRUE(http.requests.empty());
}

TEST_F(DestroyerTest, a_pod_that_comes_back_with_finalizers_is_marked_only) {
  http.on(Method::Delete, path, FakeAnswer{.body = R"({"metadata":{"finalizers":["x"]}})"});
  EXPECT_TRUE(remove(of("u1"))->marked_only);
  http.on(Method::Delete, path,
          FakeAnswer{.body = R"({"metadata":{"deletionGracePeriodSeconds":30}})"});
  EXPECT_TRUE(remove(of("u1"))->marked_only);
  http.on(Method::Delete, path, FakeAnswer{.body = R"({"metadata":{"finalizers":"odd"}})"});
  EXPECT_TRUE(remove(of("u1"))->marked_only);
}

// Webhooks, proxies and load balancers answer 404, 409 and 410 too.
TEST_F(DestroyerTest, that_a_pod_is_gone_or_replaced_is_read_and_not_believed) {
  const std::vector<FakeAnswer> refusals = {
      status(404, "NotFound", R"({"name":"p","kind":"pods"})"), status(409, "Conflict"),
      status(409, "Denied"), status(410, "Gone"),
      FakeAnswer{.status = 404, .body = "404 page not found", .headers = {}}};
  for (const FakeAnswer& refusal : refusals) {
    http.on(Method::Delete, path, refusal);
    http.on(Method::Get, "/prefix/api/v1/namespaces/ns/pods?fieldSelector=metadata.name%3Dp",
            FakeAnswer{.body = R"({"kind":"PodList","items":[]})"});
    const auto gone = remove(of("u1"));
    ASSERT_TRUE(gone) << gone.error().text;
    EXPECT_TRUE(gone->found_gone);
    EXPECT_EQ(gone->http_status, refusal.status) << "of the deletion, not of the read";
    EXPECT_FALSE(gone->found_another);
    http.on(Method::Get, "/prefix/api/v1/namespaces/ns/pods",
            FakeAnswer{.body = R"({"kind":"PodList","items":[{"metadata":{"uid":"u2"}}]})"});
    const auto replaced = remove(of("u1"));
    ASSERT_TRUE(replaced) << replaced.error().text;
    EXPECT_FALSE(replaced->found_gone);
    EXPECT_TRUE(replaced->found_another);
    // The very pod is there, or nobody can say: the refusal stands as it is.
    for (const FakeAnswer& found :
         {FakeAnswer{.body = R"({"kind":"PodList","items":[{"metadata":{"uid":"u1"}}]})"},
          FakeAnswer{.body = R"({"kind":"PodList","items":[{"metadata":{}}]})"},
          FakeAnswer{.body = R"({"kind":"Status"})"}, status(404, "NotFound", R"({"name":"p"})"),
          status(500, "InternalError"), FakeAnswer::lost()}) {
      http.on(Method::Get, "/prefix/api/v1/namespaces/ns/pods", found);
      const auto refused = remove(of("u1"));
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().http_status, refusal.status);
    }
  }
}

TEST_F(DestroyerTest, other_refusals_need_no_look) {
  for (const FakeAnswer& refusal : {status(403, "Forbidden"), status(429, "TooManyRequests"),
                                    status(500, "InternalError"), status(422, "Invalid")}) {
    http.requests.clear();
    http.on(Method::Delete, path, refusal);
    EXPECT_FALSE(remove(of("u1")));
    EXPECT_EQ(http.requests.size(), 1U);
  }
}

TEST_F(DestroyerTest, an_attachment_is_deleted_by_uid_and_with_no_other_option) {
  http.on(Method::Delete, "/prefix/apis/storage.k8s.io/v1/volumeattachments/csi-1",
          FakeAnswer{.body = R"({"metadata":{"finalizers":["external-attacher/x"]}})"});
  std::optional<Result<DeleteReply>> slot;
  const auto keep = [&slot](Result<DeleteReply> reply) { slot = std::move(reply); };
  const CallHandle handle = destroyer.delete_attachment("csi-1", of("u1"), keep);
  const auto reply = wait_for(slot);
  ASSERT_TRUE(reply) << reply.error().text;
  EXPECT_TRUE(reply->marked_only);
  EXPECT_EQ(json::parse(http.requests.at(0).body), json::parse(R"({"apiVersion":"v1",
    "kind":"DeleteOptions","preconditions":{"uid":"u1"},"propagationPolicy":"Background"})"));
  slot.reset();
  const CallHandle nameless = destroyer.delete_attachment("", of("u1"), keep);
  EXPECT_EQ(wait_for(slot).error().kind, Kind::Invalid);
  EXPECT_EQ(http.requests.size(), 1U);
}

TEST_F(DestroyerTest, a_patch_of_a_node_tests_its_uid_before_all_else) {
  http.on(Method::Patch, "/prefix/api/v1/nodes/n1/status",
          FakeAnswer{.body = R"({"kind":"Node"})",
                     .headers = {{"content-type", "application/json"}, {"audit-id", "a1"}}});
  NodePatch patch;
  patch.uid = Uid("u1");
  patch.of_status = true;
  patch.operations = json::parse(R"([{"op":"replace","path":"/status/volumesInUse","value":[]}])");
  std::optional<Result<PatchReply>> slot;
  const auto keep = [&slot](Result<PatchReply> reply) { slot = std::move(reply); };
  const CallHandle handle = destroyer.patch_node(NodeName("n1"), patch, keep);
  const auto reply = wait_for(slot);
  ASSERT_TRUE(reply) << reply.error().text;
  EXPECT_EQ(reply->audit_id, "a1");
  EXPECT_EQ(reply->http_status, 200);
  const test::FakeRequest& seen = http.requests.at(0);
  EXPECT_EQ(seen.query, "timeout=5s");
  EXPECT_EQ(seen.lane, port::Lane::Writes);
  EXPECT_EQ(json::parse(seen.body), json::parse(R"([
    {"op":"test","path":"/metadata/uid","value":"u1"},
    {"op":"replace","path":"/status/volumesInUse","value":[]}])"));
  slot.reset();
  patch.uid = Uid();
  const CallHandle nameless = destroyer.patch_node(NodeName("n1"), patch, keep);
  EXPECT_EQ(wait_for(slot).error().kind, Kind::Invalid);
  EXPECT_EQ(http.requests.size(), 1U);
}

TEST_F(DestroyerTest, a_patch_whose_test_fails_is_invalid_and_not_repeated) {
  http.on(Method::Patch, "/prefix/api/v1/nodes/n1", status(422, "Invalid"));
  NodePatch patch;
  patch.uid = Uid("u1");
  std::optional<Result<PatchReply>> slot;
  const CallHandle handle = destroyer.patch_node(
      NodeName("n1"), patch, [&slot](Result<PatchReply> reply) { slot = std::move(reply); });
  EXPECT_EQ(wait_for(slot).error().kind, Kind::Invalid);
  EXPECT_EQ(http.requests.size(), 1U);
}

struct CustomWriteTest : DestroyerTest {
  std::optional<Result<CustomWriteReply>> slot;
  const std::string fences = "/prefix/apis/x.example.com/v1/fences";
  const CustomWrite made = {.api_version = "x.example.com/v1",
                            .resource = "fences",
                            .name = "f1",
                            .body = R"({"kind":"Fence"})"};
  const CustomWrite annotated = {.api_version = "x.example.com/v1",
                                 .resource = "fences",
                                 .space = "hosts",
                                 .name = "f1",
                                 .uid = Uid("u1"),
                                 .body = R"({"off":"hard"})"};

  [[nodiscard]] auto keep() {
    slot.reset();
    return [this](Result<CustomWriteReply> reply) { slot = std::move(reply); };
  }
  Result<CustomWriteReply> create(CustomWrite write) {
    const CallHandle handle = destroyer.create(std::move(write), keep());
    return wait_for(slot);
  }
  Result<CustomWriteReply> annotate(CustomWrite write) {
    const CallHandle handle = destroyer.annotate(std::move(write), keep());
    return wait_for(slot);
  }
  static FakeAnswer conflict(const std::string& reason) {
    return {.status = 409,
            .body = json{{"kind", "Status"}, {"reason", reason}, {"code", 409}}.dump()};
  }
};

TEST_F(CustomWriteTest, an_object_is_made_and_one_that_is_there_is_as_good) {
  http.on(Method::Post, fences, FakeAnswer{.status = 201, .body = "{}"});
  const auto reply = create(made);
  ASSERT_TRUE(reply) << reply.error().text;
  EXPECT_EQ(http.requests.at(0).body, R"({"kind":"Fence"})");
  EXPECT_EQ(http.requests.at(0).query, "timeout=5s");
  http.on(Method::Post, fences, conflict("AlreadyExists"));
  EXPECT_TRUE(create(made));
  http.on(Method::Post, fences, conflict("Conflict"));
  EXPECT_FALSE(create(made)) << "another kind of conflict";
}

// As annotations of a pod or a node would be, and roles that are made.
TEST_F(CustomWriteTest, kinds_of_kubernetes_own_are_never_sent) {
  for (const char* own : {"v1", "apps/v1", "rbac.authorization.k8s.io/v1", ""}) {
    CustomWrite other = made;
    other.api_version = own;
    EXPECT_EQ(create(other).error().kind, Kind::Invalid) << own;
    other = annotated;
    other.api_version = own;
    EXPECT_EQ(annotate(other).error().kind, Kind::Invalid) << own;
  }
  EXPECT_TRUE(http.requests.empty());
}

TEST_F(CustomWriteTest, annotations_name_the_object_that_is_meant) {
  http.on(Method::Patch, "/prefix/apis/x.example.com/v1/namespaces/hosts/fences/f1",
          FakeAnswer{.body = "{}"});
  ASSERT_TRUE(annotate(annotated));
  EXPECT_EQ(json::parse(http.requests.at(0).body),
            json::parse(R"({"metadata":{"uid":"u1","annotations":{"off":"hard"}}})"));
  CustomWrite nameless = annotated;
  nameless.uid = Uid();
  EXPECT_EQ(annotate(nameless).error().kind, Kind::Invalid);
  nameless = annotated;
  nameless.body = "[]";
  EXPECT_EQ(annotate(nameless).error().kind, Kind::Invalid);
  EXPECT_EQ(http.requests.size(), 1U);
}

TEST_F(DestroyerTest, a_lost_reply_is_unknown) {
  http.on(Method::Delete, path, FakeAnswer::lost());
  EXPECT_EQ(remove(of("u1")).error().kind, Kind::Unknown);
  EXPECT_EQ(http.requests.size(), 1U) << "a write is never repeated by itself";
}

TEST_F(DestroyerTest, the_guard_at_the_wire_stops_it_unsent) {
  DeleteRequest request = of("u1");
  request.may_send = [] { return false; };
  EXPECT_EQ(remove(request).error().kind, Kind::Cancelled);
  EXPECT_TRUE(http.requests.empty());
}

FakeAnswer admitted(FakeAnswer answer = {.body = "{}"}) {
  answer.headers.push_back({"x-kubernetes-pf-prioritylevel-uid", "7a6e593d"});
  return answer;
}

TEST_F(DestroyerTest, more_may_leave_at_once_where_the_server_shares_out_its_seats) {
  EXPECT_EQ(destroyer.most_at_once(), Destroyer::kMostAtOnce) << "nobody knows yet";
  http.on(Method::Delete, path, admitted());
  (void)remove(of("u"));
  EXPECT_EQ(destroyer.most_at_once(), Destroyer::kMostWithFairness);
  http.on(Method::Get, "/prefix/api/v1/nodes", FakeAnswer{.body = "{}"});
  (void)call(get("/api/v1/nodes"));
  EXPECT_EQ(destroyer.most_at_once(), Destroyer::kMostWithFairness) << "reads say nothing of it";
  http.on(Method::Delete, path, FakeAnswer{.body = "{}"});
  (void)remove(of("u"));
  EXPECT_EQ(destroyer.most_at_once(), Destroyer::kMostAtOnce) << "another replica, or proxy";
}

TEST_F(DestroyerTest, connections_are_opened_for_those_that_may_leave_at_once) {
  struct : CallObserver {
    void on_exchange(port::Method, int, Duration, std::optional<WallTime>) override { ++seen; }
    int seen = 0;
  } observer;
  caller.observe(&observer);
  http.on(Method::Get, "/prefix/livez", FakeAnswer{.body = "{}", .delay = 1s});
  destroyer.make_way(150);
  test::run_for(loop, 500ms);
  destroyer.make_way(150);  // while those are being opened
  test::run_for(loop, 5s);
  EXPECT_EQ(http.requests.size(), Destroyer::kMostAtOnce);
  EXPECT_EQ(http.requests.at(0).lane, port::Lane::Writes);
  EXPECT_EQ(observer.seen, 0) << "fence/self_doubt would take them for calls that succeed";
  destroyer.make_way(3);
  test::run_for(loop, 5s);
  EXPECT_EQ(http.requests.size(), Destroyer::kMostAtOnce + 3);
  caller.observe(nullptr);
}

}  // namespace
}  // namespace moonfence::kube
