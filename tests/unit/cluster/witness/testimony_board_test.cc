#include "cluster/witness/testimony_board.h"

#include <string>

#include <gtest/gtest.h>

#include "cluster/witness/testimony.h"

namespace moonfence::cluster {
namespace {

using namespace std::chrono_literals;

constexpr const char* kNonce = "0123456789abcdef0123456789abcdef";
constexpr Moment kStart{1h};

struct TestimonyBoardTest : testing::Test {
  TestimonyBoard board{{7}};

  TestimonyBoardTest() { board.tell_alive(kStart, true); }

  [[nodiscard]] Testimony ask(const std::string& nodes, Moment now) const {
    const auto answer = board.answer(kNonce, nodes, now);
    EXPECT_TRUE(answer);
    return answer ? *testimony_of(*answer, board.public_key()) : Testimony{};
  }
};

TEST_F(TestimonyBoardTest, a_link_that_is_open_was_heard_three_seconds_ago_at_most) {
  KernelWatch watch;
  watch.begin(kStart - 10min);
  watch.opened(kStart - 9min);
  board.tell(NodeName("n1"), &watch);
  const Testimony told = ask("n1", kStart);
  EXPECT_TRUE(told.is_well);
  EXPECT_EQ(told.machines.at(NodeName("n1")).kernel, Kernel::Answers);
  EXPECT_EQ(told.machines.at(NodeName("n1")).quiet, 3s);
}

TEST_F(TestimonyBoardTest, what_is_told_is_as_old_as_the_question) {
  KernelWatch watch;
  watch.begin(kStart - 10min);
  watch.opened(kStart - 9min);
  watch.link_ended(port::LinkEnd::Closed, kStart - 1s);
  board.tell(NodeName("n1"), &watch);
  EXPECT_EQ(ask("n1", kStart + 1s).machines.at(NodeName("n1")).quiet, 2s);
}

TEST_F(TestimonyBoardTest, of_nodes_that_it_does_not_know_it_says_nothing) {
  KernelWatch watch;
  watch.begin(kStart);
  board.tell(NodeName("n1"), &watch);
  EXPECT_EQ(ask("n1,n2", kStart).machines.size(), 1U);
  EXPECT_EQ(ask("n1", kStart).machines.at(NodeName("n1")).quiet, std::nullopt);
  board.tell(NodeName("n1"), nullptr);
  EXPECT_TRUE(ask("n1,n2", kStart).machines.empty());
}

TEST_F(TestimonyBoardTest, it_says_nothing_once_the_loop_stands_still) {
  KernelWatch watch;
  watch.begin(kStart);
  watch.opened(kStart);
  board.tell(NodeName("n1"), &watch);
  EXPECT_TRUE(board.answer(kNonce, "n1", kStart + 2s));
  const auto late = board.answer(kNonce, "n1", kStart + 2001ms);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, Error::Kind::Retryable);
  EXPECT_FALSE(TestimonyBoard({8}).answer(kNonce, "n1", kStart));
}

TEST_F(TestimonyBoardTest, a_witness_with_a_fault_of_its_own_says_so) {
  board.tell_alive(kStart + 1s, false);
  EXPECT_FALSE(ask("n1", kStart + 1s).is_well);
}

TEST_F(TestimonyBoardTest, what_is_no_question_is_refused) {
  for (const auto& [nonce, nodes] :
       {std::pair(std::string(), std::string("n1")),
        std::pair(std::string("abc"), std::string("n1")),
        std::pair(std::string(32, 'X'), std::string("n1")),
        std::pair(std::string(kNonce), std::string(kLongestNodes + 1, 'n'))}) {
    const auto answer = board.answer(nonce, nodes, kStart);
    ASSERT_FALSE(answer) << nonce;
    EXPECT_EQ(answer.error().kind, Error::Kind::Invalid);
  }
}

}  // namespace
}  // namespace moonfence::cluster
