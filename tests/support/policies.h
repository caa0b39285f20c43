#pragma once

// What tests of policies share: clocks of CPU time, a pod, a node, and short ways to load and
// decide.

#include <ctime>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "kube/objects/objects.h"
#include "policy/host/policy.h"
#include "port/cpu_clock.h"

namespace moonfence {

// Stands still: what a test measures is instructions and memory.
class StoppedCpuClock final : public port::CpuClock {
 public:
  Duration thread_time() override { return {}; }
};

// Each look at it costs `step`.
class TickingCpuClock final : public port::CpuClock {
 public:
  explicit TickingCpuClock(Duration step) : step_(step) {}
  Duration thread_time() override { return now_ += step_; }

 private:
  Duration step_;
  Duration now_{};
};

// The thread's own, for scripts that do a lot of work in few instructions.
class ThreadCpuClock final : public port::CpuClock {
 public:
  Duration thread_time() override {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  }
};

inline kube::Pod pod_of(const nlohmann::json& object) {
  kube::Pod pod;
  pod.raw = std::make_shared<const nlohmann::json>(object);
  const auto& metadata = object.at("metadata");
  pod.ref = {Namespace(metadata.at("namespace").get<std::string>()),
             metadata.at("name").get<std::string>()};
  pod.uid = Uid(metadata.value("uid", ""));
  if (metadata.contains("labels") && metadata.at("labels").is_object()) {
    pod.labels = metadata.at("labels").get<kube::Labels>();
  }
  return pod;
}

inline kube::Node node_of(const nlohmann::json& object) {
  kube::Node node;
  node.raw = std::make_shared<const nlohmann::json>(object);
  node.name = NodeName(object.at("metadata").at("name").get<std::string>());
  return node;
}

inline nlohmann::json sample_pod() {
  return nlohmann::json::parse(R"({
    "metadata": {
      "name": "web-0", "namespace": "shop", "uid": "pod-uid",
      "creationTimestamp": "2026-01-02T03:04:05Z",
      "deletionTimestamp": "2026-01-02T04:00:00Z", "deletionGracePeriodSeconds": 30,
      "labels": {"zone": "b", "app": "web", "tier": "front"},
      "annotations": {"example.com/note": "hello"},
      "ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "extra", "uid": "u1"},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u2",
         "controller": true}]},
    "spec": {"nodeName": "n1", "priority": 7,
             "containers": [{"name": "main"}, {"name": "side"}]},
    "status": {"phase": "Running", "reason": "NodeLost",
               "conditions": [{"type": "Ready", "status": "True"}]}})");
}

// As little as the API server lets a pod have.
inline nlohmann::json minimal_pod() {
  return {{"metadata", {{"name", "bare"}, {"namespace", "default"}}}};
}

inline nlohmann::json sample_node() {
  return nlohmann::json::parse(R"({
    "metadata": {"name": "n1", "labels": {"rack": "r2"}, "annotations": {}},
    "spec": {"unschedulable": true,
             "taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]},
    "status": {"conditions": [
      {"type": "MemoryPressure", "status": "False"},
      {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-02T03:00:00Z"}]}})");
}

inline policy::ClusterFacts sample_cluster() {
  return {.now = WallTime(std::chrono::seconds(1767330000)),
          .nodes_total = 5,
          .nodes_ready = 4,
          .nodes_schedulable = 3};
}

// Three claims of a pod: two that lead to a volume of two drivers, one that leads nowhere.
inline policy::PodFacts sample_facts() {
  policy::PodFacts facts;
  facts.volumes = {{.name = "data",
                    .claim = "data-web-0",
                    .space = "shop",
                    .state = "bound",
                    .pv = "pvc-1",
                    .driver = "csi.example.com",
                    .handle = "vol-1",
                    .storage_class = "fast",
                    .provisioner = "csi.example.com",
                    .access_modes = {"ReadWriteOnce"},
                    .attachment = "csi-1"},
                   {.name = "lost", .claim = "lost-web-0", .space = "shop", .state = "unbound"},
                   {.name = "share",
                    .claim = "share",
                    .space = "shop",
                    .state = "bound",
                    .pv = "pvc-2",
                    .driver = "",
                    .handle = "",
                    .storage_class = "nfs",
                    .access_modes = {"ReadWriteMany", "ReadOnlyMany"}}};
  facts.candidates = {"n2", "n3"};
  facts.owner_chain = {
      {.kind = "StatefulSet", .name = "web", .uid = "u2", .api_version = "apps/v1"},
      {.kind = "Widget", .name = "w", .uid = "u9", .api_version = "x.io/v1"}};
  facts.siblings = {{.name = "web-1",
                     .uid = "u8",
                     .node_name = "n2",
                     .claim = "share",
                     .phase = "Pending",
                     .attach_error = "Multi-Attach error"}};
  facts.fetched = {{"vol", {{"status", 200}, {"body", {{"health", "ok"}, {"none", nullptr}}}}}};
  return facts;
}

// A policy file named "test.lua" whose pod function has this body.
inline std::string policy_text(const std::string& body, const std::string& more = "") {
  return "return policy { api = 1, name = 'test', version = '1.0.0', summary = 'a test', " + more +
         " pod = function(pod, s, cluster, node)\n" + body + "\nend }";
}

inline Result<policy::Policy> load_text(std::string text) {
  static StoppedCpuClock clock;
  return policy::Policy::load(std::move(text), "test.lua", clock);
}

// "" when it loads.
inline std::string load_error(std::string text) {
  const auto policy = load_text(std::move(text));
  return policy ? "" : policy.error().text;
}

inline policy::Evaluation evaluate_body(const std::string& body, const std::string& more = "",
                                        const nlohmann::json& pod = sample_pod()) {
  auto policy = load_text(policy_text(body, more));
  if (!policy) {
    return {.verdict = failure(std::move(policy.error()))};
  }
  return policy->evaluate(pod_of(pod), node_of(sample_node()), sample_cluster(), {},
                          sample_facts());
}

// The error of an evaluation, or "" and the verdict's words: "skip: because".
inline std::string outcome(const std::string& body, const std::string& more = "",
                           const nlohmann::json& pod = sample_pod()) {
  const auto result = evaluate_body(body, more, pod).verdict;
  if (!result) {
    return result.error().text;
  }
  return std::string(policy::to_string(result->kind)) + ": " + result->reason;
}

// What an expression of a policy shows: tostring(expression).
inline std::string value_of(const std::string& expression, const std::string& more = "") {
  const std::string text =
      outcome("return fence.skip('<' .. tostring(" + expression + ") .. '>')", more);
  const auto from = text.find('<');
  const bool skipped = text.starts_with("skip: ") && from != std::string::npos;
  return skipped ? text.substr(from + 1, text.size() - from - 2) : text;
}

}  // namespace moonfence
