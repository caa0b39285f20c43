#include "cluster/nodes/census.h"

#include <gtest/gtest.h>

namespace moonfence::cluster {
namespace {

NodeView node(Readiness readiness, const std::string& zone = "", bool control_plane = false) {
  NodeView view;
  view.readiness = readiness;
  view.zone = zone;
  view.control_plane = control_plane;
  return view;
}

TEST(Census, workers_and_those_that_are_down_in_all_and_by_zone) {
  Census census;
  census.add(node(Readiness::True, "a"));
  census.add(node(Readiness::False, "a"));
  census.add(node(Readiness::Unknown, "b"));
  census.add(node(Readiness::Missing));
  EXPECT_EQ(census.all(), (Census::Count{.workers = 4, .down = 3}));
  EXPECT_EQ(census.workers().up, 1);
  EXPECT_EQ(census.workers().up_in, (std::map<std::string, std::int64_t>{{"a", 1}}));
  EXPECT_EQ(census.workers().falls.size(), 3U);
}

TEST(Census, the_control_plane_s_nodes_are_left_out) {
  Census census;
  census.add(node(Readiness::Unknown, "a", true));
  EXPECT_EQ(census, Census());
}

TEST(Census, a_dedicated_machine_is_none_of_the_workers) {
  Census census;
  NodeView view = node(Readiness::True);
  view.standing.group = Standing::Group::Dedicated;
  census.add(view);
  EXPECT_EQ(census.workers().up, 0);
  EXPECT_EQ(census.machines().up, 1);
  view.standing.group = Standing::Group::None;
  census.add(view);
  EXPECT_EQ(census.machines().up, 1);
}

TEST(Census, what_is_taken_out_leaves_nothing_behind) {
  Census census;
  census.add(node(Readiness::Unknown, "a"));
  census.remove(node(Readiness::Unknown, "a"));
  EXPECT_EQ(census, Census());
}

TEST(Census, a_node_counts_alike_while_its_zone_role_and_being_down_stay) {
  const NodeView before = node(Readiness::Unknown, "a");
  EXPECT_TRUE(Census::counts_alike(before, node(Readiness::False, "a")));
  EXPECT_FALSE(Census::counts_alike(before, node(Readiness::True, "a")));
  EXPECT_FALSE(Census::counts_alike(before, node(Readiness::Unknown, "b")));
  EXPECT_FALSE(Census::counts_alike(before, node(Readiness::Unknown, "a", true)));
}

TEST(NodeView, zone_and_role_are_read_from_the_node) {
  kube::Node read;
  read.zone = "a";
  EXPECT_EQ(view_of(read).zone, "a");
  EXPECT_FALSE(view_of(read).control_plane);
  for (const char* key :
       {"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}) {
    read.taints = {{.key = key, .value = {}, .effect = "NoSchedule"}};
    EXPECT_TRUE(view_of(read).control_plane) << key;
  }
}

}  // namespace
}  // namespace moonfence::cluster
