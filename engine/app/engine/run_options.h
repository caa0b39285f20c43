#pragma once

// What `moonfence run` is told on its command line, and how a program of ours ends.

#include <optional>
#include <string>

#include "app/telling/logging.h"
#include "policy/values/mode.h"
#include "port/log.h"

namespace CLI {
class App;
}

namespace moonfence::app {

// Exit codes, part of the documentation (docs/reference.md). A script can rely on them.
enum class ExitCode : int {
  Ok = 0,
  Failed = 1,        // it ran and ended badly
  Usage = 2,         // the command line is wrong
  Config = 3,        // kubeconfig, service account or --config cannot be used
  Policy = 4,        // the policy cannot be loaded
  PolicyUsage = 64,  // the command line of `moonfence policy` is wrong
};

struct RunOptions {
  std::string kubeconfig;
  std::string context;
  std::string engine_namespace;  // empty: POD_NAMESPACE, the service account's, else "moonfence"
  std::string config;
  // With `policy` its mode (default observe), else the ceiling of what the ConfigMap says.
  std::optional<policy::Mode> mode;
  std::string policy;  // empty: the policies of ConfigMap moonfence-policies
  std::string policy_namespace;
  std::string hold_down = "10s";  // of --policy, as a binding's holdDown
  std::string metrics_bind_address = ":8080";
  std::string health_probe_bind_address = ":8081";
  std::string status_bind_address = "127.0.0.1:8082";  // what it shows is for operators alone
  // Metrics and status page by HTTPS, for those alone whom the API server lets read them.
  bool secure_serving = false;
  std::string serving_certificate;  // a folder with tls.crt and tls.key; empty: signed by ourselves
  // Absent: with the ConfigMap's policies yes, with --policy no.
  std::optional<bool> leader_elect;
  std::string node_name;  // on which we run; empty: NODE_NAME, else not known
  std::string audit_log;  // path, "-" for standard output, empty: the log alone
  port::Log::Level log_level = port::Log::Level::Info;
  LogFormat log_format = LogFormat::Text;
};

// The subcommand `run`, whose values go to `options`, which outlives the parser.
void add_run(CLI::App& app, RunOptions& options);

// Which rule they break, in one line for people; "" none.
[[nodiscard]] std::string problem_of(const RunOptions& options);

}  // namespace moonfence::app
