#include "sim/scenarios/scenario.h"

#include <array>
#include <tuple>

#include <gtest/gtest.h>

#include "sim/draw.h"
#include "sim/scenario_writer.h"
#include "support/fake_files.h"

namespace moonfence::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::array<std::string_view, 3> kReasons = {"done", "node_ready", "policy_deletes_pod"};

Result<Scenario> parse(const std::string& text) {
  return parse_scenario(text, "a.txt", {.reasons = kReasons});
}

Scenario parsed(const std::string& text) {
  auto scenario = parse(text);
  EXPECT_TRUE(scenario.has_value()) << scenario.error().message();
  return scenario.value_or(Scenario{});
}

// After a world that is fine, in line 2.
std::string complaint(const std::string& line) {
  const auto scenario = parse("world nodes n1 n2\n" + line + "\n");
  return scenario ? "" : scenario.error().message();
}

TEST(Scenario, a_world_is_spelled_out) {
  const Scenario scenario = parsed(R"(# how it begins
name      E-00 a world     # a comment
seed      7
length    3m
world     nodes n1 n2
world     engines 2
node      n2 zone=b capacity=5
node      cp control-plane
statefulset noobaa/core replicas=3 volumes=1 labels=app=noobaa,part=core on=n1 stop-time=2s
deployment  web/front replicas=2 toleration=30s finalizers=a/b,c/d driver=d.example.com
daemonset noobaa/agent
set       cache-expiry 1h
timing    node-monitor-grace 8s
fault     lost-reply 0.25
fault     latency 1ms..5ms
fault     piece-limit 9
)");
  const Plan& plan = scenario.plan;
  EXPECT_EQ(plan.name, "E-00 a world");
  EXPECT_EQ(scenario.seed, 7U);
  EXPECT_EQ(plan.length, minutes(3));
  EXPECT_EQ(plan.engines, 2);
  ASSERT_EQ(plan.nodes.size(), 3U);
  EXPECT_EQ(plan.nodes[1].zone, "b");
  EXPECT_EQ(plan.nodes[1].capacity, 5);
  EXPECT_TRUE(plan.nodes[2].control_plane);
  ASSERT_EQ(plan.workloads.size(), 3U);
  const WorkloadPlan& core = plan.workloads[0];
  EXPECT_EQ(core.space + "/" + core.name, "noobaa/core");
  EXPECT_EQ(core.replicas, 3);
  EXPECT_EQ(core.volumes, 1);
  EXPECT_EQ(core.start, "n1");
  EXPECT_EQ(core.stop_time, seconds(2));
  EXPECT_EQ(core.labels, (std::map<std::string, std::string>{{"app", "noobaa"}, {"part", "core"}}));
  const WorkloadPlan& front = plan.workloads[1];
  EXPECT_EQ(front.kind, WorkloadKind::Deployment);
  EXPECT_EQ(front.toleration, seconds(30));
  EXPECT_EQ(front.finalizers, (std::vector<std::string>{"a/b", "c/d"}));
  EXPECT_EQ(front.driver, "d.example.com");
  EXPECT_EQ(plan.workloads[2].kind, WorkloadKind::DaemonSet);
  EXPECT_EQ(plan.settings.at("cache-expiry"), "1h");
  EXPECT_EQ(plan.timings.node_monitor_grace, seconds(8));
  EXPECT_EQ(plan.faults.lost_reply, 0.25);
  EXPECT_EQ(plan.faults.latency.from, milliseconds(1));
  EXPECT_EQ(plan.faults.latency.to, milliseconds(5));
  EXPECT_EQ(plan.faults.piece_limit, 9U);
}

TEST(Scenario, a_binding_needs_one_line) {
  const Scenario scenario = parsed(
      "world nodes n1\n"
      "policies builtin noobaa db=pod\n"
      "policies my-db.lua namespaces=a,b mode=observe\n");
  EXPECT_EQ(scenario.plan.policies.at("moonfence.yaml"),
            "api: 1\nbindings:\n"
            "- policy: noobaa\n  source: builtin\n  namespaces: [noobaa]\n  mode: enforce\n"
            "  settings: {db: pod}\n"
            "- policy: my-db\n  source: my-db.lua\n  namespaces: [a,b]\n  mode: observe\n");
}

TEST(Scenario, files_stand_in_blocks_and_edits_have_their_own) {
  const Scenario scenario = parsed(
      "world nodes n1\n"
      "file my-db.lua\n"
      "| -- a # is no comment here\n"
      "|\n"
      "|   return 1\n"
      "file mode = observe\n"
      "at 5s edit-policies\n"
      "  file moonfence.yaml\n"
      "  | api: 1\n"
      "  file my-db.lua deleted\n"
      "at 1s power-off n1\n");
  EXPECT_EQ(scenario.plan.policies.at("my-db.lua"), "-- a # is no comment here\n\n  return 1\n");
  EXPECT_EQ(scenario.plan.policies.at("mode"), "observe");
  ASSERT_EQ(scenario.plan.steps.size(), 2U);
  EXPECT_EQ(scenario.plan.steps[0].verb, Verb::PowerOff) << "steps are in the order of time";
  EXPECT_EQ(
      scenario.plan.steps[1].arguments,
      (std::map<std::string, std::string>{{"moonfence.yaml", "api: 1\n"}, {"my-db.lua", ""}}));
}

TEST(Scenario, a_file_is_read_from_beside_the_scenario) {
  test::FakeFiles files;
  files.write("dir/p.lua", "return 1");
  const auto scenario =
      parse_scenario("world nodes n1\nfile my-db.lua from p.lua\n", "dir/a.txt", {.files = &files});
  ASSERT_TRUE(scenario.has_value()) << scenario.error().message();
  EXPECT_EQ(scenario->plan.policies.at("my-db.lua"), "return 1");
}

TEST(Scenario, steps_have_targets_and_arguments) {
  const Scenario scenario = parsed(
      "world nodes n1\n"
      "at 5s power-off n1\n"
      "at 6s scale noobaa/core replicas=2\n"
      "at 7s step-clock moonfence-0 by=-5s\n"
      "at 8s outage for=10s\n");
  ASSERT_EQ(scenario.plan.steps.size(), 4U);
  EXPECT_EQ(scenario.plan.steps[0].target, "n1");
  EXPECT_EQ(scenario.plan.steps[1].arguments.at("replicas"), "2");
  EXPECT_EQ(scenario.plan.steps[2].arguments.at("by"), "-5s");
  EXPECT_EQ(scenario.plan.steps[3].arguments.at("for"), "10s");
}

TEST(Scenario, steps_and_answers_may_wait_for_requests) {
  const Scenario scenario = parsed(
      "world nodes n1\n"
      "at list n1 replace-pod noobaa/core-0\n"
      "at delete noobaa/core-0 heal n1\n"
      "answer delete noobaa/core-* 500 times=2 from=10s until=20s\n"
      "answer get n1 lost\n");
  ASSERT_EQ(scenario.triggers.size(), 2U);
  EXPECT_EQ(scenario.triggers[0].pattern.verb, RequestPattern::Verb::List);
  EXPECT_EQ(scenario.triggers[0].step.verb, Verb::ReplacePod);
  EXPECT_EQ(scenario.triggers[1].pattern.subject, "noobaa/core-0");
  ASSERT_EQ(scenario.answers.size(), 2U);
  EXPECT_EQ(scenario.answers[0].status, 500);
  EXPECT_EQ(scenario.answers[0].times, 2);
  EXPECT_EQ(scenario.answers[0].from, seconds(10));
  EXPECT_EQ(scenario.answers[0].until, seconds(20));
  EXPECT_EQ(scenario.answers[1].status, 0);
}

TEST(Scenario, states_are_expected_at_a_time) {
  const Scenario scenario = parsed(
      "world nodes n1 n2\n"
      "expect pod noobaa/core-0 survives\n"
      "expect within 50s pod noobaa/core-0 running on n2\n"
      "expect at 7s workload noobaa/core running 2 elsewhere\n"
      "expect node n1 not-ready\n"
      "expect policy noobaa Stale\n");
  ASSERT_EQ(scenario.expectations.size(), 5U);
  const auto state = [&](std::size_t i) {
    return std::get<StateCheck>(scenario.expectations[i].check);
  };
  EXPECT_EQ(state(0).state, StateCheck::State::Survives);
  EXPECT_EQ(scenario.expectations[1].window.kind, Window::Kind::Within);
  EXPECT_EQ(scenario.expectations[1].window.to, seconds(50));
  EXPECT_EQ(state(1).node, "n2");
  EXPECT_EQ(scenario.expectations[2].window.kind, Window::Kind::At);
  EXPECT_EQ(state(2).count, 2);
  EXPECT_TRUE(state(2).elsewhere);
  EXPECT_EQ(state(3).subject, StateCheck::Subject::Node);
  EXPECT_EQ(state(4).word, "Stale");
  EXPECT_EQ(scenario.expectations[4].line, 6U);
}

TEST(Scenario, events_are_counted_in_a_window) {
  const Scenario scenario = parsed(
      "world nodes n1 n2\n"
      "expect incident n1 closed node_ready\n"
      "expect no delete any\n"
      "expect between 5s and 9s 2 outcome noobaa/core-* done by noobaa\n"
      "expect after 50s no request any\n"
      "expect event PodForceDeleted noobaa/core-0\n"
      "expect attempts noobaa/core-0 0 5s 10s tolerance=500ms\n");
  const auto event = [&](std::size_t i) {
    return std::get<EventCheck>(scenario.expectations[i].check);
  };
  EXPECT_EQ(event(0).word, "incident_closed");
  EXPECT_EQ(event(0).reason, "node_ready");
  EXPECT_EQ(event(0).count, std::nullopt);
  EXPECT_EQ(event(1).what, EventCheck::What::Delete);
  EXPECT_EQ(event(1).count, 0);
  EXPECT_EQ(event(2).policy, "noobaa");
  EXPECT_EQ(event(2).count, 2);
  EXPECT_EQ(scenario.expectations[2].window.from, seconds(5));
  EXPECT_EQ(scenario.expectations[2].window.to, seconds(9));
  EXPECT_EQ(event(3).word, "any");
  EXPECT_EQ(event(4).word, "PodForceDeleted");
  const auto attempts = std::get<AttemptsCheck>(scenario.expectations[5].check);
  EXPECT_EQ(attempts.at, (std::vector<Duration>{Duration{}, seconds(5), seconds(10)}));
  EXPECT_EQ(attempts.tolerance, milliseconds(500));
}

class Complaint : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Complaint, names_the_line_the_value_the_rule_and_the_next_step) {
  const auto& [line, expected] = GetParam();
  EXPECT_EQ(complaint(line), std::string("a.txt:2: ") + expected);
}

INSTANTIATE_TEST_SUITE_P(
    Scenario, Complaint,
    testing::Values(
        std::tuple("worlds nodes n3",
                   "'worlds' is no statement (did you mean 'world'?) (known: name, seed, length, "
                   "world, node, bmc, fence-class, policies, file, config, responses, set, timing, "
                   "fault, answer, "
                   "at, expect, "
                   "statefulset, deployment, daemonset, bare-pods, mirror-pods, finished-pods)"),
        std::tuple("name", "the name is missing (write `name` and what the scenario shows)"),
        std::tuple("seed x",
                   "seed: 'x' is no number from 0 to 1000000000 (write a whole number "
                   "from 0 to 1000000000)"),
        std::tuple("length 5",
                   "length: '5' is no duration (write it with its unit, for example "
                   "5s, 250ms or 1h)"),
        std::tuple("length 5s 6s",
                   "'6s' is too much: nothing follows '5s' here (take it out, or "
                   "put a '#' before what is meant as a comment)"),
        std::tuple("world engine 2",
                   "'engine' is no word for 'world' (did you mean 'engines'?) "
                   "(known: nodes, engines, seats, servers, kubernetes, lifting)"),
        std::tuple("world nodes", "a world has 1 to 5000 nodes (write world nodes n1 n2 n3)"),
        std::tuple("node n1 zone", "'zone' has no value (write zone=VALUE without blanks)"),
        std::tuple("node n1 control-plane=yes",
                   "'control-plane' takes no value (write control-plane)"),
        std::tuple("statefulset core",
                   "'core' is no NAMESPACE/NAME (write for example statefulset "
                   "noobaa/core)"),
        std::tuple("statefulset a/b replica=2",
                   "'replica' is no option of 'statefulset' (did you mean 'replicas'?) (known: "
                   "replicas, volumes, labels, on, node, driver, toleration, finalizers, "
                   "stop-time, grace, inline-volume, owner)"),
        std::tuple("statefulset a/b node=n3",
                   "'n3' is no node of this world (did you mean 'n1'?) "
                   "(known: n1, n2)"),
        std::tuple("statefulset a/b labels=app",
                   "labels: 'app' is no label (write labels=app=web,tier=front)"),
        std::tuple("statefulset a/b volumes=1 volumes=2",
                   "'volumes' stands twice (leave one of them)"),
        std::tuple(
            "set cache-expire 1h",
            "'cache-expire' is no word for 'set' (did you mean 'cache-expiry'?) (known: "
            "brake-window, cache-expiry, cool-down, replacement-wait, retry-interval, "
            "retry-window, "
            "max-at-once, max-down, max-per-window, zone-max-at-once, zone-max-down, "
            "zone-max-per-window, release, detection, silent-taint, fail-pods, quarantine, proof, "
            "volume-proof)"),
        std::tuple("set max-down half",
                   "max-down: 'half' is no limit (write a number of nodes, a share such as 50%, "
                   "or off)"),
        std::tuple("fault lost-reply 2",
                   "lost-reply: '2' is no share from 0 to 1 (write the share "
                   "of requests it befalls, for example 0.05)"),
        std::tuple("fault latency 5ms..1ms",
                   "latency: '5ms..1ms' ends before it begins (write the shorter time first, for "
                   "example 1ms..5ms)"),
        std::tuple("policies noobaa",
                   "'noobaa' is no policy (write `policies builtin noobaa` or, for a `file "
                   "my-db.lua` of this scenario, `policies my-db.lua`)"),
        std::tuple("| text", "a line with '|' belongs to no file (put `file NAME` before it)"),
        std::tuple("file a.lua from b", "a file cannot be read here (write its lines with '|')"),
        std::tuple("answer delete a/b 700",
                   "'700' is no answer (write a status from 400 to 599, or lost)"),
        std::tuple("answer delete core 500",
                   "'core' is no subject of delete (write NAMESPACE/POD, "
                   "NAMESPACE/begin* or any)"),
        std::tuple("at once heal n1",
                   "'once' is no time (write at 5s power-off n1, at list n1 …, "
                   "or at delete noobaa/core-0 …)"),
        std::tuple("at 5s outage", "outage needs for= (write at 5s outage … for=VALUE)"),
        std::tuple("at 5s outage for=ever",
                   "for: 'ever' is no duration (write it with its unit, "
                   "for example 5s, 250ms or 1h)"),
        std::tuple("at 5s heal n9",
                   "'n9' is no node of this world (did you mean 'n1'?) (known: "
                   "n1, n2)"),
        std::tuple("at 5s crash-engine n1",
                   "'n1' is no replica of the engine (write moonfence-0, moonfence-1 …)"),
        std::tuple("at list n1 edit-policies",
                   "'edit-policies' cannot wait for a request (give it a time: at 5s "
                   "edit-policies)"),
        std::tuple("expect pods a/b running",
                   "'pods' is no word for 'expect' (did you mean 'pod'?) (known: pod, workload, "
                   "node, policy, incident, verdict, refusal, intent, outcome, replacement, "
                   "delete, request, "
                   "event, violation, double-writers, attempts)"),
        std::tuple("expect pod a/b survive",
                   "'survive' is no state of a pod (did you mean 'survives'?) (known: survives, "
                   "deleted, replaced, terminating, running)"),
        std::tuple("expect after 5s pod a/b survives",
                   "a state is looked at at one time (write at T, within T, or nothing for the "
                   "end)"),
        std::tuple("expect outcome a/b don",
                   "'don' is no reason (did you mean 'done'?) (docs/reasons.md lists them)"),
        std::tuple("expect incident n1 opend",
                   "'opend' is no stage of an incident (did you mean 'opened'?) (known: opened, "
                   "closed, held)"),
        std::tuple("expect attempts a/b 5s",
                   "attempts are counted from the first one (write attempts noobaa/core-0 0 5s "
                   "10s)")));

TEST(Scenario, a_world_without_nodes_is_refused) {
  const auto scenario = parse("name nothing\n");
  ASSERT_FALSE(scenario.has_value());
  EXPECT_EQ(scenario.error().message(),
            "a.txt:1: the world has no nodes (write world nodes n1 n2 n3)");
}

TEST(Scenario, what_the_writer_writes_is_read_back) {
  const std::string text = R"(name      everything
world     nodes n1 n2
world     engines 2
world     servers 3
node      n2 zone=b capacity=7 control-plane
bmc       n1 late of=n2 takes=2s off-takes=3s on-again=1m
bmc       n2 honest
fence-class ceph failing takes=2s lags=500ms
fence-class rook honest takes=1s
world     lifting in-storage
statefulset noobaa/core replicas=3 volumes=1 labels=app=noobaa on=n2 node=n1 driver=d stop-time=2s
bare-pods noobaa/loose replicas=1 toleration=30s finalizers=a/b
set       cache-expiry 1h
set       volume-proof off,isolated
timing    node-monitor-grace 8s
fault     lost-reply 0.05
fault     latency 1ms..5ms
fault     piece-limit 100
file      mode = observe
file      moonfence.yaml
| api: 1
|
| bindings: []
at        5s power-off n1
at        6s edit-policies
file      mode deleted
file      moonfence.yaml
| api: 1
at        7s step-clock moonfence-0 by=-5s
at        8s isolate n1
length    3m
)";
  const Scenario scenario = parsed(text);
  EXPECT_EQ(write_scenario(scenario.plan), text);
}

TEST(Scenario, a_drawn_world_can_be_written_down) {
  for (std::uint64_t world = 1; world <= 240; ++world) {
    const std::uint64_t seed = world <= 200   ? world
                               : world <= 220 ? kFirstThatLie + world
                                              : kFirstWhoseStorageLies + world;
    const Plan plan = draw(seed);
    const std::string text = write_scenario(plan);
    const auto scenario = parse_scenario(text, "drawn", {});
    ASSERT_TRUE(scenario.has_value()) << scenario.error().message() << "\n" << text;
    ASSERT_EQ(write_scenario(scenario->plan), text);
    ASSERT_EQ(scenario->plan.policies, plan.policies) << text;
    ASSERT_EQ(scenario->plan.steps.size(), plan.steps.size());
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      ASSERT_EQ(scenario->plan.steps[i].arguments, plan.steps[i].arguments) << text;
    }
  }
}

TEST(Scenario, a_bmc_is_of_a_node_and_of_a_known_kind) {
  const Scenario scenario = parsed(
      "world nodes n1 n2\nbmc n1 honest off-takes=3s\nconfig\n| fencers:\n"
      "| - {fencer: redfish, switchOff: true}\nset proof off,attested\n");
  ASSERT_NE(bmc_of(scenario.plan, "n1"), nullptr);
  EXPECT_EQ(bmc_of(scenario.plan, "n1")->off_takes, std::chrono::seconds(3));
  EXPECT_EQ(bmc_of(scenario.plan, "n1")->machine(), "n1");
  EXPECT_EQ(bmc_of(scenario.plan, "n2"), nullptr);
  EXPECT_TRUE(switches_off(scenario.plan));
  EXPECT_TRUE(demands(scenario.plan, "off") && demands(scenario.plan, "attested"));
  EXPECT_FALSE(demands(scenario.plan, "silent"));
  for (const std::string wrong :
       {"bmc n1 honst", "bmc n3 honest", "bmc n1 honest of=n3", "bmc n1 honest takes=soon",
        "bmc n1 honest speed=1s", "bmc n1 dead\nbmc n1 busy"}) {
    EXPECT_FALSE(parse_scenario("world nodes n1 n2\n" + wrong + "\n", "t", {}).has_value())
        << wrong;
  }
}

TEST(Scenario, detection_is_on_or_off) {
  EXPECT_FALSE(detects(parsed("world nodes n1\n").plan));
  EXPECT_TRUE(detects(parsed("world nodes n1\nset detection on\n").plan));
  Scenario scenario = parsed("world nodes n1\nset detection off\n");
  EXPECT_FALSE(detects(scenario.plan));
  EXPECT_TRUE(set_knob(scenario, "detection", "on").has_value());
  EXPECT_TRUE(detects(scenario.plan));
  EXPECT_FALSE(set_knob(scenario, "detection", "yes").has_value());
}

TEST(Scenario, knobs_change_it_from_outside) {
  Scenario scenario = parsed("world nodes n1\n");
  EXPECT_TRUE(set_knob(scenario, "retry-window", "15s").has_value());
  EXPECT_TRUE(set_knob(scenario, "node-monitor-grace", "8s").has_value());
  EXPECT_TRUE(set_knob(scenario, "mode", "observe").has_value());
  EXPECT_EQ(scenario.plan.settings.at("retry-window"), "15s");
  EXPECT_EQ(scenario.plan.timings.node_monitor_grace, seconds(8));
  EXPECT_EQ(scenario.plan.policies.at("mode"), "observe");
  const auto wrong = set_knob(scenario, "retry-windo", "1s");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().text.find("did you mean 'retry-window'?"), std::string::npos);
}

TEST(Scenario, subjects_match_by_their_beginning) {
  EXPECT_TRUE(matches_subject("any", "a/b"));
  EXPECT_TRUE(matches_subject("a/b*", "a/bcd"));
  EXPECT_TRUE(matches_subject("a/b", "a/b"));
  EXPECT_FALSE(matches_subject("a/b", "a/bc"));
}

}  // namespace
}  // namespace moonfence::sim
