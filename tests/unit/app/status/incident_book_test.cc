#include "app/status/incident_book.h"

#include <gtest/gtest.h>

#include "app/status/incident_timeline.h"
#include "unit/app/status_fixture.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using audit::Reason;
using audit::Record;
using Kind = Record::Kind;

Record opened(const std::string& incident, const std::string& node = "n1") {
  Record record = record_of(Kind::IncidentOpened, Reason::NodeUnknown);
  record.incident = IncidentId(incident);
  record.node = NodeName(node);
  return record;
}

Record closed(const std::string& incident, Reason reason = Reason::Settled) {
  Record record = record_of(Kind::IncidentClosed, reason);
  record.incident = IncidentId(incident);
  return record;
}

const IncidentStory& only(const std::vector<IncidentBook::Story>& stories) {
  EXPECT_EQ(stories.size(), 1U);
  return *stories.at(0);
}

TEST(IncidentBook, an_incident_is_under_way_until_it_is_closed) {
  IncidentBook book;
  book.hear(opened("i1"), kTestNow);
  EXPECT_EQ(only(book.under_way()).opened, kTestNow);
  EXPECT_TRUE(book.past().empty());
  book.hear(closed("i1", Reason::NodeReady), kTestNow + 5s);
  EXPECT_TRUE(book.under_way().empty());
  EXPECT_EQ(only(book.past()).closed, kTestNow + 5s);
  EXPECT_EQ(only(book.past()).closed_for, Reason::NodeReady);
}

TEST(IncidentBook, each_pod_has_its_verdict_and_what_came_of_it) {
  IncidentBook book;
  tell_incident(book);
  const auto stories = book.under_way();
  const IncidentStory& story = only(stories);
  ASSERT_EQ(story.pods.size(), 3U);
  EXPECT_EQ(state_of(story.pods[0]).word, "deleted");
  EXPECT_EQ(state_of(story.pods[1]).word, "refused");
  EXPECT_EQ(state_of(story.pods[1]).line->reason, Reason::ProtectedNamespace);
  EXPECT_EQ(state_of(story.pods[2]).word, "left alone");
  const PodCounts counts = count_pods(story);
  EXPECT_EQ(counts.deleted, 1U);
  EXPECT_EQ(counts.not_done, 1U);
  EXPECT_EQ(counts.left_alone, 1U);
}

TEST(IncidentBook, what_the_policy_said_stays_known_beside_what_came_of_it) {
  IncidentBook book;
  tell_incident(book, "its node is silent");
  const auto stories = book.under_way();
  ASSERT_NE(verdict_on(only(stories).pods[2]), nullptr);
  EXPECT_EQ(verdict_on(only(stories).pods[2])->text, "because");
  EXPECT_EQ(verdict_on(only(stories).pods[0])->kind, Kind::Intent);
  EXPECT_EQ(verdict_on(PodStory{}), nullptr);
}

TEST(IncidentBook, a_pod_that_was_handled_before_stays_deleted) {
  IncidentBook book;
  tell_incident(book);
  book.hear(pod_record(Kind::Verdict, Reason::HandledBefore, "web-0"), kTestNow);
  Record attachment = pod_record(Kind::Outcome, Reason::MarkedOnly, "web-0");
  attachment.attachment = "csi-1";
  attachment.action = "delete_attachment";
  book.hear(attachment, kTestNow);
  EXPECT_EQ(state_of(only(book.under_way()).pods[0]).word, "deleted");
}

TEST(IncidentBook, of_several_verdicts_the_one_that_holds_the_pod_counts) {
  IncidentBook book;
  book.hear(opened("i1"), kTestNow);
  book.hear(pod_record(Kind::Verdict, Reason::PolicyFailed, "web-0"), kTestNow);
  book.hear(pod_record(Kind::Verdict, Reason::PolicySkips, "web-0"), kTestNow);
  EXPECT_EQ(state_of(only(book.under_way()).pods[0]).line->reason, Reason::PolicyFailed);
}

TEST(IncidentBook, what_is_told_again_and_again_is_one_line) {
  IncidentBook book;
  book.hear(opened("i1"), kTestNow);
  for (int i = 0; i < 1000; ++i) {
    book.hear(record_of(Kind::IncidentHeld, Reason::Unreadable), kTestNow + i * 1s);
  }
  const auto stories = book.under_way();
  ASSERT_EQ(only(stories).lines.size(), 2U);
  EXPECT_EQ(only(stories).lines[1].times, 1000U);
}

TEST(IncidentBook, a_story_that_was_handed_out_never_changes) {
  IncidentBook book;
  tell_incident(book);
  const auto before = book.under_way();
  const std::size_t pods = only(before).pods.size();
  book.hear(pod_record(Kind::Verdict, Reason::PolicySkips, "late"), kTestNow);
  EXPECT_EQ(only(before).pods.size(), pods);
  EXPECT_EQ(only(book.under_way()).pods.size(), pods + 1);
}

TEST(IncidentBook, records_without_a_known_incident_are_no_story) {
  IncidentBook book;
  Record lost = pod_record(Kind::Outcome, Reason::Done, "web-0");
  book.hear(lost, kTestNow);
  lost.incident = IncidentId();
  book.hear(lost, kTestNow);
  EXPECT_TRUE(book.under_way().empty());
  EXPECT_TRUE(book.past().empty());
}

TEST(IncidentBook, the_oldest_of_the_past_make_room) {
  IncidentBook book({.past = 3});
  for (int i = 0; i < 5; ++i) {
    const std::string id = "i" + std::to_string(i);
    book.hear(opened(id), kTestNow + i * 10s);
    book.hear(closed(id), kTestNow + i * 10s + 1s);
  }
  const auto past = book.past();
  ASSERT_EQ(past.size(), 3U);
  EXPECT_EQ(past[0]->id, IncidentId("i4"));
  EXPECT_EQ(past[2]->id, IncidentId("i2"));
}

TEST(IncidentBook, no_more_incidents_are_told_at_once_than_there_is_room_for) {
  IncidentBook book({.open = 2});
  for (const char* id : {"a", "b", "c"}) {
    book.hear(opened(id, id), kTestNow);
  }
  EXPECT_EQ(book.under_way().size(), 2U);
}

TEST(IncidentBook, pods_lines_and_texts_are_bounded_and_what_is_left_out_is_counted) {
  IncidentBook book({.pods = 2, .lines = 3, .pod_lines = 3, .text = 10});
  book.hear(opened("i1"), kTestNow);
  for (int i = 0; i < 5; ++i) {
    Record held = record_of(Kind::IncidentHeld, Reason::Unreadable);
    held.text = std::to_string(i);
    book.hear(held, kTestNow);
    Record verdict = pod_record(Kind::Verdict, Reason::PolicyWaits, "web-0");
    verdict.text = std::to_string(i) + std::string(50, 'x');
    book.hear(verdict, kTestNow);
    book.hear(pod_record(Kind::Verdict, Reason::PolicySkips, "web-" + std::to_string(i)), kTestNow);
  }
  const auto stories = book.under_way();
  const IncidentStory& story = only(stories);
  EXPECT_EQ(story.lines.size(), 3U);
  EXPECT_EQ(story.lines.front().kind, Kind::IncidentOpened);
  EXPECT_EQ(story.lines.back().text, "4");
  EXPECT_EQ(story.cut, 3U);
  EXPECT_EQ(story.pods.size(), 2U);
  EXPECT_EQ(story.cut_pods, 3U);
  EXPECT_EQ(story.pods[0].lines.size(), 3U);
  EXPECT_EQ(story.pods[0].cut, 3U);
  EXPECT_EQ(story.pods[0].lines.back().text, "4xxxxxxxxx…");
}

TEST(IncidentBook, all_lines_together_are_bounded_and_the_past_goes_first) {
  IncidentBook book({.all_lines = 100});
  for (int i = 0; i < 10; ++i) {
    const std::string id = "i" + std::to_string(i);
    book.hear(opened(id), kTestNow + i * 10s);
    for (int pod = 0; pod < 30; ++pod) {
      Record verdict =
          pod_record(Kind::Verdict, Reason::PolicySkips, id + "-" + std::to_string(pod));
      verdict.incident = IncidentId(id);
      book.hear(verdict, kTestNow + i * 10s);
    }
    if (i < 9) {
      book.hear(closed(id), kTestNow + i * 10s + 1s);
    }
  }
  std::size_t lines = 0;
  auto all = book.past();
  const auto open = book.under_way();
  all.insert(all.end(), open.begin(), open.end());
  for (const auto& story : all) {
    lines += story->lines.size() + story->pods.size();
  }
  EXPECT_LE(lines, 100U);
  EXPECT_EQ(only(open).pods.size(), 30U);
  EXPECT_EQ(book.past().front()->id, IncidentId("i8"));
}

TEST(IncidentBook, a_text_is_cut_at_a_character) {
  IncidentBook book({.text = 4});
  book.hear(opened("i1"), kTestNow);
  Record held = record_of(Kind::IncidentHeld, Reason::Unreadable);
  held.text = "abcüx";
  book.hear(held, kTestNow);
  EXPECT_EQ(only(book.under_way()).lines[1].text, "abc…");
}

fence::IncidentRecord kept_record() {
  fence::IncidentRecord record;
  record.id = IncidentId("old");
  record.node = NodeName("n7");
  record.opened = kTestNow - 2h;
  record.opened_for = Reason::NodeNotReady;
  record.closed = {.at = kTestNow - 1h, .reason = Reason::Settled};
  fence::IncidentRecord::Step step;
  step.pod = {.space = Namespace("db"), .name = "web-0"};
  step.pod_uid = Uid("u1");
  step.policy = "noobaa";
  step.why = "silent";
  step.planned = kTestNow - 2h;
  step.sent = kTestNow - 2h;
  step.ended = kTestNow - 2h + 20ms;
  step.outcome = Reason::Done;
  step.calls = 1;
  record.steps = {step};
  return record;
}

TEST(IncidentBook, a_closed_record_of_the_cluster_is_a_past_incident) {
  IncidentBook book;
  book.recall(kept_record());
  book.recall(kept_record());
  const auto past = book.past();
  const IncidentStory& story = only(past);
  EXPECT_TRUE(story.recalled);
  EXPECT_EQ(story.node, NodeName("n7"));
  EXPECT_EQ(state_of(story.pods.at(0)).word, "deleted");
  EXPECT_EQ(state_of(story.pods.at(0)).line->took, 20ms);
  EXPECT_EQ(story.lines.back().reason, Reason::Settled);
}

TEST(IncidentBook, a_taint_is_a_line_of_the_incident_and_of_no_pod) {
  fence::IncidentRecord record = kept_record();
  record.steps[0].kind = fence::IncidentRecord::Step::Kind::TaintNode;
  record.steps[0].pod = {};
  record.steps[0].pod_uid = {};
  record.steps[0].node_uid = Uid("node-7");
  IncidentBook book;
  book.recall(record);
  const auto past = book.past();
  const IncidentStory& story = only(past);
  EXPECT_TRUE(story.pods.empty());
  ASSERT_EQ(story.lines.size(), 4U);
  EXPECT_EQ(story.lines[1].kind, Kind::Intent);
  EXPECT_EQ(story.lines[1].reason, Reason::SetsOutOfService);
  EXPECT_EQ(story.lines[1].action, "taint_out_of_service");
  EXPECT_EQ(story.lines[2].kind, Kind::Outcome);
  EXPECT_EQ(story.lines[2].reason, Reason::Done);
}

TEST(IncidentBook, an_open_record_is_told_by_whoever_goes_on_with_it) {
  IncidentBook book;
  fence::IncidentRecord record = kept_record();
  record.closed.reset();
  book.recall(record);
  EXPECT_TRUE(book.past().empty());
  EXPECT_TRUE(book.under_way().empty());
}

TEST(IncidentTimeline, pods_to_which_the_same_happens_at_once_are_one_entry) {
  IncidentBook book;
  tell_incident(book);
  const auto stories = book.under_way();
  const auto entries = timeline_of(only(stories));
  ASSERT_GE(entries.size(), 3U);
  EXPECT_EQ(entries[0].line->kind, Kind::IncidentOpened);
  EXPECT_EQ(entries[0].pod, nullptr);
  EXPECT_EQ(entries[1].line->reason, Reason::PolicyDeletesPod);
  EXPECT_EQ(entries[1].count, 2U);
  EXPECT_EQ(entries[2].line->reason, Reason::PolicySkips);
  EXPECT_EQ(entries[2].count, 1U);
  EXPECT_EQ(entries.back().line->reason, Reason::Done);
}

}  // namespace
}  // namespace moonfence::app
