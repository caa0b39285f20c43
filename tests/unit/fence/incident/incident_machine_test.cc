#include "fence/incident/incident_machine.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using audit::Reason;
using cluster::NodeView;
using cluster::Readiness;

std::string printed(const IncidentMachine::Effects& effects) {
  struct Print {
    std::string operator()(const IncidentMachine::SetTimer& set) const {
      return "timer " + format_duration(set.delay);
    }
    std::string operator()(const IncidentMachine::CancelTimer& /*unused*/) const { return ""; }
    std::string operator()(const IncidentMachine::StartPass& /*unused*/) const { return "pass"; }
    std::string operator()(const IncidentMachine::PlanAhead& /*unused*/) const {
      return "plan ahead";
    }
    std::string operator()(const IncidentMachine::Act& /*unused*/) const { return "act"; }
    std::string operator()(const IncidentMachine::CancelPass& /*unused*/) const { return "cancel"; }
    std::string operator()(const IncidentMachine::Hold& hold) const {
      return "hold " + std::string(audit::code(hold.reason));
    }
    std::string operator()(const IncidentMachine::Close& close) const {
      return "close " + std::string(audit::code(close.reason));
    }
  };
  std::string out;
  for (const IncidentMachine::Effect& effect : effects) {
    const std::string word = std::visit(Print{}, effect);
    if (!word.empty()) {
      out += (out.empty() ? "" : ", ") + word;
    }
  }
  return out;
}

NodeView seen(Readiness readiness, bool tainted = true, const std::string& uid = "u1") {
  return {.name = NodeName("n1"),
          .uid = Uid(uid),
          .readiness = readiness,
          .keeps_replacements_off = tainted,
          .unschedulable = false,
          .since = std::nullopt};
}

Reading read(Readiness readiness, bool tainted = true, const std::string& uid = "u1") {
  return {
      .readiness = readiness,
      .uid = Uid(uid),
      .keeps_replacements_off = tainted,
      .kubelet_lease = readiness == Readiness::Unknown ? KubeletLease::Dead : KubeletLease::Alive,
      .dead_at = Moment{} + 40s,
      .sent = {}};
}

// The Lease is as given, whatever Ready says.
Reading with_lease(Readiness readiness, KubeletLease kubelet_lease, Moment dead_at = {}) {
  Reading reading = read(readiness);
  reading.kubelet_lease = kubelet_lease;
  reading.dead_at = dead_at;
  return reading;
}

PassResult failed(std::uint32_t count) {
  return {.failed = count, .look_again = std::nullopt, .retry_after = std::nullopt};
}

struct IncidentMachineTest : testing::Test {
  IncidentRules rules;
  Moment t0{};
  IncidentMachine incident{Uid("u1"), rules, t0};
};

TEST_F(IncidentMachineTest, a_tainted_node_is_confirmed_at_once_and_acted_on_while_down) {
  EXPECT_EQ(printed(incident.open(seen(Readiness::Unknown), t0)), "pass");
  EXPECT_EQ(incident.state(), IncidentMachine::State::Confirming);
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown), t0)), "act");
  EXPECT_EQ(incident.state(), IncidentMachine::State::Operating);
  EXPECT_EQ(printed(incident.pass_ended({}, t0 + 15s)), "cancel, close settled");
}

TEST_F(IncidentMachineTest,
       nothing_is_deleted_before_the_taint_because_replacements_would_come_back) {
  EXPECT_EQ(printed(incident.open(seen(Readiness::Unknown, false), t0)),
            "cancel, hold awaiting_taint, timer 1s, plan ahead");
  EXPECT_EQ(printed(incident.node_seen(seen(Readiness::Unknown, true), t0 + 8ms)), "pass");
}

TEST_F(IncidentMachineTest, a_live_reading_without_the_taint_waits_and_looks_less_and_less_often) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown, false), t0)),
            "cancel, hold awaiting_taint, timer 1s");
  std::string last;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(printed(incident.timer_fired(t0 + 1s)), "pass");
    last = printed(incident.confirmed(read(Readiness::Unknown, false), t0 + 1s));
  }
  EXPECT_EQ(last, "cancel, hold awaiting_taint, timer 30s");
}

TEST_F(IncidentMachineTest,
       failures_are_retried_every_five_seconds_inside_the_window) {  // row E-07
  std::vector<Moment> passes;
  Moment now = t0;
  IncidentMachine::Effects effects = incident.open(seen(Readiness::Unknown), now);
  while (printed(effects) == "pass") {
    passes.push_back(now);
    EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown), now)), "act");
    const std::string ended = printed(incident.pass_ended(failed(1), now + 10ms));
    if (now == t0 + 20s) {
      EXPECT_EQ(ended, "cancel, timer 9s990ms");  // and ever more seldom from then on
      break;
    }
    EXPECT_EQ(ended, "cancel, timer 4s990ms");
    EXPECT_TRUE(incident.in_progress());
    now += 5s;
    effects = incident.timer_fired(now);
  }
  EXPECT_EQ(passes, (std::vector<Moment>{t0, t0 + 5s, t0 + 10s, t0 + 15s, t0 + 20s}));
  EXPECT_EQ(incident.state(), IncidentMachine::State::Resting);
  EXPECT_FALSE(incident.in_progress()) << "others may take its place";
  EXPECT_FALSE(incident.may_hear()) << "what failed is repeated in its own time";
}

// A server that refused for longer than the window made us forget the pod for an hour.
TEST_F(IncidentMachineTest, what_fails_is_never_given_up_and_pauses_grow_to_a_minute) {
  Moment now = t0;
  (void)incident.open(seen(Readiness::Unknown), now);
  std::vector<Duration> pauses;
  for (int pass = 0; pass < 200; ++pass) {
    (void)incident.confirmed(read(Readiness::Unknown), now);
    Duration pause{};
    for (const IncidentMachine::Effect& effect : incident.pass_ended(failed(1), now)) {
      if (const auto* timer = std::get_if<IncidentMachine::SetTimer>(&effect)) {
        pause = timer->delay;
      }
    }
    pauses.push_back(pause);
    now += pause;
    ASSERT_EQ(printed(incident.timer_fired(now)), "pass");
  }
  EXPECT_EQ(std::vector(pauses.begin() + 3, pauses.begin() + 9),
            (std::vector<Duration>{5s, 10s, 20s, 40s, 60s, 60s}));
  EXPECT_EQ(*std::max_element(pauses.begin(), pauses.end()), Duration(60s));
  // It succeeds in the end, and the next failure is the first.
  (void)incident.confirmed(read(Readiness::Unknown), now);
  EXPECT_EQ(printed(incident.pass_ended({.deleted = 1}, now)), "cancel, timer 1s");
  (void)incident.timer_fired(now + 1s);
  (void)incident.confirmed(read(Readiness::Unknown), now + 1s);
  EXPECT_EQ(printed(incident.pass_ended(failed(1), now + 1s)), "cancel, timer 5s");
}

TEST_F(IncidentMachineTest, what_fails_for_a_minute_is_told_until_it_succeeds) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  const auto ended = [this](const PassResult& result, Duration at) {
    (void)incident.timer_fired(t0 + at);
    (void)incident.confirmed(read(Readiness::Unknown), t0 + at);
    return printed(incident.pass_ended(result, t0 + at));
  };
  for (const Duration at : {0s, 5s, 10s, 15s, 20s, 30s}) {
    EXPECT_FALSE(ended(failed(1), at).starts_with("hold")) << format_duration(at);
    EXPECT_FALSE(incident.is_failing());
  }
  EXPECT_EQ(ended(failed(1), 50s), "hold still_failing, cancel, timer 40s");
  EXPECT_TRUE(incident.is_failing());
  EXPECT_EQ(ended(failed(1), 90s), "hold still_failing, cancel, timer 1m");
  EXPECT_EQ(ended({}, 150s), "cancel, close settled");
  EXPECT_FALSE(incident.is_failing());
}

TEST_F(IncidentMachineTest, policies_that_make_pods_wait_for_two_minutes_are_told) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  const auto ended = [this](const PassResult& result, Duration at) {
    (void)incident.timer_fired(t0 + at);
    (void)incident.confirmed(read(Readiness::Unknown), t0 + at);
    return printed(incident.pass_ended(result, t0 + at));
  };
  const PassResult waits = {.waits = true, .look_again = 30s};
  for (const Duration at : {0s, 30s, 60s}) {
    EXPECT_EQ(ended(waits, at), "cancel, timer 30s") << format_duration(at);
  }
  EXPECT_EQ(ended(waits, 90s), "hold still_waiting, cancel, timer 30s");
  EXPECT_EQ(incident.next_pass(), t0 + 2min);
  EXPECT_EQ(ended({}, 2min), "cancel, close settled");
}

TEST_F(IncidentMachineTest, a_wait_that_is_to_be_long_is_told_at_once) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.pass_ended({.waits = true, .look_again = 1h}, t0)),
            "hold still_waiting, cancel, timer 1h");
}

TEST_F(IncidentMachineTest, a_long_pause_that_the_server_asks_for_is_kept_and_told_at_once) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.pass_ended({.failed = 1, .retry_after = 5min}, t0)),
            "hold still_failing, cancel, timer 5m");
  (void)incident.timer_fired(t0 + 5min);
  (void)incident.confirmed(read(Readiness::Unknown), t0 + 5min);
  EXPECT_EQ(printed(incident.pass_ended({.failed = 1, .retry_after = 30s}, t0 + 5min)),
            "hold still_failing, cancel, timer 30s");
}

TEST_F(IncidentMachineTest, the_brake_takes_over_and_lets_it_go_on) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  (void)incident.pass_ended({.failed = 1, .retry_after = 5min}, t0);
  (void)incident.timer_fired(t0 + 5min);
  EXPECT_EQ(printed(incident.braked(Reason::TooManyDown, t0)), "cancel, hold too_many_down");
  EXPECT_FALSE(incident.is_failing());
  EXPECT_EQ(printed(incident.brake_released(t0 + 1h)), "pass");
}

// A webhook that answers 500 made us doubt the server now and then, and each doubt began the count
// of failures anew: nobody was told of them.
TEST_F(IncidentMachineTest, what_fails_before_and_after_the_brake_has_failed_all_the_time) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  (void)incident.pass_ended({.failed = 1}, t0);
  (void)incident.timer_fired(t0 + 40s);
  (void)incident.braked(Reason::DoubtsItself, t0);
  (void)incident.brake_released(t0 + 70s);
  (void)incident.confirmed(read(Readiness::Unknown), t0 + 70s);
  EXPECT_FALSE(incident.is_failing());
  const std::string ended = printed(incident.pass_ended({.failed = 1}, t0 + 70s));
  EXPECT_NE(ended.find("hold still_failing"), std::string::npos) << ended;
  EXPECT_TRUE(incident.is_failing());
}

TEST_F(IncidentMachineTest,
       what_only_observes_is_tried_again_in_the_window_and_holds_nothing_open) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  for (const Duration at : {0s, 5s, 10s, 15s}) {
    (void)incident.confirmed(read(Readiness::Unknown), t0 + at);
    EXPECT_EQ(printed(incident.pass_ended({.failed_observing = 1}, t0 + at)), "cancel, timer 5s");
    (void)incident.timer_fired(t0 + at + 5s);
  }
  (void)incident.confirmed(read(Readiness::Unknown), t0 + 20s);
  EXPECT_EQ(printed(incident.pass_ended({.failed_observing = 1}, t0 + 20s)),
            "cancel, close settled");
}

TEST_F(IncidentMachineTest, a_taint_that_cannot_be_set_is_tried_for_ever_and_told) {
  rules.quarantine = Quarantine::Always;
  IncidentMachine fresh(Uid("u1"), rules, t0);
  (void)fresh.open(seen(Readiness::Unknown, false), t0);
  std::string ended;
  for (Moment now = t0; now <= t0 + 60s; now += 30s) {
    (void)fresh.timer_fired(now);
    (void)fresh.confirmed(read(Readiness::Unknown, false), now);
    ended = printed(fresh.pass_ended({.retry_after = 45s, .untainted = true}, now));
    EXPECT_NE(ended.find("hold awaiting_taint, timer 45s"), std::string::npos) << ended;
  }
  EXPECT_TRUE(fresh.is_failing());
  EXPECT_NE(ended.find("hold still_failing"), std::string::npos) << ended;
}

// Where Kubernetes' taint was there it was tried every second: the count of waits began anew with
// each reading.
TEST_F(IncidentMachineTest, pauses_grow_while_our_taint_is_refused_beside_that_of_kubernetes) {
  rules.quarantine = Quarantine::Always;
  IncidentMachine fresh(Uid("u1"), rules, t0);
  (void)fresh.open(seen(Readiness::Unknown), t0);
  std::string pauses;
  for (int i = 0; i < 4; ++i) {
    (void)fresh.timer_fired(t0);
    (void)fresh.confirmed(read(Readiness::Unknown), t0);
    const std::string ended = printed(fresh.pass_ended({.untainted = true}, t0));
    pauses += ended.substr(ended.find("timer"));
    pauses += "; ";
  }
  EXPECT_EQ(pauses, "timer 1s; timer 2s; timer 4s; timer 8s; ");
}

TEST_F(IncidentMachineTest, what_was_deleted_is_looked_after_three_times) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  Moment now = t0;
  // Whatever a look finds and deletes begins no further looks.
  std::string ended = printed(incident.pass_ended({.deleted = 2}, now));
  for (const Duration pause : {1s, 5s, 15s}) {
    EXPECT_EQ(ended, "cancel, timer " + format_duration(pause));
    now += pause;
    EXPECT_EQ(printed(incident.timer_fired(now)), "pass");
    EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown), now)), "act");
    ended = printed(incident.pass_ended({.deleted = 1}, now));
  }
  EXPECT_EQ(ended, "cancel, close settled");
}

// The scheduler had not seen the taint yet when an empty node was settled with: the pod that it
// bound a moment later stayed there.
TEST_F(IncidentMachineTest, one_that_finds_nothing_looks_once_more) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.pass_ended({}, t0)), "cancel, timer 15s");
  EXPECT_EQ(printed(incident.timer_fired(t0 + 15s)), "pass");
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown), t0 + 15s)), "act");
  EXPECT_EQ(printed(incident.pass_ended({}, t0 + 15s)), "cancel, close settled");
}

// One that was there all the while is bound by now, if it ever is.
TEST_F(IncidentMachineTest, one_that_waited_for_longer_need_not_look_once_more) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.pass_ended({.look_again = 10s}, t0)), "cancel, timer 10s");
  (void)incident.timer_fired(t0 + 10s);
  (void)incident.confirmed(read(Readiness::Unknown), t0 + 10s);
  EXPECT_EQ(printed(incident.pass_ended({}, t0 + 10s)), "cancel, timer 5s");
  (void)incident.timer_fired(t0 + 15s);
  (void)incident.confirmed(read(Readiness::Unknown), t0 + 15s);
  EXPECT_EQ(printed(incident.pass_ended({}, t0 + 15s)), "cancel, close settled");
}

TEST_F(IncidentMachineTest,
       where_policies_fail_they_are_asked_again_and_nothing_is_looked_after_yet) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.pass_ended({.deleted = 1, .held_by_failure = {"a"}}, t0)),
            "cancel, timer 5s");
  (void)incident.timer_fired(t0 + 5s);
  (void)incident.confirmed(read(Readiness::Unknown), t0 + 5s);
  EXPECT_EQ(printed(incident.pass_ended({}, t0 + 5s)), "cancel, timer 1s") << "now it is";
}

TEST_F(IncidentMachineTest, a_look_sees_a_node_that_came_back) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  (void)incident.pass_ended({.deleted = 1}, t0);
  (void)incident.timer_fired(t0 + 1s);
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::True), t0 + 1s)),
            "cancel, close node_ready");
}

TEST_F(IncidentMachineTest, retries_come_before_looks) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  Moment now = t0;
  std::string ended;
  for (int pass = 0; pass < 5; ++pass) {
    (void)incident.confirmed(read(Readiness::Unknown), now);
    ended = printed(incident.pass_ended({.failed = 1, .deleted = 1}, now));
    EXPECT_EQ(ended, pass < 4 ? "cancel, timer 5s" : "cancel, timer 10s");
    now += 5s;
    (void)incident.timer_fired(now);
  }
}

// What failed keeps its pace by it (fence/judge/failed_acts).
TEST_F(IncidentMachineTest, what_has_nothing_to_do_with_what_failed_before_is_another_stretch) {
  ASSERT_EQ(printed(incident.open(seen(Readiness::Unknown), t0)), "pass");
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  const std::uint32_t first = incident.stretch();
  (void)incident.pass_ended({.failed = 1, .look_again = 50ms}, t0);
  (void)incident.timer_fired(t0 + 50ms);
  (void)incident.confirmed(read(Readiness::Unknown), t0 + 50ms);
  (void)incident.pass_ended(failed(1), t0 + 50ms);
  EXPECT_EQ(incident.stretch(), first) << "a look is none";
  (void)incident.timer_fired(t0 + 5s);
  (void)incident.confirmed(with_lease(Readiness::Unknown, KubeletLease::Alive, t0 + 40s), t0 + 5s);
  const std::uint32_t held = incident.stretch();
  EXPECT_NE(held, first) << "the kubelet was alive meanwhile";
  (void)incident.timer_fired(t0 + 40s);
  (void)incident.policies_changed(rules.hold_downs, t0 + 41s);
  (void)incident.confirmed(read(Readiness::Unknown), t0 + 41s);
  (void)incident.pass_ended(failed(1), t0 + 41s);
  EXPECT_NE(incident.stretch(), held) << "other policies";
}

TEST_F(IncidentMachineTest, a_retry_that_succeeds_is_looked_after) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.pass_ended({.failed = 1, .deleted = 1}, t0)), "cancel, timer 5s");
  (void)incident.timer_fired(t0 + 5s);
  (void)incident.confirmed(read(Readiness::Unknown), t0 + 5s);
  EXPECT_EQ(printed(incident.pass_ended({.deleted = 1}, t0 + 5s)), "cancel, timer 1s");
}

TEST_F(IncidentMachineTest, a_wait_is_no_look_and_what_comes_after_it_is_looked_after_too) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.pass_ended({.deleted = 1, .look_again = 500ms}, t0)),
            "cancel, timer 500ms");
  Moment now = t0 + 500ms;
  for (const char* pause : {"1s", "5s", "15s", "1h"}) {
    (void)incident.timer_fired(now);
    (void)incident.confirmed(read(Readiness::Unknown), now);
    EXPECT_EQ(printed(incident.pass_ended({.look_again = 1h}, now)),
              "cancel, timer " + std::string(pause));
  }
  (void)incident.timer_fired(now + 1h);
  (void)incident.confirmed(read(Readiness::Unknown), now + 1h);
  EXPECT_EQ(printed(incident.pass_ended({.deleted = 1}, now + 1h)), "cancel, timer 1s");
}

TEST_F(IncidentMachineTest, a_node_that_is_ready_again_ends_it_in_every_state) {  // row E-08
  const auto at = [&](int steps) {
    IncidentMachine fresh{Uid("u1"), rules, t0};
    (void)fresh.open(seen(Readiness::Unknown, steps > 0), t0);
    if (steps > 1) {
      (void)fresh.confirmed(read(Readiness::Unknown), t0);
    }
    if (steps > 2) {
      (void)fresh.pass_ended(failed(1), t0);
    }
    return fresh;
  };
  for (int steps = 0; steps < 4; ++steps) {
    IncidentMachine fresh = at(steps);
    EXPECT_EQ(printed(fresh.node_seen(seen(Readiness::True), t0 + 7s)), "cancel, close node_ready")
        << to_string(at(steps).state());
    EXPECT_EQ(printed(fresh.timer_fired(t0 + 10s)), "");
    EXPECT_EQ(printed(fresh.confirmed(read(Readiness::Unknown), t0 + 10s)), "");
    EXPECT_EQ(printed(fresh.pass_ended(failed(1), t0 + 10s)), "");
  }
}

TEST_F(IncidentMachineTest, only_the_live_reading_counts_not_what_the_watch_believed) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::True), t0)), "cancel, close node_ready");
}

TEST_F(IncidentMachineTest, another_node_of_that_name_is_not_ours) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown, true, "u2"), t0)),
            "cancel, close node_replaced");
}

TEST_F(IncidentMachineTest, a_deleted_node_ends_it_without_any_action) {  // rows E-20, NB-12
  (void)incident.open(seen(Readiness::Unknown, false), t0);
  EXPECT_EQ(printed(incident.node_seen(seen(Readiness::Gone), t0)), "cancel, close node_gone");
}

// Row LH-22: a policy in force takes a deleted node for down.
struct DeletedNodeTest : IncidentMachineTest {
  static IncidentRules serving() {
    IncidentRules made;
    made.hold_downs.deleted_silent = 0s;
    made.hold_downs.deleted_living = 0s;
    return made;
  }
  DeletedNodeTest() { incident = IncidentMachine(Uid("u1"), serving(), t0); }
  void operate(Readiness readiness) {
    (void)incident.open(seen(readiness), t0);
    ASSERT_EQ(printed(incident.confirmed(read(readiness), t0)), "act");
  }
};

TEST_F(DeletedNodeTest, it_is_read_and_acted_on_without_a_taint) {
  EXPECT_EQ(printed(incident.open(seen(Readiness::Gone, /*tainted=*/false), t0)), "pass");
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Gone), t0)), "act");
  EXPECT_EQ(printed(incident.pass_ended({}, t0)), "cancel, close settled");
}

TEST_F(DeletedNodeTest, a_node_that_goes_begins_a_pass_in_every_state_of_waiting) {
  (void)incident.open(seen(Readiness::Unknown, false), t0);
  EXPECT_EQ(printed(incident.node_seen(seen(Readiness::Gone), t0)), "cancel, pass");
  incident = IncidentMachine(Uid("u1"), serving(), t0);
  operate(Readiness::Unknown);
  EXPECT_EQ(printed(incident.pass_ended({.look_again = 10s}, t0)), "cancel, timer 10s");
  EXPECT_EQ(printed(incident.node_seen(seen(Readiness::Gone), t0 + 1s)), "cancel, pass");
}

TEST_F(DeletedNodeTest, a_pass_about_a_node_that_was_there_is_followed_by_another) {
  operate(Readiness::Unknown);
  EXPECT_EQ(printed(incident.node_seen(seen(Readiness::Gone), t0)), "");
  EXPECT_EQ(printed(incident.pass_ended({}, t0)), "cancel, pass");
}

TEST_F(DeletedNodeTest, what_was_decided_about_one_kind_of_down_is_not_done_on_another) {
  operate(Readiness::Unknown);
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Gone), t0 + 1s)), "cancel, pass");
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Gone), t0 + 1s)), "act");
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Gone), t0 + 2s)), "");
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown), t0 + 3s)), "cancel, pass");
}

TEST_F(DeletedNodeTest, only_the_live_reading_says_so) {
  (void)incident.open(seen(Readiness::Gone), t0);
  EXPECT_EQ(printed(incident.confirmed(std::nullopt, t0)), "hold unreadable, cancel, timer 5s");
  (void)incident.timer_fired(t0 + 5s);
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::True), t0 + 5s)),
            "cancel, close node_ready");
}

TEST_F(DeletedNodeTest, the_same_node_that_is_down_is_judged_as_ever) {
  (void)incident.open(seen(Readiness::Gone), t0);
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown, /*tainted=*/false), t0)),
            "cancel, hold awaiting_taint, timer 1s");
}

TEST_F(DeletedNodeTest, another_node_of_its_name_closes_it) {
  (void)incident.open(seen(Readiness::Gone), t0);
  EXPECT_EQ(printed(incident.node_seen(seen(Readiness::True, true, "u2"), t0)),
            "cancel, close node_replaced");
  incident = IncidentMachine(Uid("u1"), serving(), t0);
  (void)incident.open(seen(Readiness::Gone), t0);
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::False, true, "u2"), t0)),
            "cancel, close node_replaced");
}

TEST_F(DeletedNodeTest, a_policy_that_wants_silence_waits_for_the_lease) {
  rules = serving();
  rules.hold_downs.deleted_living.reset();
  incident = IncidentMachine(Uid("u1"), rules, t0);
  (void)incident.open(seen(Readiness::Gone), t0);
  EXPECT_EQ(
      printed(incident.confirmed(with_lease(Readiness::Gone, KubeletLease::Alive, t0 + 40s), t0)),
      "cancel, hold signal_unfit, timer 40s");
  EXPECT_EQ(printed(incident.timer_fired(t0 + 40s)), "pass");
  EXPECT_EQ(printed(incident.confirmed(with_lease(Readiness::Gone, KubeletLease::Dead), t0 + 40s)),
            "act");
}

TEST_F(DeletedNodeTest, the_hold_down_of_the_policy_counts) {
  rules = serving();
  rules.hold_downs.deleted_silent = rules.hold_downs.deleted_living = 30s;
  incident = IncidentMachine(Uid("u1"), rules, t0);
  EXPECT_EQ(printed(incident.open(seen(Readiness::Gone), t0)),
            "cancel, hold holding_down, timer 30s");
}

TEST_F(DeletedNodeTest, without_such_a_policy_any_more_it_ends) {
  (void)incident.open(seen(Readiness::Gone), t0);
  operate(Readiness::Gone);
  (void)incident.pass_ended({.look_again = 10s}, t0);
  EXPECT_EQ(printed(incident.policies_changed({}, t0)), "cancel, close node_gone");
}

TEST_F(IncidentMachineTest, an_unreadable_cluster_backs_off_and_uses_no_window_up) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  Moment now = t0;
  std::vector<std::string> rests;
  for (int i = 0; i < 5; ++i) {
    rests.push_back(printed(incident.confirmed(std::nullopt, now)));
    now += 30s;
    EXPECT_EQ(printed(incident.timer_fired(now)), "pass");
  }
  EXPECT_EQ(rests.front(), "hold unreadable, cancel, timer 5s");
  EXPECT_EQ(rests.back(), "hold unreadable, cancel, timer 30s");
  // Minutes later the window still lies ahead.
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown), now)), "act");
  EXPECT_EQ(printed(incident.pass_ended(failed(1), now)), "cancel, timer 5s");
}

TEST_F(IncidentMachineTest, the_window_stands_still_while_nothing_can_be_read) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.pass_ended(failed(1), t0)), "cancel, timer 5s");
  (void)incident.timer_fired(t0 + 5s);
  EXPECT_EQ(printed(incident.confirmed(std::nullopt, t0 + 35s)),  // a list that timed out
            "hold unreadable, cancel, timer 5s");
  // 35 s later the four passes that were left are still left.
  for (const Duration at : {40s, 45s, 50s, 55s}) {
    EXPECT_EQ(printed(incident.timer_fired(t0 + at)), "pass");
    EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown), t0 + at)), "act");
    EXPECT_EQ(printed(incident.pass_ended(failed(1), t0 + at)),
              at == 55s ? "hold still_failing, cancel, timer 10s" : "cancel, timer 5s");
  }
}

TEST_F(IncidentMachineTest, a_reading_that_may_be_older_than_the_news_is_repeated_not_believed) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.node_seen(seen(Readiness::Unknown), t0 + 1ms)), "");
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::True), t0 + 2ms)), "cancel, timer 1s");
  EXPECT_EQ(printed(incident.timer_fired(t0 + 1s)), "pass");
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::True), t0 + 1s)),
            "cancel, close node_ready");
}

TEST_F(IncidentMachineTest, a_reading_in_the_middle_of_a_pass_may_stop_it) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown), t0 + 1s)), "");
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::True), t0 + 2s)),
            "cancel, close node_ready");
}

TEST_F(IncidentMachineTest, a_wait_keeps_it_open_and_a_retry_comes_first) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.pass_ended(
                {.failed = 0, .look_again = 40s, .retry_after = std::nullopt}, t0)),
            "cancel, timer 40s");
  (void)incident.timer_fired(t0 + 40s);
  (void)incident.confirmed(read(Readiness::Unknown), t0 + 40s);
  EXPECT_EQ(printed(incident.pass_ended(
                {.failed = 1, .look_again = 40s, .retry_after = std::nullopt}, t0 + 40s)),
            "cancel, timer 5s");
}

TEST_F(IncidentMachineTest, the_server_s_retry_after_is_respected) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.pass_ended(
                {.failed = 1, .look_again = std::nullopt, .retry_after = 12s}, t0)),
            "cancel, timer 12s");
}

TEST_F(IncidentMachineTest, a_policy_that_wants_silence_does_not_act_on_a_living_kubelet) {
  rules.hold_downs.living.reset();
  IncidentMachine strict{Uid("u1"), rules, t0};
  EXPECT_EQ(printed(strict.open(seen(Readiness::False), t0)), "pass");  // only the Lease can tell
  EXPECT_EQ(printed(strict.confirmed(read(Readiness::False), t0)),
            "cancel, hold signal_unfit, timer 40s");
  EXPECT_EQ(printed(strict.node_seen(seen(Readiness::Missing), t0 + 10s)), "");
  EXPECT_EQ(printed(strict.node_seen(seen(Readiness::Unknown), t0 + 30s)), "pass");
  EXPECT_EQ(printed(strict.confirmed(read(Readiness::False), t0 + 30s)),
            "cancel, hold signal_unfit, timer 10s");
}

TEST_F(IncidentMachineTest, a_kubelet_that_says_no_and_falls_silent_is_down_for_everybody) {
  for (const Readiness readiness : {Readiness::False, Readiness::Missing}) {
    rules.hold_downs = {.silent = 0s, .living = std::nullopt};
    IncidentMachine strict{Uid("u1"), rules, t0};
    (void)strict.open(seen(readiness), t0);
    (void)strict.confirmed(with_lease(readiness, KubeletLease::Alive, t0 + 40s), t0);
    EXPECT_EQ(printed(strict.timer_fired(t0 + 40s)), "pass");
    EXPECT_EQ(printed(strict.confirmed(with_lease(readiness, KubeletLease::Dead), t0 + 40s)),
              "act");
  }
}

TEST_F(IncidentMachineTest, unknown_with_a_living_lease_is_looked_at_again_when_it_could_be_dead) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.confirmed(
                with_lease(Readiness::Unknown, KubeletLease::Alive, t0 + 40s), t0 + 1s)),
            "cancel, hold lease_alive, timer 39s");
  EXPECT_EQ(printed(incident.timer_fired(t0 + 40s)), "pass");
  EXPECT_EQ(
      printed(incident.confirmed(with_lease(Readiness::Unknown, KubeletLease::Dead), t0 + 40s)),
      "act");
  // In the middle of a pass it stops it.
  EXPECT_EQ(printed(incident.confirmed(
                with_lease(Readiness::Unknown, KubeletLease::Alive, t0 + 81s), t0 + 41s)),
            "cancel, hold lease_alive, timer 40s");
  // It could be dead already: at once.
  (void)incident.timer_fired(t0 + 81s);
  EXPECT_EQ(printed(incident.confirmed(
                with_lease(Readiness::Unknown, KubeletLease::Alive, t0 + 81s), t0 + 82s)),
            "cancel, hold lease_alive, timer 0s");
}

TEST_F(IncidentMachineTest, a_machine_that_answers_is_looked_at_again_until_it_is_silent) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  Reading dead = with_lease(Readiness::Unknown, KubeletLease::Dead);
  dead.kernel = cluster::Kernel::Answers;
  EXPECT_EQ(printed(incident.confirmed(dead, t0)), "cancel, hold kernel_answers, timer 10s");
  EXPECT_EQ(printed(incident.timer_fired(t0 + 10s)), "pass");
  dead.kernel = cluster::Kernel::Unsure;
  EXPECT_EQ(printed(incident.confirmed(dead, t0 + 10s)), "cancel, hold kernel_unsure, timer 1s");
  EXPECT_EQ(printed(incident.timer_fired(t0 + 11s)), "pass");
  dead.kernel = cluster::Kernel::Silent;
  EXPECT_EQ(printed(incident.confirmed(dead, t0 + 11s)), "act");
  // In the middle of a pass it stops it.
  dead.kernel = cluster::Kernel::Answers;
  EXPECT_EQ(printed(incident.confirmed(dead, t0 + 12s)), "cancel, hold kernel_answers, timer 10s");
}

TEST_F(IncidentMachineTest, where_a_policy_acts_on_machines_that_answer_a_pass_goes_on) {
  rules.hold_downs = {.silent = 0s, .living = 0s, .answering = 30s};
  IncidentMachine patient{Uid("u1"), rules, t0};
  (void)patient.open(seen(Readiness::Unknown), t0);
  Reading dead = with_lease(Readiness::Unknown, KubeletLease::Dead);
  dead.kernel = cluster::Kernel::Answers;
  EXPECT_EQ(printed(patient.confirmed(dead, t0)), "cancel, hold holding_down, timer 30s");
  EXPECT_EQ(printed(patient.timer_fired(t0 + 30s)), "pass");
  EXPECT_EQ(printed(patient.confirmed(dead, t0 + 30s)), "act");
  // Those that want the machine dead look again later.
  EXPECT_EQ(printed(patient.pass_ended({.unfit = true}, t0 + 30s)),
            "cancel, hold signal_unfit, timer 10s");
}

TEST_F(IncidentMachineTest, unknown_with_an_unread_lease_backs_off_and_uses_no_window_up) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  const Reading unread = with_lease(Readiness::Unknown, KubeletLease::Unread);
  Moment now = t0;
  for (const char* pause : {"5s", "10s", "20s", "30s", "30s"}) {
    EXPECT_EQ(printed(incident.confirmed(unread, now)),
              "hold lease_unreadable, cancel, timer " + std::string(pause));
    now += 30s;
    EXPECT_EQ(printed(incident.timer_fired(now)), "pass");
  }
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown), now)), "act");
  EXPECT_EQ(printed(incident.pass_ended(failed(1), now)), "cancel, timer 5s");
  EXPECT_EQ(printed(incident.timer_fired(now + 5s)), "pass");
  EXPECT_EQ(printed(incident.confirmed(unread, now + 35s)),
            "hold lease_unreadable, cancel, timer 5s");
  EXPECT_EQ(printed(incident.timer_fired(now + 40s)), "pass");
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown), now + 40s)), "act");
  EXPECT_EQ(printed(incident.pass_ended(failed(1), now + 40s)), "cancel, timer 5s");
}

TEST_F(IncidentMachineTest, whoever_acts_on_living_kubelets_needs_no_lease) {
  (void)incident.open(seen(Readiness::False), t0);
  EXPECT_EQ(printed(incident.confirmed(with_lease(Readiness::False, KubeletLease::Unread), t0)),
            "act");
  // Those that want silence look again later.
  EXPECT_EQ(printed(incident.pass_ended({.unfit = true}, t0)),
            "cancel, hold signal_unfit, timer 30s");
}

TEST_F(IncidentMachineTest, a_hold_down_is_waited_out_before_anything_is_read) {
  rules.hold_downs = {.silent = 30s, .living = 30s};
  IncidentMachine patient{Uid("u1"), rules, t0};
  EXPECT_EQ(printed(patient.open(seen(Readiness::Unknown), t0)),
            "cancel, hold holding_down, timer 30s");
  EXPECT_EQ(printed(patient.node_seen(seen(Readiness::Unknown), t0 + 10s)), "");
  EXPECT_EQ(printed(patient.timer_fired(t0 + 30s)), "pass");
}

TEST_F(IncidentMachineTest, each_signal_has_a_hold_down_of_its_own) {
  rules.hold_downs = {.silent = 10s, .living = 60s};
  IncidentMachine fresh{Uid("u1"), rules, t0};
  EXPECT_EQ(printed(fresh.open(seen(Readiness::False), t0)), "cancel, hold holding_down, timer 1m");
  EXPECT_EQ(printed(fresh.node_seen(seen(Readiness::Unknown), t0 + 4s)),
            "cancel, hold holding_down, timer 6s");
  EXPECT_EQ(printed(fresh.node_seen(seen(Readiness::Unknown), t0 + 5s)), "");
  EXPECT_EQ(printed(fresh.timer_fired(t0 + 10s)), "pass");
  // The live reading knows better than the watch did.
  EXPECT_EQ(printed(fresh.confirmed(read(Readiness::False), t0 + 10s)),
            "cancel, hold holding_down, timer 50s");
}

TEST_F(IncidentMachineTest, a_hold_down_that_gave_way_to_another_hold_has_no_timer_any_more) {
  rules.hold_downs = {.silent = std::nullopt, .living = 60s};
  IncidentMachine fresh{Uid("u1"), rules, t0};
  EXPECT_EQ(printed(fresh.open(seen(Readiness::False), t0)), "cancel, hold holding_down, timer 1m");
  (void)fresh.node_seen(seen(Readiness::Unknown), t0 + 5s);
  EXPECT_EQ(printed(fresh.policies_changed(rules.hold_downs, t0 + 5s)), "pass");
  EXPECT_EQ(printed(fresh.confirmed(with_lease(Readiness::Unknown, KubeletLease::Alive, t0 + 105s),
                                    t0 + 5s)),
            "cancel, hold lease_alive, timer 1m40s");
  EXPECT_EQ(printed(fresh.node_seen(seen(Readiness::False), t0 + 10s)),
            "cancel, hold holding_down, timer 50s");
}

TEST_F(IncidentMachineTest, news_of_a_living_kubelet_end_the_hold_down_of_a_silent_one) {
  rules.hold_downs = {.silent = 30s, .living = 0s};
  IncidentMachine fresh{Uid("u1"), rules, t0};
  (void)fresh.open(seen(Readiness::False), t0);
  (void)fresh.confirmed(read(Readiness::False), t0);
  EXPECT_EQ(printed(fresh.pass_ended({.unfit = true}, t0)), "cancel, hold signal_unfit, timer 40s");
  EXPECT_EQ(printed(fresh.node_seen(seen(Readiness::Unknown), t0 + 5s)),
            "cancel, hold holding_down, timer 25s");
  EXPECT_EQ(printed(fresh.node_seen(seen(Readiness::False), t0 + 10s)), "pass");
}

TEST_F(IncidentMachineTest, the_next_pass_is_known_only_while_a_timer_will_start_it) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  EXPECT_EQ(incident.next_pass(), std::nullopt);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  (void)incident.pass_ended(failed(1), t0);
  EXPECT_EQ(incident.next_pass(), t0 + 5s);
  (void)incident.timer_fired(t0 + 5s);
  EXPECT_EQ(incident.next_pass(), std::nullopt);
  (void)incident.confirmed(std::nullopt, t0 + 6s);
  EXPECT_EQ(incident.next_pass(), t0 + 11s);
  (void)incident.timer_fired(t0 + 11s);
  (void)incident.confirmed(read(Readiness::Unknown), t0 + 11s);
  // The taint is gone: what is told of the failure names the next look for it.
  (void)incident.pass_ended({.retry_after = 2s, .untainted = true}, t0 + 12s);
  EXPECT_EQ(incident.next_pass(), t0 + 14s);
  (void)incident.brake_released(t0 + 13s);
  (void)incident.timer_fired(t0 + 14s);
  (void)incident.braked(Reason::TooManyDown, t0 + 15s);
  EXPECT_EQ(incident.next_pass(), std::nullopt);
}

TEST_F(IncidentMachineTest, a_hold_down_counts_from_the_first_observation_not_from_the_opening) {
  rules.hold_downs = {.silent = 30s, .living = 30s};
  IncidentMachine late{Uid("u1"), rules, t0};
  EXPECT_EQ(printed(late.open(seen(Readiness::Unknown), t0 + 20s)),
            "cancel, hold holding_down, timer 10s");
  IncidentMachine later{Uid("u1"), rules, t0};
  EXPECT_EQ(printed(later.open(seen(Readiness::Unknown), t0 + 1h)), "pass");
}

constexpr HoldDowns kAtOnce = {};
constexpr HoldDowns kNobody = {.silent = std::nullopt, .living = std::nullopt};

TEST_F(IncidentMachineTest, other_policies_start_a_pass_where_none_is_under_way) {
  // Resting.
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  (void)incident.pass_ended({.look_again = 1h}, t0);
  EXPECT_EQ(printed(incident.policies_changed(kAtOnce, t0 + 5s)), "cancel, pass");
  // Holding for the taint: the live reading will tell.
  IncidentMachine bare{Uid("u1"), rules, t0};
  (void)bare.open(seen(Readiness::Unknown, false), t0);
  EXPECT_EQ(printed(bare.policies_changed(kAtOnce, t0)), "cancel, pass");
  // Holding for a signal that the new ones take.
  rules.hold_downs.living.reset();
  IncidentMachine strict{Uid("u1"), rules, t0};
  (void)strict.open(seen(Readiness::False), t0);
  (void)strict.confirmed(read(Readiness::False), t0);
  EXPECT_EQ(printed(strict.policies_changed(kAtOnce, t0)), "cancel, pass");
  EXPECT_EQ(printed(strict.confirmed(read(Readiness::False), t0)), "act");
}

TEST_F(IncidentMachineTest, other_policies_may_want_to_wait_for_longer) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  (void)incident.pass_ended({.look_again = 1h}, t0);
  EXPECT_EQ(printed(incident.policies_changed({.silent = 30s, .living = 30s}, t0 + 5s)),
            "cancel, hold holding_down, timer 25s");
}

TEST_F(IncidentMachineTest, a_pass_under_way_is_followed_by_another_one_with_a_window_of_its_own) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.policies_changed(kAtOnce, t0)), "");
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown), t0 + 20s)), "act");
  EXPECT_EQ(printed(incident.policies_changed(kAtOnce, t0 + 21s)), "");
  EXPECT_EQ(printed(incident.pass_ended({}, t0 + 24s)), "cancel, pass");
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown), t0 + 24s)), "act");
  EXPECT_EQ(printed(incident.pass_ended(failed(1), t0 + 24s)), "cancel, timer 5s");
}

TEST_F(IncidentMachineTest, an_action_whose_policy_is_gone_is_judged_again_at_once) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.pass_ended({.policies_changed = true}, t0)), "cancel, pass");
}

TEST_F(IncidentMachineTest, without_any_policy_it_ends_in_every_state) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.policies_changed(kNobody, t0)), "cancel, close no_policy");
  EXPECT_EQ(printed(incident.policies_changed(kAtOnce, t0)), "");
  IncidentMachine operating{Uid("u1"), rules, t0};
  (void)operating.open(seen(Readiness::Unknown), t0);
  (void)operating.confirmed(read(Readiness::Unknown), t0);
  EXPECT_EQ(printed(operating.policies_changed(kNobody, t0)), "cancel, close no_policy");
  IncidentMachine holding{Uid("u1"), rules, t0};
  (void)holding.open(seen(Readiness::Unknown, false), t0);
  EXPECT_EQ(printed(holding.policies_changed(kNobody, t0)), "cancel, close no_policy");
}

TEST_F(IncidentMachineTest, pods_held_by_policies_that_fail_are_not_settled) {
  const auto ended = [this](const PassResult& result) {
    IncidentMachine fresh(Uid("u1"), rules, t0);
    (void)fresh.open(seen(Readiness::Unknown), t0);
    (void)fresh.confirmed(read(Readiness::Unknown), t0);
    return printed(fresh.pass_ended(result, t0));
  };
  EXPECT_EQ(ended({.held_by_failure = {"a"}}), "cancel, timer 5s");
  EXPECT_EQ(ended({.look_again = 2s, .held_by_failure = {"a"}}), "cancel, timer 2s");
  EXPECT_EQ(ended({.failed = 1, .held_by_failure = {"a"}}), "cancel, timer 5s");
  EXPECT_EQ(ended({.policies_changed = true, .held_by_failure = {"a"}}), "cancel, pass");
}

TEST_F(IncidentMachineTest, pods_left_to_those_that_want_silence_keep_it_open_until_there_is) {
  rules.hold_downs = {.silent = 0s, .living = 0s};
  (void)incident.open(seen(Readiness::False), t0);
  (void)incident.confirmed(read(Readiness::False), t0);
  EXPECT_EQ(printed(incident.pass_ended({.unfit = true}, t0)),
            "cancel, hold signal_unfit, timer 40s");
  EXPECT_EQ(printed(incident.node_seen(seen(Readiness::Missing), t0 + 1s)), "");
  EXPECT_EQ(printed(incident.node_seen(seen(Readiness::Unknown), t0 + 2s)), "pass");
  (void)incident.confirmed(read(Readiness::Unknown), t0 + 2s);
  EXPECT_EQ(printed(incident.pass_ended({}, t0 + 15s)), "cancel, close settled");
}

TEST_F(IncidentMachineTest, a_retry_comes_before_the_silence_also_when_the_window_is_over) {
  (void)incident.open(seen(Readiness::False), t0);
  Moment now = t0;
  std::string ended;
  for (int pass = 0; pass < 5; ++pass) {
    (void)incident.confirmed(read(Readiness::False), now);
    ended = printed(incident.pass_ended({.failed = 1, .unfit = true}, now));
    EXPECT_EQ(ended, pass < 4 ? "cancel, timer 5s" : "cancel, timer 10s");
    now += 5s;
    (void)incident.timer_fired(now);
  }
}

TEST_F(IncidentMachineTest, pods_that_could_not_be_listed_are_not_forgotten_when_the_window_ends) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  Moment now = t0;
  std::vector<std::string> ends;
  for (const Duration pause : {5s, 10s, 20s, 30s, 30s}) {
    EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown), now)), "act");
    ends.push_back(printed(incident.pass_ended({.unreadable = true}, now)));
    now += pause;
    EXPECT_EQ(printed(incident.timer_fired(now)), "pass");
  }
  EXPECT_EQ(ends, (std::vector<std::string>{
                      "hold unreadable, cancel, timer 5s", "hold unreadable, cancel, timer 10s",
                      "hold unreadable, cancel, timer 20s", "hold unreadable, cancel, timer 30s",
                      "hold unreadable, cancel, timer 30s"}));
  EXPECT_EQ(printed(incident.confirmed(read(Readiness::Unknown), now)), "act");
  EXPECT_EQ(printed(incident.pass_ended({}, now)), "cancel, close settled");
}

TEST_F(IncidentMachineTest, stopping_closes_it_once) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.stop()), "cancel, close stopping");
  EXPECT_EQ(printed(incident.stop()), "");
}

struct AwaitingTest : IncidentMachineTest {
  AwaitingTest() {
    rules.replacement_wait = 5min;
    rules.looks = {};
    incident = IncidentMachine{Uid("u1"), rules, t0};
    (void)incident.open(seen(Readiness::Unknown), t0);
    (void)incident.confirmed(read(Readiness::Unknown), t0);
  }
  std::string end_pass(Moment now, std::uint32_t deleted = 1) {
    return printed(incident.pass_ended({.deleted = deleted, .unreplaced = t0 + 1s}, now));
  }
  // The looks after a deletion are over.
  void settle() {
    Moment now = t0 + 1s;
    std::string then = end_pass(now);
    while (incident.state() == IncidentMachine::State::Resting) {
      now += 20s;
      (void)incident.timer_fired(now);
      (void)incident.confirmed(read(Readiness::Unknown), now);
      then = end_pass(now, 0);
    }
    EXPECT_EQ(then, "cancel, timer 4m");  // of the five minutes since the deletion
  }
};

TEST_F(AwaitingTest, an_incident_with_nothing_left_to_do_awaits_replacements_without_acting) {
  settle();
  EXPECT_EQ(incident.state(), IncidentMachine::State::Verifying);
  EXPECT_EQ(to_string(incident.state()), "verifying");
  EXPECT_FALSE(incident.in_progress());
  EXPECT_EQ(printed(incident.node_seen(seen(Readiness::False), t0 + 2min)), "");
  EXPECT_EQ(printed(incident.storage_moved(t0 + 2min)), "");
  EXPECT_EQ(printed(incident.replacements_ready()), "cancel, close settled");
}

TEST_F(AwaitingTest, it_does_so_for_a_time_only) {
  settle();
  EXPECT_EQ(printed(incident.timer_fired(t0 + 5min + 1s)), "cancel, close unreplaced");
}

TEST_F(AwaitingTest, the_time_counts_from_the_last_deletion_whoever_made_it) {
  EXPECT_EQ(printed(incident.pass_ended({.unreplaced = t0 - 3min}, t0 + 1s)),
            "cancel, timer 1m59s");
}

TEST_F(AwaitingTest, what_was_deleted_long_ago_is_looked_at_once) {
  EXPECT_EQ(printed(incident.pass_ended({.unreplaced = t0 - 1h, .unverified = true}, t0)),
            "cancel, timer 15s");
  EXPECT_EQ(printed(incident.timer_fired(t0 + 15s)), "cancel, close unreplaced");
}

TEST_F(AwaitingTest, what_was_deleted_long_ago_is_awaited_no_longer) {
  EXPECT_EQ(printed(incident.pass_ended({.unreplaced = t0 - 1h}, t0)), "cancel, close unreplaced");
}

TEST_F(AwaitingTest, the_looks_follow_what_a_pass_deleted_that_was_stopped) {
  EXPECT_EQ(printed(incident.pass_ended({.deleted = 1, .policies_changed = true}, t0 + 1s)),
            "cancel, pass");
  (void)incident.confirmed(read(Readiness::Unknown), t0 + 1s);
  EXPECT_EQ(end_pass(t0 + 1s, 0), "cancel, timer 0s");
  EXPECT_EQ(incident.state(), IncidentMachine::State::Resting) << "the first look";
}

TEST_F(AwaitingTest, it_closes_as_ever_when_the_node_is_back) {
  settle();
  EXPECT_EQ(printed(incident.node_seen(seen(Readiness::True), t0 + 2min)),
            "cancel, close node_ready");
}

TEST_F(AwaitingTest, a_reload_is_heeded_and_gives_no_more_time) {
  settle();
  EXPECT_EQ(printed(incident.policies_changed({.silent = 0s, .living = 0s}, t0 + 4min)),
            "cancel, pass");
  (void)incident.confirmed(read(Readiness::Unknown), t0 + 4min);
  EXPECT_EQ(end_pass(t0 + 4min + 1s, 0), "cancel, timer 1m");
}

TEST_F(AwaitingTest, replacements_that_are_ready_before_the_end_leave_nothing_to_await) {
  EXPECT_EQ(printed(incident.replacements_ready()), "");
  EXPECT_EQ(incident.state(), IncidentMachine::State::Operating);
}

TEST_F(IncidentMachineTest, news_of_the_pods_begin_a_pass_only_while_it_rests_for_a_policy) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  EXPECT_FALSE(incident.may_hear());
  EXPECT_EQ(printed(incident.pods_changed(t0)), "");
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.pods_changed(t0)), "");
  (void)incident.pass_ended({.waits = true, .look_again = 1h}, t0);
  ASSERT_TRUE(incident.may_hear());
  EXPECT_EQ(printed(incident.pods_changed(t0 + 2s)), "pass");
  (void)incident.confirmed(read(Readiness::Unknown), t0 + 2s);
  (void)incident.pass_ended({.failed = 1, .waits = true, .look_again = 1h}, t0 + 2s);
  EXPECT_FALSE(incident.may_hear()) << "a failure is repeated in its own time";
}

TEST_F(IncidentMachineTest, a_deadline_of_a_pod_is_kept_to_the_moment_however_long_the_pass_took) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.pass_ended({.waits = true, .look_again = 1h, .look_at = t0 + 30s},
                                        t0 + 900ms)),
            "cancel, timer 29s100ms");
}

TEST_F(IncidentMachineTest, news_of_the_pods_use_up_no_look_after_what_was_deleted) {
  (void)incident.open(seen(Readiness::Unknown), t0);
  (void)incident.confirmed(read(Readiness::Unknown), t0);
  EXPECT_EQ(printed(incident.pass_ended({.deleted = 1, .waits = true, .look_again = 1h}, t0)),
            "cancel, timer 1s");
  EXPECT_EQ(printed(incident.pods_changed(t0 + 100ms)), "pass");
  (void)incident.confirmed(read(Readiness::Unknown), t0 + 100ms);
  EXPECT_EQ(printed(incident.pass_ended({.waits = true, .look_again = 1h}, t0 + 100ms)),
            "cancel, timer 1s");
}

}  // namespace
}  // namespace moonfence::fence
