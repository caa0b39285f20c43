#include "app/machines/witness_watch.h"

#include <string>

#include <gtest/gtest.h>

namespace moonfence::app {
namespace {

using nlohmann::json;

const std::string kKey(64, 'a');

json report(const json& address, const json& key) {
  return json{{"mode", "enforce"},
              {"situation", {{"witness", {{"address", address}, {"publicKey", key}}}}}}
      .dump();
}

TEST(WitnessesIn, the_other_replicas_are_found_and_we_are_not) {
  const auto found = witnesses_in({{"moonfence-0", report("10.0.0.1:8081", kKey)},
                                   {"moonfence-1", report("10.0.0.2:8081", kKey)},
                                   {"moonfence-2", report("[fd00::2]:8081", kKey)}},
                                  "moonfence-0");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "moonfence-1");
  EXPECT_EQ(found[0].address, "10.0.0.2:8081");
  EXPECT_EQ(found[0].public_key, kKey);
  EXPECT_EQ(found[1].address, "[fd00::2]:8081");
}

// Nothing of it must lead a request somewhere else.
TEST(WitnessesIn, what_is_no_address_is_left_out) {
  for (const std::string address :
       {"", ":8081", "10.0.0.2", "10.0.0.2:", "10.0.0.2:0", "10.0.0.2:65536", "10.0.0.2:80 ",
        "10.0.0.2:80/x", "example:8081", "user@10.0.0.2:8081", "10.0.0.2:8081?", "fd00::2:8081",
        "[fd00::2%eth0]:8081", "[]10.0.0.2:8081", "10.0.0.2/@1.2.3.4:80"}) {
    EXPECT_TRUE(witnesses_in({{"moonfence-1", report(address, kKey)}}, "moonfence-0").empty())
        << address;
  }
}

TEST(WitnessesIn, what_does_not_tell_or_makes_no_sense_is_left_out) {
  EXPECT_TRUE(witnesses_in(nullptr, "moonfence-0").empty());
  EXPECT_TRUE(witnesses_in(json::array({1}), "moonfence-0").empty());
  for (const json& text : {json(7), json(""), json("{"), json("[]"), json("{}"),
                           json(R"({"situation": null})"), json(report(5, kKey)),
                           json(report("10.0.0.2:8081", 5)), json(report("10.0.0.2:8081", ""))}) {
    EXPECT_TRUE(witnesses_in({{"moonfence-1", text}}, "moonfence-0").empty()) << text;
  }
}

}  // namespace
}  // namespace moonfence::app
