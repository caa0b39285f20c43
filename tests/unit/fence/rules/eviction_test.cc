#include "fence/rules/eviction.h"

#include "fence/rules/triggers.h"
#include "kube/objects/decode.h"
#include "unit/fence/guard_fixture.h"

namespace moonfence::fence {
namespace {

using nlohmann::json;

kube::Pod tolerating(const json& tolerations, bool terminating = false,
                     const json& volumes = json::array()) {
  json pod = {{"metadata", {{"name", "a"}, {"namespace", "db"}, {"uid", "1"}}},
              {"spec", {{"nodeName", "n1"}, {"tolerations", tolerations}, {"volumes", volumes}}},
              {"status", {{"phase", "Running"}}}};
  if (terminating) {
    pod["metadata"]["deletionTimestamp"] = "2026-01-02T05:00:00Z";
  }
  return *kube::decode_pod_text(pod.dump());
}

// Tolerates for ever what an unreachable node carries, as those of DaemonSets do.
json beside_others(const json& toleration) {
  return json::array({{{"key", "node.kubernetes.io/not-ready"}, {"operator", "Exists"}},
                      {{"key", "node.kubernetes.io/unreachable"}, {"operator", "Exists"}},
                      toleration});
}

TEST(IsEvicted, only_a_toleration_of_this_very_taint_without_an_end_keeps_a_pod) {
  const json all = json::array({{{"operator", "Exists"}}});
  EXPECT_FALSE(is_evicted(tolerating(all)));
  EXPECT_TRUE(is_evicted(tolerating(all, /*terminating=*/true)));
  for (const char* kept : {R"({"operator": "Exists", "effect": "NoExecute"})",
                           R"({"key": "node.kubernetes.io/out-of-service", "operator": "Exists"})",
                           R"({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown",
            "effect": "NoExecute"})"}) {
    EXPECT_FALSE(is_evicted(tolerating(beside_others(json::parse(kept))))) << kept;
  }
  for (const char* gone :
       {R"({"operator": "Exists", "effect": "NoSchedule"})",
        R"({"key": "node.kubernetes.io/unreachable", "operator": "Exists"})",
        R"({"key": "node.kubernetes.io/out-of-service", "value": "other"})",
        R"({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})",
        R"({"operator": 1})", R"("all")"}) {
    EXPECT_TRUE(is_evicted(tolerating(beside_others(json::parse(gone))))) << gone;
  }
  EXPECT_TRUE(is_evicted(tolerating(json())));
  EXPECT_TRUE(is_evicted(kube::Pod{}));  // of which nobody knows what it tolerates
}

TEST(IsEvicted, the_first_toleration_that_matches_counts_and_each_taint_of_the_node) {
  const json whole = {{"operator", "Exists"}};
  const auto within = [](const char* key) {
    return json{{"key", key}, {"operator", "Exists"}, {"tolerationSeconds", 300}};
  };
  for (const char* key : {"node.kubernetes.io/out-of-service", "node.kubernetes.io/unreachable",
                          "node.kubernetes.io/not-ready"}) {
    EXPECT_TRUE(is_evicted(tolerating(json::array({within(key), whole})))) << key;
    EXPECT_FALSE(is_evicted(tolerating(json::array({whole, within(key)})))) << key;
  }
  json of_no_effect_here = within("node.kubernetes.io/unreachable");
  of_no_effect_here["effect"] = "NoSchedule";
  EXPECT_FALSE(is_evicted(tolerating(json::array({of_no_effect_here, whole}))));
  EXPECT_TRUE(is_evicted(tolerating(json::array({{{"operator", 1}}, whole}))));
  // Alone it does not help: the pod goes by the other taints, and by force then.
  EXPECT_TRUE(is_evicted(tolerating(
      json::array({{{"key", "node.kubernetes.io/out-of-service"}, {"operator", "Exists"}}}))));
}

TEST(IsEvicted, one_with_claims_counts_whatever_it_tolerates) {
  const json all = json::array({{{"operator", "Exists"}}});
  const auto with = [&all](const char* volume) {
    return is_evicted(tolerating(all, false, json::array({json::parse(volume)})));
  };
  EXPECT_TRUE(with(R"({"name": "d", "persistentVolumeClaim": {"claimName": "c"}})"));
  EXPECT_TRUE(with(R"({"name": "d", "ephemeral": {}})"));
  EXPECT_FALSE(with(R"({"name": "d", "hostPath": {"path": "/var/lib"}})"));
}

TEST(MinorVersion, it_is_told_or_it_is_not) {
  const auto of = [](const char* text) { return minor_version(json::parse(text)); };
  EXPECT_EQ(of(R"({"major": "1", "minor": "20", "gitVersion": "v1.20.2"})"), 20);
  EXPECT_EQ(of(R"({"major": "1", "minor": "27+"})"), 27);
  for (const char* text : {"{}", "[]", R"({"major": "1", "minor": ""})",
                           R"({"major": "2", "minor": "0"})", R"({"major": "1", "minor": "x26"})",
                           R"({"major": "1", "minor": "26x"})", R"({"major": "1", "minor": 26})",
                           R"({"major": "1", "minor": "-26"})", R"({"minor": "30"})"}) {
    EXPECT_EQ(of(text), std::nullopt) << text;
  }
}

// The guard of the taint: GuardTest's pod is one of those that go.
struct EvictionGuardTest : GuardTest {
  EvictionGuardTest() {
    bind(Mode::Enforce, true);
    authority.ledger->plan([this] {
      IncidentRecord::Step step;
      step.kind = IncidentRecord::Step::Kind::TaintNode;
      step.node_uid = authority.node_uid;
      return step;
    }());
    authority.ledger->stands(authority.ledger->revision());
  }
  void bind(Mode mode, bool allowed, policy::Allowances more = {}) {
    more.out_of_service = allowed;
    active.activate(std::make_shared<const policy::PolicySet>(
        policy::PolicySet{.bindings = {{.name = "shop",
                                        .policy = policy_,
                                        .scope = policy::NamespaceScope::of({Namespace("db")}),
                                        .mode = mode,
                                        .allow = more,
                                        .digest = policy_->digest(),
                                        .error = {}}},
                          .digest = "set-1"}));
  }
  [[nodiscard]] std::optional<Reason> refusal() const {
    return refuse_out_of_service(
        authority, {.policy = "shop", .digest = policy_->digest(), .set = "set-1"}, eviction, now);
  }

  std::shared_ptr<const policy::Policy> policy_ = std::make_shared<const policy::Policy>(
      *load_text(policy_text("return fence.skip('x')",
                             "trigger = { live_kubelet = true }, node = function(node) return "
                             "fence.taint_out_of_service('x') end,")));
  Eviction eviction = {.pods = {pod}, .complete = true, .listed = Moment{} + 1h, .kubernetes = 26};
};

TEST_F(EvictionGuardTest, what_any_of_its_pods_lacks_proof_for_keeps_the_node_in_service) {
  policy::EvidenceSet word;
  word.insert(policy::Evidence::Attested);
  eviction.proof = {word};
  EXPECT_EQ(refusal(), Reason::ProofMissing);
  authority.reading.attestation.counted = Attestation{};
  EXPECT_EQ(refusal(), std::nullopt);
  eviction.proof.clear();
  authority.reading.attestation.counted.reset();
  protections.proof.namespaces = {{Namespace("db"), word}};
  EXPECT_EQ(refusal(), Reason::ProofMissing);
  // Which drivers an evicted pod uses nobody has looked up.
  protections.proof = {.drivers = {{"csi.example.com", word}}};
  EXPECT_EQ(refusal(), Reason::ProofMissing);
}

TEST_F(EvictionGuardTest, with_nothing_against_it_it_may) {
  EXPECT_EQ(refusal(), std::nullopt);
}

TEST_F(EvictionGuardTest, only_a_server_that_says_that_it_heeds_the_taint) {
  eviction.kubernetes = 25;
  EXPECT_EQ(refusal(), Reason::TaintNotServed);
  eviction.kubernetes = std::nullopt;
  EXPECT_EQ(refusal(), Reason::VersionUnknown);
  bind(Mode::Enforce, false);  // whatever the server is
  EXPECT_EQ(refusal(), Reason::TaintNotAllowed);
}

TEST_F(EvictionGuardTest, only_with_the_binding_s_allowance_and_enforcing) {
  bind(Mode::Enforce, false);
  EXPECT_EQ(refusal(), Reason::TaintNotAllowed);
  bind(Mode::Observe, true);
  EXPECT_EQ(refusal(), Reason::ModeObserves);
}

TEST_F(EvictionGuardTest, never_with_a_kubelet_that_lives_whatever_the_trigger_says) {
  authority.reading.readiness = Readiness::False;
  EXPECT_EQ(refusal(), std::nullopt);
  authority.reading.kubelet_lease = KubeletLease::Alive;
  EXPECT_EQ(refusal(), Reason::LeaseAlive);
  authority.reading.kubelet_lease = KubeletLease::Unread;
  EXPECT_EQ(refusal(), Reason::LeaseUnreadable);
  authority.reading.kubelet_lease = KubeletLease::Dead;
  authority.reading.readiness = Readiness::Missing;
  EXPECT_EQ(refusal(), Reason::ReadyMissing);
}

TEST_F(EvictionGuardTest, never_with_a_machine_that_answers_whatever_the_trigger_says) {
  kernels.kernel = cluster::Kernel::Answers;
  EXPECT_EQ(refusal(), Reason::KernelAnswers);
  policy_ = std::make_shared<const policy::Policy>(
      *load_text(policy_text("return fence.skip('no')", "trigger = { live_kernel = true },")));
  bind(Mode::Enforce, true);
  EXPECT_EQ(refusal(), Reason::KernelAnswers);
  kernels.kernel = cluster::Kernel::Silent;
  EXPECT_EQ(refusal(), std::nullopt);
}

// Not even by a policy that goes by it.
TEST_F(EvictionGuardTest, never_by_the_word_of_a_health_source) {
  policy_ = std::make_shared<const policy::Policy>(
      *load_text(policy_text("return fence.skip('x')",
                             R"(source = { every = "5s", expiry = "1h",
           plan = function() return nil end,
           nodes = function() return { n1 = "failed" } end },)")));
  bind(Mode::Enforce, true);
  authority.source = signal_of(active.current()->bindings.front());
  ASSERT_FALSE(authority.source.empty());
  EXPECT_EQ(refusal(), Reason::SignalUnfit);
  EXPECT_EQ(
      refuse_pod_deletion(
          authority, {.policy = "shop", .digest = policy_->digest(), .set = "set-1"}, pod, now),
      std::nullopt)
      << "which may delete the node's pods";
}

TEST_F(EvictionGuardTest, what_speaks_against_any_of_its_pods_speaks_against_it) {
  kube::Pod other = pod;
  other.uid = Uid("pod-2");
  eviction.pods.push_back(other);
  EXPECT_EQ(refusal(), std::nullopt);
  eviction.pods[1].ref.space = Namespace("shop");
  EXPECT_EQ(refusal(), Reason::OutsideBinding);
  protections.namespaces = {Namespace("shop")};
  EXPECT_EQ(refusal(), Reason::ProtectedNamespace);
  protections.namespaces.clear();
  eviction.pods[1] = other;
  eviction.pods[1].owners.clear();
  EXPECT_EQ(refusal(), Reason::BarePod);
  bind(Mode::Enforce, true, {.bare_pods = true});
  EXPECT_EQ(refusal(), std::nullopt);
  eviction.pods[1].phase = "Succeeded";
  EXPECT_EQ(refusal(), Reason::FinishedPod);
  eviction.pods[1] = other;
  eviction.pods[1].is_mirror = true;
  EXPECT_EQ(refusal(), Reason::MirrorPod);
  eviction.pods[1] = other;
  eviction.pods[1].owners[0].kind = "DaemonSet";  // made again when the taint is gone
  EXPECT_EQ(refusal(), std::nullopt);
}

TEST_F(EvictionGuardTest, a_policy_that_forbids_one_pod_forbids_it) {
  eviction.objection = Reason::PolicyForbids;
  EXPECT_EQ(refusal(), Reason::PolicyForbids);
}

TEST_F(EvictionGuardTest, all_pods_must_be_known_and_not_for_long) {
  eviction.complete = false;
  EXPECT_EQ(refusal(), Reason::PodsUnknown);
  eviction.complete = true;
  eviction.listed = now - 5s - 1ms;
  EXPECT_EQ(refusal(), Reason::PodsUnknown);
  eviction.listed = now;
  eviction.pods.clear();
  EXPECT_EQ(refusal(), Reason::PodsUnknown);
}

// Nothing younger can be had: lists that took long, and what is read after them on a slow server.
TEST_F(EvictionGuardTest, a_slow_server_s_list_is_believed_for_longer_within_bounds) {
  leadership.granted.reading = 3s;
  eviction.took = 6s;
  eviction.listed = now - 17s;
  EXPECT_EQ(refusal(), std::nullopt);
  eviction.listed -= 1ns;
  EXPECT_EQ(refusal(), Reason::PodsUnknown);
  eviction.took = 1h;
  EXPECT_EQ(refusal(), std::nullopt);
  eviction.listed = now - 71s - 1ns;
  EXPECT_EQ(refusal(), Reason::PodsUnknown);
}

TEST_F(EvictionGuardTest, the_engine_s_own_node_is_out_of_reach) {
  protections.own_node = NodeName("n1");
  EXPECT_EQ(refusal(), Reason::OwnNode);
}

TEST_F(EvictionGuardTest, it_rests_on_a_fresh_reading_and_on_the_lease) {
  now += 1s + 1ms;
  EXPECT_EQ(refusal(), Reason::ReadingTooOld);
  now -= 1s + 1ms;
  leadership.until = now;
  EXPECT_EQ(refusal(), Reason::NotLeader);
  authority.incident_open = false;
  EXPECT_EQ(refusal(), Reason::IncidentClosed);
}

TEST_F(EvictionGuardTest, it_stands_in_the_record_first) {
  authority.ledger = std::make_shared<RecordLedger>(IncidentRecord{}, "moonfence-0_a", then);
  EXPECT_EQ(refusal(), Reason::NotRecorded);
}

}  // namespace
}  // namespace moonfence::fence
