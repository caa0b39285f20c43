#include "cluster/census.h"

namespace moonfence::cluster {

void Census::add(const NodeView& node) {
  count(node, 1);
}

void Census::remove(const NodeView& node) {
  count(node, -1);
}

void Census::count(const NodeView& node, int sign) {
  if (node.control_plane) {
    return;
  }
  const int down = is_down(node.readiness) ? sign : 0;
  all_.workers += sign;
  all_.down += down;
  if (node.zone.empty()) {
    return;
  }
  const auto zone = zones_.try_emplace(node.zone).first;
  zone->second.workers += sign;
  zone->second.down += down;
  if (zone->second.workers == 0) {
    zones_.erase(zone);
  }
}

bool Census::counts_alike(const NodeView& a, const NodeView& b) {
  return a.control_plane == b.control_plane && a.zone == b.zone &&
         is_down(a.readiness) == is_down(b.readiness);
}

}  // namespace moonfence::cluster
