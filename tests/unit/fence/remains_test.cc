#include "fence/remains.h"

#include <gtest/gtest.h>

#include "kube/decode.h"

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

struct RemainsTest : testing::Test {
  const std::string volume = "kubernetes.io/csi/csi.example.com^h1";
  WallTime fenced = *parse_rfc3339("2026-01-02T05:00:00Z");
  WallTime now = fenced + 2min;
  FenceMark mark = {.incident = IncidentId("i1"), .boot_id = "b1", .since = fenced};
  json status = {
      {"nodeInfo", {{"bootID", "b1"}}},
      {"conditions",
       {{{"type", "Ready"}, {"status", "True"}, {"lastTransitionTime", "2026-01-02T05:00:30Z"}}}}};
  Remains remains;

  static kube::Pod pod(const std::string& name, bool terminating = false,
                       const std::string& phase = "Running") {
    json object = {{"metadata", {{"name", name}, {"namespace", "db"}, {"uid", name}}},
                   {"status", {{"phase", phase}}}};
    if (terminating) {
      object["metadata"]["deletionTimestamp"] = "2026-01-02T05:00:00Z";
    }
    return *kube::decode_pod(object);
  }
  static json attachment(const std::string& name, const std::string& node = "n1") {
    return {{"metadata", {{"name", name}, {"uid", name}}},
            {"spec",
             {{"attacher", "csi.example.com"},
              {"nodeName", node},
              {"source", {{"persistentVolumeName", "pv1"}}}}}};
  }
  void kubelet_started(const std::string& at, const std::string& component = "kubelet") {
    remains.starts = {{"items",
                       {{{"reason", "Starting"},
                         {"source", {{"component", component}}},
                         {"lastTimestamp", at}}}}};
  }
  [[nodiscard]] std::string doubt() const {
    const auto node = kube::decode_node(
        {{"metadata", {{"name", "n1"}, {"uid", "u1"}}}, {"status", status}}, /*keep_raw=*/true);
    return doubt_about(*node, mark, remains, now);
  }
};

TEST_F(RemainsTest, where_nothing_is_left_there_is_no_doubt) {
  EXPECT_EQ(doubt(), "");
  remains.pods = {pod("a"), pod("b", false, "Succeeded")};
  remains.attachments = {{"items", json::array({attachment("csi-1", "n2")})}};
  EXPECT_EQ(doubt(), "");
}

TEST_F(RemainsTest, what_could_not_be_read_is_a_doubt) {
  remains.unread = "HTTP 403";
  EXPECT_EQ(doubt(), "HTTP 403");
}

TEST_F(RemainsTest, a_pod_that_is_being_deleted_is_not_gone) {
  remains.pods = {pod("a", true)};
  EXPECT_EQ(doubt(), "pod db/a is still being deleted");
  EXPECT_FALSE(is_there_to_stay(remains.pods[0]));
  EXPECT_FALSE(is_there_to_stay(pod("b", false, "Failed")));
  EXPECT_TRUE(is_there_to_stay(pod("c")));
}

TEST_F(RemainsTest, a_volume_that_no_pod_needs_is_left_over) {
  status["volumesInUse"] = {volume};
  EXPECT_EQ(doubt(),
            "volume " + volume + " is in use or attached, and no pod of the node needs it");
  remains.used_volumes = {volume};
  EXPECT_EQ(doubt(), "");
  status.erase("volumesInUse");
  remains.used_volumes.clear();
  status["volumesAttached"] = {{{"name", volume}, {"devicePath", ""}}};
  EXPECT_NE(doubt(), "");
}

TEST_F(RemainsTest, an_attachment_that_no_pod_needs_or_that_is_going_is_left_over) {
  remains.attachments = {{"items", json::array({attachment("csi-1")})}};
  EXPECT_EQ(doubt(), "volume attachment csi-1 is left, and no pod of the node needs it");
  remains.used_attachments = {"csi-1"};
  EXPECT_EQ(doubt(), "");
  remains.attachments["items"][0]["metadata"]["deletionTimestamp"] = "2026-01-02T05:00:00Z";
  EXPECT_NE(doubt(), "");
  remains.attachments = {{"items", {{{"metadata", {{"name", "csi-1"}}}}}}};
  EXPECT_NE(doubt(), "");  // one that cannot be understood
}

TEST_F(RemainsTest, a_restarted_kubelet_hides_the_volumes_that_nobody_uses_any_more) {
  kubelet_started("2026-01-02T05:00:20Z");
  EXPECT_EQ(doubt(), "");  // there were none
  mark.volumes = {volume};
  EXPECT_EQ(doubt(), "its kubelet was restarted: volume " + volume + " may still be mounted");
  kubelet_started("2026-01-02T04:51:00Z");  // clocks differ
  EXPECT_NE(doubt(), "");
  kubelet_started("2026-01-02T04:49:00Z");
  EXPECT_EQ(doubt(), "");
  kubelet_started("2026-01-02T05:00:20Z", "kube-proxy");
  EXPECT_EQ(doubt(), "");
  kubelet_started("2026-01-02T05:00:20Z");
  remains.used_volumes = {volume};  // a pod that survived has it
  EXPECT_EQ(doubt(), "");
}

TEST_F(RemainsTest, what_may_have_left_no_trace_counts_as_a_restart) {
  mark.volumes = {volume};
  EXPECT_EQ(doubt(), "");
  now = fenced + 51min;
  EXPECT_NE(doubt(), "");  // the event is not kept for so long
  now = fenced + 5min;
  status["conditions"][0]["lastTransitionTime"] = "2026-01-02T05:01:01Z";
  EXPECT_NE(doubt(), "");  // it could not tell anybody
  status["conditions"][0].erase("lastTransitionTime");
  EXPECT_NE(doubt(), "");
}

TEST_F(RemainsTest, more_volumes_than_the_mark_can_tell_are_used_by_nobody) {
  mark.volumes = {volume, "…"};
  remains.used_volumes = {volume};
  kubelet_started("2026-01-02T05:00:20Z");
  EXPECT_NE(doubt(), "");
}

}  // namespace
}  // namespace moonfence::fence
