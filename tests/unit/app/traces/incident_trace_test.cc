#include "app/traces/incident_trace.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "unit/app/records_fixture.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using audit::Reason;
using audit::Record;
using Kind = Record::Kind;

constexpr WallTime kOpened{1'700'000'000s};

std::string text_of(const Span& span, const std::string& key) {
  for (const auto& [name, value] : span.attributes) {
    if (name == key) {
      const auto* text = std::get_if<std::string>(&value);
      const auto* number = std::get_if<std::int64_t>(&value);
      return text != nullptr     ? *text
             : number != nullptr ? std::to_string(*number)
                                 : (std::get<bool>(value) ? "true" : "false");
    }
  }
  return "";
}

struct IncidentTraceTest : testing::Test {
  std::vector<Span> spans;
  std::optional<IncidentTrace> trace;
  std::size_t most = IncidentTrace::kMostSpans;
  std::string run = "engine-1_a/1";

  static Record record(Kind kind, Reason reason, const char* pod = "pod-1") {
    Record record = record_of(kind, reason);
    if (record.pod) {
      record.pod_uid = Uid(pod);
    }
    return record;
  }
  IncidentTrace::Beginning beginning;

  void open(Reason reason, Duration down_for = Duration::zero()) {
    const Record opened = record(Kind::IncidentOpened, reason);
    beginning.fell = kOpened - down_for;
    trace.emplace(opened, kOpened, beginning, run, most);
    trace->hear(opened, kOpened, spans);
  }
  void hear(Duration after, const Record& record) { trace->hear(record, kOpened + after, spans); }
  void hear(Duration after, Kind kind, Reason reason, const char* pod = "pod-1") {
    hear(after, record(kind, reason, pod));
  }

  // Its record may stand.
  void hand_over(Duration after, Reason reason) {
    Record closed = record(Kind::IncidentClosed, reason);
    closed.goes_on = true;
    hear(after, closed);
  }

  // "name from-to", in milliseconds since the incident was opened.
  [[nodiscard]] std::vector<std::string> told() const {
    std::vector<std::string> all;
    all.reserve(spans.size());
    for (const Span& span : spans) {
      const auto since = [](WallTime time) {
        return std::to_string(
            std::chrono::duration_cast<std::chrono::milliseconds>(time - kOpened).count());
      };
      all.push_back(span.name + " " + since(span.start) + ".." + since(span.end));
    }
    return all;
  }
  [[nodiscard]] const Span& named(const std::string& name) const {
    return *std::find_if(spans.begin(), spans.end(),
                         [&name](const Span& span) { return span.name == name; });
  }
};

using Lines = std::vector<std::string>;

TEST_F(IncidentTraceTest, each_stage_is_a_span_by_the_times_of_the_records) {
  // row TR-01
  open(Reason::NodeUnknown, 700ms);
  hear(10ms, Kind::IncidentHeld, Reason::AwaitingTaint);
  hear(50ms, Kind::Verdict, Reason::PolicyDeletesPod);
  hear(60ms, Kind::Intent, Reason::PolicyDeletesPod);
  Record done = record(Kind::Outcome, Reason::Done);
  done.http_status = 200;
  hear(90ms, done);
  Record replaced = record(Kind::Replacement, Reason::ReplacementReady);
  replaced.took = 2s;
  hear(2090ms, replaced);
  hear(3s, Kind::IncidentClosed, Reason::Settled);
  EXPECT_EQ(told(), (Lines{"detect -700..0", "confirm 0..50", "wait 10..50", "verdict 50..60",
                           "delete_pod 60..90", "replaced 90..2090", "incident -700..3000"}));
}

TEST_F(IncidentTraceTest, all_are_children_of_a_root_that_any_leader_knows) {
  open(Reason::NodeUnknown, 700ms);
  hear(50ms, Kind::Verdict, Reason::PolicySkips);
  hear(3s, Kind::IncidentClosed, Reason::Settled);
  // The first 16 bytes of SHA-256("i1"), by sha256sum.
  EXPECT_EQ(trace_id_of(IncidentId("i1")), "4cd9b7672d7fbee8fb51fb1e049f6903");
  std::set<std::string> ids;
  for (const Span& span : spans) {
    EXPECT_EQ(span.trace_id, trace_id_of(IncidentId("i1")));
    EXPECT_EQ(span.trace_id.size(), 32U);
    EXPECT_EQ(span.id.size(), 16U);
    EXPECT_TRUE(ids.insert(span.id).second) << span.name;
    const bool is_root = span.name == "incident";
    EXPECT_EQ(span.id == root_span_id_of(IncidentId("i1")), is_root);
    EXPECT_EQ(span.parent_id, is_root ? "" : root_span_id_of(IncidentId("i1")));
  }
}

TEST_F(IncidentTraceTest, another_run_never_uses_an_id_again_but_the_root_s) {
  // row TR-02
  open(Reason::NodeUnknown);
  hear(50ms, Kind::Verdict, Reason::PolicySkips);
  hand_over(1s, Reason::SteppedDown);
  const std::vector<Span> first = std::exchange(spans, {});
  EXPECT_EQ(std::count_if(first.begin(), first.end(),
                          [](const Span& span) { return span.parent_id.empty(); }),
            0);
  run = "engine-2_b/1";
  beginning.earlier = {.opened = kOpened - 8500ms, .opened_for = Reason::NodeUnknown};
  open(Reason::TookOver, 9200ms);
  hear(50ms, Kind::Verdict, Reason::PolicySkips);
  hear(1s, Kind::IncidentClosed, Reason::Settled);
  for (const Span& span : spans) {
    EXPECT_EQ(std::count_if(first.begin(), first.end(),
                            [&span](const Span& other) { return other.id == span.id; }),
              0);
  }
  EXPECT_EQ(named("incident").id, root_span_id_of(IncidentId("i1")));
  EXPECT_EQ(text_of(named("incident"), "moonfence.incident.taken_over"), "true");
  EXPECT_EQ(kOpened - named("incident").start, 10s) << "the node fell with another leader";
}

TEST_F(IncidentTraceTest, a_node_that_was_down_before_the_incident_says_nothing_of_detection) {
  open(Reason::StartupSweep, 1h);
  hear(10ms, Kind::Verdict, Reason::PolicySkips);
  hear(1s, Kind::IncidentClosed, Reason::Settled);
  EXPECT_EQ(told(), (Lines{"confirm 0..10", "verdict 10..10", "incident 0..1000"}));
  spans.clear();
  beginning.earlier = {.opened = kOpened - 2s, .opened_for = Reason::EntryExpired};
  open(Reason::TookOver, 1h);
  hear(1s, Kind::IncidentClosed, Reason::Settled);
  EXPECT_EQ(told(), (Lines{"incident -2000..1000"}));
}

TEST_F(IncidentTraceTest, an_incident_that_goes_on_elsewhere_has_no_root_here) {
  for (const Reason why : {Reason::SteppedDown, Reason::Stopping}) {
    spans.clear();
    open(Reason::NodeUnknown, 700ms);
    hand_over(1s, why);
    EXPECT_EQ(told(), Lines{"detect -700..0"});
    EXPECT_FALSE(trace->take_root()) << "the next leader sends it";
  }
}

// Nothing was to be deleted yet, so there is no record: the next leader opens another incident.
TEST_F(IncidentTraceTest, an_incident_that_nobody_can_go_on_with_has_a_root) {
  for (const Reason why : {Reason::SteppedDown, Reason::Stopping, Reason::StoreWentBack}) {
    spans.clear();
    open(Reason::NodeUnknown, 700ms);
    hear(1s, Kind::IncidentClosed, why);
    EXPECT_EQ(told(), (Lines{"detect -700..0", "incident -700..1000"}));
    EXPECT_FALSE(trace->take_root());
  }
}

TEST_F(IncidentTraceTest, the_root_of_one_whose_store_went_back_waits_for_its_record) {
  open(Reason::StartupSweep);
  hand_over(1s, Reason::StoreWentBack);
  EXPECT_TRUE(spans.empty());
  const auto root = trace->take_root();
  ASSERT_TRUE(root);
  EXPECT_EQ(root->id, root_span_id_of(IncidentId("i1")));
  EXPECT_EQ(root->end, kOpened + 1s);
  EXPECT_FALSE(trace->take_root()) << "once";
}

// Its kubelet writes the stamp, and may have any clock.
TEST_F(IncidentTraceTest, a_stamp_that_cannot_be_is_not_believed) {
  open(Reason::NodeUnknown, 1h);
  hear(1s, Kind::IncidentClosed, Reason::NodeReady);
  EXPECT_EQ(told(), (Lines{"detect -3600000..0", "incident -3600000..1000"}));
  for (const Duration down_for :
       {Duration(1h + 1ms), kOpened - WallTime{}, kOpened - WallTime(-315'619'200s)}) {
    spans.clear();
    open(Reason::NodeUnknown, down_for);
    hear(1s, Kind::IncidentClosed, Reason::NodeReady);
    EXPECT_EQ(told(), Lines{"incident 0..1000"});
  }
}

TEST_F(IncidentTraceTest, a_machine_that_fell_silent_fell_at_its_last_sign) {
  open(Reason::NodeLost, 6s);
  hear(1s, Kind::IncidentClosed, Reason::NodeReady);
  EXPECT_EQ(told(), (Lines{"detect -6000..0", "incident -6000..1000"}));
  spans.clear();
  beginning.earlier = {
      .opened = kOpened - 10s, .opened_for = Reason::NodeLost, .last_sign = kOpened - 16s};
  open(Reason::TookOver, 2s);  // by the stamp of Ready, which changed later
  hear(1s, Kind::IncidentClosed, Reason::NodeReady);
  EXPECT_EQ(told(), Lines{"incident -16000..1000"});
}

TEST_F(IncidentTraceTest, nobody_waits_for_a_replacement_that_is_not_needed) {
  open(Reason::StartupSweep);
  hear(1s, Kind::Replacement, Reason::ReplacementAbsent);
  hear(2s, Kind::Replacement, Reason::ReplacementNotNeeded);
  hear(9s, Kind::IncidentClosed, Reason::Settled);
  EXPECT_EQ(told(), (Lines{"wait 1000..2000", "incident 0..9000"}));
}

TEST_F(IncidentTraceTest, a_failed_call_has_the_answer_and_an_error) {
  open(Reason::StartupSweep);
  hear(10ms, Kind::Intent, Reason::PolicyDeletesPod);
  Record refused = record(Kind::Outcome, Reason::Refused);
  refused.http_status = 403;
  hear(20ms, refused);
  hear(30ms, Kind::Intent, Reason::PolicyDeletesPod);
  hear(40ms, Kind::Outcome, Reason::OutcomeLost);
  hear(50ms, Kind::Intent, Reason::PolicyDeletesPod);
  Record done = record(Kind::Outcome, Reason::Done);
  done.http_status = 200;
  hear(60ms, done);
  std::vector<Span> calls;
  std::copy_if(spans.begin(), spans.end(), std::back_inserter(calls),
               [](const Span& span) { return span.kind == Span::Kind::Client; });
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_EQ(calls[0].status, Span::Status::Error);
  EXPECT_EQ(text_of(calls[0], "http.response.status_code"), "403");
  EXPECT_EQ(text_of(calls[0], "error.type"), "403");
  EXPECT_EQ(calls[1].status, Span::Status::Error);
  EXPECT_EQ(text_of(calls[1], "http.response.status_code"), "");
  EXPECT_EQ(text_of(calls[1], "error.type"), "outcome_lost");
  EXPECT_EQ(calls[2].status, Span::Status::Unset);
  EXPECT_EQ(text_of(calls[2], "http.response.status_code"), "200");
  EXPECT_EQ(text_of(calls[2], "error.type"), "");
  EXPECT_EQ(text_of(calls[2], "http.request.method"), "DELETE");
}

TEST_F(IncidentTraceTest, what_the_storage_took_is_no_call_of_ours) {
  open(Reason::StartupSweep);
  Record intent = record(Kind::Intent, Reason::PolicyDeletesAttachments);
  intent.action = "delete_attachment";
  intent.attachment = "csi-1";
  hear(10ms, intent);
  Record marked = intent;
  marked.kind = Kind::Outcome;
  marked.reason = Reason::MarkedOnly;
  hear(20ms, marked);
  Record detached = marked;
  detached.reason = Reason::Detached;
  detached.took = 480ms;
  hear(500ms, detached);
  EXPECT_EQ(told(), (Lines{"confirm 0..10", "delete_attachment 10..20", "detached 20..500"}));
  EXPECT_EQ(text_of(spans[2], "moonfence.attachment"), "csi-1");
  EXPECT_EQ(spans[2].kind, Span::Kind::Internal);
}

TEST_F(IncidentTraceTest, a_wait_of_a_policy_lasts_until_the_next_verdict) {
  open(Reason::StartupSweep);
  hear(10ms, Kind::Verdict, Reason::PolicyWaits);
  hear(5s, Kind::Verdict, Reason::PolicyDeletesPod);
  hear(5s + 1ms, Kind::Refusal, Reason::ModeObserves);
  hear(6s, Kind::IncidentClosed, Reason::NodeReady);
  EXPECT_EQ(told(), (Lines{"confirm 0..10", "verdict 10..5000", "verdict 5000..5001",
                           "refusal 5001..5001", "incident 0..6000"}));
  EXPECT_EQ(text_of(spans[1], "moonfence.reason"), "policy_waits");
}

TEST_F(IncidentTraceTest, what_is_still_open_ends_with_the_incident) {
  open(Reason::StartupSweep);
  hear(10ms, Kind::IncidentHeld, Reason::TooManyDown);
  hear(2s, Kind::IncidentHeld, Reason::TooManyAtOnce);
  hear(3s, Kind::IncidentClosed, Reason::NodeReady);
  EXPECT_EQ(told(), (Lines{"wait 10..2000", "wait 2000..3000", "incident 0..3000"}));
  EXPECT_EQ(spans[0].status, Span::Status::Error) << "the status page shows an alarm";
  EXPECT_TRUE(trace->is_closed());
  hear(4s, Kind::Verdict, Reason::PolicySkips);
  EXPECT_EQ(spans.size(), 3U);
}

TEST_F(IncidentTraceTest, a_call_that_was_stopped_at_the_wire_was_not_answered) {
  open(Reason::StartupSweep);
  hear(10ms, Kind::Intent, Reason::PolicyDeletesPod);
  Record stopped = record(Kind::Refusal, Reason::NodeNotDown);
  stopped.stopped_at_the_wire = true;
  hear(20ms, stopped);
  EXPECT_EQ(told(), (Lines{"confirm 0..10", "delete_pod 10..20"}));
  EXPECT_EQ(text_of(spans[1], "moonfence.reason"), "node_not_down");
  EXPECT_EQ(text_of(spans[1], "http.response.status_code"), "");
}

// A policy judges the pod again while its deletion is under way.
TEST_F(IncidentTraceTest, a_refusal_meanwhile_ends_no_call) {
  open(Reason::StartupSweep);
  hear(10ms, Kind::Intent, Reason::PolicyDeletesPod);
  hear(20ms, Kind::Refusal, Reason::GuardFailed);
  Record done = record(Kind::Outcome, Reason::Done);
  done.http_status = 200;
  hear(30ms, done);
  hear(1s, Kind::IncidentClosed, Reason::Settled);
  EXPECT_EQ(told(),
            (Lines{"confirm 0..10", "refusal 20..20", "delete_pod 10..30", "incident 0..1000"}));
  EXPECT_EQ(text_of(named("delete_pod"), "http.response.status_code"), "200");
  EXPECT_EQ(text_of(named("incident"), "moonfence.pods.deleted"), "1");
}

// What was decided takes half of the places; the calls have the others.
TEST_F(IncidentTraceTest, it_is_bounded_and_the_root_says_what_is_missing) {
  most = 10;
  open(Reason::StartupSweep);
  for (int i = 0; i < 50; ++i) {
    hear(std::chrono::milliseconds(i), Kind::Verdict, Reason::PolicySkips,
         ("pod-" + std::to_string(i)).c_str());
    hear(std::chrono::milliseconds(i), Kind::Verdict, Reason::PolicyWaits,
         ("waits-" + std::to_string(i)).c_str());
  }
  for (const char* pod : {"a", "b", "c", "d", "e"}) {
    hear(100ms, Kind::Intent, Reason::PolicyDeletesPod, pod);
    hear(200ms, Kind::Outcome, Reason::Done, pod);
  }
  hear(1s, Kind::IncidentClosed, Reason::Settled);
  const auto told_of = [this](const std::string& name) {
    return std::count_if(spans.begin(), spans.end(),
                         [&name](const Span& span) { return span.name == name; });
  };
  EXPECT_EQ(told_of("confirm"), 1);
  EXPECT_EQ(told_of("verdict"), 5);
  EXPECT_EQ(told_of("delete_pod"), 4);
  EXPECT_EQ(spans.size(), 11U);
  EXPECT_EQ(spans.back().name, "incident");
  EXPECT_EQ(text_of(spans.back(), "moonfence.pods.deleted"), "5");
  EXPECT_EQ(text_of(spans.back(), "moonfence.spans.left_out"), "96");
  EXPECT_EQ(trace->left_out(), 96U);
}

TEST_F(IncidentTraceTest, no_words_of_policies_or_servers_are_told) {
  open(Reason::NodeUnknown, 700ms);
  std::vector<Kind> kinds(std::begin(kEveryKind), std::end(kEveryKind));
  std::erase(kinds, Kind::IncidentClosed);
  kinds.push_back(Kind::IncidentClosed);
  for (const Kind kind : kinds) {
    Record each = record(kind, Reason::PolicyFailed);
    each.text = "secret";
    each.evidence = "secret";
    each.server_audit_id = "secret";
    hear(10ms, each);
  }
  ASSERT_GE(spans.size(), 7U);
  for (const Span& span : spans) {
    for (const auto& [key, value] : span.attributes) {
      EXPECT_EQ(text_of(span, key).find("secret"), std::string::npos) << span.name << " " << key;
    }
  }
}

TEST_F(IncidentTraceTest, a_clock_that_was_set_back_makes_no_negative_time) {
  open(Reason::NodeUnknown, -5s);
  hear(-10s, Kind::Verdict, Reason::PolicySkips);
  hear(-20s, Kind::IncidentClosed, Reason::Settled);
  for (const Span& span : spans) {
    EXPECT_LE(span.start, span.end) << span.name;
  }
}

}  // namespace
}  // namespace moonfence::app
