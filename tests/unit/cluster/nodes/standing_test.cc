#include "cluster/nodes/standing.h"

#include <gtest/gtest.h>

#include "cluster/nodes/node_view.h"

namespace moonfence::cluster {
namespace {

using namespace std::chrono_literals;
using Group = Standing::Group;

const Moment kNow = Moment{} + 48h;
const WallTime kServer = WallTime{} + 1000h;

kube::Node made(const char* ready = "True") {
  kube::Node node;
  node.ready = kube::Condition{.status = ready, .last_transition_time = kServer - 1h};
  node.created = kServer - 100h;
  return node;
}

NodeView tainted(const std::string& key, const std::string& effect = "NoSchedule") {
  kube::Node node = made();
  node.taints.push_back({.key = key, .value = {}, .effect = effect});
  return view_of(node);
}

Standing found(const kube::Node& node) {
  return standing_found(view_of(node), kNow, {.exclude = {}, .server_now = [] { return kServer; }});
}

TEST(Standing, a_worker_is_a_node_that_ordinary_pods_can_run_on) {
  EXPECT_EQ(standing_up(view_of(made())).group, Group::Worker);
  EXPECT_EQ(standing_up(tainted("nvidia.com/gpu")).group, Group::Dedicated);
  EXPECT_EQ(standing_up(tainted("CriticalAddonsOnly", "NoExecute")).group, Group::Dedicated);
  EXPECT_EQ(standing_up(tainted("zone", "PreferNoSchedule")).group, Group::Worker);
  EXPECT_EQ(standing_up(tainted("node.kubernetes.io/memory-pressure")).group, Group::Worker);
  EXPECT_EQ(standing_up(tainted("node-role.kubernetes.io/control-plane")).group, Group::None);
  NodeView cordoned = view_of(made());
  cordoned.unschedulable = true;
  EXPECT_EQ(standing_up(cordoned).group, Group::None);
}

// Nodes with the autonomy mark of an edge cluster: nothing of them is to be moved, and they held
// the brake.
TEST(Standing, a_node_that_nobody_may_touch_is_not_counted) {
  NodeView held = view_of(made());
  held.hold = "annotation node.beta.openyurt.io/autonomy=true";
  EXPECT_EQ(standing_up(held).group, Group::None);
  EXPECT_EQ(standing_fallen(standing_up(held), held, kNow).group, Group::None);
  NodeView down = view_of(made("Unknown"));
  down.hold = held.hold;
  EXPECT_EQ(standing_found(down, kNow, {}).group, Group::None);
}

TEST(Standing, what_is_done_to_a_node_after_it_fell_does_not_change_what_it_was) {
  NodeView view = tainted("remediation.example.com/dead");
  view.unschedulable = true;
  view.hold = "looked into";
  EXPECT_EQ(standing_fallen({}, view, kNow), (Standing{.group = Group::Worker, .fell = kNow}));
  EXPECT_EQ(standing_fallen({.group = Group::None}, view_of(made()), kNow).group, Group::None);
  view.excluded = true;  // the administrator's word counts at any time
  EXPECT_EQ(standing_fallen({}, view, kNow).group, Group::None);
}

TEST(Standing, found_down_it_fell_when_its_condition_says) {
  EXPECT_EQ(found(made("Unknown")).fell, kNow - 1h);
  kube::Node ahead = made("Unknown");
  ahead.ready->last_transition_time = kServer + 1h;
  EXPECT_EQ(found(ahead).fell, kNow);
  EXPECT_EQ(standing_found(view_of(made("Unknown")), kNow, {}).fell, kNow);
}

TEST(Standing, one_that_never_was_ready_is_not_counted) {
  kube::Node joining = made("False");
  joining.ready->last_transition_time = *joining.created + 1s;
  EXPECT_EQ(found(joining).group, Group::None);
  kube::Node unheard = made("Unknown");
  unheard.ready->reason = "NodeStatusNeverUpdated";
  EXPECT_EQ(found(unheard).group, Group::None);
  joining.ready.reset();
  EXPECT_EQ(found(joining).group, Group::None);
  EXPECT_EQ(standing_joining().group, Group::None);
}

TEST(Standing, one_that_was_cordoned_before_it_fell_is_not_counted_and_after_it_is) {
  kube::Node node = made("Unknown");
  node.unschedulable = true;
  EXPECT_EQ(found(node).group, Group::Worker);  // nobody knows when
  node.cordoned = kServer - 2h;
  EXPECT_EQ(found(node).group, Group::None);
  node.cordoned = kServer - 30min;
  EXPECT_EQ(found(node).group, Group::Worker);
}

TEST(Standing, labels_exclude_by_key_or_by_value) {
  const Counting counting = {
      .exclude = {{.key = "edge", .value = {}}, {.key = "pool", .value = "spot"}},
      .server_now = {}};
  EXPECT_TRUE(counting.excludes({{"edge", ""}}));
  EXPECT_TRUE(counting.excludes({{"pool", "spot"}}));
  EXPECT_FALSE(counting.excludes({{"pool", "fixed"}}));
  EXPECT_FALSE(counting.excludes({}));
}

}  // namespace
}  // namespace moonfence::cluster
