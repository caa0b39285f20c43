#include "fence/publication/published_evidence.h"

#include "unit/fence/publication/evidence_fixture.h"

namespace moonfence::fence::telling {
namespace {

using policy::Evidence;

const WallTime kNow = WallTime(1767330000s);  // 2026-01-02T05:00:00Z
const Moment kClock = Moment(1h);

struct PublishedEvidenceTest : testing::Test {
  json object = make_node();
  AttestationCheck attestation;
  std::optional<PowerReading> read;
  bool may_live = false;
  bool heeds = true;

  static Attestation word_of(const std::string& by) {
    return {.at = kNow - 1min, .by = by, .reason = "no light on it"};
  }
  NodeFinding finding(const kube::Node& node) const {
    return {.node = node,
            .incident = IncidentId("i1"),
            .renewed = kNow - 40s,
            .heeds_attestation = heeds,
            .sightings = {.unreachable = true,
                          .silent = true,
                          .may_live = may_live,
                          .attestation = attestation,
                          .power = read}};
  }
  PublishedEvidence wanted() const {
    const kube::Node node = decoded(object);
    return to_publish(finding(node), kNow, kClock);
  }
  std::vector<Evidence> kinds() const {
    std::vector<Evidence> found;
    for (const Proven& each : wanted().proven) {
      found.push_back(each.kind);
    }
    return found;
  }
  std::optional<EvidenceChange> change(bool answers = false) const {
    return change_of(decoded(object), wanted(), answers, kNow);
  }
  // Whether what stands there is void, by itself.
  std::optional<EvidenceChange> void_change(bool answers = false) const {
    return change_of(decoded(object), std::nullopt, answers, kNow);
  }
  void stands(const PublishedEvidence& evidence) {
    object["metadata"]["annotations"][kAnnotation] = to_text(evidence);
    object["status"]["conditions"].push_back({{"type", "FencingEvidence"}, {"status", "True"}});
  }
  json& ready() { return object["status"]["conditions"][0]; }
};

TEST_F(PublishedEvidenceTest, what_proves_is_told_and_what_does_not_is_not) {
  EXPECT_EQ(kinds(), std::vector<Evidence>{});
  EXPECT_EQ(change(), std::nullopt);
  read = power(Power::On, kClock);
  EXPECT_EQ(kinds(), std::vector<Evidence>{});
  read = power(Power::Off, kClock);
  EXPECT_EQ(kinds(), std::vector<Evidence>{Evidence::Off});
  read = power(Power::Isolated, kClock, {"rbd.csi.ceph.com"});
  attestation.counted = word_of("alice");
  EXPECT_EQ(kinds(), (std::vector<Evidence>{Evidence::Attested, Evidence::Isolated}));
}

TEST_F(PublishedEvidenceTest, of_a_machine_that_may_live_nothing_is_proven) {
  read = power(Power::Off, kClock);
  attestation.counted = word_of("alice");
  may_live = true;
  EXPECT_EQ(kinds(), std::vector<Evidence>{});
}

TEST_F(PublishedEvidenceTest, where_nobody_could_tell_what_it_is_about_nothing_is_told) {
  read = power(Power::Off, kClock);
  object["status"]["nodeInfo"].erase("bootID");
  EXPECT_EQ(kinds(), std::vector<Evidence>{});
}

TEST_F(PublishedEvidenceTest, it_names_node_boot_source_and_the_time_of_the_reading) {
  read = power(Power::Isolated, kClock - 3s, {"b.example.com", "a.example.com"});
  const json told = json::parse(to_text(wanted()));
  EXPECT_EQ(told, json({{"node", "uid-1"},
                        {"bootID", "boot-1"},
                        {"incident", "i1"},
                        {"renewTime", "2026-01-02T04:59:20.000000Z"},
                        {"lastHeartbeatTime", "2026-01-02T04:59:00Z"},
                        {"evidence",
                         {{{"kind", "isolated"},
                           {"source", "bmc"},
                           {"at", "2026-01-02T04:59:57Z"},
                           {"text", "it says so"},
                           {"drivers", {"a.example.com", "b.example.com"}}}}}}));
  EXPECT_EQ(parse_evidence(to_text(wanted())), wanted());
}

TEST_F(PublishedEvidenceTest, annotation_and_condition_come_by_one_patch_of_this_very_node) {
  read = power(Power::Off, kClock);
  const json patch = json::parse(change()->patch);
  EXPECT_EQ(patch["metadata"]["uid"], "uid-1");
  EXPECT_EQ(patch["metadata"]["resourceVersion"], "7");
  EXPECT_EQ(patch["metadata"]["annotations"], json({{kAnnotation, to_text(wanted())}}));
  ASSERT_EQ(patch["status"]["conditions"].size(), 1U);
  const json condition = patch["status"]["conditions"][0];
  EXPECT_EQ(condition["type"], "FencingEvidence");
  EXPECT_EQ(condition["status"], "True");
  EXPECT_EQ(condition["reason"], "Off");
  EXPECT_EQ(condition["lastHeartbeatTime"], "2026-01-02T05:00:00Z");
  EXPECT_EQ(condition["lastTransitionTime"], "2026-01-02T05:00:00Z");
  EXPECT_EQ(condition["message"],
            "off: fencer bmc read at 2026-01-02T05:00:00Z: it says so; what ran in boot boot-1 "
            "does not run any more");
  EXPECT_EQ(patch.size(), 2U);
  EXPECT_EQ(patch["status"].size(), 1U);
}

TEST_F(PublishedEvidenceTest, the_same_read_again_changes_nothing) {
  read = power(Power::Off, kClock - 5s);
  stands(wanted());
  read = power(Power::Off, kClock);
  EXPECT_EQ(change(), std::nullopt);
}

TEST_F(PublishedEvidenceTest, what_comes_beside_it_is_news_and_the_rest_stays_as_it_was) {
  read = power(Power::Off, kClock - 5s);
  stands(wanted());
  const Proven off = wanted().proven.front();
  read = power(Power::Off, kClock);
  attestation.counted = word_of("alice");
  ASSERT_EQ(change()->news.size(), 1U);
  EXPECT_EQ(change()->news[0].kind, Evidence::Attested);
  EXPECT_EQ(wanted().proven.front(), off);
  EXPECT_FALSE(
      json::parse(change()->patch)["status"]["conditions"][0].contains("lastTransitionTime"));
}

TEST_F(PublishedEvidenceTest, off_is_about_what_ran_and_stays_when_it_is_not_read_any_more) {
  read = power(Power::Off, kClock);
  stands(wanted());
  read.reset();
  EXPECT_EQ(change(), std::nullopt);
  read = power(Power::Unknown, kClock);
  EXPECT_EQ(change(), std::nullopt);
}

// It had asked another machine's controller, and somebody has mended that.
TEST_F(PublishedEvidenceTest, off_goes_when_its_machine_is_read_to_be_on) {
  read = power(Power::Off, kClock);
  stands(wanted());
  read = power(Power::On, kClock);
  ASSERT_TRUE(change());
  EXPECT_TRUE(change()->withdraws);
}

TEST_F(PublishedEvidenceTest, an_isolation_goes_when_somebody_has_lifted_it) {
  read = power(Power::Isolated, kClock, {"a.example.com"});
  stands(wanted());
  read = power(Power::Unknown, kClock);
  EXPECT_EQ(change(), std::nullopt);
  read = power(Power::Served, kClock);
  ASSERT_TRUE(change());
  EXPECT_TRUE(change()->withdraws);
  EXPECT_EQ(json::parse(change()->patch)["status"]["conditions"][0]["reason"], "Withdrawn");
}

TEST_F(PublishedEvidenceTest, an_attestation_goes_when_it_does_not_count_any_more) {
  attestation.counted = word_of("alice");
  stands(wanted());
  EXPECT_EQ(change(), std::nullopt);
  attestation = {};
  heeds = false;  // an incident that reads no Lease
  EXPECT_EQ(change(), std::nullopt);
  heeds = true;
  ASSERT_TRUE(change());
  EXPECT_TRUE(change()->withdraws);
}

TEST_F(PublishedEvidenceTest, evidence_of_another_outage_is_taken_off_and_not_believed) {
  read = power(Power::Off, kClock - 1h);
  stands(wanted());
  read.reset();
  ready()["lastHeartbeatTime"] = "2026-01-02T04:59:30Z";  // and silent once more
  ASSERT_TRUE(void_change());
  EXPECT_TRUE(void_change()->withdraws);
  EXPECT_EQ(kinds(), std::vector<Evidence>{});
  const json condition = json::parse(void_change()->patch)["status"]["conditions"][0];
  EXPECT_EQ(condition["status"], "False");
  EXPECT_EQ(condition["reason"], "Heard");
  EXPECT_EQ(json::parse(void_change()->patch)["metadata"]["annotations"][kAnnotation], json());
}

TEST_F(PublishedEvidenceTest, evidence_of_another_boot_or_node_is_taken_off_and_not_believed) {
  read = power(Power::Off, kClock);
  stands(wanted());
  read.reset();
  EXPECT_EQ(void_change(), std::nullopt);
  object["status"]["nodeInfo"]["bootID"] = "boot-2";
  EXPECT_TRUE(void_change() && void_change()->withdraws);
  EXPECT_EQ(kinds(), std::vector<Evidence>{});
  object["status"]["nodeInfo"]["bootID"] = "boot-1";
  object["metadata"]["uid"] = "uid-2";
  EXPECT_TRUE(void_change() && void_change()->withdraws);
  EXPECT_EQ(kinds(), std::vector<Evidence>{});
}

TEST_F(PublishedEvidenceTest, what_was_found_of_a_kubelet_that_has_spoken_since_is_not_told) {
  read = power(Power::Off, kClock);
  const auto found = wanted();
  for (const auto& change : std::vector<std::function<void()>>{
           [this] { ready()["lastHeartbeatTime"] = "2026-01-02T05:00:01Z"; },
           [this] { object["status"]["nodeInfo"]["bootID"] = "boot-2"; },
           [this] { object["metadata"]["uid"] = "uid-2"; }}) {
    object = make_node();
    change();
    EXPECT_EQ(change_of(decoded(object), found, false, kNow), std::nullopt);
  }
  object = make_node();
  EXPECT_EQ(change_of(decoded(object), found, /*answers=*/true, kNow), std::nullopt);
  EXPECT_TRUE(change_of(decoded(object), found, false, kNow));
}

TEST_F(PublishedEvidenceTest, what_stands_there_is_void_when_the_machine_is_heard) {
  read = power(Power::Off, kClock);
  stands(wanted());
  EXPECT_TRUE(void_change(/*answers=*/true) && void_change(true)->withdraws);
}

TEST_F(PublishedEvidenceTest, what_nobody_can_read_is_taken_off) {
  for (
      const char* text :
      {"", "{", "[]", "null", R"({"node":"uid-1"})",
       R"({"node":"uid-1","bootID":"boot-1","lastHeartbeatTime":"2026-01-02T04:59:00Z","evidence":[]})",
       R"({"node":"uid-1","bootID":"boot-1","lastHeartbeatTime":"2026-01-02T04:59:00Z","evidence":[{"kind":"silent","source":"x","at":"2026-01-02T04:59:00Z"}]})",
       R"({"node":"uid-1","bootID":"boot-1","lastHeartbeatTime":"2026-01-02T04:59:00Z","evidence":[{"kind":"off","source":"x","at":"yesterday"}]})",
       R"({"node":"uid-1","bootID":"boot-1","lastHeartbeatTime":"2026-01-02T04:59:00Z","evidence":[{"kind":"off","source":"x","at":"2026-01-02T04:59:00Z","drivers":[1]}]})",
       R"({"node":"uid-1","bootID":"boot-1","lastHeartbeatTime":7,"evidence":"off"})"}) {
    object = make_node();
    object["metadata"]["annotations"][kAnnotation] = text;
    ASSERT_TRUE(void_change()) << text;
    EXPECT_TRUE(void_change()->withdraws) << text;
    EXPECT_FALSE(json::parse(void_change()->patch).contains("status")) << text;
  }
  EXPECT_EQ(parse_evidence(std::string(20000, 'x')), std::nullopt);
  object = make_node();
  object["status"]["conditions"].push_back({{"type", "FencingEvidence"}, {"status", "True"}});
  EXPECT_TRUE(void_change() && void_change()->withdraws);
}

TEST_F(PublishedEvidenceTest, a_condition_that_somebody_has_changed_is_set_again) {
  read = power(Power::Off, kClock);
  stands(wanted());
  object["status"]["conditions"][1]["status"] = "False";
  ASSERT_TRUE(change());
  EXPECT_FALSE(change()->withdraws);
  EXPECT_TRUE(change()->news.empty());
}

}  // namespace
}  // namespace moonfence::fence::telling
