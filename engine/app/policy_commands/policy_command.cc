#include "app/policy_commands/policy_command.h"

#include <string_view>

namespace moonfence::app {
namespace {

constexpr std::string_view kTestSuffix = "_test.lua";
constexpr std::string_view kSuffix = ".lua";

}  // namespace

std::string policy_error_text(const Error& error) {
  return "moonfence policy: " + error.text + "\n" +
         (error.hint.empty() ? "" : "  next: " + error.hint + "\n");
}

std::string test_path_of(const std::string& policy_path) {
  return policy_path.substr(0, policy_path.size() - kSuffix.size()) + std::string(kTestSuffix);
}

std::string policy_path_of(const std::string& test_path) {
  return test_path.ends_with(kTestSuffix)
             ? test_path.substr(0, test_path.size() - kTestSuffix.size()) + std::string(kSuffix)
             : "";
}

PolicyOutput run_policy_command(const PolicyOptions& options, const PolicyGround& ground) {
  switch (options.verb) {
    case PolicyOptions::Verb::Check:
      return check_policies(options, ground);
    case PolicyOptions::Verb::Test:
      return test_policies(options, ground);
    case PolicyOptions::Verb::Eval:
      return eval_policy(options, ground);
    case PolicyOptions::Verb::Replay:
      return replay_policy(options, ground);
    case PolicyOptions::Verb::List:
      return list_policies(ground);
    case PolicyOptions::Verb::Doc:
      return describe_policy(options, ground);
    case PolicyOptions::Verb::Meta:
      return write_editor_files(options);
    case PolicyOptions::Verb::New:
      return begin_policy(options);
  }
  return {};
}

}  // namespace moonfence::app
