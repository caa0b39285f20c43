#include "fuzz/policy_cases.h"

#include <string>
#include <utility>

#include "support/policies.h"

namespace moonfence::fuzz {
namespace {

using nlohmann::json;

json odd_pod() {
  json pod = json::parse(R"({
    "metadata": {"name": 5, "namespace": null, "uid": {}, "labels": ["a"], "annotations": 7,
      "creationTimestamp": "soon", "deletionTimestamp": -1, "deletionGracePeriodSeconds": 1e300,
      "ownerReferences": [null, 3, {"controller": "yes"}, {"controller": true, "kind": 1}]},
    "spec": {"nodeName": ["n1"], "priority": 18446744073709551615, "containers": {"": [[[]]]},
      "volumes": [null, {"name": 3}, {"": {}, "configMap": 1, "csi": null}]},
    "status": {"phase": true, "conditions": [7, {"type": "Ready", "status": {}}],
      "containerStatuses": [1, {"state": []}, {"state": {"waiting": {"reason": 7}}}],
      "initContainerStatuses": {"state": 1}}})");
  pod["metadata"]["long"] = std::string(20000, '\xC3');
  pod["status"]["reason"] = std::string("a\0b\x1b[31m\xff", 9);
  return pod;
}

// In the middle of its init containers, one of which is a sidecar.
json starting_pod() {
  json pod = sample_pod();
  pod["metadata"].erase("deletionTimestamp");
  pod["spec"]["initContainers"] =
      json::parse(R"([{"name": "side", "restartPolicy": "Always"}, {"name": "a"}, {"name": "b"}])");
  pod["status"] = json::parse(R"({
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "True", "reason": "SchedulingGated"},
                   {"type": "Initialized", "status": "False"}],
    "initContainerStatuses": [
      {"name": "side", "started": true, "state": {"running": {}}},
      {"name": "a", "state": {"terminated": {"exitCode": 0}}},
      {"name": "b", "state": {"terminated": {"exitCode": 137, "signal": 9}}}],
    "containerStatuses": [{"ready": true, "state": {"terminated": {"reason": "Completed"}}},
                          {"ready": true, "state": {"running": {}}}]})");
  return pod;
}

policy::PodFacts empty_facts() {
  policy::PodFacts facts;
  facts.volumes.emplace();
  facts.candidates.emplace();
  facts.owner_chain.emplace();
  facts.siblings.emplace();
  return facts;
}

policy::PodFacts odd_facts() {
  policy::PodFacts facts = sample_facts();
  facts.volumes->push_back({.name = "\xff", .claim = std::string(9, '\0'), .pv = "\n"});
  facts.volumes->push_back({.pv = "pvc-1", .driver = "\x1b[2J", .attachment = ""});
  facts.siblings->push_back({.attach_error = std::string(5000, '\xC2')});
  facts.candidates->emplace_back("\x7f");
  facts.fetched = json::array({1});
  return facts;
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> list;
    list.push_back({.pod = pod_of(sample_pod()),
                    .node = node_of(sample_node()),
                    .facts = {},
                    .known = sample_facts(),
                    .answer = {{"status", 200}, {"body", {{"items", {1, {{"a", nullptr}}}}}}}});
    list.push_back({.pod = pod_of(minimal_pod()),
                    .node = node_of(sample_node()),
                    .facts = {},
                    .known = empty_facts(),
                    .answer = {{"status", 404}}});
    list.push_back({.pod = pod_of(starting_pod()),
                    .node = node_of(sample_node()),
                    .facts = {},
                    .known = sample_facts(),
                    .answer = {{"status", 200}, {"body", "text"}}});
    // The API server would not store it; a proxy might send it.
    list.push_back({.pod = pod_of(minimal_pod()),
                    .node = {},
                    .facts = {.exists = false, .failures = 9},
                    .known = odd_facts(),
                    .answer = "no object"});
    list.back().pod.raw = std::make_shared<const json>(odd_pod());
    return list;
  }();
  return all;
}

}  // namespace moonfence::fuzz
