#include "app/engine/run_options.h"

#include <map>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "base/time.h"

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

}  // namespace

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
  add_choice(
      *run, "--mode", options.mode, modes(),
      "observe: decide and record, delete nothing; enforce: act; off: nothing. With --policy its "
      "mode (default: observe), else the most that any binding may do",
      "observe|enforce|off");
  run->add_option("--policy", options.policy,
                  "Run this one policy, a Lua file (default: those that ConfigMap "
                  "moonfence-policies binds)")
      ->type_name("FILE");
  run->add_option("--policy-namespace", options.policy_namespace,
                  "The only namespace in which --policy may act")
      ->type_name("NS");
  run->add_option("--hold-down", options.hold_down,
                  "How long a node must be down before --policy acts, while its kubelet still "
                  "renews its Lease (default: 10s)")
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
  run->add_flag("--secure-serving", options.secure_serving,
                "Serve metrics and status page by HTTPS, to those alone whose token the API server "
                "knows, and who may get the path /metrics or /status");
  run->add_option("--serving-certificate", options.serving_certificate,
                  "Folder with tls.crt and tls.key for --secure-serving, read again when they "
                  "change (default: a certificate that moonfence signs itself)")
      ->type_name("FOLDER");
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
  if (!options.serving_certificate.empty() && !options.secure_serving) {
    return "--secure-serving is missing: --serving-certificate is for HTTPS";
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

}  // namespace moonfence::app
