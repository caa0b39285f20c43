#include "policy/cases/fixture.h"

#include <gtest/gtest.h>

#include "policy/cases/test_file.h"
#include "policy/input/input_path.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

json pod_with_claim() {
  return json::parse(R"({"kind": "Pod",
    "metadata": {"name": "pg-0", "namespace": "db", "uid": "u1",
      "labels": {"app": "pg", "a.b/c": "d"},
      "ownerReferences": [{"kind": "ReplicaSet", "name": "pg-rs", "uid": "u2",
                           "apiVersion": "apps/v1", "controller": true}]},
    "spec": {"nodeName": "n1", "nodeSelector": {"disk": "fast"},
      "tolerations": [{"key": "soft", "operator": "Exists"}],
      "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                  {"name": "scratch", "ephemeral": {}}, {"name": "cm", "configMap": {}}]}})");
}

json storage() {
  return json::parse(R"([
    {"kind": "PersistentVolumeClaim",
     "metadata": {"name": "data", "namespace": "db",
       "annotations": {"volume.kubernetes.io/storage-provisioner": "new",
                       "volume.beta.kubernetes.io/storage-provisioner": "old"}},
     "spec": {"volumeName": "pv-1"}},
    {"kind": "PersistentVolumeClaim", "metadata": {"name": "pg-0-scratch", "namespace": "db"},
     "spec": {}},
    {"kind": "PersistentVolume", "metadata": {"name": "pv-1"},
     "spec": {"csi": {"driver": "csi.example.com", "volumeHandle": "h-1"},
              "storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}}])");
}

json node(const std::string& name, const std::string& ready = "True") {
  return {{"kind", "Node"},
          {"metadata", {{"name", name}, {"labels", {{"disk", "fast"}}}}},
          {"spec", json::object()},
          {"status", {{"conditions", {{{"type", "Ready"}, {"status", ready}}}}}}};
}

Objects objects_of(const json& list) {
  Objects objects;
  const auto added = add_objects(list, "objects", objects);
  EXPECT_TRUE(added) << (added ? "" : added.error().text);
  return objects;
}

Result<Scene> scene_of(const std::vector<json>& more = {}, const json& patch = json::object()) {
  json list = storage();
  list.push_back(pod_with_claim());
  for (const json& object : more) {
    list.push_back(object);
  }
  return make_scene(objects_of(list), "", patch);
}

std::string patch_error(const std::string& path, const json& value) {
  const auto scene = scene_of({}, {{path, value}});
  return scene ? "" : scene.error().message();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Fixture, what_a_node_says_can_be_patched) {
  const auto scene = scene_of({}, {{"node.provider_id", "aws:///i-1"},
                                   {"node.boot_id", "b"},
                                   {"node.zone", "z"},
                                   {"node.created_at", 1767225600},
                                   {"node.addresses", {{{"type", "InternalIP"}}}},
                                   {"node.planned.Drained", "2026-11-20T10:00:00Z"},
                                   {"node.planned.MaintenancePlanned", "unknown"},
                                   {"node.lease_age", 75},
                                   {"node.machine", "silent"}});
  ASSERT_TRUE(scene) << scene.error().message();
  EXPECT_EQ(scene->node["spec"]["providerID"], "aws:///i-1");
  EXPECT_EQ(scene->node["status"]["nodeInfo"]["bootID"], "b");
  EXPECT_EQ(scene->node["metadata"]["labels"]["topology.kubernetes.io/zone"], "z");
  EXPECT_EQ(scene->node["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
  EXPECT_EQ(scene->node["status"]["addresses"].size(), 1U);
  EXPECT_EQ(scene->node["status"]["conditions"][1],
            json({{"type", "Drained"},
                  {"status", "True"},
                  {"lastTransitionTime", "2026-11-20T10:00:00Z"}}));
  EXPECT_EQ(scene->node["status"]["conditions"][2]["status"], "Unknown");
  EXPECT_EQ(scene->node_facts.lease_age, std::chrono::seconds(75));
  EXPECT_EQ(scene->node_facts.machine, Machine::Silent);
  EXPECT_TRUE(has(patch_error("node.planned.Draind", true), "did you mean 'Drained'"));
  EXPECT_TRUE(has(patch_error("node.planned.Drained", "soon"), "cannot stand there"));
  EXPECT_TRUE(has(patch_error("node.lease_age", -1), "cannot stand there"));
  EXPECT_TRUE(has(patch_error("node.machine", "dead"), "known are answers"));
}

TEST(Fixture, a_lease_of_the_node_tells_its_age) {
  const json lease = {{"kind", "Lease"},
                      {"metadata", {{"name", "n1"}, {"namespace", "kube-node-lease"}}},
                      {"spec", {{"renewTime", "2026-11-20T10:00:00.000000Z"}}}};
  auto scene = scene_of({lease});
  ASSERT_TRUE(scene) << scene.error().message();
  scene->cluster.now = *parse_rfc3339("2026-11-20T10:01:15Z");
  EXPECT_EQ(node_facts_of(*scene).lease_age, std::chrono::seconds(75));
  scene->cluster.now = *parse_rfc3339("2026-11-20T09:00:00Z");
  EXPECT_EQ(node_facts_of(*scene).lease_age, Duration::zero());
  EXPECT_EQ(node_facts_of(*scene_of()).lease_age, std::nullopt);
}

TEST(Fixture, a_claim_leads_to_its_volume_and_attachment) {
  const json attachment = {
      {"kind", "VolumeAttachment"},
      {"metadata", {{"name", attachment_name("h-1", "csi.example.com", "n1")}}},
      {"spec", {{"attacher", "other"}}}};
  const auto scene = scene_of({attachment});
  ASSERT_TRUE(scene) << scene.error().text;
  ASSERT_EQ(scene->facts.volumes->size(), 2U);
  const VolumeFacts& data = scene->facts.volumes->front();
  EXPECT_EQ(data.state, "bound");
  EXPECT_EQ(data.pv + " " + data.driver + " " + data.handle + " " + data.storage_class,
            "pv-1 csi.example.com h-1 fast");
  EXPECT_EQ(data.provisioner, "old");
  EXPECT_EQ(data.attachment, attachment["metadata"]["name"].get<std::string>());
  EXPECT_EQ(scene->facts.volumes->back().claim, "pg-0-scratch");
  EXPECT_EQ(scene->facts.volumes->back().state, "unbound");
}

// printf h-1csi.example.comn1 | sha256sum
TEST(Fixture, an_attachments_name_is_the_attachers) {
  EXPECT_EQ(attachment_name("h-1", "csi.example.com", "n1"),
            "csi-715455d0a0e6b4a29075ab3450a05b781d68e32576703aebc3269429f673ed5e");
}

TEST(Fixture, an_attachment_of_another_name_is_found_by_what_it_says) {
  const auto attachment = [](const std::string& name, const std::string& on) {
    return json{{"kind", "VolumeAttachment"},
                {"metadata", {{"name", name}}},
                {"spec",
                 {{"attacher", "csi.example.com"},
                  {"nodeName", on},
                  {"source", {{"persistentVolumeName", "pv-1"}}}}}};
  };
  EXPECT_EQ(scene_of({attachment("va-2", "n2"), attachment("va-1", "n1")})
                ->facts.volumes->front()
                .attachment,
            "va-1");
  EXPECT_EQ(scene_of({attachment("va-2", "n2")})->facts.volumes->front().attachment, std::nullopt);
}

TEST(Fixture, what_is_missing_on_the_way_is_named) {
  json list = {pod_with_claim(), storage()[0]};
  EXPECT_EQ(make_scene(objects_of(list), "", {})->facts.volumes->front().state, "volume_missing");
  list = {pod_with_claim(), storage()[2]};
  EXPECT_EQ(make_scene(objects_of(list), "", {})->facts.volumes->front().state, "claim_missing");
}

TEST(Fixture, a_need_without_data_is_a_gap) {
  const auto bare = make_scene(objects_of({pod_with_claim()}), "", json::object());
  ASSERT_TRUE(bare);
  EXPECT_TRUE(bare->gaps.contains("volumes"));
  EXPECT_TRUE(bare->gaps.contains("placement"));
  EXPECT_TRUE(has(bare->gaps.at("root_owner"), "add ReplicaSet db/pg-rs"));
  const json replica_set = {
      {"kind", "ReplicaSet"},
      {"metadata",
       {{"name", "pg-rs"},
        {"namespace", "db"},
        {"ownerReferences", {{{"kind", "Deployment"}, {"name", "pg"}, {"controller", true}}}}}}};
  const auto full = scene_of({replica_set, node("n1")});
  EXPECT_TRUE(full->gaps.empty()) << full->gaps.begin()->first;
  ASSERT_EQ(full->facts.owner_chain->size(), 2U);
  EXPECT_EQ(full->facts.owner_chain->front().kind, "ReplicaSet");
  EXPECT_EQ(full->facts.owner_chain->back().kind, "Deployment");
}

TEST(Fixture, candidates_are_nodes_that_could_take_the_pod) {
  json tainted = node("tainted");
  tainted["spec"]["taints"] = {{{"key", "hard"}, {"effect", "NoSchedule"}}};
  json tolerated = node("tolerated");
  tolerated["spec"]["taints"] = {{{"key", "soft"}, {"effect", "NoExecute"}}};
  json preferred = node("preferred");
  preferred["spec"]["taints"] = {{{"key", "hard"}, {"effect", "PreferNoSchedule"}}};
  json cordoned = node("cordoned");
  cordoned["spec"]["unschedulable"] = true;
  json other = node("other");
  other["metadata"]["labels"]["disk"] = "slow";
  const auto scene =
      scene_of({node("n1"), tainted, tolerated, preferred, cordoned, other, node("sick", "False")});
  EXPECT_EQ(*scene->facts.candidates, (std::vector<std::string>{"preferred", "tolerated"}));
  EXPECT_EQ(scene->cluster.nodes_total, 7);
  EXPECT_EQ(scene->cluster.nodes_ready, 6);
  EXPECT_EQ(scene->cluster.nodes_schedulable, 5);
}

TEST(Fixture, siblings_share_a_claim_and_bring_their_newest_attach_error) {
  json sibling = pod_with_claim();
  sibling["metadata"]["name"] = "pg-1";
  json stranger = sibling;
  stranger["metadata"]["name"] = "pg-2";
  stranger["metadata"]["namespace"] = "other";
  const auto event = [](const std::string& when, const std::string& text) {
    return json{{"kind", "Event"},
                {"metadata", {{"name", when}}},
                {"reason", "FailedAttachVolume"},
                {"involvedObject", {{"name", "pg-1"}, {"namespace", "db"}}},
                {"lastTimestamp", when},
                {"message", text}};
  };
  json list = {pod_with_claim(), sibling, stranger, event("2026-01-02T00:00:00Z", "new"),
               event("2026-01-01T00:00:00Z", "old")};
  const auto scene = make_scene(objects_of(list), "pg-0", json::object());
  ASSERT_TRUE(scene) << scene.error().text;
  ASSERT_EQ(scene->facts.siblings->size(), 1U);
  EXPECT_EQ(scene->facts.siblings->front().name, "pg-1");
  EXPECT_EQ(scene->facts.siblings->front().attach_error, "new");
}

TEST(Fixture, the_pod_is_chosen_by_name) {
  json second = pod_with_claim();
  second["metadata"]["name"] = "pg-1";
  const Objects objects = objects_of({pod_with_claim(), second});
  const auto unclear = make_scene(objects, "", json::object());
  ASSERT_FALSE(unclear);
  EXPECT_TRUE(has(unclear.error().message(), "2 Pods could be meant: db/pg-0, db/pg-1"));
  EXPECT_EQ(make_scene(objects, "db/pg-1", json::object())->pod["metadata"]["name"], "pg-1");
  const auto none = make_scene(objects, "pg-7", json::object());
  ASSERT_FALSE(none);
  EXPECT_TRUE(has(none.error().message(), "no Pod is called 'pg-7'"));
  EXPECT_FALSE(make_scene(objects_of({node("n1")}), "", json::object()));
}

TEST(Fixture, a_node_that_is_not_given_is_unknown) {
  const auto scene = scene_of();
  EXPECT_EQ(scene->node["metadata"]["name"], "n1");
  EXPECT_EQ(scene->node["status"]["conditions"][0]["status"], "Unknown");
}

TEST(FixturePatch, fields_of_the_pod_change_its_object) {
  const auto scene = scene_of({}, {{"pod.name", "pg-9"},
                                   {"pod.labels.app", "x"},
                                   {"pod.labels[\"a.b/c\"]", false},
                                   {"pod.deletion_timestamp", 1795169160},
                                   {"pod.owner.kind", "Job"},
                                   {"pod.ready", true},
                                   {"pod.is_static", true},
                                   {"pod.raw.spec.volumes[3]", false},
                                   {"pod.priority", 7}});
  ASSERT_TRUE(scene) << scene.error().text;
  const json& metadata = scene->pod["metadata"];
  EXPECT_EQ(metadata["name"], "pg-9");
  EXPECT_EQ(metadata["labels"], (json{{"app", "x"}}));
  EXPECT_EQ(metadata["deletionTimestamp"], "2026-11-20T10:06:00Z");
  EXPECT_EQ(metadata["ownerReferences"][0]["kind"], "Job");
  EXPECT_TRUE(metadata["annotations"].contains("kubernetes.io/config.mirror"));
  EXPECT_EQ(scene->pod["status"]["conditions"][0]["status"], "True");
  EXPECT_EQ(scene->pod["spec"]["volumes"].size(), 2U);
  EXPECT_EQ(scene->pod["spec"]["priority"], 7);
}

TEST(FixturePatch, a_bare_pod_gets_and_loses_an_owner) {
  EXPECT_FALSE(scene_of({}, {{"pod.owner", false}})->pod["metadata"].contains("ownerReferences"));
  EXPECT_TRUE(has(patch_error("pod.owner.knd", "x"), "did you mean 'kind'?"));
}

TEST(FixturePatch, fields_of_the_node_change_it) {
  const auto scene = scene_of({node("n1")}, {{"node.ready_status", "missing"},
                                             {"node.failures", 3},
                                             {"node.labels.rack", "r1"},
                                             {"node.unschedulable", true}});
  ASSERT_TRUE(scene) << scene.error().text;
  EXPECT_TRUE(scene->node["status"]["conditions"].empty());
  EXPECT_EQ(scene->node_facts.failures, 3U);
  EXPECT_EQ(scene->node["metadata"]["labels"]["rack"], "r1");
  EXPECT_EQ(scene->node["spec"]["unschedulable"], true);
  EXPECT_FALSE(scene_of({}, {{"node.ready_status", "deleted"}})->node_facts.exists);
}

TEST(FixturePatch, evidence_is_given_one_by_one_or_as_a_whole) {
  const auto of = [](const json& patch) { return scene_of({}, patch)->node_facts.evidence; };
  EvidenceSet word;
  word.insert(Evidence::Attested);
  EXPECT_EQ(of({{"node.evidence.attested", true}}), word);
  EXPECT_EQ(of({{"node.evidence", {{"attested", true}, {"silent", false}}}}), word);
  EXPECT_TRUE(of({{"node.evidence.attested", false}}).empty());
  EXPECT_TRUE(has(patch_error("node.evidence.dead", true), "known are silent, unreachable"));
  EXPECT_TRUE(has(patch_error("node.evidence.attested", "yes"), "cannot stand there"));
  EXPECT_TRUE(has(patch_error("node.evidence", "attested"), "cannot stand there"));
}

TEST(FixturePatch, facts_are_changed_after_they_were_gathered) {
  const auto scene = scene_of({}, {{"pod.volumes[1].driver", "other"},
                                   {"pod.claims[2].state", "claim_missing"},
                                   {"pod.placement.candidates", {"n7"}},
                                   {"pod.owner_chain[1].name", "first"},
                                   {"pod.root_owner.kind", "CronJob"},
                                   {"cluster.nodes_ready", 4},
                                   {"cluster.now", "2026-11-20T10:06:00Z"}});
  ASSERT_TRUE(scene) << scene.error().message();
  EXPECT_EQ((*scene->facts.volumes)[0].driver, "other");
  EXPECT_EQ((*scene->facts.volumes)[1].state, "claim_missing");
  EXPECT_EQ(*scene->facts.candidates, (std::vector<std::string>{"n7"}));
  EXPECT_EQ(scene->facts.owner_chain->back().kind, "CronJob");
  EXPECT_EQ(scene->facts.owner_chain->front().name, "first");
  EXPECT_EQ(scene->cluster.nodes_ready, 4);
  EXPECT_TRUE(scene->now_given);
  EXPECT_TRUE(scene->gaps.empty());
}

TEST(FixturePatch, a_claim_that_leads_nowhere_has_no_driver) {
  const auto scene = scene_of({}, {{"pod.claims[1].state", "unbound"}});
  EXPECT_EQ((*scene->facts.volumes)[0].driver + (*scene->facts.volumes)[0].pv, "");
  EXPECT_EQ((*scene->facts.volumes)[0].claim, "data");
}

TEST(FixturePatch, what_cannot_be_patched_says_what_can) {
  EXPECT_TRUE(has(patch_error("pod.lables.app", "x"), "did you mean 'labels'?"));
  EXPECT_TRUE(has(patch_error("pod.display_status", "Unknown"), "it follows from other fields"));
  EXPECT_TRUE(has(patch_error("pod.terminating", true), "patch pod.deletion_timestamp"));
  EXPECT_TRUE(has(patch_error("pod.volumes[2].driver", "x"), "no such entry among 2"));
  EXPECT_TRUE(has(patch_error("pod.claims[1].state", "lost"), "is no state"));
  EXPECT_TRUE(has(patch_error("pod.claims[1].drver", "x"), "did you mean 'driver'?"));
  EXPECT_TRUE(has(patch_error("settings.db", "pod"), "use the case's settings"));
  EXPECT_TRUE(has(patch_error("pd.name", "x"), "did you mean 'pod'?"));
  EXPECT_TRUE(has(patch_error("pod", "x"), "names all of pod"));
  EXPECT_TRUE(has(patch_error("pod.phase", 3), "is no text"));
  EXPECT_TRUE(has(patch_error("pod.phase.x", "a"), "has no parts"));
  EXPECT_TRUE(has(patch_error("pod.created_at", "noon"), "is no time"));
  EXPECT_TRUE(has(patch_error("node.failures", 0), "cannot stand there"));
  EXPECT_TRUE(has(patch_error("node.ready_status", "down"), "known are true, false"));
  EXPECT_TRUE(has(patch_error("cluster.nodes", 1), "unknown field 'nodes'"));
  EXPECT_TRUE(has(patch_error("pod.raw.spec.volumes[9].name", "x"), "there is no position 9"));
}

TEST(InputPath, is_read_as_a_policy_writes_it) {
  const auto path = parse_input_path("pod.labels[\"a.b/c]\"]");
  ASSERT_TRUE(path) << path.error().text;
  EXPECT_EQ(path->steps.size(), 3U);
  EXPECT_EQ(path->name(2), "a.b/c]");
  EXPECT_EQ(parse_input_path("pod.volumes[12].driver")->steps[2].position, 12U);
  for (const char* bad :
       {"", "pod.", ".pod", "pod..x", "pod[0]", "pod[x]", "pod[1", "[1]", "pod[1]x", "pod[\"a]"}) {
    EXPECT_FALSE(parse_input_path(bad)) << bad;
  }
  EXPECT_FALSE(parse_input_path(std::string(600, 'x')));
}

// Objects in which everything is of the wrong type.
TEST(Fixture, nonsense_in_objects_is_survived) {
  const json pod = json::parse(R"({"kind": "Pod",
    "metadata": {"name": "x", "namespace": 3, "labels": 7, "annotations": "a", "ownerReferences": {}},
    "spec": {"volumes": 3, "nodeName": {}, "tolerations": "x"}, "status": []})");
  const json other = {
      {"kind", "Node"}, {"metadata", {{"name", "n"}}}, {"spec", 3}, {"status", "x"}};
  const auto scene = make_scene(objects_of({pod, other}), "",
                                {{"pod.is_static", true},
                                 {"pod.ready", true},
                                 {"pod.labels.app", "x"},
                                 {"pod.phase", "Running"},
                                 {"node.ready_status", "true"},
                                 {"node.unschedulable", true}});
  ASSERT_TRUE(scene) << scene.error().text;
  EXPECT_EQ(scene->pod["metadata"]["namespace"], "default");
  EXPECT_EQ(scene->pod["metadata"]["labels"], (json{{"app", "x"}}));
}

}  // namespace
}  // namespace moonfence::policy
