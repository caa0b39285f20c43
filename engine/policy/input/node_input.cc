// The node and the cluster as scripts see them.

#include <array>
#include <chrono>
#include <string_view>

#include "policy/input/fields.h"
#include "policy/input/inputs.h"
#include "policy/input/node_conditions.h"
#include "policy/lua/library.h"
#include "policy/lua/sandbox.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

constexpr std::string_view kKey = "key";
constexpr std::string_view kValue = "value";
constexpr std::string_view kEffect = "effect";

constexpr std::string_view kType = "type";
constexpr std::string_view kAddress = "address";

constexpr std::array<Field, 4> kTaintFields = {{
    {"key", push_text_member<kKey>, "string", "such as node.kubernetes.io/unreachable"},
    {"value", push_text_member<kValue>, "string", "\"\" when it has none"},
    {"effect", push_text_member<kEffect>, "string", "NoSchedule, PreferNoSchedule or NoExecute"},
    {"time_added",
     [](lua_State* lua, const View& v) { push_time(lua, member(v.json, "timeAdded")); }, "integer?",
     "Unix seconds by the clock of whoever added it, if it says so"},
}};
constexpr Shape kTaint{
    .name = "taint", .class_name = "Taint", .doc = "A taint of a node.", .fields = kTaintFields};

constexpr std::array<Field, 2> kAddressFields = {{
    {"type", push_text_member<kType>, "string", "such as InternalIP or Hostname"},
    {"address", push_text_member<kAddress>, "string", "the address itself"},
}};
constexpr Shape kNodeAddress{.name = "address",
                             .class_name = "NodeAddress",
                             .doc = "An address of a node.",
                             .fields = kAddressFields};

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
void push_node_addresses(lua_State* lua, const View& view) {
  push_view(lua, {.kind = View::Kind::List,
                  .name = "node.addresses",
                  .json = member(view.json, kStatus, "addresses"),
                  .shape = &kNodeAddress});
}
// By its label, or by the one that had this meaning until Kubernetes 1.17.
template <const std::string_view& kLabel, const std::string_view& kOldLabel>
void push_node_topology(lua_State* lua, const View& view) {
  const json* labels = member(view.json, kMetadata, "labels");
  const std::string_view place = text_of(member(labels, kLabel));
  push_text(lua, place.empty() ? text_of(member(labels, kOldLabel)) : place);
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

void push_node_created_at(lua_State* lua, const View& view) {
  push_time(lua, member(view.json, kMetadata, "creationTimestamp"));
}
void push_node_lease_age(lua_State* lua, const View&) {
  if (const auto& age = inputs_of(lua).facts.lease_age) {
    lua_pushinteger(lua, std::chrono::floor<std::chrono::seconds>(*age).count());
  } else {
    lua_pushnil(lua);
  }
}
void push_node_machine(lua_State* lua, const View&) {
  push_text(lua, to_string(inputs_of(lua).facts.machine));
}
// What was read for the node was read for its judgement: a pod has answers of its own.
void push_node_fetched(lua_State* lua, const View&) {
  if (Sandbox::of(lua).session.hook != Hook::Node) {
    raise(lua, "node.fetched: is for node(); a pod's answers are in pod.fetched");
  }
  push_view(lua,
            {.kind = View::Kind::Answers, .name = "node.fetched", .json = inputs_of(lua).answers});
}
void push_node_raw(lua_State* lua, const View& view) {
  push_view(lua, {.kind = View::Kind::Raw, .name = "node.raw", .json = view.json});
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

constexpr std::string_view kBootId = "bootID";
constexpr std::string_view kMachineId = "machineID";
constexpr std::string_view kSystemUuid = "systemUUID";
constexpr std::string_view kZone = "topology.kubernetes.io/zone";
constexpr std::string_view kOldZone = "failure-domain.beta.kubernetes.io/zone";
constexpr std::string_view kRegion = "topology.kubernetes.io/region";
constexpr std::string_view kOldRegion = "failure-domain.beta.kubernetes.io/region";

// Of status.nodeInfo, which the kubelet writes.
template <const std::string_view& kKey>
void push_node_info(lua_State* lua, const View& view) {
  push_string(lua, member(member(view.json, kStatus, "nodeInfo"), kKey));
}

constexpr std::array<Field, 25> kNodeFields = {{
    {"name", push_text_below<kMetadata, kName>, "string", "its name"},
    {"uid", push_text_below<kMetadata, kUid>, "string", "its UID"},
    {"labels", push_node_labels, "table<string, string>", "by key, nil for one it lacks"},
    {"annotations", push_node_annotations, "table<string, string>", "by key, nil for one it lacks"},
    {"created_at", push_node_created_at, "integer?", "Unix seconds"},
    {"taints", push_node_taints, "Taint[]", "of its spec"},
    {"conditions", push_node_conditions, "NodeCondition[]", "of its status, in the order there"},
    {"planned", push_node_planned, "Planned",
     "what its lifecycle conditions say is planned for it"},
    {"addresses", push_node_addresses, "NodeAddress[]", "of its status, by the kubelet"},
    {"zone", push_node_topology<kZone, kOldZone>, "string",
     "its label topology.kubernetes.io/zone; \"\" when it has none"},
    {"region", push_node_topology<kRegion, kOldRegion>, "string",
     "its label topology.kubernetes.io/region; \"\" when it has none"},
    {"ready_status", push_node_ready_status,
     "\"true\"|\"false\"|\"unknown\"|\"missing\"|\"deleted\"",
     "its Ready condition; deleted when the node is gone from the API"},
    {"not_ready_since", push_node_not_ready_since, "integer?",
     "since when the engine has heard this Ready; Unix seconds by the API server's clock"},
    {"failures", push_node_failures, "integer", "consecutive down observations"},
    {"provider_id", push_text_below<kSpec, kProviderId>, "string",
     "spec.providerID, such as metal3://…; \"\" when it has none"},
    {"system_uuid", push_node_info<kSystemUuid>, "string",
     "status.nodeInfo.systemUUID, by the kubelet; \"\" when it has none"},
    {"machine_id", push_node_info<kMachineId>, "string",
     "status.nodeInfo.machineID, by the kubelet; \"\" when it has none"},
    {"boot_id", push_node_info<kBootId>, "string",
     "status.nodeInfo.bootID, by the kubelet; \"\" when it has none"},
    {"unschedulable", push_node_unschedulable, "boolean", "whether it is cordoned"},
    {"lease_age", push_node_lease_age, "integer?",
     "for how many seconds at least its kubelet has not renewed its Lease, by the engine's own "
     "clock; nil when it was not read"},
    {"machine", push_node_machine, "\"answers\"|\"unsure\"|\"silent\"|\"not_observable\"",
     "what detection says of its machine; not_observable without detection. It is no evidence"},
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
    {"fetched", push_node_fetched, "table<string, Answer>",
     "in node(): the answers to what node_fetch asked for", Need::NodeFetch},
    {"raw", push_node_raw, "Raw",
     "the API object without managedFields: node.raw:get('status.nodeInfo.kubeletVersion')"},
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
  static const std::array<const Shape*, 7> shapes = {
      &kNode, &kTaint, &condition_shape(), &planned_shape(), &kNodeAddress, &kCluster, &kTally};
  return shapes;
}

}  // namespace moonfence::policy
