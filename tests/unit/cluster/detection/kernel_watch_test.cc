#include "cluster/detection/kernel_watch.h"

#include <gtest/gtest.h>

namespace moonfence::cluster {
namespace {

using namespace std::chrono_literals;
using port::LinkEnd;

struct KernelWatchTest : testing::Test {
  KernelWatch watch;
  Moment now = Moment(1h);
  KernelWatchTest() { watch.begin(now); }

  [[nodiscard]] Kernel word() const { return watch.word(now); }
  // Questions at the pace that it asks for, each of which ends like this.
  void ask(int times, LinkEnd end = LinkEnd::Silent) {
    for (int i = 0; i < times; ++i) {
      const Moment asked = now;
      now += KernelWatch::kProbeEvery;
      watch.answered(end, asked, now);
    }
  }
  void link_lost() {
    watch.opened(now);
    now += 1h;
    watch.link_ended(LinkEnd::Silent, now);
  }
};

TEST_F(KernelWatchTest, who_was_never_heard_is_not_observable_however_silent) {
  ask(1000);
  EXPECT_EQ(word(), Kernel::NotObservable);
  EXPECT_FALSE(watch.is_in_doubt());
}

// Whoever has just started, or taken over, knows of no machine yet that it is dead.
TEST_F(KernelWatchTest, at_first_nobody_is_sure) {
  EXPECT_EQ(word(), Kernel::Unsure);
  ask(KernelWatch::kEnough);
  now = Moment(1h) + KernelWatch::kFirstLook - 1ns;
  EXPECT_EQ(word(), Kernel::Unsure);
  now += 1ns;
  EXPECT_EQ(word(), Kernel::NotObservable);
}

TEST_F(KernelWatchTest, who_was_asked_seldom_is_not_given_up_for_a_minute) {
  ask(KernelWatch::kEnough - 1);
  now = Moment(1h) + KernelWatch::kUnsureFor - 1ns;
  EXPECT_EQ(word(), Kernel::Unsure);
  now += 1ns;
  EXPECT_EQ(word(), Kernel::NotObservable);
}

TEST_F(KernelWatchTest, who_is_never_heard_is_asked_once_a_minute_in_the_end) {
  EXPECT_EQ(watch.pause(now), KernelWatch::kFirstProbes);
  ask(KernelWatch::kEnough);
  EXPECT_EQ(watch.pause(now), 1s);
  ask(2);
  EXPECT_EQ(watch.pause(now), 4s);
  ask(1000, LinkEnd::NotSent);
  EXPECT_EQ(watch.pause(now), 60s);
}

TEST_F(KernelWatchTest, an_open_link_is_an_answer_for_as_long_as_it_is_open) {
  watch.opened(now);
  now += 24h;
  EXPECT_EQ(word(), Kernel::Answers);
}

TEST_F(KernelWatchTest, a_lost_link_is_doubt_and_twenty_questions_in_vain_are_proof) {
  link_lost();
  EXPECT_EQ(word(), Kernel::Answers);  // it was heard less than four seconds ago
  EXPECT_TRUE(watch.is_in_doubt());
  EXPECT_EQ(watch.pause(now), KernelWatch::kProbeEvery);
  ask(19);
  now += 1s;
  EXPECT_EQ(word(), Kernel::Unsure);  // long enough, not often enough
  ask(1);
  EXPECT_EQ(word(), Kernel::Silent);
}

TEST_F(KernelWatchTest, twenty_questions_at_once_are_no_proof) {
  link_lost();
  for (int i = 0; i < 20; ++i) {
    watch.answered(LinkEnd::Silent, now, now + 800ms);
  }
  now += 800ms;
  EXPECT_EQ(word(), Kernel::Answers);
  now += 2s;
  EXPECT_EQ(word(), Kernel::Silent);  // by then it was not heard for four seconds
}

TEST_F(KernelWatchTest, any_answer_in_between_begins_anew) {
  link_lost();
  ask(19);
  ask(1, LinkEnd::Refused);
  EXPECT_EQ(word(), Kernel::Answers);
  ask(19);
  now += 3s;
  EXPECT_NE(word(), Kernel::Silent);
}

// A kubelet that was killed: its kernel closes the link and refuses new ones.
TEST_F(KernelWatchTest, a_refusal_is_an_answer) {
  watch.opened(now);
  watch.link_ended(LinkEnd::Closed, now);
  for (int i = 0; i < 1000; ++i) {
    now += watch.pause(now);
    EXPECT_EQ(word(), Kernel::Answers) << i;
    watch.answered(LinkEnd::Refused, now, now);
  }
  EXPECT_EQ(watch.pause(now), KernelWatch::kSlowest);
  ask(1);  // and now the machine is off
  EXPECT_EQ(watch.pause(now), KernelWatch::kProbeEvery);
  ask(39);
  EXPECT_EQ(word(), Kernel::Silent);
}

TEST_F(KernelWatchTest, a_first_answer_may_be_a_refusal) {
  watch.answered(LinkEnd::Refused, now, now);
  EXPECT_EQ(word(), Kernel::Answers);
}

TEST_F(KernelWatchTest, what_could_not_be_sent_proves_nothing) {
  link_lost();
  ask(100, LinkEnd::NotSent);
  EXPECT_EQ(word(), Kernel::Unsure);
  ask(600, LinkEnd::NotSent);
  EXPECT_EQ(word(), Kernel::NotObservable);  // nobody could find out for a minute
}

TEST_F(KernelWatchTest, when_we_were_late_nothing_that_was_asked_before_counts) {
  link_lost();
  ask(40);
  EXPECT_EQ(word(), Kernel::Silent);
  const Moment before = now;
  watch.begin_anew(now);
  EXPECT_EQ(word(), Kernel::Unsure);
  for (int i = 0; i < 40; ++i) {
    watch.answered(LinkEnd::Silent, before - 1ms, now);
  }
  now += 5s;
  EXPECT_EQ(word(), Kernel::Unsure);
  ask(20);
  EXPECT_EQ(word(), Kernel::Silent);
}

TEST_F(KernelWatchTest, an_old_proof_is_none) {
  link_lost();
  ask(40);
  now += KernelWatch::kFresh;
  EXPECT_EQ(word(), Kernel::Silent);
  now += 1ns;
  EXPECT_EQ(word(), Kernel::Unsure);  // nobody has asked since
  now += KernelWatch::kUnsureFor;
  EXPECT_EQ(word(), Kernel::NotObservable);
  ask(1);
  EXPECT_EQ(word(), Kernel::Silent);  // and nothing was heard meanwhile
}

TEST_F(KernelWatchTest, who_comes_back_answers_at_once) {
  link_lost();
  ask(40);
  watch.opened(now);
  EXPECT_EQ(word(), Kernel::Answers);
  watch.answered(LinkEnd::Silent, now - 500ms, now);  // a question from before
  EXPECT_EQ(word(), Kernel::Answers);
}

}  // namespace
}  // namespace moonfence::cluster
