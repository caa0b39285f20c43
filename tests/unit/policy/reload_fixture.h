#pragma once

// A Reloader on virtual time, told of a ConfigMap that a test edits, and what came of it.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/bundle/reload.h"
#include "support/fake_poller.h"
#include "support/policies.h"

namespace moonfence::policy {

inline constexpr WallTime kStart{std::chrono::seconds(1'795'168'800)};

inline std::string source_of(const std::string& name, const std::string& body,
                             const std::string& more = "") {
  return "return policy { api = 1, name = '" + name + "', version = '1.0.0', summary = 'a test', " +
         more + " pod = function(pod, s)\n" + body + "\nend }";
}
inline std::string deleting(const std::string& name, const std::string& reason = "gone") {
  return source_of(name, "return fence.delete_pod('" + reason + "')");
}
inline std::string guard(const std::string& name) {
  return source_of(name, "return fence.forbid('mine')");
}
// A binding of the file.
inline std::string bind(const std::string& name, const std::string& more = "") {
  return "- {policy: " + name + ", source: " + name + ".lua, namespaces: [\"*\"], mode: enforce" +
         (more.empty() ? "" : ", " + more) + "}\n";
}
inline std::string file_of(const std::string& bindings, const std::string& head = "") {
  return "api: 1\n" + head + "bindings:" + (bindings.empty() ? " []\n" : "\n" + bindings);
}
inline constexpr const char* kBroken = "return policy {";

struct ReloadTest : testing::Test, Reloader::Listener {
  test::FakePoller poller;
  loop::Loop loop{poller};
  StoppedCpuClock stopped;
  port::CpuClock* clock = &stopped;
  ReloadRules rules;
  LastGood persisted;
  std::unique_ptr<Reloader> reloader;
  std::map<std::string, std::string> data;  // of the ConfigMap
  int version = 0;
  std::string uid = "uid-1";  // of the ConfigMap

  std::vector<std::shared_ptr<const PolicySet>> sets;
  std::vector<ReloadReport> reports;
  std::vector<ReloadNews> news;
  int persists = 0;

  void activate(std::shared_ptr<const PolicySet> set) override {
    EXPECT_FALSE(is_observing) << "called back inside observe()";
    sets.push_back(std::move(set));
  }
  void report(const ReloadReport& report, const std::vector<ReloadNews>& more) override {
    reports.push_back(report);
    news.insert(news.end(), more.begin(), more.end());
  }
  void persist(const LastGood& good) override {
    persisted = good;
    ++persists;
  }

  // A new life with what the last one persisted.
  void start() {
    reloader = std::make_unique<Reloader>(loop, *clock, *this, rules, persisted);
    sets.clear();
    reports.clear();
    news.clear();
  }
  [[nodiscard]] kube::ConfigMap map() const {
    kube::ConfigMap map;
    map.ref = {Namespace("moonfence"), "moonfence-policies"};
    map.uid = Uid(uid);
    map.resource_version = ResourceVersion(std::to_string(version));
    map.data = data;
    return map;
  }
  // The ConfigMap is seen as it is in `data`.
  void see() {
    ++version;
    const kube::ConfigMap now = map();
    is_observing = true;
    reloader->observe(&now, kStart + std::chrono::seconds(version));
    is_observing = false;
  }
  void see_nothing() {
    ++version;
    reloader->observe(nullptr, kStart + std::chrono::seconds(version));
  }
  void settle() {
    EXPECT_TRUE(test::run_until(loop, [this] { return reloader->is_idle(); }));
  }
  void apply() {
    if (!reloader) {
      start();
    }
    see();
    settle();
  }
  // "db enforce, web observe" of the set in force.
  [[nodiscard]] std::string in_force() const {
    std::string out;
    for (const Binding& binding : sets.back()->bindings) {
      out += (out.empty() ? "" : ", ") + binding.name + " " + std::string(to_string(binding.mode)) +
             (binding.policy == nullptr ? " held" : "");
    }
    return out;
  }
  [[nodiscard]] const Binding& binding(std::size_t i) const { return sets.back()->bindings.at(i); }
  [[nodiscard]] const PolicyStatus& status(std::size_t i) const {
    return reports.back().policies.at(i);
  }
  // What the binding's policy says about a pod.
  [[nodiscard]] std::string says(std::size_t i) const {
    const auto verdict =
        binding(i).policy->decide(pod_of(sample_pod()), node_of(sample_node()), sample_cluster());
    return verdict ? verdict->reason : verdict.error().text;
  }
  void bind_three() {
    data = {{"moonfence.yaml", file_of(bind("a") + bind("b") + bind("c"))},
            {"a.lua", deleting("a")},
            {"b.lua", deleting("b")},
            {"c.lua", deleting("c")}};
  }

  bool is_observing = false;
};

}  // namespace moonfence::policy
