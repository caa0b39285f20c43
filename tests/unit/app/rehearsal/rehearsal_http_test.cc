#include "app/rehearsal/rehearsal_http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_http.h"
#include "support/fake_poller.h"

namespace moonfence::app {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kServer = "https://k8s.example.com";
constexpr const char* kNode = R"({"kind":"Node","metadata":{"name":"n1","uid":"node-uid"},
  "spec":{},"status":{"conditions":[{"type":"Ready","status":"True"},
  {"type":"DiskPressure","status":"False"}]}})";

// What came of one exchange.
class Ears final : public port::HttpSink {
 public:
  void on_head(const port::HttpHead& head) override { status = head.status; }
  void on_body(std::string_view bytes) override { body += bytes; }
  void on_end(const port::HttpEnd& end) override {
    ended = true;
    error = end.error;
  }
  int status = 0;
  std::string body;
  bool ended = false;
  std::optional<Error> error;
};

class RehearsalHttpTest : public testing::Test {
 protected:
  // Carries one exchange to its end.
  Ears exchange(port::Method method, const std::string& path, const json& body = {},
                std::function<bool()> may_send = nullptr) {
    Ears ears;
    const auto transfer = http.start({.method = method,
                                      .url = kServer + path,
                                      .body = body.is_null() ? "" : body.dump(),
                                      .may_send = std::move(may_send)},
                                     ears);
    EXPECT_FALSE(ears.ended);
    EXPECT_EQ(http.outstanding(), 1U);
    EXPECT_TRUE(test::run_until(loop, [&ears] { return ears.ended; }));
    return ears;
  }
  json get(const std::string& path) { return json::parse(exchange(port::Method::Get, path).body); }

  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeHttp real{loop};
  RehearsalHttp http{real, loop, kServer};
};

TEST_F(RehearsalHttpTest, NoWriteReachesTheServer) {
  const Ears pod = exchange(port::Method::Delete, "/api/v1/namespaces/db/pods/db-0?timeout=5s",
                            {{"preconditions", {{"uid", "pod-uid"}}}});
  const Ears record =
      exchange(port::Method::Post, "/api/v1/namespaces/moonfence/configmaps",
               {{"metadata", {{"name", "moonfence-incident-1"}, {"namespace", "moonfence"}}}});
  EXPECT_EQ(pod.status, 200);
  EXPECT_EQ(record.status, 201);
  EXPECT_FALSE(json::parse(record.body)["metadata"]["uid"].get<std::string>().empty());
  EXPECT_FALSE(json::parse(record.body)["metadata"]["resourceVersion"].get<std::string>().empty());
  exchange(port::Method::Put, "/apis/coordination.k8s.io/v1/namespaces/m/leases/moonfence",
           json::object());
  exchange(port::Method::Patch, "/api/v1/namespaces/m/configmaps/moonfence-status", json::object());
  EXPECT_THAT(real.requests, IsEmpty());
  ASSERT_THAT(http.writes(), SizeIs(4));
  EXPECT_EQ(http.writes()[0], (Write{.method = port::Method::Delete,
                                     .path = "/api/v1/namespaces/db/pods/db-0",
                                     .body = {{"preconditions", {{"uid", "pod-uid"}}}}}));
  EXPECT_EQ(http.outstanding(), 0U);
}

TEST_F(RehearsalHttpTest, TheGuardIsAskedAtTheWireAsEver) {
  const Ears ears = exchange(port::Method::Delete, "/api/v1/namespaces/db/pods/db-0",
                             json::object(), [] { return false; });
  EXPECT_EQ(ears.error->kind, Error::Kind::Cancelled);
  EXPECT_EQ(ears.status, 0);
  EXPECT_THAT(http.writes(), IsEmpty());
}

TEST_F(RehearsalHttpTest, ACancelledWriteIsNoWrite) {
  Ears ears;
  http.start({.method = port::Method::Delete, .url = std::string(kServer) + "/x"}, ears).reset();
  loop.turn();
  loop.turn();
  EXPECT_FALSE(ears.ended);
  EXPECT_THAT(http.writes(), IsEmpty());
  EXPECT_EQ(http.outstanding(), 0U);
}

TEST_F(RehearsalHttpTest, ReadsPassAsTheyAre) {
  real.on(port::Method::Get, "/api/v1/pods", test::FakeAnswer{.body = R"({"items":[]})"});
  EXPECT_EQ(exchange(port::Method::Get, "/api/v1/pods?limit=500").body, R"({"items":[]})");
  EXPECT_EQ(real.requests.front().line(), "GET /api/v1/pods?limit=500");
}

TEST_F(RehearsalHttpTest, ARefusalIsRemembered) {
  real.on(port::Method::Get, "/api/v1/pods", test::FakeAnswer{.body = R"({"items":[]})"});
  real.on(port::Method::Get, "/api/v1/nodes", test::FakeAnswer{.status = 403, .body = "{}"});
  exchange(port::Method::Get, "/api/v1/pods");
  EXPECT_EQ(http.refusal(), "");
  EXPECT_EQ(exchange(port::Method::Get, "/api/v1/nodes?limit=1").status, 403);
  EXPECT_EQ(http.refusal(), "/api/v1/nodes");
}

TEST_F(RehearsalHttpTest, OtherServersAreNoneOfItsBusiness) {
  Ears ears;
  const auto transfer = http.start({.method = port::Method::Post,
                                    .url = "https://storage.example.com/login",
                                    .lane = port::Lane::Endpoints},
                                   ears);
  test::run_until(loop, [&ears] { return ears.ended; });
  EXPECT_THAT(real.requests, SizeIs(1));
  EXPECT_THAT(http.writes(), IsEmpty());
}

TEST_F(RehearsalHttpTest, ASupposedNodeIsSilent) {
  real.on(port::Method::Get, "/api/v1/nodes/n1", test::FakeAnswer{.body = kNode});
  real.on(port::Method::Get, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1",
          test::FakeAnswer{
              .body = R"({"metadata":{},"spec":{"renewTime":"2026-11-20T10:00:00.000000Z"}})"});
  const WallTime at = *parse_rfc3339("2026-11-20T10:00:05Z");
  http.suppose_down(NodeName("n1"), at);
  const json node = get("/api/v1/nodes/n1");
  EXPECT_EQ(node["status"]["conditions"][1]["status"], "Unknown");
  EXPECT_EQ(node["status"]["conditions"][1]["lastTransitionTime"], "2026-11-20T10:00:05Z");
  EXPECT_EQ(node["status"]["conditions"][0]["type"], "DiskPressure");
  EXPECT_EQ(node["spec"]["taints"][0]["key"], "node.kubernetes.io/unreachable");
  const json lease = get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1");
  EXPECT_LT(lease["spec"]["renewTime"], "2026-11-20T10:00:00");
}

TEST_F(RehearsalHttpTest, OtherNodesStayAsTheyAre) {
  real.on(port::Method::Get, "/api/v1/nodes/n1", test::FakeAnswer{.body = kNode});
  http.suppose_down(NodeName("n2"), *parse_rfc3339("2026-11-20T10:00:05Z"));
  EXPECT_EQ(get("/api/v1/nodes/n1"), json::parse(kNode));
}

TEST_F(RehearsalHttpTest, APatchedNodeIsReadWithItsPatch) {
  real.on(port::Method::Get, "/api/v1/nodes/n1", test::FakeAnswer{.body = kNode});
  get("/api/v1/nodes/n1");
  const json patch = json::parse(R"([
      {"op": "test", "path": "/metadata/uid", "value": "node-uid"},
      {"op": "test", "path": "/spec/taints", "value": null},
      {"op": "add", "path": "/spec/taints", "value": [{"key": "ours"}]}])");
  EXPECT_EQ(exchange(port::Method::Patch, "/api/v1/nodes/n1", patch).status, 200);
  EXPECT_EQ(get("/api/v1/nodes/n1")["spec"]["taints"][0]["key"], "ours");
}

TEST_F(RehearsalHttpTest, APatchWhoseTestFailsChangesNothing) {
  real.on(port::Method::Get, "/api/v1/nodes/n1", test::FakeAnswer{.body = kNode});
  get("/api/v1/nodes/n1");
  const json patch = json::parse(R"([
      {"op": "test", "path": "/metadata/uid", "value": "another"},
      {"op": "add", "path": "/spec/taints", "value": []}])");
  EXPECT_EQ(exchange(port::Method::Patch, "/api/v1/nodes/n1", patch).status, 422);
  EXPECT_EQ(get("/api/v1/nodes/n1"), json::parse(kNode));
}

TEST_F(RehearsalHttpTest, AnOpenWatchIsNotWaitedFor) {
  real.on(port::Method::Get, "/api/v1/nodes", test::FakeAnswer::watch());
  Ears ears;
  const auto transfer = http.start({.url = std::string(kServer) + "/api/v1/nodes?watch=1"}, ears);
  EXPECT_EQ(http.outstanding(), 1U);
  EXPECT_TRUE(test::run_until(loop, [&ears] { return ears.status == 200; }));
  EXPECT_EQ(http.outstanding(), 0U);
}

}  // namespace
}  // namespace moonfence::app
