#include "cluster/nodes/standing.h"

#include <algorithm>

#include "cluster/nodes/node_view.h"

namespace moonfence::cluster {

using Group = Standing::Group;

bool LabelMatch::matches(const kube::Labels& labels) const {
  const auto found = labels.find(key);
  return found != labels.end() && (!value || found->second == *value);
}

bool Counting::excludes(const kube::Labels& labels) const {
  return std::any_of(exclude.begin(), exclude.end(),
                     [&labels](const LabelMatch& match) { return match.matches(labels); });
}

Standing standing_up(const NodeView& node) {
  if (node.excluded || node.control_plane || node.unschedulable || node.hold) {
    return {.group = Group::None};
  }
  return {.group = node.dedicated ? Group::Dedicated : Group::Worker};
}

Standing standing_fallen(const Standing& before, const NodeView& node, Moment now) {
  return {.group = node.excluded || node.control_plane ? Group::None : before.group,
          .fell = before.fell.value_or(now)};
}

Standing standing_found(const NodeView& node, Moment now, const Counting& counting) {
  const bool was_cordoned =
      node.unschedulable && node.cordoned && node.since && *node.cordoned <= *node.since;
  if (node.excluded || node.control_plane || node.never_ready || node.hold || was_cordoned) {
    return {.group = Group::None, .fell = now};
  }
  Standing standing = {.group = node.dedicated ? Group::Dedicated : Group::Worker, .fell = now};
  if (counting.server_now && node.since) {
    standing.fell = now - std::max<Duration>(counting.server_now() - *node.since, {});
  }
  return standing;
}

Standing standing_joining() {
  return {.group = Group::None};
}

}  // namespace moonfence::cluster
