#pragma once

// A simulated cluster in virtual time, and what tests ask of it.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/ground/facts.h"
#include "sim/world/cluster.h"
#include "support/fake_poller.h"
#include "support/fake_random.h"

namespace moonfence::sim {

using namespace std::chrono_literals;

struct ClusterTest : testing::Test {
  Plan plan;
  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeRandom random{7};
  Story story;
  std::vector<Happening> told;
  std::unique_ptr<Cluster> cluster;

  ClusterTest() {
    plan.nodes = {{.name = "n1", .zone = "a", .control_plane = false, .capacity = 110},
                  {.name = "n2", .zone = "a", .control_plane = false, .capacity = 110},
                  {.name = "n3", .zone = "b", .control_plane = false, .capacity = 110}};
    story.listen([this](const Happening& happening) { told.push_back(happening); });
  }

  WorkloadPlan& add(WorkloadKind kind, const std::string& name) {
    plan.workloads.emplace_back();
    plan.workloads.back().kind = kind;
    plan.workloads.back().name = name;
    return plan.workloads.back();
  }

  void start() {
    const Moment begin = loop.now();
    cluster = std::make_unique<Cluster>(
        loop, random,
        [this, begin] { return WallTime(std::chrono::hours(500000)) + (loop.now() - begin); }, plan,
        story);
  }

  void run_for(Duration duration) { test::run_for(loop, duration); }
  bool run_until(const std::function<bool()>& done, Duration limit = 10min) {
    return test::run_until(loop, done, limit, 1000000);
  }

  bool perform(Verb verb, const std::string& target,
               std::map<std::string, std::string> arguments = {}) {
    return cluster->perform(
        {.at = {}, .verb = verb, .target = target, .arguments = std::move(arguments)});
  }

  [[nodiscard]] Object node(const std::string& name) const {
    return cluster->store().find({.resource = "nodes", .space = {}, .name = name});
  }
  [[nodiscard]] Object pod(const std::string& name) const {
    return cluster->store().find({.resource = "pods", .space = "noobaa", .name = name});
  }
  [[nodiscard]] std::string ready(const std::string& name) const {
    return condition_status(*node(name), "Ready");
  }
  [[nodiscard]] bool serves(const std::string& name, const std::string& on) const {
    const Object found = pod(name);
    return found != nullptr && serves(*found) && node_of(*found) == on;
  }
  [[nodiscard]] static bool serves(const Json& pod) {
    return phase_of(pod) == "Running" && condition_status(pod, "Ready") == "True" &&
           !is_terminating(pod);
  }
  // Of a workload, in the order of their names.
  [[nodiscard]] std::vector<Object> pods_of(const std::string& workload) const {
    std::vector<Object> found;
    for (const Object& candidate : cluster->store().list("pods")) {
      if (text_field(*candidate, {"metadata", "labels", "workload"}) == workload) {
        found.push_back(candidate);
      }
    }
    return found;
  }
  [[nodiscard]] std::size_t serving(const std::string& workload) const {
    std::size_t count = 0;
    for (const Object& candidate : pods_of(workload)) {
      count += serves(*candidate) ? 1U : 0U;
    }
    return count;
  }
  [[nodiscard]] bool contains_container(const std::string& machine, const std::string& uid) const {
    return cluster->machines().by_name.at(machine).containers.contains(uid);
  }
  [[nodiscard]] std::set<std::string> published(const std::string& handle) const {
    const auto found = cluster->machines().published.find(handle);
    return found == cluster->machines().published.end() ? std::set<std::string>() : found->second;
  }
  [[nodiscard]] std::size_t attachments_on(const std::string& name) const {
    std::size_t count = 0;
    for (const Object& attachment : cluster->store().list("volumeattachments")) {
      count += text_field(*attachment, {"spec", "nodeName"}) == name ? 1U : 0U;
    }
    return count;
  }

  // As moonfence deletes: by force, of that UID.
  void force_delete(const Json& target) {
    DeleteOptions options;
    options.uid = uid_of(target);
    options.grace_seconds = 0;
    ASSERT_TRUE(cluster->store().remove(key_of("pods", target), options, "moonfence-0"));
  }
  void delete_attachments_of(const std::string& name) {
    for (const Object& attachment : cluster->store().list("volumeattachments")) {
      if (text_field(*attachment, {"spec", "nodeName"}) == name) {
        DeleteOptions options;
        options.uid = uid_of(*attachment);
        ASSERT_TRUE(cluster->store().remove(key_of("volumeattachments", *attachment), options,
                                            "moonfence-0"));
      }
    }
  }
  // Powers the node off and waits until the API says so, with the NoSchedule taint.
  void lose(const std::string& name) {
    ASSERT_TRUE(perform(Verb::PowerOff, name));
    ASSERT_TRUE(run_until(
        [&] { return has_taint(*node(name), "node.kubernetes.io/unreachable", "NoSchedule"); }));
  }
};

}  // namespace moonfence::sim
