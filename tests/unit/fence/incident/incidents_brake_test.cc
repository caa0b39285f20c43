// Incidents and the brake: who waits, in which order they go on, and what stops in the middle.

#include <gtest/gtest.h>

#include "unit/fence/incidents_fixture.h"

namespace moonfence::fence {
namespace {

struct IncidentsBrakeTest : IncidentsTest {
  // Nodes n1 … nK are down with a pod each: web-1 … web-K.
  void lose(int count) {
    for (int i = 1; i <= count; ++i) {
      const std::string name = "n" + std::to_string(i);
      nodes[name] = {};
      nodes[name].uid = "node-" + std::to_string(i);
      add_pod("web-" + std::to_string(i), name);
    }
  }
  void tell_all(int count) {
    for (int i = 1; i <= count; ++i) {
      tell(Look::Fell, "n" + std::to_string(i));
    }
  }
  void fail_calls() {
    for (int i = 0; i < 8; ++i) {
      doubt.call_ended(/*failed=*/true, loop.now());
    }
    (void)doubt.look({}, loop.now());
  }
  void trust_again() {
    (void)doubt.look({}, loop.now() + 1min);  // the calls are forgotten, the nodes are to be listed
    ASSERT_TRUE(doubt.look({.node_lists = 1}, loop.now() + 1min).trusts_again);
    incidents->trust_restored();
  }
  void census(int workers, int down) { incidents->census_changed(census_of(workers, down)); }
};

TEST_F(IncidentsBrakeTest, while_too_many_are_down_nothing_is_even_read) {  // row E-22
  lose(2);
  take_up_nodes();
  census(3, 2);
  tell_all(2);
  run_for(1h);
  EXPECT_EQ(reads(), Lines{});
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::TooManyDown), 2U);
  EXPECT_EQ(incidents->braked_incidents(), 2U);
}

TEST_F(IncidentsBrakeTest, when_it_lets_go_everything_is_read_anew_and_done) {
  lose(2);
  take_up_nodes();
  census(3, 2);
  tell_all(2);
  run_for(1min);
  nodes["n1"].ready = "True";
  census(3, 1);
  tell(Look::Changed, "n1");
  EXPECT_EQ(closed_by(), Reason::NodeReady);
  run_for(9s);
  EXPECT_EQ(reads(), Lines{});
  run_for(2s);
  EXPECT_EQ(reads(), (Lines{"pods 1m10s", "n2 1m10s"}));
  EXPECT_EQ(deletes(), Lines{"web-2 1m10s"});
  run_for(30s);  // it looks after what it did
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(IncidentsBrakeTest, a_node_that_came_back_unnoticed_is_found_ready_when_the_brake_lets_go) {
  lose(2);
  take_up_nodes();
  census(3, 2);
  tell_all(2);
  nodes["n1"].ready = "True";
  nodes["n2"].ready = "True";
  census(3, 1);
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(incidents->open_incidents(), 0U);
}

TEST_F(IncidentsBrakeTest, hold_downs_begin_anew_when_the_brake_lets_go) {
  lose(2);
  take_up_nodes(policy_of("return fence.delete_pod('dead')",
                          "trigger = { failures = 3, interval = '10s', live_kubelet = true },"));
  census(3, 2);
  tell_all(2);
  run_for(1h);
  census(3, 1);
  run_for(39s);  // the cool-down, and 30 s that are counted from its end
  EXPECT_EQ(deletes(), Lines{});
  run_for(2s);
  EXPECT_EQ(deletes().size(), 2U);
}

TEST_F(IncidentsBrakeTest, so_many_nodes_at_once_and_the_others_follow_in_order) {  // row E-14
  lose(8);
  delete_delay = 2s;
  take_up_nodes();
  census(100, 8);
  std::size_t most = 0;
  story.hook = [this, &most](const Record& /*record*/) {
    most = std::max(most, brake.being_fenced());
  };
  tell_all(8);
  EXPECT_EQ(incidents->braked_incidents(), 3U);
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::TooManyAtOnce), 3U);
  ASSERT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  EXPECT_EQ(most, 5U);
  EXPECT_EQ(deletes(), (Lines{"web-1 0s", "web-2 0s", "web-3 0s", "web-4 0s", "web-5 0s",
                              "web-6 2s", "web-7 2s", "web-8 2s"}));
  EXPECT_EQ(brake.being_fenced(), 0U);
}

TEST_F(IncidentsBrakeTest, a_node_whose_deletions_are_repeated_keeps_its_place) {
  lose(6);
  scripts["web-1"] = {broken()};
  take_up_nodes();
  census(100, 6);
  tell_all(1);
  run_for(3s);
  EXPECT_EQ(brake.being_fenced(), 1U);
  run_for(1min);
  EXPECT_EQ(brake.being_fenced(), 0U) << "between the long pauses the place is another node's";
  EXPECT_EQ(incidents->open_incidents(), 1U);
  scripts.clear();
  ASSERT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  EXPECT_EQ(brake.being_fenced(), 0U);
}

TEST_F(IncidentsBrakeTest, an_incident_that_only_waits_makes_room) {
  lose(1);
  take_up_nodes(on_every_signal("return fence.wait('later', 60)"));
  tell_all(1);
  run_for(3s);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_EQ(brake.being_fenced(), 0U);
}

TEST_F(IncidentsBrakeTest, a_node_that_cannot_be_read_makes_room) {
  lose(1);
  node_answer = broken();
  take_up_nodes();
  tell_all(1);
  run_for(1s);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_EQ(brake.being_fenced(), 0U);
}

TEST_F(IncidentsBrakeTest, a_storm_that_begins_in_the_middle_stops_the_deletions_that_wait) {
  nodes["n1"] = {};
  add_pods(200);  // not all leave at once
  delete_delay = 100ms;
  take_up_nodes();
  tell(Look::Fell);
  ASSERT_TRUE(run_until([this] { return deletes().size() == kube::Destroyer::kMostAtOnce; }));
  census(3, 2);
  run_for(1min);
  EXPECT_EQ(deletes().size(), kube::Destroyer::kMostAtOnce);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::TooManyDown), 1U);
  EXPECT_EQ(incidents->braked_incidents(), 1U);
  EXPECT_EQ(brake.being_fenced(), 0U);
  census(3, 1);
  ASSERT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  EXPECT_EQ(deletes().size(), 200U);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(IncidentsBrakeTest, a_storm_that_begins_while_the_node_is_read_stops_the_pass) {
  lose(1);
  node_answer.delay = 500ms;
  take_up_nodes();
  tell_all(1);
  run_for(100ms);
  census(3, 2);
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.told(true).back(), "incident_held too_many_down");
}

TEST_F(IncidentsBrakeTest, ten_nodes_within_ten_minutes_and_no_more) {
  lose(12);
  take_up_nodes();
  census(100, 12);
  tell_all(12);
  run_for(1min);
  EXPECT_EQ(deletes().size(), 10U);
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::TooManyInWindow), 2U);
  run_for(10min);
  EXPECT_EQ(deletes().size(), 12U);
  EXPECT_EQ(incidents->open_incidents(), 0U);
}

TEST_F(IncidentsBrakeTest, a_node_that_falls_when_the_window_is_full_waits_for_room_in_it) {
  lose(11);
  take_up_nodes();
  census(100, 11);
  tell_all(10);
  ASSERT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  run_for(1min);
  tell(Look::Fell, "n11");
  run_for(8min);
  EXPECT_EQ(deletes().size(), 10U);
  run_for(2min);
  EXPECT_EQ(deletes().size(), 11U);
}

TEST_F(IncidentsBrakeTest, what_is_only_observed_takes_no_place_in_the_window) {
  lose(12);
  take_up_nodes(on_every_signal("return fence.delete_pod('dead')"), Mode::Observe);
  census(100, 12);
  tell_all(12);
  run_for(1min);
  EXPECT_EQ(incidents->open_incidents(), 0U);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::ModeObserves), 12U);
}

// The others of `workers` are Ready, and `silent` of them have not renewed for as long as those
// that are down.
struct StormTest : IncidentsBrakeTest {
  void live(int workers, int down, int silent) {
    lose(down);
    for (int i = down + 1; i <= workers; ++i) {
      NodeState state;
      state.ready = "True";
      state.uid = "node-" + std::to_string(i);
      if (i <= down + silent) {
        state.renewed = "2026-01-02T04:59:21.000000Z";
      }
      nodes["n" + std::to_string(i)] = state;
    }
  }
};

TEST_F(StormTest, what_falls_silent_with_the_first_counts_before_it_is_called_so) {  // row E-22
  live(5, 1, 2);
  take_up_nodes();
  census(5, 1);
  tell_all(1);
  run_for(9s);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::TooManyDown), 1U);
  EXPECT_EQ(peer_lease_reads(), Lines{"0s"});
  run_for(22s);
  EXPECT_EQ(peer_lease_reads(), (Lines{"0s", "10s", "20s", "30s"})) << "bounded, and repeated";
  nodes["n2"].renewed = "2026-01-02T05:00:00.000000Z";
  run_for(10s);
  EXPECT_EQ(deletes(), Lines{"web-1 40s"});
}

// By its stamp it was silent for an hour when the others had been for half a minute.
TEST_F(StormTest, a_first_one_whose_clock_is_behind_hides_no_storm) {
  live(5, 1, 2);
  nodes["n1"].renewed = "2026-01-02T03:59:20.000000Z";
  take_up_nodes();
  census(5, 1);
  tell_all(1);
  run_for(9s);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::TooManyDown), 1U);
}

// The brake would hold all nodes, and log and metrics would not say why.
TEST_F(StormTest, who_only_foresees_does_not_pull_the_brake) {
  live(5, 1, 2);
  plans_ahead = true;
  nodes["n1"].tainted = false;
  take_up_nodes();
  census(5, 1);
  tell_all(1);
  run_for(500ms);
  EXPECT_EQ(peer_lease_reads(), Lines{"0s"});
  EXPECT_FALSE(brake.refuse({.node = NodeName("n1"), .zone = {}}, loop.now()));
  nodes["n1"].tainted = true;
  tell();
  run_for(500ms);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::TooManyDown), 1U);
}

TEST_F(StormTest, beside_one_silent_node_two_of_five_are_not_too_many) {
  live(5, 1, 1);
  take_up_nodes();
  census(5, 1);
  tell_all(1);
  run_for(1s);
  EXPECT_EQ(deletes(), Lines{"web-1 0s"});
}

TEST_F(StormTest, one_list_serves_all_that_fall_within_a_second) {
  live(20, 5, 0);
  take_up_nodes();
  census(20, 5);
  tell_all(5);
  run_for(500ms);
  EXPECT_EQ(deletes().size(), 5U);
  EXPECT_EQ(peer_lease_reads(), Lines{"0s"});
}

TEST_F(StormTest, without_the_list_nobody_knows_and_it_is_asked_for_again) {
  live(5, 1, 0);
  peer_leases_answer = broken();
  take_up_nodes();
  census(5, 1);
  tell_all(1);
  run_for(4s);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::LeaseUnreadable), 1U);
  peer_leases_answer = {};
  run_for(2s);
  EXPECT_EQ(deletes(), Lines{"web-1 5s"});
}

TEST_F(StormTest, a_slow_list_is_followed_by_a_fresh_reading) {
  live(5, 1, 0);
  peer_leases_answer.delay = 3s;
  take_up_nodes();
  census(5, 1);
  tell_all(1);
  run_for(3500ms);
  EXPECT_EQ(reads(), (Lines{"pods 0s", "n1 0s", "n1 3s"}));
  EXPECT_EQ(deletes(), Lines{"web-1 3s"});
}

// How many others are silent is not told by a picture of any age.
TEST_F(StormTest, a_list_of_a_cache_that_lags_is_asked_for_again_of_the_store) {
  live(5, 1, 0);
  cache_lag = 11s;
  take_up_nodes();
  census(5, 1);
  tell_all(1);
  run_for(1s);
  EXPECT_EQ(peer_lease_reads(), (Lines{"0s", "0s"}));
  std::vector<std::string> queries;
  for (const test::FakeRequest& request : http.requests) {
    if (request.path.ends_with("/leases")) {
      queries.push_back(request.query);
    }
  }
  EXPECT_EQ(queries, (Lines{"resourceVersion=0", ""}));
  EXPECT_EQ(deletes(), Lines{"web-1 0s"});
}

TEST_F(StormTest, a_kubelet_s_own_word_needs_no_list) {
  live(5, 1, 4);
  nodes["n1"].ready = "False";
  take_up_nodes();
  census(5, 1);
  tell_all(1);
  run_for(1s);
  EXPECT_EQ(deletes().size(), 1U);
  EXPECT_EQ(peer_lease_reads(), Lines{});
}

TEST_F(StormTest, news_that_turn_out_to_be_unknown_are_held_against_the_list_too) {
  live(5, 1, 4);
  nodes["n1"].ready = "False";
  take_up_nodes();
  census(5, 1);
  tell_all(0);
  incidents->look_at(view("n1"), Look::Fell);
  nodes["n1"].ready = "Unknown";  // before it is read
  run_for(5s);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(peer_lease_reads(), Lines{"0s"});
}

TEST_F(IncidentsBrakeTest, who_doubts_itself_reads_nothing_and_holds_everything) {  // hazard H18
  lose(2);
  take_up_nodes();
  fail_calls();
  tell_all(2);
  run_for(1h);
  EXPECT_EQ(reads(), Lines{});
  EXPECT_EQ(incidents->braked_incidents(), 2U);
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::DoubtsItself), 2U);
  EXPECT_EQ(story.records.back().text, "calls_fail");
  trust_again();
  run_for(30s);
  EXPECT_EQ(deletes(), Lines{}) << "their kubelets could not renew while the server did not answer";
  run_for(20s);
  EXPECT_EQ(deletes().size(), 2U);
}

TEST_F(IncidentsBrakeTest, a_doubt_in_the_middle_of_a_pass_stops_it) {
  lose(1);
  node_answer.delay = 500ms;
  take_up_nodes();
  tell_all(1);
  ASSERT_TRUE(run_until([this] { return !reads().empty(); }));
  fail_calls();
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(incidents->braked_incidents(), 1U);
}

TEST_F(IncidentsBrakeTest, a_doubt_at_the_wire_stops_what_waits_there) {
  lose(1);
  take_up_nodes();
  story.hook = [this](const Record& record) {
    if (record.kind == Record::Kind::Intent) {
      fail_calls();
    }
  };
  tell_all(1);
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::DoubtsItself), 1U);
  story.hook = [](const Record& /*record*/) {};
  trust_again();
  run_for(50s);
  EXPECT_EQ(deletes().size(), 1U);
}

TEST_F(IncidentsBrakeTest, hold_downs_begin_anew_when_we_trust_ourselves_again) {
  lose(1);
  nodes["n1"].ready = "False";  // the kubelet's own word needs no Lease
  take_up_nodes(policy_of("return fence.delete_pod('dead')",
                          "trigger = { failures = 3, interval = '10s', live_kubelet = true },"));
  tell_all(1);
  run_for(15s);
  fail_calls();
  run_for(1h);
  trust_again();
  run_for(29s);
  EXPECT_EQ(deletes(), Lines{});
  run_for(2s);
  EXPECT_EQ(deletes().size(), 1U);
}

TEST_F(IncidentsBrakeTest, a_lease_that_stood_still_while_we_doubted_has_to_stand_still_again) {
  lose(1);
  nodes["n1"].ready = "False";  // by its Lease alone the kubelet is dead or alive
  take_up_nodes(policy_of("return fence.delete_pod('dead')"));
  tell_all(1);
  run_for(30s);
  fail_calls();
  run_for(1min);
  trust_again();
  run_for(39s);
  EXPECT_EQ(deletes(), Lines{});
  run_for(3s);
  EXPECT_EQ(deletes().size(), 1U);
}

TEST_F(IncidentsBrakeTest, each_cause_of_a_doubt_is_told_once) {
  lose(1);
  take_up_nodes();
  fail_calls();
  tell_all(1);
  for (int i = 0; i < 5; ++i) {
    census(100, i);
    run_for(1s);
  }
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::DoubtsItself), 1U);
}

TEST_F(IncidentsBrakeTest, a_deletion_under_way_counts_also_when_its_incident_is_closed) {
  lose(1);
  delete_delay = 3s;
  take_up_nodes();
  tell_all(1);
  ASSERT_TRUE(run_until([this] { return deletes().size() == 1; }));
  incidents->step_down();
  EXPECT_EQ(brake.being_fenced(), 1U);
  run_for(5s);
  EXPECT_EQ(brake.being_fenced(), 0U);
}

}  // namespace
}  // namespace moonfence::fence
