// Who tells others what is proven of a node hears of each look at it, and nothing that stands there
// for others is evidence for us.

#include "fence/publication/published_evidence.h"
#include "unit/fence/incidents_fixture.h"

namespace moonfence::fence {
namespace {

using nlohmann::json;

struct TestListener final : EvidenceListener {
  std::vector<ReadNode> looks;
  void looked_at(ReadNode read) override { looks.push_back(std::move(read)); }
};

struct ToldEvidenceTest : IncidentsTest {
  TestListener listener;
  ToldEvidenceTest() {
    evidence = &listener;
    add_pod("web-0");
  }
};

TEST_F(ToldEvidenceTest, each_look_at_the_node_is_told) {
  take_up_nodes();
  run_incident();
  ASSERT_FALSE(listener.looks.empty());
  const ReadNode& look = listener.looks.front();
  EXPECT_EQ(look.node.name, NodeName("n1"));
  EXPECT_NE(look.node.raw, nullptr);
  EXPECT_EQ(look.incident, IncidentId("i1"));
  EXPECT_TRUE(is_read_dead(look));
}

TEST_F(ToldEvidenceTest, a_node_whose_kubelet_lives_is_not_read_to_be_dead) {
  nodes["n1"].ready = "False";
  nodes["n1"].renewed = "2026-01-02T05:00:00.000000Z";
  take_up_nodes();
  tell(Look::Fell);
  run_for(30s);
  EXPECT_TRUE(std::none_of(listener.looks.begin(), listener.looks.end(), is_read_dead));
}

TEST_F(ToldEvidenceTest, what_stands_there_for_others_is_no_evidence_for_us) {
  const PublishedEvidence off = {.node = Uid("node-1"),
                                 .boot_id = "boot-1",
                                 .incident = IncidentId("i1"),
                                 .renewed = "2026-01-02T04:59:20.000000Z",
                                 .heartbeat = "",
                                 .proven = {{.source = "bmc", .text = "it says so"}}};
  nodes["n1"].annotations["moonfence.io/fencing-evidence"] = to_text(off);
  nodes["n1"].status["conditions"] = {
      {{"type", "FencingEvidence"}, {"status", "True"}, {"reason", "Off"}}};
  protections.proof.everywhere.insert(policy::Evidence::Off);
  protections.proof.everywhere.insert(policy::Evidence::Attested);
  protections.proof.everywhere.insert(policy::Evidence::Isolated);
  take_up_nodes();
  tell(Look::Fell);
  run_for(5min);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_GT(story.count(Record::Kind::Verdict, Reason::ProofMissing), 0U);
}

}  // namespace
}  // namespace moonfence::fence
