#include "app/fencer_check/fencer_report.h"

#include <gtest/gtest.h>

namespace moonfence::app {
namespace {

using policy::Power;

fence::PowerQuestion::Word word(Power power, const std::string& why,
                                const std::string& fencer = "redfish") {
  return {.fencer = fencer, .state = {.power = power, .why = why}};
}

FencerReport sample() {
  return {.nodes = {{.name = "n1", .is_ready = true, .words = {word(Power::On, "PowerState On")}},
                    {.name = "n2", .is_ready = true, .words = {}},
                    {.name = "n3",
                     .is_ready = true,
                     .words = {word(Power::On, "PowerState On"),
                               word(Power::Unknown, "HTTP 401\x1b[2J", "cloud")}}}};
}

TEST(FencerReport, EachFencerOfEachNodeHasALine) {
  EXPECT_EQ(fencer_text(sample()),
            "NODE   FENCER    STATE     WHY\n"
            "n1     redfish   on        PowerState On\n"
            "n2     -         -         no fencer: nothing can prove that it is off\n"
            "n3     redfish   on        PowerState On\n"
            "n3     cloud     unknown   HTTP 401\\x1b[2J\n"
            "Nodes: 1 whose fencers work, 1 with a broken one, 1 without any.\n"
            "What to do about it: docs/proof.md, Before the night.\n");
}

TEST(FencerReport, WhereAllIsWellNothingIsToBeDone) {
  FencerReport report = sample();
  report.nodes.resize(1);
  EXPECT_EQ(report.counts().works, 1U);
  EXPECT_EQ(fencer_text(report).find("docs/"), std::string::npos);
}

TEST(FencerReport, WithoutAnyFencerItSaysWhatToDoFirst) {
  FencerReport report = sample();
  report.any_bound = false;
  EXPECT_TRUE(fencer_text(report).starts_with("No fencer is configured: "));
  EXPECT_NE(fencer_text(report).find("docs/proof.md"), std::string::npos);
}

TEST(FencerReport, ADocumentSaysTheSame) {
  const auto document = fencer_document(sample());
  EXPECT_EQ(document["works"], 1);
  EXPECT_EQ(document["broken"], 1);
  EXPECT_EQ(document["none"], 1);
  EXPECT_EQ(document["nodes"][1]["state"], "none");
  EXPECT_EQ(document["nodes"][2]["state"], "broken");
  EXPECT_EQ(document["nodes"][2]["fencers"][0]["works"], true);
  EXPECT_EQ(document["nodes"][2]["fencers"][1]["works"], false);
  EXPECT_EQ(document["nodes"][2]["fencers"][1]["power"], "unknown");
}

}  // namespace
}  // namespace moonfence::app
