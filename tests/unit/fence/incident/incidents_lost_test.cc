// Bindings that act on a node that the engine itself has lost, before Kubernetes has noticed.

#include <gtest/gtest.h>

#include "fence/incident/incidents_by_signal.h"
#include "unit/fence/fence_fixture.h"

namespace moonfence::fence {
namespace {

using audit::Reason;
using audit::Record;
using cluster::Kernel;

struct IncidentsLostTest : FenceTest {
  std::map<std::string, cluster::NodeView> known;
  std::optional<IncidentsBySignal> by_signal;
  int made_ids = 0;

  IncidentsLostTest() {
    quarantine = Quarantine::Missing;
    kernels.kernel = Kernel::Answers;
    nodes["n1"] = {.ready = "True", .tainted = false};
    for (const char* name : {"n2", "n3", "n4"}) {
      nodes[name] = {.ready = "True", .uid = std::string("node-") + name, .tainted = false};
    }
    add_pod("web-0");
    make_stateless("web-0");
    run_for(1min);
  }
  void make_stateless(const std::string& name) {
    pods.at(name)["metadata"]["ownerReferences"][0]["kind"] = "ReplicaSet";
  }
  void open(Duration after = 12s, Mode mode = Mode::Enforce) {
    Binding binding = binding_of(deleting_policy(), mode);
    binding.allow.act_on = policy::ActOn::Lost;
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
  // Its last sign is now; its Lease was renewed long ago.
  void dies() {
    kernels.since[NodeName("n1")] = loop.now();
    nodes["n1"].renewed = "2026-01-02T04:59:00.000000Z";
    died = loop.now();
  }
  [[nodiscard]] std::vector<std::string> opened() const {
    std::vector<std::string> reasons;
    for (const Record& record : story.records) {
      if (record.kind == Record::Kind::IncidentOpened) {
        reasons.emplace_back(audit::code(record.reason));
      }
    }
    return reasons;
  }
  Moment died{};
};

TEST_F(IncidentsLostTest, a_node_that_is_lost_gets_our_taint_and_its_stateless_pods_go) {
  add_pod("db-0");  // of a StatefulSet
  open();
  dies();
  run_for(11s);
  EXPECT_EQ(deletes(), Lines{});
  run_for(2s);
  ASSERT_EQ(deletes().size(), 1U);
  EXPECT_THAT(deletes()[0], testing::StartsWith("web-0 "));
  EXPECT_TRUE(nodes["n1"].is_fenced());
  EXPECT_EQ(opened(), Lines{"node_lost"});
  run_for(10min);
  EXPECT_EQ(deletes().size(), 1U);
}

TEST_F(IncidentsLostTest, it_waits_for_as_long_as_the_binding_says) {
  open(1min);
  dies();
  run_for(59s);
  EXPECT_EQ(deletes(), Lines{});
  run_for(2s);
  EXPECT_EQ(deletes().size(), 1U);
}

TEST_F(IncidentsLostTest, a_lease_that_is_renewed_speaks_for_the_machine) {
  open();
  kernels.since[NodeName("n1")] = loop.now();
  run_for(10min);
  EXPECT_EQ(opened(), Lines{});
}

TEST_F(IncidentsLostTest, when_other_leases_stand_still_too_the_fault_is_elsewhere) {
  open();
  dies();
  nodes["n2"].renewed = nodes["n1"].renewed;
  run_for(10min);
  EXPECT_EQ(opened(), Lines{});
}

TEST_F(IncidentsLostTest, leases_that_cannot_be_read_accuse_nobody) {
  open();
  dies();
  peer_leases_answer = broken();
  run_for(10min);
  EXPECT_EQ(opened(), Lines{});
  peer_leases_answer = {};
  run_for(2s);
  EXPECT_EQ(deletes().size(), 1U);
}

TEST_F(IncidentsLostTest, one_that_is_heard_again_is_left_alone) {
  open();
  dies();
  run_for(11s);
  kernels.since.clear();
  run_for(10min);
  EXPECT_EQ(opened(), Lines{});
  // In the middle of it.
  delete_delay = 500ms;
  dies();
  add_pods(3);
  run_for(12s + 250ms);
  kernels.since.clear();
  nodes["n1"].renewed = NodeState().renewed;
  run_for(1min);
  EXPECT_EQ(by_signal->open_incidents(), 0U);
  EXPECT_EQ(story.count(Record::Kind::IncidentClosed, Reason::NodeReady) +
                story.count(Record::Kind::IncidentClosed, Reason::SourceHealthy),
            opened().size());
}

// The scheduler has not heard of it yet, and would put the replacement there again.
TEST_F(IncidentsLostTest, without_a_taint_of_ours_it_waits_for_the_one_of_kubernetes) {
  quarantine = Quarantine::Off;
  open();
  dies();
  run_for(30s);
  EXPECT_EQ(deletes(), Lines{});
  nodes["n1"].tainted = true;
  run_for(31s);
  EXPECT_EQ(deletes().size(), 1U);
}

TEST_F(IncidentsLostTest, where_nobody_watches_the_machines_nothing_is_lost) {
  Binding binding = binding_of(deleting_policy());
  binding.allow.act_on = policy::ActOn::Lost;
  binding.allow.after = 12s;
  activate({binding});
  known["n1"] = view("n1");
  IncidentContext context = surroundings();
  context.in_force.kernels = nullptr;
  by_signal.emplace(
      context, IncidentRules{}, [] { return IncidentId("i1"); },
      [this](const NodeName& name) { return &known.at(name.text()); });
  by_signal->census_changed(census_of(10, 0));
  by_signal->policies_changed();
  dies();
  run_for(10min);
  EXPECT_EQ(by_signal->sources(), 0U);
  EXPECT_EQ(opened(), Lines{});
}

TEST_F(IncidentsLostTest, observing_deletes_nothing) {
  open(12s, Mode::Observe);
  dies();
  run_for(1min);
  EXPECT_EQ(opened(), Lines{"node_lost"});
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_FALSE(nodes["n1"].is_fenced());
}

}  // namespace
}  // namespace moonfence::fence
