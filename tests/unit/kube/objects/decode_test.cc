#include "kube/objects/decode.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence::kube {
namespace {

using nlohmann::json;

json node_json() {
  return json::parse(R"({"metadata":{"name":"n1","uid":"u1","resourceVersion":"7"},
    "spec":{"unschedulable":true,"taints":[{"key":"k","value":"v","effect":"NoSchedule"}]},
    "status":{"nodeInfo":{"bootID":"b"},"conditions":[
      {"type":"DiskPressure","status":"False"},
      {"type":"Ready","status":"Unknown","lastTransitionTime":"2026-01-02T03:04:05Z",
       "lastHeartbeatTime":null}]}})");
}

json pod_json() {
  return json::parse(
      R"({"kind":"Pod","metadata":{"name":"p","namespace":"ns","uid":"u","labels":{"a":"b"},
    "deletionTimestamp":"2026-01-02T03:04:05Z","annotations":{"kubernetes.io/config.mirror":"x"},
    "ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":"s","uid":"o","controller":true}]},
    "spec":{"nodeName":"n1","priority":1000},"status":{"phase":"Running"}})");
}

TEST(DecodeNode, every_field_arrives) {
  const auto node = decode_node(node_json());
  ASSERT_TRUE(node) << node.error().text;
  EXPECT_EQ(node->name.text(), "n1");
  EXPECT_EQ(node->uid.text(), "u1");
  EXPECT_EQ(node->resource_version.text(), "7");
  EXPECT_TRUE(node->unschedulable);
  EXPECT_EQ(node->boot_id, "b");
  EXPECT_EQ(node->taints, (std::vector<Taint>{{"k", "v", "NoSchedule"}}));
  EXPECT_EQ(node->ready.value().status, "Unknown");
  EXPECT_TRUE(node->ready->last_transition_time);
  EXPECT_EQ(node->raw, nullptr);
  EXPECT_NE(decode_node(node_json(), true)->raw, nullptr);
}

TEST(DecodeNode, what_is_kept_for_policies_lacks_managed_fields_alone) {
  json node = node_json();
  const json kept = node;
  node["metadata"]["managedFields"] = json::array({{{"manager", "kubelet"}}});
  EXPECT_EQ(*decode_node(node, true)->raw, kept);
}

TEST(DecodeNode, the_zone_is_the_label_or_its_predecessor) {
  json node = node_json();
  EXPECT_EQ(decode_node(node)->zone, "");
  node["metadata"]["labels"]["failure-domain.beta.kubernetes.io/zone"] = "old";
  EXPECT_EQ(decode_node(node)->zone, "old");
  node["metadata"]["labels"]["topology.kubernetes.io/zone"] = "new";
  EXPECT_EQ(decode_node(node)->zone, "new");
}

TEST(DecodeNode, a_node_without_ready_condition_has_none) {
  const auto node = decode_node(json::parse(R"({"metadata":{"name":"n","uid":"u"}})"));
  ASSERT_TRUE(node);
  EXPECT_FALSE(node->ready);
}

json storage_json() {
  return json::parse(R"({"metadata":{"name":"n1","uid":"u1","annotations":{
      "volumes.kubernetes.io/controller-managed-attach-detach":"true"}},
    "status":{"nodeInfo":{"bootID":"b"},"volumesInUse":["kubernetes.io/csi/d^1"],
      "volumesAttached":[{"name":"kubernetes.io/csi/d^1","devicePath":""},
                         {"name":"kubernetes.io/csi/d^2"}],
      "conditions":[{"type":"DiskPressure","status":"False","lastHeartbeatTime":"x"},
        {"type":"Ready","status":"Unknown","lastHeartbeatTime":"2026-01-02T03:04:05Z"}]}})");
}

TEST(DecodeNodeStorage, every_field_arrives) {
  const auto storage = decode_node_storage(storage_json());
  ASSERT_TRUE(storage) << storage.error().text;
  EXPECT_EQ(storage->boot_id, "b");
  EXPECT_TRUE(storage->attach_managed);
  EXPECT_EQ(storage->in_use, std::vector<std::string>{"kubernetes.io/csi/d^1"});
  EXPECT_EQ(storage->attached,
            (std::vector<std::string>{"kubernetes.io/csi/d^1", "kubernetes.io/csi/d^2"}));
  EXPECT_EQ(storage->ready_index, 1U);
  EXPECT_EQ(storage->ready_status, "Unknown");
  EXPECT_EQ(storage->ready_heartbeat, "2026-01-02T03:04:05Z");
}

TEST(DecodeNodeStorage, what_is_not_there_is_not_made_up) {
  const auto storage = decode_node_storage(json::parse(R"({"metadata":{"name":"n"}})"));
  ASSERT_TRUE(storage) << storage.error().text;
  EXPECT_EQ(storage->boot_id, "");
  EXPECT_FALSE(storage->attach_managed);
  EXPECT_TRUE(storage->in_use.empty());
  EXPECT_TRUE(storage->attached.empty());
  EXPECT_FALSE(storage->ready_index);
}

TEST(DecodeNodeStorage, a_wrong_type_anywhere_refuses_it) {
  for (const char* pointer :
       {"/status/nodeInfo/bootID", "/status/volumesInUse", "/status/volumesInUse/0",
        "/status/volumesAttached", "/status/volumesAttached/0/name", "/status/conditions",
        "/status/conditions/1/lastHeartbeatTime", "/metadata/annotations"}) {
    json node = storage_json();
    node[json::json_pointer(pointer)] = 7;
    EXPECT_FALSE(decode_node_storage(node)) << pointer;
  }
}

TEST(DecodeNode, a_wrong_type_anywhere_refuses_the_whole_node) {
  for (const char* pointer :
       {"/metadata/name", "/metadata/uid", "/spec", "/spec/taints", "/spec/taints/0",
        "/spec/taints/0/key", "/spec/unschedulable", "/status/conditions/1",
        "/status/conditions/1/status", "/status/conditions/1/lastTransitionTime"}) {
    json broken = node_json();
    broken[json::json_pointer(pointer)] = 3;
    const auto node = decode_node(broken);
    ASSERT_FALSE(node) << pointer;
    EXPECT_EQ(node.error().kind, Error::Kind::Malformed);
  }
}

TEST(DecodeNode, its_kubelet_listens_where_the_status_says) {
  const auto kubelet = [](const char* status) {
    return decode_node(
               {{"metadata", {{"name", "n1"}, {"uid", "u1"}}}, {"status", json::parse(status)}})
        ->kubelet;
  };
  EXPECT_EQ(kubelet(R"({"addresses": [{"type": "Hostname", "address": "n1"},
                                      {"type": "InternalIP", "address": "10.0.0.1"},
                                      {"type": "ExternalIP", "address": "203.0.113.1"},
                                      {"type": "InternalIP", "address": "fd00::1"},
                                      {"type": "InternalIP", "address": "10.0.0.2"}],
                        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10255}}})"),
            (KubeletAddress{.addresses = {"10.0.0.1", "fd00::1"}, .port = 10255}));
  EXPECT_EQ(kubelet("{}"), KubeletAddress{});
}

// It serves to watch the machine and nothing else: no Node is lost for it.
TEST(DecodeNode, what_is_no_address_is_passed_over) {
  for (const char* status :
       {R"({"addresses": 7})", R"({"addresses": ["10.0.0.1", null, {}]})",
        R"({"addresses": [{"type": "InternalIP"}, {"type": "InternalIP", "address": 1},
                          {"type": 3, "address": "10.0.0.1"}]})",
        R"({"addresses": [{"type": "InternalIP", "address": "127.0.0.1"},
                          {"type": "InternalIP", "address": "::1"},
                          {"type": "InternalIP", "address": "0.0.0.0"},
                          {"type": "InternalIP", "address": "169.254.0.7"},
                          {"type": "InternalIP", "address": "fe80::1"}]})",
        R"({"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}})",
        R"({"daemonEndpoints": {"kubeletEndpoint": {"Port": 65536}}})",
        R"({"daemonEndpoints": {"kubeletEndpoint": {"Port": "10250"}}})",
        R"({"daemonEndpoints": []})"}) {
    const auto node = decode_node(
        {{"metadata", {{"name", "n1"}, {"uid", "u1"}}}, {"status", json::parse(status)}});
    ASSERT_TRUE(node) << status << node.error().message();
    EXPECT_EQ(node->kubelet, KubeletAddress{}) << status;
  }
  const std::string longer(46, '1');
  const auto node =
      decode_node({{"metadata", {{"name", "n1"}, {"uid", "u1"}}},
                   {"status", {{"addresses", {{{"type", "InternalIP"}, {"address", longer}}}}}}});
  EXPECT_TRUE(node->kubelet.addresses.empty());
}

TEST(DecodeNode, a_status_or_another_kind_is_no_node) {
  json status = node_json();
  status["kind"] = "Status";
  EXPECT_FALSE(decode_node(status));
  EXPECT_FALSE(decode_node(json::array()));
  EXPECT_FALSE(decode_node(json()));
}

json attachment_json() {
  return {{"kind", "VolumeAttachment"},
          {"metadata",
           {{"name", "csi-1"},
            {"uid", "va-1"},
            {"deletionTimestamp", "2026-01-02T06:00:00Z"},
            {"finalizers", {"external-attacher/driver-longhorn-io"}}}},
          {"spec",
           {{"attacher", "driver.longhorn.io"},
            {"nodeName", "n1"},
            {"source", {{"persistentVolumeName", "pv-1"}}}}},
          {"status", {{"attached", true}, {"detachError", {{"message", "array is offline"}}}}}};
}

TEST(DecodeAttachment, every_field_arrives) {
  const auto attachment = decode_attachment(attachment_json());
  ASSERT_TRUE(attachment) << attachment.error().text;
  EXPECT_EQ(*attachment, (Attachment{.name = "csi-1",
                                     .uid = Uid("va-1"),
                                     .attacher = "driver.longhorn.io",
                                     .node = NodeName("n1"),
                                     .volume = "pv-1",
                                     .terminating = true,
                                     .held_by_attacher = true,
                                     .detach_error = "array is offline"}));
}

TEST(DecodeAttachment, what_says_who_it_is_is_required) {
  for (const char* pointer :
       {"/metadata/name", "/metadata/uid", "/spec/attacher", "/spec/nodeName"}) {
    json object = attachment_json();
    object[json::json_pointer(pointer)] = "";
    EXPECT_FALSE(decode_attachment(object)) << pointer;
    object[json::json_pointer(pointer)] = 7;
    EXPECT_FALSE(decode_attachment(object)) << pointer;
  }
}

TEST(DecodeAttachment, an_inline_volume_and_other_finalizers_are_told_apart) {
  json object = attachment_json();
  object["spec"]["source"] = {{"inlineVolumeSpec", json::object()}};
  object["metadata"]["finalizers"] = {"example.com/external-attacher/x", 7};
  object["metadata"].erase("deletionTimestamp");
  object.erase("status");
  const auto attachment = decode_attachment(object);
  ASSERT_TRUE(attachment) << attachment.error().text;
  EXPECT_EQ(attachment->volume, "");
  EXPECT_FALSE(attachment->held_by_attacher);
  EXPECT_FALSE(attachment->terminating);
  EXPECT_EQ(attachment->detach_error, "");
}

TEST(DecodePod, every_field_arrives) {
  const auto pod = decode_pod(pod_json());
  ASSERT_TRUE(pod) << pod.error().text;
  EXPECT_EQ(pod->ref.text(), "ns/p");
  EXPECT_EQ(pod->uid.text(), "u");
  EXPECT_EQ(pod->node.text(), "n1");
  EXPECT_EQ(pod->labels.at("a"), "b");
  EXPECT_EQ(pod->phase, "Running");
  EXPECT_EQ(pod->priority, 1000);
  EXPECT_TRUE(pod->deletion_timestamp);
  EXPECT_TRUE(pod->is_mirror);
  ASSERT_NE(pod->controller(), nullptr);
  EXPECT_EQ(pod->controller()->kind, "StatefulSet");
}

TEST(DecodePod, its_text_is_kept_but_for_who_wrote_which_field) {
  json object = pod_json();
  object["metadata"]["managedFields"] = json::array({{{"manager", "kubelet"}}});
  object["spec"]["managedFields"] = "another one";
  PodDecoder decoder;
  const auto pod = decoder.decode(object.dump());
  ASSERT_TRUE(pod) << pod.error().text;
  json kept = object;
  kept["metadata"].erase("managedFields");
  EXPECT_EQ(*pod->raw, kept);
  EXPECT_EQ(pod->ref.text(), "ns/p");
  // The next text has no part of this one.
  json next = pod_json();
  next["metadata"]["uid"] = "v";
  const auto second = decoder.decode(next.dump());
  ASSERT_TRUE(second) << second.error().text;
  EXPECT_EQ(*second->raw, next);
  EXPECT_EQ(*pod->raw, kept);
}

TEST(DecodePod, a_text_that_is_no_pod_says_so) {
  PodDecoder decoder;
  for (const char* text : {"", "{", "[]", "7", R"({"metadata": {"name": "p"}})"}) {
    const auto pod = decoder.decode(text);
    ASSERT_FALSE(pod) << text;
    EXPECT_EQ(pod.error().kind, Error::Kind::Malformed) << text;
  }
}

TEST(DecodePod, name_namespace_and_uid_are_required) {
  for (const char* field : {"name", "namespace", "uid"}) {
    json broken = pod_json();
    broken["metadata"].erase(field);
    EXPECT_FALSE(decode_pod(broken)) << field;
    broken["metadata"][field] = nullptr;
    EXPECT_FALSE(decode_pod(broken)) << field;
    broken["metadata"][field] = "";
    EXPECT_FALSE(decode_pod(broken)) << field;
  }
}

}  // namespace
}  // namespace moonfence::kube
