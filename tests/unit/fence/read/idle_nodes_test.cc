#include "fence/read/idle_nodes.h"

#include <gtest/gtest.h>

#include "unit/fence/fence_fixture.h"

namespace moonfence::fence {
namespace {

struct IdleNodesTest : FenceTest {
  std::vector<std::string> excused;
  IdleNodes idle{loop, reader, brake, log,
                 [this](const NodeName& name) { excused.push_back(name.text()); }};

  // So many nodes that are up, and n1 … that fell.
  void count(int up, int fallen) {
    cluster::Census census = census_of(up, 0);
    for (int i = 1; i <= fallen; ++i) {
      cluster::NodeView view;
      view.name = NodeName("n" + std::to_string(i));
      view.readiness = cluster::Readiness::Unknown;
      census.add(view);
    }
    brake.count(census, loop.now());
  }
  void own(const std::string& pod, const std::string& kind) {
    pods.at(pod)["metadata"]["ownerReferences"][0]["kind"] = kind;
  }
};

TEST_F(IdleNodesTest, while_few_are_down_nothing_is_read) {
  count(3, 1);
  idle.look();
  run_for(1min);
  EXPECT_EQ(reads(), Lines{});
}

TEST_F(IdleNodesTest, who_carries_nothing_that_could_move_is_excused_and_each_is_read_once) {
  count(2, 3);
  add_pod("agent-1", "n1");
  own("agent-1", "DaemonSet");
  add_pod("web-2", "n2");
  add_pod("job-3", "n3");
  own("job-3", "Job");
  pods.at("job-3")["status"]["phase"] = "Succeeded";
  for (int i = 0; i < 10; ++i) {
    idle.look();
    run_for(1s);
  }
  EXPECT_EQ(excused, (std::vector<std::string>{"n1", "n3"}));
  EXPECT_EQ(reads().size(), 3U);
}

TEST_F(IdleNodesTest, who_cannot_be_read_counts_on_and_is_asked_again_later) {
  count(2, 3);
  list_answer = broken();
  idle.look();
  run_for(50s);
  EXPECT_EQ(excused, std::vector<std::string>{});
  list_answer = {};
  run_for(1min);
  for (int i = 0; i < 5; ++i) {
    idle.look();
    run_for(1s);
  }
  EXPECT_EQ(excused.size(), 3U);
}

TEST_F(IdleNodesTest, what_cannot_be_understood_might_move) {
  EXPECT_TRUE(carries_nothing({}));
  EXPECT_FALSE(carries_nothing({"{\"kind\": \"Pod\"}"}));
}

}  // namespace
}  // namespace moonfence::fence
