#include "app/policy_command.h"
#include "base/text.h"
#include "os/folders.h"
#include "policy/source_text.h"
#include "policy/test_subject.h"

namespace moonfence::app {
namespace {

// As little as the API server lets a pod have; its policy may decide anything about it but not
// fail.
policy::Scene minimal_scene() {
  policy::Scene scene;
  scene.pod = {{"kind", "Pod"},
               {"metadata", {{"name", "minimal"}, {"namespace", "default"}, {"uid", "uid"}}}};
  scene.node = {{"kind", "Node"}, {"metadata", {{"name", ""}}}};
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
  const nlohmann::json none = nlohmann::json::object();
  const auto answer = stand ? policy::ask_unselected(*stand, minimal_scene(), {.by_request = none})
                            : Result<policy::Answer>(failure(stand.error()));
  if (answer && answer->outcome == policy::Expectation::Outcome::Error) {
    findings.errors = with_line(
        *source, Error{.text = answer->error,
                       .hint = "this was a pod with nothing but its name; what may be absent is "
                               "\"\", false, an empty list or nil"});
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
  for (const std::string& given : options.paths) {
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
