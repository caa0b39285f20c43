#include "policy/cases/smoke.h"

#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

namespace moonfence::policy {
namespace {

using nlohmann::json;

constexpr WallTime kNow{std::chrono::seconds(1'795'169'130)};  // any moment will do

json minimal_object() {
  return json::parse(R"({
    "apiVersion": "v1", "kind": "Pod",
    "metadata": {"name": "smoke", "namespace": "default", "uid": "smoke-uid"},
    "spec": {"nodeName": "node-1", "containers": [{"name": "main"}]}})");
}

json full_object() {
  return json::parse(R"({
    "apiVersion": "v1", "kind": "Pod",
    "metadata": {
      "name": "smoke-0", "namespace": "default", "uid": "smoke-uid", "resourceVersion": "7",
      "creationTimestamp": "2026-11-20T09:00:00Z",
      "deletionTimestamp": "2026-11-20T10:05:00Z", "deletionGracePeriodSeconds": 30,
      "labels": {"app": "smoke", "tier": "db"},
      "annotations": {"example.com/note": "text"},
      "finalizers": ["example.com/hold"],
      "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "smoke",
                           "uid": "owner-uid", "controller": true}]},
    "spec": {
      "nodeName": "node-1", "priority": 1000, "priorityClassName": "high",
      "serviceAccountName": "smoke", "terminationGracePeriodSeconds": 30,
      "initContainers": [{"name": "init"}],
      "containers": [{"name": "main"}, {"name": "side"}],
      "tolerations": [{"key": "node.kubernetes.io/unreachable", "operator": "Exists",
                       "effect": "NoExecute", "tolerationSeconds": 300}],
      "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-smoke-0"}},
                  {"name": "tmp", "emptyDir": {}},
                  {"name": "conf", "configMap": {"name": "smoke"}}]},
    "status": {
      "phase": "Running", "reason": "NodeLost", "podIP": "10.0.0.1", "hostIP": "10.1.0.1",
      "conditions": [{"type": "Ready", "status": "False",
                      "lastTransitionTime": "2026-11-20T10:00:00Z"}],
      "containerStatuses": [{"name": "main", "ready": false, "restartCount": 1}]}})");
}

json node_object() {
  return json::parse(R"({
    "apiVersion": "v1", "kind": "Node",
    "metadata": {"name": "node-1", "uid": "node-uid",
                 "creationTimestamp": "2026-11-01T09:00:00Z",
                 "labels": {"kubernetes.io/hostname": "node-1",
                            "topology.kubernetes.io/zone": "zone-a",
                            "topology.kubernetes.io/region": "region-1"}, "annotations": {}},
    "spec": {"unschedulable": true, "providerID": "example:///node-1",
             "taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute",
                         "timeAdded": "2026-11-20T10:00:01Z"}]},
    "status": {
      "nodeInfo": {"bootID": "boot-1", "machineID": "machine-1", "systemUUID": "system-1"},
      "addresses": [{"type": "InternalIP", "address": "10.1.0.1"}],
      "conditions": [
      {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-11-20T10:00:00Z"}]}})");
}

VolumeFacts bound_volume() {
  return {.name = "data",
          .claim = "data-smoke-0",
          .space = "default",
          .state = "bound",
          .pv = "pv-1",
          .driver = "csi.example.com",
          .handle = "volume-1",
          .storage_class = "fast",
          .provisioner = "csi.example.com",
          .access_modes = {"ReadWriteOnce"},
          .attachment = "csi-1"};
}

VolumeFacts unresolved_volume() {
  return {.name = "data",
          .claim = "data-smoke-0",
          .space = "default",
          .state = "claim_missing",
          .pv = {},
          .driver = {},
          .handle = {},
          .storage_class = {},
          .provisioner = {},
          .access_modes = {},
          .attachment = {}};
}

PodFacts nothing_found() {
  PodFacts facts;
  facts.volumes.emplace();
  facts.candidates.emplace();
  facts.owner_chain.emplace();
  facts.siblings.emplace();
  return facts;
}

PodFacts everything_found() {
  PodFacts facts = nothing_found();
  facts.volumes->push_back(bound_volume());
  facts.candidates->emplace_back("node-2");
  facts.owner_chain->push_back(
      {.kind = "StatefulSet", .name = "smoke", .uid = "owner-uid", .api_version = "apps/v1"});
  facts.siblings->push_back(SiblingFacts{.name = "smoke-1",
                                         .uid = "sibling-uid",
                                         .node_name = "node-2",
                                         .claim = "data-smoke-0",
                                         .phase = "Pending",
                                         .ready = false,
                                         .terminating = false,
                                         .attach_error = "Multi-Attach error"});
  return facts;
}

SmokeCase make_case(std::string name, const json& object, PodFacts gathered) {
  SmokeCase out;
  out.name = std::move(name);
  out.pod.ref = {.space = Namespace("default"),
                 .name = object.at("metadata").at("name").get<std::string>()};
  out.pod.uid = Uid("smoke-uid");
  out.pod.node = NodeName("node-1");
  out.pod.raw = std::make_shared<const json>(object);
  out.node.name = NodeName("node-1");
  out.node.uid = Uid("node-uid");
  out.node.raw = std::make_shared<const json>(node_object());
  out.cluster = {.now = kNow, .nodes_total = 3, .nodes_ready = 2, .nodes_schedulable = 2};
  out.gathered = std::move(gathered);
  return out;
}

std::vector<SmokeCase> make_cases() {
  json orphan = full_object();
  orphan["metadata"].erase("ownerReferences");
  PodFacts ownerless = everything_found();
  ownerless.owner_chain->clear();
  PodFacts unresolved = everything_found();
  unresolved.volumes->front() = unresolved_volume();
  unresolved.siblings->clear();
  return {make_case("a minimal pod", minimal_object(), nothing_found()),
          make_case("a pod with everything", full_object(), everything_found()),
          make_case("a pod without an owner", orphan, std::move(ownerless)),
          make_case("a pod with an unresolved claim", full_object(), std::move(unresolved))};
}

}  // namespace

const std::vector<SmokeCase>& smoke_cases() {
  static const std::vector<SmokeCase> cases = make_cases();
  return cases;
}

}  // namespace moonfence::policy
