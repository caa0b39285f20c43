#include "sim/scenarios/scenario_node.h"

#include <array>

#include "sim/scenarios/scenario_words.h"

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

Result<BmcPlan> parse_bmc(const ScenarioLine& line) {
  static constexpr std::array<std::string_view, 4> kKnown = {"of", "takes", "off-takes",
                                                             "on-again"};
  const BmcWord* word = find_word(bmc_words(), line.word(2));
  if (word == nullptr) {
    std::vector<std::string_view> names;
    add_names(bmc_words(), names);
    return line.unknown("kind of BMC", line.word(2), names);
  }
  BmcPlan bmc{.node = std::string(line.word(1)), .kind = word->kind};
  const auto options = line.options(3, kKnown);
  if (!options) {
    return failure(options.error());
  }
  for (const auto& [key, value] : *options) {
    if (key == "of") {
      bmc.of = value;
      continue;
    }
    const auto time = line.duration(key, value);
    if (!time) {
      return failure(time.error());
    }
    (key == "takes" ? bmc.takes : key == "off-takes" ? bmc.off_takes : bmc.on_again) = *time;
  }
  return bmc;
}

}  // namespace moonfence::sim
