#include <algorithm>
#include <array>
#include <set>

#include "sim/drawing.h"
#include "sim/net/chance.h"
#include "sim/truth/reach.h"

namespace moonfence::sim {
namespace {

using Data = std::map<std::string, std::string>;

constexpr const char* kMode = "mode";

std::vector<Step> in_order(const Drawing& drawing) {
  std::vector<Step> steps = drawing.plan.steps;
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.at < b.at; });
  return steps;
}

// What the ConfigMap says when all is calm.
Data last_policies(const Drawing& drawing) {
  Data data = drawing.plan.policies;
  Data saved;
  for (const Step& step : in_order(drawing)) {
    if (step.verb == Verb::SnapshotStore) {
      saved = data;
    } else if (step.verb == Verb::RestoreStore) {
      data = saved;
    } else if (step.verb == Verb::DeletePolicies) {
      data.clear();
    } else if (step.verb == Verb::EditPolicies) {
      for (const auto& [key, text] : step.arguments) {
        data[key] = text;
      }
      std::erase_if(data, [](const auto& entry) { return entry.second.empty(); });
    }
  }
  return data;
}

std::string resolute_policy(std::string_view file) {
  std::string text = "-- sim: always\nreturn policy {\n  api = 1,\n  name = \"";
  text += file.substr(0, file.rfind('.'));
  text +=
      "\",\n"
      "  version = \"2.0.0\",\n"
      "  summary = \"Delete every pod that it is asked about\",\n"
      "  trigger = { failures = 1 },\n"
      "  pod = function(pod)\n"
      "    return fence.delete_pod(\"the node is silent\")\n"
      "  end,\n"
      "}\n";
  return text;
}

// As it was meant to be.
bool is_worker(const Drawing& drawing, const std::string& node) {
  return std::any_of(drawing.plan.nodes.begin(), drawing.plan.nodes.end(),
                     [&node](const NodePlan& plan) {
                       return plan.name == node && !plan.dedicated && !plan.cordoned &&
                              !plan.never_joined && !plan.absent && plan.dead == Duration();
                     });
}

// Workers that are down when all is calm, in the order of their names.
std::vector<std::string> last_failed(const Drawing& drawing) {
  std::set<std::string> failed;
  for (const Step& step : in_order(drawing)) {
    constexpr std::array<Verb, 7> kFailures = {
        Verb::PowerOff, Verb::PartitionNode, Verb::StopKubelet, Verb::Freeze,
        Verb::NotReady, Verb::RemoveReady,   Verb::MarkUnknown};
    if (std::find(kFailures.begin(), kFailures.end(), step.verb) != kFailures.end()) {
      if (is_worker(drawing, step.target)) {
        failed.insert(step.target);
      }
    } else if (step.verb == Verb::Heal || step.verb == Verb::RecreateNode ||
               step.verb == Verb::DeleteNode) {
      failed.erase(step.target);
    }
  }
  return {failed.begin(), failed.end()};
}

std::size_t workers(const Drawing& drawing) {
  return static_cast<std::size_t>(
      std::count_if(drawing.plan.nodes.begin(), drawing.plan.nodes.end(),
                    [&drawing](const NodePlan& node) { return is_worker(drawing, node.name); }));
}

// In per cent of the workers; 100 for no limit.
std::size_t max_down(const Plan& plan) {
  const auto found = plan.settings.find("max-down");
  return found == plan.settings.end() ? 50 : found->second == "off" ? 100 : 80;
}

}  // namespace

// Policies that wait, fail or hold, that are switched off or that cannot be read, are an obstacle
// like any other: somebody ends it. A world whose policies want pods gone already is left as it is,
// for an edit makes the engine look at everything anew.
void draw_last_word(Drawing& drawing, port::Random& random) {
  if (!happens(random, 0.85)) {
    return;
  }
  const Data data = last_policies(drawing);
  const auto reach = read_reach(data);
  const bool anew = reach == nullptr || reach->bindings.empty();
  const Data& bound = anew ? drawing.plan.policies : data;
  Data edit = anew ? bound : Data();
  if (data.contains(kMode)) {
    edit[kMode] = "";
  }
  for (const auto& [file, text] : bound) {
    if (file.ends_with(".lua") && !text.starts_with("-- sim: always")) {
      edit[file] = resolute_policy(file);
    }
  }
  if (!edit.empty()) {
    drawing.add(drawing.noise, Verb::EditPolicies, "", edit);
  }
}

// Where the brake would hold everything for good, enough machines come back for it to let go.
void draw_relief(Drawing& drawing, port::Random& random) {
  std::vector<std::string> failed = last_failed(drawing);
  const std::size_t all = workers(drawing);
  if (!happens(random, 0.8)) {
    return;
  }
  while (failed.size() * 100 > max_down(drawing.plan) * all) {
    const auto lucky =
        failed.begin() + static_cast<std::ptrdiff_t>(number(random, 0, failed.size() - 1));
    drawing.add(drawing.noise, Verb::Heal, *lucky);
    failed.erase(lucky);
  }
}

}  // namespace moonfence::sim
