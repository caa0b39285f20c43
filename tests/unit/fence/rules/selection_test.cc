#include "fence/rules/selection.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence::fence {
namespace {

using audit::Reason;

kube::Pod owned_by(const std::string& kind, const std::string& phase = "Running") {
  kube::Pod pod;
  pod.uid = Uid("pod-1");
  pod.phase = phase;
  if (!kind.empty()) {
    pod.owners = {{.api_version = "apps/v1",
                   .kind = kind,
                   .name = "owner",
                   .uid = Uid("o"),
                   .controller = true}};
  }
  return pod;
}

TEST(LeftAlone, pods_that_a_controller_replaces_elsewhere_are_offered_to_policies) {
  for (const char* kind : {"StatefulSet", "ReplicaSet", "Job", "Cluster"}) {
    EXPECT_EQ(left_alone(owned_by(kind)), std::nullopt) << kind;
  }
  EXPECT_EQ(left_alone(owned_by("StatefulSet", "Pending")), std::nullopt);
}

TEST(LeftAlone, everything_else_has_its_reason) {  // row E-25
  kube::Pod mirror = owned_by("ReplicaSet");
  mirror.is_mirror = true;
  EXPECT_EQ(left_alone(mirror), Reason::MirrorPod);
  EXPECT_EQ(left_alone(owned_by("Node")), Reason::MirrorPod);
  EXPECT_EQ(left_alone(owned_by("DaemonSet")), Reason::DaemonSetPod);
  EXPECT_EQ(left_alone(owned_by("StatefulSet", "Succeeded")), Reason::FinishedPod);
  EXPECT_EQ(left_alone(owned_by("Job", "Failed")), Reason::FinishedPod);
  EXPECT_EQ(left_alone(owned_by("")), Reason::BarePod);
}

TEST(LeftAlone, a_binding_may_allow_bare_and_finished_pods_but_no_others) {
  const policy::Allowances bare = {.bare_pods = true};
  const policy::Allowances finished = {.finished_pods = true};
  const policy::Allowances all = {.out_of_service = true, .bare_pods = true, .finished_pods = true};
  EXPECT_EQ(left_alone(owned_by(""), bare), std::nullopt);
  EXPECT_EQ(left_alone(owned_by(""), finished), Reason::BarePod);
  EXPECT_EQ(left_alone(owned_by("Job", "Failed"), finished), std::nullopt);
  EXPECT_EQ(left_alone(owned_by("Job", "Failed"), bare), Reason::FinishedPod);
  EXPECT_EQ(left_alone(owned_by("", "Failed"), all), std::nullopt);
  kube::Pod mirror = owned_by("ReplicaSet");
  mirror.is_mirror = true;
  EXPECT_EQ(left_alone(mirror, all), Reason::MirrorPod);
  EXPECT_EQ(left_alone(owned_by("DaemonSet"), all), Reason::DaemonSetPod);
}

kube::Pod with_volumes(const std::string& kind, const char* spec) {
  kube::Pod pod = owned_by(kind);
  pod.raw =
      std::make_shared<const nlohmann::json>(nlohmann::json{{"spec", nlohmann::json::parse(spec)}});
  return pod;
}

// A machine that is not heard may run it still.
TEST(LeftAlone, on_a_lost_node_only_what_may_run_twice_is_offered) {
  using namespace std::chrono_literals;
  const policy::Allowances lost = {
      .bare_pods = true, .finished_pods = true, .act_on = policy::ActOn::Lost, .after = 12s};
  for (const char* spec :
       {"{}", R"({"volumes": []})", R"({"volumes": [{"name": "a", "emptyDir": {}}]})",
        R"({"volumes": [{"name": "a", "projected": {}}, {"name": "b", "configMap": {}}]})"}) {
    EXPECT_EQ(left_alone(with_volumes("ReplicaSet", spec), lost), std::nullopt) << spec;
    for (const char* kind : {"StatefulSet", "Job", "Cluster", ""}) {
      EXPECT_EQ(left_alone(with_volumes(kind, spec), lost), Reason::LostIsNoProof) << kind << spec;
    }
  }
  for (const char* spec :
       {R"({"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "c"}}]})",
        R"({"volumes": [{"name": "a", "ephemeral": {}}]})",
        R"({"volumes": [{"name": "a", "nfs": {}}]})", R"({"volumes": [{"name": "a", "rbd": {}}]})",
        R"({"volumes": [{"name": "a", "hostPath": {}}]})",
        R"({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "iscsi": {}}]})",
        R"({"volumes": [{"name": "a", "csi": {}}]})", R"({"volumes": [7]})",
        R"({"volumes": "no"})"}) {
    EXPECT_EQ(left_alone(with_volumes("ReplicaSet", spec), lost), Reason::LostIsNoProof) << spec;
    EXPECT_EQ(left_alone(with_volumes("ReplicaSet", spec)), std::nullopt) << spec;
  }
  EXPECT_EQ(left_alone(owned_by("ReplicaSet"), lost), Reason::LostIsNoProof)
      << "nobody has read it";
  kube::Pod foreign = with_volumes("ReplicaSet", "{}");
  foreign.owners[0].api_version = "example.com/v1";
  EXPECT_EQ(left_alone(foreign, lost), Reason::LostIsNoProof);
}

TEST(LeftAlone, an_owner_that_is_no_controller_replaces_nothing) {
  kube::Pod pod = owned_by("StatefulSet");
  pod.owners[0].controller = false;
  EXPECT_EQ(left_alone(pod), Reason::OwnerNotController);
  EXPECT_EQ(left_alone(pod, {.bare_pods = true}), std::nullopt);
}

TEST(LeftAlone, a_finished_pod_that_is_to_go_holds_its_name_and_is_offered) {
  for (const char* phase : {"Succeeded", "Failed"}) {
    kube::Pod pod = owned_by("StatefulSet", phase);
    pod.deletion_timestamp = WallTime{};
    EXPECT_EQ(left_alone(pod), std::nullopt) << phase;
  }
}

}  // namespace
}  // namespace moonfence::fence
