#include "policy/bundle/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonfence::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

kube::ConfigMap map_of(std::map<std::string, std::string> data) {
  kube::ConfigMap map;
  map.ref = {Namespace("moonfence"), "moonfence-policies"};
  map.data = std::move(data);
  return map;
}

Bundle read(std::map<std::string, std::string> data) {
  return read_bundle(map_of(std::move(data)), {"longhorn"});
}

TEST(BundleTest, every_key_finds_its_place) {
  const Bundle bundle = read({{"moonfence.yaml", "api: 1"},
                              {"mode", "observe\n"},
                              {"my-db.lua", "source"},
                              {"my-db_test.lua", "test"},
                              {"my-db.sts-gone.json", "{}"},
                              {"my-db.two.dots.json", "[]"},
                              {"longhorn_test.lua", "test of a built-in"}});
  EXPECT_EQ(bundle.bindings, "api: 1");
  EXPECT_EQ(bundle.mode, Mode::Observe);
  EXPECT_EQ(bundle.mode_error, "");
  ASSERT_TRUE(bundle.policies.contains("my-db"));
  const PolicyFiles& files = bundle.policies.at("my-db");
  EXPECT_EQ(files.source, "source");
  EXPECT_EQ(files.test, "test");
  EXPECT_EQ(files.fixtures, (std::map<std::string, std::string>{{"my-db.sts-gone.json", "{}"},
                                                                {"my-db.two.dots.json", "[]"}}));
  EXPECT_EQ(bundle.policies.at("longhorn").source, std::nullopt);
  EXPECT_EQ(bundle.policies.at("longhorn").test, "test of a built-in");
  EXPECT_THAT(bundle.unknown_keys, IsEmpty());
  EXPECT_EQ(bundle.fault, std::nullopt);
}

TEST(BundleTest, a_key_that_is_not_read_names_the_nearest_one_that_would_be) {
  const std::string rule =
      " (keys are moonfence.yaml, mode, NAME.lua, NAME_test.lua, NAME.<fixture>.json)";
  EXPECT_THAT(read({{"longhorn.luaa", ""},
                    {"moonfence.yml", ""},
                    {"mod", ""},
                    {"My-DB.lua", ""},
                    {"db_tests.lua", ""},
                    {"db.json", ""},
                    {"README", ""},
                    {"..data", ""}})
                  .unknown_keys,
              ElementsAre("..data" + rule, "My-DB.lua (did you mean my-db.lua?)", "README" + rule,
                          "db.json" + rule, "db_tests.lua (did you mean db_test.lua?)",
                          "longhorn.luaa (did you mean longhorn.lua?)", "mod (did you mean mode?)",
                          "moonfence.yml (did you mean moonfence.yaml?)"));
}

TEST(BundleTest, tests_of_nobody_are_reported) {
  const Bundle bundle =
      read({{"my-db.lua", ""}, {"my-bd_test.lua", ""}, {"my-bd.a.json", ""}, {"zoo.a.json", ""}});
  EXPECT_THAT(bundle.unknown_keys,
              ElementsAre("my-bd.a.json (there is no policy 'my-bd' (did you mean 'my-db'?))",
                          "my-bd_test.lua (there is no policy 'my-bd' (did you mean 'my-db'?))",
                          "zoo.a.json (there is no policy 'zoo')"));
  EXPECT_EQ(bundle.policies.size(), 1U);
}

TEST(BundleTest, an_unreadable_mode_counts_as_off) {
  EXPECT_EQ(read({{"mode", "  enforce \n"}}).mode, Mode::Enforce);
  EXPECT_EQ(read({{"mode", "off"}}).mode, Mode::Off);
  EXPECT_EQ(read({}).mode, std::nullopt);
  for (const char* word : {"", "Off", "of", "observe enforce", "\"off\"", "true"}) {
    const Bundle bundle = read({{"mode", word}});
    EXPECT_EQ(bundle.mode, Mode::Off) << word;
    EXPECT_THAT(bundle.mode_error, HasSubstr("counts as off")) << word;
  }
  EXPECT_THAT(read({{"mode", "obsreve"}}).mode_error, HasSubstr("did you mean 'observe'?"));
}

TEST(BundleTest, binary_data_is_refused_by_name) {
  kube::ConfigMap map = map_of({{"moonfence.yaml", "api: 1"}});
  map.binary_keys = {"db.lua"};
  Bundle bundle = read_bundle(map, {});
  EXPECT_THAT(bundle.unknown_keys,
              ElementsAre("db.lua (binaryData is not read; save the file as UTF-8 text)"));
  EXPECT_EQ(bundle.fault, std::nullopt);
  EXPECT_TRUE(bundle.binary_keys.contains("db.lua"));
  map.data.clear();
  map.binary_keys = {"moonfence.yaml", "mode"};
  bundle = read_bundle(map, {});
  ASSERT_TRUE(bundle.fault);
  EXPECT_THAT(bundle.fault->text, HasSubstr("moonfence.yaml: is in binaryData"));
  EXPECT_EQ(bundle.mode, Mode::Off);
  EXPECT_THAT(bundle.mode_error, HasSubstr("binaryData"));
}

TEST(BundleTest, a_set_that_is_too_large_is_refused_but_for_its_mode) {
  Bundle bundle = read({{"mode", "off"}, {"db.lua", std::string(kMostSetBytes, 'x')}});
  ASSERT_TRUE(bundle.fault);
  EXPECT_EQ(bundle.fault->kind, Error::Kind::Limit);
  EXPECT_EQ(bundle.mode, Mode::Off);
  EXPECT_EQ(read({{"db.lua", std::string(kMostSetBytes, 'x')}}).fault, std::nullopt);
  std::map<std::string, std::string> many;
  for (int i = 0; i < 64; ++i) {
    many["p" + std::to_string(i) + ".lua"] = "";
  }
  EXPECT_EQ(read(many).fault, std::nullopt);
  many["one-more.lua"] = "";
  ASSERT_TRUE(read(many).fault);
  EXPECT_THAT(read(many).fault->text, HasSubstr("it has 65 of 64 policies"));
}

TEST(BundleTest, of_many_unknown_keys_some_are_told_and_the_rest_is_counted) {
  std::map<std::string, std::string> many = {{"my-db.lua", ""}};
  for (int i = 0; i < 20'000; ++i) {
    many["x" + std::to_string(i) + "_test.lua"] = "";
  }
  for (int i = 0; i < 50; ++i) {
    many["Y" + std::to_string(i)] = "";
  }
  const Bundle bundle = read(many);
  ASSERT_EQ(bundle.unknown_keys.size(), 101U);
  EXPECT_EQ(bundle.unknown_keys.back(), "and 19950 more");
  EXPECT_EQ(bundle.policies.size(), 1U);
  many["big.lua"] = std::string(kMostSetBytes + 1, 'x');
  const Bundle refused = read(many);
  ASSERT_TRUE(refused.fault);
  EXPECT_EQ(refused.unknown_keys.size(), 50U) << "a set that is not used is not compared";
}

TEST(BundleTest, the_fingerprint_is_over_the_data_alone) {
  kube::ConfigMap map = map_of({{"a.lua", "x"}, {"b.lua", "y"}});
  const std::string before = fingerprint_of(map);
  map.resource_version = ResourceVersion("2");
  map.uid = Uid("other");
  EXPECT_EQ(fingerprint_of(map), before);
  EXPECT_NE(fingerprint_of(map_of({{"a.lua", "x"}, {"b.lua", "z"}})), before);
  EXPECT_NE(fingerprint_of(map_of({{"a.lua", "x"}, {"c.lua", "y"}})), before);
  map.binary_keys.insert("c");
  EXPECT_NE(fingerprint_of(map), before);
}

}  // namespace
}  // namespace moonfence::policy
