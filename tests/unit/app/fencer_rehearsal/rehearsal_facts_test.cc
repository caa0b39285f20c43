#include "app/fencer_rehearsal/rehearsal_facts.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fence/record/incident_record.h"

namespace moonfence::app {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kNode = "/api/v1/nodes/n1";
constexpr const char* kNodes = "/api/v1/nodes";
constexpr const char* kPods = "/api/v1/pods";
constexpr const char* kSystemPods = "/api/v1/namespaces/kube-system/pods";
constexpr const char* kAttachments = "/apis/storage.k8s.io/v1/volumeattachments";
constexpr const char* kLease = "/apis/coordination.k8s.io/v1/namespaces/mf/leases/moonfence";
constexpr const char* kMaps = "/api/v1/namespaces/mf/configmaps";
constexpr const char* kStatus = "/api/v1/namespaces/mf/configmaps/moonfence-status";

json pod(const std::string& name, const std::string& kind, const std::string& phase = "Running") {
  json pod = json::parse(R"({"metadata": {"namespace": "db"}, "spec": {"nodeName": "n1"}})");
  pod["metadata"]["name"] = name;
  pod["metadata"]["uid"] = "uid-" + name;
  pod["status"]["phase"] = phase;
  if (!kind.empty()) {
    json& owner = pod["metadata"]["ownerReferences"][0];
    owner =
        json::parse(R"({"apiVersion": "apps/v1", "name": "x", "uid": "x", "controller": true})");
    owner["kind"] = kind;
  }
  return pod;
}

json control_plane_pod(const std::string& node) {
  json static_pod = pod("etcd-" + node, "Node");
  static_pod["metadata"]["namespace"] = "kube-system";
  static_pod["metadata"]["labels"]["tier"] = "control-plane";
  static_pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "x";
  static_pod["spec"]["nodeName"] = node;
  return static_pod;
}

json attachment(const std::string& name, const std::string& node) {
  json object =
      json::parse(R"({"spec": {"attacher": "csi", "source": {"persistentVolumeName": "v"}}})");
  object["metadata"]["name"] = name;
  object["metadata"]["uid"] = "uid-" + name;
  object["spec"]["nodeName"] = node;
  return object;
}

constexpr const char* kNow = "2026-01-01T12:00:00Z";
constexpr const char* kSpace = "/api/v1/namespaces/db";

json lease(const std::string& holder, const std::string& seat) {
  json object =
      json::parse(R"({"metadata": {"name": "moonfence", "uid": "l", "resourceVersion": "1"},
                      "spec": {"leaseDurationSeconds": 15,
                               "renewTime": "2026-01-01T11:59:50.000000Z"}})");
  object["spec"]["holderIdentity"] = holder;
  object["metadata"]["annotations"]["moonfence.io/seat"] = seat;
  return object;
}

// An open incident of that node, as the leader tells it.
std::string telling_of(const std::string& node) {
  return R"({"situation": {"frozen": false, "openIncidents": 1, "incidents": [{"id": "i", "node": ")" +
         node + R"("}]}})";
}
constexpr const char* kQuiet =
    R"({"situation": {"frozen": false, "openIncidents": 0, "incidents": []}})";

// The record of an open incident.
json record_of(const std::string& node) {
  fence::IncidentRecord record;
  record.id = IncidentId("incident-of-" + node);
  record.node = NodeName(node);
  record.node_uid = Uid("u");
  json object;
  object["metadata"]["name"] = "moonfence-" + node;
  object["data"]["record.json"] = fence::to_text(record);
  return object;
}

json peer(const std::string& name, const char* ready = "True") {
  json node = json::parse(R"({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}},
      "status": {"conditions": [{"type": "Ready"}]}})");
  node["metadata"]["name"] = name;
  node["metadata"]["uid"] = "uid-" + name;
  node["status"]["conditions"][0]["status"] = ready;
  return node;
}

// Node n1, which is Ready, cordoned and drained; a test makes one thing otherwise.
struct RehearsalFactsTest : testing::Test {
  std::map<std::string, json> objects;
  std::map<std::string, Error> errors;
  std::vector<std::string> asked;  // with their selectors
  fence::HoldMarks marks = {"owner/hold"};

  RehearsalFactsTest() {
    objects[kNode] = json::parse(R"({"metadata": {"name": "n1", "uid": "u1"},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "True"}],
                   "nodeInfo": {"bootID": "b1"}}})");
    for (const char* list : {kPods, kAttachments, kMaps, kNodes, kSystemPods}) {
      objects[list]["items"] = json::array();
    }
    objects[kSpace]["metadata"]["name"] = "db";
    objects[kNodes]["items"] = {peer("n1"), peer("n2"), peer("n3")};
    leader_tells(kQuiet);
    pods().push_back(pod("ds", "DaemonSet"));
    pods().push_back(pod("static", "Node"));
    pods().push_back(pod("done", "Job", "Succeeded"));
    objects[kAttachments]["items"].push_back(attachment("other", "n2"));
    objects[kLease] = lease("moonfence-0_a", "moonfence-0_a n2");
  }
  [[nodiscard]] json& pods() { return objects[kPods]["items"]; }
  [[nodiscard]] json& metadata() { return objects[kNode]["metadata"]; }
  [[nodiscard]] GetJson get() {
    return [this](const std::string& path, const kube::Query& query) -> Result<json> {
      std::string text = path;
      for (const auto& [key, value] : query) {
        text += key == "limit" ? "" : " " + key + "=" + value;
      }
      asked.push_back(text);
      if (const auto error = errors.find(path); error != errors.end()) {
        return failure(Error(error->second));
      }
      const auto found = objects.find(path);
      if (found == objects.end()) {
        return failure(Error::Kind::NotFound, path + " is not there");
      }
      return found->second;
    };
  }
  [[nodiscard]] RehearsalScope scope() const {
    return {.node = "n1", .engine_namespace = "mf", .hold_marks = marks, .now = [] {
              return *parse_rfc3339(kNow);
            }};
  }
  [[nodiscard]] Result<RehearsalFacts> read() { return read_facts(get(), scope()); }
  [[nodiscard]] std::vector<std::string> said(bool control_plane = false) {
    const auto facts = read();
    EXPECT_TRUE(facts) << facts.error().message();
    return facts ? objections(*facts, facts->node, control_plane) : std::vector<std::string>{"?"};
  }
  void leader_tells(const std::string& report, const std::string& instance = "moonfence-0") {
    objects[kStatus] = json::object();
    objects[kStatus]["data"][instance] = report;
  }
};

TEST_F(RehearsalFactsTest, a_drained_node_may_be_switched_off) {
  EXPECT_THAT(said(), IsEmpty());
  const auto facts = read();
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->left, 3U);
  EXPECT_THAT(asked, testing::Contains(std::string(kPods) + " fieldSelector=spec.nodeName=n1"));
  EXPECT_THAT(asked,
              testing::Contains(std::string(kMaps) + " labelSelector=moonfence.io/incident=open"));
}

// What no leader tells may speak against it.
TEST_F(RehearsalFactsTest, without_a_leader_that_tells_all_nobody_knows_of_incidents) {
  const json led = objects[kLease];
  objects.erase(kLease);
  EXPECT_THAT(said(), ElementsAre(HasSubstr("Lease is not there: is mf the namespace")));
  objects[kLease] = lease("", "");
  EXPECT_THAT(said(), ElementsAre(HasSubstr("has no holder: `moonfence status`")));
  for (const json& renewed :
       {json("2026-01-01T11:59:44.000000Z"), json("2026-01-01T12:00:16.000000Z"), json(nullptr)}) {
    objects[kLease] = led;
    objects[kLease]["spec"]["renewTime"] = renewed;
    EXPECT_THAT(said(), ElementsAre(HasSubstr("does not renew its Lease: `moonfence status`")))
        << renewed;
  }
  objects[kLease] = led;
  leader_tells(kQuiet, "moonfence-1");  // it does not lead any more
  EXPECT_THAT(said(), ElementsAre(HasSubstr("does not say in ConfigMap moonfence-status")));
  objects.erase(kStatus);
  EXPECT_THAT(said(), ElementsAre(HasSubstr("does not say in ConfigMap moonfence-status")));
  for (const char* report :
       {"no JSON", "7", "{}", R"({"situation": 7})",
        R"({"situation": {"frozen": false, "openIncidents": 0}})",
        R"({"situation": {"frozen": false, "openIncidents": 0, "incidents": 7}})",
        R"({"situation": {"frozen": 0, "openIncidents": 0, "incidents": []}})",
        R"({"situation": {"openIncidents": 0, "incidents": []}})",
        R"({"situation": {"frozen": false, "incidents": []}})",
        R"({"situation": {"frozen": false, "openIncidents": 51, "incidents": []}})",
        R"({"situation": {"frozen": false, "openIncidents": 1, "incidents": [7]}})",
        R"({"situation": {"frozen": false, "openIncidents": 1, "incidents": [{"id": "i"}]}})"}) {
    leader_tells(report);
    EXPECT_THAT(said(), ElementsAre(HasSubstr("does not say in ConfigMap moonfence-status")))
        << report;
  }
}

TEST_F(RehearsalFactsTest, one_that_is_not_ready_may_not) {
  for (const char* ready : {"False", "Unknown", ""}) {
    objects[kNode]["status"]["conditions"][0]["status"] = ready;
    EXPECT_THAT(said(), ElementsAre(HasSubstr("it is not Ready")));
  }
}

TEST_F(RehearsalFactsTest, one_that_is_not_cordoned_may_not) {
  objects[kNode]["spec"]["unschedulable"] = false;
  EXPECT_THAT(said(), ElementsAre(HasSubstr("not cordoned: kubectl drain n1 --ignore-daemonsets")));
}

TEST_F(RehearsalFactsTest, pods_that_a_drain_moves_are_in_the_way) {
  json terminating = pod("going", "ReplicaSet", "Failed");
  terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  for (const json& each :
       std::vector<json>{pod("a", "StatefulSet"), pod("bare", ""), terminating,
                         pod("d", "ReplicaSet", "Pending"), pod("e", "Job"), pod("f", "Job")}) {
    pods().push_back(each);
  }
  EXPECT_THAT(said(), ElementsAre(HasSubstr("pods run on it that would end: db/a, db/bare, "
                                            "db/going, db/d, db/e and 1 more; kubectl drain n1")));
}

TEST_F(RehearsalFactsTest, pods_of_further_pages_are_seen) {
  const GetJson one = get();
  const GetJson paged = [&](const std::string& path, const kube::Query& query) -> Result<json> {
    if (path != kPods) {
      return one(path, query);
    }
    json page;
    page["items"] = json::array();
    if (query.back() == std::pair<std::string, std::string>("continue", "t")) {
      page["items"].push_back(pod("a", "StatefulSet"));
    } else {
      page["metadata"]["continue"] = "t";
    }
    return page;
  };
  const auto facts = read_facts(paged, scope());
  ASSERT_TRUE(facts);
  EXPECT_THAT(facts->pods, ElementsAre("db/a"));
}

TEST_F(RehearsalFactsTest, attached_volumes_are_in_the_way) {
  objects[kAttachments]["items"].push_back(attachment("csi-1", "n1"));
  EXPECT_THAT(said(), ElementsAre(HasSubstr("by VolumeAttachment csi-1")));
}

TEST_F(RehearsalFactsTest, whoever_holds_the_node_or_a_pod_of_it_is_heard) {
  metadata()["annotations"]["moonfence.io/hold"] = "disk\x1b";
  EXPECT_THAT(said(), ElementsAre("somebody holds it: node n1: disk\\x1b"));
  metadata().erase("annotations");
  metadata()["annotations"]["owner/hold"] = "x";
  EXPECT_THAT(said(), ElementsAre(HasSubstr("annotation owner/hold")));
  metadata().erase("annotations");
  pods()[0]["metadata"]["annotations"]["moonfence.io/hold"] = "busy";
  EXPECT_THAT(said(), ElementsAre("somebody holds it: pod db/ds: busy"));
}

TEST_F(RehearsalFactsTest, a_hold_of_the_namespace_of_a_pod_that_is_left_is_heard) {
  objects[kSpace]["metadata"]["annotations"]["moonfence.io/hold"] = "moving";
  EXPECT_THAT(said(), ElementsAre("somebody holds it: namespace db: moving"));
  EXPECT_EQ(std::count(asked.begin(), asked.end(), kSpace), 1);
  for (const char* text : {"null", "7", "{}", R"({"metadata": {"name": "other"}})"}) {
    objects[kSpace] = json::parse(text);
    EXPECT_FALSE(read()) << text;
  }
  objects.erase(kSpace);
  EXPECT_FALSE(read());
}

TEST_F(RehearsalFactsTest, an_open_incident_of_it_is_in_the_way_also_one_without_a_record) {
  json record;
  record["metadata"]["name"] = "moonfence-incident-1";
  record["data"]["record.json"] = "{}";
  objects[kMaps]["items"].push_back(record);
  EXPECT_THAT(said(), ElementsAre(HasSubstr("ConfigMap moonfence-incident-1, which cannot be "
                                            "understood")));
  objects[kMaps]["items"] = {record_of("n2"), record_of("n1")};
  EXPECT_THAT(said(), ElementsAre(HasSubstr("may be open: incident-of-n1; `moonfence status`")));
  objects[kMaps]["items"] = json::array({record_of("n2")});
  EXPECT_THAT(said(), IsEmpty());
  leader_tells(telling_of("n1"));
  EXPECT_THAT(said(), ElementsAre(HasSubstr("has deleted nothing")));
  leader_tells(telling_of("n2"));
  EXPECT_THAT(said(), IsEmpty());
}

TEST_F(RehearsalFactsTest, while_the_leader_is_frozen_no_machine_is_taken_away) {
  leader_tells(R"({"situation": {"frozen": true, "openIncidents": 0, "incidents": []}})");
  EXPECT_THAT(said(), ElementsAre(HasSubstr("deletes nothing at the moment")));
  leader_tells(kQuiet);
  EXPECT_THAT(said(), IsEmpty());
}

TEST_F(RehearsalFactsTest, a_machine_of_the_control_plane_wants_a_word_of_its_own) {
  metadata()["labels"]["node-role.kubernetes.io/control-plane"] = "";
  EXPECT_THAT(said(), ElementsAre(HasSubstr("add --control-plane")));
  EXPECT_THAT(said(/*control_plane=*/true), IsEmpty());
  metadata().erase("labels");
  json& taint = objects[kNode]["spec"]["taints"][0];
  taint["key"] = "node-role.kubernetes.io/master";
  taint["effect"] = "NoSchedule";
  EXPECT_THAT(said(), ElementsAre(HasSubstr("add --control-plane")));
  objects[kNode]["spec"].erase("taints");
  pods().push_back(control_plane_pod("n1"));
  objects["/api/v1/namespaces/kube-system"]["metadata"]["name"] = "kube-system";
  EXPECT_THAT(said(), ElementsAre(HasSubstr("add --control-plane")));
  pods().back()["metadata"]["namespace"] = "db";
  EXPECT_THAT(said(), IsEmpty());
}

TEST_F(RehearsalFactsTest, no_flag_lets_the_rest_of_the_control_plane_be_weak) {
  metadata()["labels"]["node-role.kubernetes.io/control-plane"] = "";
  EXPECT_THAT(said(/*control_plane=*/true), IsEmpty());
  json& nodes = objects[kNodes]["items"];
  nodes[1] = peer("n2", "Unknown");
  EXPECT_THAT(said(/*control_plane=*/true), ElementsAre(HasSubstr("or cordoned: n2; wait")));
  nodes[1] = peer("n2");
  nodes[1]["spec"]["unschedulable"] = true;
  EXPECT_THAT(said(/*control_plane=*/true), ElementsAre(HasSubstr("or cordoned: n2; wait")));
  nodes[1] = peer("n2");
  nodes[2]["metadata"].erase("labels");  // a worker
  EXPECT_THAT(said(/*control_plane=*/true), ElementsAre(HasSubstr("only 1 other would be left")));
  objects[kSystemPods]["items"].push_back(control_plane_pod("n3"));
  EXPECT_THAT(said(/*control_plane=*/true), IsEmpty());
  for (const char* list : {kNodes, kSystemPods}) {
    errors[list] = {.kind = Error::Kind::Forbidden, .text = "no"};
    EXPECT_FALSE(read()) << list;
    errors.clear();
  }
}

TEST_F(RehearsalFactsTest, the_leader_s_machine_may_never_be_switched_off) {
  objects[kLease] = lease("moonfence-0_a", "moonfence-0_a n1");
  EXPECT_THAT(said(), ElementsAre(HasSubstr("moonfence's leader runs on it")));
  EXPECT_THAT(said(/*control_plane=*/true),
              ElementsAre(HasSubstr("moonfence's leader runs on it")));
  objects[kLease] = lease("moonfence-0_a", "moonfence-1_b n2");  // of the one before
  EXPECT_THAT(said(), ElementsAre(HasSubstr("does not say on which node it runs")));
  EXPECT_THAT(said(/*control_plane=*/true),
              ElementsAre(HasSubstr("does not say on which node it runs")));
}

TEST_F(RehearsalFactsTest, what_is_done_is_what_somebody_was_asked_about) {
  const RehearsalOrder shown = {
      .node = Uid("u1"), .boot_id = "b1", .fencer = "bmc", .endpoint = "rack", .path = "/off"};
  EXPECT_THAT(changes(shown, shown), IsEmpty());
  for (const auto& change : std::vector<std::function<void(RehearsalOrder&)>>{
           [](auto& order) { order.node = Uid("u2"); }, [](auto& order) { order.boot_id = "x"; },
           [](auto& order) { order.fencer = "x"; }, [](auto& order) { order.endpoint = "x"; },
           [](auto& order) { order.path = "x"; }}) {
    RehearsalOrder now = shown;
    change(now);
    EXPECT_THAT(changes(shown, now),
                ElementsAre(HasSubstr("it has changed since you were asked: ")));
  }
}

TEST_F(RehearsalFactsTest, another_node_of_that_name_or_another_boot_was_not_asked_about) {
  const auto facts = read();
  ASSERT_TRUE(facts);
  kube::Node asked_about = facts->node;
  asked_about.uid = Uid("another");
  EXPECT_THAT(objections(*facts, asked_about, false),
              ElementsAre(HasSubstr("since its fencers were")));
  asked_about = facts->node;
  asked_about.boot_id = "another";
  EXPECT_THAT(objections(*facts, asked_about, false),
              ElementsAre(HasSubstr("since its fencers were")));
}

// Whatever is not known may speak against it.
TEST_F(RehearsalFactsTest, what_cannot_be_read_or_understood_is_an_error) {
  for (const char* path : {kNode, kPods, kAttachments, kLease, kMaps, kStatus}) {
    errors[path] = {.kind = Error::Kind::Forbidden, .text = "no"};
    EXPECT_FALSE(read()) << path;
    errors.clear();
  }
  for (const char* path : {kNode, kPods, kAttachments, kLease, kMaps}) {
    const json before = objects[path];
    for (const char* text : {"null", "7", "[]", R"({"items": null})", R"({"items": [7]})",
                             R"({"items": [{"metadata": 7}]})"}) {
      objects[path] = json::parse(text);
      const auto facts = read();
      EXPECT_TRUE(!facts || !objections(*facts, facts->node, false).empty()) << path << text;
    }
    objects[path] = before;
  }
  metadata()["name"] = "n2";
  EXPECT_FALSE(read());
}

}  // namespace
}  // namespace moonfence::app
