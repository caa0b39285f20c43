#include "app/simulate/simulate_options.h"

#include <charconv>
#include <system_error>

#include <CLI/CLI.hpp>

#include "base/text.h"

namespace moonfence::app {
namespace {

constexpr double kPleasantSpeed = 10;
constexpr double kFastest = 1e6;

constexpr const char* kFooter = R"(
Examples:
  moonfence simulate
      A node loses its power: what happens, and what stock Kubernetes would have done.
  moonfence simulate --list
      The scenarios that come with it.
  moonfence simulate node-loss --set noobaa.db=pod --set node-monitor-grace=20s
      With another setting of a policy, and a control plane that notices sooner.
  moonfence simulate my-outage.txt --policies my-policies --speed max --json
      A scenario and policies of your own (docs/simulation.md), for a program to read.

Everything happens in memory; no cluster and no network is touched.

Exit codes: 0 it ran as expected, 1 an expectation of the scenario was not met or a safety rule was
violated, 2 wrong command line, 3 the scenario or the policies cannot be used, 130 interrupted.)";

std::optional<double> parse_speed(const std::string& text) {
  double speed = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), speed);
  const bool fits =
      fault == std::errc() && end == text.data() + text.size() && speed > 0 && speed <= kFastest;
  return fits ? std::optional(speed) : std::nullopt;
}

}  // namespace

void add_simulate(CLI::App& app, SimulateOptions& options) {
  CLI::App* simulate =
      app.add_subcommand("simulate", "Show a failover in a simulated cluster; needs no cluster");
  simulate->footer(kFooter);
  simulate->add_option("SCENARIO", options.scenario,
                       "A built-in scenario, or a file (default: node-loss)");
  simulate
      ->add_option("--policies", options.policies,
                   "Folder with moonfence.yaml and *.lua, taken for ConfigMap moonfence-policies")
      ->type_name("DIR");
  simulate
      ->add_option("--config", options.config,
                   "The engine's configuration, as for `moonfence run`: allowedReads, endpoints")
      ->type_name("FILE");
  simulate
      ->add_option(
          "--responses", options.responses,
          R"(What endpoints answer: {"http vendor /v2/nodes": {"status": 200, "body": []}})")
      ->type_name("FILE");
  simulate
      ->add_option("--set", options.set,
                   "POLICY.SETTING=VALUE of a bound policy, or a value of the scenario; repeat for "
                   "more")
      ->type_name("KEY=VALUE");
  simulate
      ->add_option("--speed", options.speed,
                   "Virtual seconds per second, or max (default: 10 on a terminal, else max)")
      ->type_name("N|max");
  simulate->add_flag("--json", options.json, "One JSON object a line, then a summary");
  simulate
      ->add_option("--seed", options.seed, "Seed of the random numbers (default: the scenario's)")
      ->type_name("N");
  simulate->add_flag("--list", options.list, "List the built-in scenarios and leave");
}

std::pair<std::string, std::string> key_and_value(const std::string& text) {
  const std::size_t equals = text.find('=');
  return {text.substr(0, equals), equals == std::string::npos ? "" : text.substr(equals + 1)};
}

std::string problem_of(const SimulateOptions& options) {
  for (const std::string& pair : options.set) {
    const auto [key, value] = key_and_value(pair);
    if (key.empty() || value.empty()) {
      return "--set: '" + escaped(pair, 128) + "' is no KEY=VALUE, for example --set noobaa.db=pod";
    }
  }
  if (!options.speed.empty() && options.speed != "max" && !parse_speed(options.speed)) {
    return "--speed: '" + escaped(options.speed, 64) +
           "' is no speed: write a number of virtual seconds per second, for example 10, or max";
  }
  return {};
}

std::optional<double> speed_of(const SimulateOptions& options, bool on_terminal) {
  if (options.speed.empty()) {
    return on_terminal && !options.json ? std::optional(kPleasantSpeed) : std::nullopt;
  }
  return options.speed == "max" ? std::nullopt : parse_speed(options.speed);
}

}  // namespace moonfence::app
