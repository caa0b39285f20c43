#include "app/simulate/simulate_setup.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "app/engine/load_fencers.h"
#include "app/simulate/endpoint_script.h"
#include "audit/reason.h"
#include "base/text.h"
#include "os/system/clocks.h"
#include "os/system/system_files.h"
#include "os/tools/folders.h"
#include "policy/bundle/bindings.h"
#include "sim/net/bmc_http.h"
#include "sim/scenarios/builtin_scenarios.h"

namespace moonfence::app {
namespace {

using sim::Scenario;

std::vector<std::string_view> reason_words() {
  std::vector<std::string_view> words;
  words.reserve(audit::all_reasons().size());
  for (const audit::Reason reason : audit::all_reasons()) {
    words.push_back(audit::code(reason));
  }
  return words;
}

Result<Scenario> parse(std::string_view text, const std::string& file, port::Files* files) {
  const std::vector<std::string_view> reasons = reason_words();
  return sim::parse_scenario(text, file, {.files = files, .reasons = reasons});
}

Result<Scenario> find_scenario(const std::string& name, port::Files& files) {
  std::vector<std::string_view> known;
  for (const sim::BuiltinScenario& builtin : sim::builtin_scenarios()) {
    if (builtin.name == name) {
      return parse(builtin.text, name + ".txt", nullptr);
    }
    known.push_back(builtin.name);
  }
  if (name.find('/') == std::string::npos && !name.ends_with(".txt") && !os::is_file(name)) {
    return failure(Error::Kind::NotFound,
                   "'" + escaped(name, 64) + "' is no built-in scenario and no file" +
                       did_you_mean(name, known),
                   "`moonfence simulate --list` lists the built-in ones");
  }
  return read_scenario(name, files);
}

// The files of a folder as a ConfigMap would hold them. Folders below it are not read.
Result<std::map<std::string, std::string>> read_policies(const std::string& folder,
                                                         port::Files& files) {
  static constexpr std::array<std::string_view, 3> kSuffixes = {".yaml", ".lua", ".json"};
  std::map<std::string, std::string> data;
  if (!os::is_folder(folder)) {
    return failure(Error::Kind::NotFound, "--policies: " + escaped(folder) + " is no folder",
                   "name the folder that holds moonfence.yaml and the policies");
  }
  std::vector<std::string> paths;
  for (const std::string_view suffix : kSuffixes) {
    auto found = os::find_files(folder, suffix);
    if (!found) {
      return failure(found.error());
    }
    paths.insert(paths.end(), found->begin(), found->end());
  }
  const std::string mode = folder + "/mode";
  if (os::is_file(mode)) {
    paths.push_back(mode);
  }
  for (const std::string& path : paths) {
    const std::string name = path.substr(path.rfind('/') + 1);
    if (path.size() != folder.size() + name.size() + (folder.ends_with('/') ? 0 : 1)) {
      continue;
    }
    auto text = files.read(path);
    if (!text) {
      return failure(text.error());
    }
    data[name] = std::move(*text);
  }
  if (!data.contains(std::string(policy::kBindingsKey))) {
    return failure(Error::Kind::NotFound,
                   "--policies: " + escaped(folder) + " has no moonfence.yaml",
                   "it says which policy runs where: docs/reference.md, The policies");
  }
  return data;
}

Result<void> apply_setting(Scenario& scenario, const std::string& pair) {
  const auto split = key_and_value(pair);
  const std::string& key = split.first;
  const std::string& value = split.second;  // not a structured binding: a lambda uses it
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) {
    return sim::set_knob(scenario, key, value);
  }
  const std::string_view policy = std::string_view(key).substr(0, dot);
  const std::string_view setting = std::string_view(key).substr(dot + 1);
  bool found = false;
  const auto apply = [&](std::map<std::string, std::string>& data) -> Result<void> {
    const auto bindings = data.find(std::string(policy::kBindingsKey));
    if (bindings == data.end() || bindings->second.empty()) {
      return {};
    }
    const auto done = set_policy_setting(bindings->second, policy, setting, value);
    found = found || (done && *done);
    return done ? Result<void>() : Result<void>(failure(done.error()));
  };
  if (auto done = apply(scenario.plan.policies); !done) {
    return done;
  }
  for (sim::Step& step : scenario.plan.steps) {
    if (step.verb == sim::Verb::EditPolicies) {
      if (auto done = apply(step.arguments); !done) {
        return done;
      }
    }
  }
  if (!found) {
    return failure(
        Error::Kind::Invalid,
        "--set: no binding of this scenario has the policy '" + escaped(policy, 64) + "'",
        "write POLICY.SETTING=VALUE with a policy that moonfence.yaml binds");
  }
  return {};
}

// The scenario's `config`, refused as --config would be, before anything is put into it.
Result<YAML::Node> base_of(const sim::Plan& plan) {
  if (plan.config.empty()) {
    YAML::Node root;
    root["api"] = 1;
    return root;
  }
  if (auto settings = parse_settings(plan.config, "the scenario's config"); !settings) {
    return failure(std::move(settings.error()));
  }
  try {
    return YAML::Load(plan.config);
  } catch (const YAML::Exception& fault) {
    return failure(Error::Kind::Malformed, std::string("the scenario's config: ") + fault.what());
  }
}

std::string endpoint_of(const sim::BmcPlan& bmc) {
  return "bmc-" + bmc.node;
}

// A simulated BMC is an endpoint, also where the configuration does not name it.
void add_endpoints(const YAML::Node& root, const sim::Plan& plan) {
  YAML::Node config = root;  // nodes are references
  for (const sim::BmcPlan& bmc : plan.bmcs) {
    config["endpoints"][endpoint_of(bmc)]["url"] = "https://" + endpoint_of(bmc) + ".example";
  }
}

// No simulated run asks a real service, nor reads what it logs in with.
void script_endpoints(Settings& settings, const sim::Plan& plan) {
  for (auto& [name, rules] : settings.endpoints) {
    const bool is_bmc = std::any_of(
        plan.bmcs.begin(), plan.bmcs.end(),
        [&endpoint = name](const sim::BmcPlan& bmc) { return endpoint_of(bmc) == endpoint; });
    rules = {.url = is_bmc ? sim::bmc_url(name) : scripted_url(name), .timeout = rules.timeout};
  }
}

}  // namespace

Result<Scenario> read_scenario(const std::string& path, port::Files& files) {
  const auto text = files.read(path);
  if (!text) {
    return failure(text.error());
  }
  return parse(*text, path, &files);
}

Result<Scenario> set_up_scenario(const SimulateOptions& options, port::Files& files) {
  auto scenario = find_scenario(options.scenario, files);
  if (!scenario) {
    return scenario;
  }
  if (!options.policies.empty()) {
    auto data = read_policies(options.policies, files);
    if (!data) {
      return failure(data.error());
    }
    scenario->plan.policies = std::move(*data);
  }
  for (const auto& [path, text] : {std::pair(&options.config, &scenario->plan.config),
                                   {&options.responses, &scenario->plan.responses}}) {
    if (!path->empty()) {
      auto read = files.read(*path);
      if (!read) {
        return failure(std::move(read.error()));
      }
      *text = std::move(*read);
    }
  }
  for (const std::string& pair : options.set) {
    if (auto done = apply_setting(*scenario, pair); !done) {
      return failure(done.error());
    }
  }
  // What the scenario expects is about the scenario as it is written.
  if (!options.policies.empty() || !options.set.empty() || !options.config.empty() ||
      !options.responses.empty()) {
    scenario->expectations.clear();
  }
  scenario->seed = options.seed.value_or(scenario->seed);
  return scenario;
}

namespace {

// Each replica loads them anew, from what is compiled in.
Result<void> check_fencers(const Settings& settings) {
  os::SystemFiles files;
  os::ThreadCpuClock clock;
  for (const FencerSetting& fencer : settings.fencers) {
    if (!fencer.file.empty()) {
      return failure(Error::Kind::Invalid,
                     "fencers: " + fencer.name + " has a file, which a simulated engine has not",
                     "leave file out: it has those that come with moonfence");
    }
  }
  const auto loaded = load_fencers(settings, files, clock);
  return loaded ? Result<void>() : failure(Error(loaded.error()));
}

}  // namespace

Result<Settings> settings_of(const sim::Plan& plan) {
  static const std::map<std::string, std::vector<std::string>> places = {
      {"brake-window", {"brake", "window"}},
      {"cache-expiry", {"cacheExpiry"}},
      {"cool-down", {"brake", "coolDown"}},
      {"fail-pods", {"failPods"}},
      {"max-at-once", {"brake", "maxAtOnce"}},
      {"max-down", {"brake", "maxDown"}},
      {"max-per-window", {"brake", "maxPerWindow"}},
      {"proof", {"proof", "everywhere"}},
      {"replacement-wait", {"replacementWait"}},
      {"retry-interval", {"retryInterval"}},
      {"retry-window", {"retryWindow"}},
      {"silent-taint", {"silentTaint"}},
      {std::string(sim::kVolumeProofWord), {"proof", "drivers", std::string(sim::kFencedDriver)}},
      {"zone-max-at-once", {"brake", "zone", "maxAtOnce"}},
      {"zone-max-down", {"brake", "zone", "maxDown"}},
      {"zone-max-per-window", {"brake", "zone", "maxPerWindow"}}};
  const auto base = base_of(plan);
  if (!base) {
    return failure(base.error());
  }
  const YAML::Node& root = *base;  // changed through `at`: nodes are references
  for (const auto& [name, value] : plan.settings) {
    const bool is_proof = name == "proof" || name == sim::kVolumeProofWord;
    if (is_proof && value.empty()) {
      continue;
    }
    const auto place = places.find(name);
    YAML::Node at = root;
    for (const std::string& key : place == places.end() ? std::vector{name} : place->second) {
      at.reset(at[key]);
    }
    at = is_proof ? YAML::Load("[" + value + "]") : YAML::Node(value);
  }
  add_endpoints(root, plan);
  auto settings = parse_settings(YAML::Dump(root), "the scenario's settings");
  if (settings) {
    script_endpoints(*settings, plan);
    if (auto checked = check_fencers(*settings); !checked) {
      return failure(std::move(checked.error()));
    }
  }
  // The storage of the simulated clusters keeps no writer off, but a policy may act as if it did:
  // the checkers count what that comes to.
  for (const sim::WorkloadPlan& workload : plan.workloads) {
    if (settings) {
      settings->fencing_drivers.insert(workload.driver == sim::kInTreeDriver
                                           ? std::string(sim::kTranslatedDriver)
                                           : workload.driver);
    }
  }
  return settings;
}

Result<bool> set_policy_setting(std::string& bindings, std::string_view policy,
                                std::string_view key, std::string_view value) {
  try {
    YAML::Node root = YAML::Load(bindings);
    bool found = false;
    for (YAML::Node binding : root["bindings"]) {
      if (binding["policy"].as<std::string>("") == policy) {
        binding["settings"][std::string(key)] = YAML::Load(std::string(value));
        found = true;
      }
    }
    if (found) {
      bindings = YAML::Dump(root) + "\n";
    }
    return found;
  } catch (const std::exception& fault) {
    return failure(Error::Kind::Malformed,
                   std::string("--set: moonfence.yaml cannot be changed: ") + fault.what(),
                   "is it YAML with a list of bindings?");
  }
}

std::string list_scenarios() {
  std::string out;
  for (const sim::BuiltinScenario& builtin : sim::builtin_scenarios()) {
    const auto scenario = parse(builtin.text, std::string(builtin.name), nullptr);
    out += builtin.name;
    out.append(builtin.name.size() < 14 ? 14 - builtin.name.size() : 1, ' ');
    out += scenario ? scenario->plan.name : scenario.error().message();
    out += "\n";
  }
  return out;
}

}  // namespace moonfence::app
