#pragma once

// Standing says what a node counts for where nodes are counted (cluster/nodes/census): a worker is
// a node that ordinary pods can run on, and one is newly down that was Ready until it fell.
//
// What a node is worth it shows while it is up: whoever cordons or taints it after it fell says
// nothing of what it was. So the standing of a node that falls stays that of the moment before, and
// one that was never Ready, or was cordoned before it fell, is not counted among the fallen.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/time.h"
#include "kube/objects/objects.h"

namespace moonfence::cluster {

struct NodeView;

// A label by its key, and by its value where one is given.
struct LabelMatch {
  std::string key;
  std::optional<std::string> value;

  [[nodiscard]] bool matches(const kube::Labels& labels) const;
  friend bool operator==(const LabelMatch&, const LabelMatch&) = default;
};

struct Standing {
  enum class Group {
    Worker,     // ordinary pods can run on it
    Dedicated,  // a taint keeps ordinary pods off: it never makes the workers look better
    None,       // not counted
  };
  Group group = Group::Worker;
  // When it fell, of a node that is down; without it nobody knows, and it counts as fallen now.
  std::optional<Moment> fell = std::nullopt;

  friend bool operator==(const Standing&, const Standing&) = default;
};

// What the administrator says, and the API server's clock, by which the stamps of nodes that were
// down before we looked are read; without a clock they count as fallen when they are found.
struct Counting {
  std::vector<LabelMatch> exclude = {};
  std::function<WallTime()> server_now = {};
  // Why nobody may touch a node. Nothing of it will be moved, so it is not counted.
  std::function<std::optional<std::string>(const nlohmann::json& node)> hold = {};

  [[nodiscard]] bool excludes(const kube::Labels& labels) const;
};

// Of a node that is up.
[[nodiscard]] Standing standing_up(const NodeView& node);
// Of a node that has just fallen; `before`: its standing until then.
[[nodiscard]] Standing standing_fallen(const Standing& before, const NodeView& node, Moment now);
// Of a node that is down in the first picture. One that was never Ready is not counted, nor one
// that was cordoned before it fell; the stamps say so, all by the control plane's clock.
[[nodiscard]] Standing standing_found(const NodeView& node, Moment now, const Counting& counting);
// Of a node that is made while we look, and is not Ready: there was nothing that could fall.
[[nodiscard]] Standing standing_joining();

}  // namespace moonfence::cluster
