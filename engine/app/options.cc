#include "app/options.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <CLI/CLI.hpp>

#include "base/text.h"

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
  run->add_option("--audit-log", options.audit_log,
                  "Append audit records as JSON lines to this file, - for standard output")
      ->type_name("FILE");
  add_choice(*run, "--log-level", options.log_level, levels(),
             "Least level that is logged (default: info)", "debug|info|warning|error");
}

// A namespace that cannot exist would leave a daemon that runs, is ready and can never read a pod.
std::string problem_of(const RunOptions& options) {
  if (options.policy.empty() && !options.policy_namespace.empty()) {
    return "--policy is missing: --policy-namespace says where it may act; without both, the "
           "bindings of ConfigMap moonfence-policies do";
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

// `moonfence policy` has exit codes of its own, in which 2 means something else.
ExitCode usage_code(const CLI::App& app) {
  return app.got_subcommand("policy") ? ExitCode::PolicyUsage : ExitCode::Usage;
}

}  // namespace

Command parse_command_line(int argc, const char* const* argv) {
  CLI::App app{"moonfence: fences the pods of failed Kubernetes nodes by policies written in Lua",
               "moonfence"};
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every subcommand");
  app.add_flag_callback(
      "--version", [] { throw CLI::CallForVersion("", 0); }, "Print version and leave");
  RunOptions run;
  add_run(app, run);
  PolicyOptions policy;
  add_policy(app, policy);
  SimulateOptions simulate;
  add_simulate(app, simulate);
  app.add_subcommand("version", "Print version and commit");
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
  if (app.got_subcommand("policy")) {
    const std::string problem = problem_of(policy);
    return problem.empty() ? Command(policy)
                           : Leave{.code = ExitCode::PolicyUsage,
                                   .text = "moonfence policy: " + problem +
                                           "\nRun with --help for more information.\n"};
  }
  if (app.got_subcommand("simulate")) {
    const std::string problem = problem_of(simulate);
    return problem.empty() ? Command(simulate)
                           : Leave{.code = ExitCode::Usage,
                                   .text = "moonfence simulate: " + problem +
                                           "\nRun with --help for more information.\n"};
  }
  if (const std::string problem = problem_of(run); !problem.empty()) {
    return Leave{.code = ExitCode::Usage,
                 .text = "moonfence run: " + problem + "\nRun with --help for more information.\n"};
  }
  return run;
}

}  // namespace moonfence::app
