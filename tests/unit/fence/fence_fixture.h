#pragma once

// A small cluster behind a scripted API server, on virtual time, with everything of the fencing
// layer wired as app/ wires it. Nodes and pods are plain state that a test changes at will; what
// was sent and what was recorded is kept in order.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "audit/trail.h"
#include "cluster/endpoints/endpoint.h"
#include "fence/act/guarded_call.h"
#include "fence/incident/incidents.h"
#include "fence/incident/pass.h"
#include "fence/incident/plan_ahead.h"
#include "kube/calls/destroyer.h"
#include "kube/calls/reader.h"
#include "kube/leases/revisions.h"
#include "kube/wire/caller.h"
#include "support/fake_credentials.h"
#include "support/fake_files.h"
#include "support/fake_http.h"
#include "support/fake_kernels.h"
#include "support/fake_log.h"
#include "support/fake_poller.h"
#include "support/fake_random.h"
#include "support/leadership.h"
#include "support/policies.h"
#include "unit/fence/record_server.h"

namespace moonfence::fence {

using namespace std::chrono_literals;
using policy::Binding;
using policy::Mode;
using Lines = std::vector<std::string>;

// Versions of Leases, and the one that the store has.
constexpr const char* kWrittenLongAgo = "5";
constexpr const char* kReached = "100";
constexpr const char* kWrittenSince = "1000";

struct StandingWallClock final : port::WallClock {
  WallTime now() override { return WallTime(1767330000s); }
};

// Every audit record, in order.
struct Story final : audit::Trail::Sink {
  Result<void> append(const audit::Record& record, WallTime /*at*/,
                      std::string_view /*json*/) override {
    if (full) {
      return failure(Error::Kind::Limit, "no space left on device");
    }
    records.push_back(record);
    hook(record);
    return {};
  }

  // "intent policy_deletes_pod db/web-0"; without the verdicts unless asked for.
  [[nodiscard]] Lines told(bool verdicts = false) const {
    Lines lines;
    for (const audit::Record& record : records) {
      if (verdicts || record.kind != audit::Record::Kind::Verdict) {
        lines.push_back(std::string(to_string(record.kind)) + " " +
                        std::string(code(record.reason)) +
                        (record.pod ? " " + record.pod->text() : ""));
      }
    }
    return lines;
  }
  [[nodiscard]] std::size_t count(audit::Record::Kind kind, audit::Reason reason) const {
    std::size_t found = 0;
    for (const audit::Record& record : records) {
      found += record.kind == kind && record.reason == reason ? 1U : 0U;
    }
    return found;
  }

  std::vector<audit::Record> records;
  std::function<void(const audit::Record&)> hook = [](const audit::Record&) {};
  bool full = false;
};

struct NodeState {
  std::string ready = "Unknown";
  std::string uid = "node-1";
  bool tainted = true;
  bool unschedulable = false;
  // Of the Ready condition, and of its kubelet's Lease: silent for long by default, but in the list
  // of all Leases when it is Ready. "": no Lease.
  std::string since = "2026-01-02T05:00:00Z";
  std::string renewed = "2026-01-02T04:59:20.000000Z";
  std::string heartbeat = {};  // of the Ready condition; "": none
  std::string boot_id = "boot-1";
  std::string created = {};                         // "": the node does not say
  nlohmann::json taints = nlohmann::json::array();  // beside that of `tainted`
  nlohmann::json annotations = {{"node.alpha.kubernetes.io/ttl", "0"}};
  nlohmann::json status = nlohmann::json::object();  // more of it

  [[nodiscard]] std::string fence_mark() const {
    return annotations.value("moonfence.io/fenced", std::string());
  }
  [[nodiscard]] std::string out_of_service_mark() const {
    return annotations.value("moonfence.io/out-of-service", std::string());
  }
  [[nodiscard]] bool is_out_of_service() const {
    return std::any_of(taints.begin(), taints.end(), [](const nlohmann::json& taint) {
      return taint["key"] == "node.kubernetes.io/out-of-service" && taint["effect"] == "NoExecute";
    });
  }
  [[nodiscard]] bool is_fenced() const {
    return std::any_of(taints.begin(), taints.end(), [](const nlohmann::json& taint) {
      return taint["key"] == "moonfence.io/fenced" && taint["effect"] == "NoSchedule";
    });
  }
};

struct FenceTest : testing::Test {
  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeHttp http{loop};
  test::FakeCredentials credentials;
  test::FakeLog log;
  kube::Caller caller{loop, http, credentials, log, "https://api:6443", "moonfence/0.1"};
  kube::Reader reader{caller};
  StandingWallClock wall_clock;
  Story story;
  audit::Trail trail{wall_clock, story};
  policy::ActiveSet active;
  test::FakeLeadership leadership;
  Brake brake{BrakeRules{}};
  // Nobody looks at the signs every second; that we were stopped is for a test to say.
  SelfDoubt doubt{DoubtRules{.longest_pause = 1000h}};
  // What the store had reached when: kWrittenLongAgo an hour ago, kWrittenSince not yet.
  kube::Revisions revisions;
  std::string reached = kReached;  // by now
  PeerLeaseReader peer_lease_reader{loop,
                                    reader,
                                    leadership,
                                    [] { return sample_cluster().now; },
                                    revisions,
                                    [this](const NodeName& name) {
                                      const bool up = nodes.contains(name.text()) &&
                                                      nodes.at(name.text()).ready == "True";
                                      return up ? &worker : nullptr;
                                    }};
  const cluster::Standing worker = {};
  Duration cache_lag{};  // of the list of Leases
  Protections protections;
  test::RecordServer records{http};
  test::FakeRandom random;
  std::optional<Journal> journal;
  std::optional<GuardedCall> actions;

  std::set<std::string> fencing_drivers = {"csi.example.com"};
  std::map<std::string, std::map<std::string, std::string>> namespaces;  // annotations
  test::FakeAnswer namespace_answer;                                     // when its body is set
  int namespace_reads = 0;
  ReleaseRules release;
  test::FakeFiles files;
  // One that wants no authentication; "/vendor/…" of the scripted server.
  cluster::Endpoints endpoints{{loop, http, files, log, "moonfence/0.1"},
                               {{"vendor", {.url = "http://vendor:80/vendor", .timeout = 5s}}}};
  std::set<std::string> allowed_reads = {"longhorn.io/v1beta2/volumes"};

  std::map<std::string, NodeState> nodes = {{"n1", {}}};
  std::map<std::string, nlohmann::json> pods;  // by name
  std::string pods_version = "9";              // of their lists
  test::FakeAnswer node_answer;                // its delay, and its error if it has one
  test::FakeAnswer nodes_answer;               // of their list
  test::FakeAnswer lease_answer;
  test::FakeAnswer peer_leases_answer;  // of the list of all Leases
  test::FakeAnswer list_answer;
  test::FakeAnswer look_answer;                 // of the list of one pod by its name
  std::vector<test::FakeAnswer> patch_answers;  // of the next patches, in place of doing them
  Quarantine quarantine = Quarantine::Off;
  test::FakeKernels kernels;
  Powers* powers = nullptr;
  EvidenceListener* evidence = nullptr;
  bool plans_ahead = false;
  Preplannings preplannings;
  ProvePolicies prove_policies;
  std::map<std::string, test::FakeAnswer> list_answer_in;  // by namespace, in place of that
  bool pages = false;  // lists of pods come page by page, as many as are asked for
  // How the next deletions of a pod are answered; a pod without a script is deleted.
  std::map<std::string, std::vector<test::FakeAnswer>> scripts;
  Duration delete_delay{};

  FenceTest() {
    actions.emplace(
        loop, kube::Destroyer(caller), trail, [] {}, &endpoints);
    start_journal("moonfence-0_a");
    count_nodes(10, 1);
    (void)revisions.note(ResourceVersion(kReached), loop.now() - 1h, loop.now() - 1h);
    (void)doubt.look({}, loop.now());
    http.on(port::Method::Get, "/api/v1/nodes/*",
            [this](const test::FakeRequest& request) { return read_node(request); });
    http.on(port::Method::Get, "/api/v1/nodes",
            [this](const test::FakeRequest& request) { return list_nodes(request); });
    http.on(port::Method::Patch, "/api/v1/nodes/*",
            [this](const test::FakeRequest& request) { return patch_node(request); });
    http.on(port::Method::Get, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/*",
            [this](const test::FakeRequest& request) { return read_lease(request); });
    http.on(port::Method::Get, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
            [this](const test::FakeRequest&) { return list_leases(); });
    http.on(port::Method::Get, "/api/v1/pods",
            [this](const test::FakeRequest& request) { return list_pods(request); });
    for (const char* space : {"a", "b", "c", "db", "shop"}) {
      http.on(port::Method::Get, "/api/v1/namespaces/" + std::string(space),
              [this](const test::FakeRequest& request) { return read_namespace(request); });
      const std::string path = "/api/v1/namespaces/" + std::string(space) + "/pods";
      http.on(port::Method::Get, path,
              [this](const test::FakeRequest& request) { return list_pods(request); });
      http.on(port::Method::Delete, path + "/*",
              [this](const test::FakeRequest& request) { return delete_pod(request); });
    }
  }

  ~FenceTest() override { actions.reset(); }  // before the endpoints

  // Of another life, or another replica.
  void start_journal(const std::string& identity) {
    journal.emplace(Journal::Surroundings{loop, caller, random, log, leadership},
                    Namespace("moonfence"), identity, [this] { return wall_now(); });
  }
  [[nodiscard]] WallTime wall_now() { return wall_clock.now() + (loop.now() - Moment{}); }
  // Of an incident outside Incidents.
  [[nodiscard]] std::shared_ptr<RecordLedger> new_ledger(const std::string& id = "i1") {
    IncidentRecord record;
    record.id = IncidentId(id);
    record.node = NodeName("n1");
    record.node_uid = Uid("node-1");
    return journal->begin(std::move(record));
  }

  static cluster::Census census_of(int workers, int down) {
    cluster::Census census;
    for (int i = 0; i < workers; ++i) {
      cluster::NodeView node;
      node.readiness = i < down ? cluster::Readiness::Unknown : cluster::Readiness::True;
      census.add(node);
    }
    return census;
  }
  // What the brake believes; Incidents are told by the node cache.
  void count_nodes(int workers, int down) { brake.count(census_of(workers, down), loop.now()); }

  void add_pod(const std::string& name, const std::string& node = "n1",
               const std::string& space = "db", const std::string& app = "web") {
    pods[name] = {{"metadata",
                   {{"name", name},
                    {"namespace", space},
                    {"uid", "uid-" + name},
                    {"labels", {{"app", app}}},
                    {"ownerReferences",
                     {{{"apiVersion", "apps/v1"},
                       {"kind", "StatefulSet"},
                       {"name", "web"},
                       {"uid", "set-1"},
                       {"controller", true}}}}}},
                  {"spec", {{"nodeName", node}}},
                  {"status", {{"phase", "Running"}}}};
  }
  void bind_at(const std::string& pod, const std::string& time) {
    pods.at(pod)["status"]["conditions"] = {
        {{"type", "PodScheduled"}, {"status", "True"}, {"lastTransitionTime", time}}};
  }
  void add_pods(int count) {
    for (int i = 0; i < count; ++i) {
      add_pod("web-" + std::to_string(1000 + i));
    }
  }

  static test::FakeAnswer status(int code, const std::string& reason, const std::string& name = "x",
                                 std::vector<port::Header> headers = {}) {
    headers.push_back({"content-type", "application/json"});
    const nlohmann::json body = {
        {"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Failure"},        {"reason", reason},
        {"message", "no"},  {"code", code},       {"details", {{"name", name}}}};
    return {.status = code, .body = body.dump(), .headers = std::move(headers)};
  }
  static test::FakeAnswer broken() { return status(500, "InternalError"); }

  [[nodiscard]] nlohmann::json node_json(const std::string& name) const {
    const NodeState& state = nodes.at(name);
    nlohmann::json node = {
        {"metadata", {{"name", name}, {"uid", state.uid}, {"annotations", state.annotations}}},
        {"spec", {{"unschedulable", state.unschedulable}}},
        {"status",
         {{"conditions", nlohmann::json::array()}, {"nodeInfo", {{"bootID", state.boot_id}}}}}};
    if (!state.created.empty()) {
      node["metadata"]["creationTimestamp"] = state.created;
    }
    node["status"].update(state.status);
    if (!state.ready.empty()) {
      node["status"]["conditions"].push_back(
          {{"type", "Ready"}, {"status", state.ready}, {"lastTransitionTime", state.since}});
      if (!state.heartbeat.empty()) {
        node["status"]["conditions"].back()["lastHeartbeatTime"] = state.heartbeat;
      }
    }
    nlohmann::json taints = state.taints;
    if (state.tainted) {
      taints.push_back({{"key", "node.kubernetes.io/unreachable"}, {"effect", "NoSchedule"}});
    }
    if (!taints.empty()) {
      node["spec"]["taints"] = std::move(taints);
    }
    return node;
  }

  // What the node cache would say.
  [[nodiscard]] cluster::NodeView view(const std::string& name = "n1") const {
    const NodeState& state = nodes.at(name);
    return {.name = NodeName(name),
            .uid = Uid(state.uid),
            .readiness = state.ready == "True"      ? cluster::Readiness::True
                         : state.ready == "False"   ? cluster::Readiness::False
                         : state.ready == "Unknown" ? cluster::Readiness::Unknown
                                                    : cluster::Readiness::Missing,
            .keeps_replacements_off = state.tainted || state.is_fenced(),
            .unschedulable = state.unschedulable,
            .since = parse_rfc3339(state.since),
            .boot_id = state.boot_id,
            .fenced = state.is_fenced(),
            .fence_mark = state.fence_mark(),
            .out_of_service_mark = state.out_of_service_mark(),
            .silent_mark = state.annotations.value("moonfence.io/silent", std::string())};
  }

  static std::shared_ptr<const policy::Policy> policy_of(const std::string& body,
                                                         const std::string& more = "") {
    auto loaded = load_text(policy_text(body, more));
    EXPECT_TRUE(loaded) << loaded.error().text;
    return std::make_shared<const policy::Policy>(*std::move(loaded));
  }
  static std::shared_ptr<const policy::Policy> deleting_policy() {
    return policy_of("return fence.delete_pod('its node is dead')");
  }
  static std::shared_ptr<const policy::Policy> named_policy(const std::string& name,
                                                            const std::string& body,
                                                            const std::string& more = "") {
    static StoppedCpuClock clock;
    std::string text = policy_text(body, more);
    text.replace(text.find("'test'"), 6, "'" + name + "'");
    auto loaded = policy::Policy::load(text, name + ".lua", clock);
    EXPECT_TRUE(loaded) << loaded.error().text;
    return std::make_shared<const policy::Policy>(*std::move(loaded));
  }
  static Binding binding_of(const std::shared_ptr<const policy::Policy>& policy,
                            Mode mode = Mode::Enforce, const std::set<Namespace>& spaces = {}) {
    return {
        .name = policy->name(),
        .policy = policy,
        .scope = policy::NamespaceScope::of(spaces.empty() ? std::set{Namespace("db")} : spaces),
        .mode = mode,
        .allow = {},
        .digest = policy->digest(),
        .error = {}};
  }
  static Binding everywhere(const std::shared_ptr<const policy::Policy>& policy,
                            Mode mode = Mode::Enforce) {
    Binding binding = binding_of(policy, mode);
    binding.scope = policy::NamespaceScope::everywhere();
    return binding;
  }
  // A guard that could not be loaded.
  static Binding broken_guard(const std::set<Namespace>& spaces = {}, Mode mode = Mode::Enforce) {
    return {
        .name = "broken",
        .policy = nullptr,
        .scope = policy::NamespaceScope::of(spaces.empty() ? std::set{Namespace("db")} : spaces),
        .mode = mode,
        .allow = {},
        .digest = {},
        .error = "broken.lua:1: it does not compile"};
  }
  void activate(std::vector<Binding> bindings) {
    std::string digest = digest_of(bindings);
    active.activate(std::make_shared<const policy::PolicySet>(
        policy::PolicySet{.bindings = std::move(bindings), .digest = std::move(digest)}));
  }
  // Readable, and like the real one the same for what decides alike.
  static std::string digest_of(const std::vector<Binding>& bindings) {
    std::string digest;
    for (const Binding& binding : bindings) {
      digest += binding.name + " " + binding.digest + " " +
                std::string(policy::to_string(binding.mode)) + " " +
                (binding.allow.bare_pods ? "bare pods" : "") + " in";
      for (const Namespace& space : binding.scope.names()) {
        digest += " " + space.text();
      }
      digest += "; ";
    }
    return digest;
  }
  IncidentContext surroundings() {
    return {{.access = {
                 .loop = loop,
                 .reader = reader,
                 .peer_lease_reader = peer_lease_reader,
                 .cluster_facts = [] { return sample_cluster(); },
                 .allowed_reads = allowed_reads,
                 .endpoints = &endpoints,
                 .prove_policies = prove_policies,
                 .written =
                     [this](const kube::Lease& lease) { return revisions.written(lease.version); }},
             .output = {.journal = *journal, .trail = trail, .log = log},
             .in_force = {.active = active,
                          .leadership = leadership,
                          .brake = brake,
                          .doubt = doubt,
                          .protections = protections,
                          .fencing_drivers = fencing_drivers,
                          .release = release,
                          .quarantine = quarantine,
                          .kernels = &kernels,
                          .powers = powers,
                          .evidence = evidence}},
            *actions,
            plans_ahead ? &preplannings : nullptr};
  }

  // "web-0 0s": the pod and when its deletion was asked for.
  // The next turn comes a nanosecond later in virtual time.
  [[nodiscard]] static std::string rounded(Moment at) {
    return format_duration(std::chrono::floor<std::chrono::milliseconds>(at - Moment{}));
  }
  [[nodiscard]] Lines deletes() const {
    Lines lines;
    for (const test::FakeRequest& request : http.requests) {
      const bool is_record = request.path.find("/configmaps/") != std::string::npos;
      if (request.method == port::Method::Delete && !is_record) {
        lines.push_back(name_in(request) + " " + rounded(request.at));
      }
    }
    return lines;
  }
  // Of nodes and pods; the Lease goes with its node, namespaces with the record.
  [[nodiscard]] Lines reads() const { return reads(/*leases=*/false); }
  [[nodiscard]] Lines lease_reads() const { return reads(/*leases=*/true); }
  [[nodiscard]] Lines reads(bool leases) const {
    Lines lines;
    for (const test::FakeRequest& request : http.requests) {
      const bool of_namespace = request.path == "/api/v1/namespaces/" + name_in(request);
      if (request.method == port::Method::Get && !request.path.ends_with("/leases") &&
          request.path != "/livez" && request.path != "/api/v1/nodes" && !of_namespace &&
          leases == (request.path.find("/leases/") != std::string::npos)) {
        lines.push_back(name_in(request) + " " + rounded(request.at));
      }
    }
    return lines;
  }
  // When peers' Leases were read.
  [[nodiscard]] Lines peer_lease_reads() const {
    Lines lines;
    for (const test::FakeRequest& request : http.requests) {
      if (request.path.ends_with("/leases")) {
        lines.push_back(rounded(request.at));
      }
    }
    return lines;
  }
  bool run_until(const std::function<bool()>& done, Duration limit = 10min) {
    return test::run_until(loop, done, limit);
  }
  void run_for(Duration duration) { test::run_for(loop, duration); }

 protected:
  static std::string name_in(const test::FakeRequest& request) {
    return request.path.substr(request.path.rfind('/') + 1);
  }

  test::FakeAnswer read_namespace(const test::FakeRequest& request) {
    ++namespace_reads;
    test::FakeAnswer answer = namespace_answer;
    if (answer.body.empty()) {
      const std::string name = name_in(request);
      answer.body =
          nlohmann::json{{"metadata", {{"name", name}, {"annotations", namespaces[name]}}}}.dump();
    }
    return answer;
  }

  test::FakeAnswer read_node(const test::FakeRequest& request) {
    test::FakeAnswer answer = node_answer;
    const std::string name = name_in(request);
    if (!nodes.contains(name)) {
      return status(404, "NotFound", name);
    }
    if (answer.body.empty()) {
      answer.body = node_json(name).dump();
    }
    return answer;
  }

  // Like the API server, to which a test of null is one of absence.
  // All, or the one of a name.
  test::FakeAnswer list_nodes(const test::FakeRequest& request) {
    test::FakeAnswer answer = nodes_answer;
    const std::string by_name = "fieldSelector=metadata.name%3D";
    const auto named = request.query.find(by_name);
    nlohmann::json items = nlohmann::json::array();
    for (const auto& [name, state] : nodes) {
      if (named == std::string::npos ||
          request.query.compare(named + by_name.size(), std::string::npos, name) == 0) {
        items.push_back(node_json(name));
      }
    }
    if (answer.body.empty()) {
      answer.body = nlohmann::json{{"kind", "NodeList"}, {"items", items}}.dump();
    }
    return answer;
  }

  test::FakeAnswer patch_node(const test::FakeRequest& request) {
    const std::string name = name_in(request);
    if (!patch_answers.empty()) {
      test::FakeAnswer answer = patch_answers.front();
      patch_answers.erase(patch_answers.begin());
      return answer;
    }
    nlohmann::json node = node_json(name);
    try {
      for (const nlohmann::json& operation : nlohmann::json::parse(request.body)) {
        const nlohmann::json::json_pointer path(operation["path"].get<std::string>());
        const bool absent = operation["op"] == "test" && operation["value"].is_null();
        if (absent && node.contains(path)) {
          return status(422, "Invalid", name);
        }
        node = absent ? node : node.patch(nlohmann::json::array({operation}));
      }
    } catch (const nlohmann::json::exception&) {
      return status(422, "Invalid", name);
    }
    NodeState& state = nodes.at(name);
    state.annotations = node["metadata"]["annotations"];
    state.taints = nlohmann::json::array();
    state.tainted = false;
    for (const nlohmann::json& taint : node["spec"].value("taints", nlohmann::json::array())) {
      if (taint["key"] == "node.kubernetes.io/unreachable") {
        state.tainted = true;
      } else {
        state.taints.push_back(taint);
      }
    }
    return {.body = node.dump()};
  }

  // That of a silent node was written long ago, every other after the store was last looked at.
  static std::string lease_version(const NodeState& state) {
    const bool stands_still = state.ready == "Unknown"
                                  ? state.renewed <= state.since
                                  : state.ready == "True" && state.renewed < NodeState().renewed;
    return stands_still ? kWrittenLongAgo : kWrittenSince;
  }

  test::FakeAnswer read_lease(const test::FakeRequest& request) {
    test::FakeAnswer answer = lease_answer;
    const std::string name = name_in(request);
    if (!nodes.contains(name) || nodes.at(name).renewed.empty()) {
      return status(404, "NotFound", name);
    }
    if (answer.body.empty()) {
      answer.body = nlohmann::json{{"metadata",
                                    {{"name", name},
                                     {"uid", "lease-" + name},
                                     {"resourceVersion", lease_version(nodes.at(name))}}},
                                   {"spec",
                                    {{"holderIdentity", name},
                                     {"leaseDurationSeconds", 40},
                                     {"renewTime", nodes.at(name).renewed}}}}
                        .dump();
    }
    return answer;
  }

  // Its version was asked for a moment ago.
  void store_is_at_hand() {
    (void)revisions.note(ResourceVersion(reached), loop.now() - cache_lag, loop.now());
  }

  test::FakeAnswer list_leases() {
    test::FakeAnswer answer = peer_leases_answer;
    store_is_at_hand();
    if (answer.body.empty()) {
      nlohmann::json items = nlohmann::json::array();
      for (const auto& [name, state] : nodes) {
        if (!state.renewed.empty()) {
          const bool renews = state.ready == "True" && state.renewed == NodeState().renewed;
          items.push_back(
              {{"metadata",
                {{"name", name}, {"resourceVersion", renews ? kWrittenSince : kWrittenLongAgo}}},
               {"spec", {{"renewTime", renews ? "2026-01-02T05:00:00.000000Z" : state.renewed}}}});
        }
      }
      answer.body = nlohmann::json{
          {"kind", "LeaseList"},
          {"metadata", {{"resourceVersion", reached}}},
          {"items",
           items}}.dump();
    }
    return answer;
  }

  // The pod of a name, as a live look at it asks.
  test::FakeAnswer look_at_pod(const std::string& name, const std::string& space) {
    test::FakeAnswer answer = look_answer;
    if (answer.body.empty()) {
      nlohmann::json items = nlohmann::json::array();
      if (pods.contains(name) && pods[name]["metadata"]["namespace"] == space) {
        items.push_back(pods[name]);
      }
      answer.body = nlohmann::json{
          {"kind", "PodList"},
          {"metadata", {{"resourceVersion", reached}}},
          {"items",
           items}}.dump();
    }
    return answer;
  }

  test::FakeAnswer list_pods(const test::FakeRequest& request) {
    const std::string by_name = "fieldSelector=metadata.name%3D";
    if (const auto named = request.query.find(by_name); named != std::string::npos) {
      const std::string rest = request.query.substr(named + by_name.size());
      const std::string root = "/api/v1/namespaces/";
      return look_at_pod(rest.substr(0, rest.find('&')),
                         request.path.substr(root.size(), request.path.rfind('/') - root.size()));
    }
    const std::string mark = "fieldSelector=spec.nodeName%3D";
    const auto at = request.query.find(mark);
    EXPECT_NE(at, std::string::npos) << request.line();
    const std::string node =
        request.query.substr(at + mark.size(), request.query.find('&', at) - at - mark.size());
    // "/api/v1/namespaces/db/pods" or "/api/v1/pods".
    const std::string before = "/api/v1/namespaces/";
    const std::string space =
        request.path.starts_with(before)
            ? request.path.substr(before.size(), request.path.rfind('/') - before.size())
            : "";
    test::FakeAnswer answer =
        list_answer_in.contains(space) ? list_answer_in.at(space) : list_answer;
    if (!answer.body.empty()) {
      return answer;
    }
    nlohmann::json items = nlohmann::json::array();
    nlohmann::json metadata = {{"resourceVersion", pods_version}};
    const std::string after = word_after("continue=", request.query);
    const std::string most = pages ? word_after("limit=", request.query) : std::string();
    const std::size_t limit = most.empty() ? pods.size() : std::stoul(most);
    // By key, as etcd keeps them.
    for (const auto& [name, pod] : pods) {
      if (pod["spec"]["nodeName"] != node || name <= after ||
          (!space.empty() && pod["metadata"]["namespace"] != space)) {
        continue;
      }
      if (items.size() == limit) {
        metadata["continue"] = items.back()["metadata"]["name"];
        break;
      }
      items.push_back(pod);
    }
    answer.body = nlohmann::json{
        {"kind", "PodList"},
        {"apiVersion", "v1"},
        {"metadata", metadata},
        {"items",
         items}}.dump();
    return answer;
  }
  // "" when it is not there.
  [[nodiscard]] static std::string word_after(const std::string& mark, const std::string& query) {
    const auto at = query.find(mark);
    return at == std::string::npos
               ? std::string()
               : query.substr(at + mark.size(), query.find('&', at) - at - mark.size());
  }

  test::FakeAnswer delete_pod(const test::FakeRequest& request) {
    const std::string name = name_in(request);
    auto& script = scripts[name];
    if (!script.empty()) {
      test::FakeAnswer answer = script.front();
      if (script.size() > 1) {
        script.erase(script.begin());
      }
      return answer;
    }
    const auto found = pods.find(name);
    if (found == pods.end()) {
      return status(404, "NotFound", name);
    }
    test::FakeAnswer answer = {.body = found->second.dump(), .delay = delete_delay};
    pods.erase(found);
    return answer;
  }
};

}  // namespace moonfence::fence
