// What the guard makes of a node that the storage refuses.

#include "unit/fence/guard_fixture.h"

namespace moonfence::fence {
namespace {

using policy::Evidence;
using policy::EvidenceSet;
using policy::Power;

EvidenceSet only(Evidence evidence) {
  EvidenceSet set;
  set.insert(evidence);
  return set;
}

struct IsolationGuardTest : AttachmentGuardTest {
  FakePowers powers;
  policy::ProofDemands demanded = {only(Evidence::Isolated)};
  std::set<std::string> storage = {"csi.example.com"};

  IsolationGuardTest() {
    target.handle = "disk-1";
    authority.powers = &powers;
    powers.reading = PowerReading{
        .state = {.power = Power::Isolated, .why = "x", .drivers = {"csi.example.com"}},
        .fencer = "storage",
        .asked = now - 1s};
  }
  [[nodiscard]] Ground ground() const {
    return {.policy = "test",
            .digest = "d1",
            .set = "s1",
            .judged = judged,
            .proof = &demanded,
            .storage = storage};
  }
  [[nodiscard]] std::optional<Reason> of_pod() const {
    return refuse_pod_deletion(authority, ground(), pod, now);
  }
  [[nodiscard]] std::optional<Reason> of_attachment() const {
    return refuse_attachment_deletion(authority, ground(), pod, target, now);
  }
};

TEST_F(IsolationGuardTest, a_pod_is_isolated_when_all_its_storage_is) {
  EXPECT_EQ(of_pod(), std::nullopt);
  storage = {"csi.example.com", "other.example.com"};
  EXPECT_EQ(of_pod(), Reason::ProofMissing);
  EXPECT_NE(missing_proof(authority, ground(), pod).find("not enough for this pod"),
            std::string::npos);
  powers.reading->state.drivers.insert("other.example.com");
  EXPECT_EQ(of_pod(), std::nullopt);
  storage = {};
  EXPECT_EQ(of_pod(), Reason::ProofMissing) << "it has none, or nobody knows";
}

TEST_F(IsolationGuardTest, it_is_not_off_and_off_is_not_isolated) {
  demanded = {only(Evidence::Off)};
  EXPECT_EQ(of_pod(), Reason::ProofMissing);
  demanded = {only(Evidence::Isolated)};
  for (const Power power : {Power::On, Power::Off, Power::Unknown, Power::Failed}) {
    powers.reading->state.power = power;
    EXPECT_EQ(of_pod(), Reason::ProofMissing);
  }
  demanded.front().insert(Evidence::Off);
  powers.reading->state.power = Power::Off;
  EXPECT_EQ(of_pod(), std::nullopt);
}

TEST_F(IsolationGuardTest, it_counts_by_the_rules_of_off) {
  authority.reading.kubelet_lease = KubeletLease::Alive;
  EXPECT_NE(of_pod(), std::nullopt);
  authority.reading.kubelet_lease = KubeletLease::Dead;
  kernels.since[authority.node] = now;  // heard after the storage was asked
  EXPECT_EQ(of_pod(), Reason::ProofMissing);
  kernels.since.clear();
  EXPECT_EQ(of_pod(), std::nullopt);
  activate({binding(Mode::Enforce, "d1", "trigger = { live_kernel = true },")});
  for (const cluster::Kernel kernel : {cluster::Kernel::Answers, cluster::Kernel::Unsure}) {
    kernels.kernel = kernel;
    EXPECT_EQ(of_pod(), Reason::ProofMissing);
  }
  kernels.kernel = cluster::Kernel::Silent;
  EXPECT_EQ(of_pod(), std::nullopt);
  powers.reading.reset();  // too old
  EXPECT_EQ(of_pod(), Reason::ProofMissing);
}

TEST_F(IsolationGuardTest, a_binding_with_act_on_off_is_not_content_with_it) {
  policy::Binding off = binding(Mode::Enforce);
  off.allow.act_on = policy::ActOn::Off;
  off.allow.after = 12s;
  activate({off});
  authority.source = "off:12s";
  kernels.since[authority.node] = now - 5s;
  EXPECT_EQ(of_pod(), Reason::ProofMissing);
}

TEST_F(IsolationGuardTest, a_volume_goes_by_its_own_driver_alone) {
  drivers.clear();  // fencingDrivers
  EXPECT_EQ(of_attachment(), std::nullopt);
  storage = {"csi.example.com", "other.example.com"};  // of its pod
  EXPECT_EQ(of_attachment(), std::nullopt);
  storage = {};  // nobody knows any more: another leader has deleted the pod
  EXPECT_EQ(of_attachment(), std::nullopt);
  demanded.clear();
  EXPECT_EQ(of_attachment(), std::nullopt);
  powers.reading->state.drivers = {"other.example.com"};
  storage = {"other.example.com"};
  EXPECT_EQ(of_attachment(), Reason::DriverNotDeclared);
  demanded = {only(Evidence::Isolated)};
  EXPECT_EQ(of_attachment(), Reason::ProofMissing);
  powers.reading->state = {.power = Power::Unknown, .why = "x"};
  demanded.clear();
  EXPECT_EQ(of_attachment(), Reason::DriverNotDeclared);
}

// Who attaches it then speaks of another kind of volume.
TEST_F(IsolationGuardTest, a_volume_that_kubernetes_translates_is_of_no_driver_that_refuses) {
  EXPECT_EQ(of_attachment(), std::nullopt);
  target.handle.clear();
  EXPECT_EQ(of_attachment(), Reason::ProofMissing);
  demanded.clear();
  drivers.clear();  // fencingDrivers
  EXPECT_EQ(of_attachment(), Reason::DriverNotDeclared);
  powers.reading->state = {.power = Power::Off, .why = "x"};
  EXPECT_EQ(of_attachment(), std::nullopt);
}

TEST_F(IsolationGuardTest, no_machine_is_switched_off_that_is_isolated) {
  demanded = {only(Evidence::Off)};
  OrderCase target = {.order = {.request = {.kind = policy::Request::Kind::Post, .endpoint = "bmc"},
                                .aim = {.power = Power::Off}},
                      .fencer = "storage",
                      .pods = std::make_shared<const std::vector<kube::Pod>>(std::vector{pod}),
                      .complete = true,
                      .listed = now};
  powers.reading->order = target.order;
  EXPECT_EQ(refuse_order(authority, ground(), pod, target, now), Reason::PowerNotOn);
  powers.reading->state.power = Power::On;
  EXPECT_EQ(refuse_order(authority, ground(), pod, target, now), std::nullopt);
}

TEST_F(IsolationGuardTest, a_node_is_isolated_whose_storage_serves_it_in_part_at_least) {
  OrderCase target = {.order = {.request = {.kind = policy::Request::Kind::Create, .name = "f"},
                                .aim = {.power = Power::Isolated, .drivers = storage}},
                      .fencer = "storage",
                      .pods = std::make_shared<const std::vector<kube::Pod>>(std::vector{pod}),
                      .complete = true,
                      .listed = now};
  const auto answer = [&] { return refuse_order(authority, ground(), pod, target, now); };
  powers.reading->order = target.order;
  EXPECT_EQ(answer(), Reason::PowerNotOn) << "it is isolated already";
  powers.reading->state.drivers = {"other.example.com"};
  EXPECT_EQ(answer(), std::nullopt);
  powers.reading->state = {.power = Power::Served, .why = "x"};
  EXPECT_EQ(answer(), std::nullopt);
  for (const Power other : {Power::On, Power::Off, Power::Unknown, Power::Failed}) {
    powers.reading->state.power = other;
    EXPECT_EQ(answer(), Reason::PowerNotOn);
  }
  powers.reading->state.power = Power::Served;
  powers.reading->order->request.name = "g";
  EXPECT_EQ(answer(), Reason::PowerNotOn) << "by another object now";
  powers.reading->order = target.order;
  storage = {"csi.example.com", "other.example.com"};
  EXPECT_EQ(answer(), Reason::PowerNotOn) << "it would not be enough";
}

TEST_F(IsolationGuardTest, of_the_taint_that_evicts_all_pods_it_is_no_proof) {
  Eviction eviction;
  eviction.pods = {pod};
  eviction.proof = demanded;
  EXPECT_FALSE(missing_proof_of_any(authority, eviction).empty());
}

TEST_F(IsolationGuardTest, the_records_say_who_refuses_it) {
  EXPECT_EQ(evidence_text(sightings_of(authority, storage)), "unreachable, isolated (storage: x)");
  EXPECT_EQ(evidence_text(sightings_of(authority)), "unreachable");
}

}  // namespace
}  // namespace moonfence::fence
