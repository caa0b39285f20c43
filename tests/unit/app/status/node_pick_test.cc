#include "app/status/node_pick.h"

#include <gtest/gtest.h>

#include "unit/app/status_fixture.h"

namespace moonfence::app {
namespace {

using cluster::Readiness;

std::string names_of(const NodePick::Picked& picked) {
  std::string names;
  for (const NodeStatus& node : picked.nodes) {
    names += node.view.name.text();
  }
  return names;
}

TEST(NodePick, nodes_in_trouble_stand_before_those_that_are_well) {
  NodePick pick(10);
  pick.offer(node_view("a", Readiness::True), false);
  pick.offer(node_view("b", Readiness::Unknown), false);
  pick.offer(node_view("c", Readiness::True), true);
  const auto picked = pick.take();
  EXPECT_EQ(names_of(picked), "bca");
  EXPECT_TRUE(picked.nodes[1].called_failed);
  EXPECT_EQ(picked.left_out, 0U);
}

TEST(NodePick, a_node_that_is_cordoned_or_fenced_is_not_simply_ready) {
  cluster::NodeView view = node_view("a", Readiness::True);
  EXPECT_TRUE(is_plain(view, false));
  EXPECT_FALSE(is_plain(view, true));
  view.unschedulable = true;
  EXPECT_FALSE(is_plain(view, false));
  view.unschedulable = false;
  view.fenced = true;
  EXPECT_FALSE(is_plain(view, false));
}

TEST(NodePick, where_there_is_no_room_the_well_ones_are_left_out_and_counted) {
  NodePick pick(3);
  for (const char* name : {"a", "b", "c", "d"}) {
    pick.offer(node_view(name, Readiness::True), false);
  }
  pick.offer(node_view("y", Readiness::False), false);
  pick.offer(node_view("z", Readiness::Missing), false);
  const auto picked = pick.take();
  EXPECT_EQ(names_of(picked), "yza");
  EXPECT_EQ(picked.left_out, 3U);
}

TEST(NodePick, more_in_trouble_than_there_is_room_for_are_counted_too) {
  NodePick pick(2);
  for (const char* name : {"a", "b", "c"}) {
    pick.offer(node_view(name, Readiness::False), false);
  }
  EXPECT_EQ(pick.take().left_out, 1U);
  EXPECT_TRUE(pick.take().nodes.empty());
}

}  // namespace
}  // namespace moonfence::app
