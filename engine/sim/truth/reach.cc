#include "sim/truth/reach.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <yaml-cpp/yaml.h>

#include "base/time.h"

namespace moonfence::sim {
namespace {

constexpr std::string_view kBindings = "moonfence.yaml";
// What the shipped policy says of itself (policies/noobaa/policy.lua).
constexpr std::string_view kNoobaa = "noobaa";
constexpr std::string_view kNoobaaDatabase = "noobaa-db-pg-";
// A policy written for the simulation says by this that it deletes whatever it is asked about.
constexpr std::string_view kAlways = "-- sim: always";

constexpr std::array<std::string_view, 3> kFileKeys = {"api", "mode", "bindings"};
constexpr std::array<std::string_view, 10> kBindingKeys = {
    "actOn", "after",    "policy", "source",   "namespaces",
    "mode",  "settings", "allow",  "holdDown", "onReject"};

template <std::size_t size>
bool knows_all(const YAML::Node& map, const std::array<std::string_view, size>& known) {
  return std::all_of(map.begin(), map.end(), [&known](const auto& entry) {
    return std::find(known.begin(), known.end(), entry.first.template as<std::string>()) !=
           known.end();
  });
}

// "app=web,tier=db"; anything finer selects everything as far as we are concerned.
std::map<std::string, std::string> labels_of(std::string_view source) {
  constexpr std::string_view kStart = "labels = \"";
  const auto start = source.find(kStart);
  if (start == std::string_view::npos) {
    return {};
  }
  source.remove_prefix(start + kStart.size());
  source = source.substr(0, source.find('"'));
  std::map<std::string, std::string> labels;
  while (!source.empty()) {
    const auto comma = std::min(source.find(','), source.size());
    const std::string_view term = source.substr(0, comma);
    const auto equals = term.find('=');
    if (equals == std::string_view::npos || term.find_first_of(" !(") != std::string_view::npos) {
      return {};
    }
    labels.emplace(term.substr(0, equals), term.substr(equals + 1));
    source.remove_prefix(std::min(comma + 1, source.size()));
  }
  return labels;
}

// A faulty edit of a policy's text, as it is drawn.
bool is_cut_off(std::string_view text) {
  const auto last = text.find_last_not_of(" \n");
  return last == std::string_view::npos || text[last] != '}';
}

void read_source(const std::string& source, const std::map<std::string, std::string>& data,
                 const YAML::Node& settings, BindingReach& reach) {
  if (source == "builtin" && reach.policy == kNoobaa) {
    reach.labels = {{"app", "noobaa"}};
    reach.live_kubelet = true;
    reach.deletes = true;
    const bool takes_database =
        settings.IsMap() && settings["db"] && settings["db"].as<std::string>() == "pod";
    reach.spared_prefix = takes_database ? "" : kNoobaaDatabase;
    return;
  }
  if (source == "builtin") {  // what its trigger says cannot be read here
    reach.unread = true;
    reach.live_kubelet = true;
    reach.live_kernel = true;
    reach.deleted = true;
    return;
  }
  const auto found = data.find(source);
  if (found == data.end()) {
    return;
  }
  if (is_cut_off(found->second)) {  // a version before it may go on, and say anything
    reach.live_kubelet = true;
    reach.live_kernel = true;
    reach.deleted = true;
    return;
  }
  reach.labels = labels_of(found->second);
  reach.live_kubelet = found->second.find("live_kubelet = true") != std::string::npos;
  reach.deleted = found->second.find("deleted = true") != std::string::npos;
  reach.by_source = found->second.find(" source = ") != std::string::npos;
  reach.live_kubelet = reach.live_kubelet || reach.by_source;
  reach.live_kernel =
      reach.by_source || found->second.find("live_kernel = true") != std::string::npos;
  reach.deletes = found->second.find(kAlways) != std::string::npos;
}

bool read_binding(const YAML::Node& node, const std::map<std::string, std::string>& data,
                  bool ceiling_enforces, BindingReach& reach) {
  if (!node.IsMap() || !knows_all(node, kBindingKeys) || !node["policy"] || !node["namespaces"]) {
    return false;
  }
  reach.policy = node["policy"].as<std::string>();
  for (const YAML::Node& space : node["namespaces"]) {
    const auto name = space.as<std::string>();
    reach.everywhere = reach.everywhere || name == "*";
    reach.spaces.insert(name);
  }
  reach.enforces = ceiling_enforces && node["mode"] && node["mode"].as<std::string>() == "enforce";
  if (node["holdDown"]) {
    const auto held = parse_duration(node["holdDown"].as<std::string>());
    if (!held) {
      return false;
    }
    reach.hold_down = *held;
  }
  if (node["allow"]) {
    for (const YAML::Node& allowed : node["allow"]) {
      reach.bare_pods = reach.bare_pods || allowed.as<std::string>() == "bare-pods";
      reach.finished_pods = reach.finished_pods || allowed.as<std::string>() == "finished-pods";
      reach.out_of_service = reach.out_of_service || allowed.as<std::string>() == "out-of-service";
    }
  }
  read_source(node["source"] ? node["source"].as<std::string>() : "builtin", data,
              node["settings"] ? node["settings"] : YAML::Node(), reach);
  const std::string act_on = node["actOn"] ? node["actOn"].as<std::string>() : "down";
  if (act_on == "lost" || act_on == "off") {
    reach.lost = true;
    reach.signal = act_on + (node["after"] ? " " + node["after"].as<std::string>() : "");
    reach.by_source = true;
    reach.live_kubelet = true;
    reach.deletes = false;  // of what may run twice, and only where the engine has heard nothing
  }
  return true;
}

}  // namespace

bool BindingReach::covers(const std::string& space, const Json& pod_labels) const {
  if (!everywhere && !spaces.contains(space)) {
    return false;
  }
  return std::all_of(labels.begin(), labels.end(), [&pod_labels](const auto& wanted) {
    const auto found = pod_labels.find(wanted.first);
    return found != pod_labels.end() && *found == wanted.second;
  });
}

std::shared_ptr<const Reach> read_reach(const std::map<std::string, std::string>& data) {
  const auto text = data.find(std::string(kBindings));
  if (text == data.end()) {
    return std::make_shared<const Reach>();
  }
  try {
    const YAML::Node file = YAML::Load(text->second);
    if (!file.IsMap() || !knows_all(file, kFileKeys)) {
      return nullptr;
    }
    const bool enforces = !file["mode"] || file["mode"].as<std::string>() == "enforce";
    auto reach = std::make_shared<Reach>();
    for (const YAML::Node& node : file["bindings"]) {
      BindingReach binding;
      if (!read_binding(node, data, enforces, binding)) {
        return nullptr;
      }
      reach->bindings.push_back(std::move(binding));
    }
    return reach;
  } catch (const YAML::Exception&) {
    return nullptr;
  }
}

bool is_lowered(const std::map<std::string, std::string>& data) {
  const auto mode = data.find("mode");
  return mode != data.end() && mode->second != "enforce";
}

}  // namespace moonfence::sim
