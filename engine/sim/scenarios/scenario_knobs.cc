#include "sim/scenarios/scenario_knobs.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "sim/scenarios/scenario.h"
#include "sim/scenarios/scenario_words.h"
#include "sim/truth/brake_limits.h"

namespace moonfence::sim {
namespace {

// Of the engine's own configuration, kept as it is written.
Result<bool> apply_setting(Plan& plan, const ScenarioLine& line, std::string_view name,
                           std::string_view value) {
  const auto switches = switch_words();
  if (std::find(switches.begin(), switches.end(), name) != switches.end()) {
    if (value != "on" && value != "off") {
      return line.wrong(std::string(name) + ": '" + escaped(value, 64) + "' is neither on nor off",
                        "write on, or leave it out");
    }
    plan.settings[std::string(name)] = value;
    return true;
  }
  if (name == "quarantine") {
    if (value != "off" && value != "missing" && value != "always") {
      return line.wrong("quarantine: '" + escaped(value, 64) + "' is not known",
                        "write off, missing or always");
    }
    plan.settings["quarantine"] = value;
    return true;
  }
  if (name == "proof" || name == kVolumeProofWord) {
    if (value.empty() || value.find_first_not_of("abcdefghijklmnopqrstuvwxyz,") != value.npos) {
      return line.wrong(
          std::string(name) + ": '" + escaped(value, 64) + "' is no evidence",
          "write one or more of silent, unreachable, isolated, off, attested, with commas between");
    }
    plan.settings[std::string(name)] = value;
    return true;
  }
  const auto settings = setting_words();
  if (std::find(settings.begin(), settings.end(), name) != settings.end()) {
    const auto parsed = line.duration(name, value);
    if (!parsed) {
      return failure(parsed.error());
    }
    plan.settings[std::string(name)] = value;
    return true;
  }
  const auto limits = limit_words();
  if (std::find(limits.begin(), limits.end(), name) != limits.end()) {
    if (!parse_brake_limit(value)) {
      return line.wrong(std::string(name) + ": '" + escaped(value, 64) + "' is no limit",
                        "write a number of nodes, a share such as 50%, or off");
    }
    plan.settings[std::string(name)] = value;
    return true;
  }
  return false;
}

}  // namespace

Result<bool> apply_knob(Plan& plan, const ScenarioLine& line, std::string_view name,
                        std::string_view value) {
  const auto taken = [](Result<void> done) -> Result<bool> {
    return done ? Result<bool>(true) : Result<bool>(failure(done.error()));
  };
  const auto into = [](auto& field, const auto& parsed) -> Result<void> {
    if (!parsed) {
      return failure(parsed.error());
    }
    field = *parsed;
    return {};
  };
  if (name == "length") {
    return taken(into(plan.length, line.duration(name, value)));
  }
  if (name == "engines") {
    return taken(into(plan.engines, line.number_of(name, value, 0, 9)));
  }
  if (name == "servers") {
    return taken(into(plan.servers, line.number_of(name, value, 1, 9)));
  }
  if (name == "kubernetes") {
    if (!value.starts_with("1.")) {
      return line.wrong("kubernetes: '" + escaped(value, 64) + "' is no version",
                        "write for example 1.36");
    }
    return taken(into(plan.kubernetes, line.number_of(name, value.substr(2), 20, 99)));
  }
  if (name == "piece-limit") {
    int limit = 0;
    auto done = into(limit, line.number_of(name, value, 1, 1 << 20));
    plan.faults.piece_limit = done ? static_cast<std::size_t>(limit) : plan.faults.piece_limit;
    return taken(std::move(done));
  }
  if (const TimingWord* timing = find_word(timing_words(), name)) {
    return taken(into(plan.timings.*(timing->member), line.duration(name, value)));
  }
  if (const ShareWord* fault = find_word(share_words(), name)) {
    return taken(into(plan.faults.*(fault->member), line.share(name, value)));
  }
  if (const RangeWord* fault = find_word(range_words(), name)) {
    Range& range = plan.faults.*(fault->member);
    const std::size_t dots = value.find("..");
    const auto from = line.duration(name, value.substr(0, dots));
    const auto to =
        dots == std::string_view::npos ? from : line.duration(name, value.substr(dots + 2));
    if (from && to && *to < *from) {
      return line.wrong(std::string(name) + ": '" + escaped(value, 64) + "' ends before it begins",
                        "write the shorter time first, for example 1ms..5ms");
    }
    auto done = into(range.from, from);
    return taken(done ? into(range.to, to) : std::move(done));
  }
  return apply_setting(plan, line, name, value);
}

std::vector<std::string_view> knob_names(std::string_view statement) {
  std::vector<std::string_view> names;
  if (statement == "set" || statement.empty()) {
    const auto settings = setting_words();
    names.insert(names.end(), settings.begin(), settings.end());
    const auto limits = limit_words();
    names.insert(names.end(), limits.begin(), limits.end());
    const auto switches = switch_words();
    names.insert(names.end(), switches.begin(), switches.end());
    names.emplace_back("quarantine");
    names.emplace_back("proof");
    names.emplace_back(kVolumeProofWord);
  }
  if (statement == "timing" || statement.empty()) {
    add_names(timing_words(), names);
  }
  if (statement == "fault" || statement.empty()) {
    add_names(share_words(), names);
    add_names(range_words(), names);
    names.emplace_back("piece-limit");
  }
  if (statement.empty()) {
    names.insert(names.end(), {"length", "engines", "servers", "kubernetes", "mode"});
  }
  return names;
}

Result<void> set_knob(Scenario& scenario, std::string_view name, std::string_view value) {
  const ScenarioLine line{.file = "--set", .number = 1};
  if (name == "mode") {
    scenario.plan.policies["mode"] = value;
    return {};
  }
  const auto done = apply_knob(scenario.plan, line, name, value);
  if (!done) {
    return failure(done.error());
  }
  return *done ? Result<void>() : line.unknown("knob", name, knob_names(""));
}

}  // namespace moonfence::sim
