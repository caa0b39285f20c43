#include "fence/proof/attestation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "fence/proof/demanded_proof.h"
#include "fence/proof/evidence_there.h"

namespace moonfence::fence {
namespace {

using nlohmann::json;
using policy::Evidence;
using policy::EvidenceSet;
using testing::HasSubstr;

EvidenceSet set_of(std::initializer_list<Evidence> list) {
  EvidenceSet set;
  for (const Evidence each : list) {
    set.insert(each);
  }
  return set;
}

// A node that is down, its Lease, and a word that was given of both as they stand.
struct AttestationTest : testing::Test {
  json object = {{"metadata", {{"annotations", json::object()}}},
                 {"status",
                  {{"conditions",
                    {{{"type", "Ready"},
                      {"status", "Unknown"},
                      {"lastHeartbeatTime", "2026-01-02T03:04:05Z"}}}}}}};
  kube::Node node;
  kube::Lease lease;
  KubeletLease kubelet_lease = KubeletLease::Dead;
  std::optional<WallTime> heard;
  Attestation word;

  AttestationTest() {
    node.name = NodeName("n1");
    node.uid = Uid("node-1");
    node.boot_id = "boot-1";
    lease.uid = Uid("lease-1");
    lease.record.renewed = parse_rfc3339("2026-01-02T03:04:10.123456Z");
    show();
    word = {.signs = signs_of(node, lease).value(),
            .at = *parse_rfc3339("2026-01-02T03:10:00Z"),
            .by = "alice",
            .reason = "no light on it"};
    annotate(to_text(word));
  }
  void show() { node.raw = std::make_shared<const json>(object); }
  void annotate(const std::string& text) {
    object["metadata"]["annotations"]["moonfence.io/attested"] = text;
    show();
  }
  [[nodiscard]] AttestationCheck off() const {
    const Result<kube::Lease> read = lease;
    return check_attestation(node, {.lease = read,
                                    .kubelet_lease = kubelet_lease,
                                    .now = word.at + std::chrono::minutes(5),
                                    .heard = heard});
  }
  [[nodiscard]] std::string fault() const {
    const AttestationCheck found = off();
    return found.counted ? "counts" : found.why_not;
  }
  // With a key of the word changed, or taken away.
  [[nodiscard]] std::string fault_with(const std::string& key, const json& value) {
    json text = json::parse(to_text(word));
    if (value.is_null()) {
      text.erase(key);
    } else {
      text[key] = value;
    }
    annotate(text.dump());
    return fault();
  }
};

TEST_F(AttestationTest, a_word_counts_while_all_that_it_names_stands_as_it_was) {
  const AttestationCheck found = off();
  ASSERT_TRUE(found.counted);
  EXPECT_EQ(found.counted->by, "alice");
  EXPECT_EQ(found.counted->reason, "no light on it");
  EXPECT_EQ(found.counted->signs, word.signs);
  EXPECT_EQ(found.why_not, "");
}

TEST_F(AttestationTest, without_an_annotation_there_is_no_word) {
  object["metadata"]["annotations"].clear();
  show();
  EXPECT_FALSE(off().counted);
  EXPECT_EQ(off().why_not, "");
}

TEST_F(AttestationTest, a_kubelet_that_was_heard_since_makes_it_void) {
  lease.record.renewed = parse_rfc3339("2026-01-02T03:04:20.123456Z");
  EXPECT_THAT(fault(), HasSubstr("has renewed its Lease"));
}

// A clock that was put back renews to an older stamp.
TEST_F(AttestationTest, an_older_stamp_is_another_sign_too) {
  lease.record.renewed = parse_rfc3339("2026-01-02T02:00:00.000000Z");
  EXPECT_THAT(fault(), HasSubstr("has renewed its Lease"));
}

TEST_F(AttestationTest, another_lease_object_makes_it_void) {
  lease.uid = Uid("lease-2");
  EXPECT_THAT(fault(), HasSubstr("has renewed its Lease"));
}

// A kubelet that may not write its Lease still posts its status.
TEST_F(AttestationTest, another_heartbeat_makes_it_void) {
  object["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-02T03:20:00Z";
  show();
  EXPECT_THAT(fault(), HasSubstr("has reported its status"));
}

TEST_F(AttestationTest, another_boot_makes_it_void) {
  node.boot_id = "boot-2";
  EXPECT_THAT(fault(), HasSubstr("has booted"));
}

TEST_F(AttestationTest, a_node_made_anew_under_its_name_makes_it_void) {
  node.uid = Uid("node-2");
  EXPECT_THAT(fault(), HasSubstr("made anew"));
}

TEST_F(AttestationTest, one_from_the_future_does_not_count) {
  const Result<kube::Lease> read = lease;
  const auto at = [&](WallTime now) {
    return check_attestation(node, {.lease = read, .kubelet_lease = kubelet_lease, .now = now});
  };
  EXPECT_TRUE(at(word.at - std::chrono::seconds(2)).counted);
  EXPECT_THAT(at(word.at - std::chrono::seconds(3)).why_not, HasSubstr("still to come"));
}

// It booted without a kubelet, answered for a while, and fell silent again.
TEST_F(AttestationTest, a_machine_that_was_heard_since_makes_it_void_also_when_it_is_silent_again) {
  heard = word.at - std::chrono::hours(1);
  EXPECT_EQ(fault(), "counts");
  heard = word.at + std::chrono::seconds(2);
  EXPECT_EQ(fault(), "counts");
  heard = word.at + std::chrono::seconds(3);
  EXPECT_THAT(fault(), HasSubstr("the machine was heard since"));
}

TEST_F(AttestationTest, a_lease_that_is_not_known_to_be_dead_makes_it_void) {
  for (const KubeletLease found : {KubeletLease::Alive, KubeletLease::Unread}) {
    kubelet_lease = found;
    EXPECT_THAT(fault(), HasSubstr("not yet: the kubelet's Lease is not dead"));
  }
}

TEST_F(AttestationTest, a_lease_that_cannot_be_read_makes_it_void) {
  for (const Error::Kind kind : {Error::Kind::NotFound, Error::Kind::Forbidden}) {
    const Result<kube::Lease> unread = failure(kind, "HTTP 403");
    const AttestationCheck check =
        check_attestation(node, {.lease = unread, .kubelet_lease = kubelet_lease, .now = word.at});
    EXPECT_THAT(check.why_not, HasSubstr("HTTP 403"));
    EXPECT_FALSE(check.counted);
  }
}

TEST_F(AttestationTest, what_lacks_a_sign_can_be_attested_by_nobody) {
  node.boot_id.clear();
  EXPECT_THAT(fault(), HasSubstr("names no boot"));
  node.boot_id = "boot-1";
  object["status"]["conditions"][0].erase("lastHeartbeatTime");
  show();
  EXPECT_THAT(fault(), HasSubstr("no lastHeartbeatTime"));
  object["status"]["conditions"] = "odd";
  show();
  EXPECT_THAT(fault(), HasSubstr("no lastHeartbeatTime"));
  object["status"]["conditions"] = {
      7, {{"type", 5}}, {{"type", "Ready"}, {"lastHeartbeatTime", 5}}};
  show();
  EXPECT_THAT(fault(), HasSubstr("no lastHeartbeatTime"));
  lease.record.renewed.reset();
  EXPECT_THAT(signs_of(node, lease).error().text, HasSubstr("never renewed"));
}

TEST_F(AttestationTest, a_word_in_another_form_is_none) {
  for (const char* key : {"state", "node", "bootID", "lease", "renewTime", "lastHeartbeatTime",
                          "at", "by", "reason"}) {
    EXPECT_THAT(fault_with(key, nullptr), HasSubstr("no JSON object")) << key;
    EXPECT_THAT(fault_with(key, 7), HasSubstr(std::string(key) + " is missing")) << key;
    EXPECT_THAT(fault_with(key, ""), HasSubstr(std::string(key) + " is missing")) << key;
  }
  EXPECT_THAT(fault_with("more", "x"), HasSubstr("no JSON object"));
  EXPECT_THAT(fault_with("state", "on"), HasSubstr("state is 'on'"));
  EXPECT_THAT(fault_with("at", "yesterday"), HasSubstr("at is no time"));
  for (const char* text : {"", "off", "[]", "{", "{\"state\":\"off\"}"}) {
    annotate(text);
    EXPECT_THAT(fault(), HasSubstr("annotation moonfence.io/attested: ")) << text;
  }
  annotate(std::string(5000, 'x'));
  EXPECT_THAT(fault(), HasSubstr("longer than 4096"));
  object["metadata"]["annotations"]["moonfence.io/attested"] = 7;
  show();
  EXPECT_THAT(fault(), HasSubstr("no JSON object"));
}

TEST_F(AttestationTest, what_a_person_writes_can_forge_nothing) {
  word.by = "eve\n\x1b[31m";
  annotate(to_text(word));
  ASSERT_TRUE(off().counted);
  EXPECT_EQ(off().counted->by, "eve\\n\\x1b[31m");
}

// The admission policy looks for the name in the text; whoever parses it would find another one.
TEST_F(AttestationTest, a_key_that_stands_twice_is_refused) {
  std::string text = to_text(word);
  text.insert(1, R"("by":"mallory",)");
  annotate(text);
  EXPECT_THAT(fault(), HasSubstr("not in the form"));
  annotate(to_text(word) + " ");
  EXPECT_THAT(fault(), HasSubstr("not in the form"));
}

TEST_F(AttestationTest, a_machine_that_is_heard_is_not_off_whoever_says_so) {
  const AttestationCheck found = off();
  const auto there = [&found](bool heard) {
    return evidence_there({.unreachable = true, .may_live = heard, .attestation = found});
  };
  EXPECT_EQ(there(false), set_of({Evidence::Unreachable, Evidence::Attested}));
  EXPECT_EQ(there(true), set_of({Evidence::Unreachable}));
}

TEST_F(AttestationTest, of_a_node_whose_object_is_gone_nothing_is_known) {
  const AttestationCheck found = off();
  EXPECT_TRUE(
      evidence_there({.exists = false, .unreachable = true, .silent = true, .attestation = found})
          .empty());
}

TEST_F(AttestationTest, what_is_missing_says_what_a_person_can_do) {
  const AttestationCheck nobody;
  const EvidenceSet demanded = set_of({Evidence::Silent, Evidence::Attested});
  const auto text = [&](const Sightings& sightings) {
    return missing_text(NodeName("n1"), "its policy", demanded, sightings);
  };
  EXPECT_EQ(text({.unreachable = true, .attestation = nobody}),
            "its policy demands proof: silent or attested; present: unreachable; if the machine "
            "has no power, run: moonfence attest n1 --off --reason TEXT");
  EXPECT_THAT(text({.exists = false, .attestation = nobody}), HasSubstr("the Node object is gone"));
  const AttestationCheck found = off();
  EXPECT_THAT(text({.may_live = true, .attestation = found}), HasSubstr("its machine may live"));
  lease.uid = Uid("lease-2");
  const AttestationCheck spoken = off();
  EXPECT_THAT(text({.attestation = spoken}),
              HasSubstr("an attestation does not count: the kubelet has renewed its Lease since"));
  EXPECT_THAT(missing_text(NodeName("n1"), "its policy", set_of({Evidence::Silent}),
                           {.attestation = nobody}),
              HasSubstr("can be deleted by hand"));
}

TEST_F(AttestationTest, what_is_told_beside_a_deletion_names_the_person) {
  const AttestationCheck found = off();
  EXPECT_EQ(evidence_text({.unreachable = true, .attestation = found}),
            "unreachable, attested: off by alice, 2026-01-02T03:10:00Z, no light on it");
  EXPECT_EQ(evidence_text({.silent = true, .attestation = AttestationCheck{}}), "silent");
}

TEST(DemandedProof, everywhere_namespace_and_driver_each_demand_their_own) {
  const EvidenceSet one = set_of({Evidence::Silent});
  const EvidenceSet two = set_of({Evidence::Unreachable});
  const EvidenceSet three = set_of({Evidence::Attested});
  const DemandedProof proof = {.everywhere = one,
                               .namespaces = {{Namespace("db"), two}},
                               .drivers = {{"csi.example.com", three}}};
  const std::set<std::string> other = {"other"};
  const std::set<std::string> its = {"csi.example.com", "other"};
  EXPECT_EQ(proof.of(Namespace("web"), other), policy::ProofDemands{one});
  EXPECT_EQ(proof.of(Namespace("db"), other), (policy::ProofDemands{one, two}));
  EXPECT_EQ(proof.of(Namespace("db"), its), (policy::ProofDemands{one, two, three}));
  // Whose volumes nobody knows may use any of them.
  EXPECT_EQ(proof.of(Namespace("web"), std::nullopt), (policy::ProofDemands{one, three}));
}

TEST(DemandedProof, every_demand_needs_one_of_its_own) {
  const EvidenceSet silent = set_of({Evidence::Silent});
  const EvidenceSet either = set_of({Evidence::Silent, Evidence::Attested});
  const EvidenceSet word = set_of({Evidence::Attested});
  EXPECT_EQ(unmet({}, {}), std::nullopt);
  EXPECT_EQ(unmet({EvidenceSet()}, {}), std::nullopt);
  EXPECT_EQ(unmet({either}, {}), either);
  EXPECT_EQ(unmet({either}, word), std::nullopt);
  EXPECT_EQ(unmet({either, silent}, word), silent);
  EXPECT_EQ(unmet({either, silent}, either), std::nullopt);
}

TEST(ProofDemands, are_written_and_read_back) {
  const policy::ProofDemands demands = {set_of({Evidence::Unreachable, Evidence::Attested}),
                                        set_of({Evidence::Silent})};
  EXPECT_EQ(policy::to_text(demands), "unreachable,attested;silent");
  EXPECT_EQ(policy::parse_demands("unreachable,attested;silent"), demands);
  EXPECT_EQ(policy::to_text({EvidenceSet()}), "");
  EXPECT_EQ(policy::parse_demands(""), policy::ProofDemands{});
  for (const char* text :
       {"dead", ";", "silent;", "silent,", ",silent", "silent;;silent", "Silent"}) {
    EXPECT_EQ(policy::parse_demands(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace moonfence::fence
