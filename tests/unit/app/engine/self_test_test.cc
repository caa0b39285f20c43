// Which answers of the API server make us doubt ourselves.

#include "app/engine/self_test.h"

#include "unit/kube/wire_fixture.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using Cause = fence::SelfDoubt::Cause;
using port::Method;

struct NobodyListens final : kube::WatchListener {
  void on_init() override {}
  void on_init_apply(const nlohmann::json& /*object*/) override {}
  void on_init_done() override {}
  void on_apply(const nlohmann::json& /*object*/) override {}
  void on_delete(const nlohmann::json& /*object*/) override {}
};

struct SelfTestTest : kube::WireTest {
  test::FakeRandom random;
  NobodyListens nobody;
  kube::Watcher nodes{loop,  caller, random, log, {.resource = "nodes", .path = "/api/v1/nodes"},
                      nobody};
  Metrics metrics;

  // A replica all of whose calls in a second are of this method and end like this.
  bool doubts(Method method, int status) {
    SelfTest test(loop, log, metrics);
    for (int i = 0; i < 20; ++i) {
      test.on_exchange(method, status, 5ms, std::nullopt);
    }
    test.look({.nodes = nodes,
               .policies = nullptr,
               .elector = nullptr,
               .went_back = false,
               .trusted_again = [] {}});
    return test.doubt().causes().contains(Cause::CallsFail);
  }
};

// The pods of a webhook had died with the node, and nothing was deleted any more: each deletion was
// answered 500, which passed for a server that fails.
TEST_F(SelfTestTest, writes_that_a_webhook_answers_with_500_make_no_doubt) {
  for (const Method method : {Method::Delete, Method::Patch, Method::Put, Method::Post}) {
    EXPECT_FALSE(doubts(method, 500)) << to_string(method);
    EXPECT_FALSE(doubts(method, 503)) << to_string(method);
  }
}

TEST_F(SelfTestTest, reads_that_the_server_answers_with_500_do) {
  EXPECT_TRUE(doubts(Method::Get, 500));
  EXPECT_TRUE(doubts(Method::Get, 503));
  EXPECT_FALSE(doubts(Method::Get, 404));
  EXPECT_FALSE(doubts(Method::Get, 200));
}

TEST_F(SelfTestTest, calls_that_nobody_answers_always_do) {
  for (const Method method :
       {Method::Get, Method::Delete, Method::Patch, Method::Put, Method::Post}) {
    EXPECT_TRUE(doubts(method, 0)) << to_string(method);
  }
}

}  // namespace
}  // namespace moonfence::app
