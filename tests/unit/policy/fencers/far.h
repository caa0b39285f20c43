#pragma once

// The fields are those of fence-agents-remediation.medik8s.io/v1alpha1, and what FAR and the API
// server write into them.

#include <string>
#include <vector>

#include "unit/policy/fencers/shipped_fencer.h"

namespace moonfence::policy::far {

using nlohmann::json;

inline constexpr const char* kApi = "fence-agents-remediation.medik8s.io/v1alpha1";
inline constexpr const char* kFinalizer = "v:\"fence-agents-remediation.medik8s.io/far-finalizer\"";
inline constexpr const char* kNodeNameField = "f:remediation.medik8s.io/node-name";
inline constexpr const char* kSecret = "correct-horse-battery";

struct FenceAgentsRemediationTest : testing::Test {
  ShippedFencer fencer{
      "fence-agents-remediation",
      {{"namespace", "far"},
       {"template", "bmcs"},
       {"verifying",
        {"fence_ipmilan", "fence_redfish", "fence_gce", "fence_ilo3", "fence_scsi", "fence_zvmip",
         "fence_vmware_rest", "fence_apc_snmp", "fence_tripplite_snmp", "fence_ilo3_ssh",
         "fence_ilo4_ssh", "fence_ilo5_ssh"}}}};
  kube::Node node = machine("");
  json spec = {{"agent", "fence_ipmilan"},
               {"retrycount", 5},
               {"retryinterval", "5s"},
               {"timeout", "1m0s"},
               {"remediationStrategy", "ResourceDeletion"},
               {"sharedparameters",
                {{"--lanplus", ""},
                 {"--method", "onoff"},
                 {"--username", "admin"},
                 {"--password", kSecret}}},
               {"nodeparameters", {{"--ip", {{"n1", "10.0.0.1"}, {"n2", "10.0.0.2"}}}}}};
  json bmcs = {{"metadata", {{"name", "bmcs"}, {"namespace", "far"}}},
               {"spec", {{"template", {{"spec", spec}}}}}};
  // The kubelet was heard at 00:01:00 for the last time, Kubernetes called it Unknown at 00:01:40.
  json node_object = {
      {"metadata", {{"name", "n1"}, {"uid", "u1"}}},
      {"status",
       {{"conditions", json::array({{{"type", "Ready"},
                                     {"status", "Unknown"},
                                     {"lastHeartbeatTime", "2026-01-01T00:00:50Z"},
                                     {"lastTransitionTime", "2026-01-01T00:01:40Z"}}})}}}};
  json lease = {{"spec", {{"renewTime", "2026-01-01T00:01:00.123456Z"}}}};
  std::vector<json> remediations = {};

  // One that FAR has ended well in this outage. FAR's webhook has written its durations as FAR does
  // when it was made, so that nothing of the spec was written later.
  json done(const std::string& name = "r1") const {
    const auto condition = [](const char* type, const char* status, const char* reason) {
      return json{{"type", type},
                  {"status", status},
                  {"reason", reason},
                  {"message", std::string("in words, ") + kSecret},
                  {"lastTransitionTime", "2026-01-01T00:02:30Z"}};
    };
    const json made = {
        {"manager", "nhc"},
        {"operation", "Update"},
        {"time", "2026-01-01T00:02:00Z"},
        {"fieldsV1",
         {{"f:metadata",
           {{"f:annotations", {{".", json::object()}, {kNodeNameField, json::object()}}}}},
          {"f:spec",
           {{".", json::object()},
            {"f:agent", json::object()},
            {"f:timeout", json::object()},
            {"f:retrycount", json::object()}}}}}};
    const json taken_on = {
        {"manager", "manager"},
        {"operation", "Update"},
        {"time", "2026-01-01T00:02:01Z"},
        {"fieldsV1",
         {{"f:metadata",
           {{"f:finalizers", {{".", json::object()}, {kFinalizer, json::object()}}}}}}}};
    const json told = {{"manager", "manager"},
                       {"operation", "Update"},
                       {"subresource", "status"},
                       {"time", "2026-01-01T00:02:40Z"},
                       {"fieldsV1", {{"f:status", {{"f:conditions", json::object()}}}}}};
    return {{"metadata",
             {{"name", name},
              {"namespace", "far"},
              {"generation", 1},
              {"creationTimestamp", "2026-01-01T00:02:00Z"},
              {"managedFields", {made, taken_on, told}},
              {"annotations", {{"remediation.medik8s.io/node-name", "n1"}}}}},
            {"spec", spec},
            {"status",
             {{"conditions",
               json::array({condition("Processing", "False", "RemediationFinishedSuccessfully"),
                            condition("FenceAgentActionSucceeded", "True", "FenceAgentSucceeded"),
                            condition("Succeeded", "True", "RemediationFinishedSuccessfully")})}}}};
  }
  // Without the webhook FAR rewrites durations as it takes it on.
  static json rewritten(json of) {
    of["metadata"]["generation"] = 2;
    written_by(of, 0)["fieldsV1"]["f:spec"].erase("f:timeout");
    written_by(of, 1)["fieldsV1"]["f:spec"] = {{"f:timeout", json::object()},
                                               {"f:retryinterval", json::object()}};
    return of;
  }
  static json& processing(json& of) { return of["status"]["conditions"][0]; }
  static json& succeeded(json& of) { return of["status"]["conditions"][1]; }
  static json& written_by(json& of, std::size_t at) { return of["metadata"]["managedFields"][at]; }
  json& ready() { return node_object["status"]["conditions"][0]; }
  json& given() { return bmcs["spec"]["template"]["spec"]; }

  Cloud cloud() const {
    const std::string api(kApi);
    return {{"get v1 nodes n1", {.body = node_object}},
            {"get coordination.k8s.io/v1 leases kube-node-lease/n1", {.body = lease}},
            {"get " + api + " fenceagentsremediationtemplates far/bmcs", {.body = bmcs}},
            {"list " + api + " fenceagentsremediations far", {.body = {{"items", remediations}}}}};
  }
  // None of what is said has a secret in it.
  std::string says() {
    std::string said = fencer.says(node, cloud());
    EXPECT_EQ(said.find(kSecret), std::string::npos) << said;
    return said;
  }
  std::string word() { return word_in(says()); }
  std::string says_of(const json& remediation) {
    remediations = {remediation};
    return says();
  }
  std::string word_of(const json& remediation) { return word_in(says_of(remediation)); }
  // Of a remediation that was made with this changed.
  std::string says_with(const json& changes) {
    const json good = spec;
    spec.merge_patch(changes);
    std::string said = says_of(done());
    spec = good;
    return said;
  }
  std::string says_given(const json& parameters) {
    return says_with({{"sharedparameters", parameters}});
  }
  static std::string word_in(const std::string& said) { return said.substr(0, said.find(':')); }
};

}  // namespace moonfence::policy::far
