#include "fence/rules/volume_release.h"

#include <gtest/gtest.h>

#include "policy/input/pod_facts.h"

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

const char* const kOne = "kubernetes.io/csi/csi.example.com^vol-1";
const char* const kTwo = "kubernetes.io/csi/csi.example.com^vol-2";

kube::NodeStorage storage() {
  return {.boot_id = "boot-1",
          .attach_managed = true,
          .in_use = {kOne, kTwo, "kubernetes.io/iscsi/x"},
          .attached = {kOne, kTwo},
          .ready_index = 2,
          .ready_status = "Unknown",
          .ready_heartbeat = "2026-01-02T04:59:00Z"};
}

json node_json() {
  return json::parse(R"({"metadata":{"uid":"u"},"status":{"nodeInfo":{"bootID":"boot-1"},
    "conditions":[{"type":"A"},{"type":"B"},
      {"type":"Ready","status":"Unknown","lastHeartbeatTime":"2026-01-02T04:59:00Z"}],
    "volumesInUse":["kubernetes.io/csi/csi.example.com^vol-1",
                    "kubernetes.io/csi/csi.example.com^vol-2","kubernetes.io/iscsi/x"],
    "volumesAttached":[{"name":"a"}]}})");
}

// Whether an API server would take it.
bool fits(const json& operations, const json& node) {
  try {
    (void)node.patch(operations);
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

TEST(Release, the_volume_is_found_by_the_name_of_its_attachment) {
  const NodeName node("n1");
  const auto name_of = [&](const std::string& handle) {
    return unique_name(policy::attachment_name(handle, "csi.example.com", "n1"), storage(), node);
  };
  EXPECT_EQ(name_of("vol-1"), kOne);
  EXPECT_EQ(name_of("vol-2"), kTwo);
  EXPECT_EQ(name_of("vol-3"), "");
  EXPECT_EQ(unique_name(policy::attachment_name("vol-1", "csi.example.com", "n2"), storage(), node),
            "")
      << "of another node";
  kube::NodeStorage attached = storage();
  attached.in_use.clear();
  EXPECT_EQ(unique_name(policy::attachment_name("vol-1", "csi.example.com", "n1"), attached, node),
            kOne);
}

TEST(Release, a_handle_with_the_controllers_own_mark_in_it_is_not_releasable) {
  EXPECT_TRUE(is_releasable(kOne));
  EXPECT_FALSE(is_releasable("kubernetes.io/csi/csi.example.com^vol^1"));
  EXPECT_FALSE(is_releasable(""));
}

TEST(Release, only_what_one_node_may_have_gains_by_it) {
  policy::VolumeFacts volume;
  volume.access_modes = {"ReadWriteOnce"};
  EXPECT_TRUE(gains_by_release(volume));
  volume.access_modes = {"ReadWriteOncePod"};
  EXPECT_TRUE(gains_by_release(volume));
  volume.access_modes = {"ReadWriteOnce", "ReadOnlyMany"};
  EXPECT_FALSE(gains_by_release(volume));
  volume.access_modes = {"ReadWriteMany"};
  EXPECT_FALSE(gains_by_release(volume));
  volume.access_modes = {};
  EXPECT_FALSE(gains_by_release(volume));
  volume.access_modes = {"ReadWriteOnce"};
  volume.ephemeral = true;
  EXPECT_FALSE(gains_by_release(volume));
}

TEST(Release, the_patch_takes_out_our_volumes_and_nothing_else) {
  const json operations = release_operations(storage(), {kOne});
  const json before = node_json();
  json after = before;
  after["status"]["volumesInUse"] = {kTwo, "kubernetes.io/iscsi/x"};
  EXPECT_EQ(before.patch(operations), after);
  after["status"]["volumesInUse"] = {"kubernetes.io/iscsi/x"};
  EXPECT_EQ(before.patch(release_operations(storage(), {kOne, kTwo})), after);
}

TEST(Release, the_patch_fits_nothing_that_the_kubelet_has_written_since) {
  const json operations = release_operations(storage(), {kOne});
  ASSERT_TRUE(fits(operations, node_json()));
  for (const char* pointer :
       {"/status/nodeInfo/bootID", "/status/conditions/2/type", "/status/conditions/2/status",
        "/status/conditions/2/lastHeartbeatTime", "/status/volumesInUse/0",
        "/status/volumesInUse/2"}) {
    json changed = node_json();
    changed[json::json_pointer(pointer)] = "other";
    EXPECT_FALSE(fits(operations, changed)) << pointer;
  }
  json more = node_json();
  more["status"]["volumesInUse"].push_back("another");
  EXPECT_FALSE(fits(operations, more));
  json moved = node_json();
  moved["status"]["conditions"].erase(0);
  EXPECT_FALSE(fits(operations, moved));
}

TEST(Release, the_patch_does_not_mind_what_controllers_write) {
  json node = node_json();
  node["status"]["volumesAttached"] = json::array();
  node["status"]["conditions"][2]["lastTransitionTime"] = "2026-01-02T05:00:00Z";
  EXPECT_TRUE(fits(release_operations(storage(), {kOne}), node));
}

}  // namespace
}  // namespace moonfence::fence
