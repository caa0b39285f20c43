#include "unit/fence/pass_fixture.h"

namespace moonfence::fence {
namespace {

using audit::Reason;
using audit::Record;

struct ListsTest : OnePassTest {
  static Binding in(const std::set<Namespace>& spaces) {
    return binding_of(deleting_policy(), Mode::Enforce, spaces);
  }
};

TEST_F(ListsTest, all_namespaces_are_one_request_for_the_most_recent_state) {
  add_pod("db-0");
  add_pod("shop-0", "n1", "shop");
  add_pod("other-0", "n2", "shop");
  run_pass({everywhere(deleting_policy())});
  EXPECT_EQ(deletes(), (Lines{"db-0 0s", "shop-0 0s"}));
  EXPECT_EQ(http.count("/api/v1/pods?"), 1U);
  EXPECT_EQ(http.count("fieldSelector=spec.nodeName%3Dn1"), 1U);
  EXPECT_EQ(http.count("resourceVersion"), 1U);
  EXPECT_EQ(http.count("/kube-node-lease/leases?resourceVersion=0"), 1U) << "and that is it";
  EXPECT_EQ(http.count("/api/v1/namespaces/db/pods?"), 0U);
}

TEST_F(ListsTest, a_few_namespaces_are_listed_side_by_side) {
  add_pod("db-0");
  add_pod("shop-0", "n1", "shop");
  add_pod("a-0", "n1", "a");
  list_answer.delay = 40ms;
  run_pass({in({Namespace("db"), Namespace("shop")})});
  EXPECT_EQ(reads(), (Lines{"pods 0s", "pods 0s", "n1 0s"}));
  EXPECT_EQ(deletes(), (Lines{"db-0 40ms", "shop-0 40ms"}));
}

TEST_F(ListsTest, the_first_list_is_acted_on_while_the_others_are_on_their_way) {
  add_pod("db-0");
  add_pod("shop-0", "n1", "shop");
  add_pod("shop-1", "n1", "shop");
  list_answer_in["db"] = {.delay = 300ms};
  list_answer_in["shop"] = {.delay = 20ms};
  node_answer.delay = 10ms;
  const auto pass = run_pass({in({Namespace("db"), Namespace("shop")})});
  EXPECT_EQ(deletes(), (Lines{"shop-0 20ms", "shop-1 20ms", "db-0 300ms"}));
  EXPECT_EQ(pass->endings, 1);
}

TEST_F(ListsTest, a_late_list_goes_on_a_fresh_reading) {
  add_pod("db-0");
  add_pod("shop-0", "n1", "shop");
  list_answer_in["shop"] = {.delay = 3s};
  run_pass({in({Namespace("db"), Namespace("shop")})});
  EXPECT_EQ(reads(), (Lines{"pods 0s", "pods 0s", "n1 0s", "n1 3s"}));
  EXPECT_EQ(deletes(), (Lines{"db-0 0s", "shop-0 3s"}));
}

TEST_F(ListsTest, a_list_that_fails_keeps_nobody_from_the_others_and_is_not_forgotten) {
  add_pod("db-0");
  add_pod("shop-0", "n1", "shop");
  for (const Duration delay : {0ms, 50ms}) {  // before the others and after them
    list_answer_in["shop"] = broken();
    list_answer_in["shop"].delay = delay;
    list_answer.delay = 20ms;
    add_pod("db-0");
    const auto pass = run_pass({in({Namespace("db"), Namespace("shop")})});
    EXPECT_TRUE(pass->result->unreadable);
    EXPECT_EQ(pass->unreadable, 0);
    EXPECT_EQ(pods.count("db-0"), 0U);
    EXPECT_EQ(pods.count("shop-0"), 1U);
  }
}

TEST_F(ListsTest, when_no_list_can_be_read_nothing_is_decided) {
  add_pod("db-0");
  list_answer = broken();
  const auto pass = run_pass({in({Namespace("db"), Namespace("shop")})});
  EXPECT_EQ(pass->unreadable, 1);
  EXPECT_EQ(pass->endings, 0);
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(ListsTest, a_pod_that_is_listed_twice_is_judged_once) {
  add_pod("db-0");
  list_answer.body = nlohmann::json{{"kind", "PodList"},
                                    {"metadata", {{"resourceVersion", "9"}}},
                                    {"items", {pods["db-0"], pods["db-0"]}}}
                         .dump();
  run_pass({everywhere(deleting_policy())});
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicyDeletesPod), 1U);
  EXPECT_EQ(deletes().size(), 1U);
}

TEST_F(ListsTest, pods_of_others_do_not_hold_up_the_first_deletion) {
  for (int i = 0; i < 20; ++i) {
    add_pod("a-" + std::to_string(i), "n1", "a");
  }
  add_pod("db-0");
  Binding narrow = binding_of(deleting_policy());
  narrow.scope = policy::NamespaceScope::of(
      {Namespace("db"), Namespace("v"), Namespace("w"), Namespace("x"), Namespace("y")});
  std::uint64_t began = 0;
  std::uint64_t recorded = 0;
  std::uint64_t intended = 0;
  story.hook = [&](const Record& record) {
    intended = record.kind == Record::Kind::Intent ? loop.turns() : intended;
  };
  struct Turns final : kube::CallObserver {
    explicit Turns(loop::Loop& watched, std::uint64_t& got, std::uint64_t& posted)
        : loop(watched), read(got), written(posted) {}
    void on_exchange(port::Method method, int, Duration, std::optional<WallTime>) override {
      if (method == port::Method::Get && last != loop.turns()) {
        read = std::exchange(last, loop.turns());  // the namespace is read beside the record
      }
      written = method == port::Method::Post ? loop.turns() : written;
    }
    loop::Loop& loop;
    std::uint64_t& read;
    std::uint64_t& written;
    std::uint64_t last = 0;
  } observer(loop, began, recorded);
  caller.observe(&observer);
  run_pass({narrow});
  caller.observe(nullptr);
  EXPECT_EQ(deletes(), Lines{"db-0 0s"});
  EXPECT_EQ(recorded, began + 2);  // a whole exchange, begun in that turn
  EXPECT_EQ(intended, recorded);
}

TEST_F(ListsTest, it_can_be_destroyed_between_two_lists) {
  for (const Duration after : {5ms, 15ms, 45ms, 60ms}) {
    add_pod("db-0");
    add_pod("shop-0", "n1", "shop");
    list_answer_in["db"] = {.delay = 10ms};
    list_answer_in["shop"] = {.delay = 50ms};
    OnePass pass(*this, in({Namespace("db"), Namespace("shop")}));
    run_for(after);
    pass.pass.reset();
    run_for(10s);
    EXPECT_EQ(http.open_exchanges(), 0U);
  }
}

}  // namespace
}  // namespace moonfence::fence
