// Bindings that act on a node whose machine is not heard and off, as its fencer says, before
// Kubernetes has noticed (`actOn: off`).

#include <gtest/gtest.h>

#include "fence/fencers/power_watch.h"
#include "fence/incident/incidents_by_signal.h"
#include "unit/fence/fence_fixture.h"

namespace moonfence::fence {
namespace {

using audit::Reason;
using audit::Record;
using cluster::Kernel;

// Asks GET /power, and switches off by POST /switch.
constexpr const char* kFencer =
    R"(return fencer { api = 1, name = "bmc", version = "1.0.0", summary = "asks",
    plan = function(node, s, got)
      if not got.power then return { power = fence.http("vendor", "/power", node.name) } end
    end,
    state = function(node, s, got)
      if got.power.status ~= 200 then return "unknown", "it is busy" end
      return got.power.body.state, "it says so"
    end,
    off = function(node, s, got) return fence.post("vendor", "/switch", { of = node.name }) end })";

struct IncidentsOffTest : FenceTest {
  StoppedCpuClock cpu;
  nlohmann::json said = {{"state", "off"}};
  int power_status = 200;
  Duration power_delay{};
  int asked = 0;
  std::vector<Moment> orders;
  std::function<void()> obey = [] {};
  std::map<std::string, cluster::NodeView> known;
  std::optional<PowerWatch> watch;
  std::optional<IncidentsBySignal> by_signal;
  int made_ids = 0;
  Moment died{};
  Duration after = 12s;

  IncidentsOffTest() {
    http.on(port::Method::Get, "/vendor/power/*", [this](const test::FakeRequest&) {
      ++asked;
      return test::FakeAnswer{.status = power_status, .body = said.dump(), .delay = power_delay};
    });
    http.on(port::Method::Post, "/vendor/switch", [this](const test::FakeRequest&) {
      EXPECT_EQ(deletes(), Lines{});
      orders.push_back(loop.now());
      obey();
      return test::FakeAnswer{.status = 204, .body = ""};
    });
    quarantine = Quarantine::Missing;
    kernels.kernel = Kernel::Answers;
    nodes["n1"] = {.ready = "True", .tainted = false};
    for (const char* name : {"n2", "n3", "n4"}) {
      nodes[name] = {.ready = "True", .uid = std::string("node-") + name, .tainted = false};
    }
    add_pod("web-0");  // of a StatefulSet
    run_for(1min);
  }
  ~IncidentsOffTest() override {
    by_signal.reset();
    watch.reset();
  }
  void open(bool may_switch_off = true, Mode mode = Mode::Enforce) {
    watch.emplace(
        PowerWatch::Surroundings{
            .loop = loop,
            .reader = reader,
            .allowed_reads = allowed_reads,
            .endpoints = &endpoints,
            .log = log,
            .found = [this](const NodeName& node) { by_signal->evidence_found(node); }},
        std::vector{BoundFencer{.fencer = std::make_shared<const policy::Policy>(
                                    *policy::Policy::load(kFencer, "bmc.lua", cpu)),
                                .nodes = *policy::LabelSelector::parse(""),
                                .may_act = may_switch_off}});
    powers = &*watch;
    start(mode);
  }
  void start(Mode mode = Mode::Enforce) {
    Binding binding = binding_of(deleting_policy(), mode);
    binding.allow.act_on = policy::ActOn::Off;
    binding.allow.after = after;
    activate({binding});
    for (const auto& [name, state] : nodes) {
      known[name] = view(name);
    }
    by_signal.emplace(
        surroundings(), IncidentRules{},
        [this] { return IncidentId("i" + std::to_string(++made_ids)); },
        [this](const NodeName& name) { return &known.at(name.text()); });
    by_signal->census_changed(census_of(10, 0));
    by_signal->policies_changed();
    run_for(1s);
  }
  // Its last sign is now.
  void falls_silent() {
    died = loop.now();
    kernels.since[NodeName("n1")] = died;
  }
  void lease_stands_still() { nodes["n1"].renewed = "2026-01-02T04:59:00.000000Z"; }
  [[nodiscard]] Lines opened() const {
    Lines reasons;
    for (const Record& record : story.records) {
      if (record.kind == Record::Kind::IncidentOpened) {
        reasons.emplace_back(audit::code(record.reason));
      }
    }
    return reasons;
  }
};

TEST_F(IncidentsOffTest, nobody_is_asked_while_all_machines_answer) {
  open();
  run_for(10min);
  EXPECT_EQ(asked, 0);
}

TEST_F(IncidentsOffTest, the_pods_of_a_machine_that_is_off_go_at_once_whatever_they_are) {
  open();
  falls_silent();
  run_for(1s);
  ASSERT_EQ(deletes().size(), 1U);
  EXPECT_TRUE(nodes["n1"].is_fenced());
  EXPECT_EQ(opened(), Lines{"node_lost"});
  EXPECT_TRUE(orders.empty());
}

TEST_F(IncidentsOffTest, a_machine_that_is_on_is_left_alone_while_its_kubelet_renews_its_lease) {
  said["state"] = "on";
  open();
  falls_silent();
  run_for(10min);
  EXPECT_EQ(opened(), Lines{});
  EXPECT_TRUE(orders.empty());
  EXPECT_LE(asked, 100) << "ever less often";
  said["state"] = "off";
  run_for(11s);
  EXPECT_EQ(deletes().size(), 1U);
}

// Behind a cut cable.
TEST_F(IncidentsOffTest, a_machine_that_is_on_and_lost_is_switched_off_and_then_its_pods_go) {
  said["state"] = "on";
  obey = [this] { said["state"] = "off"; };
  open();
  falls_silent();
  lease_stands_still();
  run_for(11900ms);
  EXPECT_TRUE(orders.empty());
  run_for(2s);
  ASSERT_EQ(orders.size(), 1U);
  EXPECT_GE(orders[0] - died, 12s);
  EXPECT_EQ(deletes().size(), 1U) << "it is read a second after the order";
}

// The list of all Leases was some seconds old. Before a machine is switched off its own is read.
TEST_F(IncidentsOffTest, a_machine_whose_lease_is_renewed_by_itself_is_left_on) {
  said["state"] = "on";
  open();
  falls_silent();
  lease_stands_still();
  lease_answer.body =
      nlohmann::json{
          {"metadata", {{"name", "n1"}, {"uid", "lease-n1"}, {"resourceVersion", kWrittenSince}}},
          {"spec",
           {{"holderIdentity", "n1"},
            {"leaseDurationSeconds", 40},
            {"renewTime", NodeState().renewed}}}}
          .dump();
  run_for(2min);
  EXPECT_TRUE(orders.empty());
  EXPECT_EQ(opened(), Lines{"node_lost"});
}

TEST_F(IncidentsOffTest, it_is_left_on_for_as_long_as_the_binding_says) {
  said["state"] = "on";
  after = 1min;
  open();
  falls_silent();
  lease_stands_still();
  run_for(59s);
  EXPECT_TRUE(orders.empty());
  run_for(2s);
  EXPECT_EQ(orders.size(), 1U);
}

// The incident is there already, because it was off: what it waits for is no reason to end it.
TEST_F(IncidentsOffTest, somebody_who_switches_it_on_again_is_not_overruled) {
  after = 1min;
  protections.proof.namespaces[Namespace("db")].insert(policy::Evidence::Silent);
  kernels.confirms = false;
  open();
  falls_silent();
  run_for(10s);
  EXPECT_EQ(opened(), Lines{"node_lost"});
  said["state"] = "on";
  run_for(PowerWatch::kLifetime);
  kernels.confirms = true;
  lease_stands_still();
  run_for(9min);
  EXPECT_TRUE(orders.empty());
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(IncidentsOffTest, what_was_known_stands_beside_each_deletion) {
  open();
  falls_silent();
  run_for(2s);
  for (const Record& record : story.records) {
    if (record.kind == Record::Kind::Intent && record.action == "delete_pod") {
      EXPECT_EQ(record.evidence, "silent, off (bmc: it says so)");
    }
  }
  EXPECT_EQ(deletes().size(), 1U);
}

TEST_F(IncidentsOffTest, where_no_fencer_may_switch_it_off_it_waits_for_the_proof) {
  said["state"] = "on";
  open(false);
  falls_silent();
  lease_stands_still();
  run_for(5min);
  EXPECT_TRUE(orders.empty());
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(opened(), Lines{"node_lost"});
  EXPECT_GE(story.count(Record::Kind::Verdict, Reason::ProofMissing), 1U);
  said["state"] = "off";
  run_for(6s);
  EXPECT_EQ(deletes().size(), 1U);
}

TEST_F(IncidentsOffTest, where_nobody_can_be_asked_it_waits_for_the_proof) {
  start();  // no fencer
  falls_silent();
  lease_stands_still();
  run_for(5min);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(opened(), Lines{"node_lost"});
}

TEST_F(IncidentsOffTest, a_fencer_that_cannot_say_proves_nothing) {
  for (const char* word : {"unknown", "failed"}) {
    said["state"] = word;
    open();
    falls_silent();
    run_for(2min);
    EXPECT_EQ(opened(), Lines{}) << word;
    kernels.since.clear();
    run_for(1s);
  }
}

// Its controller was asked while it was off, it came back, and fell silent again: whoever reads
// that answer now reads of another outage.
TEST_F(IncidentsOffTest, what_was_read_before_it_was_last_heard_counts_for_nothing) {
  open();
  pods.clear();
  falls_silent();
  run_for(2s);
  kernels.since.clear();
  run_for(1s);
  add_pod("web-0");
  power_status = 503;
  power_delay = 4s;  // until then that is the newest word of it
  falls_silent();
  run_for(11s);
  EXPECT_EQ(opened().size(), 1U) << "of the first outage";
  EXPECT_EQ(deletes(), Lines{});
}

// What is left to be done waits for its word, or for ours that it is lost.
TEST_F(IncidentsOffTest, a_controller_that_falls_silent_ends_no_incident_and_proves_nothing) {
  open();
  falls_silent();
  run_for(2s);
  power_status = 503;
  run_for(11s);
  add_pod("web-1");
  run_for(30s);
  EXPECT_EQ(opened(), Lines{"node_lost"})
      << "its controller says nothing, and its Lease is on time";
  EXPECT_EQ(by_signal->open_incidents(), 1U);
  EXPECT_EQ(deletes().size(), 1U);
  power_status = 200;
  run_for(1min);
  EXPECT_EQ(deletes().size(), 2U);
  EXPECT_EQ(opened(), Lines{"node_lost"});
}

TEST_F(IncidentsOffTest, one_that_is_heard_before_its_pods_go_is_left_alone) {
  power_delay = 500ms;
  node_answer.delay = 300ms;
  open();
  falls_silent();
  run_for(900ms);  // it is off, its node is being read
  kernels.since.clear();
  run_for(5min);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(by_signal->open_incidents(), 0U);
}

TEST_F(IncidentsOffTest, observing_deletes_nothing_and_switches_nothing_off) {
  open(true, Mode::Observe);
  falls_silent();
  lease_stands_still();
  run_for(1min);
  said["state"] = "on";
  run_for(1min);
  EXPECT_EQ(opened(), Lines{"node_lost"});
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_TRUE(orders.empty());
  EXPECT_FALSE(nodes["n1"].is_fenced());
}

}  // namespace
}  // namespace moonfence::fence
