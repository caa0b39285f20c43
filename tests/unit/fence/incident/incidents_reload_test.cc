#include <algorithm>
#include <functional>

#include "unit/fence/incidents_fixture.h"

namespace moonfence::fence {
namespace {

struct ReloadTest : IncidentsTest {
  cluster::NodeCache cache{loop, log, 0s, listener};

  // What app/ does after a reload; the cache knows of n1.
  void reload(std::vector<Binding> bindings) {
    activate(std::move(bindings));
    incidents->policies_changed();
    cache.look_again(Look::PoliciesChanged);
  }
  void list_nodes() {
    cache.on_init();
    for (const auto& [name, state] : nodes) {
      cache.on_init_apply(node_json(name));
    }
    cache.on_init_done();
  }
  static Binding deletes_it(const std::string& name, Mode mode = Mode::Enforce) {
    return binding_of(named_policy(name, "return fence.delete_pod('dead')"), mode);
  }
  static Binding skips_it(const std::string& name) {
    return binding_of(named_policy(name, "return fence.skip('none of mine')"));
  }
  static Binding forbids_it(const std::string& name) {
    return binding_of(named_policy(name, "return fence.forbid('mine')"));
  }
  // Keeps an incident open that has nothing else to do.
  static Binding waits_for_others(const std::string& name) {
    return binding_of(named_policy(name,
                                   "if pod.name == 'other-0' then return fence.wait('later', "
                                   "3000) end return fence.skip('not mine')"));
  }
  void open_with(std::vector<Binding> bindings) {
    take_up_nodes();
    activate(std::move(bindings));
  }
  // Calls `reload` when the first record of this kind is written.
  void on_first(Record::Kind kind, std::function<void()> act) {
    story.hook = [this, kind, act = std::move(act)](const Record& record) {
      if (record.kind == kind && !std::exchange(happened_, true)) {
        act();
      }
    };
  }
  [[nodiscard]] bool closed() const { return incidents->open_incidents() == 0; }

 private:
  // Incidents are made later than the cache that tells it.
  struct Forward final : cluster::NodeListener {
    explicit Forward(std::optional<Incidents>& told) : incidents(told) {}
    void look_at(const cluster::NodeView& node, Look why) override {
      incidents->look_at(node, why);
    }
    std::optional<Incidents>& incidents;
  };
  Forward listener{incidents};
  bool happened_ = false;
};

TEST_F(ReloadTest, between_verdict_and_deletion_the_pod_is_judged_again_by_the_new_set) {
  add_pods(2 * kube::Destroyer::kMostAtOnce);
  delete_delay = 100ms;
  open_with({deletes_it("a")});
  tell(Look::Fell);
  run_for(10ms);  // a full width has left, the others are queued
  reload({deletes_it("b")});
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_TRUE(pods.empty());
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::PolicyChanged),
            kube::Destroyer::kMostAtOnce);
  std::map<std::string, std::size_t> intents;
  for (const Record& record : story.records) {
    intents[record.policy] += record.kind == Record::Kind::Intent ? 1 : 0;
  }
  EXPECT_EQ(intents["a"], kube::Destroyer::kMostAtOnce);
  EXPECT_EQ(intents["b"], kube::Destroyer::kMostAtOnce);
  EXPECT_EQ(closed_by(), Reason::Settled);
  EXPECT_EQ(made_ids, 1);
}

TEST_F(ReloadTest, between_intent_and_wire_the_deletion_is_refused_and_judged_again) {
  add_pod("web-0");
  open_with({deletes_it("a")});
  story.hook = [this](const Record& record) {
    credentials.late = record.kind == Record::Kind::Intent && record.policy == "a";
  };
  tell(Look::Fell);
  run_for(100ms);
  reload({skips_it("b")});
  credentials.answer(std::exchange(credentials.waiting, nullptr));
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(story.told(true),
            (Lines{"incident_opened node_unknown", "verdict policy_deletes_pod db/web-0",
                   "intent policy_deletes_pod db/web-0", "refusal policy_changed db/web-0",
                   "verdict policy_skips db/web-0", "incident_closed settled"}));
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(ReloadTest, a_guard_that_comes_into_force_binds_what_is_queued) {
  add_pods(2 * kube::Destroyer::kMostAtOnce);
  delete_delay = 100ms;
  open_with({deletes_it("a")});
  tell(Look::Fell);
  run_for(10ms);
  reload({deletes_it("a"), forbids_it("g")});  // who decided is in force as before
  run_for(10s);
  EXPECT_EQ(deletes().size(), kube::Destroyer::kMostAtOnce);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::PolicyChanged),
            kube::Destroyer::kMostAtOnce);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::PolicyForbids),
            kube::Destroyer::kMostAtOnce);
}

TEST_F(ReloadTest, a_guard_that_breaks_binds_what_waits_for_the_wire) {
  add_pod("web-0");
  open_with({deletes_it("a")});
  story.hook = [this](const Record& record) {
    credentials.late = record.kind == Record::Kind::Intent;
  };
  tell(Look::Fell);
  run_for(100ms);
  reload({deletes_it("a"), broken_guard()});
  credentials.answer(std::exchange(credentials.waiting, nullptr));
  run_for(1min);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::PolicyChanged), 1U);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::GuardBroken), 1U);
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(ReloadTest, what_another_set_refuses_is_judged_again_once) {
  add_pod("web-0");
  open_with({deletes_it("a")});
  on_first(Record::Kind::Verdict, [this] { activate({deletes_it("a"), skips_it("b")}); });
  tell(Look::Fell);
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(story.told(), (Lines{"incident_opened node_unknown", "refusal policy_changed db/web-0",
                                 "intent policy_deletes_pod db/web-0", "outcome done db/web-0",
                                 "incident_closed settled"}));
}

TEST_F(ReloadTest, what_only_observes_is_judged_again_by_the_new_set_as_well) {
  add_pod("web-0");
  open_with({deletes_it("a", Mode::Observe)});
  on_first(Record::Kind::Verdict, [this] { activate({deletes_it("b", Mode::Observe)}); });
  tell(Look::Fell);
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(story.told(), (Lines{"incident_opened node_unknown", "refusal policy_changed db/web-0",
                                 "refusal mode_observes db/web-0", "incident_closed settled"}));
}

TEST_F(ReloadTest, a_set_that_nobody_was_told_of_is_found_by_the_guard) {
  add_pod("web-0");
  open_with({deletes_it("a")});
  on_first(Record::Kind::Verdict, [this] { activate({deletes_it("b")}); });
  tell(Look::Fell);
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(story.told(), (Lines{"incident_opened node_unknown", "refusal policy_changed db/web-0",
                                 "intent policy_deletes_pod db/web-0", "outcome done db/web-0",
                                 "incident_closed settled"}));
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});  // the second pass starts at once
}

TEST_F(ReloadTest, a_narrowed_scope_is_found_by_the_guard) {
  add_pod("web-0");
  const auto policy = named_policy("a", "return fence.delete_pod('dead')");
  open_with({binding_of(policy, Mode::Enforce, {Namespace("db"), Namespace("shop")})});
  on_first(Record::Kind::Verdict,
           [this, policy] { activate({binding_of(policy, Mode::Enforce, {Namespace("shop")})}); });
  tell(Look::Fell);
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::PolicyChanged), 1U);
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(ReloadTest, from_enforcing_to_observing_nothing_more_is_deleted) {
  add_pods(2 * kube::Destroyer::kMostAtOnce);
  delete_delay = 100ms;
  open_with({deletes_it("a")});
  tell(Look::Fell);
  run_for(10ms);
  reload({deletes_it("a", Mode::Observe)});
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes().size(), kube::Destroyer::kMostAtOnce);
  // Once when the queue is refused, once in the pass that follows.
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::PolicyChanged),
            kube::Destroyer::kMostAtOnce);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::ModeObserves), kube::Destroyer::kMostAtOnce);
}

TEST_F(ReloadTest, off_cancels_what_is_queued_and_what_waits_for_the_wire) {
  add_pods(2 * kube::Destroyer::kMostAtOnce);
  delete_delay = 100ms;
  open_with({deletes_it("a")});
  tell(Look::Fell);
  run_for(10ms);
  add_pod("late-0");
  reload({});
  EXPECT_EQ(incidents->open_incidents(), 0U);
  EXPECT_EQ(closed_by(), Reason::NoPolicy);
  run_for(1h);
  EXPECT_EQ(deletes().size(), kube::Destroyer::kMostAtOnce);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Done), kube::Destroyer::kMostAtOnce);

  // One that has its intent, but not its connection.
  pods.clear();
  add_pod("web-0");
  activate({deletes_it("a")});
  story.hook = [this](const Record& record) {
    credentials.late = record.kind == Record::Kind::Intent;
  };
  tell(Look::Fell);
  run_for(100ms);
  reload({});
  credentials.answer(std::exchange(credentials.waiting, nullptr));
  run_for(1min);
  EXPECT_EQ(story.told().back(), "refusal incident_closed db/web-0");
  EXPECT_EQ(deletes().size(), kube::Destroyer::kMostAtOnce);
}

TEST_F(ReloadTest, an_incident_that_rests_starts_at_once_with_the_new_set) {
  add_pod("web-0");
  open_with({binding_of(named_policy("a", "return fence.wait('later', 3000)"))});
  tell(Look::Fell);
  run_for(10s);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  reload({deletes_it("b")});
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), Lines{"web-0 10s"});
  EXPECT_EQ(made_ids, 1);
}

TEST_F(ReloadTest, a_pass_keeps_its_set_and_the_next_one_follows_right_after_it) {
  add_pod("web-0");
  list_answer.delay = 200ms;
  open_with({skips_it("a")});
  tell(Look::Fell);
  run_for(100ms);
  reload({deletes_it("b")});
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(story.told(true),
            (Lines{"incident_opened node_unknown", "verdict policy_skips db/web-0",
                   "verdict policy_deletes_pod db/web-0", "intent policy_deletes_pod db/web-0",
                   "outcome done db/web-0", "incident_closed settled"}));
  EXPECT_EQ(deletes(), Lines{"web-0 400ms"});
}

TEST_F(ReloadTest, a_new_set_has_a_retry_window_and_a_breaker_of_its_own) {
  add_pods(6);
  scripts["web-1000"] = {broken()};
  open_with({binding_of(named_policy("a", "error('oh no')"))});
  tell(Look::Fell);
  run_for(2s);
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicyFailed), 5U);
  activate({deletes_it("a")});
  incidents->policies_changed();
  run_for(24s);
  const Lines sent = deletes();
  EXPECT_EQ(std::count(sent.begin(), sent.end(), "web-1000 2s"), 1);
  EXPECT_EQ(std::count(sent.begin(), sent.end(), "web-1000 22s"), 1);
  EXPECT_EQ(sent.size(), 10U);  // five of them for the one that fails
}

TEST_F(ReloadTest, nodes_whose_incident_is_over_are_looked_at_again) {
  add_pod("web-0");
  nodes["n2"] = {.ready = "True", .uid = "node-2"};
  open_with({skips_it("a")});
  list_nodes();
  ASSERT_TRUE(run_until([this] { return closed(); }));
  run_for(1h - 15s);
  reload({deletes_it("b")});
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(made_ids, 2);
  EXPECT_EQ(deletes(), Lines{"web-0 1h"});
  EXPECT_EQ(story.told()[2], "incident_opened policies_changed");
}

TEST_F(ReloadTest, a_mode_that_is_switched_on_finds_the_nodes_that_are_down) {
  add_pod("web-0");
  open_with({});
  list_nodes();
  run_for(1min);
  EXPECT_EQ(made_ids, 0);
  reload({deletes_it("a")});
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), Lines{"web-0 1m"});
}

TEST_F(ReloadTest, those_that_want_to_see_a_node_fall_do_not_act_after_a_reload) {
  add_pod("web-0");
  const auto falling = [](const std::string& name) {
    return binding_of(
        named_policy(name, "return fence.delete_pod('dead')", "trigger = { sweep = false },"));
  };
  open_with({skips_it("a")});
  tell(Look::Fell);
  ASSERT_TRUE(run_until([this] { return closed(); }));
  cache.on_init();
  activate({});
  list_nodes();
  reload({falling("b")});
  run_for(45s);
  EXPECT_EQ(made_ids, 1);
  reload({falling("b"), skips_it("c")});  // neither beside another
  run_for(1min);
  EXPECT_EQ(made_ids, 2);
  EXPECT_EQ(deletes(), Lines{});
  tell(Look::Fell);
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), Lines{"web-0 2m"});
}

TEST_F(ReloadTest, a_fall_during_an_incident_entitles_those_that_wanted_to_see_it) {
  add_pod("web-0");
  add_pod("other-0");
  open_with({waits_for_others("a"),
             binding_of(named_policy(
                 "b", "return pod.name == 'web-0' and fence.delete_pod('dead') or fence.skip('x')",
                 "trigger = { sweep = false },"))});
  tell(Look::Swept);
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  tell(Look::Fell);
  run_for(10s);
  EXPECT_EQ(deletes(), Lines{"web-0 1m"});
  EXPECT_EQ(made_ids, 1);
}

TEST_F(ReloadTest, an_expired_entry_entitles_those_that_wanted_to_see_the_node_fall) {
  add_pod("web-0");
  add_pod("other-0");
  open_with({waits_for_others("a"),
             binding_of(named_policy(
                 "b", "return pod.name == 'web-0' and fence.delete_pod('dead') or fence.skip('x')",
                 "trigger = { sweep = false },"))});
  tell(Look::Swept);
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  tell(Look::Expired);
  run_for(10s);
  EXPECT_EQ(deletes(), Lines{"web-0 1m"});
  EXPECT_EQ(made_ids, 1);
}

TEST_F(ReloadTest, an_incident_that_failing_policies_hold_stays_open_and_names_them) {
  add_pod("web-0");
  open_with({binding_of(named_policy("loops", "while true do end")), deletes_it("a"),
             broken_guard({Namespace("db")})});
  tell(Look::Fell);
  run_for(1h);
  EXPECT_FALSE(closed());
  EXPECT_EQ(incidents->failing_incidents(), 1U);
  EXPECT_GE(story.count(Record::Kind::IncidentHeld, Reason::StillFailing), 1U);
  EXPECT_TRUE(story.records.back().text.ends_with(
      "policies that fail: broken, loops; looked at again in 1m"))
      << story.records.back().text;
  EXPECT_EQ(deletes(), Lines{});
}

// Five odd answers of a back end closed the incident; nothing happened before the next edit.
TEST_F(ReloadTest, a_policy_that_fails_is_asked_again_and_acts_when_it_can) {
  add_pods(6);
  nodes["n1"].unschedulable = true;
  open_with({binding_of(named_policy("a",
                                     "if node.unschedulable then error('odd') end "
                                     "return fence.delete_pod('dead')"))});
  tell(Look::Fell);
  run_for(10min);
  EXPECT_EQ(deletes(), Lines{});
  nodes["n1"].unschedulable = false;
  run_for(1min);
  EXPECT_EQ(deletes().size(), 6U);
}

TEST_F(ReloadTest, a_policy_that_observes_and_fails_keeps_no_incident_open) {
  add_pod("web-0");
  add_pod("web-1");
  open_with({binding_of(named_policy("a",
                                     "if pod.name == 'web-0' then error('odd') end "
                                     "return fence.skip('fine')"),
                        Mode::Observe)});
  run_incident(1min);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(ReloadTest, a_pod_behind_many_on_which_a_policy_fails_comes_up_in_the_end) {
  add_pods(20);
  open_with({binding_of(named_policy("a",
                                     "if pod.name ~= 'web-1019' then error('odd') end "
                                     "return fence.delete_pod('dead')"))});
  tell(Look::Fell);
  run_for(2min);
  EXPECT_EQ(deletes().size(), 1U);
  EXPECT_FALSE(pods.contains("web-1019"));
}

TEST_F(ReloadTest, a_pod_behind_many_for_which_a_policy_needs_long_comes_up_in_the_end) {
  add_pods(200);
  static TickingCpuClock clock(10ms);
  auto slow = policy::Policy::load(
      policy_text("if pod.name ~= 'web-1199' then return fence.wait('no', 5) end "
                  "return fence.delete_pod('dead')"),
      "test.lua", clock);
  ASSERT_TRUE(slow) << slow.error().text;
  open_with({binding_of(std::make_shared<const policy::Policy>(*std::move(slow)))});
  tell(Look::Fell);
  ASSERT_TRUE(run_until([this] { return !pods.contains("web-1199"); }));
  EXPECT_EQ(deletes().size(), 1U);
}

TEST_F(ReloadTest, a_guard_that_is_mended_lets_the_others_act) {
  add_pod("web-0");
  open_with({deletes_it("a"), broken_guard()});
  list_nodes();
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  reload({deletes_it("a"), binding_of(named_policy("broken",
                                                   "if not pod then return "
                                                   "fence.forbid('x') end return "
                                                   "fence.skip('y')"))});
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), Lines{"web-0 1m"});
}

TEST_F(ReloadTest, reloads_in_quick_succession_end_with_the_last_set) {
  add_pods(20);
  list_answer.delay = 30ms;
  open_with({skips_it("a")});
  tell(Look::Fell);
  for (int i = 0; i < 50; ++i) {
    reload({skips_it("a" + std::to_string(i))});
    run_for(20ms);
  }
  reload({deletes_it("z")});
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_TRUE(pods.empty());
  EXPECT_EQ(made_ids, 1);
}

}  // namespace
}  // namespace moonfence::fence
