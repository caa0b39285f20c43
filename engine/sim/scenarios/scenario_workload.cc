#include "sim/scenarios/scenario_workload.h"

#include <array>
#include <utility>

#include "base/text.h"

namespace moonfence::sim {
namespace {

Result<void> set_option(WorkloadPlan& workload, const ScenarioLine& line, const std::string& key,
                        const std::string& value) {
  const auto number = [&](int& into, int least, int most) -> Result<void> {
    const auto parsed = line.number_of(key, value, least, most);
    if (!parsed) {
      return failure(parsed.error());
    }
    into = *parsed;
    return {};
  };
  const auto duration = [&](Duration& into) -> Result<void> {
    const auto parsed = line.duration(key, value);
    if (!parsed) {
      return failure(parsed.error());
    }
    into = *parsed;
    return {};
  };
  if (key == "replicas") {
    return number(workload.replicas, 0, 10'000);
  }
  if (key == "volumes") {
    return number(workload.volumes, 0, 16);
  }
  if (key == "toleration") {
    return duration(workload.toleration);
  }
  if (key == "stop-time") {
    return duration(workload.stop_time);
  }
  if (key == "grace") {
    return duration(workload.grace);
  }
  if (key == "inline-volume") {
    workload.inline_volume = value == "yes";
    return {};
  }
  if (key == "owner") {
    workload.owner_controls = !value.starts_with("no-controller:");
    workload.owner = value.substr(workload.owner_controls ? 0 : value.find(':') + 1);
    return {};
  }
  if (key == "driver") {
    workload.driver = value;
  } else if (key == "node") {
    workload.node = value;
  } else if (key == "on") {
    workload.start = value;
  } else if (key == "finalizers") {
    for (const std::string_view each : split(value, ',')) {
      workload.finalizers.emplace_back(each);
    }
  } else {
    for (const std::string_view each : split(value, ',')) {
      const std::size_t equals = each.find('=');
      if (equals == std::string_view::npos || equals == 0) {
        return line.wrong("labels: '" + escaped(each, 64) + "' is no label",
                          "write labels=app=web,tier=front");
      }
      workload.labels[std::string(each.substr(0, equals))] = each.substr(equals + 1);
    }
  }
  return {};
}

}  // namespace

Result<WorkloadPlan> parse_workload(const ScenarioLine& line, WorkloadKind kind) {
  static constexpr std::array<std::string_view, 12> kKnown = {
      "replicas",   "volumes",    "labels",    "on",    "node",          "driver",
      "toleration", "finalizers", "stop-time", "grace", "inline-volume", "owner"};
  if (!is_qualified(line.word(1))) {
    return line.wrong("'" + escaped(line.word(1), 64) + "' is no NAMESPACE/NAME",
                      "write for example " + line.words[0] + " noobaa/core");
  }
  const auto options = line.options(2, kKnown);
  if (!options) {
    return failure(options.error());
  }
  const std::string_view both = line.word(1);
  WorkloadPlan workload{.kind = kind,
                        .space = std::string(both.substr(0, both.find('/'))),
                        .name = std::string(both.substr(both.find('/') + 1))};
  for (const auto& [key, value] : *options) {
    if (auto done = set_option(workload, line, key, value); !done) {
      return failure(done.error());
    }
  }
  return workload;
}

}  // namespace moonfence::sim
