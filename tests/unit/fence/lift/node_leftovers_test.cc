#include "fence/lift/node_leftovers.h"

#include <gtest/gtest.h>

#include "kube/objects/decode.h"
#include "policy/input/pod_facts.h"

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using Kind = Doubt::Kind;

struct NodeLeftoversTest : testing::Test {
  const std::string volume = "kubernetes.io/csi/csi.example.com^h1";
  WallTime fenced = *parse_rfc3339("2026-01-02T05:00:00Z");
  WallTime now = fenced + 20min;
  FenceMark mark = {
      .incident = IncidentId("i1"), .boot_id = "b1", .since = fenced, .heard = fenced - 50s};
  json status = {
      {"nodeInfo", {{"bootID", "b1"}}},
      {"conditions",
       {{{"type", "Ready"}, {"status", "True"}, {"lastTransitionTime", "2026-01-02T05:00:30Z"}}}}};
  NodeLeftovers remains;

  NodeLeftoversTest() {
    remains.word = kube::KubeletWord{
        .wanted = {}, .running = {}, .process = {.node = NodeName("n1"), .started = fenced - 24h}};
    remains.lease_renewed = now - 3s;
  }
  kube::KubeletWord& word() { return **remains.word; }

  static kube::Pod pod(const std::string& name, bool terminating = false,
                       const std::string& phase = "Running") {
    json object = {{"metadata", {{"name", name}, {"namespace", "db"}, {"uid", name}}},
                   {"status", {{"phase", phase}}}};
    if (terminating) {
      object["metadata"]["deletionTimestamp"] = "2026-01-02T05:00:00Z";
    }
    return *kube::decode_pod(object);
  }
  static kube::Pod mirror_of(const std::string& static_uid) {
    return *kube::decode_pod({{"metadata",
                               {{"name", "etcd-n1"},
                                {"namespace", "kube-system"},
                                {"uid", "of-the-mirror"},
                                {"annotations", {{"kubernetes.io/config.mirror", static_uid}}}}}},
                             /*keep_raw=*/true);
  }
  static kube::KubeletPod known(const std::string& uid, const std::string& node = "n1") {
    return {
        .ref = {.space = Namespace("db"), .name = uid}, .uid = Uid(uid), .node = NodeName(node)};
  }
  static json attachment(const std::string& name, const std::string& node = "n1") {
    return {{"metadata", {{"name", name}, {"uid", name}}},
            {"spec",
             {{"attacher", "csi.example.com"},
              {"nodeName", node},
              {"source", {{"persistentVolumeName", "pv1"}}}}}};
  }
  [[nodiscard]] std::optional<Doubt> found() const {
    const auto node = kube::decode_node(
        {{"metadata", {{"name", "n1"}, {"uid", "u1"}}}, {"status", status}}, /*keep_raw=*/true);
    return doubt_about(*node, mark, remains, now);
  }
  [[nodiscard]] std::string doubt() const {
    const auto doubt = found();
    return doubt ? doubt->why : "";
  }
  [[nodiscard]] std::optional<Kind> kind() const {
    const auto doubt = found();
    return doubt ? std::optional(doubt->kind) : std::nullopt;
  }
};

TEST_F(NodeLeftoversTest, where_nothing_is_left_there_is_no_doubt) {
  EXPECT_EQ(doubt(), "");
  remains.pods = {pod("a"), pod("b", false, "Succeeded")};
  remains.attachments = {{"items", json::array({attachment("csi-1", "n2")})}};
  word().running = {known("a", "")};
  word().wanted = {known("a"), known("b")};
  EXPECT_EQ(doubt(), "");
}

TEST_F(NodeLeftoversTest, what_could_not_be_read_is_a_doubt) {
  remains.unread = "HTTP 403";
  EXPECT_EQ(doubt(), "HTTP 403");
}

TEST_F(NodeLeftoversTest, without_the_kubelet_s_word_only_another_boot_proves_anything) {
  remains.word.reset();
  EXPECT_EQ(kind(), Kind::KubeletSilent);
  status["nodeInfo"]["bootID"] = "b2";
  EXPECT_EQ(kind(), std::nullopt);
}

TEST_F(NodeLeftoversTest, a_kubelet_that_does_not_answer_is_no_proof) {
  remains.word = failure(Error::Kind::Retryable, "HTTP 503");
  EXPECT_EQ(kind(), Kind::KubeletSilent);
  EXPECT_TRUE(may_pass(Kind::KubeletSilent));
  remains.word = failure(Error::Kind::Malformed, "not a list");
  EXPECT_EQ(kind(), Kind::KubeletUnclear);
  remains.word = failure(Error::Kind::Limit, "too large");
  EXPECT_EQ(kind(), Kind::KubeletUnclear);
}

TEST_F(NodeLeftoversTest, a_right_that_is_missing_is_told_with_what_grants_it) {
  Error error = {.kind = Error::Kind::Forbidden, .text = "cannot get nodes/proxy"};
  error.http_status = 403;
  error.reason = "Forbidden";
  remains.word = failure(Error(error));
  EXPECT_EQ(kind(), Kind::NotAllowed);
  EXPECT_NE(doubt().find("kubectl apply -k deploy/rights/kubelet"), std::string::npos);
  EXPECT_FALSE(may_pass(Kind::NotAllowed));
  error.reason = "";  // the kubelet itself refuses the API server
  remains.word = failure(std::move(error));
  EXPECT_EQ(kind(), Kind::KubeletSilent);
}

// Ready came 1.9 s before the old containers had ended.
TEST_F(NodeLeftoversTest, a_container_of_a_pod_that_is_gone_still_runs) {
  word().running = {known("old", "")};
  EXPECT_EQ(kind(), Kind::StillRunning);
  EXPECT_EQ(doubt(),
            "containers of pod db/old (UID old) still run there, and the API server knows no such "
            "pod, or calls it ended");
  remains.pods = {pod("old", false, "Failed")};  // its phase is anybody's word
  EXPECT_EQ(kind(), Kind::StillRunning);
  remains.pods = {pod("old", true)};
  EXPECT_EQ(kind(), Kind::StillRunning);
  remains.pods = {pod("old")};
  EXPECT_EQ(kind(), std::nullopt);
  EXPECT_TRUE(awaits_an_end(Kind::StillRunning));
}

// Its container is between two starts, and nothing runs at the moment.
TEST_F(NodeLeftoversTest,
       a_pod_that_is_gone_and_that_the_kubelet_still_means_to_run_may_start_again) {
  word().wanted = {known("old")};
  EXPECT_EQ(kind(), Kind::StillWanted);
  remains.pods = {pod("old", false, "Failed")};
  EXPECT_EQ(kind(),
            std::nullopt);  // it is over, and stays in the kubelet's list until it is deleted
}

TEST_F(NodeLeftoversTest, a_static_pod_is_known_by_its_mirror_and_by_nothing_else) {
  word().running = {known("config-hash", "")};
  word().wanted = {known("config-hash")};
  EXPECT_EQ(kind(), Kind::StillRunning);
  remains.pods = {mirror_of("config-hash")};
  EXPECT_EQ(kind(), std::nullopt);
  remains.pods = {mirror_of("another")};
  EXPECT_EQ(kind(), Kind::StillRunning);
  word().running = {known("of-the-mirror", "")};  // which is no pod of the kubelet's
  EXPECT_EQ(kind(), Kind::StillRunning);
}

// Two nodes with one address: a machine that was made anew, say.
TEST_F(NodeLeftoversTest, the_word_of_another_node_s_kubelet_proves_nothing) {
  word().process.node = NodeName("n2");
  EXPECT_EQ(kind(), Kind::KubeletUnclear);
  word().process.node = NodeName("n1");
  remains.pods = {pod("a")};
  word().wanted = {known("a", "n2")};
  EXPECT_EQ(kind(), Kind::KubeletUnclear);
}

TEST_F(NodeLeftoversTest, a_pod_that_is_being_deleted_is_not_gone) {
  remains.pods = {pod("a", true)};
  EXPECT_EQ(doubt(), "pod db/a is still being deleted");
  EXPECT_FALSE(is_there_to_stay(remains.pods[0]));
  EXPECT_FALSE(is_there_to_stay(pod("b", false, "Failed")));
  EXPECT_TRUE(is_there_to_stay(pod("c")));
}

TEST_F(NodeLeftoversTest, a_volume_that_no_pod_needs_is_left_over) {
  status["volumesInUse"] = {volume};
  EXPECT_EQ(doubt(),
            "volume " + volume + " is in use or attached, and no pod of the node needs it");
  remains.used_volumes = {volume};
  EXPECT_EQ(doubt(), "");
  status.erase("volumesInUse");
  remains.used_volumes.clear();
  status["volumesAttached"] = {{{"name", volume}, {"devicePath", ""}}};
  EXPECT_NE(doubt(), "");
  status["nodeInfo"]["bootID"] = "b2";  // Kubernetes would detach it by force
  EXPECT_NE(doubt(), "");
}

// Of a volume that Kubernetes translates to CSI only the attachment is known.
TEST_F(NodeLeftoversTest, a_translated_volume_is_known_by_its_attachment) {
  status["volumesInUse"] = {"kubernetes.io/csi/ebs.csi.aws.com^vol-1"};
  EXPECT_NE(doubt(), "");
  remains.used_attachments = {policy::attachment_name("vol-1", "ebs.csi.aws.com", "n1")};
  EXPECT_EQ(doubt(), "");
  status.erase("volumesInUse");
  mark.heard.reset();
  mark.volumes = {"kubernetes.io/csi/ebs.csi.aws.com^vol-1"};
  EXPECT_EQ(doubt(), "");
}

// The taint of a node stayed for ever when a pod of it had a volume of an old kind of its own.
TEST_F(NodeLeftoversTest, a_volume_that_stands_in_a_pod_itself_is_used_by_it) {
  json inline_one = attachment(policy::attachment_name("h1", "csi.example.com", "n1"));
  inline_one["spec"]["source"] = {{"inlineVolumeSpec", json::object()}};
  remains.attachments = {{"items", json::array({inline_one})}};
  status["volumesInUse"] = {volume};
  EXPECT_EQ(kind(), Kind::StorageLeft);
  remains.inline_drivers = {"csi.example.com"};
  EXPECT_EQ(doubt(), "");
  remains.inline_drivers = {"other.example.com"};
  EXPECT_EQ(kind(), Kind::StorageLeft);
  remains.inline_drivers = {"csi.example.com"};
  remains.attachments = {
      {"items", json::array({attachment(policy::attachment_name("h1", "csi.example.com", "n1"))})}};
  EXPECT_EQ(kind(), Kind::StorageLeft) << "that of a claim is not";
}

// Two PersistentVolumes of an old kind may be one disk, and nobody can tell: its attachment bears
// the name of one of them, and the pod that came back uses the other one (decision 13).
TEST_F(NodeLeftoversTest,
       a_second_volume_of_one_disk_keeps_it_until_somebody_who_knows_takes_it_off) {
  const std::string disk = policy::attachment_name("h1", "csi.example.com", "n1");
  remains.attachments = {{"items", json::array({attachment(disk)})}};
  remains.pods = {pod("a")};
  status["volumesInUse"] = {volume};
  EXPECT_EQ(kind(), Kind::StorageLeft);
  EXPECT_NE(doubt().find(volume), std::string::npos);
  remains.used_attachments = {disk};
  EXPECT_EQ(doubt(), "") << "known as its own";
}

TEST_F(NodeLeftoversTest, an_attachment_that_no_pod_needs_or_that_is_going_is_left_over) {
  remains.attachments = {{"items", json::array({attachment("csi-1")})}};
  EXPECT_EQ(doubt(), "volume attachment csi-1 is left, and no pod of the node needs it");
  remains.used_attachments = {"csi-1"};
  EXPECT_EQ(doubt(), "");
  remains.attachments["items"][0]["metadata"]["deletionTimestamp"] = "2026-01-02T05:00:00Z";
  EXPECT_NE(doubt(), "");
  remains.attachments = {{"items", {{{"metadata", {{"name", "csi-1"}}}}}}};
  EXPECT_NE(doubt(), "");  // one that cannot be understood
}

// It had been read as a restart that the kubelet was started within ten minutes before the taint,
// and after more than a minute of silence a node was never proven clean.
TEST_F(NodeLeftoversTest, a_kubelet_that_lives_since_before_reports_what_it_has_mounted) {
  mark.volumes = {volume};
  EXPECT_EQ(doubt(), "");
  word().process.started = *mark.heard - 3min;
  EXPECT_EQ(doubt(), "");
}

TEST_F(NodeLeftoversTest, a_restarted_kubelet_hides_the_volumes_that_nobody_uses_any_more) {
  word().process.started = fenced + 20s;
  EXPECT_EQ(doubt(), "");  // there were none
  mark.volumes = {volume};
  EXPECT_EQ(kind(), Kind::MaybeMounted);
  EXPECT_NE(doubt().find("volume " + volume + " may still be mounted there. Reboot the node"),
            std::string::npos);
  word().process.started = *mark.heard - 179s;
  EXPECT_EQ(kind(), Kind::MaybeMounted);
  remains.used_volumes = {volume};  // a pod that survived has it
  EXPECT_EQ(doubt(), "");
}

TEST_F(NodeLeftoversTest, a_mark_of_an_older_version_does_not_say_when_the_kubelet_was_heard_of) {
  mark.heard.reset();
  EXPECT_EQ(doubt(), "");
  mark.volumes = {volume};
  EXPECT_EQ(kind(), Kind::MaybeMounted);
  EXPECT_NE(doubt().find("Reboot the node"), std::string::npos);
}

// A clock that was set back makes a process look older than it is.
TEST_F(NodeLeftoversTest, a_start_counts_only_by_a_clock_that_agrees_with_the_api_server_s) {
  mark.volumes = {volume};
  remains.lease_renewed = now - 61s;
  EXPECT_EQ(kind(), Kind::MaybeMounted);
  remains.lease_renewed = now + 61s;
  EXPECT_EQ(kind(), Kind::MaybeMounted);
  remains.lease_renewed.reset();
  EXPECT_EQ(kind(), Kind::MaybeMounted);
  remains.lease_renewed = now - 60s;
  EXPECT_EQ(kind(), std::nullopt);
  remains.lease_renewed = now + 60s;
  EXPECT_EQ(kind(), std::nullopt);
}

TEST_F(NodeLeftoversTest, more_volumes_than_the_mark_can_tell_are_used_by_nobody) {
  mark.volumes = {volume, "…"};
  remains.used_volumes = {volume};
  word().process.started = fenced + 20s;
  EXPECT_NE(doubt(), "");
}

}  // namespace
}  // namespace moonfence::fence
