#include "app/status/machine_strip.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using cluster::Kernel;
using Changes = std::vector<cluster::MachineHistory::Change>;

constexpr WallTime kNow{1000h};

TEST(MachineStrip, one_sign_for_ten_seconds_the_newest_last) {
  EXPECT_EQ(strip_of({}, kNow), std::string(60, '.'));
  EXPECT_EQ(strip_of(Changes{{kNow - 25s, Kernel::Unsure}, {kNow - 15s, Kernel::Silent}}, kNow),
            std::string(57, '.') + "?xx");
  EXPECT_EQ(strip_of(Changes{{kNow - 1h, Kernel::NotObservable}}, kNow), std::string(60, '-'));
}

TEST(MachineStrip, the_worst_of_ten_seconds_is_shown) {
  EXPECT_EQ(strip_of(Changes{{kNow - 39s, Kernel::Silent}, {kNow - 38s, Kernel::Answers}}, kNow),
            std::string(56, '.') + "x...");
  EXPECT_EQ(strip_of(Changes{{kNow - 1h, Kernel::Silent}, {kNow - 25s, Kernel::Answers}}, kNow),
            std::string(58, 'x') + "..");
}

}  // namespace
}  // namespace moonfence::app
