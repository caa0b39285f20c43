// Work that is counted, not timed: the same on every machine that runs the same build.
//
//   counted_bench heartbeats N         N heartbeats of a node pass through the watch to the cache
//   counted_bench decisions NAME N     N decisions of a shipped policy
//   counted_bench allocations N        how many allocations a heartbeat and a decision cost
//   counted_bench calls                the API calls of incidents in a simulated cluster
//
// The first two are for callgrind with --collect-atstart=no, which then counts what happens between
// its toggles; the others print JSON.

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>
#include <valgrind/callgrind.h>

#include "app/settings/settings.h"
#include "app/simulate/sim_replica.h"
#include "app/simulate/simulate_setup.h"
#include "bench/allocations.h"
#include "cluster/nodes/node_cache.h"
#include "kube/watching/watcher.h"
#include "kube/wire/caller.h"
#include "policy/bundle/builtin.h"
#include "sim/scenarios/scenario_run.h"
#include "support/fake_credentials.h"
#include "support/fake_log.h"
#include "support/fake_poller.h"
#include "support/fake_random.h"
#include "support/policies.h"

namespace moonfence {
namespace {

using nlohmann::json;

// What a measured stretch is wrapped into, for whoever counts.
template <class Work>
std::uint64_t counted(const Work& work) {
  const std::uint64_t before = bench::allocations();
  CALLGRIND_TOGGLE_COLLECT;
  work();
  CALLGRIND_TOGGLE_COLLECT;
  return bench::allocations() - before;
}

// ---- heartbeats ------------------------------------------------------------------------------

// A server with one node, whose watch stays open; the test plays the wire.
class Wire final : public port::Http {
 public:
  explicit Wire(loop::Loop& loop, std::string list) : loop_(loop), list_(std::move(list)) {}

  [[nodiscard]] std::unique_ptr<port::Transfer> start(port::HttpRequest request,
                                                      port::HttpSink& sink) override {
    const bool watch = request.url.find("watch=1") != std::string::npos;
    timer_ = loop_.after(Duration::zero(), [this, watch, &sink] {
      sink.on_head({.status = 200, .headers = {{"content-type", "application/json"}}});
      if (watch) {
        watch_ = &sink;
      } else {
        sink.on_body(list_);
        sink.on_end({.error = std::nullopt, .sent = true});
      }
    });
    return std::make_unique<port::Transfer>();
  }
  void use_tls(port::TlsSettings) override {}
  void drop_connections() override {}

  [[nodiscard]] bool watched() const { return watch_ != nullptr; }
  // In pieces as libcurl hands them out.
  void feed(std::string_view bytes) {
    constexpr std::size_t kPiece = 16384;
    for (; !bytes.empty(); bytes.remove_prefix(std::min(kPiece, bytes.size()))) {
      watch_->on_body(bytes.substr(0, kPiece));
    }
  }

 private:
  loop::Loop& loop_;
  const std::string list_;
  loop::Timer timer_;
  port::HttpSink* watch_ = nullptr;
};

std::string two_digits(int number) {
  return (number < 10 ? "0" : "") + std::to_string(number);
}

// 50 images, 10 conditions, as the nodes of the footprint (crowd.py).
json node_with_status(int beat) {
  json node = {
      {"metadata",
       {{"name", "node-1"},
        {"uid", "5c1c6e0e-6f0e-4d6c-8f3f-3a0f6f3a9b11"},
        {"resourceVersion", std::to_string(1000 + beat)},
        {"labels", {{"kubernetes.io/hostname", "node-1"}, {"kubernetes.io/os", "linux"}}}}},
      {"spec", json::object()},
      {"status", {{"conditions", json::array()}, {"images", json::array()}}}};
  const std::string stamp =
      "2026-01-01T00:" + two_digits(beat / 60 % 60) + ":" + two_digits(beat % 60) + "Z";
  for (int i = 0; i < 10; ++i) {
    node["status"]["conditions"].push_back(
        {{"type", i == 9 ? "Ready" : "Pressure" + std::to_string(i)},
         {"status", i == 9 ? "True" : "False"},
         {"reason", "KubeletHasSufficientMemory"},
         {"message", "kubelet has sufficient memory available"},
         {"lastHeartbeatTime", stamp},
         {"lastTransitionTime", "2026-01-01T00:00:00Z"}});
  }
  for (int i = 0; i < 50; ++i) {
    const std::string name =
        "registry.example.com/team-" + std::to_string(i % 7) + "/service-" + std::to_string(i);
    node["status"]["images"].push_back(
        {{"names", {name + "@sha256:" + std::string(64, '0'), name + ":v1." + std::to_string(i)}},
         {"sizeBytes", 20'000'000 + 1'234'567 * i}});
  }
  return node;
}

struct Indifferent final : cluster::NodeListener {
  void look_at(const cluster::NodeView&, cluster::Look) override { ++looks; }
  int looks = 0;
};

// Allocations of all beats but the first ones, in which buffers find their size.
std::uint64_t heartbeats(int count) {
  constexpr int kWarmUp = 20;
  test::FakePoller poller;
  loop::Loop loop{poller};
  const json list = {{"kind", "NodeList"},
                     {"apiVersion", "v1"},
                     {"metadata", {{"resourceVersion", "1000"}}},
                     {"items", {node_with_status(0)}}};
  Wire wire(loop, list.dump());
  test::FakeCredentials credentials;
  test::FakeLog log;
  test::FakeRandom random;
  kube::Caller caller(loop, wire, credentials, log, "https://api:6443", "moonfence");
  Indifferent listener;
  cluster::NodeCache cache(loop, log, Duration::zero(), listener);
  kube::Watcher watcher(loop, caller, random, log, cluster::NodeCache::target(), cache);
  watcher.start();
  test::run_until(loop, [&wire] { return wire.watched(); });
  std::vector<std::string> frames;
  for (int beat = 1; beat <= kWarmUp + count; ++beat) {
    frames.push_back(json{{"type", "MODIFIED"}, {"object", node_with_status(beat)}}.dump() + "\n");
  }
  for (int i = 0; i < kWarmUp; ++i) {
    wire.feed(frames[static_cast<std::size_t>(i)]);
  }
  const std::uint64_t before = watcher.health().events;
  const std::uint64_t allocations = counted([&frames, &wire] {
    for (std::size_t i = kWarmUp; i < frames.size(); ++i) {
      wire.feed(frames[i]);
    }
  });
  if (watcher.health().events - before != static_cast<std::uint64_t>(count) ||
      listener.looks != 0) {
    std::cerr << "counted_bench: the heartbeats did not arrive as such\n";
    std::exit(1);
  }
  return allocations;
}

// ---- decisions -------------------------------------------------------------------------------

std::uint64_t decisions(std::string_view name, int count) {
  static StoppedCpuClock clock;  // under callgrind time passes fifty times as slowly
  const auto& all = policy::builtin_policies();
  const auto builtin =
      std::find_if(all.begin(), all.end(), [name](const auto& each) { return each.name == name; });
  if (builtin == all.end()) {
    std::cerr << "counted_bench: no shipped policy '" << name << "'\n";
    std::exit(2);
  }
  const auto policy =
      policy::Policy::load(std::string(builtin->source), builtin->file(), clock).value();
  const kube::Pod pod = pod_of(sample_pod());
  const kube::Node node = node_of(sample_node());
  const policy::ClusterFacts cluster = sample_cluster();
  policy::PodFacts facts;
  facts.volumes.emplace();
  facts.candidates.emplace();
  facts.owner_chain.emplace();
  facts.siblings.emplace();
  return counted([&] {
    for (int i = 0; i < count; ++i) {
      if (!policy.evaluate(pod, node, cluster, {}, facts).verdict) {
        std::exit(1);
      }
    }
  });
}

// ---- calls -----------------------------------------------------------------------------------

// {"list pods": n, ...}: what the engine asks for because the node failed. Watches, the heartbeat
// and its own Lease go on without an incident.
json calls_of(const std::string& text) {
  const auto scenario = sim::parse_scenario(text, "counted", {.files = nullptr, .reasons = {}});
  if (!scenario) {
    std::cerr << "counted_bench: " << scenario.error().message() << "\n";
    std::exit(1);
  }
  app::SimReplicaOptions options;
  options.settings = app::settings_of(scenario->plan).value();
  sim::Story story;
  json found = json::object();
  int all = 0;
  story.listen([&](const sim::Happening& happening) {
    const std::string_view what = happening.what;
    if (happening.kind != sim::Happening::Kind::Call || happening.detail != "leaves" ||
        happening.at < std::chrono::seconds(5) || what.find("/livez") != what.npos ||
        what.find("watch=1") != what.npos) {
      return;
    }
    // "GET /api/v1/namespaces/db/pods?…": the last word of the path that is a resource.
    const std::string path(what.substr(0, what.find('?')));
    std::string resource = "others";
    for (const char* each :
         {"nodes", "pods", "leases", "persistentvolumeclaims", "persistentvolumes",
          "volumeattachments", "configmaps", "events", "replicasets", "statefulsets"}) {
      if (path.find("/" + std::string(each)) != std::string::npos) {
        resource = each;
      }
    }
    found[path.substr(0, path.find(' ')) + " " + resource] =
        found.value(path.substr(0, path.find(' ')) + " " + resource, 0) + 1;
    ++all;
  });
  sim::ScenarioRun run(*scenario, app::make_sim_replicas(options), story);
  run.run();
  found["all"] = all;
  found["deletions"] = run.outcome().deletions;
  return found;
}

std::string plain(int pods) {
  return "name counted\nworld nodes n1 n2 n3\ndeployment noobaa/web replicas=" +
         std::to_string(pods) +
         " labels=app=noobaa on=n1\npolicies builtin noobaa\nat 5s not-ready n1\nlength 2m\n";
}

std::string with_volumes(int pods) {
  return "name counted\nworld nodes n1 n2 n3\nstatefulset db/pg replicas=" + std::to_string(pods) +
         " volumes=1 on=n1\n"
         "file moonfence.yaml\n| api: 1\n| bindings:\n| - policy: both\n|   source: both.lua\n"
         "|   namespaces: [db]\n|   mode: enforce\n"
         "file both.lua\n| return policy {\n|   api = 1, name = \"both\", version = \"1.0.0\",\n"
         "|   summary = \"Delete the pod and detach its volumes\",\n|   needs = { \"volumes\" },\n"
         "|   pod = function(pod)\n|     return fence.delete_pod_and_attachments(\"down\")\n|   "
         "end,\n"
         "| }\nat 5s stop-kubelet n1\nlength 3m\n";
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "heartbeats" && argc == 3) {
    (void)heartbeats(std::atoi(argv[2]));
  } else if (what == "decisions" && argc == 4) {
    (void)decisions(argv[2], std::atoi(argv[3]));
  } else if (what == "allocations" && argc == 3) {
    const int count = std::atoi(argv[2]);
    json out = {{"heartbeat", static_cast<double>(heartbeats(count)) / count}};
    for (const policy::BuiltinPolicy& each : policy::builtin_policies()) {
      out["decision/" + std::string(each.name)] =
          static_cast<double>(decisions(each.name, count)) / count;
    }
    std::cout << out.dump() << "\n";
  } else if (what == "calls" && argc == 2) {
    json out = json::object();
    for (const int pods : {1, 10, 40}) {
      out["plain/" + std::to_string(pods)] = calls_of(plain(pods));
      out["volumes/" + std::to_string(pods)] = calls_of(with_volumes(pods));
    }
    std::cout << out.dump() << "\n";
  } else {
    std::cerr << "counted_bench heartbeats N | decisions NAME N | allocations N | calls\n";
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace moonfence

int main(int argc, char** argv) {
  return moonfence::run(argc, argv);
}
