#include "fence/judge/pod_evaluation.h"

#include "kube/objects/decode.h"
#include "unit/fence/pass_fixture.h"

namespace moonfence::fence {
namespace {

using audit::Reason;
using audit::Record;

struct PodEvaluationTest : OnePassTest {
  PodEvaluationTest() { add_pod("web-0"); }

  static Binding says(const std::string& name, const std::string& body, Mode mode = Mode::Enforce,
                      const std::string& more = "") {
    return binding_of(named_policy(name, body, more), mode);
  }
  static Binding deletes_it(const std::string& name, Mode mode = Mode::Enforce,
                            const std::string& more = "") {
    return says(name, "return fence.delete_pod('dead')", mode, more);
  }
  static Binding forbids_it(const std::string& name, Mode mode = Mode::Enforce) {
    return says(name, "return fence.forbid('mine')", mode);
  }
  static Binding failing_guard(const std::string& name, Mode mode = Mode::Enforce) {
    return says(name, "error('oh no') return fence.forbid('mine')", mode);
  }
  // Every record about a pod with the policy it names: "verdict policy_skips a".
  [[nodiscard]] Lines told_by() const {
    Lines lines;
    for (const Record& record : story.records) {
      lines.push_back(std::string(to_string(record.kind)) + " " + std::string(code(record.reason)) +
                      (record.policy.empty() ? "" : " " + record.policy));
    }
    return lines;
  }
};

TEST_F(PodEvaluationTest, every_policy_is_asked_and_the_first_that_acts_is_carried_out) {
  const Binding first = deletes_it("b");
  run_pass({says("a", "return fence.skip('none of mine')"), first, deletes_it("c")});
  EXPECT_EQ(told_by(), (Lines{"verdict policy_skips a", "verdict policy_deletes_pod b",
                              "verdict policy_deletes_pod c", "intent policy_deletes_pod b",
                              "outcome done b"}));
  EXPECT_EQ(story.records[1].policy_digest, first.digest);
  EXPECT_EQ(story.records[4].policy_digest, first.digest);
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
}

TEST_F(PodEvaluationTest, what_a_policy_logs_stands_in_the_log_with_its_name_and_pod) {
  run_pass({says("a", "log.warn('odd label') log.info('seen') return fence.skip('none of mine')")});
  EXPECT_EQ(log.count("warning policy_says"), 1U);
  EXPECT_EQ(log.count("policy=a pod=db/web-0 text=odd label"), 1U);
  EXPECT_EQ(log.count("text=seen"), 1U);
}

// A stale Lease, as the pass has read it: what judges by its age must see one.
TEST_F(PodEvaluationTest, a_policy_sees_how_long_the_lease_has_not_been_renewed) {
  run_pass({says("a",
                 "if node.lease_age and node.machine == 'not_observable' then "
                 "return fence.delete_pod('stale') end return fence.skip('no age')")});
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
}

TEST_F(PodEvaluationTest, what_one_forbids_nobody_does) {
  const auto pass = run_pass({deletes_it("a"), forbids_it("b")});
  EXPECT_EQ(told_by(), (Lines{"verdict policy_deletes_pod a", "verdict policy_forbids b",
                              "refusal policy_forbids a"}));
  EXPECT_EQ(story.records[2].text, "policy b forbids it: mine");
  EXPECT_EQ(story.records[2].action, "delete_pod");
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(pass->result->failed, 0U);
}

TEST_F(PodEvaluationTest, a_guard_that_fails_holds_and_is_asked_again) {
  const auto pass = run_pass({deletes_it("a"), failing_guard("b")});
  EXPECT_EQ(told_by(), (Lines{"verdict policy_deletes_pod a", "verdict policy_failed b",
                              "refusal guard_failed a"}));
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(pass->result->failed, 1U);
}

TEST_F(PodEvaluationTest, a_policy_that_fails_holds_in_either_order_and_is_asked_again) {
  for (const bool first : {true, false}) {
    std::vector<Binding> bindings = {says("a", "error('oh no')"), deletes_it("b")};
    if (!first) {
      std::swap(bindings[0], bindings[1]);
    }
    const auto pass = run_pass(bindings);
    EXPECT_EQ(deletes(), Lines{});
    EXPECT_EQ(pass->result->failed, 1U);
    EXPECT_EQ(pass->result->held_by_failure, std::set<std::string>{"a"});
  }
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::GuardFailed), 2U);
}

TEST_F(PodEvaluationTest, a_wait_holds_in_either_order_and_the_conflict_is_told) {
  for (const bool first : {true, false}) {
    std::vector<Binding> bindings = {says("a", "return fence.wait('may still write', 9)"),
                                     deletes_it("b")};
    if (!first) {
      std::swap(bindings[0], bindings[1]);
    }
    const auto pass = run_pass(bindings);
    EXPECT_EQ(deletes(), Lines{});
    EXPECT_EQ(pass->result->look_again, Duration(9s));
  }
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::PolicyConflict), 2U);
  EXPECT_EQ(story.records.back().text, "policy a waits: may still write");
  EXPECT_EQ(story.records.back().policy, "b");
}

TEST_F(PodEvaluationTest, forbid_and_hold_are_asked_again) {
  EXPECT_EQ(run_pass({deletes_it("a"), forbids_it("b")})->result->look_again, Duration(1min));
  const auto held = run_pass({deletes_it("a"), says("b", "return fence.hold('not yet', 7)")});
  EXPECT_EQ(held->result->look_again, Duration(7s));
  EXPECT_EQ(run_pass({says("b", "return fence.hold('not yet')")})->result->look_again,
            Duration(30s));
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::PolicyHolds), 1U);
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicyHolds), 2U);
}

TEST_F(PodEvaluationTest, a_policy_that_holds_pods_is_heard_before_its_own_time) {
  run_pass({deletes_it("a"), says("b", "return fence.hold('not yet')", Mode::Enforce,
                                  "trigger = { failures = 3, interval = '1h' },")});
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(PodEvaluationTest, who_holds_the_node_holds_what_it_does_not_skip_against_others) {
  add_pod("db-0");
  const std::string body =
      "if pod.name == 'db-0' then return fence.delete_pod('x') end "
      "return fence.skip('not mine')";
  const std::string node = "node = function() return fence.hold('Ceph may write', 8) end,";
  const auto pass = run_pass({deletes_it("a"), says("b", body, Mode::Enforce, node)});
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
  EXPECT_EQ(pass->result->look_again, Duration(8s));
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::PolicyHolds), 1U);
  const auto failing = run_pass(
      {deletes_it("a"), says("b", body, Mode::Enforce, "node = function() error('x') end,")});
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
  EXPECT_EQ(failing->result->held_by_failure, std::set<std::string>{"b"});
}

TEST_F(PodEvaluationTest, a_broken_guard_holds_the_pods_of_its_scope_and_no_others) {
  add_pod("shop-0", "n1", "shop");
  add_pod("shop-1", "n1", "shop");
  const auto pass = run_pass({broken_guard({Namespace("db")}), everywhere(deleting_policy())});
  EXPECT_EQ(deletes(), (Lines{"shop-0 0s", "shop-1 0s"}));
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::GuardBroken), 1U);
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::GuardBroken), 1U);
  EXPECT_EQ(pass->result->failed, 0U);  // only a reload helps
}

TEST_F(PodEvaluationTest, a_broken_guard_alone_leaves_no_trace) {
  run_pass({broken_guard()});
  EXPECT_EQ(story.records.size(), 0U);
  EXPECT_EQ(reads(), Lines{"n1 0s"});
}

TEST_F(PodEvaluationTest, a_forbid_that_observes_is_recorded_and_holds_nobody) {
  run_pass({forbids_it("a", Mode::Observe), deletes_it("b")});
  EXPECT_EQ(told_by(),
            (Lines{"verdict policy_forbids a", "verdict policy_deletes_pod b",
                   "verdict shadow_differs a", "intent policy_deletes_pod b", "outcome done b"}));
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
}

TEST_F(PodEvaluationTest, guards_that_observe_hold_nobody_when_they_fail) {
  run_pass({failing_guard("a", Mode::Observe), broken_guard({}, Mode::Observe), deletes_it("b")});
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
}

TEST_F(PodEvaluationTest, what_would_be_deleted_is_recorded_beside_what_is) {
  run_pass({deletes_it("a", Mode::Observe), deletes_it("b"), deletes_it("c", Mode::Observe)});
  EXPECT_EQ(told_by(), (Lines{"verdict policy_deletes_pod a", "verdict policy_deletes_pod b",
                              "verdict policy_deletes_pod c", "intent policy_deletes_pod b",
                              "outcome done b", "refusal mode_observes a"}));
}

TEST_F(PodEvaluationTest, what_observing_comes_to_otherwise_is_told_once_with_both_words) {
  activate({says("old", "return fence.skip('not mine')"), deletes_it("new", Mode::Observe)});
  OnePass pass(*this, active.current()->bindings);
  for (int i = 0; i < 2; ++i) {
    pass.begin();
    ASSERT_TRUE(run_until([&pass] { return pass.over(); }));
  }
  ASSERT_EQ(story.count(Record::Kind::Verdict, Reason::ShadowDiffers), 1U);
  const auto differs =
      std::find_if(story.records.begin(), story.records.end(),
                   [](const Record& each) { return each.reason == Reason::ShadowDiffers; });
  EXPECT_EQ(differs->policy, "new");
  EXPECT_EQ(differs->action, "delete_pod");
  EXPECT_EQ(differs->instead_of, "skip");
  EXPECT_EQ(differs->text, "observing: dead; enforcing: not mine");
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(PodEvaluationTest, a_forbid_that_enforces_does_not_hide_what_observing_would_do) {
  run_pass({forbids_it("a"), deletes_it("b", Mode::Observe)});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::ModeObserves), 1U);
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(PodEvaluationTest, one_policy_may_observe_everywhere_and_enforce_in_one_namespace) {
  add_pod("shop-0", "n1", "shop");
  const auto policy = deleting_policy();
  run_pass({everywhere(policy, Mode::Observe), binding_of(policy, Mode::Enforce)});
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::ModeObserves), 2U);
}

TEST_F(PodEvaluationTest, the_shortest_wait_of_all_policies_and_pods_counts) {
  add_pod("web-1");
  const auto pass = run_pass({says("a", "return fence.wait('x', 90)"),
                              says("b", "return fence.wait('x', pod.name == 'web-1' and 7 or 60)"),
                              says("c", "return fence.skip('x')")});
  EXPECT_EQ(pass->result->look_again, Duration(7s));
}

TEST_F(PodEvaluationTest, only_the_policies_that_select_a_pod_are_asked) {
  add_pod("db-0", "n1", "db", "db");
  run_pass(
      {deletes_it("a", Mode::Enforce, "select = { labels = 'app=db' },"),
       says("b", "return fence.skip('x')", Mode::Enforce, "select = { labels = 'app=web' },")});
  EXPECT_EQ(told_by(), (Lines{"verdict policy_deletes_pod a", "verdict policy_skips b",
                              "intent policy_deletes_pod a", "outcome done a"}));
}

TEST_F(PodEvaluationTest, a_pod_that_nobody_selects_leaves_no_trace) {
  add_pod("kube-proxy", "n1", "kube-system");
  pods["kube-proxy"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  Binding binding = binding_of(deleting_policy());
  binding.scope = policy::NamespaceScope::of({Namespace("a"), Namespace("b"), Namespace("c"),
                                              Namespace("d"), Namespace("e")});  // one list of all
  run_pass({binding});
  EXPECT_EQ(http.count("/api/v1/pods?"), 1U);
  EXPECT_EQ(story.records.size(), 0U);
}

TEST_F(PodEvaluationTest, what_is_left_alone_depends_on_the_binding) {
  pods["web-0"]["metadata"].erase("ownerReferences");
  run_pass({deletes_it("a")});
  EXPECT_EQ(told_by(), Lines{"verdict bare_pod"});
  story.records.clear();
  Binding allowing = deletes_it("b");
  allowing.allow.bare_pods = true;
  run_pass({deletes_it("a"), allowing});
  EXPECT_EQ(told_by(), (Lines{"verdict policy_deletes_pod b", "intent policy_deletes_pod b",
                              "outcome done b"}));
}

TEST_F(PodEvaluationTest, five_errors_in_a_row_and_a_policy_is_not_asked_any_more) {
  add_pods(8);
  add_pod("db-0", "n1", "db", "db");
  const auto pass =
      run_pass({says("a", "error('oh no')", Mode::Enforce, "select = { labels = 'app=web' },"),
                deletes_it("b")});
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicyFailed), 5U);
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicyFailing), 4U);
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::PolicyFailing), 1U);
  EXPECT_EQ(deletes(), Lines{"db-0 0s"});  // the other goes on with what this one does not select
  EXPECT_EQ(pass->memory.enforcing.breaker.failing().size(), 1U);
}

TEST_F(PodEvaluationTest, the_pods_of_a_failing_policy_are_not_asked_for_again) {
  add_pods(8);
  const auto pass = run_pass({says("a", "error('oh no')")});
  EXPECT_EQ(pass->result->failed, 4U);  // the fifth made it fail; from then on nobody asks
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(PodEvaluationTest, the_pods_of_a_failing_guard_are_held) {
  add_pods(8);
  run_pass({failing_guard("a"), deletes_it("b")});
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::GuardFailed), 9U);
}

TEST_F(PodEvaluationTest, one_broken_limit_is_enough) {
  add_pods(3);
  run_pass({says("a", "while true do end")});
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicyFailed), 1U);
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicyFailing), 3U);
}

TEST_F(PodEvaluationTest, the_cpu_time_of_a_policy_counts_anew_with_each_pass) {
  TickingCpuClock clock(10ms);
  policy::Limits limits;
  limits.cpu = 1s;
  limits.compile_cpu = 1s;
  auto loaded = policy::Policy::load(policy_text("return fence.wait('later', 60)"), "test.lua",
                                     clock, limits);
  ASSERT_TRUE(loaded) << loaded.error().text;
  add_pods(20);  // 200 ms a pass at least
  OnePass pass(*this, binding_of(std::make_shared<const policy::Policy>(*std::move(loaded))));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(run_until([&pass] { return pass.over(); }));
    pass.begin();
  }
  ASSERT_TRUE(run_until([&pass] { return pass.over(); }));
  EXPECT_EQ(pass.memory.enforcing.breaker.failing(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::PolicyFailing), 0U);
}

TEST_F(PodEvaluationTest, one_binding_of_a_policy_neither_fails_nor_counts_for_another) {
  add_pods(8);
  add_pod("shop-0", "n1", "shop");
  Binding fails = says("a", "error('oh no')");
  Binding deletes = says("a", "return fence.delete_pod('seen ' .. cluster.tally.seen)");
  deletes.scope = policy::NamespaceScope::of({Namespace("shop")});
  run_pass({fails, deletes});
  EXPECT_FALSE(pods.contains("shop-0"));
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::PolicyFailing), 1U);
}

TEST_F(PodEvaluationTest, who_fails_is_named_when_its_pods_are_held) {
  const auto held_by = [this](std::vector<Binding> bindings) {
    return run_pass(std::move(bindings))->result->held_by_failure;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(held_by({says("a", "while true do end")}), Names{"a"});
  EXPECT_EQ(held_by({deletes_it("a", Mode::Observe), says("b", "error('x')", Mode::Observe)}),
            Names{});
  EXPECT_EQ(held_by({says("a", "return fence.skip('x')"), broken_guard()}), Names{});
  EXPECT_EQ(held_by({failing_guard("a"), forbids_it("b"), deletes_it("c")}), Names{});
  EXPECT_EQ(held_by({failing_guard("a"), deletes_it("b"), broken_guard()}), (Names{"a", "broken"}));
  EXPECT_EQ(held_by({says("a", "error('oh no')"), deletes_it("b")}), Names{"a"});
}

TEST_F(PodEvaluationTest, what_was_said_of_a_pod_is_recorded_again_only_when_it_changes) {
  add_pod("agent-0");
  pods["agent-0"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  const std::string changes =
      "if node.failures > 1 then return fence.skip('now') end return fence.wait('later', 60)";
  activate({deletes_it("a", Mode::Observe),
            says("b", changes, Mode::Enforce, "trigger = { failures = 1, interval = '10s' },")});
  OnePass pass(*this, active.current()->bindings);
  pass.downtime.since = loop.now();
  const Lines said = {"verdict daemon_set_pod", "verdict policy_deletes_pod a",
                      "verdict policy_waits b", "verdict shadow_differs a",
                      "refusal mode_observes a"};
  ASSERT_TRUE(run_until([&pass] { return pass.over(); }));
  EXPECT_EQ(told_by(), said);
  for (int i = 0; i < 3; ++i) {
    pass.begin();
    ASSERT_TRUE(run_until([&pass] { return pass.over(); }));
  }
  EXPECT_EQ(told_by(), said);
  EXPECT_EQ(pass.result->look_again, Duration(60s));  // they are judged all the same
  run_for(30s);
  pass.begin();
  ASSERT_TRUE(run_until([&pass] { return pass.over(); }));
  Lines all = said;
  all.insert(all.end(), {"verdict policy_skips b", "verdict shadow_differs a"});
  EXPECT_EQ(told_by(), all);
}

TEST_F(PodEvaluationTest, what_could_not_be_recorded_is_recorded_by_the_next_pass) {
  story.full = true;
  OnePass pass(*this, says("a", "return fence.skip('x')"));
  ASSERT_TRUE(run_until([&pass] { return pass.over(); }));
  story.full = false;
  pass.begin();
  ASSERT_TRUE(run_until([&pass] { return pass.over(); }));
  EXPECT_EQ(told_by(), Lines{"verdict policy_skips a"});
}

TEST_F(PodEvaluationTest, what_a_policy_needs_and_does_not_get_makes_it_wait) {
  nodes_answer = broken();
  const auto pass = run_pass(
      {says("a", "return fence.delete_pod('dead')", Mode::Enforce, "needs = { 'placement' },")});
  EXPECT_EQ(told_by(), Lines{"verdict needs_unread a"});
  EXPECT_TRUE(pass->result->unreadable) << "it is asked again, for as long as it takes";
  EXPECT_EQ(pass->result->failed, 0U);
}

TEST_F(PodEvaluationTest, a_verdict_about_attachments_names_pod_and_volumes) {
  activate({says("a", "return fence.delete_pod_and_attachments('dead')", Mode::Enforce,
                 "needs = { 'volumes' },"),
            deletes_it("b"), deletes_it("c", Mode::Observe)});
  const auto authority = std::make_shared<Authority>();
  authority->node = NodeName("n1");
  authority->node_uid = Uid("node-1");
  authority->reading = {.readiness = cluster::Readiness::Unknown,
                        .uid = Uid("node-1"),
                        .keeps_replacements_off = true,
                        .kubelet_lease = KubeletLease::Dead,
                        .sent = loop.now()};
  authority->active = &active;
  authority->leadership = &leadership;
  authority->brake = &brake;
  authority->doubt = &doubt;
  authority->protections = &protections;
  authority->ledger = new_ledger();
  const PassContext context = {
      .set = active.current(), .downtime = {}, .incident = IncidentId("i1"), .attempt = 1};
  Memory memory;
  IncidentContext around = surroundings();
  Lines ran;
  around.output.ran = [&ran](const std::string& policy, const policy::Usage& usage) {
    EXPECT_GT(usage.instructions, 0U);
    ran.push_back(policy);
  };
  PodEvaluation pod_evaluation(around, context, authority, memory);
  pod_evaluation.begin(*kube::decode_node(node_json("n1"), true));
  Gathered known;
  known.facts.volumes = {{.name = "data",
                          .claim = "data-0",
                          .state = "bound",
                          .pv = "pv-1",
                          .driver = "driver.longhorn.io"}};
  PassResult result;
  const auto pod = kube::decode_pod(pods["web-0"], true);
  const auto pod_plan = pod_evaluation.judge(*pod, known, sample_cluster(), result);
  EXPECT_EQ(pod_evaluation.observed_spaces(), std::set<Namespace>{Namespace("db")});
  pod_evaluation.tell_observed(result);
  ASSERT_TRUE(pod_plan.has_value());
  EXPECT_TRUE(pod_plan->deletes_pod);
  ASSERT_EQ(pod_plan->volumes.size(), 1U);
  EXPECT_EQ(pod_plan->volumes.front().pv, "pv-1");
  EXPECT_EQ(pod_plan->deletion.policy, "a");
  EXPECT_EQ(told_by(),
            (Lines{"verdict policy_deletes_pod_and_attachments a", "verdict policy_deletes_pod b",
                   "verdict policy_deletes_pod c", "verdict shadow_differs c",
                   "verdict policy_conflict b", "refusal mode_observes c"}));
  EXPECT_EQ(ran, (Lines{"a", "b", "c"}));
  EXPECT_EQ(result.failed, 0U);
}

TEST_F(PodEvaluationTest, a_policy_can_count_what_it_has_come_to) {
  add_pods(4);
  const auto pass = run_pass(
      {says("a",
            "if cluster.tally.deleted >= 2 then return fence.wait('enough for now', 60) end "
            "return fence.delete_pod('dead')")});
  EXPECT_EQ(deletes().size(), 2U);
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicyWaits), 3U);
}

TEST_F(PodEvaluationTest, what_observes_neither_counts_nor_fails_for_what_enforces) {
  add_pods(8);
  const auto counts =
      named_policy("a",
                   "if cluster.tally.deleted >= 2 then return fence.wait('enough for now', 60) end "
                   "return fence.delete_pod('dead')");
  run_pass({binding_of(counts, Mode::Observe), binding_of(counts, Mode::Enforce)});
  EXPECT_EQ(deletes().size(), 2U);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::ModeObserves), 2U);

  add_pods(8);
  http.requests.clear();
  run_pass({says("b", "error('oh no')", Mode::Observe), deletes_it("b")});
  EXPECT_TRUE(pods.empty());
}

TEST_F(PodEvaluationTest, a_policy_knows_how_often_the_node_was_found_down) {
  const auto told_failures = [this](Duration down_for) {
    story.records.clear();
    activate({says("a", "return fence.skip('failures ' .. node.failures)", Mode::Enforce,
                   "trigger = { failures = 2, interval = '10s' },")});
    OnePass pass(*this, active.current()->bindings);
    pass.downtime.since = loop.now() - down_for;
    pass.begin();
    run_until([&pass] { return pass.over(); });
    return story.records.back().text;
  };
  run_for(1h);
  EXPECT_EQ(told_failures(20s), "failures 2");
  EXPECT_EQ(told_failures(35s), "failures 3");
}

TEST_F(PodEvaluationTest, a_policy_that_holds_the_node_touches_none_of_its_pods) {
  add_pods(3);
  const auto pass =
      run_pass({says("a", "return fence.delete_pod('dead')", Mode::Enforce,
                     "node = function(node) return fence.hold('too many are down', 40) end,")});
  EXPECT_EQ(told_by(), Lines{"incident_held policy_holds_node a"});
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(pass->result->look_again, Duration(40s));
}

TEST_F(PodEvaluationTest, a_policy_that_lets_the_node_pass_or_knows_nothing_of_it_acts) {
  run_pass({says("a", "return fence.delete_pod('dead')", Mode::Enforce,
                 "node = function(node) return fence.proceed('go on') end,")});
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
}

TEST_F(PodEvaluationTest,
       a_taint_that_the_binding_does_not_allow_is_refused_and_nothing_is_done_instead) {
  const auto pass = run_pass(
      {says("a", "return fence.delete_pod('dead')", Mode::Enforce,
            "node = function(node) return fence.taint_out_of_service('power is off') end,")});
  EXPECT_EQ(told_by(), Lines{"refusal taint_not_allowed a"});
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(pass->result->waits_for, Reason::TaintNotAllowed);
  EXPECT_EQ(pass->result->failed, 0U);
}

// The node is read again in the middle of a long pass.
TEST_F(PodEvaluationTest, a_taint_that_a_policy_wants_no_more_by_a_later_reading_is_not_set) {
  for (const char* now : {"return fence.hold('its power is on', '1s')", "error('oh no')",
                          "return fence.proceed('it is clean')"}) {
    nodes["n1"].unschedulable = false;
    Binding binding = says("a", "return fence.delete_pod('dead')", Mode::Enforce,
                           std::string("node = function(node) if node.unschedulable then ") + now +
                               " end return fence.taint_out_of_service('power is off') end,");
    binding.allow.out_of_service = true;
    activate({binding});
    IncidentContext around = surroundings();
    const PassContext context{
        .set = active.current(), .downtime = {}, .incident = IncidentId("i1")};
    const auto authority = std::make_shared<Authority>();
    authority->reading.kubelet_lease = KubeletLease::Dead;
    Memory memory;
    PodEvaluation pod_evaluation(around, context, authority, memory);
    const auto judge = [&] {
      PassResult result;
      pod_evaluation.begin(*kube::decode_node(node_json("n1"), /*keep_raw=*/true));
      (void)pod_evaluation.judge(*kube::decode_pod_text(pods["web-0"].dump()), {}, sample_cluster(),
                                 result);
    };
    judge();
    ASSERT_TRUE(pod_evaluation.taint_wish()) << now;
    memory.retired_for = pod_evaluation.taint_wish();
    nodes["n1"].unschedulable = true;
    judge();
    EXPECT_FALSE(pod_evaluation.taint_wish()) << now;
    EXPECT_FALSE(memory.retired_for) << now;
  }
}

TEST_F(PodEvaluationTest, a_policy_that_fails_over_the_node_holds_its_pods_and_holds_up_nobody) {
  add_pod("db-0", "n1", "db", "db");
  const auto pass =
      run_pass({says("a", "return fence.delete_pod('dead')", Mode::Enforce,
                     "select = { labels = 'app=web' }, node = function(node) error('oh no') end,"),
                deletes_it("b", Mode::Enforce, "select = { labels = 'app=db' },")});
  EXPECT_EQ(deletes(), Lines{"db-0 0s"});
  EXPECT_EQ(pass->result->look_again, Duration(30s));
}

// What a binding says before its time.

struct EarlyTest : PodEvaluationTest {
  static constexpr const char* kLater = "trigger = { failures = 2, interval = '30s' },";
  static constexpr const char* kSilent = "trigger = { live_kubelet = false },";
  static constexpr const char* kEvery = "trigger = { live_kubelet = true },";
};

TEST_F(EarlyTest, a_binding_that_is_not_due_yet_waits_until_it_is) {
  const auto pass = run_pass({deletes_it("a", Mode::Enforce, kLater)});
  EXPECT_EQ(pass->result->look_again, Duration(60s));
  EXPECT_EQ(told_by(), Lines{"incident_held holding_down a"});
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(EarlyTest, it_holds_up_nobody_who_is_due) {
  const auto pass = run_pass({deletes_it("a", Mode::Enforce, kLater), deletes_it("b")});
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
  EXPECT_EQ(pass->result->look_again, std::nullopt);
}

TEST_F(EarlyTest, a_guard_may_forbid_before_it_may_act) {
  run_pass({says("a", "return fence.forbid('mine')", Mode::Enforce, kLater), deletes_it("b")});
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::PolicyForbids), 1U);
}

TEST_F(EarlyTest, what_else_a_guard_says_before_its_time_does_not_count) {
  const std::string body = "if s then return fence.delete_pod('x') end return fence.forbid('y')";
  const auto pass =
      run_pass({says("a", body, Mode::Enforce, kLater), says("b", "return fence.skip('x')")});
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(pass->result->look_again, Duration(60s));
}

TEST_F(EarlyTest, a_guard_that_nobody_waits_for_is_not_asked_before_its_time) {
  run_pass({says("a", "return fence.forbid('mine')", Mode::Enforce, kLater)});
  EXPECT_EQ(told_by(), Lines{"incident_held holding_down a"});
}

TEST_F(EarlyTest, a_guard_is_not_asked_early_for_one_that_only_observes) {
  const auto pass = run_pass({says("a", "return fence.forbid('mine')", Mode::Enforce, kLater),
                              deletes_it("b", Mode::Observe)});
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicyForbids), 0U);
  EXPECT_EQ(pass->result->look_again, Duration(60s));
}

TEST_F(EarlyTest, a_living_kubelet_is_judged_only_by_those_that_act_on_it) {
  nodes["n1"].ready = "False";
  add_pod("db-0", "n1", "db", "db");
  const std::string db_only = "select = { labels = 'app=db' },";
  const auto pass = run_pass(
      {deletes_it("a", Mode::Enforce, kSilent), deletes_it("b", Mode::Enforce, kEvery + db_only)});
  EXPECT_EQ(deletes(), Lines{"db-0 0s"});
  EXPECT_TRUE(pass->result->unfit);  // web-0 waits for the kubelet to fall silent
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::SignalUnfit), 1U);
}

TEST_F(EarlyTest, a_pod_that_is_deleted_waits_for_no_other_signal) {
  nodes["n1"].ready = "False";
  const auto pass =
      run_pass({deletes_it("a", Mode::Enforce, kSilent), deletes_it("b", Mode::Enforce, kEvery)});
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
  EXPECT_FALSE(pass->result->unfit);
}

// A person's word on n1 as FenceTest shows it.
struct ProofTest : PodEvaluationTest {
  ProofTest() { nodes.at("n1").heartbeat = "2026-01-02T04:59:00Z"; }
  void attest() {
    nodes.at("n1").annotations["moonfence.io/attested"] =
        R"({"at":"2026-01-02T04:59:30Z","bootID":"boot-1","by":"alice",)"
        R"("lastHeartbeatTime":"2026-01-02T04:59:00Z","lease":"lease-n1","node":"node-1",)"
        R"("reason":"no light on it","renewTime":"2026-01-02T04:59:20.000000Z","state":"off"})";
  }
  static Binding proves(const std::string& name, Mode mode = Mode::Enforce,
                        const std::string& more = "") {
    return says(name, "return fence.delete_pod('off', { proof = { 'attested' } })", mode, more);
  }
  // That of the first intent.
  [[nodiscard]] std::string evidence() const {
    for (const Record& record : story.records) {
      if (record.kind == Record::Kind::Intent) {
        return record.evidence;
      }
    }
    return "no intent";
  }
};

TEST_F(ProofTest, a_pod_waits_for_the_proof_that_its_policy_demands) {
  const auto pass = run_pass({proves("a")});
  EXPECT_EQ(told_by(), Lines{"verdict proof_missing a"});
  EXPECT_EQ(
      story.records.back().text,
      "its policy demands proof: attested; present: unreachable; if the machine has no power, "
      "run: moonfence attest n1 --off --reason TEXT");
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(pass->result->failed, 0U);
  EXPECT_TRUE(pass->result->waits);
  EXPECT_EQ(pass->result->waits_for, Reason::ProofMissing);
  EXPECT_EQ(pass->result->look_again, Duration(5s));
}

TEST_F(ProofTest, it_goes_when_a_person_has_said_so_and_the_records_say_who) {
  attest();
  const auto pass = run_pass({proves("a")});
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
  EXPECT_EQ(evidence(),
            "unreachable, attested: off by alice, 2026-01-02T04:59:30Z, no light on it");
  const auto& step = pass->authority->ledger->record().steps.at(0);
  EXPECT_EQ(step.proof, "attested");
  EXPECT_EQ(step.evidence, evidence());
}

TEST_F(ProofTest, where_none_is_demanded_none_is_told) {
  attest();
  run_pass({deletes_it("a")});
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
  EXPECT_EQ(evidence(), "");
}

TEST_F(ProofTest, one_of_those_that_are_named_is_enough) {
  run_pass({says("a", "return fence.delete_pod('x', { proof = { 'attested', 'unreachable' } })")});
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
}

TEST_F(ProofTest, what_one_policy_demands_holds_the_pod_for_every_other) {
  for (const bool first : {true, false}) {
    std::vector<Binding> bindings = {deletes_it("a"), proves("b")};
    if (!first) {
      std::swap(bindings[0], bindings[1]);
    }
    run_pass(bindings);
    EXPECT_THAT(told_by(), testing::Contains("verdict proof_missing b")) << "not at the wire";
    EXPECT_EQ(deletes(), Lines{});
  }
  attest();
  const auto pass = run_pass({deletes_it("a"), proves("b")});
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
  // Also at the wire, although it is not its own verdict that is carried out.
  EXPECT_EQ(pass->authority->ledger->record().steps.at(0).policy, "a");
  EXPECT_EQ(pass->authority->ledger->record().steps.at(0).proof, "attested");
}

TEST_F(ProofTest, it_is_heard_before_its_own_time) {
  const std::string late = "trigger = { failures = 3, interval = '1h' },";
  run_pass({deletes_it("a"), proves("b", Mode::Enforce, late)});
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(ProofTest, what_observes_holds_nobody) {
  run_pass({deletes_it("a"), proves("b", Mode::Observe)});
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
}

TEST_F(ProofTest, no_policy_lowers_what_the_configuration_demands) {
  policy::EvidenceSet word;
  word.insert(policy::Evidence::Attested);
  protections.proof.everywhere = word;
  run_pass({says("a", "return fence.delete_pod('x', { proof = { 'unreachable' } })")});
  EXPECT_EQ(told_by(), Lines{"verdict proof_missing a"});
  protections.proof = {.namespaces = {{Namespace("db"), word}}};
  run_pass({deletes_it("a")});
  EXPECT_EQ(deletes(), Lines{});
  protections.proof = {.namespaces = {{Namespace("web"), word}}};
  run_pass({deletes_it("a")});
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
}

TEST_F(ProofTest, what_is_demanded_of_a_driver_is_demanded_of_pods_that_may_use_it) {
  policy::EvidenceSet word;
  word.insert(policy::Evidence::Attested);
  protections.proof.drivers = {{"csi.example.com", word}};
  // A claim that nobody may read, or that is not there, may be anybody's.
  pods.at("web-0")["spec"]["volumes"] = {
      {{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}};
  run_pass({deletes_it("a")});
  EXPECT_EQ(told_by(), Lines{"verdict proof_missing a"});
  EXPECT_EQ(deletes(), Lines{});
  http.on(port::Method::Get, "/api/v1/namespaces/db/persistentvolumeclaims/*",
          status(404, "NotFound", "data"));
  http.on(port::Method::Get, "/api/v1/namespaces/db/persistentvolumeclaims",
          [](const test::FakeRequest&) {
            return test::FakeAnswer{.body = R"({"kind": "PersistentVolumeClaimList",
                "metadata": {"resourceVersion": "9"}, "items": []})"};
          });
  run_pass({deletes_it("a")});
  EXPECT_EQ(deletes(), Lines{});
  pods.at("web-0")["spec"]["volumes"] = {
      {{"name", "data"}, {"csi", {{"driver", "csi.example.com"}}}}};
  run_pass({deletes_it("a")});
  EXPECT_EQ(deletes(), Lines{});
  pods.at("web-0")["spec"]["volumes"] = {{{"name", "data"}, {"csi", {{"driver", "other"}}}}};
  run_pass({deletes_it("a")});
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
}

TEST_F(ProofTest, what_is_demanded_of_a_driver_is_not_demanded_of_a_pod_without_its_volumes) {
  policy::EvidenceSet word;
  word.insert(policy::Evidence::Attested);
  protections.proof.drivers = {{"csi.example.com", word}};
  run_pass({deletes_it("a")});
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
}

TEST_F(ProofTest, a_word_that_is_taken_back_between_verdict_and_call_stops_the_call) {
  attest();
  auto pass = std::make_unique<OnePass>(*this, std::vector{proves("a")});
  story.hook = [&pass](const Record& record) {
    if (record.kind == Record::Kind::Intent) {
      pass->authority->reading.attestation = {};
    }
  };
  EXPECT_TRUE(run_until([&pass] { return pass->over(); }));
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::ProofMissing), 1U);
  EXPECT_EQ(pass->result->failed, 0U);
  story.hook = [](const Record&) {};
}

}  // namespace
}  // namespace moonfence::fence
