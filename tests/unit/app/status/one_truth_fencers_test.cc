// The leader's own test of fencers, in virtual time: what everybody says when one node's fencer
// works, one's is refused, and one node has none.

#include "unit/app/one_truth_fixture.h"

namespace moonfence::app::truth {
namespace {

constexpr const char* kThreeNodes =
    "bmc n1 honest\nbmc n2 locked\nconfig\n| api: 1\n| fencers:\n"
    "| - {fencer: redfish, nodes: \"kubernetes.io/hostname in (n1, n2)\", switchOff: true}\n";

TEST_F(OneTruth, a_fencer_that_does_not_work_is_told_of_everywhere) {
  run(deletes() + kThreeNodes, 8min);
  EXPECT_FALSE(ask().events.contains("FencerBroken")) << "once is no fault";
  run_until(20min);
  const Told told = ask();
  for (const json& fencers : {told.page_json["fencers"], told.situation["fencers"]}) {
    EXPECT_EQ(fencers.value("works", 0), 1) << fencers;
    EXPECT_EQ(fencers.value("broken", 0), 1);
    EXPECT_EQ(fencers.value("none", 0), 1);
    EXPECT_EQ(fencers["nodes"][0]["node"], "n2");
    EXPECT_THAT(fencers["nodes"][0]["why"], HasSubstr("HTTP 401"));
  }
  EXPECT_THAT(told.page, HasSubstr("1 node has a fencer that does not work"));
  EXPECT_THAT(told.status, HasSubstr("FENCERS     "));
  EXPECT_THAT(told.status, HasSubstr("HTTP 401"));
  EXPECT_THAT(told.events.at("FencerBroken"), HasSubstr("HTTP 401"));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_fencer_nodes{state=\"broken\"} 1\n"));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_fencer_nodes{state=\"works\"} 1\n"));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_fencer_nodes{state=\"none\"} 1\n"));
  EXPECT_FALSE(told.events.contains("FencingStarted"));
}

}  // namespace
}  // namespace moonfence::app::truth
