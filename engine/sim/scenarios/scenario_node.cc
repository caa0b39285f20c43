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

namespace {

template <class Word>
Result<const Word*> known_word(const ScenarioLine& line, std::string_view what,
                               std::span<const Word> words, std::string_view given) {
  if (const Word* word = find_word(words, given)) {
    return word;
  }
  std::vector<std::string_view> names;
  add_names(words, names);
  return line.unknown(what, given, names);
}

}  // namespace

Result<FenceClassPlan> parse_fence_class(const ScenarioLine& line) {
  static constexpr std::array<std::string_view, 2> kKnown = {"takes", "lags"};
  const auto word = known_word(line, "kind of fence-class", fence_words(), line.word(2));
  const auto options = line.options(3, kKnown);
  if (!word || !options) {
    return failure(word ? options.error() : word.error());
  }
  FenceClassPlan made{.name = std::string(line.word(1)), .kind = (*word)->kind};
  for (const auto& [key, value] : *options) {
    const auto time = line.duration(key, value);
    if (!time) {
      return failure(time.error());
    }
    (key == "takes" ? made.takes : made.lags) = *time;
  }
  return made;
}

Result<Lifting> parse_lifting(const ScenarioLine& line) {
  const auto word = known_word(line, "word for 'world lifting'", lifting_words(), line.word(2));
  return word ? Result<Lifting>((*word)->lifting) : Result<Lifting>(failure(word.error()));
}

Result<BmcPlan> parse_bmc(const ScenarioLine& line) {
  static constexpr std::array<std::string_view, 4> kKnown = {"of", "takes", "off-takes",
                                                             "on-again"};
  const auto word = known_word(line, "kind of BMC", bmc_words(), line.word(2));
  if (!word) {
    return failure(word.error());
  }
  BmcPlan bmc{.node = std::string(line.word(1)), .kind = (*word)->kind};
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
