#include "app/status/node_pick.h"

#include <utility>

namespace moonfence::app {

bool is_plain(const cluster::NodeView& view, bool called_failed) {
  return view.readiness == cluster::Readiness::True && !view.unschedulable && !view.fenced &&
         !called_failed;
}

void NodePick::offer(const cluster::NodeView& view, bool called_failed) {
  ++offered_;
  std::vector<NodeStatus>& kind = is_plain(view, called_failed) ? plain_ : remarkable_;
  if (kind.size() < limit_) {
    kind.push_back({.view = view, .called_failed = called_failed});
  }
}

NodePick::Picked NodePick::take() {
  Picked picked = {.nodes = std::exchange(remarkable_, {}), .left_out = 0};
  for (NodeStatus& node : std::exchange(plain_, {})) {
    if (picked.nodes.size() == limit_) {
      break;
    }
    picked.nodes.push_back(std::move(node));
  }
  picked.left_out = std::exchange(offered_, 0) - picked.nodes.size();
  return picked;
}

}  // namespace moonfence::app
