#include "kube/leader_election/election.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "port/seeded_random.h"

namespace moonfence::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Moment at(Duration since) {
  return Moment(since);
}
WallTime wall(Duration since) {
  return WallTime(std::chrono::hours(500'000) + since);
}

Lease held_by(const std::string& holder, int version, Duration renewed = {}) {
  return {.record = {.holder = holder,
                     .duration = seconds(15),
                     .acquired = wall({}),
                     .renewed = wall(renewed),
                     .transitions = 4,
                     .preferred_holder = {}},
          .uid = Uid("u"),
          .version = ResourceVersion(std::to_string(version)),
          .raw = nullptr};
}

template <class T>
const T* only(const Election::Effects& effects) {
  const T* found = nullptr;
  for (const auto& effect : effects) {
    if (const T* match = std::get_if<T>(&effect)) {
      EXPECT_EQ(found, nullptr) << "twice";
      found = match;
    }
  }
  return found;
}

Error error_of(Error::Kind kind) {
  return {.kind = kind, .text = "test"};
}

class ElectionTest : public testing::Test {
 protected:
  // Reads an absent Lease and has its write answered `took` after it was sent.
  void become_leader(Moment sent, Duration took = {}) {
    (void)election.start();
    const auto effects = election.read(std::nullopt, sent, sent, wall({}), 0);
    const auto* write = only<Election::Write>(effects);
    ASSERT_NE(write, nullptr);
    lease = held_by("us", 1);
    lease.record = write->record;
    const auto then = election.written(lease, sent, sent + took, 0);
    ASSERT_NE(only<Election::Lead>(then), nullptr);
  }

  // As client-go's: what the terms below count by.
  static constexpr ElectionRules kRules = {
      .duration = seconds(15), .renew_deadline = seconds(10), .retry = seconds(2)};
  Election election{"us", kRules};
  Lease lease;
};

TEST_F(ElectionTest, AFreeLeaseIsCreatedAndHeld) {
  become_leader(at(seconds(3)));
  EXPECT_EQ(election.state(), Election::State::Leading);
  EXPECT_EQ(election.leading_until(), at(seconds(18)));
  EXPECT_EQ(lease.record.transitions, 0);
  EXPECT_EQ(lease.record.acquired, wall({}));
}

// client-go counts from the answer; a process that slept 14 s between would believe until 29 s.
TEST_F(ElectionTest, WhatWeHoldCountsFromWhenTheWriteWasSent) {
  become_leader(at(seconds(3)), seconds(9));
  EXPECT_EQ(election.leading_until(), at(seconds(18)));
}

TEST_F(ElectionTest, AnAnswerThatComesWhenTheTermIsOverIsNoLeadership) {
  (void)election.start();
  const auto write = election.read(std::nullopt, at({}), at({}), wall({}), 0);
  Lease answer = held_by("us", 1);
  answer.record = only<Election::Write>(write)->record;
  EXPECT_EQ(only<Election::Lead>(election.written(answer, at({}), at(seconds(15)), 0)), nullptr);
  EXPECT_FALSE(election.leading_until().has_value());
}

TEST_F(ElectionTest, AnotherHoldersLeaseIsLeftAloneForItsOwnDuration) {
  (void)election.start();
  Lease other = held_by("them", 1);
  other.record.duration = seconds(40);
  EXPECT_EQ(only<Election::Write>(election.read(other, at({}), at({}), wall({}), 0)), nullptr);
  EXPECT_EQ(
      only<Election::Write>(election.read(other, at(seconds(39)), at(seconds(39)), wall({}), 0)),
      nullptr);
  EXPECT_NE(
      only<Election::Write>(election.read(other, at(seconds(40)), at(seconds(40)), wall({}), 0)),
      nullptr);
}

TEST_F(ElectionTest, OnlyOurOwnClockJudges) {
  (void)election.start();
  // It says that it was renewed a year ago; we have seen it for a second.
  Lease other = held_by("them", 1, -std::chrono::hours(24 * 365));
  for (const Moment now : {at({}), at(seconds(1))}) {
    EXPECT_EQ(only<Election::Write>(election.read(other, now, now, wall({}), 0)), nullptr);
  }
}

TEST_F(ElectionTest, ARenewalOfTheOtherBeginsTheWaitAgain) {
  (void)election.start();
  (void)election.read(held_by("them", 1), at({}), at({}), wall({}), 0);
  (void)election.read(held_by("them", 2, seconds(14)), at(seconds(14)), at(seconds(14)), wall({}),
                      0);
  const auto effects =
      election.read(held_by("them", 2, seconds(14)), at(seconds(28)), at(seconds(28)), wall({}), 0);
  EXPECT_EQ(only<Election::Write>(effects), nullptr);
}

TEST_F(ElectionTest, TakingOverCountsATransitionAndNamesTheVersion) {
  (void)election.start();
  (void)election.read(held_by("them", 7), at({}), at({}), wall({}), 0);
  const auto effects =
      election.read(held_by("them", 7), at(seconds(15)), at(seconds(15)), wall(seconds(15)), 0);
  const auto* write = only<Election::Write>(effects);
  ASSERT_NE(write, nullptr);
  EXPECT_EQ(write->record.holder, "us");
  EXPECT_EQ(write->record.transitions, 5);
  EXPECT_EQ(write->record.acquired, wall(seconds(15)));
  EXPECT_EQ(write->over->version, ResourceVersion("7"));
}

TEST_F(ElectionTest, ALeaderRenewsWithoutReading) {
  become_leader(at({}));
  const auto effects = election.timer_fired(at(seconds(2)), wall(seconds(2)), 0);
  const auto* write = only<Election::Write>(effects);
  ASSERT_NE(write, nullptr);
  EXPECT_EQ(write->record.acquired, wall({}));
  EXPECT_EQ(write->record.renewed, wall(seconds(2)));
}

TEST_F(ElectionTest, AConflictMeansReadAgainAndAnotherHolderTheEnd) {
  become_leader(at({}));
  (void)election.timer_fired(at(seconds(2)), wall({}), 0);
  EXPECT_NE(only<Election::Read>(
                election.write_failed(error_of(Error::Kind::Conflict), at(seconds(2)), 0)),
            nullptr);
  const auto effects =
      election.read(held_by("them", 9), at(seconds(2)), at(seconds(2)), wall({}), 0);
  EXPECT_NE(only<Election::Lose>(effects), nullptr);
  EXPECT_FALSE(election.leading_until().has_value());
}

TEST_F(ElectionTest, AConflictOverALabelIsSurvived) {
  become_leader(at({}));
  (void)election.timer_fired(at(seconds(2)), wall({}), 0);
  (void)election.write_failed(error_of(Error::Kind::Conflict), at(seconds(2)), 0);
  Lease labelled = lease;
  labelled.version = ResourceVersion("2");
  const auto effects = election.read(labelled, at(seconds(2)), at(seconds(2)), wall({}), 0);
  const auto* write = only<Election::Write>(effects);
  ASSERT_NE(write, nullptr);
  EXPECT_EQ(write->over->version, ResourceVersion("2"));
  EXPECT_EQ(election.state(), Election::State::Leading);
}

TEST_F(ElectionTest, ALostAnswerIsLookedUp) {
  become_leader(at({}));
  const auto renewal = election.timer_fired(at(seconds(2)), wall(seconds(2)), 0);
  (void)election.write_failed(error_of(Error::Kind::Unknown), at(seconds(5)), 0);
  EXPECT_NE(only<Election::Read>(election.timer_fired(at(seconds(7)), wall(seconds(7)), 0)),
            nullptr);
  Lease written = lease;
  written.version = ResourceVersion("2");
  written.record = only<Election::Write>(renewal)->record;
  (void)election.read(written, at(seconds(7)), at(seconds(7)), wall(seconds(7)), 0);
  // from when that write left, not from when we learnt of it
  EXPECT_EQ(election.leading_until(), at(seconds(17)));
}

TEST_F(ElectionTest, WithoutRenewalItStepsDownAtTheDeadline) {
  become_leader(at({}));
  Moment now = at(seconds(2));
  for (int attempt = 0; attempt < 4; ++attempt) {
    (void)election.timer_fired(now, wall({}), 0);
    (void)election.write_failed(error_of(Error::Kind::Retryable), now, 0);
    EXPECT_EQ(election.leading_until(), at(seconds(15)));
    now += seconds(2);
  }
  EXPECT_NE(only<Election::Lose>(election.timer_fired(now, wall({}), 0)), nullptr);
  EXPECT_EQ(now, at(seconds(10)));
  EXPECT_FALSE(election.leading_until().has_value());
}

TEST_F(ElectionTest, AProcessThatWasStoppedFindsItselfDeposed) {
  become_leader(at({}));
  EXPECT_NE(only<Election::Lose>(election.timer_fired(at(seconds(30)), wall({}), 0)), nullptr);
}

TEST_F(ElectionTest, ADeletedLeaseIsLost) {
  become_leader(at({}));
  (void)election.timer_fired(at(seconds(2)), wall({}), 0);
  (void)election.write_failed(error_of(Error::Kind::NotFound), at(seconds(2)), 0);
  const auto effects = election.read(std::nullopt, at(seconds(2)), at(seconds(2)), wall({}), 0);
  EXPECT_NE(only<Election::Lose>(effects), nullptr);
}

// An etcd that was restored from a snapshot names whoever held it then. He had lost it since, and
// took it at once while the other one still believed.
TEST_F(ElectionTest, OurOwnNameInALeaseThatWentBackIsNoLeadership) {
  (void)election.start();
  (void)election.read(held_by("them", 200), at({}), at({}), wall({}), 0);
  const Lease restored = held_by("us", 100);
  const auto read = [&](Duration when) {
    return election.read(restored, at(when), at(when), wall(when), 0);
  };
  EXPECT_EQ(only<Election::Write>(read(seconds(1))), nullptr);
  EXPECT_EQ(only<Election::Write>(read(Election::kLongestTerm)), nullptr);
  EXPECT_NE(only<Election::Write>(read(seconds(1) + Election::kLongestTerm)), nullptr);
}

TEST_F(ElectionTest, AFreeLeaseThatWentBackOrThatSomebodyDeletedIsNotTakenWhileATermMayLast) {
  for (const std::optional<Lease>& now_there :
       {std::optional<Lease>(held_by("", 100)), std::optional<Lease>()}) {
    election = Election("us", kRules);
    (void)election.start();
    (void)election.read(held_by("them", 200), at({}), at({}), wall({}), 0);
    const auto read = [&](Duration when) {
      return election.read(now_there, at(when), at(when), wall(when), 0);
    };
    EXPECT_EQ(only<Election::Write>(read(seconds(1))), nullptr);
    EXPECT_EQ(only<Election::Write>(read(Election::kLongestTerm)), nullptr);
    EXPECT_NE(only<Election::Write>(read(seconds(1) + Election::kLongestTerm)), nullptr);
  }
}

TEST_F(ElectionTest, WhoHeldALeaseThatWentBackTakesItAgainAsSoonAsItsRecordHasRunOut) {
  become_leader(at({}));
  lease.version = ResourceVersion("300");
  (void)election.written(lease, at({}), at({}), 0);
  (void)election.timer_fired(at(seconds(2)), wall({}), 0);
  (void)election.write_failed(error_of(Error::Kind::Conflict), at(seconds(2)), 0);
  const Lease restored = held_by("them", 100);
  const auto read = [&](Duration when) {
    return election.read(restored, at(when), at(when), wall(when), 0);
  };
  EXPECT_NE(only<Election::Lose>(read(seconds(2))), nullptr);
  EXPECT_EQ(only<Election::Write>(read(seconds(16))), nullptr);
  EXPECT_NE(only<Election::Write>(read(seconds(17))), nullptr);
}

TEST_F(ElectionTest, APreferredHolderIsMadeRoomFor) {
  become_leader(at({}));
  const auto renewal = election.timer_fired(at(seconds(2)), wall({}), 0);
  Lease answer = lease;
  answer.record = only<Election::Write>(renewal)->record;
  answer.record.preferred_holder = "them";
  const auto effects = election.written(answer, at(seconds(2)), at(seconds(2)), 0);
  EXPECT_NE(only<Election::Lose>(effects), nullptr);
  // and not taken back while that one is wanted
  EXPECT_EQ(
      only<Election::Write>(election.read(answer, at(seconds(60)), at(seconds(60)), wall({}), 0)),
      nullptr);
}

TEST_F(ElectionTest, ReleaseFreesTheLeaseAndEndsEverything) {
  become_leader(at({}));
  const auto effects = election.release(wall(seconds(1)));
  const auto* write = only<Election::Write>(effects);
  ASSERT_NE(write, nullptr);
  EXPECT_EQ(write->record.holder, "");
  EXPECT_EQ(write->record.duration, seconds(1));
  Lease freed = lease;
  freed.record = write->record;
  const auto then = election.written(freed, at(seconds(1)), at(seconds(1)), 0);
  EXPECT_NE(only<Election::Released>(then), nullptr);
  EXPECT_FALSE(election.leading_until().has_value());
  EXPECT_TRUE(election.timer_fired(at(seconds(2)), wall({}), 0).empty());
}

TEST_F(ElectionTest, AFollowerReleasesNothing) {
  (void)election.start();
  (void)election.read(held_by("them", 1), at({}), at({}), wall({}), 0);
  const auto effects = election.release(wall({}));
  EXPECT_NE(only<Election::Released>(effects), nullptr);
  EXPECT_EQ(only<Election::Write>(effects), nullptr);
}

TEST_F(ElectionTest, CandidatesDriftApart) {
  (void)election.start();
  const auto early = election.read(held_by("them", 1), at({}), at({}), wall({}), 0);
  const auto late = election.read(held_by("them", 1), at({}), at({}), wall({}), 0.99);
  EXPECT_EQ(only<Election::SetTimer>(early)->delay, seconds(1));
  EXPECT_GT(only<Election::SetTimer>(late)->delay, milliseconds(1100));
}

// Hand-over after a crash: what is seen late, and what is waited for.
TEST_F(ElectionTest, AFollowerLooksInTheVeryMomentInWhichTheLeaseIsFree) {
  Election follower("us", {});
  (void)follower.start();
  Lease other = held_by("them", 1);
  other.record.duration = seconds(5);
  const auto first = follower.read(other, at({}), at({}), wall({}), 0.99);
  EXPECT_LE(only<Election::SetTimer>(first)->delay, milliseconds(600));
  const Moment late = at(milliseconds(4900));
  const auto last = follower.read(other, late, late, wall({}), 0.99);
  EXPECT_EQ(only<Election::SetTimer>(last)->delay, milliseconds(100));
}

// A webhook that takes 30 s, three times in a row: longer than the term, and nobody else took it.
TEST_F(ElectionTest, LeadershipIsNotLostToAWriteThatIsSlowAndSucceeds) {
  become_leader(at({}));
  Moment now = at(seconds(2));
  for (int time = 0; time < 3; ++time) {
    auto effects = election.timer_fired(now, wall(now.time_since_epoch()), 0);
    const auto* write = only<Election::Write>(effects);
    ASSERT_NE(write, nullptr);
    const LeaseRecord record = write->record;
    const Moment sent = now;
    for (; now < sent + seconds(30); now += seconds(2)) {
      effects = election.timer_fired(now, wall({}), 0);
      EXPECT_NE(only<Election::Read>(effects), nullptr);
      EXPECT_EQ(only<Election::Lose>(election.read(lease, now, now, wall({}), 0)), nullptr);
    }
    lease.record = record;
    lease.version = ResourceVersion(lease.version.text() + "0");
    EXPECT_EQ(only<Election::Lose>(election.written(lease, sent, now, 0)), nullptr);
    EXPECT_EQ(election.state(), Election::State::Leading);
    // It counts from the last read that still showed the record before.
    EXPECT_EQ(election.leading_until(), now - seconds(2) + seconds(15));
  }
}

// While it is under way nobody acts beyond the term that is proven.
TEST_F(ElectionTest, AWriteThatIsUnderWayProlongsNothing) {
  become_leader(at({}));
  (void)election.timer_fired(at(seconds(2)), wall({}), 0);
  (void)election.read(lease, at(seconds(4)), at(seconds(4)), wall({}), 0);
  EXPECT_EQ(election.leading_until(), at(seconds(15)));
}

TEST_F(ElectionTest, AWriteThatMayBeLostIsSentOnceMoreBesideTheFirst) {
  become_leader(at({}));
  const auto first = election.timer_fired(at(seconds(2)), wall(seconds(2)), 0);
  (void)election.read(lease, at(seconds(4)), at(seconds(4)), wall({}), 0);
  const auto second = election.timer_fired(at(seconds(6)), wall(seconds(6)), 0);
  ASSERT_NE(only<Election::Write>(second), nullptr);
  EXPECT_EQ(only<Election::Write>(second)->record, only<Election::Write>(first)->record);
  EXPECT_EQ(only<Election::Write>(second)->over->version, lease.version);
  EXPECT_EQ(only<Election::Write>(election.timer_fired(at(seconds(8)), wall({}), 0)), nullptr);
  // The first is lost; the second does it.
  EXPECT_TRUE(election.write_failed(error_of(Error::Kind::Unknown), at(seconds(9)), 0).empty());
  lease.record = only<Election::Write>(first)->record;
  (void)election.written(lease, at(seconds(6)), at(seconds(9)), 0);
  EXPECT_EQ(election.state(), Election::State::Leading);
  EXPECT_EQ(election.leading_until(), at(seconds(21)));
}

TEST_F(ElectionTest, AnotherNameIsSeenWhileAWriteIsUnderWay) {
  become_leader(at({}));
  (void)election.timer_fired(at(seconds(2)), wall({}), 0);
  const auto effects =
      election.read(held_by("them", 9), at(seconds(4)), at(seconds(4)), wall({}), 0);
  EXPECT_NE(only<Election::Lose>(effects), nullptr);
}

TEST_F(ElectionTest, WhatIsWrittenLastsForTheTermThatTheServersPaceAsksFor) {
  become_leader(at({}));
  election.set_term(seconds(40));
  const auto effects = election.timer_fired(at(seconds(2)), wall({}), 0);
  EXPECT_EQ(only<Election::Write>(effects)->record.duration, seconds(40));
  EXPECT_EQ(election.leading_until(), at(seconds(15)));  // until it stands there
  lease.record = only<Election::Write>(effects)->record;
  (void)election.written(lease, at(seconds(2)), at(seconds(3)), 0);
  EXPECT_EQ(election.leading_until(), at(seconds(42)));
}

// Where replicas sit. "them" is on n1, we on n2.
class SeatsTest : public ElectionTest {
 protected:
  SeatsTest() {
    election = Election("us", kRules, {.node = "n2", .seat_of = [this](const std::string& node) {
                                         return seats.contains(node) ? seats.at(node) : Seat::Well;
                                       }});
    other = held_by("them", 1);
    other.notes.seat = "them n1";
  }
  std::map<std::string, Seat> seats;
  Lease other;
};

TEST_F(SeatsTest, WhoLeadsSaysOnWhichNode) {
  (void)election.start();
  const auto effects = election.read(std::nullopt, at({}), at({}), wall({}), 0);
  EXPECT_EQ(only<Election::Write>(effects)->notes.seat, "us n2");
}

TEST_F(SeatsTest, OneThatSitsBetterAsksForTheLeaseAndLeavesItsRecordAsItIs) {
  (void)election.start();
  EXPECT_EQ(only<Election::Write>(election.read(other, at({}), at({}), wall({}), 0)), nullptr);
  seats["n1"] = Seat::Down;
  const auto effects = election.read(other, at(seconds(1)), at(seconds(1)), wall({}), 0);
  const auto* write = only<Election::Write>(effects);
  ASSERT_NE(write, nullptr);
  EXPECT_EQ(write->record, other.record);
  EXPECT_EQ(write->notes.wanted_by, "us");
  EXPECT_EQ(write->notes.seat, "them n1");
  EXPECT_EQ(election.state(), Election::State::Following);
  // Once: the note stays until the holder has read it.
  other.version = ResourceVersion("2");
  other.notes.wanted_by = "us";
  (void)election.written(other, at(seconds(1)), at(seconds(1)), 0);
  EXPECT_EQ(
      only<Election::Write>(election.read(other, at(seconds(2)), at(seconds(2)), wall({}), 0)),
      nullptr);
}

// A health source told its holder, and nobody else asks one.
TEST_F(SeatsTest, AHolderThatSaysThatItsNodeIsDownIsBelieved) {
  (void)election.start();
  other.notes.seat = "them n1 down";
  const auto effects = election.read(other, at({}), at({}), wall({}), 0);
  const auto* write = only<Election::Write>(effects);
  ASSERT_NE(write, nullptr);
  EXPECT_EQ(write->notes.wanted_by, "us");
}

TEST_F(SeatsTest, WhoLeadsSaysThatItsNodeIsDown) {
  become_leader(at({}));
  seats["n2"] = Seat::Down;
  auto effects = election.timer_fired(at(seconds(2)), wall(seconds(2)), 0);
  ASSERT_NE(only<Election::Write>(effects), nullptr);
  EXPECT_EQ(only<Election::Write>(effects)->notes.seat, "us n2 down");
  lease.record = only<Election::Write>(effects)->record;
  (void)election.written(lease, at(seconds(2)), at(seconds(2)), 0);
  seats["n2"] = Seat::Leaving;  // that everybody sees
  effects = election.timer_fired(at(seconds(4)), wall(seconds(4)), 0);
  ASSERT_NE(only<Election::Write>(effects), nullptr);
  EXPECT_EQ(only<Election::Write>(effects)->notes.seat, "us n2");
}

TEST_F(SeatsTest, OneThatSitsAsBadlyDoesNotAsk) {
  (void)election.start();
  seats["n1"] = seats["n2"] = Seat::Down;
  EXPECT_EQ(only<Election::Write>(election.read(other, at({}), at({}), wall({}), 0)), nullptr);
}

TEST_F(SeatsTest, ANoteOfAHolderBeforeSaysNothing) {
  (void)election.start();
  seats["n1"] = Seat::Down;
  other.notes.seat = "somebody n1";
  EXPECT_EQ(only<Election::Write>(election.read(other, at({}), at({}), wall({}), 0)), nullptr);
}

TEST_F(SeatsTest, ALeaderOnANodeThatIsDownHandsOverWhenOneAsks) {
  become_leader(at({}));
  seats["n2"] = Seat::Down;
  Lease asked = lease;
  asked.version = ResourceVersion("2");
  asked.notes.wanted_by = "them";
  (void)election.timer_fired(at(seconds(2)), wall({}), 0);
  (void)election.write_failed(error_of(Error::Kind::Conflict), at(seconds(2)), 0);
  auto effects = election.read(asked, at(seconds(2)), at(seconds(2)), wall({}), 0);
  EXPECT_NE(only<Election::Wanted>(effects), nullptr);
  EXPECT_EQ(election.state(), Election::State::Leading);  // until what it started has ended
  effects = election.hand_over(wall(seconds(3)));
  const auto* write = only<Election::Write>(effects);
  ASSERT_NE(write, nullptr);
  EXPECT_EQ(write->record.holder, "");
  Lease freed = asked;
  freed.version = ResourceVersion("3");
  freed.record = write->record;
  effects = election.written(freed, at(seconds(3)), at(seconds(3)), 0);
  EXPECT_NE(only<Election::Lose>(effects), nullptr);
  EXPECT_FALSE(election.leading_until().has_value());
  EXPECT_EQ(election.state(), Election::State::Following);
}

TEST_F(SeatsTest, ALeaderThatIsNotAskedGoesOn) {
  become_leader(at({}));
  seats["n2"] = Seat::Down;
  for (int second = 2; second < 60; second += 2) {
    const Moment now = at(seconds(second));
    const auto effects = election.timer_fired(now, wall(seconds(second)), 0);
    ASSERT_NE(only<Election::Write>(effects), nullptr);
    EXPECT_EQ(only<Election::Wanted>(effects), nullptr);
    lease.record = only<Election::Write>(effects)->record;
    (void)election.written(lease, now, now, 0);
  }
  EXPECT_EQ(election.state(), Election::State::Leading);
}

TEST_F(SeatsTest, ALeaderThatSitsWellStays) {
  become_leader(at({}));
  Lease asked = lease;
  asked.version = ResourceVersion("2");
  asked.notes.wanted_by = "them";
  (void)election.timer_fired(at(seconds(2)), wall({}), 0);
  (void)election.write_failed(error_of(Error::Kind::Conflict), at(seconds(2)), 0);
  const auto effects = election.read(asked, at(seconds(2)), at(seconds(2)), wall({}), 0);
  EXPECT_EQ(only<Election::Wanted>(effects), nullptr);
  EXPECT_EQ(only<Election::Write>(effects)->notes.wanted_by, "");
}

TEST_F(SeatsTest, AFreeLeaseIsLeftToThoseThatSitBetterForAWhileAndThenTaken) {
  for (const auto& [seat, patience] :
       {std::pair(Seat::Leaving, seconds(3)), std::pair(Seat::Down, seconds(6))}) {
    election = Election("us", kRules,
                        {.node = "n2", .seat_of = [seat = seat](const auto&) { return seat; }});
    (void)election.start();
    Lease free = held_by("", 1);
    EXPECT_EQ(only<Election::Write>(election.read(free, at({}), at({}), wall({}), 0)), nullptr);
    const Moment before = at(patience - milliseconds(1));
    EXPECT_EQ(only<Election::Write>(election.read(free, before, before, wall({}), 0)), nullptr);
    EXPECT_NE(only<Election::Write>(election.read(free, at(patience), at(patience), wall({}), 0)),
              nullptr);
  }
}

// Three candidates over a server that loses requests, loses answers and is slow, and candidates
// that stop for a while: at no moment do two of them hold, by their own account, the right to act.
class Contest {
 public:
  // With `restores` the store goes back in time again and again. Nobody stops for longer than a
  // term then: who has not seen the other one cannot know that he was there.
  explicit Contest(std::uint64_t seed, bool restores = false) : random_(seed), restores_(restores) {
    if (restores_) {
      save_and_restore();
    }
    for (int index = 0; index < 3; ++index) {
      candidates_.push_back(std::make_unique<Election>(
          "c" + std::to_string(index), ElectionRules{},
          Seats{.node = "n" + std::to_string(index),
                .seat_of = [this](const std::string& node) { return seats_[node]; }}));
      const std::size_t who = candidates_.size() - 1;
      later({}, [this, who] { perform(who, candidates_[who]->start()); });
    }
  }

  // How often the leadership changed; ends at the first overlap.
  int run(Duration length) {
    while (!events_.empty() && events_.begin()->first.first < at(length)) {
      auto event = events_.extract(events_.begin());
      now_ = event.key().first;
      event.mapped()();
      check();
    }
    return changes_;
  }

 private:
  void later(Duration delay, std::function<void()> what) {
    events_.emplace(std::pair(now_ + delay, next_++), std::move(what));
  }
  Duration draw(Duration longest) {
    return Duration(
        static_cast<Duration::rep>(random_.unit() * static_cast<double>(longest.count())));
  }
  bool chance(double share) { return random_.unit() < share; }

  // Now and then a candidate is stopped: everything it would hear comes later.
  Duration pause() {
    return chance(0.02) ? draw(restores_ ? seconds(2) : seconds(40)) : Duration::zero();
  }

  void save_and_restore() {
    later(draw(std::chrono::minutes(4)), [this] {
      later(draw(seconds(90)), [this, saved = stored_] {
        stored_ = saved;
        // The next ones lie between those that were and are none of them.
        version_ = (saved ? std::stoi(saved->version.text()) : 0) / kStep * kStep + ++restored_;
        save_and_restore();
      });
    });
  }

  void hear(std::size_t who, Duration delay, std::function<Election::Effects(Election&)> what) {
    later(delay + pause(),
          [this, who, what = std::move(what)] { perform(who, what(*candidates_[who])); });
  }

  void perform(std::size_t who, const Election::Effects& effects) {
    for (const auto& effect : effects) {
      if (std::holds_alternative<Election::Read>(effect)) {
        read(who);
      } else if (std::holds_alternative<Election::Wanted>(effect)) {
        hear(who, draw(seconds(3)), [this](Election& election) {
          return election.hand_over(wall(now_.time_since_epoch()));
        });
      } else if (const auto* write = std::get_if<Election::Write>(&effect)) {
        send(who, *write);
      } else if (const auto* timer = std::get_if<Election::SetTimer>(&effect)) {
        const int set = ++timers_[who];
        hear(who, timer->delay, [this, who, set](Election& election) {
          return timers_[who] == set
                     ? election.timer_fired(now_, wall(now_.time_since_epoch()), random_.unit())
                     : Election::Effects{};
        });
      } else if (std::holds_alternative<Election::Lead>(effect)) {
        ++changes_;
      }
    }
  }

  // Nodes fall and come back, and terms are as long as the server's pace asks for.
  void draw_conditions(Election& election) {
    if (chance(0.01)) {
      seats_["n" + std::to_string(random_.next() % 3)] = static_cast<Seat>(random_.next() % 3);
    }
    election.set_term(seconds(5 + static_cast<int>(random_.next() % 30)));
  }

  void read(std::size_t who) {
    draw_conditions(*candidates_[who]);
    const Moment sent = now_;
    if (chance(0.1)) {
      hear(who, seconds(5),
           [this](Election& election) { return election.read_failed(now_, random_.unit()); });
      return;
    }
    later(draw(milliseconds(400)), [this, who, sent] {
      hear(who, draw(milliseconds(400)), [this, sent, seen = stored_](Election& election) {
        return election.read(seen, sent, now_, wall(now_.time_since_epoch()), random_.unit());
      });
    });
  }

  void send(std::size_t who, const Election::Write& write) {
    const Moment sent = now_;
    const auto fail = [this, who](Error::Kind kind, Duration delay) {
      hear(who, delay, [this, kind](Election& election) {
        return election.write_failed(error_of(kind), now_, random_.unit());
      });
    };
    if (chance(0.1)) {
      fail(Error::Kind::Unknown, seconds(5));
      return;
    }
    // Some take longer than a term.
    later(draw(chance(0.1) ? seconds(30) : seconds(2)), [this, who, sent, write, fail] {
      const bool fits = stored_.has_value() == write.over.has_value() &&
                        (!stored_ || stored_->version == write.over->version);
      if (!fits) {
        fail(Error::Kind::Conflict, draw(milliseconds(400)));
        return;
      }
      stored_ = Lease{.record = write.record,
                      .uid = Uid("u"),
                      .version = ResourceVersion(std::to_string(version_ += kStep)),
                      .notes = write.notes,
                      .raw = nullptr};
      if (chance(0.1)) {
        fail(Error::Kind::Unknown, seconds(5));
        return;
      }
      hear(who, draw(milliseconds(400)), [this, sent, lease = *stored_](Election& election) {
        return election.written(lease, sent, now_, random_.unit());
      });
    });
  }

  void check() {
    int leading = 0;
    for (const auto& candidate : candidates_) {
      const auto until = candidate->leading_until();
      leading += until && now_ < *until ? 1 : 0;
    }
    ASSERT_LE(leading, 1) << "at " << format_duration(now_.time_since_epoch());
  }

  port::SeededRandom random_;
  Moment now_{};
  std::vector<std::unique_ptr<Election>> candidates_;
  std::map<std::pair<Moment, int>, std::function<void()>> events_;
  int next_ = 0;
  std::map<std::string, Seat> seats_;
  std::map<std::size_t, int> timers_;  // how many were set: the newest counts
  std::optional<Lease> stored_;
  static constexpr int kStep = 1000;
  const bool restores_;
  int version_ = 0;
  int restored_ = 0;  // how often
  int changes_ = 0;
};

TEST(ElectionContest, TermsDoNotOverlapWhenTheStoreGoesBackInTime) {
  int changes = 0;
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    changes += Contest(seed, /*restores=*/true).run(std::chrono::minutes(20));
    if (testing::Test::HasFatalFailure()) {
      return;
    }
  }
  EXPECT_GT(changes, 160);
}

TEST(ElectionContest, TermsNeverOverlap) {
  int changes = 0;
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    changes += Contest(seed).run(std::chrono::minutes(20));
    if (testing::Test::HasFatalFailure()) {
      return;
    }
  }
  EXPECT_GT(changes, 160);  // else it showed nothing
}

}  // namespace
}  // namespace moonfence::kube
