// What one decision costs: a fresh state, the policy's text compiled and run, inputs over a pod of
// some 6.6 KB with three volumes, the verdict. For each shipped policy, against the limit of 20 us
// plus 15 us per KB of text, of which deciding (everything after the text was run) at most 5 us.

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <nlohmann/json.hpp>

#include "policy/builtin.h"
#include "policy/facts.h"
#include "support/policies.h"

namespace moonfence {
namespace {

// As a StatefulSet's pod with three claims and the usual annotations prints.
nlohmann::json pod_of_a_database() {
  nlohmann::json pod = sample_pod();
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  pod["metadata"]["labels"]["app"] = "noobaa";
  for (int i = 0; i < 12; ++i) {
    pod["metadata"]["annotations"]["example.com/annotation-" + std::to_string(i)] =
        std::string(120, 'a');
  }
  for (int i = 0; i < 3; ++i) {
    const std::string claim = "data-" + std::to_string(i);
    pod["spec"]["volumes"].push_back(
        {{"name", claim}, {"persistentVolumeClaim", {{"claimName", claim + "-web-0"}}}});
  }
  for (auto& container : pod["spec"]["containers"]) {
    container["image"] = "registry.example.com/team/service@sha256:" + std::string(64, '0');
    for (int i = 0; i < 20; ++i) {
      container["env"].push_back(
          {{"name", "VARIABLE_" + std::to_string(i)}, {"value", std::string(40, 'v')}});
    }
  }
  return pod;
}

policy::PodFacts three_volumes() {
  policy::PodFacts facts;
  facts.volumes.emplace();
  for (int i = 0; i < 3; ++i) {
    const std::string number = std::to_string(i);
    facts.volumes->push_back({.name = "data-" + number,
                              .claim = "data-" + number + "-web-0",
                              .space = "shop",
                              .state = "bound",
                              .pv = "pv-" + number,
                              .driver = "csi.example.com",
                              .handle = "handle-" + number,
                              .storage_class = "fast",
                              .provisioner = "csi.example.com",
                              .access_modes = {"ReadWriteOnce"},
                              .attachment = "csi-" + std::string(64, 'f')});
  }
  facts.candidates = std::vector<std::string>{"n2", "n3"};
  facts.root_owner.emplace();
  facts.siblings.emplace();
  return facts;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void decide(benchmark::State& state, const policy::BuiltinPolicy& builtin) {
  static ThreadCpuClock clock;
  const auto policy =
      policy::Policy::load(std::string(builtin.source), std::string(builtin.file), clock);
  if (!policy) {
    state.SkipWithError(policy.error().text.c_str());
    return;
  }
  const kube::Pod pod = pod_of(pod_of_a_database());
  const kube::Node node = node_of(sample_node());
  const policy::ClusterFacts cluster = sample_cluster();
  const policy::PodFacts facts = three_volumes();
  std::vector<double> whole;
  std::vector<double> deciding;
  for (auto _ : state) {
    const Duration before = clock.thread_time();
    const policy::Evaluation evaluation = policy->evaluate(pod, node, cluster, {}, facts);
    const Duration took = clock.thread_time() - before;  // the state's end included
    if (!evaluation.verdict) {
      state.SkipWithError(evaluation.verdict.error().text.c_str());
      return;
    }
    whole.push_back(static_cast<double>(took.count()) / 1000);
    deciding.push_back(static_cast<double>(evaluation.usage.deciding.count()) / 1000);
  }
  const double kilobytes = static_cast<double>(builtin.source.size()) / 1024;
  state.counters["source_KB"] = kilobytes;
  state.counters["pod_KB"] = static_cast<double>(pod.raw->dump().size()) / 1024;
  state.counters["median_us"] = median(whole);
  state.counters["limit_us"] = 20 + 15 * kilobytes;
  state.counters["of_limit"] = median(whole) / (20 + 15 * kilobytes);
  state.counters["deciding_us"] = median(deciding);
}

}  // namespace
}  // namespace moonfence

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (const moonfence::policy::BuiltinPolicy& builtin : moonfence::policy::builtin_policies()) {
    benchmark::RegisterBenchmark(std::string(builtin.name).c_str(),
                                 [&builtin](auto& state) { moonfence::decide(state, builtin); })
        ->Iterations(20'000)
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
