#include "policy/input/pod_facts.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/sha256.h"
#include "base/text.h"
#include "policy/input/node_affinity.h"
#include "policy/input/translated.h"
#include "policy/lua/views.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

std::string name_of(const json* object) {
  return std::string(text_of(member(object, "metadata", "name")));
}
std::string namespace_of(const json* object) {
  const std::string_view space = text_of(member(object, "metadata", "namespace"));
  return space.empty() ? "default" : std::string(space);
}

template <class Each>
void for_each_in(const json* list, Each each) {
  if (list != nullptr && list->is_array()) {
    for (const json& element : *list) {
      each(element);
    }
  }
}

const json* find(const Objects& objects, std::string_view kind, std::string_view space,
                 std::string_view name) {
  for (const json* object : of_kind(objects, kind)) {
    if (name_of(object) == name && (space.empty() || namespace_of(object) == space)) {
      return object;
    }
  }
  return nullptr;
}

// ---- volumes ---------------------------------------------------------------------------------

std::string provisioner_of(const json* claim) {
  const json* annotations = member(claim, "metadata", "annotations");
  const std::string_view beta =
      text_of(member(annotations, "volume.beta.kubernetes.io/storage-provisioner"));
  return std::string(beta.empty()
                         ? text_of(member(annotations, "volume.kubernetes.io/storage-provisioner"))
                         : beta);
}

std::optional<std::string> find_attachment(const Objects& objects, const VolumeFacts& volume,
                                           std::string_view node) {
  const std::string usual =
      volume.handle.empty() ? "" : attachment_name(volume.handle, volume.driver, node);
  std::optional<std::string> by_spec;
  for (const json* attachment : of_kind(objects, "VolumeAttachment")) {
    const json* spec = member(attachment, "spec");
    const bool fits = text_of(member(spec, "attacher")) == volume.driver &&
                      text_of(member(spec, "nodeName")) == node &&
                      text_of(member(spec, "source", "persistentVolumeName")) == volume.pv;
    if (name_of(attachment) == usual) {
      return usual;
    }
    if (fits && !by_spec) {
      by_spec = name_of(attachment);
    }
  }
  return by_spec;
}

void follow_volume(const Objects& objects, VolumeFacts& volume, std::string_view node) {
  const json* pv = find(objects, "PersistentVolume", "", volume.pv);
  if (pv == nullptr) {
    volume.state = "volume_missing";
    return;
  }
  volume.state = "bound";
  volume.driver = csi_driver_of(pv);
  volume.handle = text_of(member(member(pv, "spec", "csi"), "volumeHandle"));
  volume.storage_class = text_of(member(pv, "spec", "storageClassName"));
  for_each_in(member(pv, "spec", "accessModes"),
              [&](const json& mode) { volume.access_modes.emplace_back(text_of(&mode)); });
  if (!volume.driver.empty()) {
    volume.attachment = find_attachment(objects, volume, node);
  }
}

bool is_ephemeral(const json& pod, std::string_view name) {
  bool found = false;
  for_each_in(member(&pod, "spec", "volumes"), [&](const json& volume) {
    found = found ||
            (text_of(member(&volume, "name")) == name && member(&volume, "ephemeral") != nullptr);
  });
  return found;
}

std::vector<VolumeFacts> resolve_volumes(const Objects& objects, const json& pod,
                                         std::string_view node) {
  std::vector<VolumeFacts> volumes;
  for (const auto& [name, claim] : claims_of(pod)) {
    VolumeFacts volume{.name = name, .claim = claim, .space = namespace_of(&pod)};
    volume.ephemeral = is_ephemeral(pod, name);
    const json* object = find(objects, "PersistentVolumeClaim", volume.space, claim);
    if (object == nullptr) {
      volume.state = "claim_missing";
    } else {
      volume.provisioner = provisioner_of(object);
      volume.pv = text_of(member(object, "spec", "volumeName"));
      if (volume.pv.empty()) {
        volume.state = "unbound";
      } else {
        follow_volume(objects, volume, node);
      }
    }
    volumes.push_back(std::move(volume));
  }
  return volumes;
}

// ---- placement -------------------------------------------------------------------------------

bool tolerates(const json& pod, const json& taint) {
  bool tolerated = false;
  for_each_in(member(&pod, "spec", "tolerations"), [&](const json& toleration) {
    const std::string_view key = text_of(member(&toleration, "key"));
    const std::string_view effect = text_of(member(&toleration, "effect"));
    const bool exists = text_of(member(&toleration, "operator")) == "Exists";
    const bool key_fits = key.empty() ? exists : key == text_of(member(&taint, "key"));
    const bool value_fits =
        exists || text_of(member(&toleration, "value")) == text_of(member(&taint, "value"));
    tolerated = tolerated || (key_fits && value_fits &&
                              (effect.empty() || effect == text_of(member(&taint, "effect"))));
  });
  return tolerated;
}

bool can_take(const json& node, const json& pod) {
  bool ready = false;
  for_each_in(member(&node, "status", "conditions"), [&](const json& condition) {
    ready = ready || (text_of(member(&condition, "type")) == "Ready" &&
                      text_of(member(&condition, "status")) == "True");
  });
  const json* cordoned = member(&node, "spec", "unschedulable");
  bool fits = ready && !(cordoned != nullptr && cordoned->is_boolean() && *cordoned);
  for_each_in(member(&node, "spec", "taints"), [&](const json& taint) {
    const std::string_view effect = text_of(member(&taint, "effect"));
    const bool repels = effect == "NoSchedule" || effect == "NoExecute";
    fits = fits && (!repels || tolerates(pod, taint));
  });
  if (const json* wanted = member(&pod, "spec", "nodeSelector");
      wanted != nullptr && wanted->is_object()) {
    const json* labels = member(&node, "metadata", "labels");
    for (const auto& [key, value] : wanted->items()) {
      fits = fits && text_of(member(labels, key)) == text_of(&value);
    }
  }
  return fits;
}

// What the pod's PersistentVolumes demand of a node.
std::vector<const json*> volume_demands(const Objects& objects, const json& pod) {
  std::vector<const json*> demands;
  for (const auto& [name, claim] : claims_of(pod)) {
    const json* object = find(objects, "PersistentVolumeClaim", namespace_of(&pod), claim);
    const json* volume = object == nullptr ? nullptr
                                           : find(objects, "PersistentVolume", "",
                                                  text_of(member(object, "spec", "volumeName")));
    if (const json* demand = member(member(volume, "spec", "nodeAffinity"), "required");
        demand != nullptr) {
      demands.push_back(demand);
    }
  }
  return demands;
}

std::vector<std::string> find_candidates(const Objects& objects, const json& pod,
                                         std::string_view own) {
  std::vector<const json*> demands = volume_demands(objects, pod);
  const json* affinity = member(member(&pod, "spec", "affinity"), "nodeAffinity");
  if (const json* demand = member(affinity, "requiredDuringSchedulingIgnoredDuringExecution");
      demand != nullptr) {
    demands.push_back(demand);
  }
  std::vector<std::string> candidates;
  for (const json* node : of_kind(objects, "Node")) {
    const auto satisfied = [node](const json* demand) { return matches_selector(demand, *node); };
    if (name_of(node) != own && can_take(*node, pod) &&
        std::all_of(demands.begin(), demands.end(), satisfied)) {
      candidates.push_back(name_of(node));
    }
  }
  std::sort(candidates.begin(), candidates.end());
  return candidates;
}

// ---- owner and siblings ----------------------------------------------------------------------

std::vector<OwnerFacts> find_owner_chain(const Objects& objects, const json& pod,
                                         std::string& gap) {
  constexpr std::size_t kLongestChain = 8;
  std::vector<OwnerFacts> chain;
  const json* owner = controller_of(&pod);
  while (owner != nullptr && chain.size() < kLongestChain) {
    const OwnerFacts next = {.kind = std::string(text_of(member(owner, "kind"))),
                             .name = std::string(text_of(member(owner, "name"))),
                             .uid = std::string(text_of(member(owner, "uid"))),
                             .api_version = std::string(text_of(member(owner, "apiVersion")))};
    const json* object = find(objects, next.kind, namespace_of(&pod), next.name);
    if (object == nullptr && may_be_owned(next.api_version, next.kind)) {
      gap = "add " + next.kind + " " + namespace_of(&pod) + "/" + next.name +
            " to the objects; it may have an owner itself";
    }
    chain.push_back(next);
    owner = controller_of(object);
  }
  return chain;
}

std::string newest_attach_error(const Objects& objects, const json* pod) {
  std::string newest;
  std::string text;
  for (const json* event : of_kind(objects, "Event")) {
    const json* about = member(event, "involvedObject");
    const bool fits = text_of(member(event, "reason")) == "FailedAttachVolume" &&
                      text_of(member(about, "name")) == name_of(pod) &&
                      text_of(member(about, "namespace")) == namespace_of(pod);
    // RFC 3339 in UTC sorts as text.
    std::string when(text_of(member(event, "lastTimestamp")));
    if (when.empty()) {
      when = text_of(member(event, "eventTime"));
    }
    if (fits && (text.empty() || when >= newest)) {
      newest = when;
      text = text_of(member(event, "message"));
    }
  }
  return text;
}

std::vector<SiblingFacts> find_siblings(const Objects& objects, const json& pod) {
  std::set<std::string> wanted;
  for (const auto& [name, claim] : claims_of(pod)) {
    wanted.insert(claim);
  }
  std::vector<SiblingFacts> siblings;
  for (const json* other : of_kind(objects, "Pod")) {
    if (namespace_of(other) != namespace_of(&pod) || name_of(other) == name_of(&pod)) {
      continue;
    }
    for (const auto& [name, claim] : claims_of(*other)) {
      if (!wanted.contains(claim)) {
        continue;
      }
      SiblingFacts sibling{.name = name_of(other),
                           .uid = std::string(text_of(member(other, "metadata", "uid"))),
                           .node_name = std::string(text_of(member(other, "spec", "nodeName"))),
                           .claim = claim,
                           .phase = std::string(text_of(member(other, "status", "phase")))};
      for_each_in(member(other, "status", "conditions"), [&](const json& condition) {
        sibling.ready = sibling.ready || (text_of(member(&condition, "type")) == "Ready" &&
                                          text_of(member(&condition, "status")) == "True");
      });
      sibling.terminating = member(other, "metadata", "deletionTimestamp") != nullptr;
      sibling.attach_error = newest_attach_error(objects, other);
      siblings.push_back(std::move(sibling));
    }
  }
  return siblings;
}

}  // namespace

std::string attachment_name(std::string_view handle, std::string_view driver,
                            std::string_view node) {
  return "csi-" + sha256_hex(std::string(handle) + std::string(driver) + std::string(node));
}

std::vector<const json*> of_kind(const Objects& objects, std::string_view kind) {
  std::vector<const json*> found;
  for (const auto& object : objects) {
    if (text_of(member(object.get(), "kind")) == kind) {
      found.push_back(object.get());
    }
  }
  return found;
}

std::vector<std::pair<std::string, std::string>> claims_of(const json& pod) {
  std::vector<std::pair<std::string, std::string>> claims;
  for_each_in(member(&pod, "spec", "volumes"), [&](const json& volume) {
    const std::string name(text_of(member(&volume, "name")));
    const std::string_view claim = text_of(member(&volume, "persistentVolumeClaim", "claimName"));
    if (!claim.empty()) {
      claims.emplace_back(name, claim);
    } else if (member(&volume, "ephemeral") != nullptr) {
      claims.emplace_back(name, name_of(&pod) + "-" + name);
    }
  });
  return claims;
}

bool may_be_owned(std::string_view api_version, std::string_view kind) {
  return (kind == "ReplicaSet" && api_version.starts_with("apps/")) ||
         (kind == "Job" && api_version.starts_with("batch/"));
}

const json* controller_of(const json* object) {
  const json* found = nullptr;
  for_each_in(member(object, "metadata", "ownerReferences"), [&](const json& owner) {
    const json* flag = member(&owner, "controller");
    if (found == nullptr && flag != nullptr && flag->is_boolean() && *flag) {
      found = &owner;
    }
  });
  return found;
}

PodFacts facts_of(const json& pod, const Objects& objects, const Needs& needs,
                  std::map<std::string, std::string>& gaps) {
  const std::string node(text_of(member(&pod, "spec", "nodeName")));
  PodFacts facts;
  if (needs.volumes) {
    facts.volumes = resolve_volumes(objects, pod, node);
    const bool storage_is_known = !of_kind(objects, "PersistentVolumeClaim").empty() ||
                                  !of_kind(objects, "PersistentVolume").empty() ||
                                  !of_kind(objects, "VolumeAttachment").empty();
    if (!facts.volumes->empty() && !storage_is_known) {
      gaps["volumes"] =
          "the pod has claims, but there is no PersistentVolumeClaim among the objects; add "
          "`kubectl get pvc,pv,volumeattachment -o json`";
    }
  }
  if (needs.placement) {
    if (of_kind(objects, "Node").empty()) {
      gaps["placement"] = "there is no Node among the objects; add `kubectl get node -o json`";
    }
    facts.candidates = find_candidates(objects, pod, node);
  }
  if (needs.siblings) {
    facts.siblings = find_siblings(objects, pod);
  }
  if (needs.root_owner) {
    std::string gap;
    facts.owner_chain = find_owner_chain(objects, pod, gap);
    if (!gap.empty()) {
      gaps["root_owner"] = gap;
    }
  }
  return facts;
}

}  // namespace moonfence::policy
