#include "sim/ground/informer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_poller.h"
#include "support/fake_random.h"

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

struct InformerTest : testing::Test {
  void create(const std::string& name) {
    (void)store.create("pods", "db", {{"metadata", {{"name", name}}}}, "test");
  }
  void label(const std::string& name, const std::string& value) {
    (void)store.update(
        {"pods", "db", name}, [&](Json& pod) { pod["metadata"]["labels"]["x"] = value; },
        ObjectStore::Part::Whole, "test");
  }
  std::unique_ptr<Informer> informer() {
    auto made = std::make_unique<Informer>(loop, store, "pods", [this] { return lag; });
    made->on_change([this](const Object& before, const Object& after) {
      const Object& object = after == nullptr ? before : after;
      std::string what = before == nullptr ? "new " : after == nullptr ? "gone " : "changed ";
      heard.push_back(what + object->at("metadata").at("name").get<std::string>());
    });
    return made;
  }

  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeRandom random;
  ObjectStore store{[] { return WallTime{}; }, random};
  Duration lag = 10ms;
  std::vector<std::string> heard;
};

TEST_F(InformerTest, begins_with_what_is_there) {
  create("a");
  const auto pods = informer();
  EXPECT_NE(pods->find("db", "a"), nullptr);
  EXPECT_EQ(pods->all().size(), 1U);
  test::run_for(loop, 1s);
  EXPECT_TRUE(heard.empty());
}

TEST_F(InformerTest, hears_after_the_lag_and_not_before) {
  const auto pods = informer();
  create("a");
  test::run_for(loop, 9ms);
  EXPECT_EQ(pods->find("db", "a"), nullptr);
  test::run_for(loop, 1ms);
  const Object found = pods->find("db", "a");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(pods->find_uid(found->at("metadata")["uid"]), found);
  EXPECT_THAT(heard, ElementsAre("new a"));
}

TEST_F(InformerTest, another_object_of_the_same_name_is_found_by_its_own_uid) {
  create("a");
  const auto pods = informer();
  const std::string old_uid = pods->find("db", "a")->at("metadata")["uid"];
  label("a", "x");
  test::run_for(loop, 10ms);
  EXPECT_EQ(pods->find_uid(old_uid), store.find({"pods", "db", "a"}));
  (void)store.remove({"pods", "db", "a"}, {.grace_seconds = 0}, "test");
  create("a");
  test::run_for(loop, 10ms);
  const Object now_is = store.find({"pods", "db", "a"});
  EXPECT_EQ(pods->find_uid(old_uid), nullptr);
  EXPECT_EQ(pods->find_uid(now_is->at("metadata")["uid"]), now_is);
  EXPECT_EQ(pods->find("db", "a"), now_is);
}

TEST_F(InformerTest, order_holds_whatever_the_lag) {
  const auto pods = informer();
  create("a");
  lag = 1ms;
  label("a", "1");
  (void)store.remove({"pods", "db", "a"}, {}, "test");
  test::run_for(loop, 5ms);
  EXPECT_TRUE(heard.empty());
  test::run_for(loop, 10ms);
  EXPECT_EQ(heard.front(), "new a");
  EXPECT_EQ(heard.back(), "gone a");
  EXPECT_TRUE(pods->all().empty());
}

TEST_F(InformerTest, other_resources_are_not_heard) {
  const auto pods = informer();
  (void)store.create("nodes", "", {{"metadata", {{"name", "n1"}}}}, "test");
  test::run_for(loop, 1s);
  EXPECT_TRUE(heard.empty());
}

TEST_F(InformerTest, store_may_outlive_it) {
  auto pods = informer();
  create("a");
  pods.reset();
  create("b");
  test::run_for(loop, 1s);
  EXPECT_TRUE(heard.empty());
}

}  // namespace
}  // namespace moonfence::sim
