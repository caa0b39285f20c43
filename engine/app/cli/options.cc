#include "app/cli/options.h"

#include <algorithm>
#include <sstream>

#include <CLI/CLI.hpp>

#include "app/cli/command_tree.h"
#include "app/cli/completion.h"
#include "app/cli/man_page.h"
#include "app/settings/version.h"
#include "audit/reason.h"
#include "base/text.h"
#include "policy/bundle/builtin.h"
#include "sim/scenarios/builtin_scenarios.h"

namespace moonfence::app {
namespace {

constexpr const char* kFooter = R"(
Examples:
  moonfence run --namespace moonfence      the daemon
  moonfence status                         who leads, what is in force, what is being done
  moonfence plan node-7 --assume-down      what would be done if node-7 died now
  moonfence explain db-0 -n db             why this pod, or why not
  moonfence simulate                       a failover in a simulated cluster

As kubectl-moonfence in the PATH it is a plugin: kubectl moonfence status.
As kubectl_complete-moonfence beside it, it completes that for kubectl 1.26 and later.)";

constexpr const char* kCompletionFooter = R"(
Examples:
  moonfence completion bash > /etc/bash_completion.d/moonfence
  moonfence completion zsh > "${fpath[1]}/_moonfence"
  moonfence completion fish > ~/.config/fish/completions/moonfence.fish)";

std::string_view base_name(std::string_view program) {
  return program.substr(program.rfind('/') + 1);
}

// kubectl runs a program kubectl-moonfence in the PATH as `kubectl moonfence`.
std::string own_name(std::string_view program) {
  return base_name(program) == "kubectl-moonfence" ? "kubectl moonfence" : "moonfence";
}

void add_self_description(CLI::App& app, std::string& shell) {
  CLI::App* completion =
      app.add_subcommand("completion", "Print a script that completes the command line");
  completion->footer(kCompletionFooter);
  completion->add_option("SHELL", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""));
  app.add_subcommand("man", "Print the manual page")->footer(R"(
Example:
  moonfence man > /usr/local/share/man/man1/moonfence.1)");
}

// Of the positional arguments that are words which the program itself knows.
struct Known {
  std::vector<std::string> path;  // of the command
  std::vector<std::string> words;
  bool or_file = false;
};

std::vector<Known> known_words() {
  Known reasons = {.path = {"reason"}, .words = {}};
  for (const audit::Reason reason : audit::all_reasons()) {
    reasons.words.emplace_back(audit::code(reason));
  }
  Known scenarios = {.path = {"simulate"}, .words = {}, .or_file = true};
  for (const sim::BuiltinScenario& scenario : sim::builtin_scenarios()) {
    scenarios.words.emplace_back(scenario.name);
  }
  Known policies = {.path = {"policy", "doc"}, .words = {}, .or_file = true};
  for (const policy::BuiltinPolicy& builtin : policy::builtin_policies()) {
    policies.words.emplace_back(builtin.name);
  }
  return {std::move(reasons),
          std::move(scenarios),
          std::move(policies),
          {.path = {"completion"}, .words = {"bash", "zsh", "fish"}}};
}

CommandTree described(const CLI::App& app) {
  CommandTree tree = tree_of(app);
  for (const Known& known : known_words()) {
    CommandTree* at = &tree;
    for (const std::string& name : known.path) {
      const auto next = std::find_if(at->commands.begin(), at->commands.end(),
                                     [&name](const auto& command) { return command.name == name; });
      at = &*next;
    }
    for (CommandTree::Option& option : at->options) {
      if (option.flags.empty()) {
        option.words = known.words;
        option.files = known.or_file;
      }
    }
  }
  return tree;
}

// The parser would only say that a command is missing.
std::string unknown_command(const CLI::App& app, int argc, const char* const* argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  if (word.empty() || word.front() == '-') {
    return {};
  }
  std::string known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == word) {
      return {};
    }
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  return "moonfence: there is no command '" + escaped(word, 128) + "'; there are " + known +
         "\nRun with --help for more information.\n";
}

// `moonfence policy` has exit codes of its own, in which 2 means something else.
ExitCode usage_code(const CLI::App& app) {
  return app.got_subcommand("policy") ? ExitCode::PolicyUsage : ExitCode::Usage;
}

// The options, unless one of them breaks a rule.
template <class Options>
Command checked(const Options& options, const CLI::App& app, const std::string& command) {
  const std::string problem = problem_of(options);
  if (problem.empty()) {
    return options;
  }
  return Leave{.code = usage_code(app),
               .text = command + ": " + problem + "\nRun with --help for more information.\n"};
}

}  // namespace

Command parse_command_line(int argc, const char* const* argv) {
  CLI::App app{"moonfence: fences the pods of failed Kubernetes nodes by policies written in Lua",
               own_name(argc > 0 ? argv[0] : "")};
  app.footer(kFooter);
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every subcommand");
  app.add_flag_callback(
      "--version", [] { throw CLI::CallForVersion("", 0); }, "Print version and leave");
  RunOptions run;
  add_run(app, run);
  PolicyOptions policy;
  CLI::App* group = add_policy(app, policy);
  SimulateOptions simulate;
  add_simulate(app, simulate);
  ReasonOptions reason;
  add_reason(app, reason);
  ClientOptions client;
  add_client_commands(app, client);
  add_capture(*group, client);
  std::string shell;
  add_self_description(app, shell);
  app.add_subcommand("version", "Print version and commit")->footer(R"(
Example:
  moonfence version)");
  if (argc > 0 && base_name(argv[0]) == "kubectl_complete-moonfence") {
    return Leave{.code = ExitCode::Ok,
                 .text = kubectl_answer(described(app), {argv + 1, argv + argc})};
  }
  if (const std::string problem = unknown_command(app, argc, argv); !problem.empty()) {
    return Leave{.code = ExitCode::Usage, .text = problem};
  }
  if (argc == 1 && app.get_name() != "moonfence") {
    return Leave{.code = ExitCode::Ok, .text = app.help()};  // as plugins of kubectl do
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion&) {
    return VersionOptions{};
  } catch (const CLI::ParseError& problem) {
    std::ostringstream out;
    std::ostringstream err;
    const int code = app.exit(problem, out, err);
    return code == 0 ? Leave{.code = ExitCode::Ok, .text = out.str()}
                     : Leave{.code = usage_code(app), .text = "moonfence: " + err.str()};
  }
  if (app.got_subcommand("version")) {
    return VersionOptions{};
  }
  if (app.got_subcommand("reason")) {
    const ReasonAnswer answer = reason_answer(reason);
    return Leave{.code = answer.known ? ExitCode::Ok : ExitCode::Usage, .text = answer.text};
  }
  if (app.got_subcommand("completion")) {
    return Leave{.code = ExitCode::Ok, .text = completion_script(described(app), shell)};
  }
  if (app.got_subcommand("man")) {
    return Leave{.code = ExitCode::Ok, .text = man_page(described(app), std::string(version()))};
  }
  if (is_client_command(app)) {
    return checked(client, app, "moonfence");
  }
  if (app.got_subcommand("policy")) {
    return checked(policy, app, "moonfence policy");
  }
  if (app.got_subcommand("simulate")) {
    return checked(simulate, app, "moonfence simulate");
  }
  return checked(run, app, "moonfence run");
}

}  // namespace moonfence::app
