#include "fence/sources/source_health.h"

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using policy::NodeHealth;
using policy::NodeStates;
using Change = SourceHealth::Change;
using News = std::vector<SourceHealth::News>;

const NodeName n1("n1");
const NodeName n2("n2");

News one(NodeHealth health, Change change) {
  return {{.node = n1, .health = health, .change = change}};
}

TEST(SourceHealth, tells_what_changes_and_nothing_twice) {
  SourceHealth source_health(1h);
  const Moment t{};
  EXPECT_EQ(source_health.read({{n1, NodeHealth::Healthy}}, t),
            one(NodeHealth::Healthy, Change::First));
  EXPECT_EQ(source_health.read({{n1, NodeHealth::Healthy}}, t + 5s), News{});
  EXPECT_EQ(source_health.read({{n1, NodeHealth::Failed}}, t + 10s),
            one(NodeHealth::Failed, Change::Changed));
  EXPECT_EQ(source_health.read({{n1, NodeHealth::Failed}}, t + 15s), News{});
  EXPECT_EQ(source_health.read({{n1, NodeHealth::Unknown}}, t + 20s),
            one(NodeHealth::Unknown, Change::Changed));
  EXPECT_EQ(source_health.read({{n1, NodeHealth::Failed}}, t + 25s),
            one(NodeHealth::Failed, Change::Changed));
  EXPECT_EQ(source_health.failed(), std::vector{n1});
}

TEST(SourceHealth, a_node_that_comes_later_has_changed) {
  SourceHealth source_health(1h);
  EXPECT_EQ(source_health.read({}, Moment{}), News{});
  EXPECT_EQ(source_health.read({{n1, NodeHealth::Failed}}, Moment{} + 5s),
            one(NodeHealth::Failed, Change::Changed));
}

TEST(SourceHealth, a_failed_node_is_news_again_when_its_entry_expires) {
  SourceHealth source_health(1h);
  const Moment t{};
  EXPECT_EQ(source_health.read({{n1, NodeHealth::Failed}}, t),
            one(NodeHealth::Failed, Change::First));
  EXPECT_EQ(source_health.read({{n1, NodeHealth::Failed}}, t + 59min), News{});
  EXPECT_EQ(source_health.read({{n1, NodeHealth::Failed}}, t + 60min),
            one(NodeHealth::Failed, Change::Expired));
  EXPECT_EQ(source_health.read({{n1, NodeHealth::Failed}}, t + 119min), News{});
}

TEST(SourceHealth, a_node_that_is_not_named_keeps_its_entry_until_it_expires) {
  SourceHealth source_health(1h);
  const Moment t{};
  (void)source_health.read({{n1, NodeHealth::Failed}, {n2, NodeHealth::Healthy}}, t);
  EXPECT_EQ(source_health.read({{n2, NodeHealth::Healthy}}, t + 59min), News{});
  EXPECT_EQ(source_health.health(n1), NodeHealth::Failed);
  EXPECT_EQ(source_health.read({{n2, NodeHealth::Unknown}}, t + 60min),
            (News{{.node = n1, .health = NodeHealth::Failed, .change = Change::Forgotten},
                  {.node = n2, .health = NodeHealth::Unknown, .change = Change::Changed}}));
  EXPECT_EQ(source_health.health(n1), std::nullopt);
}

}  // namespace
}  // namespace moonfence::fence
