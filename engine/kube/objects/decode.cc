#include "kube/objects/decode.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "kube/text/json.h"

namespace moonfence::kube {
namespace {

using nlohmann::json;

// Items of a typed list lack kind and apiVersion; where a kind stands it must be the right one, or
// a Status that an intermediary put into a 200 would be read as an object full of defaults.
void expect_kind(Fields& fields, std::string_view kind) {
  const std::string found = fields.string({"kind"});
  if (!found.empty() && found != kind) {
    fields.refuse({"kind"},
                  "expected " + std::string(kind) + ", found \"" + escaped(found, 64) + "\"");
  }
}

// Calls `each(part)` for the objects of an array, naming its place: "status.conditions[3]".
template <class Each>
void for_each_object(Fields& fields, Fields::Path path, const std::string& place, Each each) {
  const json* array = fields.array(path);
  if (array == nullptr) {
    return;
  }
  for (std::size_t i = 0; i < array->size(); ++i) {
    Fields part((*array)[i], place + "[" + std::to_string(i) + "]");
    if (!part.fault()) {
      each(part);
    }
    fields.adopt(part);
  }
}

constexpr std::string_view kAttachManaged =
    "volumes.kubernetes.io/controller-managed-attach-detach";

std::string zone_of(const Labels& labels) {
  for (const char* key :
       {"topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"}) {
    if (const auto label = labels.find(key); label != labels.end() && !label->second.empty()) {
      return label->second;
    }
  }
  return {};
}

// Everybody has these: who asks there hears himself, and the node would answer for ever.
bool is_everybodys(const std::string& address) {
  constexpr std::array<std::string_view, 6> kPrefixes = {"127.",        "0.",    "169.254.",
                                                         "::ffff:127.", "fe80:", "FE80:"};
  return address == "::1" || address == "::" ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&address](std::string_view prefix) { return address.starts_with(prefix); });
}

// Whatever is no address is passed over: a Node is not refused for it.
KubeletAddress kubelet_of(const json& object) {
  constexpr std::size_t kMost = 2;      // of either family
  constexpr std::size_t kLongest = 45;  // of IPv6 in digits
  KubeletAddress kubelet;
  const json::json_pointer addresses("/status/addresses");
  if (object.contains(addresses) && object[addresses].is_array()) {
    for (const json& entry : object[addresses]) {
      const auto type = entry.is_object() ? entry.find("type") : entry.end();
      const auto address = entry.is_object() ? entry.find("address") : entry.end();
      if (type != entry.end() && *type == "InternalIP" && address != entry.end() &&
          address->is_string() && address->get_ref<const std::string&>().size() <= kLongest &&
          !is_everybodys(address->get_ref<const std::string&>()) &&
          kubelet.addresses.size() < kMost) {
        kubelet.addresses.push_back(address->get<std::string>());
      }
    }
  }
  const json::json_pointer port("/status/daemonEndpoints/kubeletEndpoint/Port");
  if (object.contains(port) && object[port].is_number_integer()) {
    const auto number = object[port].get<std::int64_t>();
    kubelet.port = number > 0 && number <= std::numeric_limits<std::uint16_t>::max()
                       ? static_cast<std::uint16_t>(number)
                       : KubeletAddress::kPort;
  }
  return kubelet;
}

// Without metadata.managedFields, which nobody reads and which are half of an object.
std::shared_ptr<const json> raw_of(const json& object, bool keep) {
  if (!keep) {
    return nullptr;
  }
  auto kept = std::make_shared<json>(object);
  if (const auto metadata = kept->find("metadata"); metadata != kept->end()) {
    metadata->erase("managedFields");
  }
  return kept;
}

}  // namespace

Result<Node> decode_node(const json& object, bool keep_raw) {
  Fields fields(object);
  if (fields.fault()) {
    return failure(Error(*fields.fault()).within("node"));
  }
  expect_kind(fields, "Node");
  Node node;
  node.name = NodeName(fields.required({"metadata", "name"}));
  node.uid = Uid(fields.required({"metadata", "uid"}));
  node.resource_version = ResourceVersion(fields.string({"metadata", "resourceVersion"}));
  node.labels = fields.strings({"metadata", "labels"});
  node.created = fields.time({"metadata", "creationTimestamp"});
  node.unschedulable = fields.boolean({"spec", "unschedulable"});
  node.boot_id = fields.string({"status", "nodeInfo", "bootID"});
  node.zone = zone_of(node.labels);
  node.kubelet = kubelet_of(object);
  constexpr std::size_t kLongestMark = std::size_t{16} << 10U;
  node.fence_mark =
      fields.string({"metadata", "annotations", "moonfence.io/fenced"}).substr(0, kLongestMark);
  node.out_of_service_mark =
      fields.string({"metadata", "annotations", "moonfence.io/out-of-service"})
          .substr(0, kLongestMark);
  node.silent_mark =
      fields.string({"metadata", "annotations", "moonfence.io/silent"}).substr(0, kLongestMark);
  node.evidence_mark = fields.string({"metadata", "annotations", "moonfence.io/fencing-evidence"})
                           .substr(0, kLongestMark);
  for_each_object(fields, {"spec", "taints"}, "spec.taints", [&node](Fields& taint) {
    node.taints.push_back(Taint{.key = taint.string({"key"}),
                                .value = taint.string({"value"}),
                                .effect = taint.string({"effect"})});
    if (node.taints.back().key == "node.kubernetes.io/unschedulable") {
      node.cordoned = taint.time({"timeAdded"});
    }
  });
  for_each_object(
      fields, {"status", "conditions"}, "status.conditions", [&node](Fields& condition) {
        const std::string type = condition.string({"type"});
        if (type == "FencingEvidence") {
          node.evidence_stands = condition.string({"status"}) == "True";
        }
        if (type != "Ready" || node.ready) {
          return;
        }
        node.ready = Condition{.status = condition.string({"status"}),
                               .last_transition_time = condition.time({"lastTransitionTime"}),
                               .reason = condition.string({"reason"})};
      });
  if (fields.fault()) {
    return failure(
        Error(*fields.fault()).within("node \"" + escaped(node.name.text(), 128) + "\""));
  }
  node.raw = raw_of(object, keep_raw);
  return node;
}

Omitted omitted_of_nodes(KubeletAddresses addresses) {
  Omitted omitted = {{"metadata", "managedFields"},
                     {"status", "images"},
                     {"status", "allocatable"},
                     {"status", "capacity"},
                     {"status", "config"},
                     {"status", "volumesAttached"},
                     {"status", "volumesInUse"},
                     {"status", "conditions", "lastHeartbeatTime"},
                     {"status", "conditions", "message"}};
  if (addresses == KubeletAddresses::LeftOut) {
    omitted.push_back({"status", "addresses"});
    omitted.push_back({"status", "daemonEndpoints"});
  }
  return omitted;
}

Result<NodeStorage> decode_node_storage(const json& node) {
  Fields fields(node);
  if (fields.fault()) {
    return failure(Error(*fields.fault()).within("node"));
  }
  NodeStorage storage;
  storage.boot_id = fields.string({"status", "nodeInfo", "bootID"});
  storage.attach_managed = fields.string({"metadata", "annotations", kAttachManaged}) == "true";
  if (const json* in_use = fields.array({"status", "volumesInUse"}); in_use != nullptr) {
    for (const json& volume : *in_use) {
      if (!volume.is_string()) {
        fields.refuse({"status", "volumesInUse"}, "expected names");
        break;
      }
      storage.in_use.push_back(volume.get<std::string>());
    }
  }
  for_each_object(
      fields, {"status", "volumesAttached"}, "status.volumesAttached",
      [&storage](Fields& volume) { storage.attached.push_back(volume.required({"name"})); });
  std::size_t index = 0;
  for_each_object(fields, {"status", "conditions"}, "status.conditions",
                  [&storage, &index](Fields& condition) {
                    if (!storage.ready_index && condition.string({"type"}) == "Ready") {
                      storage.ready_index = index;
                      storage.ready_status = condition.string({"status"});
                      storage.ready_heartbeat = condition.string({"lastHeartbeatTime"});
                    }
                    ++index;
                  });
  if (fields.fault()) {
    return failure(Error(*fields.fault()).within("the volumes of a node"));
  }
  return storage;
}

Result<Pod> decode_pod(const json& object, bool keep_raw) {
  Fields fields(object);
  if (fields.fault()) {
    return failure(Error(*fields.fault()).within("pod"));
  }
  expect_kind(fields, "Pod");
  Pod pod;
  pod.ref = PodRef{.space = Namespace(fields.required({"metadata", "namespace"})),
                   .name = fields.required({"metadata", "name"})};
  pod.uid = Uid(fields.required({"metadata", "uid"}));
  pod.resource_version = ResourceVersion(fields.string({"metadata", "resourceVersion"}));
  pod.node = NodeName(fields.string({"spec", "nodeName"}));
  pod.labels = fields.strings({"metadata", "labels"});
  pod.phase = fields.string({"status", "phase"});
  pod.priority = fields.integer({"spec", "priority"});
  pod.deletion_timestamp = fields.time({"metadata", "deletionTimestamp"});
  for_each_object(fields, {"status", "conditions"}, "status.conditions", [&pod](Fields& condition) {
    if (condition.string({"type"}) == "PodScheduled" && condition.string({"status"}) == "True") {
      pod.bound = condition.time({"lastTransitionTime"});
    }
    if (condition.string({"type"}) == "DisruptionTarget" &&
        condition.string({"status"}) == "True") {
      pod.failed_by_us = condition.string({"reason"}) == kDeletionByMoonfence;
    }
  });
  const json* annotations = fields.object({"metadata", "annotations"});
  pod.is_mirror = annotations != nullptr && annotations->contains("kubernetes.io/config.mirror");
  for_each_object(
      fields, {"metadata", "ownerReferences"}, "metadata.ownerReferences", [&pod](Fields& owner) {
        pod.owners.push_back(OwnerReference{.api_version = owner.string({"apiVersion"}),
                                            .kind = owner.string({"kind"}),
                                            .name = owner.string({"name"}),
                                            .uid = Uid(owner.string({"uid"})),
                                            .controller = owner.boolean({"controller"})});
      });
  if (fields.fault()) {
    return failure(Error(*fields.fault()).within("pod \"" + escaped(pod.ref.text(), 256) + "\""));
  }
  pod.raw = raw_of(object, keep_raw);
  return pod;
}

Result<Attachment> decode_attachment(const json& object) {
  Fields fields(object);
  if (fields.fault()) {
    return failure(Error(*fields.fault()).within("volume attachment"));
  }
  expect_kind(fields, "VolumeAttachment");
  Attachment attachment;
  attachment.name = fields.required({"metadata", "name"});
  attachment.uid = Uid(fields.required({"metadata", "uid"}));
  attachment.attacher = fields.required({"spec", "attacher"});
  attachment.node = NodeName(fields.required({"spec", "nodeName"}));
  attachment.volume = fields.string({"spec", "source", "persistentVolumeName"});
  attachment.terminating = fields.time({"metadata", "deletionTimestamp"}).has_value();
  attachment.detach_error = fields.string({"status", "detachError", "message"});
  if (const json* finalizers = fields.array({"metadata", "finalizers"}); finalizers != nullptr) {
    for (const json& finalizer : *finalizers) {
      attachment.held_by_attacher =
          attachment.held_by_attacher ||
          (finalizer.is_string() &&
           finalizer.get_ref<const std::string&>().starts_with("external-attacher/"));
    }
  }
  if (fields.fault()) {
    return failure(Error(*fields.fault())
                       .within("volume attachment \"" + escaped(attachment.name, 128) + "\""));
  }
  return attachment;
}

PodDecoder::PodDecoder() : parser_(Omitted{{"metadata", "managedFields"}}) {}

Result<Pod> PodDecoder::decode(std::string_view text) {
  auto object = parser_.parse(text);
  if (!object) {
    return failure(std::move(object.error()));
  }
  auto pod = decode_pod(*object);
  if (pod) {
    (*object)["metadata"].erase("managedFields");  // of a text that was too long for the parser
    pod->raw = std::make_shared<const json>(*std::move(object));
  }
  return pod;
}

Result<Pod> decode_pod_text(std::string_view text) {
  return PodDecoder().decode(text);
}

}  // namespace moonfence::kube
