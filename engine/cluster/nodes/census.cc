#include "cluster/nodes/census.h"

#include <algorithm>

namespace moonfence::cluster {
namespace {

void count_up(Census::Group& group, const NodeView& node, int sign) {
  group.up += sign;
  if (node.zone.empty()) {
    return;
  }
  const auto zone = group.up_in.try_emplace(node.zone).first;
  zone->second += sign;
  if (zone->second == 0) {
    group.up_in.erase(zone);
  }
}

void count_down(Census::Group& group, const NodeView& node, int sign) {
  const Moment fell = node.standing.fell.value_or(Moment::max());
  const Census::Fallen fallen = {.node = node.name, .zone = node.zone};
  if (sign > 0) {
    group.falls.emplace(fell, fallen);
    return;
  }
  const auto [begin, end] = group.falls.equal_range(fell);
  const auto found =
      std::find_if(begin, end, [&fallen](const auto& entry) { return entry.second == fallen; });
  if (found != end) {
    group.falls.erase(found);
  }
}

}  // namespace

void Census::count(const NodeView& node, int sign) {
  if (node.control_plane || node.standing.group == Standing::Group::None) {
    return;
  }
  const auto count = is_down(node.readiness) ? count_down : count_up;
  count(machines_, node, sign);
  if (node.standing.group == Standing::Group::Worker) {
    count(workers_, node, sign);
  }
}

Census::Count Census::all() const {
  const auto down = static_cast<std::int64_t>(workers_.falls.size());
  return {.workers = workers_.up + down, .down = down};
}

bool Census::counts_alike(const NodeView& a, const NodeView& b) {
  return a.control_plane == b.control_plane && a.zone == b.zone && a.standing == b.standing &&
         is_down(a.readiness) == is_down(b.readiness);
}

}  // namespace moonfence::cluster
