#include "kube/calls/config_maps.h"

#include <gmock/gmock.h>

#include "unit/kube/wire_fixture.h"

namespace moonfence::kube {
namespace {

using nlohmann::json;
using port::Method;
using test::FakeAnswer;
using testing::HasSubstr;
using Kind = Error::Kind;

json sample() {
  return json::parse(R"({
    "kind": "ConfigMap", "apiVersion": "v1",
    "metadata": {"namespace": "moonfence", "name": "moonfence-policies", "uid": "u1",
                 "resourceVersion": "48211"},
    "data": {"mode": "off", "db.lua": "return 1"},
    "binaryData": {"logo.png": "AAAA"}})");
}

struct ConfigMapsTest : WireTest {
  ConfigMaps maps{caller};
  const ObjectRef ref{Namespace("moonfence"), "moonfence-policies"};
  const std::string all = "/prefix/api/v1/namespaces/moonfence/configmaps";
  const std::string one = all + "/moonfence-policies";

  Result<ConfigMap> get(const ObjectRef& which) {
    std::optional<Result<ConfigMap>> slot;
    const CallHandle handle =
        maps.get(which, [&slot](Result<ConfigMap> found) { slot = std::move(found); });
    EXPECT_FALSE(slot);
    return wait_for(slot);
  }
  Result<void> save(const ConfigMapText& text) {
    std::optional<Result<void>> slot;
    const CallHandle handle =
        maps.save(text, [&slot](Result<void> saved) { slot = std::move(saved); });
    EXPECT_FALSE(slot);
    return wait_for(slot);
  }
  [[nodiscard]] ConfigMapText text() const {
    return {.ref = ref, .labels = {{"app", "moonfence"}}, .data = {{"a", "1"}, {"b", {}}}};
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    for (const auto& request : http.requests) {
      out.push_back(request.line());
    }
    return out;
  }
  static FakeAnswer missing() { return status(404, "NotFound", R"({"name":"x"})"); }
  static FakeAnswer taken() { return status(409, "AlreadyExists", R"({"name":"x"})"); }
};

TEST_F(ConfigMapsTest, one_is_read_with_its_version) {
  http.on(Method::Get, one, FakeAnswer{.body = sample().dump()});
  const auto map = get(ref);
  ASSERT_TRUE(map) << map.error().message();
  EXPECT_EQ(map->ref, ref);
  EXPECT_EQ(map->uid, Uid("u1"));
  EXPECT_EQ(map->resource_version, ResourceVersion("48211"));
  EXPECT_EQ(map->data,
            (std::map<std::string, std::string>{{"db.lua", "return 1"}, {"mode", "off"}}));
  EXPECT_EQ(map->binary_keys, std::set<std::string>{"logo.png"});
}

TEST_F(ConfigMapsTest, a_missing_one_is_told_from_a_missing_api) {
  http.on(Method::Get, one, missing());
  EXPECT_EQ(get(ref).error().kind, Kind::NotFound);
  http.on(Method::Get, one, FakeAnswer{.status = 404, .body = "404 page not found"});
  EXPECT_NE(get(ref).error().kind, Kind::NotFound);
}

TEST_F(ConfigMapsTest, another_object_is_not_taken_for_it) {
  json other = sample();
  other["metadata"]["name"] = "other";
  http.on(Method::Get, one, FakeAnswer{.body = other.dump()});
  EXPECT_EQ(get(ref).error().kind, Kind::Malformed);
}

TEST_F(ConfigMapsTest, a_call_without_a_place_is_not_made) {
  EXPECT_EQ(get({Namespace(), "x"}).error().kind, Kind::Invalid);
  EXPECT_EQ(get({Namespace("a"), "../x"}).error().kind, Kind::Invalid);
  EXPECT_EQ(save({.ref = {Namespace("a"), ""}, .labels = {}, .data = {}}).error().kind,
            Kind::Invalid);
  EXPECT_TRUE(http.requests.empty());
}

TEST_F(ConfigMapsTest, saving_patches_the_named_keys_only) {
  http.on(Method::Patch, one, FakeAnswer{.body = sample().dump()});
  ASSERT_TRUE(save(text()));
  ASSERT_EQ(lines(), std::vector<std::string>{"PATCH " + one});
  EXPECT_EQ(http.requests[0].header("Content-Type"), "application/merge-patch+json");
  EXPECT_EQ(
      json::parse(http.requests[0].body),
      json::parse(R"({"metadata":{"labels":{"app":"moonfence"}},"data":{"a":"1","b":null}})"));
}

TEST_F(ConfigMapsTest, saving_creates_what_is_not_there) {
  http.on(Method::Patch, one, missing());
  http.on(Method::Post, all, FakeAnswer{.status = 201, .body = sample().dump()});
  ASSERT_TRUE(save(text()));
  ASSERT_EQ(lines(), (std::vector<std::string>{"PATCH " + one, "POST " + all}));
  EXPECT_EQ(json::parse(http.requests[1].body), json::parse(R"({
    "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
    "metadata": {"namespace": "moonfence", "name": "moonfence-policies",
                 "labels": {"app": "moonfence"}}})"));
}

TEST_F(ConfigMapsTest, who_creates_second_patches) {
  http.sequence(Method::Patch, one, {missing(), FakeAnswer{.body = sample().dump()}});
  http.on(Method::Post, all, taken());
  ASSERT_TRUE(save(text()));
  EXPECT_EQ(lines(), (std::vector<std::string>{"PATCH " + one, "POST " + all, "PATCH " + one}));
}

TEST_F(ConfigMapsTest, an_object_that_comes_and_goes_is_left_to_the_next_save) {
  http.on(Method::Patch, one, missing());
  http.on(Method::Post, all, taken());
  EXPECT_EQ(save(text()).error().kind, Kind::NotFound);
  EXPECT_EQ(http.requests.size(), 3U);
}

TEST_F(ConfigMapsTest, what_else_goes_wrong_is_told_and_not_repeated) {
  http.on(Method::Patch, one, status(403, "Forbidden"));
  const auto refused = save(text());
  EXPECT_EQ(refused.error().kind, Kind::Forbidden);
  EXPECT_THAT(refused.error().text, HasSubstr("save ConfigMap moonfence/moonfence-policies"));
  http.on(Method::Patch, one, FakeAnswer::lost());
  EXPECT_EQ(save(text()).error().kind, Kind::Unknown);
  http.on(Method::Patch, one, missing());
  http.on(Method::Post, all, missing());
  EXPECT_EQ(save(text()).error().kind, Kind::NotFound) << "the namespace is not there";
  EXPECT_EQ(http.requests.size(), 4U);
}

TEST_F(ConfigMapsTest, a_dropped_handle_ends_the_save) {
  http.on(Method::Patch, one, missing());
  bool called = false;
  {
    const CallHandle handle = maps.save(text(), [&called](const Result<void>&) { called = true; });
  }
  test::run_for(loop, std::chrono::seconds(30));
  EXPECT_FALSE(called);
  EXPECT_TRUE(http.requests.empty());
}

TEST(DecodeConfigMapTest, a_wrong_type_or_size_is_refused) {
  json object = sample();
  object["data"]["mode"] = 5;
  EXPECT_EQ(decode_config_map(object).error().kind, Kind::Malformed);
  object = sample();
  object["kind"] = "Secret";
  EXPECT_EQ(decode_config_map(object).error().kind, Kind::Malformed);
  object = sample();
  object["metadata"].erase("uid");
  EXPECT_EQ(decode_config_map(object).error().kind, Kind::Malformed);
  object = sample();
  object["data"]["big"] = std::string(1U << 20U, 'x');
  EXPECT_EQ(decode_config_map(object).error().kind, Kind::Limit);
  EXPECT_EQ(decode_config_map(json::array()).error().kind, Kind::Malformed);
  object = sample();
  object.erase("data");
  object.erase("kind");
  ASSERT_TRUE(decode_config_map(object));
  EXPECT_TRUE(decode_config_map(object)->data.empty());
}

}  // namespace
}  // namespace moonfence::kube
