#include "app/options.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <CLI/CLI.hpp>

#include "app/command_tree.h"
#include "app/completion.h"
#include "app/man_page.h"
#include "app/version.h"
#include "audit/reason.h"
#include "base/text.h"
#include "policy/builtin.h"
#include "sim/builtin_scenarios.h"

namespace moonfence::app {
namespace {

constexpr const char* kRunFooter = R"(
Examples:
  moonfence run --namespace moonfence
      Run the policies that ConfigMap moonfence-policies of that namespace binds.
  moonfence run --policy policies/noobaa/policy.lua --policy-namespace noobaa
      Watch the cluster of the current kubeconfig and tell what would be done.
  moonfence run --policy policies/noobaa/policy.lua --policy-namespace noobaa --mode enforce
      Do it.

Exit codes: 0 stopped as asked, 1 failed while running, 2 wrong command line,
3 kubeconfig or configuration unusable, 4 policy cannot be loaded.)";

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

const std::map<std::string, policy::Mode>& modes() {
  static const std::map<std::string, policy::Mode> words = {{"off", policy::Mode::Off},
                                                            {"observe", policy::Mode::Observe},
                                                            {"enforce", policy::Mode::Enforce}};
  return words;
}

const std::map<std::string, port::Log::Level>& levels() {
  static const std::map<std::string, port::Log::Level> words = {
      {"debug", port::Log::Level::Debug},
      {"info", port::Log::Level::Info},
      {"warning", port::Log::Level::Warning},
      {"error", port::Log::Level::Error}};
  return words;
}

const std::map<std::string, LogFormat>& formats() {
  static const std::map<std::string, LogFormat> words = {{"text", LogFormat::Text},
                                                         {"json", LogFormat::Json}};
  return words;
}

// An option whose value is one of a few words.
template <class Value, class Into>
void add_choice(CLI::App& app, const std::string& flag, Into& into,
                const std::map<std::string, Value>& words, const std::string& help,
                const std::string& type_name) {
  std::vector<std::string> known;
  known.reserve(words.size());
  for (const auto& [word, value] : words) {
    known.push_back(word);
  }
  app.add_option_function<std::string>(
         flag, [&into, &words](const std::string& word) { into = words.at(word); }, help)
      ->check(CLI::IsMember(known).description(""))
      ->type_name(type_name);
}

void add_run(CLI::App& app, RunOptions& options) {
  CLI::App* run = app.add_subcommand("run", "Watch the nodes and fence the pods of failed ones");
  run->footer(kRunFooter);
  run->add_option(
         "--kubeconfig", options.kubeconfig,
         "Kubeconfig file (default: KUBECONFIG, the pod's service account, ~/.kube/config)")
      ->type_name("FILE");
  run->add_option("--context", options.context, "Context of the kubeconfig")->type_name("NAME");
  run->add_option("--namespace", options.engine_namespace,
                  "Namespace of the engine's own objects (default: the pod's, else moonfence)")
      ->type_name("NS");
  run->add_option("--config", options.config, "The engine's own configuration file, YAML")
      ->type_name("FILE");
  add_choice(*run, "--mode", options.mode, modes(),
             "observe: decide and record, delete nothing; enforce: act; off. The mode of --policy "
             "(default: observe); without it, more than this no binding may do",
             "observe|enforce|off");
  run->add_option("--policy", options.policy,
                  "Run this one policy, a Lua file (default: those that ConfigMap "
                  "moonfence-policies binds)")
      ->type_name("FILE");
  run->add_option("--policy-namespace", options.policy_namespace,
                  "The only namespace in which --policy may act")
      ->type_name("NS");
  run->add_option("--hold-down", options.hold_down,
                  "How long a node must be down whose kubelet still speaks before --policy acts "
                  "(default: 10s)")
      ->type_name("TIME");
  run->add_option("--leader-elect", options.leader_elect,
                  "Act only while holding the Lease moonfence of --namespace, so that several "
                  "replicas may run (default: true; with --policy: false)")
      ->type_name("true|false");
  run->add_option("--node-name", options.node_name,
                  "The node on which this runs; its pods are left alone (default: NODE_NAME)")
      ->type_name("NAME");
  run->add_option("--metrics-bind-address", options.metrics_bind_address,
                  "Where /metrics is served; 0 turns it off (default: :8080)")
      ->type_name("HOST:PORT");
  run->add_option("--health-probe-bind-address", options.health_probe_bind_address,
                  "Where /healthz, /readyz and /version are served; 0 turns it off "
                  "(default: :8081)")
      ->type_name("HOST:PORT");
  run->add_option("--status-bind-address", options.status_bind_address,
                  "Where the status page is served; 0 turns it off (default: 127.0.0.1:8082)")
      ->type_name("HOST:PORT");
  run->add_option("--audit-log", options.audit_log,
                  "Append audit records as JSON lines to this file, - for standard output")
      ->type_name("FILE");
  add_choice(*run, "--log-level", options.log_level, levels(),
             "Least level that is logged (default: info)", "debug|info|warning|error");
  add_choice(*run, "--log-format", options.log_format, formats(),
             "A line of the log as text or as a JSON object (default: text)", "text|json");
}

// A namespace that cannot exist would leave a daemon that runs, is ready and can never read a pod.
std::string problem_of(const RunOptions& options) {
  if (options.policy.empty() && !options.policy_namespace.empty()) {
    return "--policy is missing: --policy-namespace says where it may act; without both, the "
           "bindings of ConfigMap moonfence-policies do";
  }
  if (const auto held = parse_duration(options.hold_down); !held || *held < Duration::zero()) {
    return "--hold-down: '" + escaped(options.hold_down) +
           "' is no time; write 10s, or 0s for none";
  }
  if (!options.policy.empty() && options.policy_namespace.empty()) {
    return "--policy-namespace is missing: name the one namespace in which the policy may act";
  }
  if (!options.policy.empty() && !is_dns_label(options.policy_namespace)) {
    return "--policy-namespace: '" + escaped(options.policy_namespace) +
           "' is no namespace: name exactly one, in lower case letters, digits and '-'";
  }
  if (!options.engine_namespace.empty() && !is_dns_label(options.engine_namespace)) {
    return "--namespace: '" + escaped(options.engine_namespace) +
           "' is no namespace: name one, in lower case letters, digits and '-'";
  }
  return {};
}

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
