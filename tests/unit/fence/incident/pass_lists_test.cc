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

struct PagesTest : ListsTest {
  PagesTest() { pages = true; }

  void add_pods(int count) {
    for (int i = 0; i < count; ++i) {
      add_pod("db-" + std::to_string(1000 + i));
    }
  }
  // What was sent from the lists to the first deletion and no further: "GET pods", "POST …".
  [[nodiscard]] Lines until_the_first_deletion() const {
    Lines lines;
    for (const test::FakeRequest& request : http.requests) {
      if (request.path.ends_with("/pods") || request.method != port::Method::Get) {
        const bool more = request.query.find("continue=") != std::string::npos;
        lines.push_back(std::string(port::to_string(request.method)) + " " + name_in(request) +
                        (more ? " more" : ""));
      }
      if (request.method == port::Method::Delete) {
        break;
      }
    }
    return lines;
  }
};

// On the cores on which the server would write the rest it answers what the first deletion waits
// for: of 1,000 pods it left after 0.4 to 1.1 s.
TEST_F(PagesTest, of_a_thousand_pods_the_first_leaves_before_the_rest_of_them_is_asked_for) {
  add_pods(1000);
  list_answer.delay = 3ms;
  const auto pass = run_pass({everywhere(deleting_policy())});
  EXPECT_EQ(until_the_first_deletion(), (Lines{"GET pods", "POST configmaps", "DELETE db-1000"}));
  EXPECT_EQ(http.requests.front().query.substr(0, 8), "limit=8&");
  EXPECT_EQ(deletes().front(), "db-1000 3ms");
  EXPECT_EQ(deletes().size(), 1000U);
  EXPECT_TRUE(pods.empty());
  EXPECT_EQ(pass->endings, 1);
}

// Each page would cost its way. Of 300 pods 168 left, and the others found their reading too old.
TEST_F(PagesTest, a_server_that_is_far_away_is_asked_for_all_at_once) {
  leadership.granted.round_trip = 25ms;
  add_pods(300);
  list_answer.delay = 300ms;
  const auto pass = run_pass({everywhere(deleting_policy())});
  EXPECT_EQ(http.count("GET /api/v1/pods"), 1U);
  EXPECT_EQ(deletes().size(), 300U);
}

TEST_F(PagesTest, where_none_of_the_first_is_to_go_the_others_are_asked_for_at_once) {
  add_pods(30);
  pods["db-1029"]["metadata"]["labels"]["app"] = "precious";
  run_pass(
      {everywhere(policy_of("if pod.labels.app == 'precious' then "
                            "return fence.delete_pod('dead') end return fence.skip('not')"))});
  EXPECT_EQ(deletes(), Lines{"db-1029 0s"});
}

// Whatever keeps the first deletion from leaving keeps nobody from knowing the other pods.
TEST_F(PagesTest, the_others_do_not_wait_for_the_first_deletion_for_ever) {
  add_pods(30);
  records.delay = 3s;
  OnePass pass(*this, everywhere(deleting_policy()));
  run_for(100ms);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicyDeletesPod), 30U);
}

TEST_F(PagesTest, a_page_that_cannot_be_read_keeps_nobody_from_the_first_and_is_not_forgotten) {
  add_pods(30);
  http.on(port::Method::Get, "/api/v1/pods?continue=db-1007", broken());
  const auto pass = run_pass({everywhere(deleting_policy())});
  EXPECT_TRUE(pass->result->unreadable);
  EXPECT_EQ(deletes().size(), 8U);
  ASSERT_EQ(pass->memory.pods_read.lists.size(), 1U);
  EXPECT_TRUE(pass->memory.pods_read.lists[0].version.empty()) << "half a list is not watched";
}

// The token expired: all of it is read once more, and nobody is judged twice.
TEST_F(PagesTest, a_list_that_begins_anew_is_no_second_verdict) {
  add_pods(30);
  http.on(port::Method::Get, "/api/v1/pods?continue=db-1007", status(410, "Expired"));
  run_pass({everywhere(policy_of("return fence.skip('not')"))});
  EXPECT_EQ(http.count("GET /api/v1/pods"), 3U);
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicySkips), 30U);
}

TEST_F(PagesTest, it_can_be_destroyed_between_two_pages) {
  list_answer.delay = 10ms;
  for (const Duration after : {5ms, 15ms, 25ms}) {
    add_pods(30);
    OnePass pass(*this, everywhere(deleting_policy()));
    run_for(after);
    pass.pass.reset();
    run_for(10s);
    EXPECT_EQ(http.open_exchanges(), 0U);
  }
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
