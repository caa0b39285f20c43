#include "app/policy_commands/policy_command.h"
#include "base/text.h"
#include "os/tools/folders.h"
#include "policy/bundle/policy_set.h"
#include "policy/bundle/source_text.h"
#include "policy/cases/test_subject.h"

namespace moonfence::app {
namespace {

// As little as a pod that the policy selects has on a node; it may decide anything about it but
// not fail. Its pod is null when the policy selects none.
policy::Scene minimal_scene(const policy::Policy& policy) {
  policy::Scene scene;
  scene.pod = policy.made_selectable(
      {{"kind", "Pod"},
       {"metadata", {{"name", "minimal"}, {"namespace", "default"}, {"uid", "uid"}}},
       {"spec", {{"nodeName", "node-1"}}}});
  scene.node = {{"kind", "Node"}, {"metadata", {{"name", "node-1"}}}};
  scene.cluster.nodes_total = 1;
  scene.facts = policy::facts_of(scene.pod, {}, policy::kEveryNeed, scene.gaps);
  return scene;
}

std::string with_line(const std::string& source, const Error& error) {
  const std::string line = policy::quoted_line(source, error.text);
  return policy_error_text(Error{.kind = error.kind,
                                 .text = error.text + (line.empty() ? "" : "\n" + line),
                                 .hint = error.hint});
}

struct Findings {
  std::string errors;
  std::string warnings;
};

Findings check_file(const std::string& path, const PolicyGround& ground, std::string& out) {
  auto source = ground.files.read(path);
  if (!source) {
    return {.errors = policy_error_text(source.error()), .warnings = ""};
  }
  auto subject = policy::load_subject(*source, path, ground.clock);
  if (!subject) {
    return {.errors = with_line(*source, subject.error()), .warnings = ""};
  }
  Findings findings;
  const auto stand = policy::set_up(subject->policy, nlohmann::json::object());
  const policy::Scene scene = minimal_scene(subject->policy);
  const nlohmann::json none = nlohmann::json::object();
  const auto answer = !stand ? Result<policy::Answer>(failure(stand.error()))
                             : policy::ask(*stand, scene, {.by_request = none});
  if (scene.pod.is_null()) {
    findings.warnings += "moonfence policy: warning: " + escaped(path) +
                         ": no pod is selected by '" + escaped(subject->policy.label_selector()) +
                         "'\n";
  } else if (answer && answer->outcome == policy::Expectation::Outcome::Error) {
    findings.errors = with_line(
        *source, Error{.text = answer->error,
                       .hint = "this was a pod with nothing but its name, its node and the labels "
                               "that the policy selects; what may be absent is \"\", false, an "
                               "empty list or nil"});
  }
  for (const std::string& warning : subject->policy.warnings()) {
    findings.warnings += "moonfence policy: warning: " + warning + "\n";
  }
  if (!os::is_file(test_path_of(path))) {
    findings.warnings += "moonfence policy: warning: " + escaped(path) + " has no tests in " +
                         escaped(test_path_of(path)) + "\n";
  }
  if (findings.errors.empty()) {
    out += "ok  " + path + "  " + subject->policy.name() + " " + subject->policy.version() + "  " +
           subject->policy.summary() + "\n";
  }
  return findings;
}

}  // namespace

PolicyOutput check_policies(const PolicyOptions& options, const PolicyGround& ground) {
  PolicyOutput output;
  const Duration least_after = parse_duration(options.least_after).value_or(policy::kLostAfter);
  for (const std::string& given : options.paths) {
    if (given.ends_with(".yaml") || given.ends_with(".yml")) {
      const PolicyOutput bindings = check_bindings(given, least_after, ground);
      output.out += bindings.out;
      output.err += bindings.err;
      if (bindings.code != PolicyExit::Ok || (options.strict && !bindings.err.empty())) {
        output.code = PolicyExit::Unusable;
      }
      continue;
    }
    const std::string path = os::is_folder(given) ? given + "/policy.lua" : given;
    const Findings findings = check_file(path, ground, output.out);
    output.err += findings.errors + findings.warnings;
    if (!findings.errors.empty() || (options.strict && !findings.warnings.empty())) {
      output.code = PolicyExit::Unusable;
    }
  }
  return output;
}

}  // namespace moonfence::app
