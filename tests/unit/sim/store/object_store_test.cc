#include "sim/store/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_random.h"

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

struct ObjectStoreTest : testing::Test {
  ObjectStoreTest() {
    store.listen([this](const Change& change) {
      std::string what = change.type == ChangeType::Added      ? "added "
                         : change.type == ChangeType::Modified ? "modified "
                                                               : "deleted ";
      heard.push_back(what + change.key.name);
    });
  }
  Object create(const std::string& name, Json object = Json::object(),
                const std::string& resource = "pods") {
    object["metadata"]["name"] = name;
    return store.create(resource, "db", std::move(object), "test").value();
  }
  static Key key(const std::string& name) { return {"pods", "db", name}; }

  WallTime now = WallTime(1'800'000'000s);
  test::FakeRandom random;
  ObjectStore store{[this] { return now; }, random};
  std::vector<std::string> heard;
};

TEST_F(ObjectStoreTest, objects_are_listed_in_the_order_of_their_names) {
  create("b");
  create("a");
  (void)store.create("pods", "aa", {{"metadata", {{"name", "z"}}}}, "test");
  std::vector<std::string> names;
  for (const Object& each : store.list("pods")) {
    names.push_back(each->at("metadata").at("name"));
  }
  EXPECT_THAT(names, ElementsAre("z", "a", "b"));
  EXPECT_EQ(store.list("pods", "db").size(), 2U);
  EXPECT_EQ(store.list("pods", "d").size(), 0U);
}

TEST_F(ObjectStoreTest, restored_it_is_as_it_was_with_its_versions_and_no_past) {
  create("stays");
  create("changes");
  create("dies");
  const StoreSnapshot snapshot = store.snapshot();
  const std::string uid = store.find(key("dies"))->at("metadata").at("uid");
  (void)store.update(
      key("changes"), [](Json& pod) { pod["spec"]["x"] = 1; }, ObjectStore::Part::Whole, "test");
  (void)store.remove(key("dies"), {.grace_seconds = 0}, "test");
  create("dies");
  create("comes");
  heard.clear();
  store.restore(snapshot);
  EXPECT_THAT(heard,
              ElementsAre("deleted comes", "deleted dies", "modified changes", "added dies"));
  EXPECT_EQ(store.version(), snapshot.version);
  EXPECT_EQ(store.log_start(), snapshot.version);
  EXPECT_EQ(store.find(key("dies"))->at("metadata").at("uid"), uid);
  EXPECT_EQ(store.find(key("comes")), nullptr);
  EXPECT_FALSE(store.find(key("changes"))->contains("spec"));
  create("next");
  EXPECT_EQ(store.find(key("next"))->at("metadata").at("resourceVersion"),
            std::to_string(snapshot.version + 1));
}

TEST_F(ObjectStoreTest, an_object_that_was_handed_out_never_changes) {
  const Object before = create("a");
  const auto after = store.update(
      key("a"), [](Json& pod) { pod["spec"]["nodeName"] = "n1"; }, ObjectStore::Part::Whole,
      "test");
  EXPECT_FALSE(before->contains("spec"));
  EXPECT_EQ((**after)["spec"]["nodeName"], "n1");
  EXPECT_EQ(store.find(key("a")), *after);
}

TEST_F(ObjectStoreTest, parts_reach_what_is_theirs) {
  create("a", {{"spec", {{"x", 1}}}, {"status", {{"y", 1}}}});
  const auto edit = [](Json& pod) {
    pod["spec"]["x"] = 2;
    pod["status"]["y"] = 2;
  };
  const Json spec = **store.update(key("a"), edit, ObjectStore::Part::Spec, "test");
  EXPECT_EQ(spec["spec"]["x"], 2);
  EXPECT_EQ(spec["status"]["y"], 1);
  const Json status = **store.update(key("a"), edit, ObjectStore::Part::Status, "test");
  EXPECT_EQ(status["status"]["y"], 2);
}

TEST_F(ObjectStoreTest, a_status_write_reaches_nothing_but_the_status) {
  create("a", {{"metadata", {{"labels", {{"l", "kept"}}}}},
               {"spec", {{"x", 1}}},
               {"data", "kept"},
               {"status", {{"y", 1}, {"z", 1}}}});
  const auto edit = [](Json& pod) {
    pod["metadata"]["labels"]["l"] = "lost";
    pod["metadata"]["annotations"]["new"] = "lost";
    pod["spec"]["x"] = 2;
    pod["new"] = "lost";
    pod.erase("data");
    pod["status"] = {{"y", 2}};
  };
  const Json written = **store.update(key("a"), edit, ObjectStore::Part::Status, "test");
  EXPECT_EQ(written["metadata"]["labels"], Json({{"l", "kept"}}));
  EXPECT_FALSE(written["metadata"].contains("annotations"));
  EXPECT_EQ(written["spec"], Json({{"x", 1}}));
  EXPECT_EQ(written.value("data", ""), "kept");
  EXPECT_FALSE(written.contains("new"));
  EXPECT_EQ(written["status"], Json({{"y", 2}}));
  const Json without = **store.update(
      key("a"), [](Json& pod) { pod.erase("status"); }, ObjectStore::Part::Status, "test");
  EXPECT_FALSE(without.contains("status"));
  EXPECT_EQ(without["spec"], Json({{"x", 1}}));
}

TEST_F(ObjectStoreTest, update_that_changes_nothing_is_not_told) {
  create("a");
  const auto version = store.version();
  EXPECT_TRUE(store.update(
      key("a"), [](Json&) {}, ObjectStore::Part::Whole, "test"));
  EXPECT_EQ(store.version(), version);
  EXPECT_THAT(heard, ElementsAre("added a"));
}

TEST_F(ObjectStoreTest, what_the_server_owns_cannot_be_edited) {
  const Object made = create("a");
  (void)store.update(
      key("a"),
      [](Json& pod) {
        pod["metadata"].erase("uid");
        pod["metadata"]["creationTimestamp"] = "2000-01-01T00:00:00Z";
        pod["metadata"]["labels"] = {{"x", "y"}};
      },
      ObjectStore::Part::Whole, "test");
  const Json now_is = *store.find(key("a"));
  EXPECT_EQ(now_is["metadata"]["uid"], made->at("metadata")["uid"]);
  EXPECT_EQ(now_is["metadata"]["creationTimestamp"], made->at("metadata")["creationTimestamp"]);
  EXPECT_EQ(now_is["metadata"]["labels"]["x"], "y");
}

TEST_F(ObjectStoreTest, listener_that_writes_is_told_of_it_afterwards) {
  store.listen([this](const Change& change) {
    if (change.key.name == "a" && change.type == ChangeType::Added) {
      create("b");
      heard.emplace_back("wrote b");
    }
  });
  create("a");
  EXPECT_THAT(heard, ElementsAre("added a", "wrote b", "added b"));
}

TEST_F(ObjectStoreTest, forced_delete_marks_and_removes) {
  create("a", {{"spec", {{"nodeName", "n1"}}}});
  const auto result = store.remove(key("a"), {.grace_seconds = 0}, "test");
  EXPECT_FALSE(result->marked_only);
  EXPECT_THAT(heard, ElementsAre("added a", "modified a", "deleted a"));
}

TEST_F(ObjectStoreTest, grace_leaves_a_marked_pod) {
  create("a", {{"spec", {{"nodeName", "n1"}}}});
  const auto result = store.remove(key("a"), {}, "test");
  EXPECT_TRUE(result->marked_only);
  EXPECT_EQ(result->object->at("metadata")["deletionTimestamp"], format_rfc3339(now + 30s));
  EXPECT_NE(store.find(key("a")), nullptr);
}

TEST_F(ObjectStoreTest, precondition_names_both_uids) {
  const Object made = create("a");
  const auto result = store.remove(key("a"), {.uid = "other"}, "test");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, 409);
  EXPECT_THAT(result.error().message,
              testing::HasSubstr(made->at("metadata")["uid"].get<std::string>()));
}

TEST_F(ObjectStoreTest, past_can_be_listed_until_it_is_forgotten) {
  create("a");
  create("b");
  const auto then = store.version();
  (void)store.remove(key("a"), {}, "test");
  (void)store.update(
      key("b"), [](Json& pod) { pod["x"] = 1; }, ObjectStore::Part::Whole, "test");
  create("c");
  const auto documents = store.list_documents_at("pods", "db", then);
  ASSERT_EQ(documents.size(), 2U);
  EXPECT_FALSE(documents[1]->json().contains("x"));
  EXPECT_NE(store.find_document_at(key("a"), then), nullptr);
  EXPECT_EQ(store.find_document_at(key("c"), then), nullptr);
  store.forget(store.version());
  EXPECT_TRUE(store.log().empty());
  create("d");
  EXPECT_EQ(store.change_at(store.version()).key.name, "d");
}

TEST_F(ObjectStoreTest, controllers_see_which_generation_of_a_spec_it_is) {
  (void)store.create("statefulsets", "db", {{"metadata", {{"name", "s"}}}}, "test");
  const Key set{"statefulsets", "db", "s"};
  EXPECT_EQ(store.find(set)->at("metadata")["generation"], 1);
  (void)store.update(
      set, [](Json& object) { object["spec"]["replicas"] = 2; }, ObjectStore::Part::Spec, "test");
  EXPECT_EQ(store.find(set)->at("metadata")["generation"], 2);
  (void)store.update(
      set, [](Json& object) { object["status"]["replicas"] = 2; }, ObjectStore::Part::Status,
      "test");
  EXPECT_EQ(store.find(set)->at("metadata")["generation"], 2);
}

TEST_F(ObjectStoreTest, same_seed_gives_the_same_uids) {
  test::FakeRandom again;
  ObjectStore other([this] { return now; }, again);
  const Object a = create("a");
  const auto b = other.create("pods", "db", {{"metadata", {{"name", "a"}}}}, "test");
  EXPECT_EQ(*a, **b);
}

}  // namespace
}  // namespace moonfence::sim
