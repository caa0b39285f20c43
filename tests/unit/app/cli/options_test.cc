#include "app/cli/options.h"

#include <vector>

#include <gtest/gtest.h>

namespace moonfence::app {
namespace {

Command parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "moonfence");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

// `run` with what it cannot do without, and more.
Command run_with(const std::vector<const char*>& more) {
  std::vector<const char*> arguments = {"run", "--policy", "p.lua", "--policy-namespace", "db"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return parse(arguments);
}

// -1: it runs.
int code_of(const Command& command) {
  const auto* leave = std::get_if<Leave>(&command);
  return leave == nullptr ? -1 : static_cast<int>(leave->code);
}

TEST(Options, run_with_little_observes) {
  const Command command = run_with({});
  const auto& options = std::get<RunOptions>(command);
  EXPECT_EQ(options.mode, std::nullopt);
  EXPECT_EQ(options.policy, "p.lua");
  EXPECT_EQ(options.policy_namespace, "db");
  EXPECT_EQ(options.metrics_bind_address, ":8080");
  EXPECT_EQ(options.health_probe_bind_address, ":8081");
  EXPECT_EQ(options.status_bind_address, "127.0.0.1:8082");
  EXPECT_EQ(options.log_level, port::Log::Level::Info);
  EXPECT_EQ(options.log_format, LogFormat::Text);
  EXPECT_EQ(options.kubeconfig + options.context + options.engine_namespace + options.config +
                options.audit_log,
            "");
}

TEST(Options, every_flag_arrives) {
  const Command command = run_with({"--kubeconfig",
                                    "k",
                                    "--context",
                                    "c",
                                    "--namespace",
                                    "ns",
                                    "--config",
                                    "e.yaml",
                                    "--mode",
                                    "enforce",
                                    "--metrics-bind-address",
                                    "0",
                                    "--health-probe-bind-address",
                                    "[::1]:9",
                                    "--status-bind-address",
                                    "[::1]:10",
                                    "--audit-log",
                                    "-",
                                    "--log-level",
                                    "debug",
                                    "--node-name",
                                    "n1"});
  const auto& options = std::get<RunOptions>(command);
  EXPECT_EQ(options.kubeconfig, "k");
  EXPECT_EQ(options.context, "c");
  EXPECT_EQ(options.engine_namespace, "ns");
  EXPECT_EQ(options.config, "e.yaml");
  EXPECT_EQ(options.mode, policy::Mode::Enforce);
  EXPECT_EQ(options.metrics_bind_address, "0");
  EXPECT_EQ(options.health_probe_bind_address, "[::1]:9");
  EXPECT_EQ(options.status_bind_address, "[::1]:10");
  EXPECT_EQ(options.audit_log, "-");
  EXPECT_EQ(options.node_name, "n1");
  EXPECT_EQ(options.log_level, port::Log::Level::Debug);
}

TEST(Options, every_word_of_a_choice_is_known_and_no_other) {
  const auto mode = [](const char* word) {
    const Command command = run_with({"--mode", word});
    return std::get<RunOptions>(command).mode;
  };
  EXPECT_EQ(mode("off"), policy::Mode::Off);
  EXPECT_EQ(mode("observe"), policy::Mode::Observe);
  EXPECT_EQ(mode("enforce"), policy::Mode::Enforce);
  for (const char* level : {"debug", "info", "warning", "error"}) {
    EXPECT_EQ(code_of(run_with({"--log-level", level})), -1) << level;
  }
  for (const char* word : {"Enforce", "enforced", "2", ""}) {
    EXPECT_EQ(code_of(run_with({"--mode", word})), 2) << word;
  }
  EXPECT_EQ(code_of(run_with({"--log-level", "trace"})), 2);
  EXPECT_EQ(std::get<RunOptions>(run_with({"--log-format", "json"})).log_format, LogFormat::Json);
  EXPECT_EQ(code_of(run_with({"--log-format", "xml"})), 2);
}

TEST(Options, a_policy_and_exactly_one_namespace_are_needed) {
  EXPECT_EQ(code_of(parse({"run", "--policy", "p.lua"})), 2);
  EXPECT_EQ(code_of(parse({"run", "--policy-namespace", "db"})), 2);
  EXPECT_EQ(code_of(parse({"run", "--policy", "", "--policy-namespace", "db"})), 2);
  const std::string longest(63, 'a');
  for (const std::string& name : {std::string("db"), std::string("a-1"), longest}) {
    EXPECT_EQ(code_of(parse({"run", "--policy", "p", "--policy-namespace", name.c_str()})), -1);
  }
  for (const std::string& name : {std::string(""), std::string("*"), std::string("a,b"),
                                  std::string("DB"), std::string("db "), std::string("-db"),
                                  std::string("db-"), std::string("a/b"), longest + "a"}) {
    EXPECT_EQ(code_of(parse({"run", "--policy", "p", "--policy-namespace", name.c_str()})), 2)
        << name;
  }
}

TEST(Options, what_is_not_understood_is_a_wrong_command_line) {
  EXPECT_EQ(code_of(parse({})), 2);
  EXPECT_EQ(code_of(parse({"walk"})), 2);
  EXPECT_EQ(code_of(run_with({"--enforce"})), 2);
  EXPECT_EQ(code_of(run_with({"stray"})), 2);
  EXPECT_EQ(code_of(run_with({"--mode"})), 2);
}

TEST(Options, help_and_version_leave_well) {
  EXPECT_EQ(code_of(parse({"--help"})), 0);
  EXPECT_EQ(code_of(parse({"--help-all"})), 0);
  EXPECT_EQ(code_of(parse({"run", "--help"})), 0);
  EXPECT_TRUE(std::holds_alternative<VersionOptions>(parse({"--version"})));
  EXPECT_TRUE(std::holds_alternative<VersionOptions>(parse({"version"})));
}

TEST(Options, a_certificate_is_for_secure_serving_alone) {
  EXPECT_EQ(code_of(parse({"run", "--serving-certificate", "/tls"})), 2);
  const Command command = run_with({"--secure-serving", "--serving-certificate", "/tls"});
  EXPECT_TRUE(std::get<RunOptions>(command).secure_serving);
  EXPECT_EQ(std::get<RunOptions>(command).serving_certificate, "/tls");
  EXPECT_FALSE(RunOptions{}.secure_serving);
}

TEST(Options, the_help_names_every_flag) {
  const Command command = parse({"run", "--help"});
  const std::string& text = std::get<Leave>(command).text;
  for (const char* flag :
       {"--kubeconfig", "--context", "--namespace", "--config", "--mode", "--policy",
        "--policy-namespace", "--hold-down", "--metrics-bind-address",
        "--health-probe-bind-address", "--status-bind-address", "--secure-serving",
        "--serving-certificate", "--audit-log", "--log-level", "--log-format"}) {
    EXPECT_NE(text.find(flag), std::string::npos) << flag;
  }
}

TEST(Options, a_reason_is_explained_and_one_that_is_none_is_a_wrong_command_line) {
  const Command known = parse({"reason", "awaiting_taint"});
  EXPECT_EQ(code_of(known), 0);
  EXPECT_TRUE(std::get<Leave>(known).text.starts_with("awaiting_taint\n"));
  EXPECT_EQ(code_of(parse({"reason"})), 0);
  EXPECT_EQ(code_of(parse({"reason", "bad_luck"})), 2);
}

}  // namespace
}  // namespace moonfence::app
