#pragma once

// What a policy sees: pod, node, cluster, its settings, and answers to what it asked for. The
// objects' JSON is shared, not copied; the sandbox that runs the policy keeps this alive until its
// state is closed.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <lua.hpp>
#include <nlohmann/json.hpp>

#include "policy/lua/views.h"
#include "policy/values/facts.h"

namespace moonfence::policy {

struct Inputs {
  std::shared_ptr<const nlohmann::json> pod;
  std::shared_ptr<const nlohmann::json> node;
  std::shared_ptr<const nlohmann::json> settings;  // an object of plain values
  ClusterFacts cluster;
  NodeFacts facts;
  nlohmann::json planned;  // of the node's conditions (policy/input/node_conditions)
  // Of the pod's facts, as scripts see them; empty when there are none.
  std::vector<VolumeFacts> volumes;
  nlohmann::json claims;              // one object a volume, in the same order
  nlohmann::json bound;               // those of them that have a PV
  std::vector<std::size_t> bound_at;  // where each of these stands in `volumes`
  nlohmann::json placement;
  nlohmann::json owner_chain;
  nlohmann::json siblings;
  nlohmann::json volume_kinds;
  const nlohmann::json* answers = nullptr;  // of fetch or source; outlives the sandbox
};

// Adds what is known beside the pod's object; `pod` must be set.
void add_pod_facts(Inputs& inputs, const PodFacts& facts, const Needs& needs);

// Each reads the session's inputs.
void push_pod(lua_State* lua);
void push_node(lua_State* lua);
void push_cluster(lua_State* lua);
void push_answers(lua_State* lua);
void push_settings(lua_State* lua, const nlohmann::json& settings);

// Where in Inputs::volumes the volume object at an index stands; nullopt for anything else.
[[nodiscard]] std::optional<std::size_t> to_volume(lua_State* lua, int index);

// Every kind of object a script may be given, for the documentation.
[[nodiscard]] std::span<const Shape* const> pod_shapes();
[[nodiscard]] std::span<const Shape* const> node_shapes();
// The shapes of `pod`, `node` and `cluster`, for the static scan.
[[nodiscard]] const Shape& pod_shape();
[[nodiscard]] const Shape& node_shape();
[[nodiscard]] const Shape& cluster_shape();

}  // namespace moonfence::policy
