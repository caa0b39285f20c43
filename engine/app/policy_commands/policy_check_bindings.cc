#include <string_view>
#include <vector>

#include "app/policy_commands/policy_command.h"
#include "base/text.h"
#include "policy/bundle/bindings.h"
#include "policy/bundle/builtin.h"
#include "policy/cases/test_subject.h"

namespace moonfence::app {
namespace {

using policy::BindingSpec;

Result<std::string> source_of(const BindingSpec& binding, const std::string& folder,
                              port::Files& files) {
  if (binding.source != policy::kBuiltin) {
    return files.read(folder + binding.source);
  }
  std::vector<std::string_view> known;
  for (const policy::BuiltinPolicy& builtin : policy::builtin_policies()) {
    if (builtin.name == binding.policy) {
      return std::string(builtin.source);
    }
    known.push_back(builtin.name);
  }
  return failure(Error::Kind::NotFound, "no built-in policy is called '" +
                                            escaped(binding.policy, 64) + "'" +
                                            did_you_mean(binding.policy, known));
}

Result<void> check_binding(const BindingSpec& binding, const std::string& folder,
                           const PolicyGround& ground) {
  const auto source = source_of(binding, folder, ground.files);
  if (!source) {
    return failure(source.error());
  }
  const auto subject = policy::load_subject(*source, binding.policy + ".lua", ground.clock);
  if (!subject) {
    return failure(subject.error());
  }
  const auto stand = policy::set_up(subject->policy, binding.settings);
  return stand ? Result<void>() : Result<void>(failure(stand.error()));
}

// Another leastAfter would find something else: whoever has one in the engine's configuration is
// told how to say so.
Error fault_of(Error error, const std::string& text) {
  const auto least = policy::parse_bindings(text, policy::kLeastOffAfter).file;
  if (least || least.error().text != error.text) {
    error.hint += "; for an engine with another leastAfter, check with --least-after";
  }
  return error;
}

}  // namespace

PolicyOutput check_bindings(const std::string& path, Duration least_after,
                            const PolicyGround& ground) {
  const auto text = ground.files.read(path);
  if (!text) {
    return {.code = PolicyExit::Unusable, .err = policy_error_text(text.error())};
  }
  const policy::ParsedBindings parsed = policy::parse_bindings(*text, least_after);
  if (!parsed.file) {
    return {.code = PolicyExit::Unusable,
            .err = policy_error_text(fault_of(parsed.file.error(), *text))};
  }
  PolicyOutput output;
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  for (const BindingSpec& binding : parsed.file->bindings) {
    if (const auto checked = check_binding(binding, folder, ground); !checked) {
      Error error = checked.error();
      error.text = binding.place + ": " + error.text;
      output.err += policy_error_text(error);
      output.code = PolicyExit::Unusable;
    }
  }
  if (parsed.file->bindings.empty()) {
    output.err +=
        "moonfence policy: warning: " + escaped(path) + " binds no policy: nothing is fenced\n";
  }
  if (output.code == PolicyExit::Ok) {
    output.out =
        "ok  " + path + "  bindings: " + std::to_string(parsed.file->bindings.size()) + "\n";
    for (const BindingSpec& binding : parsed.file->bindings) {
      output.out += "    " + binding.policy + " in namespaces " + to_text(binding.scope) + ": " +
                    std::string(to_string(binding.mode)) + "\n";
    }
  }
  return output;
}

}  // namespace moonfence::app
