#include "fence/silence/silent_taints.h"

#include "unit/fence/incidents_fixture.h"

namespace moonfence::fence {
namespace {

using cluster::Kernel;
using cluster::NodeView;
using nlohmann::json;

constexpr const char* kKey = "moonfence.io/silent";

struct SilentTaintsTest : FenceTest {
  std::map<NodeName, NodeView> watched;
  std::optional<SilentTaints> silent_taints;
  std::size_t count = 50;

  SilentTaintsTest() {
    kernels.kernel = Kernel::Answers;
    for (const char* name : {"n1", "n2", "n3"}) {
      NodeState& node = nodes[name];
      node.uid = "uid-" + std::string(name);
      node.ready = "True";
      node.tainted = false;
    }
    enforce();
    start(surroundings());
  }
  void enforce() { activate({everywhere(policy_of("return fence.skip('not mine')"))}); }
  void start(IncidentContext around, bool on = true) {
    silent_taints.emplace(around, on,
                          WatchedNodes{.count = [this] { return count; },
                                       .find = [this](const NodeName& name) -> const NodeView* {
                                         const auto found = watched.find(name);
                                         return found == watched.end() ? nullptr : &found->second;
                                       }});
    silent_taints->lead();
    for (const auto& [name, state] : nodes) {
      tell(name);
    }
  }
  // What the watch shows.
  void tell(const std::string& name = "n1") {
    NodeView node = view(name);
    node.hold = held_by(name);
    watched.insert_or_assign(node.name, node);
    silent_taints->saw(node);
  }
  [[nodiscard]] std::optional<std::string> held_by(const std::string& name) {
    const json& annotations = nodes[name].annotations;
    return annotations.contains("moonfence.io/hold") ? std::optional<std::string>("held")
                                                     : std::nullopt;
  }
  void hold(const std::string& name = "n1") {
    nodes[name].annotations["moonfence.io/hold"] = "we look at it";
  }
  void falls_silent(const std::string& name = "n1") {
    kernels.since[NodeName(name)] = loop.now() - 4s;
  }
  void is_heard(const std::string& name = "n1") { kernels.since.erase(NodeName(name)); }
  // Silent, tainted, and the watch shows it.
  void taint(const std::string& name = "n1") {
    falls_silent(name);
    run_for(300ms);
    ASSERT_TRUE(is_tainted(name));
    tell(name);
  }
  [[nodiscard]] bool is_tainted(const std::string& name = "n1") {
    const json& taints = nodes[name].taints;
    const bool taint = std::any_of(taints.begin(), taints.end(), [](const json& each) {
      return each["key"] == kKey && each["effect"] == "NoSchedule";
    });
    EXPECT_EQ(taint, nodes[name].annotations.contains(kKey)) << "they come and go together";
    return taint;
  }
  [[nodiscard]] std::size_t patches() const {
    return static_cast<std::size_t>(
        std::count_if(http.requests.begin(), http.requests.end(),
                      [](const auto& request) { return request.method == port::Method::Patch; }));
  }
};

TEST_F(SilentTaintsTest, a_silent_machine_gets_no_new_pods_until_it_is_heard) {
  taint();
  run_for(1h);
  EXPECT_TRUE(is_tainted());
  EXPECT_EQ(patches(), 1U);
  is_heard();
  run_for(300ms);
  EXPECT_FALSE(is_tainted());
  EXPECT_EQ(story.told(), (Lines{"intent sets_silent_taint", "outcome done",
                                 "intent lifts_silent_taint", "outcome done"}));
}

TEST_F(SilentTaintsTest, it_is_heard_before_the_watch_shows_the_taint) {
  falls_silent();
  run_for(300ms);
  ASSERT_TRUE(is_tainted());
  is_heard();
  run_for(300ms);
  EXPECT_FALSE(is_tainted());
}

// The word of one replica may be its own cable.
TEST_F(SilentTaintsTest, nobody_is_silent_for_one_replica_alone) {
  kernels.confirms = false;
  falls_silent();
  run_for(1min);
  EXPECT_EQ(http.requests.size(), 0U);
  kernels.confirms = true;
  run_for(300ms);
  EXPECT_TRUE(is_tainted());
}

TEST_F(SilentTaintsTest, in_the_quiet_nobody_asks_the_api_server_for_anything) {
  run_for(10min);
  EXPECT_EQ(http.requests.size(), 0U);
}

TEST_F(SilentTaintsTest, one_node_in_a_hundred_at_a_time) {
  for (const char* name : {"n1", "n2", "n3"}) {
    falls_silent(name);
  }
  run_for(1min);
  EXPECT_TRUE(is_tainted("n1"));
  EXPECT_FALSE(is_tainted("n2"));
  EXPECT_FALSE(is_tainted("n3"));
  EXPECT_EQ(log.count("silent_taint_withheld"), 2U) << "once for each";
  count = 299;
  run_for(1s);
  EXPECT_TRUE(is_tainted("n2"));
  EXPECT_FALSE(is_tainted("n3"));
  count = 300;
  run_for(1s);
  EXPECT_TRUE(is_tainted("n3"));
}

// One that stays dead must not keep the others from it for days.
TEST_F(SilentTaintsTest, what_kubernetes_has_given_up_takes_no_place) {
  taint("n1");
  nodes["n1"].ready = "Unknown";
  nodes["n1"].tainted = true;
  tell("n1");
  falls_silent("n2");
  run_for(300ms);
  EXPECT_TRUE(is_tainted("n2"));
  EXPECT_EQ(log.count("silent_taint_withheld"), 0U);
}

TEST_F(SilentTaintsTest, ten_times_in_an_hour) {
  for (int i = 0; i < 10; ++i) {
    taint();
    is_heard();
    run_for(1min);
    ASSERT_FALSE(is_tainted());
    tell();
  }
  falls_silent();
  run_for(30min);
  EXPECT_FALSE(is_tainted());
  EXPECT_EQ(log.count("silent_taint_withheld"), 1U);
  run_for(30min);
  EXPECT_TRUE(is_tainted());
}

TEST_F(SilentTaintsTest, what_speaks_against_a_deletion_speaks_against_it) {
  falls_silent();
  const auto expect_refused = [this](audit::Reason reason) {
    run_for(10min);
    EXPECT_FALSE(is_tainted()) << code(reason);
    EXPECT_GE(story.count(Record::Kind::Refusal, reason), 1U) << code(reason);
    EXPECT_LE(story.count(Record::Kind::Refusal, reason), 8U) << "ever less often";
    EXPECT_EQ(patches(), 0U);
  };
  activate({binding_of(policy_of("return fence.skip('not mine')"), Mode::Observe)});
  expect_refused(audit::Reason::ModeObserves);
  enforce();
  leadership.until.reset();
  expect_refused(audit::Reason::NotLeader);
  leadership.until = Moment::max();
  run_for(5min);
  EXPECT_TRUE(is_tainted());
}

TEST_F(SilentTaintsTest, a_node_that_somebody_holds_is_not_even_read) {
  hold();
  tell();
  falls_silent();
  run_for(10min);
  EXPECT_EQ(http.requests.size(), 0U);
}

TEST_F(SilentTaintsTest, a_machine_that_is_heard_meanwhile_is_left_alone) {
  node_answer.delay = 500ms;
  falls_silent();
  run_for(300ms);
  is_heard();
  run_for(10s);
  EXPECT_FALSE(is_tainted());
  EXPECT_EQ(patches(), 0U);
}

// It answered, and fell silent again before the node was read.
TEST_F(SilentTaintsTest, a_taint_stays_on_a_machine_that_is_silent_again) {
  taint();
  node_answer.delay = 500ms;
  is_heard();
  run_for(300ms);
  falls_silent();
  run_for(10s);
  EXPECT_TRUE(is_tainted());
  EXPECT_EQ(patches(), 1U);
}

TEST_F(SilentTaintsTest, a_node_that_kubernetes_keeps_pods_off_needs_none) {
  nodes["n1"].tainted = true;
  tell();
  falls_silent();
  run_for(10min);
  EXPECT_FALSE(is_tainted());
  EXPECT_EQ(http.requests.size(), 0U);
}

TEST_F(SilentTaintsTest, the_live_node_is_looked_at_before_it_is_tainted) {
  nodes["n1"].tainted = true;  // the watch does not show it yet
  falls_silent();
  run_for(1min);
  EXPECT_FALSE(is_tainted());
  EXPECT_EQ(patches(), 0U);
  nodes["n2"].uid = "uid-of-another";
  falls_silent("n2");
  run_for(1min);
  EXPECT_EQ(patches(), 0U) << "nobody has heard or missed that machine";
}

TEST_F(SilentTaintsTest, what_another_leader_left_is_lifted_though_it_is_off) {
  taint();
  start(surroundings(), false);
  run_for(10s);
  EXPECT_TRUE(is_tainted()) << "it is silent";
  is_heard();
  run_for(300ms);
  EXPECT_FALSE(is_tainted());
}

// Kubernetes calls a machine that has just died Ready for forty seconds.
TEST_F(SilentTaintsTest, where_nobody_listens_ready_counts_when_it_was_said_after_the_taint) {
  taint();
  IncidentContext deaf = surroundings();
  deaf.in_force.kernels = nullptr;
  for (const bool is_deaf : {false, true}) {
    kernels.since.clear();
    kernels.kernel = Kernel::NotObservable;
    start(is_deaf ? deaf : surroundings());
    nodes["n1"].heartbeat = format_rfc3339(sample_cluster().now - 10s);
    run_for(1min);
    EXPECT_TRUE(is_tainted()) << "so far it only has not been found out";
    nodes["n1"].heartbeat = format_rfc3339(sample_cluster().now + 10s);
    nodes["n1"].ready = "Unknown";
    tell();
    run_for(1min);
    EXPECT_TRUE(is_tainted());
    nodes["n1"].ready = "True";
    tell();
    run_for(2s);
    EXPECT_FALSE(is_tainted());
    tell();
    if (!is_deaf) {
      start(surroundings());
      taint();
    }
  }
}

TEST_F(SilentTaintsTest, somebody_elses_taint_is_left_alone) {
  nodes["n1"].taints = {{{"key", kKey}, {"effect", "NoSchedule"}}};
  falls_silent();
  run_for(1min);
  is_heard();
  run_for(1min);
  EXPECT_EQ(patches(), 0U);
}

TEST_F(SilentTaintsTest, a_hold_keeps_the_taint_and_is_told_once) {
  taint();
  hold();
  tell();
  is_heard();
  run_for(1h);
  EXPECT_TRUE(is_tainted());
  EXPECT_EQ(story.count(Record::Kind::Refusal, audit::Reason::OnHold), 1U);
  nodes["n1"].annotations.erase("moonfence.io/hold");
  tell();
  run_for(300ms);
  EXPECT_FALSE(is_tainted());
}

TEST_F(SilentTaintsTest, what_failed_is_tried_again_ever_less_often) {
  patch_answers.assign(8, status(403, "Forbidden"));
  falls_silent();
  run_for(4s);
  EXPECT_EQ(patches(), 1U);
  run_for(10s);  // again after 5 s, then after 10
  EXPECT_EQ(patches(), 2U);
  run_for(10min);
  EXPECT_LE(patches(), 8U);
  EXPECT_FALSE(is_tainted());
  run_for(20min);
  EXPECT_TRUE(is_tainted());
}

// A first try that was put off must not hold back what takes it off again.
TEST_F(SilentTaintsTest, a_taint_whose_answer_was_lost_comes_off_as_soon_as_the_machine_is_heard) {
  taint();
  is_heard();
  patch_answers.assign(1, status(409, "Conflict"));
  run_for(300ms);
  EXPECT_TRUE(is_tainted());
  run_for(2s);
  EXPECT_FALSE(is_tainted());
}

TEST_F(SilentTaintsTest, whoever_steps_down_does_nothing) {
  silent_taints->step_down();
  falls_silent();
  run_for(1min);
  EXPECT_EQ(http.requests.size(), 0U);
  silent_taints->lead();
  run_for(300ms);
  EXPECT_TRUE(is_tainted());
}

TEST_F(SilentTaintsTest, what_is_under_way_ends_with_the_term) {
  node_answer.delay = 500ms;
  falls_silent();
  run_for(300ms);
  silent_taints->step_down();
  run_for(10s);
  EXPECT_EQ(patches(), 0U);
  EXPECT_FALSE(is_tainted());
}

}  // namespace
}  // namespace moonfence::fence
