#pragma once

// A Judge over a small store without a world: a test plays the engine and breaks one rule at a
// time.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "port/seeded_random.h"
#include "sim/checkers/judge.h"
#include "sim/draw.h"
#include "sim/net/time_line.h"
#include "sim/store/fields.h"

namespace moonfence::sim {

using namespace std::chrono_literals;

struct JudgeTest : ::testing::Test {
  JudgeTest() {
    store.listen([this](const Change& change) {
      truth.on_change(change);
      judge.on_change(change);
    });
    judge.on_started(life);
    make_policies("enforce");
    make_node("n1");
    make_node("spare");  // or all the workers are down at once
    fall("n1");
    pod_uid = make_pod("core-0", "n1", "StatefulSet");
  }

  const Key kPolicies{.resource = "configmaps", .space = "moonfence", .name = "moonfence-policies"};
  static std::string policies_of(const std::string& mode) {
    return "api: 1\nbindings:\n- policy: noobaa\n  namespaces: [noobaa]\n  mode: " + mode + "\n";
  }
  void make_policies(const std::string& mode) {
    write_policies(policies_of(mode));
    hear_policies();
  }
  // Which no replica has heard of yet.
  void write_policies(const std::string& text) {
    if (store.find(kPolicies) == nullptr) {
      (void)store.create(
          "configmaps", "moonfence",
          {{"metadata", {{"name", kPolicies.name}}}, {"data", {{"moonfence.yaml", text}}}},
          "admin");
    } else {
      (void)store.update(
          kPolicies, [&text](Json& map) { map["data"]["moonfence.yaml"] = text; },
          ObjectStore::Part::Whole, "admin");
    }
  }
  // One that leaves living kubelets alone.
  void bind_strict_policy() {
    const auto edit = [](Json& map) {
      map["data"]["moonfence.yaml"] =
          "api: 1\nbindings:\n- {policy: strict, source: strict.lua, namespaces: [noobaa], mode: "
          "enforce}\n";
      map["data"]["strict.lua"] =
          "return policy { api = 1, name = 'strict', version = '1.0.0', summary = 's', trigger = { "
          "failures = 1 }, pod = function(pod) return fence.delete_pod('dead') end }";
    };
    (void)store.update(
        {.resource = "configmaps", .space = "moonfence", .name = "moonfence-policies"}, edit,
        ObjectStore::Part::Whole, "admin");
    hear_policies();
  }
  // A new life of the replica, which finds this kept in moonfence-lastgood.
  void restart(const std::string& kept) {
    ++life.incarnation;
    judge.on_started(life);
    ServerAnswer answer;
    answer.body = Json{{"data", {{"moonfence.yaml", kept}}}}.dump();
    judge.on_answered(
        request(port::Method::Get, "/api/v1/namespaces/moonfence/configmaps/moonfence-lastgood"),
        answer);
  }
  void hear_policies() {
    judge.on_heard(
        request(port::Method::Get,
                "/api/v1/namespaces/moonfence/configmaps?fieldSelector=metadata.name%3D"
                "moonfence-policies"),
        200, R"({"metadata":{"resourceVersion":")" + std::to_string(store.version()) + R"("}})");
  }

  void make_node(const std::string& name) {
    Json ready = {{"type", "Ready"}, {"status", "True"}};
    (void)store.create("nodes", "",
                       {{"metadata", {{"name", name}}},
                        {"spec", Json::object()},
                        {"status", {{"conditions", Json::array({ready})}}}},
                       "kubelet");
  }
  // Of n1, renewed now.
  const Key kLease{.resource = "leases", .space = "kube-node-lease", .name = "n1"};
  void make_lease() {
    (void)store.create("leases", kLease.space,
                       {{"metadata", {{"name", kLease.name}}},
                        {"spec", {{"leaseDurationSeconds", 40}, {"renewTime", "first"}}}},
                       "kubelet");
  }
  void renew_lease() {
    (void)store.update(
        kLease, [](Json& lease) { lease["spec"]["renewTime"] = "later"; }, ObjectStore::Part::Whole,
        "kubelet");
  }
  void set_node(const std::string& name, const std::string& status, bool tainted) {
    (void)store.update(
        {.resource = "nodes", .space = {}, .name = name},
        [&](Json& node) {
          node["status"]["conditions"][0]["status"] = status;
          node["spec"]["taints"] = Json::array();
          if (tainted) {
            node["spec"]["taints"].push_back(
                {{"key", "node.kubernetes.io/unreachable"}, {"effect", "NoSchedule"}});
          }
        },
        ObjectStore::Part::Whole, "node-lifecycle");
  }
  void fall(const std::string& name) { set_node(name, "Unknown", true); }
  void recover(const std::string& name) { set_node(name, "True", false); }
  [[nodiscard]] std::string uid(const std::string& resource, const std::string& space,
                                const std::string& name) const {
    const Object found = store.find({.resource = resource, .space = space, .name = name});
    return found == nullptr ? "" : text_field(*found, {"metadata", "uid"});
  }
  std::string make_pod(const std::string& name, const std::string& node, const std::string& owner,
                       const std::string& space = "noobaa") {
    Json pod = {{"metadata", {{"name", name}, {"labels", {{"app", "noobaa"}}}}},
                {"spec", {{"nodeName", node}}},
                {"status", {{"phase", "Running"}}}};
    if (!owner.empty()) {
      pod["metadata"]["ownerReferences"] =
          Json::array({{{"kind", owner}, {"name", "set"}, {"uid", "u"}, {"controller", true}}});
    }
    (void)store.create("pods", space, std::move(pod), "controller");
    return uid("pods", space, name);
  }

  [[nodiscard]] WireRequest request(port::Method method, const std::string& target,
                                    const std::string& body = {}) const {
    WireRequest made;
    made.replica = life.replica;
    made.incarnation = life.incarnation;
    made.method = method;
    made.target = target;
    made.body = body;
    made.left = time.now;
    return made;
  }
  void tell(const std::string& kind, const std::string& reason, const std::string& about = {}) {
    Json line = {{"kind", kind},
                 {"reason", reason},
                 {"incident", "i1"},
                 {"node", "n1"},
                 {"node_uid", uid("nodes", "", "n1")}};
    if (!about.empty()) {
      line["pod_uid"] = about;
      line["pod"] = "core-0";
      line["namespace"] = "noobaa";
    }
    if (reason == "policy_releases") {
      line["action"] = "release_volume";
      line["attachment_uid"] = "attachment-1";
    }
    judge.on_audit(life, line.dump());
  }
  void hear_nodes() { hear_nodes(judge); }
  void hear_nodes(Judge& by) const {
    Json list = {{"metadata", Json::object()}, {"items", Json::array()}};
    for (const Object& node : store.list("nodes")) {
      list["items"].push_back(*node);
    }
    by.on_heard(request(port::Method::Get, "/api/v1/nodes?limit=500"), 200, list.dump());
  }
  void read_node() {
    ServerAnswer answer;
    answer.body = store.find({.resource = "nodes", .space = {}, .name = "n1"})->dump();
    judge.on_answered(request(port::Method::Get, "/api/v1/nodes/n1"), answer);
  }
  void list_pods() {
    Json list = {{"items", Json::array()}};
    for (const Object& pod : store.list("pods")) {
      list["items"].push_back(*pod);
    }
    ServerAnswer answer;
    answer.body = list.dump();
    judge.on_answered(request(port::Method::Get, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1"),
                      answer);
  }
  void make_record(const std::string& of) {
    const Json record = {{"steps", {{{"step", "delete_pod"}, {"pod", {{"uid", of}}}}}}};
    (void)store.create(
        "configmaps", "moonfence",
        {{"metadata",
          {{"name", "moonfence-incident-i1"}, {"labels", {{"moonfence.io/incident", "open"}}}}},
         {"data", {{"record.json", record.dump()}}}},
        "moonfence-0");
  }
  // All that comes before a deletion.
  void prepare() {
    make_record(pod_uid);
    tell("incident_opened", "node_unknown");
    list_pods();
    read_node();
    tell("intent", "policy_deletes_pod", pod_uid);
  }
  void send_delete(const std::string& with_uid, const std::string& path = "noobaa/pods/core-0") {
    const std::string body =
        with_uid.empty() ? "{}" : R"({"preconditions":{"uid":")" + with_uid + R"("}})";
    judge.on_left(
        request(port::Method::Delete, "/api/v1/namespaces/" + path + "?timeout=5s", body));
  }
  void commit_delete(const std::string& name = "core-0", const std::string& actor = "moonfence-0") {
    DeleteOptions options;
    options.grace_seconds = 0;
    (void)store.remove({.resource = "pods", .space = "noobaa", .name = name}, options, actor);
  }
  void pass(Duration length) { time.now += length; }

  [[nodiscard]] std::vector<std::string> broken() const {
    std::vector<std::string> rules;
    for (const Violation& violation : judge.violations()) {
      rules.push_back(violation.rule);
    }
    return rules;
  }
  [[nodiscard]] bool breaks(std::string_view rule) const {
    const auto rules = broken();
    return std::find(rules.begin(), rules.end(), rule) != rules.end();
  }

  TimeLine time{.now = Moment(100s)};
  Story story;
  port::SeededRandom uids{1};
  ObjectStore store{[this] { return true_wall_time(time); }, uids};
  Machines machines;
  Plan plan = default_world();
  Truth truth{time, store, machines};
  Judge judge{plan, truth, time, story};
  Life life{.replica = "moonfence-0", .incarnation = 1};
  std::string pod_uid;
};

}  // namespace moonfence::sim
