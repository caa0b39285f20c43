#include "fence/incident/incidents_by_signal.h"

#include <gtest/gtest.h>

#include "unit/fence/fence_fixture.h"

namespace moonfence::fence {
namespace {

using audit::Reason;
using audit::Record;
using cluster::Look;

// A policy that goes by what GET /nodes of the endpoint says, as a Lua table of states by name.
std::string source_text(const std::string& more = "") {
  return R"(source = { every = "5s", expiry = "1h",
    plan = function(s, got)
      if not got.nodes then return { nodes = fence.http("vendor", "/nodes") } end
    end,
    nodes = function(s, got)
      local states = {}
      for name, state in pairs(got.nodes.body) do states[name] = state end
      return states
    end },)" +
         more;
}

struct IncidentsBySignalTest : FenceTest {
  nlohmann::json health = {{"n1", "healthy"}, {"n2", "healthy"}};
  test::FakeAnswer health_answer;  // its error or delay, if it has one
  std::map<std::string, cluster::NodeView> known;
  std::optional<IncidentsBySignal> by_signal;
  int made_ids = 0;

  IncidentsBySignalTest() {
    nodes["n1"].ready = "True";
    nodes["n1"].tainted = false;
    nodes["n2"] = {.ready = "True", .uid = "node-2", .tainted = false};
    http.on(port::Method::Get, "/vendor/nodes", [this](const test::FakeRequest&) {
      test::FakeAnswer answer = health_answer;
      answer.body = answer.body.empty() ? health.dump() : answer.body;
      return answer;
    });
  }

  static std::shared_ptr<const policy::Policy> by_source() {
    return named_policy("vendor", "return fence.delete_pod('the vendor calls its node failed')",
                        source_text());
  }
  static std::shared_ptr<const policy::Policy> by_kubernetes() {
    return named_policy("plain", "return fence.delete_pod('its node is not Ready')",
                        "trigger = { live_kubelet = true },");
  }
  void open(std::vector<Binding> bindings, bool rehearses = false) {
    for (const auto& [name, state] : nodes) {
      known[name] = view(name);
    }
    by_signal.emplace(
        surroundings(), IncidentRules{},
        [this] { return IncidentId("i" + std::to_string(++made_ids)); },
        [this](const NodeName& name) -> const cluster::NodeView* {
          const auto found = known.find(name.text());
          return found == known.end() ? nullptr : &found->second;
        });
    if (rehearses) {
      by_signal->look_at_named_only();
    }
    by_signal->census_changed(census_of(10, 0));
    reload(std::move(bindings));
  }
  void reload(std::vector<Binding> bindings) {
    activate(std::move(bindings));
    by_signal->policies_changed();
  }
  // The watch shows the node as it is now.
  void watch_shows(const std::string& name, Look why) {
    known[name] = view(name);
    by_signal->look_at(known[name], why);
  }
  [[nodiscard]] Lines deleted() const {
    Lines names;
    for (const std::string& line : deletes()) {
      names.push_back(line.substr(0, line.find(' ')));
    }
    return names;
  }
  [[nodiscard]] std::size_t count(Record::Kind kind, Reason reason) const {
    return story.count(kind, reason);
  }
};

TEST_F(IncidentsBySignalTest,
       what_a_source_calls_failed_is_dealt_with_though_kubernetes_calls_it_ready) {  // row SO-21
  add_pod("web-0");
  open({binding_of(by_source())});
  run_for(20s);
  EXPECT_TRUE(deleted().empty());
  health["n1"] = "failed";
  run_for(6s);
  EXPECT_EQ(deleted(), Lines{"web-0"});
  EXPECT_EQ(count(Record::Kind::IncidentOpened, Reason::SourceFailed), 1U);
  EXPECT_EQ(count(Record::Kind::IncidentHeld, Reason::AwaitingTaint), 0U) << "there will be none";
  run_for(1min);
  EXPECT_EQ(count(Record::Kind::IncidentClosed, Reason::Settled), 1U);
  EXPECT_EQ(by_signal->open_incidents(), 0U);
}

// Kubernetes sets no taint on a Ready node; ours keeps replacements off, and is seen in the
// reading.
TEST_F(IncidentsBySignalTest, a_ready_node_gets_our_taint_before_its_pods_go) {
  add_pod("web-0");
  quarantine = Quarantine::Always;
  open({binding_of(by_source())});
  health["n1"] = "failed";
  run_for(10s);
  EXPECT_TRUE(nodes["n1"].is_fenced());
  EXPECT_EQ(deleted(), Lines{"web-0"});
  EXPECT_EQ(count(Record::Kind::Intent, Reason::SetsQuarantine), 1U);
  EXPECT_TRUE(by_signal->is_failed(NodeName("n1")));
}

TEST_F(IncidentsBySignalTest, what_failed_before_we_came_counts) {
  add_pod("web-0");
  health["n1"] = "failed";
  open({binding_of(by_source())});
  run_for(1s);
  EXPECT_EQ(deleted(), Lines{"web-0"});
}

// It fences nothing, and looked as if all were well: one line in the log said otherwise.
TEST_F(IncidentsBySignalTest, of_a_source_that_was_never_readable_is_told_after_a_minute) {
  health_answer = {.status = 503, .body = "away"};
  open({binding_of(by_source())});
  run_for(50s);
  ASSERT_EQ(by_signal->source_states().size(), 1U);
  EXPECT_EQ(by_signal->source_states()[0].policy, "vendor");
  EXPECT_EQ(by_signal->source_states()[0].fault, "") << "a reading or two may fail";
  run_for(20s);
  EXPECT_NE(by_signal->source_states()[0].fault.find("503"), std::string::npos);
  health_answer = {};
  run_for(6s);
  EXPECT_EQ(by_signal->source_states()[0].fault, "");
  health_answer = {.status = 503, .body = "away"};
  run_for(50s);
  EXPECT_EQ(by_signal->source_states()[0].fault, "") << "it counts anew";
}

TEST_F(IncidentsBySignalTest, names_of_a_source_that_are_no_node_are_known) {
  health["n1.example.com"] = "failed";
  health["n9"] = "healthy";
  open({binding_of(by_source())});
  run_for(6s);
  EXPECT_EQ(by_signal->source_states()[0].strangers,
            (std::vector{NodeName("n1.example.com"), NodeName("n9")}));
  known["n9"] = view("n1");
  EXPECT_EQ(by_signal->source_states()[0].strangers, std::vector{NodeName("n1.example.com")});
}

TEST_F(IncidentsBySignalTest, unknown_is_no_reason_to_act) {  // row SO-19
  add_pod("web-0");
  health["n1"] = "unknown";
  open({binding_of(by_source())});
  run_for(2min);
  EXPECT_TRUE(story.records.empty());
  EXPECT_TRUE(deleted().empty());
}

TEST_F(IncidentsBySignalTest, kubernetes_word_is_none_for_a_binding_with_a_source) {  // row SO-20
  add_pod("web-0");
  open({binding_of(by_source())});
  run_for(1s);
  nodes["n1"].ready = "Unknown";
  nodes["n1"].tainted = true;
  watch_shows("n1", Look::Fell);
  run_for(2min);
  EXPECT_TRUE(story.records.empty());
}

TEST_F(IncidentsBySignalTest, a_sources_word_is_none_for_a_binding_without_it) {
  add_pod("web-0");
  add_pod("shop-0", "n1", "shop");
  health["n1"] = "failed";
  open({binding_of(by_source()), binding_of(by_kubernetes(), Mode::Enforce, {Namespace("shop")})});
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{"web-0"});
  nodes["n1"].ready = "False";
  nodes["n1"].tainted = true;
  watch_shows("n1", Look::Fell);
  run_for(1min);
  EXPECT_EQ(deleted(), (Lines{"web-0", "shop-0"}));
  add_pod("web-1");
  run_for(10min);
  EXPECT_EQ(deleted(), (Lines{"web-0", "shop-0"})) << "the source's incident was over";
}

TEST_F(IncidentsBySignalTest, a_guard_that_goes_by_another_word_is_heard) {
  add_pod("web-0");
  health["n1"] = "failed";
  open({binding_of(by_source()),
        binding_of(named_policy("guard", "return fence.forbid('not this one')"))});
  run_for(1min);
  EXPECT_TRUE(deleted().empty());
  EXPECT_EQ(count(Record::Kind::Refusal, Reason::PolicyForbids), 1U);
}

TEST_F(IncidentsBySignalTest, a_node_that_is_healthy_when_it_is_asked_again_is_left_alone) {
  add_pod("web-0");
  open({binding_of(by_source())});
  run_for(1s);
  // Every second answer: the poll says failed, what is asked right before the action does not.
  bool failed = false;
  http.on(port::Method::Get, "/vendor/nodes", [&failed](const test::FakeRequest&) {
    failed = !failed;
    return test::FakeAnswer{.body = failed ? R"({"n1":"failed"})" : R"({"n1":"healthy"})"};
  });
  run_for(6s);
  EXPECT_TRUE(deleted().empty());
  EXPECT_EQ(count(Record::Kind::IncidentClosed, Reason::SourceHealthy), 1U);
}

TEST_F(IncidentsBySignalTest, nothing_is_done_while_the_source_fails) {  // row SO-23
  add_pod("web-0");
  open({binding_of(by_source())});
  run_for(1s);
  health["n1"] = "failed";
  for (const test::FakeAnswer& answer :
       {broken(), test::FakeAnswer::silent(), test::FakeAnswer::refused(),
        test::FakeAnswer{.status = 403}, test::FakeAnswer{.status = 429},
        test::FakeAnswer{.body = "<html>"}, test::FakeAnswer{.body = "[1, 2]"},
        test::FakeAnswer{.body = R"({"n1":"offline"})"}}) {
    health_answer = answer;
    run_for(15s);
    EXPECT_TRUE(story.records.empty());
  }
  health_answer = {};
  run_for(11s);
  EXPECT_EQ(deleted(), Lines{"web-0"});
}

TEST_F(IncidentsBySignalTest, nothing_is_done_on_an_answer_that_took_longer_than_a_second) {
  add_pod("web-0");
  health["n1"] = "failed";
  health_answer.delay = 1100ms;
  open({binding_of(by_source())});
  run_for(1min);
  EXPECT_TRUE(deleted().empty());
  EXPECT_EQ(count(Record::Kind::IncidentHeld, Reason::Unreadable), 1U);
  health_answer.delay = 500ms;
  run_for(31s);
  EXPECT_EQ(deleted(), Lines{"web-0"});
}

TEST_F(IncidentsBySignalTest,
       an_incident_waits_while_the_source_calls_the_node_unknown_or_not_at_all) {
  add_pod("web-0");
  nodes["n1"].ready = "Unknown";  // Kubernetes sets its taint a moment later
  open({binding_of(by_source())});
  health["n1"] = "failed";
  run_for(6s);
  EXPECT_EQ(count(Record::Kind::IncidentHeld, Reason::AwaitingTaint), 1U);
  health["n1"] = "unknown";
  nodes["n1"].tainted = true;
  run_for(1min);
  EXPECT_TRUE(deleted().empty());
  health.erase("n1");
  run_for(1min);
  EXPECT_TRUE(deleted().empty());
  EXPECT_EQ(by_signal->open_incidents(), 1U);
  health["n1"] = "failed";
  run_for(31s);
  EXPECT_EQ(deleted(), Lines{"web-0"});
}

TEST_F(IncidentsBySignalTest, healthy_again_ends_it) {  // row SO-30
  add_pod("web-0");
  nodes["n1"].ready = "Unknown";
  open({binding_of(by_source())});
  health["n1"] = "failed";
  run_for(6s);
  EXPECT_EQ(by_signal->open_incidents(), 1U);
  health["n1"] = "healthy";
  run_for(6s);
  EXPECT_EQ(by_signal->open_incidents(), 0U);
  EXPECT_EQ(count(Record::Kind::IncidentClosed, Reason::SourceHealthy), 1U);
  EXPECT_TRUE(deleted().empty());
}

TEST_F(IncidentsBySignalTest, another_node_of_the_same_name_is_not_the_one_that_failed) {
  add_pod("web-0");
  health["n1"] = "failed";
  nodes["n1"].uid = "node-9";
  open({binding_of(by_source())});
  known["n1"].uid = Uid("node-1");  // what the watch still shows
  run_for(1min);
  EXPECT_TRUE(deleted().empty());
  EXPECT_EQ(count(Record::Kind::IncidentClosed, Reason::NodeReplaced), 1U);
}

TEST_F(IncidentsBySignalTest,
       a_node_that_kubernetes_does_not_know_is_no_matter_of_ours) {  // row SO-22
  add_pod("web-0");
  health["ghost"] = "failed";
  open({binding_of(by_source())});
  run_for(1min);
  EXPECT_TRUE(story.records.empty());
  nodes["ghost"] = {.ready = "True", .uid = "node-3", .tainted = false};
  add_pod("late-0", "ghost");
  known["ghost"] = view("ghost");
  run_for(6s);
  EXPECT_EQ(deleted(), Lines{"late-0"}) << "it has come since";
}

TEST_F(IncidentsBySignalTest,
       what_failed_before_the_nodes_were_listed_is_dealt_with_when_they_are) {
  add_pod("web-0");
  health["n1"] = "failed";
  open({binding_of(by_source())});
  const auto listed = std::exchange(known, {});
  run_for(1s);
  EXPECT_TRUE(story.records.empty());
  known = listed;
  by_signal->census_changed(census_of(10, 0));
  run_for(1s);
  EXPECT_EQ(deleted(), Lines{"web-0"});
}

TEST_F(IncidentsBySignalTest, a_node_that_stays_failed_is_looked_at_again_when_its_entry_expires) {
  health["n1"] = "failed";
  open({binding_of(by_source())});
  run_for(59min);
  add_pod("web-0");
  run_for(30s);
  EXPECT_TRUE(deleted().empty());
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{"web-0"});
  EXPECT_EQ(count(Record::Kind::IncidentOpened, Reason::EntryExpired), 1U);
}

TEST_F(IncidentsBySignalTest, only_the_replica_that_acts_asks) {
  add_pod("web-0");
  health["n1"] = "failed";
  open({});
  by_signal->step_down();
  reload({binding_of(by_source())});
  run_for(1min);
  EXPECT_EQ(http.count("GET /vendor/nodes"), 0U);
  by_signal->lead();
  run_for(1s);
  EXPECT_EQ(deleted(), Lines{"web-0"});
  by_signal->step_down();
  EXPECT_EQ(by_signal->open_incidents(), 0U);
  const std::size_t asked = http.count("GET /vendor/nodes");
  run_for(1min);
  EXPECT_EQ(http.count("GET /vendor/nodes"), asked);
}

TEST_F(IncidentsBySignalTest, bindings_of_one_policy_share_a_source_and_other_settings_do_not) {
  const auto policy = by_source();
  open({binding_of(policy), binding_of(policy, Mode::Enforce, {Namespace("shop")})});
  EXPECT_EQ(by_signal->sources(), 1U);
  run_for(11s);
  EXPECT_EQ(http.count("GET /vendor/nodes"), 3U);
  reload({binding_of(policy),
          binding_of(named_policy("other", "return fence.skip('x')", source_text()))});
  EXPECT_EQ(by_signal->sources(), 2U);
  reload({binding_of(by_kubernetes())});
  EXPECT_EQ(by_signal->sources(), 0U);
  const std::size_t asked = http.count("GET /vendor/nodes");
  run_for(1min);
  EXPECT_EQ(http.count("GET /vendor/nodes"), asked);
}

TEST_F(IncidentsBySignalTest, a_binding_that_is_taken_away_ends_its_incidents) {
  nodes["n1"].ready = "Unknown";
  health["n1"] = "failed";
  open({binding_of(by_source())});
  run_for(1s);
  EXPECT_EQ(by_signal->open_incidents(), 1U);
  reload({binding_of(by_kubernetes())});
  run_for(1s);
  EXPECT_EQ(by_signal->open_incidents(), 0U);
  EXPECT_EQ(count(Record::Kind::IncidentClosed, Reason::NoPolicy), 1U);
}

TEST_F(IncidentsBySignalTest, a_binding_that_begins_to_enforce_looks_at_what_failed_before) {
  add_pod("web-0");
  health["n1"] = "failed";
  open({binding_of(by_source(), Mode::Observe)});
  run_for(1min);
  EXPECT_TRUE(deleted().empty());
  EXPECT_EQ(count(Record::Kind::Refusal, Reason::ModeObserves), 1U);
  reload({binding_of(by_source(), Mode::Enforce)});
  run_for(1s);
  EXPECT_EQ(deleted(), Lines{"web-0"});
  EXPECT_EQ(count(Record::Kind::IncidentOpened, Reason::PoliciesChanged), 1U);
}

// The source's key holds its settings: another leader of another configuration knew another one.
IncidentRecord of_a_source_that_was() {
  IncidentRecord left_open;
  left_open.id = IncidentId("i7");
  left_open.node = NodeName("n1");
  left_open.node_uid = Uid("node-1");
  left_open.source = "a source that was";
  left_open.steps_cut = 1;  // one that holds none would not be kept
  return left_open;
}

TEST_F(IncidentsBySignalTest, a_record_of_a_source_that_no_policy_asks_any_more_is_closed) {
  records.put(of_a_source_that_was());
  open({binding_of(by_source())});
  by_signal->await_records();
  journal->read([this](const std::vector<Journal::Found>& found) { by_signal->take_over(found); });
  run_for(5s);
  ASSERT_TRUE(records.record("i7").closed.has_value());
  EXPECT_EQ(records.record("i7").closed->reason, Reason::NoPolicy);
  EXPECT_EQ(count(Record::Kind::IncidentClosed, Reason::NoPolicy), 1U);
}

// The records came when it was leaving already, and its Lease was the next leader's.
TEST_F(IncidentsBySignalTest, who_leaves_closes_nothing_of_what_it_took_over) {
  records.put(of_a_source_that_was());
  open({binding_of(by_source())});
  by_signal->await_records();
  by_signal->stop();
  journal->read([this](const std::vector<Journal::Found>& found) { by_signal->take_over(found); });
  run_for(5s);
  EXPECT_FALSE(records.record("i7").closed.has_value());
  EXPECT_EQ(count(Record::Kind::IncidentClosed, Reason::NoPolicy), 0U);
}

TEST_F(IncidentsBySignalTest, a_source_that_calls_most_nodes_failed_stops_everybody) {
  open({binding_of(by_source())});
  for (int i = 0; i < 6; ++i) {
    const std::string name = "m" + std::to_string(i);
    nodes[name] = {.ready = "True", .uid = "node-" + name, .tainted = false};
    known[name] = view(name);
    add_pod("web-" + name, name);
    health[name] = "failed";
  }
  run_for(1min);
  EXPECT_TRUE(deleted().empty()) << "6 of 10 workers";
  EXPECT_GE(count(Record::Kind::IncidentHeld, Reason::TooManyDown), 1U);
  for (int i = 2; i < 6; ++i) {
    health["m" + std::to_string(i)] = "healthy";
  }
  run_for(1min);
  EXPECT_EQ(deleted(), (Lines{"web-m0", "web-m1"}));
}

TEST_F(IncidentsBySignalTest, of_nodes_that_are_not_named_a_rehearsal_only_counts_which_are_down) {
  add_pod("web-0");
  add_pod("web-1", "n2");
  health = {{"n1", "failed"}, {"n2", "failed"}};
  open({binding_of(by_source())}, /*rehearses=*/true);
  run_for(10s);
  EXPECT_TRUE(story.records.empty()) << "nobody has named a node";
  by_signal->name(NodeName("n2"));
  run_for(10s);
  EXPECT_EQ(deleted(), Lines{"web-1"});
  health["n1"] = "healthy";
  run_for(6s);
  health["n1"] = "failed";
  reload({binding_of(by_source(), Mode::Observe)});
  run_for(10s);
  EXPECT_EQ(deleted(), Lines{"web-1"});
  EXPECT_EQ(count(Record::Kind::IncidentOpened, Reason::SourceFailed), 1U);
  EXPECT_TRUE(by_signal->is_failed(NodeName("n1")));
}

TEST_F(IncidentsBySignalTest, a_node_that_a_rehearsal_supposes_dead_is_failed_to_its_sources) {
  add_pod("web-0");
  add_pod("web-1", "n2");
  open({binding_of(by_source())}, /*rehearses=*/true);
  run_for(6s);
  by_signal->suppose_failed(NodeName("n1"));
  run_for(20s);  // it is asked again meanwhile, and says that all are healthy
  EXPECT_EQ(deleted(), Lines{"web-0"});
  EXPECT_TRUE(by_signal->is_failed(NodeName("n1")));
}

TEST_F(IncidentsBySignalTest,
       a_node_that_is_supposed_dead_is_kept_while_its_source_does_not_answer) {
  add_pod("web-0");
  health_answer = test::FakeAnswer::refused();
  open({binding_of(by_source())}, /*rehearses=*/true);
  by_signal->suppose_failed(NodeName("n1"));
  run_for(20s);
  EXPECT_TRUE(deleted().empty());
  EXPECT_EQ(count(Record::Kind::IncidentOpened, Reason::SourceFailed), 1U);
}

}  // namespace
}  // namespace moonfence::fence
