#include "kube/leases/lease.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence::kube {
namespace {

using nlohmann::json;

const ObjectRef kRef{.space = Namespace("moonfence"), .name = "moonfence"};

// As client-go 1.31 writes it, with a field that we know nothing of.
json object() {
  return json::parse(R"({
    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
    "metadata": {"name": "moonfence", "namespace": "moonfence", "uid": "u1", "resourceVersion": "7",
                 "labels": {"team": "storage"}, "managedFields": [{"manager": "moonfence"}]},
    "spec": {"holderIdentity": "moonfence-1_abc", "leaseDurationSeconds": 15,
             "acquireTime": "2026-01-02T03:04:05.000006Z", "renewTime": "2026-01-02T03:04:15.5Z",
             "leaseTransitions": 3, "strategy": "OldestEmulationVersion"}})");
}

TEST(Lease, IsReadAsClientGoWritesIt) {
  const auto lease = decode_lease(object());
  ASSERT_TRUE(lease.has_value()) << lease.error().message();
  EXPECT_EQ(lease->record.holder, "moonfence-1_abc");
  EXPECT_EQ(lease->record.duration, std::chrono::seconds(15));
  EXPECT_EQ(lease->record.transitions, 3);
  EXPECT_EQ(lease->version, ResourceVersion("7"));
  EXPECT_EQ(lease->record.acquired, parse_rfc3339("2026-01-02T03:04:05.000006Z"));
}

TEST(Lease, AWriteKeepsWhatWeDoNotKnow) {
  const auto lease = decode_lease(object());
  ASSERT_TRUE(lease.has_value());
  LeaseRecord record = lease->record;
  record.holder = "moonfence-0_def";
  const json body = json::parse(lease_body(kRef, record, lease->notes, &*lease));
  EXPECT_EQ(body["spec"]["strategy"], "OldestEmulationVersion");
  EXPECT_EQ(body["metadata"]["labels"]["team"], "storage");
  EXPECT_EQ(body["metadata"]["resourceVersion"], "7");
  EXPECT_EQ(body["spec"]["holderIdentity"], "moonfence-0_def");
  EXPECT_EQ(body["spec"]["acquireTime"], "2026-01-02T03:04:05.000006Z");
}

TEST(Lease, AWriteReadsBackAsItWas) {
  const LeaseRecord record{.holder = "a_1",
                           .duration = std::chrono::seconds(15),
                           .acquired = parse_rfc3339("2026-01-02T03:04:05.000006Z"),
                           .renewed = parse_rfc3339("2026-01-02T03:04:05.000007Z"),
                           .transitions = 1,
                           .preferred_holder = {}};
  json body = json::parse(lease_body(kRef, record, {}, nullptr));
  EXPECT_FALSE(body["metadata"].contains("resourceVersion"));
  body["metadata"]["uid"] = "u1";
  body["metadata"]["resourceVersion"] = "1";
  const auto lease = decode_lease(body);
  ASSERT_TRUE(lease.has_value());
  EXPECT_EQ(lease->record, record);
}

TEST(Lease, OneWithoutASpecIsFree) {
  const auto lease =
      decode_lease({{"metadata", {{"name", "moonfence"}, {"uid", "u"}, {"resourceVersion", "1"}}}});
  ASSERT_TRUE(lease.has_value());
  EXPECT_EQ(lease->record, LeaseRecord{});
}

TEST(Lease, NonsenseIsRefused) {
  json negative = object();
  negative["spec"]["leaseDurationSeconds"] = -1;
  json endless = object();
  endless["spec"]["leaseDurationSeconds"] = 9'000'000'000;
  json wrong = object();
  wrong["spec"]["holderIdentity"] = 3;
  json unversioned = object();
  unversioned["metadata"].erase("resourceVersion");
  for (const json& bad : {negative, endless, wrong, unversioned, json("text")}) {
    EXPECT_FALSE(decode_lease(bad).has_value()) << bad.dump();
  }
}

TEST(Lease, APathNeedsANamespace) {
  EXPECT_EQ(*lease_path(kRef),
            "/apis/coordination.k8s.io/v1/namespaces/moonfence/leases/moonfence");
  EXPECT_FALSE(lease_path({.space = Namespace(""), .name = "moonfence"}).has_value());
  EXPECT_FALSE(lease_path({.space = Namespace("a"), .name = ".."}).has_value());
}

}  // namespace
}  // namespace moonfence::kube
