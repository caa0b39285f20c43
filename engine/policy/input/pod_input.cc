// The pod as scripts see it.

#include <array>
#include <string_view>

#include "policy/input/display_status.h"
#include "policy/input/fields.h"
#include "policy/input/inputs.h"
#include "policy/lua/library.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

constexpr std::string_view kKind = "kind";
constexpr std::string_view kApiVersion = "apiVersion";

// What stands before the '/' of an apiVersion; "" of v1, which is of the core group.
void push_api_group(lua_State* lua, const View& view) {
  const std::string_view version = text_of(member(view.json, kApiVersion));
  const auto slash = version.find('/');
  push_text(lua, slash == std::string_view::npos ? std::string_view() : version.substr(0, slash));
}

constexpr std::array<Field, 5> kOwnerFields = {{
    {"kind", push_text_member<kKind>, "string", "such as StatefulSet; \"\" when there is none"},
    {"name", push_text_member<kName>, "string", "its name"},
    {"uid", push_text_member<kUid>, "string", "its UID"},
    {"api_version", push_text_member<kApiVersion>, "string", "such as apps/v1"},
    {"api_group", push_api_group, "string", "such as apps; \"\" of Kubernetes' core"},
}};
constexpr Shape kOwner{.name = "owner",
                       .class_name = "Owner",
                       .doc = "What owns a pod. Every field is \"\" when there is none.",
                       .fields = kOwnerFields};

// ---- volumes and siblings --------------------------------------------------------------------

constexpr std::string_view kClaim = "claim";
constexpr std::string_view kState = "state";
constexpr std::string_view kPv = "pv";
constexpr std::string_view kDriver = "driver";
constexpr std::string_view kHandle = "handle";
constexpr std::string_view kStorageClass = "storage_class";
constexpr std::string_view kProvisioner = "provisioner";

constexpr std::array<Field, 11> kVolumeFields = {{
    {"name", push_text_member<kName>, "string", "in the pod's spec.volumes"},
    {"claim", push_text_member<kClaim>, "string", "name of the PersistentVolumeClaim"},
    {"namespace", push_text_member<kNamespace>, "string", "of the claim"},
    {"state", push_text_member<kState>,
     "\"bound\"|\"unbound\"|\"claim_missing\"|\"volume_missing\"", "how far the claim leads"},
    {"pv", push_text_member<kPv>, "string", "name of the PersistentVolume; \"\" while not bound"},
    {"driver", push_text_member<kDriver>, "string",
     "CSI driver that attaches it; \"\" while not bound, and when none does"},
    {"handle", push_text_member<kHandle>, "string",
     "the driver's own name of the volume; \"\" of one that Kubernetes translates to CSI"},
    {"storage_class", push_text_member<kStorageClass>, "string", "name of the StorageClass"},
    {"provisioner", push_text_member<kProvisioner>, "string",
     "who made it, as the claim's annotation says; \"\" when none does"},
    {"access_modes",
     [](lua_State* lua, const View& v) {
       push_view(lua, {.kind = View::Kind::List,
                       .name = "volume.access_modes",
                       .json = member(v.json, "access_modes")});
     },
     "string[]", "such as ReadWriteOnce"},
    {"attachment",
     [](lua_State* lua, const View& v) { push_json(lua, member(v.json, "attachment"), "volume"); },
     "string?", "name of the VolumeAttachment to the pod's node"},
}};
constexpr Shape kVolume{.name = "volume",
                        .class_name = "Volume",
                        .doc = "A claim of the pod on its way to PersistentVolume and attachment.",
                        .fields = kVolumeFields};

constexpr std::string_view kSiblingNode = "node_name";
constexpr std::string_view kAttachError = "attach_error";

constexpr std::array<Field, 8> kSiblingFields = {{
    {"name", push_text_member<kName>, "string", "its name"},
    {"uid", push_text_member<kUid>, "string", "its UID"},
    {"node_name", push_text_member<kSiblingNode>, "string", "\"\" while it is not scheduled"},
    {"claim", push_text_member<kClaim>, "string", "the claim both pods use"},
    {"phase", push_text_member<kPhase>, "string", "its status.phase"},
    {"ready",
     [](lua_State* lua, const View& v) { push_bool(lua, is_true(member(v.json, "ready"))); },
     "boolean", "its Ready condition"},
    {"terminating",
     [](lua_State* lua, const View& v) { push_bool(lua, is_true(member(v.json, "terminating"))); },
     "boolean", "whether it is being deleted"},
    {"attach_error", push_text_member<kAttachError>, "string",
     "message of its newest FailedAttachVolume event, \"\" without one"},
}};
constexpr Shape kSibling{.name = "sibling",
                         .class_name = "Sibling",
                         .doc = "Another pod of the namespace that uses the same claim.",
                         .fields = kSiblingFields};

constexpr std::array<Field, 1> kPlacementFields = {{
    {"candidates",
     [](lua_State* lua, const View& v) {
       push_view(lua, {.kind = View::Kind::List,
                       .name = "pod.placement.candidates",
                       .json = member(v.json, "candidates")});
     },
     "string[]", "names of the nodes that can take the pod"},
}};
constexpr Shape kPlacement{.name = "pod.placement",
                           .class_name = "Placement",
                           .doc = "Where the pod could run instead.",
                           .fields = kPlacementFields};

// ---- pod -------------------------------------------------------------------------------------

const json* controller_of(const json* pod) {
  const json* owners = member(pod, kMetadata, "ownerReferences");
  if (owners == nullptr || !owners->is_array()) {
    return nullptr;
  }
  for (const json& owner : *owners) {
    if (is_true(member(&owner, "controller"))) {
      return &owner;
    }
  }
  return nullptr;
}

void push_labels(lua_State* lua, const View& view) {
  push_map(lua, member(view.json, kMetadata, "labels"), "pod.labels");
}
void push_annotations(lua_State* lua, const View& view) {
  push_map(lua, member(view.json, kMetadata, "annotations"), "pod.annotations");
}
void push_display_status(lua_State* lua, const View& view) {
  push_text(lua, display_status(*view.json));
}
void push_ready(lua_State* lua, const View& view) {
  push_bool(lua, text_of(member(ready_condition(view.json), "status")) == "True");
}
void push_created_at(lua_State* lua, const View& view) {
  push_time(lua, member(view.json, kMetadata, "creationTimestamp"));
}
void push_terminating(lua_State* lua, const View& view) {
  push_bool(lua, member(view.json, kMetadata, "deletionTimestamp") != nullptr);
}
void push_deletion_timestamp(lua_State* lua, const View& view) {
  push_time(lua, member(view.json, kMetadata, "deletionTimestamp"));
}
void push_grace_period(lua_State* lua, const View& view) {
  const json* seconds = member(view.json, kMetadata, "deletionGracePeriodSeconds");
  push_json(lua, seconds != nullptr && seconds->is_number_integer() ? seconds : nullptr, "pod");
}
void push_owner(lua_State* lua, const View& view) {
  push_view(lua, {.name = "pod.owner", .json = controller_of(view.json), .shape = &kOwner});
}
void push_owners(lua_State* lua, const View& view) {
  push_view(lua, {.kind = View::Kind::List,
                  .name = "pod.owners",
                  .json = member(view.json, kMetadata, "ownerReferences"),
                  .shape = &kOwner});
}
void push_priority(lua_State* lua, const View& view) {
  push_integer_or(lua, member(view.json, kSpec, "priority"), 0);
}
void push_is_daemonset(lua_State* lua, const View& view) {
  push_bool(lua, text_of(member(controller_of(view.json), kKind)) == "DaemonSet");
}
void push_is_static(lua_State* lua, const View& view) {
  const json* annotations = member(view.json, kMetadata, "annotations");
  push_bool(lua, member(annotations, "kubernetes.io/config.mirror") != nullptr);
}
void push_volumes(lua_State* lua, const View&) {
  push_view(lua, {.kind = View::Kind::List,
                  .name = "pod.volumes",
                  .json = &inputs_of(lua).bound,
                  .shape = &kVolume});
}
void push_claims(lua_State* lua, const View&) {
  push_view(lua, {.kind = View::Kind::List,
                  .name = "pod.claims",
                  .json = &inputs_of(lua).claims,
                  .shape = &kVolume});
}
void push_volume_kinds(lua_State* lua, const View&) {
  push_view(
      lua,
      {.kind = View::Kind::List, .name = "pod.volume_kinds", .json = &inputs_of(lua).volume_kinds});
}
void push_placement(lua_State* lua, const View&) {
  push_view(lua,
            {.name = "pod.placement", .json = &inputs_of(lua).placement, .shape = &kPlacement});
}
void push_root_owner(lua_State* lua, const View&) {
  const json& chain = inputs_of(lua).owner_chain;
  push_view(lua, {.name = "pod.root_owner",
                  .json = chain.empty() ? nullptr : &chain.back(),
                  .shape = &kOwner});
}
void push_owner_chain(lua_State* lua, const View&) {
  push_view(lua, {.kind = View::Kind::List,
                  .name = "pod.owner_chain",
                  .json = &inputs_of(lua).owner_chain,
                  .shape = &kOwner});
}
void push_siblings(lua_State* lua, const View&) {
  push_view(lua, {.kind = View::Kind::List,
                  .name = "pod.siblings",
                  .json = &inputs_of(lua).siblings,
                  .shape = &kSibling});
}
void push_fetched(lua_State* lua, const View&) {
  push_view(lua,
            {.kind = View::Kind::Answers, .name = "pod.fetched", .json = inputs_of(lua).answers});
}
void push_raw(lua_State* lua, const View& view) {
  push_view(lua, {.kind = View::Kind::Raw, .name = "pod.raw", .json = view.json});
}

constexpr std::array<Field, 28> kPodFields = {{
    {"name", push_text_below<kMetadata, kName>, "string", "its name"},
    {"namespace", push_text_below<kMetadata, kNamespace>, "string", "its namespace"},
    {"uid", push_text_below<kMetadata, kUid>, "string", "its UID"},
    {"labels", push_labels, "table<string, string>", "by key, nil for one it lacks"},
    {"annotations", push_annotations, "table<string, string>", "by key, nil for one it lacks"},
    {"phase", push_text_below<kStatus, kPhase>, "string",
     "status.phase; stays Running on a dead node"},
    {"display_status", push_display_status, "string",
     "what kubectl get pods shows: Running, Terminating, CrashLoopBackOff, ..."},
    {"ready", push_ready, "boolean", "its Ready condition"},
    {"reason", push_text_below<kStatus, kReason>, "string", "status.reason, \"\" without one"},
    {"node_name", push_text_below<kSpec, kNodeName>, "string", "the node it is bound to"},
    {"created_at", push_created_at, "integer?", "Unix seconds"},
    {"terminating", push_terminating, "boolean", "whether it is being deleted"},
    {"deletion_timestamp", push_deletion_timestamp, "integer?",
     "when its grace period ends, not when the deletion was asked for; Unix seconds"},
    {"grace_period", push_grace_period, "integer?", "seconds its deletion grants"},
    {"owner", push_owner, "Owner", "its controller; a Deployment's pod has a ReplicaSet"},
    {"owners", push_owners, "Owner[]", "all of its owner references"},
    {"priority", push_priority, "integer", "spec.priority, 0 without one"},
    {"is_daemonset", push_is_daemonset, "boolean", "whether a DaemonSet controls it"},
    {"is_static", push_is_static, "boolean", "whether it mirrors a file of the kubelet"},
    {"volumes", push_volumes, "Volume[]", "its claims that lead to a PersistentVolume",
     Need::Volumes},
    {"claims", push_claims, "Volume[]", "all of its claims; driver is \"\" for an unresolved one",
     Need::Volumes},
    {"volume_kinds", push_volume_kinds, "string[]",
     "the kinds in spec.volumes, sorted: configMap, persistentVolumeClaim, ..."},
    {"placement", push_placement, "Placement", "where it could run instead", Need::Placement},
    {"root_owner", push_root_owner, "Owner", "the end of the chain of controllers",
     Need::RootOwner},
    {"owner_chain", push_owner_chain, "Owner[]",
     "the chain: its controller, that one's controller, ...; it is followed through ReplicaSets "
     "and "
     "Jobs, and the last is root_owner",
     Need::RootOwner},
    {"siblings", push_siblings, "Sibling[]", "pods that use one of its claims", Need::Siblings},
    {"fetched", push_fetched, "table<string, Answer>", "the answers to what fetch asked for",
     Need::Fetch},
    {"raw", push_raw, "Raw", "the API object without managedFields: pod.raw:get('spec.nodeName')"},
}};
constexpr Shape kPod{
    .name = "pod", .class_name = "Pod", .doc = "The pod that is judged.", .fields = kPodFields};

}  // namespace

void push_pod(lua_State* lua) {
  push_view(lua, {.name = "pod", .json = inputs_of(lua).pod.get(), .shape = &kPod});
}

// A volume object is a view of one element of the two lists, and of no other memory: whatever it is
// made of, it belongs to this pod and this evaluation.
std::optional<std::size_t> to_volume(lua_State* lua, int index) {
  const View* view = to_view(lua, index);
  if (view == nullptr || view->shape != &kVolume || view->kind != View::Kind::Object) {
    return std::nullopt;
  }
  const Inputs& inputs = inputs_of(lua);
  for (std::size_t i = 0; i < inputs.claims.size(); ++i) {
    if (view->json == &inputs.claims[i]) {
      return i;
    }
  }
  for (std::size_t i = 0; i < inputs.bound.size(); ++i) {
    if (view->json == &inputs.bound[i]) {
      return inputs.bound_at[i];
    }
  }
  return std::nullopt;
}

const Shape& pod_shape() {
  return kPod;
}

std::span<const Shape* const> pod_shapes() {
  static constexpr std::array<const Shape*, 5> kShapes = {&kPod, &kOwner, &kVolume, &kPlacement,
                                                          &kSibling};
  return kShapes;
}

}  // namespace moonfence::policy
