#include "policy/bundle/last_good.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonfence::policy {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

NamespaceScope only(const std::string& name) {
  return NamespaceScope::of({Namespace(name)});
}

LastGood sample() {
  return {.bindings = "api: 1\nbindings: []\n",
          .map_uid = Uid("uid-1"),
          .entries = {{.policy = "db",
                       .scope = only("shop"),
                       .source_name = "db.lua",
                       .source = "return 1",
                       .settings = {{"a", 1}, {"b", "1"}},
                       .mode = Mode::Enforce,
                       .allow = {.bare_pods = true}},
                      {.policy = "db",
                       .scope = NamespaceScope::of({Namespace("b"), Namespace("a")}),
                       .source_name = "db.lua",
                       .source = "return 1",
                       .settings = json::object()},
                      {.policy = "longhorn",
                       .scope = NamespaceScope::everywhere(),
                       .source_name = "builtin",
                       .source = "return 2",
                       .settings = json::object()}}};
}

TEST(LastGoodTest, it_is_read_back_as_it_was) {
  const ConfigMapData data = encode_last_good(sample());
  EXPECT_EQ(data.size(), 5U) << "one source serves two bindings";
  const auto decoded = decode_last_good(data);
  EXPECT_THAT(decoded.faults, IsEmpty());
  EXPECT_EQ(decoded.good, sample());
}

TEST(LastGoodTest, by_whose_word_a_binding_acts_is_read_back_too) {
  LastGood good = sample();
  good.entries[0].allow = {.act_on = ActOn::Lost, .after = std::chrono::seconds(12)};
  good.entries[2].allow = {.act_on = ActOn::Off, .after = std::chrono::seconds(20)};
  EXPECT_EQ(decode_last_good(encode_last_good(good)).good, good);
}

TEST(LastGoodTest, a_source_that_was_tampered_with_is_not_used) {
  ConfigMapData data = encode_last_good(sample());
  for (auto& [key, text] : data) {
    if (text == "return 1") {
      text = "return 3";
    }
  }
  auto decoded = decode_last_good(data);
  ASSERT_EQ(decoded.good.entries.size(), 1U);
  EXPECT_EQ(decoded.good.entries[0].policy, "longhorn");
  ASSERT_EQ(decoded.faults.size(), 2U);
  EXPECT_THAT(decoded.faults[0], HasSubstr("policy 'db': its source does not match its digest"));
}

TEST(LastGoodTest, what_cannot_be_read_is_done_without) {
  EXPECT_EQ(decode_last_good({}).good, LastGood{});
  EXPECT_EQ(decode_last_good({{"index.json", "{"}}).faults.size(), 1U);
  EXPECT_EQ(decode_last_good({{"index.json", "{}"}}).faults.size(), 1U);
  EXPECT_EQ(decode_last_good({{"index.json", "[1, {}, {\"policy\": 5}]"}}).faults.size(), 3U);
  EXPECT_TRUE(decode_last_good({{"index.json", "[1]"}}).good.entries.empty());
}

TEST(LastGoodTest, what_does_not_say_of_which_config_map_it_is_is_of_none) {
  ConfigMapData data = encode_last_good(sample());
  data.erase("config-map-uid");
  EXPECT_EQ(decode_last_good(data).good.map_uid, Uid());
}

TEST(LastGoodTest, what_does_not_say_how_far_it_was_let_go_observes) {
  ConfigMapData data = encode_last_good(sample());
  auto index = json::parse(data["index.json"]);
  ASSERT_EQ(index[0]["mode"], "enforce");
  ASSERT_EQ(index[0]["allow"], json({"bare-pods"}));
  index[0].erase("mode");
  index[0].erase("allow");
  index[1]["mode"] = "everything";
  index[1]["allow"] = 5;
  index[2]["mode"] = 5;
  index[2]["allow"] = {"all", 5};
  data["index.json"] = index.dump();
  const auto decoded = decode_last_good(data);
  EXPECT_THAT(decoded.faults, IsEmpty());
  ASSERT_EQ(decoded.good.entries.size(), 3U);
  for (const LastGoodEntry& entry : decoded.good.entries) {
    EXPECT_EQ(entry.mode, Mode::Observe);
    EXPECT_EQ(entry.allow, Allowances{});
  }
}

TEST(LastGoodTest, it_fits_into_a_config_map) {
  LastGood good;
  for (int i = 0; i < 64; ++i) {
    good.entries.push_back(
        {.policy = "p" + std::to_string(i),
         .scope = NamespaceScope::everywhere(),
         .source_name = "builtin",
         .source = std::string(30'000, static_cast<char>('A' + (i % 26))) + std::to_string(i)});
  }
  std::size_t bytes = 0;
  for (const auto& [key, text] : encode_last_good(good)) {
    bytes += key.size() + text.size();
  }
  EXPECT_LT(bytes, 1U << 20U);
  EXPECT_EQ(decode_last_good(encode_last_good(good)).good.entries.size(), 30U);
}

TEST(LastGoodTest, what_is_decoded_is_bounded) {
  LastGood good;
  for (int i = 0; i < 70; ++i) {
    good.entries.push_back({.policy = "p" + std::to_string(i),
                            .scope = NamespaceScope::everywhere(),
                            .source_name = "builtin",
                            .source = "return 1"});
  }
  auto decoded = decode_last_good(encode_last_good(good));
  EXPECT_EQ(decoded.good.entries.size(), 64U);
  EXPECT_THAT(decoded.faults, ElementsAre(HasSubstr("has 70 of 64 entries")));
  for (LastGoodEntry& entry : good.entries) {
    entry.source = std::string(100'000, 'x');  // stored once, decoded for each
  }
  good.entries.resize(64);
  decoded = decode_last_good(encode_last_good(good));
  EXPECT_EQ(decoded.good.entries.size(), 10U);
  EXPECT_THAT(decoded.faults, ElementsAre(HasSubstr("more than 1048576 bytes")));
}

TEST(LastGoodTest, a_binding_finds_its_own_entry) {
  const LastGood good = sample();
  BindingSpec binding;
  binding.policy = "db";
  binding.scope = only("shop");
  EXPECT_EQ(good.find(binding, false), &good.entries[0]);
  binding.scope = only("other");
  EXPECT_EQ(good.find(binding, true), nullptr) << "which of the two is not known";
  binding.policy = "longhorn";
  EXPECT_EQ(good.find(binding, true), &good.entries[2]) << "its namespaces have changed";
  EXPECT_EQ(good.find(binding, false), nullptr);
  binding.policy = "none";
  EXPECT_EQ(good.find(binding, true), nullptr);
}

}  // namespace
}  // namespace moonfence::policy
