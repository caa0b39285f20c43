#include "cluster/detection/machine_history.h"

#include <string>

#include <gtest/gtest.h>

namespace moonfence::cluster {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kStart{1000h};

struct MachineHistoryTest : testing::Test {
  MachineHistory history;
  const NodeName n1{"n1"};

  [[nodiscard]] std::string names() const {
    std::string names;
    for (const auto& machine : history.machines(10).first) {
      names += machine.node.text() + " ";
    }
    return names;
  }
};

TEST_F(MachineHistoryTest, who_answers_all_the_while_is_not_in_it) {
  history.note(n1, Kernel::Unsure, std::nullopt, kStart);  // the first look
  history.note(n1, Kernel::Answers, 0s, kStart + 1s);
  EXPECT_EQ(names(), "");
}

TEST_F(MachineHistoryTest, each_change_is_kept_once_with_the_last_sign) {
  history.note(n1, Kernel::Unsure, 4s, kStart);
  history.note(n1, Kernel::Silent, 5s, kStart + 1s);
  history.note(n1, Kernel::Silent, 6s, kStart + 2s);
  history.note(n1, Kernel::Answers, 0s, kStart + 3s);
  const auto machine = history.machines(1).first.at(0);
  EXPECT_EQ(machine.changes, (std::vector<MachineHistory::Change>{{kStart, Kernel::Unsure},
                                                                  {kStart + 1s, Kernel::Silent},
                                                                  {kStart + 3s, Kernel::Answers}}));
  EXPECT_EQ(machine.last_sign, kStart - 4s);
}

TEST_F(MachineHistoryTest, who_answers_again_is_forgotten_after_ten_minutes) {
  history.note(n1, Kernel::Silent, 5s, kStart);
  history.note(n1, Kernel::Answers, 0s, kStart + 1min);
  history.note(n1, Kernel::Answers, 0s, kStart + 11min);
  EXPECT_EQ(names(), "n1 ");
  history.note(n1, Kernel::Answers, 0s, kStart + 11min + 1s);
  EXPECT_EQ(names(), "");
  history.note(n1, Kernel::Silent, 5s, kStart);
  history.note(n1, Kernel::Silent, 24h, kStart + 24h);
  EXPECT_EQ(names(), "n1 ");
  history.forget(n1);
  EXPECT_EQ(names(), "");
}

TEST_F(MachineHistoryTest,
       who_is_silent_comes_first_whom_nobody_hears_last_and_what_is_left_out_is_counted) {
  for (const char* name : {"a", "b", "c", "d"}) {
    history.note(NodeName(name), Kernel::Silent, 5s, kStart);
  }
  history.note(NodeName("a"), Kernel::Answers, 0s, kStart + 1s);
  history.note(NodeName("c"), Kernel::Answers, 0s, kStart + 1s);
  EXPECT_EQ(names(), "b d a c ");
  history.note(NodeName("b"), Kernel::NotObservable, 5s, kStart + 2s);
  EXPECT_EQ(names(), "d a c b ");
  EXPECT_EQ(history.machines(3).first.size(), 3U);
  EXPECT_EQ(history.machines(3).second, 1U);
}

TEST_F(MachineHistoryTest, a_machine_that_flaps_keeps_its_newest_changes) {
  for (int i = 0; i < 100; ++i) {
    history.note(n1, i % 2 == 0 ? Kernel::Silent : Kernel::Answers, 5s, kStart + i * 1s);
  }
  const auto changes = history.machines(1).first.at(0).changes;
  EXPECT_EQ(changes.size(), MachineHistory::kMostChanges);
  EXPECT_EQ(changes.back().at, kStart + 99s);
}

}  // namespace
}  // namespace moonfence::cluster
