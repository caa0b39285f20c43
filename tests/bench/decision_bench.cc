// What deciding costs, on a processor that does nothing else.
//
//   policy/NAME   one decision of a shipped policy: a fresh state, the compiled policy loaded and
//                 run, inputs over a pod of some 5.7 KB with three volumes, the verdict. Limit:
//                 100 us, of which deciding (all after the text was run) at most 5 us.
//   pod/NAME/N    the same with a pod N times as large, in its fields and in its volumes
//   text/KB       a policy with so much text of which the decision runs little
//   load/NAME     from the text to a policy, which is done once for each edit
//   reload/N      N policies in the ConfigMap, of which all were edited: read, validated, in force

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <nlohmann/json.hpp>

#include "policy/bundle/builtin.h"
#include "policy/bundle/reload.h"
#include "policy/values/facts.h"
#include "support/fake_poller.h"
#include "support/policies.h"

namespace moonfence {
namespace {

constexpr int kDecisions = 20'000;

ThreadCpuClock& cpu_clock() {
  static ThreadCpuClock clock;
  return clock;
}

// As a StatefulSet's pod with three claims and the usual annotations prints; `times` as much of it.
nlohmann::json pod_of_a_database(int times) {
  nlohmann::json pod = sample_pod();
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  pod["metadata"]["labels"]["app"] = "noobaa";
  for (int i = 0; i < 12 * times; ++i) {
    pod["metadata"]["annotations"]["example.com/annotation-" + std::to_string(i)] =
        std::string(120, 'a');
  }
  for (int i = 0; i < 3 * times; ++i) {
    const std::string claim = "data-" + std::to_string(i);
    pod["spec"]["volumes"].push_back(
        {{"name", claim}, {"persistentVolumeClaim", {{"claimName", claim + "-web-0"}}}});
  }
  for (auto& container : pod["spec"]["containers"]) {
    container["image"] = "registry.example.com/team/service@sha256:" + std::string(64, '0');
    for (int i = 0; i < 20 * times; ++i) {
      container["env"].push_back(
          {{"name", "VARIABLE_" + std::to_string(i)}, {"value", std::string(40, 'v')}});
    }
  }
  return pod;
}

policy::PodFacts volumes_of_a_database(int times) {
  policy::PodFacts facts;
  facts.volumes.emplace();
  for (int i = 0; i < 3 * times; ++i) {
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
  facts.owner_chain.emplace();
  facts.siblings.emplace();
  return facts;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void decide(benchmark::State& state, const std::string& source, const std::string& file,
            int times) {
  ThreadCpuClock& clock = cpu_clock();
  const auto policy = policy::Policy::load(source, file, clock);
  if (!policy) {
    state.SkipWithError(policy.error().text.c_str());
    return;
  }
  const kube::Pod pod = pod_of(pod_of_a_database(times));
  const kube::Node node = node_of(sample_node());
  const policy::ClusterFacts cluster = sample_cluster();
  const policy::PodFacts facts = volumes_of_a_database(times);
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
  state.counters["source_KB"] = static_cast<double>(source.size()) / 1024;
  state.counters["pod_KB"] = static_cast<double>(pod.raw->dump().size()) / 1024;
  state.counters["median_us"] = median(whole);
  state.counters["deciding_us"] = median(deciding);
}

// Functions that a decision could call and does not, up to so many kilobytes.
std::string text_of(std::size_t kilobytes) {
  std::string text;
  for (int i = 0; text.size() < (kilobytes << 10U) - 512; ++i) {
    const std::string number = std::to_string(i);
    text += "local function rule_" + number + "(pod)\n  if pod.labels.tier == 'tier-" + number +
            "' then\n    return fence.skip('belongs to tier " + number + "')\n  end\nend\n";
    if (i % 100 == 99) {
      text = "do\n" + text + "end\n";  // a function may have 200 locals at once
    }
  }
  return text +
         "return policy { api = 1, name = 'long', version = '1.0.0', summary = 'much text',\n"
         "  pod = function(pod) return fence.delete_pod('its node is down') end }\n";
}

void load(benchmark::State& state, const policy::BuiltinPolicy& builtin) {
  std::vector<double> whole;
  for (auto _ : state) {
    const Duration before = cpu_clock().thread_time();
    const auto policy =
        policy::Policy::load(std::string(builtin.source), builtin.file(), cpu_clock());
    benchmark::DoNotOptimize(policy);
    whole.push_back(static_cast<double>((cpu_clock().thread_time() - before).count()) / 1000);
  }
  state.counters["source_KB"] = static_cast<double>(builtin.source.size()) / 1024;
  state.counters["median_us"] = median(whole);
}

// ---- reload ----------------------------------------------------------------------------------

struct Reloads final : policy::Reloader::Listener {
  void activate(std::shared_ptr<const policy::PolicySet> set) override { in_force = set; }
  void report(const policy::ReloadReport&, const std::vector<policy::ReloadNews>&) override {}
  void persist(const policy::LastGood&) override {}
  std::shared_ptr<const policy::PolicySet> in_force;
};

kube::ConfigMap policies_of(int count, int edit) {
  kube::ConfigMap map;
  map.ref = {Namespace("moonfence"), "moonfence-policies"};
  map.uid = Uid("uid-1");
  map.resource_version = ResourceVersion(std::to_string(edit));
  std::string bindings = "api: 1\nbindings:\n";
  for (int i = 0; i < count; ++i) {
    const std::string name = "p" + std::to_string(i);
    bindings +=
        "- {policy: " + name + ", source: " + name + ".lua, namespaces: [\"*\"], mode: enforce}\n";
    map.data[name + ".lua"] = "return policy { api = 1, name = '" + name +
                              "', version = '1.0.0', summary = 'one of many',\n"
                              "  pod = function(pod)\n    if pod.labels.app == '" +
                              name + "' then return fence.delete_pod('edit " +
                              std::to_string(edit) +
                              "') end\n    return fence.skip('of another')\n  end }\n";
  }
  map.data["moonfence.yaml"] = bindings;
  return map;
}

void reload(benchmark::State& state) {
  const int count = static_cast<int>(state.range(0));
  test::FakePoller poller;
  loop::Loop loop{poller};
  Reloads listener;
  policy::Reloader reloader(loop, cpu_clock(), listener, policy::ReloadRules{});
  std::vector<double> whole;
  int edit = 0;
  for (auto _ : state) {
    const kube::ConfigMap map = policies_of(count, ++edit);
    const Duration before = cpu_clock().thread_time();
    reloader.observe(&map, WallTime(std::chrono::seconds(1'795'168'800 + edit)));
    test::run_until(loop, [&reloader] { return reloader.is_idle(); });
    whole.push_back(static_cast<double>((cpu_clock().thread_time() - before).count()) / 1000);
    if (!listener.in_force ||
        listener.in_force->bindings.size() != static_cast<std::size_t>(count)) {
      state.SkipWithError("the edit did not come into force");
      return;
    }
  }
  state.counters["median_us"] = median(whole);
}

void register_all() {
  const auto microseconds = [](benchmark::internal::Benchmark* made, int iterations) {
    made->Iterations(iterations)->Unit(benchmark::kMicrosecond);
  };
  for (const policy::BuiltinPolicy& builtin : policy::builtin_policies()) {
    const std::string name(builtin.name);
    const auto with_pod = [&builtin](int times) {
      return [&builtin, times](auto& state) {
        decide(state, std::string(builtin.source), builtin.file(), times);
      };
    };
    microseconds(benchmark::RegisterBenchmark(("policy/" + name).c_str(), with_pod(1)), kDecisions);
    for (const int times : {1, 8, 64}) {
      microseconds(benchmark::RegisterBenchmark(
                       ("pod/" + name + "/" + std::to_string(times)).c_str(), with_pod(times)),
                   kDecisions / 20);
    }
    microseconds(benchmark::RegisterBenchmark(("load/" + name).c_str(),
                                              [&builtin](auto& state) { load(state, builtin); }),
                 kDecisions / 20);
  }
  for (const std::size_t kilobytes : {2U, 10U, 50U}) {
    microseconds(benchmark::RegisterBenchmark(("text/" + std::to_string(kilobytes)).c_str(),
                                              [kilobytes](auto& state) {
                                                decide(state, text_of(kilobytes), "long.lua", 1);
                                              }),
                 kDecisions / 20);
  }
  for (const int count : {1, 8, 64}) {
    microseconds(benchmark::RegisterBenchmark("reload", reload)->Arg(count), 20);
  }
}

}  // namespace
}  // namespace moonfence

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  moonfence::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
