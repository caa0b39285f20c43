#include "policy/input/display_status.h"

#include <gtest/gtest.h>

namespace moonfence {
namespace {

using nlohmann::json;

std::string shown(const char* pod) {
  return policy::display_status(json::parse(pod));
}

TEST(DisplayStatus, it_is_the_phase_of_a_plain_pod) {
  EXPECT_EQ(shown(R"({"status": {"phase": "Running"}})"), "Running");
  EXPECT_EQ(shown(R"({"status": {"phase": "Failed", "reason": "Evicted"}})"), "Evicted");
  EXPECT_EQ(shown("{}"), "");
  EXPECT_EQ(shown(R"({"status": 7})"), "");
}

TEST(DisplayStatus, a_pod_that_is_being_deleted_terminates) {
  EXPECT_EQ(shown(R"({"metadata": {"deletionTimestamp": "t"}, "status": {"phase": "Running"}})"),
            "Terminating");
  EXPECT_EQ(shown(R"({"metadata": {"deletionTimestamp": "t"},
                      "status": {"phase": "Running", "reason": "NodeLost"}})"),
            "Unknown");
  EXPECT_EQ(shown(R"({"metadata": {"deletionTimestamp": "t"}, "status": {"phase": "Failed"}})"),
            "Failed");
}

TEST(DisplayStatus, a_container_that_is_not_well_names_it) {
  EXPECT_EQ(shown(R"({"status": {"phase": "Running", "containerStatuses": [
                      {"state": {"waiting": {"reason": "CrashLoopBackOff"}}},
                      {"ready": true, "state": {"running": {}}}]}})"),
            "CrashLoopBackOff");
  EXPECT_EQ(shown(R"({"status": {"phase": "Failed", "containerStatuses": [
                      {"state": {"terminated": {"exitCode": 3}}}]}})"),
            "ExitCode:3");
  EXPECT_EQ(shown(R"({"status": {"phase": "Failed", "containerStatuses": [
                      {"state": {"terminated": {"signal": 9, "exitCode": 137}}}]}})"),
            "Signal:9");
}

TEST(DisplayStatus, a_completed_container_beside_a_running_one) {
  const char* pod = R"({"status": {"phase": "Running",
    "conditions": [{"type": "Ready", "status": "%"}], "containerStatuses": [
      {"state": {"terminated": {"reason": "Completed"}}},
      {"ready": true, "state": {"running": {}}}]}})";
  auto ready = json::parse(pod);
  ready["status"]["conditions"][0]["status"] = "True";
  EXPECT_EQ(policy::display_status(ready), "Running");
  EXPECT_EQ(shown(pod), "NotReady");
}

TEST(DisplayStatus, initialization_comes_first) {
  EXPECT_EQ(shown(R"({"spec": {"initContainers": [{}, {}]},
                      "status": {"phase": "Pending", "initContainerStatuses": [
                        {"state": {"terminated": {"exitCode": 0}}}, {"state": {"running": {}}}]}})"),
            "Init:1/2");
  EXPECT_EQ(shown(R"({"status": {"phase": "Pending", "initContainerStatuses": [
                        {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}})"),
            "Init:Error");
  EXPECT_EQ(shown(R"({"status": {"phase": "Pending", "initContainerStatuses": [
                        {"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}})"),
            "Init:ImagePullBackOff");
  EXPECT_EQ(shown(R"({"spec": {"initContainers": [{"name": "s", "restartPolicy": "Always"}]},
                      "status": {"phase": "Running", "initContainerStatuses": [
                        {"name": "s", "started": true, "state": {"running": {}}}]}})"),
            "Running");
}

TEST(DisplayStatus, a_gated_pod_says_so) {
  EXPECT_EQ(shown(R"({"status": {"phase": "Pending", "conditions": [
                      {"type": "PodScheduled", "reason": "SchedulingGated"}]}})"),
            "SchedulingGated");
}

}  // namespace
}  // namespace moonfence
