#include "policy/kit/auto_cases.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "kube/text/json.h"
#include "policy/lua/views.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;
using Outcome = Expectation::Outcome;

// Fields of objects that Kubernetes may leave out.
constexpr std::array<std::string_view, 13> kOptionalOfPod = {"/metadata/labels",
                                                             "/metadata/annotations",
                                                             "/metadata/ownerReferences",
                                                             "/metadata/creationTimestamp",
                                                             "/metadata/deletionTimestamp",
                                                             "/metadata/deletionGracePeriodSeconds",
                                                             "/spec/nodeName",
                                                             "/spec/priority",
                                                             "/spec/volumes",
                                                             "/status/phase",
                                                             "/status/reason",
                                                             "/status/conditions",
                                                             "/status"};
constexpr std::array<std::string_view, 10> kOptionalOfNode = {
    "/metadata/labels", "/metadata/annotations", "/metadata/creationTimestamp",
    "/spec/taints",     "/spec/providerID",      "/spec",
    "/status/nodeInfo", "/status/addresses",     "/status/conditions",
    "/status"};
constexpr std::array<std::string_view, 4> kListsOfPod = {
    "/metadata/ownerReferences", "/spec/volumes", "/spec/tolerations", "/status/conditions"};
constexpr std::array<std::string_view, 3> kListsOfNode = {"/spec/taints", "/status/addresses",
                                                          "/status/conditions"};
constexpr std::array<std::string_view, 3> kBrokenStates = {"unbound", "claim_missing",
                                                           "volume_missing"};

struct Variant {
  std::string what;
  Scene scene;
  json settings;  // of its own; null: those of the case
};

bool has(const json& object, std::string_view place) {
  return object.contains(json::json_pointer(std::string(place)));
}

std::string dotted(std::string_view place) {
  std::string text(place.substr(1));
  std::replace(text.begin(), text.end(), '/', '.');
  return text;
}

void erase(json& object, std::string_view place) {
  const json::json_pointer pointer{std::string(place)};
  object[pointer.parent_pointer()].erase(pointer.back());
}

// What was gathered for a pod's fields goes with them.
void forget_facts(Scene& scene, std::string_view place) {
  if (place == "/spec/volumes") {
    scene.facts.volumes = std::vector<VolumeFacts>();
    scene.facts.siblings = std::vector<SiblingFacts>();
  } else if (place == "/metadata/ownerReferences") {
    scene.facts.owner_chain = std::vector<OwnerFacts>();
  }
}

void add_removals(const Scene& base, std::vector<Variant>& variants) {
  for (const std::string_view place : kOptionalOfPod) {
    if (has(base.pod, place)) {
      Variant variant{.what = "pod without " + dotted(place), .scene = base};
      erase(variant.scene.pod, place);
      forget_facts(variant.scene, place);
      variants.push_back(std::move(variant));
    }
  }
  for (const std::string_view place : kOptionalOfNode) {
    if (has(base.node, place)) {
      Variant variant{.what = "node without " + dotted(place), .scene = base};
      erase(variant.scene.node, place);
      variants.push_back(std::move(variant));
    }
  }
  for (const char* map : {"labels", "annotations"}) {
    const json* entries = member(&base.pod, "metadata", map);
    if (entries != nullptr && entries->is_object()) {
      for (const auto& [key, value] : entries->items()) {
        Variant variant{.what = std::string("pod without ") + map + "." + key, .scene = base};
        variant.scene.pod["metadata"][map].erase(key);
        variants.push_back(std::move(variant));
      }
    }
  }
}

// As little as the API server lets a pod have, still selected by its labels.
Variant minimal_pod(const Scene& base) {
  Variant variant{.what = "minimal pod", .scene = base};
  const json& metadata = base.pod["metadata"];
  json kept = {
      {"name", metadata["name"]}, {"namespace", metadata["namespace"]}, {"uid", metadata["uid"]}};
  if (metadata.contains("labels")) {
    kept["labels"] = metadata["labels"];
  }
  variant.scene.pod = {{"kind", "Pod"}, {"metadata", std::move(kept)}};
  variant.scene.node = {{"kind", "Node"},
                        {"metadata", {{"name", text_of(member(&base.node, "metadata", "name"))}}}};
  forget_facts(variant.scene, "/spec/volumes");
  forget_facts(variant.scene, "/metadata/ownerReferences");
  variant.scene.facts.candidates = std::vector<std::string>();
  return variant;
}

void add_reversals(const Scene& base, std::vector<Variant>& variants) {
  const auto reverse = [](json& object, std::string_view place) {
    json& list = object[json::json_pointer(std::string(place))];
    std::reverse(list.begin(), list.end());
  };
  const auto is_long = [](const json& object, std::string_view place) {
    const json::json_pointer pointer{std::string(place)};
    return object.contains(pointer) && object[pointer].is_array() && object[pointer].size() > 1;
  };
  for (const std::string_view place : kListsOfPod) {
    if (is_long(base.pod, place)) {
      Variant variant{.what = "pod's " + dotted(place) + " reversed", .scene = base};
      reverse(variant.scene.pod, place);
      variants.push_back(std::move(variant));
    }
  }
  for (const std::string_view place : kListsOfNode) {
    if (is_long(base.node, place)) {
      Variant variant{.what = "node's " + dotted(place) + " reversed", .scene = base};
      reverse(variant.scene.node, place);
      variants.push_back(std::move(variant));
    }
  }
  Variant facts{.what = "volumes, siblings and candidates reversed", .scene = base};
  PodFacts& gathered = facts.scene.facts;
  std::reverse(gathered.volumes->begin(), gathered.volumes->end());
  std::reverse(gathered.siblings->begin(), gathered.siblings->end());
  std::reverse(gathered.candidates->begin(), gathered.candidates->end());
  if (gathered.volumes->size() + gathered.siblings->size() + gathered.candidates->size() > 1) {
    variants.push_back(std::move(facts));
  }
}

void add_missing_facts(const Scene& base, std::vector<Variant>& variants) {
  for (std::size_t i = 0; i < base.facts.volumes->size(); ++i) {
    const std::string name = "volumes[" + std::to_string(i + 1) + "]";
    const VolumeFacts& volume = (*base.facts.volumes)[i];
    for (const std::string_view state : kBrokenStates) {
      Variant variant{.what = name + " is " + std::string(state), .scene = base};
      VolumeFacts broken{.name = volume.name, .claim = volume.claim, .space = volume.space};
      broken.state = state;
      (*variant.scene.facts.volumes)[i] = std::move(broken);
      variants.push_back(std::move(variant));
    }
    if (volume.attachment) {
      Variant variant{.what = name + " is not attached", .scene = base};
      (*variant.scene.facts.volumes)[i].attachment.reset();
      variants.push_back(std::move(variant));
    }
  }
  if (!base.facts.candidates->empty()) {
    Variant variant{.what = "no node can take the pod", .scene = base};
    variant.scene.facts.candidates = std::vector<std::string>();
    variants.push_back(std::move(variant));
  }
  if (node_facts_of(base).lease_age) {
    Variant variant{.what = "nobody has read the node's Lease", .scene = base};
    variant.scene.lease_renewed.reset();
    variant.scene.node_facts.lease_age.reset();
    variants.push_back(std::move(variant));
  }
}

void add_clocks(const Scene& base, std::vector<Variant>& variants) {
  const auto deadline = parse_rfc3339(text_of(member(&base.pod, "metadata", "deletionTimestamp")));
  for (const int offset : {-1, 0, 1}) {
    if (deadline) {
      const std::string sign = offset > 0 ? "+" : "";
      Variant variant{.what = "now at the deletion deadline " + sign + std::to_string(offset) + "s",
                      .scene = base};
      variant.scene.cluster.now = *deadline + std::chrono::seconds(offset);
      variants.push_back(std::move(variant));
    }
  }
}

void add_enums(const Subject& subject, const Scene& base, const json& settings,
               std::vector<Variant>& variants) {
  for (const auto& [name, setting] : subject.policy.settings()) {
    if (setting.type != Setting::Type::Enum) {
      continue;
    }
    for (const std::string& value : setting.values) {
      json values = settings;
      values[name] = value;
      std::string what = "setting ";
      what.append(name).append(" = ").append(value);
      variants.push_back({.what = std::move(what), .scene = base, .settings = std::move(values)});
    }
  }
}

// What a scene is to a policy, as text.
std::string fingerprint(const Scene& scene) {
  std::string text = kube::to_text(scene.pod) + kube::to_text(scene.node) +
                     std::to_string(scene.cluster.now.time_since_epoch().count());
  for (const VolumeFacts& volume : *scene.facts.volumes) {
    text += "|" + volume.claim + "," + volume.state + "," + volume.pv + "," + volume.driver + "," +
            volume.attachment.value_or("-");
  }
  for (const std::string& candidate : *scene.facts.candidates) {
    text += "|" + candidate;
  }
  const auto lease_age = node_facts_of(scene).lease_age;
  text += lease_age ? "|" + std::to_string(lease_age->count()) : "|-";
  return text;
}

// What the author has said to be right.
struct Explicit {
  std::set<std::string> acting_scenes;       // with their settings
  std::vector<const json*> acting_settings;  // of cases that expect a deletion
};

bool expects_action(const TestCase& test) {
  return test.expect.outcome == Outcome::Decided && test.expect.verdict.starts_with("delete_");
}

bool is_allowed(const Explicit& known, const Variant& variant, const json& settings) {
  if (!variant.settings.is_null()) {
    return std::any_of(known.acting_settings.begin(), known.acting_settings.end(),
                       [&variant](const json* other) { return *other == variant.settings; });
  }
  return known.acting_scenes.contains(fingerprint(variant.scene) + kube::to_text(settings));
}

CaseResult run_variant(const Subject& subject, const TestCase& test, const Answer& base,
                       const Variant& variant, const Explicit& known) {
  CaseResult result{.name = test.name + " / " + variant.what, .line = test.line};
  result.automatic = true;
  const auto stand =
      set_up(subject.policy, variant.settings.is_null() ? test.settings : variant.settings);
  const auto answer = stand ? ask(*stand, variant.scene, {.by_request = test.responses})
                            : Result<Answer>(failure(stand.error()));
  if (!answer) {
    result.state = CaseResult::State::Malformed;
    result.problems = {answer.error().message()};
    return result;
  }
  result.outcome = answer->words();
  if (answer->outcome == Outcome::Decided) {
    result.usage = answer->usage;
  }
  const bool was_left =
      base.verdict == "skip" || base.verdict == "forbid" || base.verdict == "hold";
  if (answer->outcome == Outcome::Error) {
    result.problems = {"error:   " + answer->error,
                       "rule:    what may be missing must not fail a policy"};
  } else if (was_left && answer->acts() && !is_allowed(known, variant, test.settings)) {
    result.problems = {"verdict: was " + base.words() + ", is " + answer->words(),
                       "reason:  " + answer->reason,
                       "rule:    a pod that is left alone must not be deleted because of this; "
                       "write a case that expects it if it is meant"};
  }
  if (!result.problems.empty()) {
    result.state = CaseResult::State::Failed;
    result.reads = answer->trace.reads;
  }
  return result;
}

std::vector<Variant> variants_of(const Subject& subject, const Scene& scene, const json& settings) {
  std::vector<Variant> variants;
  variants.push_back(minimal_pod(scene));
  add_removals(scene, variants);
  add_reversals(scene, variants);
  add_missing_facts(scene, variants);
  add_clocks(scene, variants);
  add_enums(subject, scene, settings, variants);
  return variants;
}

}  // namespace

std::vector<CaseResult> run_auto_cases(const Subject& subject, const std::vector<TestCase>& cases) {
  Explicit known;
  for (const TestCase& test : cases) {
    const auto prepared =
        expects_action(test) ? prepare(subject, test) : Result<Prepared>(failure(Error{}));
    if (prepared && prepared->scene) {
      known.acting_scenes.insert(fingerprint(*prepared->scene) + kube::to_text(test.settings));
      known.acting_settings.push_back(&test.settings);
    }
  }
  std::vector<CaseResult> results;
  for (const TestCase& test : cases) {
    const auto prepared = prepare(subject, test);
    const bool of_pod = prepared && prepared->scene && test.expect.of == Expectation::Of::Pod;
    if (!of_pod || !test.fail.empty()) {
      continue;
    }
    const auto base = ask(prepared->stand, *prepared->scene, {.by_request = test.responses});
    if (!base || base->outcome != Outcome::Decided) {
      continue;
    }
    for (const Variant& variant : variants_of(subject, *prepared->scene, test.settings)) {
      CaseResult result = run_variant(subject, test, *base, variant, known);
      // A variant may ask for what no case has a response to; nothing is learnt from it.
      if (result.state != CaseResult::State::Malformed) {
        results.push_back(std::move(result));
      }
    }
  }
  return results;
}

}  // namespace moonfence::policy
