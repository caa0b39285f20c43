#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/policy_commands/policy_command.h"
#include "app/rehearsal/capture.h"
#include "app/terminal/text_table.h"
#include "base/text.h"
#include "fence/rules/selection.h"
#include "kube/objects/decode.h"
#include "kube/text/json.h"
#include "os/tools/folders.h"
#include "policy/cases/test_subject.h"

namespace moonfence::app {

using nlohmann::json;

namespace {

constexpr std::string_view kDecisions = ".decisions.json";
constexpr std::string_view kRecordAnew = "record it anew with moonfence policy capture NODE -o DIR";

PolicyOutput refused(const Error& error) {
  return {.code = PolicyExit::Unusable, .out = "", .err = policy_error_text(error)};
}

Result<json> read_json(port::Files& files, const std::string& path) {
  const auto text = files.read(path, 256U << 20U);
  auto value = text ? kube::parse_json(*text) : Result<json>(failure(text.error()));
  if (!value) {
    Error error = Error(value.error()).within(escaped(path));
    error.hint = kRecordAnew;
    return failure(std::move(error));
  }
  return value;
}

std::string text_of(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_string()
             ? found->get<std::string>()
             : std::string();
}

// What one policy said of a pod when it was recorded, and what the new one says now.
struct Change {
  std::string pod;
  std::string was;
  std::string is;
  std::string why;
};

// The new policy where its predecessor was bound, and with its settings.
struct Bound {
  policy::NamespaceScope scope;
  policy::Allowances allow;
  policy::Stand stand;
};

policy::NamespaceScope scope_of(const json& binding) {
  std::set<Namespace> names;
  for (const json& name : binding.value("namespaces", json::array())) {
    if (name == "*") {
      return policy::NamespaceScope::everywhere();
    }
    if (name.is_string()) {
      names.emplace(name.get<std::string>());
    }
  }
  return policy::NamespaceScope::of(std::move(names));
}

policy::Allowances allowances_of(const json& binding) {
  const json words = binding.value("allow", json::array());
  const auto allows = [&words](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  return {.bare_pods = allows("bare-pods"), .finished_pods = allows("finished-pods")};
}

// One capture: two files beside each other.
struct Capture {
  std::string node;
  WallTime at{};
  policy::Objects objects;
  std::map<std::string, json> said;  // by NAMESPACE/NAME: what each policy did, by its name
  std::vector<Bound> bounds;
  std::string held;         // why the policy was not asked, as far as that is recorded
  std::size_t unasked = 0;  // pods that it selects and was not asked about
};

class Replay {
 public:
  // `given`, of --set, stands above what the captured bindings set.
  Replay(const PolicyOptions& options, const PolicyGround& ground, const policy::Subject& subject,
         json given, json responses)
      : ground_(ground),
        subject_(subject),
        by_(options.instead_of.empty() ? subject.policy.name() : options.instead_of),
        given_(std::move(given)),
        responses_(std::move(responses)) {
    if (subject.policy.judges_node()) {
      note("the node function of " + subject.file +
           " is not called: pods are decided as if it said proceed");
    }
  }

  Result<void> play(const std::string& decisions_path) {
    auto capture = read(decisions_path);
    if (!capture) {
      return failure(std::move(capture.error()));
    }
    for (const json* pod : policy::of_kind(capture->objects, "Pod")) {
      if (kube::text_at(*pod, "/spec/nodeName") == capture->node) {
        if (auto decided = decide_again(*pod, *capture); !decided) {
          return decided;
        }
      }
    }
    if (capture->unasked > 0) {
      note(escaped(capture->node, 256) + ": " + escaped(by_, 64) + " was not asked about " +
           std::to_string(capture->unasked) + " pods that it selects" + capture->held);
    }
    return {};
  }

  std::size_t pods = 0;
  std::vector<Change> changes;
  std::vector<std::string> notes;

 private:
  Result<Capture> read(const std::string& decisions_path) {
    const auto decisions = read_json(ground_.files, decisions_path);
    if (!decisions) {
      return failure(decisions.error());
    }
    if (!decisions->is_object()) {
      return failure(Error::Kind::Invalid, escaped(decisions_path) + ": not an object",
                     std::string(kRecordAnew));
    }
    const std::string path =
        decisions_path.substr(0, decisions_path.size() - kDecisions.size()) + ".objects.json";
    const auto recorded = read_json(ground_.files, path);
    if (!recorded) {
      return failure(recorded.error());
    }
    Capture capture;
    capture.node = text_of(*decisions, "node");
    capture.at = policy::time_of(decisions->value("at", json())).value_or(ground_.now);
    if (auto added = policy::add_objects(*recorded, escaped(path), capture.objects); !added) {
      return failure(std::move(added.error()));
    }
    for (const json& pod : decisions->value("pods", json::array())) {
      if (pod.is_object()) {
        capture.said[text_of(pod, "namespace") + "/" + text_of(pod, "name")] =
            pod.value("policies", json::object());
      }
    }
    for (const json& word : decisions->value("held", json::array())) {
      const std::string whose = text_of(word, "policy");
      if (whose.empty() || whose == by_) {
        const std::string text = text_of(word, "text");
        capture.held += (capture.held.empty() ? ": " : "; ") +
                        escaped(text_of(word, "reason"), 64) +
                        (text.empty() ? "" : ", " + escaped(text));
      }
    }
    if (auto bound = bind(*decisions, capture); !bound) {
      return failure(std::move(bound.error()));
    }
    return capture;
  }

  Result<void> bind(const json& decisions, Capture& capture) {
    for (const json& binding : decisions.value("bindings", json::array())) {
      if (text_of(binding, "policy") != by_) {
        continue;
      }
      const json then = binding.value("settings", json::object());
      json settings = json::object();
      for (const auto& [key, value] : then.items()) {
        if (subject_.policy.settings().contains(key)) {
          settings[key] = value;
        } else {
          note(escaped(capture.node, 256) + ": the binding of " + escaped(by_, 64) + " sets '" +
               escaped(key, 64) + "', which " + subject_.file + " does not declare");
        }
      }
      settings.update(given_);
      auto stand = policy::set_up(subject_.policy, settings);
      if (!stand) {
        return failure(std::move(stand.error())
                           .within("as it was bound on node " + escaped(capture.node, 256)));
      }
      capture.bounds.push_back({.scope = scope_of(binding),
                                .allow = allowances_of(binding),
                                .stand = *std::move(stand)});
    }
    if (capture.bounds.empty()) {
      note(escaped(capture.node, 256) + ": no binding of a policy " + escaped(by_, 64) +
           " was in force; decided as if bound everywhere, to bare and finished pods too");
      auto stand = policy::set_up(subject_.policy, given_);
      if (!stand) {
        return failure(std::move(stand.error()));
      }
      capture.bounds.push_back({.scope = policy::NamespaceScope::everywhere(),
                                .allow = {.bare_pods = true, .finished_pods = true},
                                .stand = *std::move(stand)});
    }
    return {};
  }

  Result<void> decide_again(const json& object, Capture& capture) {
    const std::string space = kube::text_at(object, "/metadata/namespace");
    const std::string name =
        (space.empty() ? "default" : space) + "/" + kube::text_at(object, "/metadata/name");
    auto scene = policy::make_scene(capture.objects, name, json::object());
    if (!scene) {
      return failure(scene.error());
    }
    const auto pod = kube::decode_pod(scene->pod);
    if (!pod) {
      return failure(pod.error());
    }
    const auto words = capture.said.find(name);
    const bool was_asked = words != capture.said.end() && words->second.contains(by_);
    // The last one, as its word is what stands recorded where several cover the namespace.
    const auto bound =
        std::find_if(capture.bounds.rbegin(), capture.bounds.rend(),
                     [&pod](const Bound& one) { return one.scope.covers(pod->ref.space); });
    if (bound == capture.bounds.rend() || (!was_asked && fence::left_alone(*pod, bound->allow))) {
      return {};
    }
    scene->cluster.now = capture.at;
    const auto answer = ask(bound->stand, *scene, *pod);
    if (!answer) {
      return failure(Error(answer.error()).within(escaped(name, 512)));
    }
    ++pods;
    const std::string is = word_of(*answer);
    const std::string was = was_asked ? text_of(words->second[by_], "verdict") : "not_selected";
    if (was == "not_asked") {
      ++capture.unasked;
    }
    if (was != is) {
      changes.push_back({.pod = name,
                         .was = was,
                         .is = is,
                         .why = answer->error.empty() ? answer->reason : answer->error});
    }
    return {};
  }

  [[nodiscard]] Result<policy::Answer> ask(const policy::Stand& stand, const policy::Scene& scene,
                                           const kube::Pod& pod) const {
    if (stand.policy.selects(pod.labels)) {  // what others lack does not matter
      for (const std::string& need : policy::declared_needs(stand.policy)) {
        if (const auto gap = scene.gaps.find(need); gap != scene.gaps.end()) {
          return failure(Error{.kind = Error::Kind::Invalid,
                               .text = "the policy needs '" + need + "'",
                               .hint = gap->second});
        }
      }
    }
    return policy::ask(stand, scene, {.by_request = responses_});
  }

  static std::string word_of(const policy::Answer& answer) {
    switch (answer.outcome) {
      case policy::Expectation::Outcome::Decided:
        return answer.verdict;
      case policy::Expectation::Outcome::NotSelected:
        return "not_selected";
      case policy::Expectation::Outcome::Deferred:
        return "deferred";
      case policy::Expectation::Outcome::Error:
        return "error";
    }
    return "";
  }

  void note(const std::string& text) {
    if (std::find(notes.begin(), notes.end(), text) == notes.end()) {
      notes.push_back(text);
    }
  }

  const PolicyGround& ground_;
  const policy::Subject& subject_;
  const std::string by_;  // whose verdicts and bindings it is compared with
  const json given_;
  const json responses_;
};

}  // namespace

PolicyOutput replay_policy(const PolicyOptions& options, const PolicyGround& ground) {
  const auto ready = ready_policy(options, ground);
  if (!ready) {
    return refused(ready.error());
  }
  auto responses = read_responses(options.responses, ground.files);
  if (!responses) {
    return refused(responses.error());
  }
  const auto files = os::find_files(options.records, kDecisions);
  if (!files) {
    return refused(files.error());
  }
  // ready_policy() has read them.
  json given = *parse_settings(options.set, ready->subject.policy.settings());
  Replay replay(options, ground, ready->subject, std::move(given), *std::move(responses));
  for (const std::string& file : *files) {
    if (auto played = replay.play(file); !played) {
      return refused(played.error());
    }
  }
  PolicyOutput output;
  for (const std::string& note : replay.notes) {
    output.err += "note: " + note + "\n";
  }
  if (replay.pods == 0) {
    output.code = PolicyExit::NothingRun;
    output.err += "moonfence policy: nothing in " + escaped(options.records) +
                  " to decide again\n  next: moonfence policy capture NODE -o " +
                  escaped(options.records) + "\n";
    return output;
  }
  TextTable table({"POD", "WAS", "IS", "WHY"});
  for (const Change& change : replay.changes) {
    table.add({change.pod, change.was, change.is, change.why});
  }
  output.code = replay.changes.empty() ? PolicyExit::Ok : PolicyExit::CaseFailed;
  output.out = table.text() + std::to_string(replay.pods) + " decided again, " +
               std::to_string(replay.changes.size()) + " changed\n";
  return output;
}

}  // namespace moonfence::app
