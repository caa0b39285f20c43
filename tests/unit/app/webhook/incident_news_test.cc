#include "app/webhook/incident_news.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "unit/app/records_fixture.h"
#include "unit/app/status_fixture.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using audit::Reason;
using audit::Record;
using State = fence::IncidentStatus::State;
using Ids = std::vector<std::string>;

const IncidentId kIncident("i1");

fence::IncidentRecord record_in_cluster() {
  fence::IncidentRecord record;
  record.id = kIncident;
  record.node = NodeName("n1");
  record.opened = kTestNow - 5min;
  record.steps.push_back({.policy = "noobaa", .sent = kTestNow - 4min});
  return record;
}

struct IncidentNewsTest : testing::Test {
  void hear(Record::Kind kind, Reason reason) { news.hear(record_of(kind, reason), wall()); }
  void open(Reason reason = Reason::NodeUnknown) {
    hear(Record::Kind::IncidentOpened, reason);
    snapshot.stands = {{.incident_status = {.incident = kIncident, .node = NodeName("n1")}}};
  }
  void close(Reason reason) {
    hear(Record::Kind::IncidentClosed, reason);
    snapshot.stands.clear();
  }
  void stand(State state, std::optional<Reason> reason = {}) {
    snapshot.stands.at(0).incident_status.state = state;
    snapshot.stands.at(0).incident_status.reason = reason;
  }
  // Second by second.
  void pass(Duration time) {
    for (const Moment end = now + time; now < end;) {
      now += 1s;
      news.look(snapshot, true, now, wall());
    }
  }
  [[nodiscard]] WallTime wall() const { return kTestNow + now.time_since_epoch(); }
  // What was told since the last time, by ids without the time that those of attention end in.
  Ids told() {
    pass(1s);
    Ids ids;
    for (IncidentEvent& event : std::exchange(events, {})) {
      event.trouble.reset();
      ids.push_back(id_of(event));
    }
    return ids;
  }
  // The ids of all attention, whole.
  std::set<std::string> calls() {
    std::set<std::string> ids;
    for (const IncidentEvent& event : std::exchange(events, {})) {
      if (event.phase == IncidentPhase::Attention) {
        ids.insert(id_of(event));
      }
    }
    return ids;
  }

  std::vector<IncidentEvent> events;
  IncidentNews news{[this](const IncidentEvent& event) { events.push_back(event); }};
  StatusSnapshot snapshot = quiet_snapshot();
  Moment now{};
};

TEST_F(IncidentNewsTest, an_incident_is_told_as_it_opens_acts_and_settles) {
  // row WH-01
  open();
  EXPECT_EQ(told(), Ids{"i1-opened"});
  hear(Record::Kind::Intent, Reason::PolicyDeletesPod);
  hear(Record::Kind::Outcome, Reason::Done);
  hear(Record::Kind::Intent, Reason::PolicyDeletesPod);
  EXPECT_EQ(told(), Ids{"i1-acting"}) << "once, and not for each pod";
  close(Reason::Settled);
  EXPECT_EQ(told(), Ids{"i1-settled"});
  EXPECT_EQ(told(), Ids{});
}

TEST_F(IncidentNewsTest, a_taint_of_ours_is_not_acting) {
  open();
  hear(Record::Kind::Intent, Reason::SetsQuarantine);
  hear(Record::Kind::Intent, Reason::SetsSilentTaint);
  EXPECT_EQ(told(), Ids{"i1-opened"});
  hear(Record::Kind::Intent, Reason::SetsOutOfService);
  EXPECT_EQ(told(), Ids{"i1-acting"}) << "that one evicts pods";
}

TEST_F(IncidentNewsTest, the_pods_are_counted_as_on_the_status_page) {
  IncidentBook book;
  tell_incident(book);
  open();
  snapshot.under_way = book.under_way();
  (void)told();
  close(Reason::Settled);
  snapshot.past = std::exchange(snapshot.under_way, {});
  pass(1s);
  ASSERT_EQ(events.size(), 1U);
  ASSERT_TRUE(events[0].pods);
  EXPECT_EQ(events[0].pods->judged, 3U);
  EXPECT_EQ(events[0].pods->deleted, 1U);
  EXPECT_EQ(events[0].pods->not_deleted, 1U);
  EXPECT_EQ(events[0].pods->left_alone, 1U);
  EXPECT_TRUE(events[0].enforces);
}

TEST_F(IncidentNewsTest, somebody_is_called_when_it_is_held_for_a_minute_and_once) {
  open();
  (void)told();
  stand(State::Held, Reason::TooManyDown);
  pass(59s);
  EXPECT_EQ(events.size(), 0U);
  pass(2min);
  EXPECT_EQ(told(), Ids{"i1-attention-too_many_down"});
  pass(5h);
  EXPECT_EQ(told(), Ids{}) << "as long as it lasts";
}

TEST_F(IncidentNewsTest, a_pass_in_between_ends_no_trouble) {
  open();
  (void)told();
  for (int i = 0; i < 20; ++i) {
    stand(State::Fails, Reason::StillFailing);
    pass(5s);
    stand(State::UnderWay);
    pass(2s);
  }
  EXPECT_EQ(told(), Ids{"i1-attention-still_failing"});
}

TEST_F(IncidentNewsTest, another_cause_is_told_and_the_first_again_only_after_an_hour) {
  open();
  stand(State::Held, Reason::TooManyDown);
  pass(2min);
  stand(State::Held, Reason::ZoneDisrupted);
  pass(10s);
  stand(State::Held, Reason::TooManyDown);
  pass(10s);
  EXPECT_EQ(told(), (Ids{"i1-opened", "i1-attention-too_many_down", "i1-attention-zone_disrupted"}))
      << "a cause that comes and goes tells nobody anything";
  stand(State::Held, Reason::ZoneDisrupted);
  pass(1h);
  stand(State::Held, Reason::TooManyDown);
  EXPECT_EQ(told(), Ids{"i1-attention-too_many_down"});
}

TEST_F(IncidentNewsTest, the_same_cause_after_a_good_hour_is_told_again) {
  open();
  stand(State::Fails, Reason::StillFailing);
  pass(2min);
  stand(State::UnderWay);
  pass(1h);
  (void)told();
  stand(State::Fails, Reason::StillFailing);
  pass(61s);
  EXPECT_EQ(told(), Ids{"i1-attention-still_failing"});
}

TEST_F(IncidentNewsTest, a_new_trouble_is_no_double_of_one_that_an_earlier_leader_told) {
  const auto held = [this] {
    news.forget();
    news.recall(record_in_cluster(), wall());
    open(Reason::TookOver);
    stand(State::Fails, Reason::Refused);
    pass(2min);
  };
  held();  // the first leader; then all is well, and somebody else leads
  stand(State::UnderWay);
  pass(1min);
  held();
  EXPECT_EQ(calls().size(), 2U) << "its receiver would drop the second page";
}

TEST_F(IncidentNewsTest, each_trouble_of_one_leader_has_its_own_id_too) {
  open();
  stand(State::Fails, Reason::StillFailing);
  pass(2min);
  stand(State::UnderWay);
  pass(1h);
  stand(State::Fails, Reason::StillFailing);
  pass(2min);
  EXPECT_EQ(calls().size(), 2U);
}

TEST_F(IncidentNewsTest, what_nobody_knows_of_is_in_no_trouble) {
  open();
  (void)told();
  stand(State::Held, Reason::TooManyDown);
  pass(50s);
  const auto stands = std::exchange(snapshot.stands, {});
  pass(1min);
  snapshot.stands = stands;
  pass(50s);
  EXPECT_EQ(told(), Ids{}) << "FencingIncident does not call it Stalled either";
  pass(15s);
  EXPECT_EQ(told(), Ids{"i1-attention-too_many_down"});
}

TEST_F(IncidentNewsTest, one_whose_pods_have_no_replacement_needs_somebody_and_is_over) {
  open();
  (void)told();
  close(Reason::Unreplaced);
  EXPECT_EQ(told(), (Ids{"i1-attention-unreplaced", "i1-settled"}));
}

TEST_F(IncidentNewsTest, one_that_is_opened_anew_is_told_when_there_is_news) {
  for (const Reason anew : {Reason::EntryExpired, Reason::PoliciesChanged}) {
    open(anew);
    close(Reason::Settled);
    EXPECT_EQ(told(), Ids{}) << "once an hour for each node that is down would be noise";
  }
  open(Reason::EntryExpired);
  EXPECT_EQ(told(), Ids{});
  hear(Record::Kind::Intent, Reason::PolicyDeletesPod);
  close(Reason::Settled);
  EXPECT_EQ(told(), (Ids{"i1-opened", "i1-acting", "i1-settled"}));
}

TEST_F(IncidentNewsTest, what_is_handed_over_is_not_settled) {
  for (const Reason over : {Reason::SteppedDown, Reason::Stopping, Reason::StoreWentBack}) {
    open();
    EXPECT_EQ(told(), Ids{"i1-opened"});
    close(over);
    EXPECT_EQ(told(), Ids{});
  }
}

TEST_F(IncidentNewsTest, the_next_leader_tells_an_incident_that_acted_by_the_same_ids) {
  // row WH-02
  fence::IncidentRecord record = record_in_cluster();
  record.opened_for = Reason::NodeDeleted;
  record.steps[0].planned = kTestNow - 3min;
  record.steps.push_back({.kind = fence::IncidentRecord::Step::Kind::TaintNode,
                          .planned = kTestNow - 4min,
                          .sent = kTestNow - 1min});
  record.steps.push_back({.planned = kTestNow - 5min});  // never sent
  news.recall(record, wall());
  open(Reason::TookOver);
  snapshot.stands.at(0).incident_status.opened = kTestNow - 5min;
  pass(1s);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(id_of(events[0]), "i1-opened");
  EXPECT_EQ(id_of(events[1]), "i1-acting");
  EXPECT_EQ(events[0].opened, kTestNow - 5min) << "when it was opened first";
  EXPECT_EQ(events[0].at, kTestNow - 5min) << "the same event, so the same words";
  EXPECT_EQ(events[0].reason, Reason::NodeDeleted);
  EXPECT_EQ(events[1].at, kTestNow - 4min);
  EXPECT_EQ(events[1].reason, Reason::SetsOutOfService);
  events.clear();
  hear(Record::Kind::Intent, Reason::PolicyDeletesPod);
  EXPECT_EQ(told(), Ids{});
}

TEST_F(IncidentNewsTest, one_that_has_not_acted_is_told_by_its_record_too) {
  fence::IncidentRecord record = record_in_cluster();
  record.steps[0].sent.reset();
  news.recall(record, wall());
  open(Reason::TookOver);
  pass(1s);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(id_of(events[0]), "i1-opened");
  EXPECT_EQ(events[0].reason, Reason::NodeUnknown);
  EXPECT_EQ(events[0].at, kTestNow - 5min);
  events.clear();
  news.forget();
  record.opened_for = Reason::EntryExpired;
  news.recall(record, wall());
  open(Reason::TookOver);
  EXPECT_EQ(told(), Ids{}) << "nothing is new yet";
}

TEST_F(IncidentNewsTest, the_next_leader_tells_again_what_has_just_settled_and_nothing_older) {
  fence::IncidentRecord record = record_in_cluster();
  record.closed = fence::IncidentRecord::Closed{.at = kTestNow - 1min, .reason = Reason::Settled};
  news.recall(record, wall());
  record.id = IncidentId("i0");
  record.closed->at = kTestNow - 10min;
  news.recall(record, wall());
  EXPECT_EQ(told(), Ids{"i1-settled"});
}

TEST_F(IncidentNewsTest, the_next_leader_tells_again_that_pods_have_no_replacement) {
  open();
  (void)told();
  close(Reason::Unreplaced);
  pass(1s);
  const std::set<std::string> before = calls();
  EXPECT_EQ(before.size(), 1U);
  news.forget();
  fence::IncidentRecord record = record_in_cluster();
  record.closed = fence::IncidentRecord::Closed{.at = wall() - 2s, .reason = Reason::Unreplaced};
  news.recall(record, wall());
  pass(1s);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].phase, IncidentPhase::Attention);
  EXPECT_EQ(events[1].phase, IncidentPhase::Settled);
  EXPECT_EQ(calls(), before);
}

TEST_F(IncidentNewsTest, a_record_that_nobody_goes_on_with_is_settled_all_the_same) {
  close(Reason::NoPolicy);
  EXPECT_EQ(told(), Ids{"i1-settled"});
}

TEST_F(IncidentNewsTest, what_belongs_to_no_incident_is_not_told) {
  Record record = record_of(Record::Kind::Intent, Reason::LiftsQuarantine);
  record.incident = {};
  news.hear(record, wall());
  EXPECT_EQ(told(), Ids{});
}

}  // namespace
}  // namespace moonfence::app
