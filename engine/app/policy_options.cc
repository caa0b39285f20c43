#include "app/policy_options.h"

#include <charconv>
#include <system_error>

#include <CLI/CLI.hpp>

#include "base/text.h"

namespace moonfence::app {
namespace {

using Verb = PolicyOptions::Verb;

constexpr unsigned kNoPercentage = 101;

constexpr const char* kGroupFooter = R"(
Everything here runs without a cluster and without a network, with the code of the engine.

Exit codes: 0 fine, 1 a case failed, 2 a file does not load or a case is malformed,
3 nothing was run, 4 coverage below the minimum, 64 wrong command line.)";

constexpr const char* kTestFooter = R"(
Examples:
  moonfence policy test                              every *_test.lua below this folder
  moonfence policy test policies/noobaa --coverage   one policy, with what its cases reach
  moonfence policy test . --run '*deadline*' --json  some cases, for a program to read

The last line of the text is `N passed, N failed` alone.)";

constexpr const char* kEvalFooter = R"(
Example:
  kubectl get pod,pvc -n db -o json > db.json && kubectl get node,pv,volumeattachment -o json > rest.json
  moonfence policy eval my-db.lua --pod db.json --pod-name pg-0 --with . --explain)";

CLI::App* add_verb(CLI::App& group, PolicyOptions& options, Verb verb, const std::string& name,
                   const std::string& help) {
  CLI::App* app = group.add_subcommand(name, help);
  app->parse_complete_callback([&options, verb] { options.verb = verb; });
  return app;
}

// What stands behind "--coverage=". A bare flag arrives as "true"; what is no percentage is refused
// by problem_of().
unsigned minimum_of(const std::string& text) {
  unsigned percent = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), percent);
  const bool fits = fault == std::errc() && end == text.data() + text.size() && percent <= 100;
  return fits ? percent : text == "true" ? 0 : kNoPercentage;
}

void add_check(CLI::App& group, PolicyOptions& options) {
  CLI::App* app = add_verb(group, options, Verb::Check, "check",
                           "Load policies and say what is wrong with them");
  app->add_option("FILE", options.paths, "my-db.lua, or policy.lua in a folder of its name")
      ->required();
  app->add_flag("--strict", options.strict, "Warnings and missing tests are errors");
}

void add_test(CLI::App& group, PolicyOptions& options) {
  CLI::App* app = add_verb(group, options, Verb::Test, "test", "Run test cases of policies");
  app->footer(kTestFooter);
  app->add_option("PATH", options.paths,
                  "A test file, a policy, or a folder that is searched for *_test.lua (default: .)")
      ->expected(0, 1);
  app->add_option("--run", options.run, "Run the cases with such names only; * and ? match")
      ->type_name("GLOB");
  app->add_flag("--coverage", options.coverage_text,
                "Show lines and verdicts that cases reached; =MIN: fail below MIN percent")
      ->each([&options](const std::string& text) {
        options.coverage = true;
        options.coverage_min = minimum_of(text);
      })
      ->type_name("[=MIN]");
  app->add_option("--junit", options.junit, "Write JUnit XML to this file")->type_name("FILE");
  app->add_flag("--json", options.json, "Print JSON instead of text");
  app->add_flag("--auto", options.automatic,
                "Also run cases made from the written ones (always for policies/NAME/policy.lua)");
}

void add_eval(CLI::App& group, PolicyOptions& options) {
  CLI::App* app = add_verb(group, options, Verb::Eval, "eval", "Decide on one real pod");
  app->footer(kEvalFooter);
  app->add_option("FILE", options.paths, "The policy")->required()->expected(1);
  app->add_option("--pod", options.pod, "The pod, as kubectl get -o json prints it")
      ->required()
      ->type_name("FILE");
  app->add_option("--pod-name", options.pod_name, "Which pod, when there are several")
      ->type_name("[NS/]NAME");
  app->add_option("--with", options.with, "Folder of further objects, *.json")->type_name("DIR");
  app->add_option("--responses", options.responses,
                  "Answers to what a policy with `fetch` asks for, JSON by request")
      ->type_name("FILE");
  app->add_option("--set", options.set, "Value of a setting; repeat for more")
      ->type_name("KEY=VALUE");
  app->add_option("--now", options.now, "The cluster's time (default: the clock's)")
      ->type_name("TIME");
  app->add_flag("--explain", options.explain, "Show what the policy read, logged and cost");
}

void add_others(CLI::App& group, PolicyOptions& options) {
  add_verb(group, options, Verb::List, "list", "Built-in policies");
  CLI::App* doc = add_verb(group, options, Verb::Doc, "doc", "Describe a policy");
  doc->add_option("NAME", options.paths, "A built-in policy, or a file")->required()->expected(1);
  CLI::App* meta = add_verb(group, options, Verb::Meta, "meta",
                            "Files for editors and linters, or the reference");
  meta->add_option("-o", options.out, "Folder to write to (default: print)")->type_name("DIR");
  meta->add_flag("--markdown", options.markdown, "The reference page instead");
  CLI::App* fresh =
      add_verb(group, options, Verb::New, "new", "Begin a policy, with a test that passes");
  fresh->add_option("NAME", options.paths, "Its name, and the folder's")->required()->expected(1);
  fresh->add_option("-o", options.out, "Folder to put it in (default: .)")->type_name("DIR");
}

}  // namespace

CLI::App* add_policy(CLI::App& app, PolicyOptions& options) {
  CLI::App* group = app.add_subcommand("policy", "Write and test policies; needs no cluster");
  group->footer(kGroupFooter);
  group->require_subcommand(1);
  add_check(*group, options);
  add_test(*group, options);
  add_eval(*group, options);
  add_others(*group, options);
  return group;
}

std::string problem_of(const PolicyOptions& options) {
  if (options.coverage_min > 100) {
    return "--coverage: the minimum is a percentage from 0 to 100";
  }
  for (const std::string& pair : options.set) {
    if (pair.find('=') == std::string::npos || pair.starts_with('=')) {
      return "--set: '" + escaped(pair, 128) + "' is no KEY=VALUE, for example --set db=pod";
    }
  }
  return {};
}

}  // namespace moonfence::app
