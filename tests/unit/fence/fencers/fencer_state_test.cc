#include "fence/fencers/fencer_state.h"

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using policy::Power;

PowerQuestion::Word word(const std::string& fencer, Power power) {
  return {.fencer = fencer, .state = {.power = power, .why = "it says so"}};
}

TEST(FencerState, one_that_could_not_act_is_broken) {
  for (const Power power : {Power::On, Power::Served}) {
    PowerQuestion::Word by = word("bmc", power);
    EXPECT_EQ(fault_of(by, /*is_ready=*/true), "");
    by.cannot = "it cannot be switched off: no such reset type";
    EXPECT_EQ(fault_of(by, /*is_ready=*/true),
              "it says so; but it cannot be switched off: no such reset type");
  }
}

TEST(FencerState, who_can_tell_works) {
  EXPECT_EQ(state_of({word("bmc", Power::On)}, /*is_ready=*/true), FencerState::Works);
  EXPECT_EQ(state_of({word("bmc", Power::On)}, /*is_ready=*/false), FencerState::Works);
  EXPECT_EQ(state_of({word("bmc", Power::Off)}, /*is_ready=*/false), FencerState::Works);
}

TEST(FencerState, one_that_says_isolated_of_a_node_that_is_ready_is_broken) {
  EXPECT_EQ(state_of({word("storage", Power::Isolated)}, /*is_ready=*/true), FencerState::Broken);
  EXPECT_EQ(state_of({word("storage", Power::Isolated)}, /*is_ready=*/false), FencerState::Works);
  EXPECT_NE(fault_of(word("storage", Power::Isolated), /*is_ready=*/true).find("lifted"),
            std::string::npos);
}

TEST(FencerState, one_that_says_off_of_a_node_that_is_ready_is_broken) {
  EXPECT_EQ(state_of({word("bmc", Power::Off)}, /*is_ready=*/true), FencerState::Broken);
  EXPECT_NE(fault_of(word("bmc", Power::Off), /*is_ready=*/true).find("another machine"),
            std::string::npos);
}

TEST(FencerState, each_of_them_counts) {
  const std::vector words = {word("bmc", Power::On), word("cloud", Power::Unknown),
                             word("pdu", Power::Failed)};
  EXPECT_EQ(state_of(words, /*is_ready=*/true), FencerState::Broken);
  EXPECT_EQ(faults_of(words, /*is_ready=*/true),
            "cloud: unknown, it says so; pdu: failed, it says so");
  EXPECT_EQ(state_of({}, /*is_ready=*/true), FencerState::None);
}

}  // namespace
}  // namespace moonfence::fence
