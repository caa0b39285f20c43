#include "sim/scenarios/scenario_node.h"

#include <array>

namespace moonfence::sim {

Result<void> parse_node(const ScenarioLine& line, NodePlan& node) {
  static constexpr std::array<std::string_view, 3> kKnown = {"zone", "capacity", "dead"};
  static constexpr std::array<std::string_view, 5> kFlags = {"absent", "control-plane", "cordoned",
                                                             "dedicated", "never-joined"};
  const auto options = line.options(2, kKnown, kFlags);
  if (!options) {
    return failure(options.error());
  }
  for (const auto& [key, value] : *options) {
    if (key == "zone") {
      node.zone = value;
    } else if (key == "capacity") {
      const auto number = line.number_of(key, value, 0, 10'000);
      if (!number) {
        return failure(number.error());
      }
      node.capacity = *number;
    } else if (key == "dead") {
      const auto time = line.duration(key, value);
      if (!time) {
        return failure(time.error());
      }
      node.dead = *time;
    } else {
      node.absent = node.absent || key == "absent";
      node.control_plane = node.control_plane || key == "control-plane";
      node.dedicated = node.dedicated || key == "dedicated";
      node.cordoned = node.cordoned || key == "cordoned";
      node.never_joined = node.never_joined || key == "never-joined";
    }
  }
  return {};
}

}  // namespace moonfence::sim
