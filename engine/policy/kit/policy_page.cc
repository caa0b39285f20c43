#include "policy/kit/policy_page.h"

#include <set>

#include <nlohmann/json.hpp>

#include "kube/text/json.h"
#include "policy/cases/test_subject.h"
#include "policy/lua/spec.h"

namespace moonfence::policy {
namespace {

std::string type_of(const Setting& setting) {
  if (setting.type == Setting::Type::List) {
    return "list of " + std::string(to_string(setting.of));
  }
  std::string text(to_string(setting.type));
  for (std::size_t i = 0; i < setting.values.size(); ++i) {
    text += (i == 0 ? ": `" : ", `") + setting.values[i] + "`";
  }
  return text;
}

std::string bounds_of(const Setting& setting) {
  const auto number = [](double value) { return kube::to_text(nlohmann::json(value)); };
  std::string text;
  if (setting.min) {
    text += ", at least " + number(*setting.min);
  }
  if (setting.max) {
    text += ", at most " + number(*setting.max);
  }
  return text + (setting.clamp && !text.empty() ? ", moved to the limit" : "");
}

std::string settings_section(const Policy& policy) {
  if (policy.settings().empty()) {
    return "It has no settings.\n";
  }
  std::string text = "| setting | type | default | |\n| --- | --- | --- | --- |\n";
  for (const auto& [name, setting] : policy.settings()) {
    text += "| `" + name + "` | " + type_of(setting) + bounds_of(setting) + " | `" +
            kube::to_text(setting.otherwise) + "` | " + setting.doc + " |\n";
  }
  return text + "\nDurations are in seconds.\n";
}

std::string trigger_section(const Policy& policy) {
  if (const auto& source = policy.health_source()) {
    return "It learns itself which nodes are down, every " + format_duration(source->every) +
           "; a node it does not hear of keeps its state for " + format_duration(source->expiry) +
           ".\n";
  }
  const Trigger& trigger = policy.trigger();
  std::string text = trigger.failures == 1
                         ? "It acts at the first observation of a node that is down.\n"
                         : "It acts after " + std::to_string(trigger.failures) +
                               " observations of a node that is down, " +
                               format_duration(trigger.interval) + " apart.\n";
  text += std::string("- nodes that are down when the engine starts: ") +
          (trigger.sweep ? "count" : "do not count") + "\n- a node that is gone from the API: " +
          (trigger.deleted ? "counts as down" : "is left alone") +
          "\n- Ready=False or missing while the kubelet's Lease lives: " +
          (trigger.live_kubelet ? "counts as down" : "does not count") +
          "\n- a dead kubelet on a machine that answers, where that is watched: " +
          (trigger.live_kernel ? "counts as down" : "does not count") + "\n";
  return text;
}

std::string verdicts_section(const ChunkMap& map) {
  std::set<std::string> names;
  for (const VerdictSite& site : map.verdicts) {
    names.insert(site.name);
  }
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "`" : ", `") + name + "`";
  }
  return text.empty() ? "none by name" : text;
}

// A policy that asks for something depends on whoever answers, and may need a right for it.
std::string requests_section(const ChunkMap& map) {
  std::string text;
  for (const auto& [line, code] : map.requests) {
    text += "\n  - line " + std::to_string(line) + ": `" + code + "`";
  }
  return text.empty() ? " none" : text;
}

}  // namespace

std::string policy_page(const Policy& policy, const ChunkMap& map) {
  std::string needs;
  for (const std::string& need : declared_needs(policy)) {
    needs += (needs.empty() ? "`" : ", `") + need + "`";
  }
  std::string text =
      "# " + policy.name() + " " + policy.version() + "\n\n" + policy.summary() + "\n\n";
  text += policy.doc().empty() ? "" : policy.doc() + "\n\n";
  text += "- pods: " +
          (policy.label_selector().empty() ? "all" : "labelled `" + policy.label_selector() + "`") +
          "\n- needs: " + (needs.empty() ? "nothing beside the pod's object" : needs) +
          "\n- requests:" + requests_section(map) + "\n- verdicts: " + verdicts_section(map) + "\n";
  text += policy.is_guard()
              ? "- guard: where it fails or cannot be loaded, the pods it selects are held\n"
              : "";
  text += "- digest of the text: `" + policy.source_digest() + "`\n";
  return text + "\n## Settings\n\n" + settings_section(policy) + "\n## Trigger\n\n" +
         trigger_section(policy);
}

bool is_policy_name(const std::string& name) {
  return is_identifier(name, '-');
}

std::string skeleton_policy(const std::string& name) {
  return R"(-- What )" + name + R"( needs, and why deleting its pods is safe, belongs here.
return policy {
  api = 1,
  name = ")" +
         name + R"(",
  version = "0.1.0",
  summary = "Delete pods labelled app=)" +
         name + R"( on a node that is not Ready",
  select = { labels = "app=)" +
         name + R"(" },

  pod = function(pod)
    if pod.owner.kind ~= "StatefulSet" then
      return fence.skip("owner kind '" .. pod.owner.kind .. "' is not covered")
    end
    return fence.delete_pod("StatefulSet pod on a node that is not Ready")
  end,
}
)";
}

std::string skeleton_test(const std::string& name) {
  return R"(-- Replace the pod by what `kubectl get pod NAME -o json` prints: local pod = fixture "pod.json"
local pod = {
  kind = "Pod",
  metadata = {
    name = ")" +
         name + R"(-0", namespace = "default", labels = { app = ")" + name + R"(" },
    ownerReferences = { { apiVersion = "apps/v1", kind = "StatefulSet", name = ")" +
         name +
         R"(", uid = "1", controller = true } },
  },
  spec = { nodeName = "node-1" },
}

return tests {
  objects = pod,
  case { name = "a StatefulSet's pod is deleted", expect = { verdict = "delete_pod" } },
  case { name = "a Job's pod is left alone", patch = { ["pod.owner.kind"] = "Job" },
         expect = { verdict = "skip", reason = "~Job" } },
  case { name = "another app's pod is none of ours", patch = { ["pod.labels.app"] = "other" },
         expect = { outcome = "not_selected" } },
}
)";
}

}  // namespace moonfence::policy
