// The node and the cluster as scripts see them.

#include <array>
#include <string_view>

#include "policy/input/fields.h"
#include "policy/input/inputs.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

constexpr std::string_view kKey = "key";
constexpr std::string_view kValue = "value";
constexpr std::string_view kEffect = "effect";

constexpr std::array<Field, 3> kTaintFields = {{
    {"key", push_text_member<kKey>, "string", "such as node.kubernetes.io/unreachable"},
    {"value", push_text_member<kValue>, "string", "\"\" when it has none"},
    {"effect", push_text_member<kEffect>, "string", "NoSchedule, PreferNoSchedule or NoExecute"},
}};
constexpr Shape kTaint{
    .name = "taint", .class_name = "Taint", .doc = "A taint of a node.", .fields = kTaintFields};

void push_node_labels(lua_State* lua, const View& view) {
  push_map(lua, member(view.json, kMetadata, "labels"), "node.labels");
}
void push_node_annotations(lua_State* lua, const View& view) {
  push_map(lua, member(view.json, kMetadata, "annotations"), "node.annotations");
}
void push_node_taints(lua_State* lua, const View& view) {
  push_view(lua, {.kind = View::Kind::List,
                  .name = "node.taints",
                  .json = member(view.json, kSpec, "taints"),
                  .shape = &kTaint});
}
// A status that is none of Kubernetes' three words is as unknown as "Unknown".
void push_node_ready_status(lua_State* lua, const View& view) {
  const json* ready = ready_condition(view.json);
  const std::string_view status = text_of(member(ready, "status"));
  if (!inputs_of(lua).facts.exists) {
    lua_pushliteral(lua, "deleted");
  } else if (ready == nullptr) {
    lua_pushliteral(lua, "missing");
  } else if (status == "True") {
    lua_pushliteral(lua, "true");
  } else if (status == "False") {
    lua_pushliteral(lua, "false");
  } else {
    lua_pushliteral(lua, "unknown");
  }
}
void push_node_not_ready_since(lua_State* lua, const View& view) {
  const auto& heard = inputs_of(lua).facts.since;
  if (heard && ready_condition(view.json) != nullptr) {
    push_seconds(lua, *heard);
    return;
  }
  push_time(lua, member(ready_condition(view.json), "lastTransitionTime"));
}
void push_node_unschedulable(lua_State* lua, const View& view) {
  push_bool(lua, is_true(member(view.json, kSpec, "unschedulable")));
}
void push_node_exists(lua_State* lua, const View&) {
  push_bool(lua, inputs_of(lua).facts.exists);
}
void push_node_failures(lua_State* lua, const View&) {
  lua_pushinteger(lua, inputs_of(lua).facts.failures);
}

template <Evidence kEvidence>
void push_evidence(lua_State* lua, const View&) {
  push_bool(lua, inputs_of(lua).facts.evidence.contains(kEvidence));
}
constexpr std::array<Field, 5> kEvidenceFields = {{
    {"silent", push_evidence<Evidence::Silent>, "boolean",
     "its machine does not answer this replica, nor the other one"},
    {"unreachable", push_evidence<Evidence::Unreachable>, "boolean",
     "Kubernetes calls it Unknown, and its Lease is dead"},
    {"isolated", push_evidence<Evidence::Isolated>, "boolean",
     "a fencer has read that the storage of every persistent volume of the pod refuses it; in "
     "node() always false"},
    {"off", push_evidence<Evidence::Off>, "boolean",
     "a fencer has read that its machine has no power"},
    {"attested", push_evidence<Evidence::Attested>, "boolean",
     "a person says that its machine is off, and nothing was heard of it since"},
}};
constexpr Shape kEvidenceShape{.name = "node.evidence",
                               .class_name = "Evidence",
                               .doc = "What is known of the node at this moment.",
                               .fields = kEvidenceFields};

constexpr std::string_view kProviderId = "providerID";

void push_system_uuid(lua_State* lua, const View& view) {
  push_string(lua, member(member(view.json, kStatus, "nodeInfo"), "systemUUID"));
}

constexpr std::array<Field, 12> kNodeFields = {{
    {"name", push_text_below<kMetadata, kName>, "string", "its name"},
    {"labels", push_node_labels, "table<string, string>", "by key, nil for one it lacks"},
    {"annotations", push_node_annotations, "table<string, string>", "by key, nil for one it lacks"},
    {"taints", push_node_taints, "Taint[]", "of its spec"},
    {"ready_status", push_node_ready_status,
     "\"true\"|\"false\"|\"unknown\"|\"missing\"|\"deleted\"",
     "its Ready condition; deleted when the node is gone from the API"},
    {"not_ready_since", push_node_not_ready_since, "integer?",
     "since when the engine has heard this Ready; Unix seconds by the API server's clock"},
    {"failures", push_node_failures, "integer", "consecutive down observations"},
    {"provider_id", push_text_below<kSpec, kProviderId>, "string",
     "spec.providerID, such as metal3://…; \"\" when it has none"},
    {"system_uuid", push_system_uuid, "string",
     "status.nodeInfo.systemUUID, by the kubelet; \"\" when it has none"},
    {"unschedulable", push_node_unschedulable, "boolean", "whether it is cordoned"},
    {"evidence",
     [](lua_State* lua, const View&) {
       push_view(lua, {.name = "node.evidence", .shape = &kEvidenceShape});
     },
     "Evidence",
     "what is known of it; to wait for some, demand `proof` with a verdict, which is looked at "
     "again "
     "when the call leaves"},
    {"exists", push_node_exists, "boolean",
     "false: gone from the API, the rest is what this incident read last, empty when it read "
     "nothing"},
}};
constexpr Shape kNode{
    .name = "node", .class_name = "Node", .doc = "The node that is down.", .fields = kNodeFields};

// ---- cluster ---------------------------------------------------------------------------------

constexpr std::array<Field, 3> kTallyFields = {{
    {"seen",
     [](lua_State* lua, const View&) { lua_pushinteger(lua, inputs_of(lua).cluster.tally.seen); },
     "integer", "pods this policy was asked about"},
    {"deleted",
     [](lua_State* lua, const View&) {
       lua_pushinteger(lua, inputs_of(lua).cluster.tally.deleted);
     },
     "integer", "pods it had deleted"},
    {"held",
     [](lua_State* lua, const View&) { lua_pushinteger(lua, inputs_of(lua).cluster.tally.held); },
     "integer", "pods it made wait or forbade"},
}};
constexpr Shape kTally{.name = "cluster.tally",
                       .class_name = "Tally",
                       .doc = "What this policy has come to in this incident so far.",
                       .fields = kTallyFields};

constexpr std::array<Field, 5> kClusterFields = {{
    {"now", [](lua_State* lua, const View&) { push_seconds(lua, inputs_of(lua).cluster.now); },
     "integer", "the API server's clock; Unix seconds"},
    {"nodes_total",
     [](lua_State* lua, const View&) { lua_pushinteger(lua, inputs_of(lua).cluster.nodes_total); },
     "integer", "nodes there are"},
    {"nodes_ready",
     [](lua_State* lua, const View&) { lua_pushinteger(lua, inputs_of(lua).cluster.nodes_ready); },
     "integer", "nodes that are Ready"},
    {"nodes_schedulable",
     [](lua_State* lua, const View&) {
       lua_pushinteger(lua, inputs_of(lua).cluster.nodes_schedulable);
     },
     "integer", "nodes that are Ready and not cordoned"},
    {"tally",
     [](lua_State* lua, const View&) {
       push_view(lua, {.name = "cluster.tally", .shape = &kTally});
     },
     "Tally", "what this policy has come to in this incident so far"},
}};
constexpr Shape kCluster{.name = "cluster",
                         .class_name = "Cluster",
                         .doc = "The cluster as the engine believes it to be.",
                         .fields = kClusterFields};

}  // namespace

void push_node(lua_State* lua) {
  push_view(lua, {.name = "node", .json = inputs_of(lua).node.get(), .shape = &kNode});
}

void push_cluster(lua_State* lua) {
  push_view(lua, {.name = "cluster", .shape = &kCluster});
}

const Shape& node_shape() {
  return kNode;
}

const Shape& cluster_shape() {
  return kCluster;
}

std::span<const Shape* const> node_shapes() {
  static constexpr std::array<const Shape*, 4> kShapes = {&kNode, &kTaint, &kCluster, &kTally};
  return kShapes;
}

}  // namespace moonfence::policy
