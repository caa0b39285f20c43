// The Leases of a namespace: names and stamps, all of them or none.

#include "kube/leases/lease_list.h"

#include <gtest/gtest.h>

#include "kube/calls/reader.h"
#include "support/fake_credentials.h"
#include "support/fake_http.h"
#include "support/fake_log.h"
#include "support/fake_poller.h"

namespace moonfence::kube {
namespace {

using namespace std::chrono_literals;

struct LeaseListTest : testing::Test {
  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeHttp http{loop};
  test::FakeCredentials credentials;
  test::FakeLog log;
  Caller caller{loop, http, credentials, log, "https://api:6443", "moonfence/0.1"};
  Reader reader{caller};
  test::FakeAnswer answer;

  Result<LeaseSigns> list(ListFrom from = ListFrom::Cache) {
    http.on(port::Method::Get, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
            [this](const test::FakeRequest&) { return answer; });
    std::optional<Result<LeaseSigns>> got;
    const CallHandle call = reader.list_node_leases(
        from, 5s, [&got](Result<LeaseSigns> signs) { got = std::move(signs); });
    test::run_until(
        loop, [&got] { return got.has_value(); }, 1min);
    return got ? *std::move(got) : Result<LeaseSigns>(failure(Error::Kind::Limit, "no answer"));
  }
};

constexpr const char* kTwo = R"({"kind":"LeaseList","metadata":{"resourceVersion":"7"},"items":[
{"metadata":{"name":"n1","uid":"u"},"spec":{"renewTime":"2026-01-02T05:00:00.500000Z"}},
{"metadata":{"name":"n2"},"spec":{}}]})";

TEST_F(LeaseListTest, names_and_stamps_from_any_version) {
  answer.body = kTwo;
  const auto signs = list();
  ASSERT_TRUE(signs) << signs.error().message();
  ASSERT_EQ(signs->leases.size(), 2U);
  EXPECT_EQ(signs->leases.at(0).name, "n1");
  EXPECT_EQ(signs->leases.at(0).renewed, WallTime(1767330000s + 500ms));
  EXPECT_EQ(signs->leases.at(1).renewed, std::nullopt);
  EXPECT_EQ(http.requests.back().query, "resourceVersion=0");
  EXPECT_EQ(signs->version, ResourceVersion("7"));
  ASSERT_TRUE(list(ListFrom::Store));
  EXPECT_EQ(http.requests.back().query, "") << "as the store has them";
}

TEST_F(LeaseListTest, a_list_that_is_cut_off_is_none) {
  answer.body = std::string(kTwo).substr(0, 160);
  EXPECT_FALSE(list());
}

TEST_F(LeaseListTest, a_page_is_not_the_list) {
  answer.body =
      R"({"kind":"LeaseList","metadata":{"resourceVersion":"7","continue":"t"},"items":[]})";
  EXPECT_FALSE(list());
}

TEST_F(LeaseListTest, a_lease_that_is_not_understood_spoils_it) {
  answer.body =
      R"({"kind":"LeaseList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{}}]})";
  EXPECT_FALSE(list());
}

TEST_F(LeaseListTest, a_refusal_is_an_error) {
  answer = {.status = 403, .body = "{}"};
  EXPECT_FALSE(list());
}

}  // namespace
}  // namespace moonfence::kube
