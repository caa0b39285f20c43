#pragma once

// `moonfence policy`: what administrators write and test policies with. It uses the code that the
// engine decides with, reads files, and touches neither a cluster nor the network.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/policy_commands/policy_options.h"
#include "base/result.h"
#include "base/time.h"
#include "policy/cases/test_subject.h"
#include "policy/values/setting.h"
#include "port/cpu_clock.h"
#include "port/files.h"

namespace moonfence::app {

// What a subcommand stands on. Everything outlives the call.
struct PolicyGround {
  port::Files& files;
  port::CpuClock& clock;
  WallTime now;  // for `eval` without --now
};

struct PolicyOutput {
  PolicyExit code = PolicyExit::Ok;
  std::string out;  // for standard output
  std::string err;  // for standard error
};

[[nodiscard]] PolicyOutput run_policy_command(const PolicyOptions& options,
                                              const PolicyGround& ground);

// Its parts, one file each.
[[nodiscard]] PolicyOutput check_policies(const PolicyOptions& options, const PolicyGround& ground);
// moonfence.yaml with the policies that it binds; other than built-in ones are read from its
// folder. `least_after`: of the engine's configuration, which is not read here.
[[nodiscard]] PolicyOutput check_bindings(const std::string& path, Duration least_after,
                                          const PolicyGround& ground);
[[nodiscard]] PolicyOutput test_policies(const PolicyOptions& options, const PolicyGround& ground);
[[nodiscard]] PolicyOutput eval_policy(const PolicyOptions& options, const PolicyGround& ground);
[[nodiscard]] PolicyOutput replay_policy(const PolicyOptions& options, const PolicyGround& ground);
[[nodiscard]] PolicyOutput list_policies(const PolicyGround& ground);
[[nodiscard]] PolicyOutput describe_policy(const PolicyOptions& options,
                                           const PolicyGround& ground);
[[nodiscard]] PolicyOutput write_editor_files(const PolicyOptions& options);
[[nodiscard]] PolicyOutput begin_policy(const PolicyOptions& options);

// Of --set. "30s" and "pod" are texts; what a type other than text needs is read as JSON.
[[nodiscard]] Result<nlohmann::json> parse_settings(const std::vector<std::string>& pairs,
                                                    const policy::DeclaredSettings& known);

// Of --responses: answers by the text of a request; {} without a path.
[[nodiscard]] Result<nlohmann::json> read_responses(const std::string& path, port::Files& files);

// The policy file that a command names, with the settings of its --set.
struct ReadyPolicy {
  policy::Subject subject;
  policy::Stand stand;
};
[[nodiscard]] Result<ReadyPolicy> ready_policy(const PolicyOptions& options,
                                               const PolicyGround& ground);
// An error as this command prints it, with a newline.
[[nodiscard]] std::string policy_error_text(const Error& error);
// The file that holds the tests of a policy: my-db.lua -> my-db_test.lua.
[[nodiscard]] std::string test_path_of(const std::string& policy_path);
// The policy that a test file is about; "" when it is no test file.
[[nodiscard]] std::string policy_path_of(const std::string& test_path);

}  // namespace moonfence::app
