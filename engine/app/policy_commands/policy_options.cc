#include "app/policy_commands/policy_options.h"

#include <charconv>
#include <system_error>

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "base/time.h"
#include "policy/bundle/policy_set.h"

namespace moonfence::app {
namespace {

using Verb = PolicyOptions::Verb;

constexpr unsigned kNoPercentage = 101;

constexpr const char* kGroupFooter = R"(
All but capture runs without a cluster and without a network, with the code of the engine.

Examples:
  moonfence policy new my-db               a policy and its test, to begin with
  moonfence policy check my-db             what is wrong with it
  moonfence policy test my-db --coverage   its cases, and what they reach

Exit codes: 0 fine, 1 a case failed or a verdict changed, 2 a file does not load or a case is malformed,
3 nothing was run, 4 coverage below the minimum, 64 wrong command line.)";

constexpr const char* kCheckFooter = R"(
Examples:
  moonfence policy check my-db
      my-db/policy.lua: what is wrong, in which line, and what to do about it.
  moonfence policy check moonfence.yaml
      The bindings, and whether each policy takes its settings; NAME.lua is read beside it.
  moonfence policy check moonfence.yaml --least-after 6s
      The same for an engine whose configuration says leastAfter: 6s.
  moonfence policy check policies/noobaa other-db.lua --strict
      Several; also fails on warnings and missing tests.)";

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

constexpr const char* kReplayFooter = R"(
Example:
  moonfence policy capture node-7 --assume-down -o captures
  moonfence policy replay my-db.lua --records captures --set grace=60s

Decides every captured pod that the policy's binding covers. A pod that only the new policy selects
was not_selected. What a node function says (hold, taint_out_of_service) is not decided again.

Exit codes: 0 every verdict stays, 1 some change, 2 a file cannot be used, 3 nothing to decide again.)";

constexpr const char* kListFooter = R"(
Example:
  moonfence policy list
      Name, version and purpose of each.)";

constexpr const char* kDocFooter = R"(
Examples:
  moonfence policy doc noobaa
      When it acts, on which pods, what it reads, and its settings.
  moonfence policy doc my-db/policy.lua
      The same of a policy of your own.)";

constexpr const char* kMetaFooter = R"(
Examples:
  moonfence policy meta -o .
      Writes lib/fence.lua, .luarc.json and .luacheckrc: editors complete and check policies here.
  moonfence policy meta --markdown > policy-api.md
      All that policies can read and say.)";

constexpr const char* kNewFooter = R"(
Example:
  moonfence policy new my-db -o policies
  moonfence policy new my-db --from cloudnative-pg -o policies
  moonfence policy test policies/my-db)";

CLI::App* add_verb(CLI::App& group, PolicyOptions& options, Verb verb, const std::string& name,
                   const std::string& help, const char* footer) {
  CLI::App* app = group.add_subcommand(name, help);
  app->footer(footer);
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
                           "Load policies and say what is wrong with them", kCheckFooter);
  app->add_option("FILE", options.paths,
                  "my-db.lua, policy.lua in a folder of its name, or moonfence.yaml")
      ->required();
  app->add_flag("--strict", options.strict, "Warnings and missing tests are errors");
  app->add_option("--least-after", options.least_after,
                  "leastAfter of the engine's configuration, for bindings (default: 12s)")
      ->type_name("TIME");
}

void add_test(CLI::App& group, PolicyOptions& options) {
  CLI::App* app =
      add_verb(group, options, Verb::Test, "test", "Run test cases of policies", kTestFooter);
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

void add_responses(CLI::App& app, PolicyOptions& options) {
  app.add_option("--responses", options.responses,
                 "Answers to what a policy with `fetch` asks for, JSON by request")
      ->type_name("FILE");
}

void add_eval(CLI::App& group, PolicyOptions& options) {
  CLI::App* app =
      add_verb(group, options, Verb::Eval, "eval", "Decide on one real pod", kEvalFooter);
  app->add_option("FILE", options.paths, "The policy")->required()->expected(1);
  app->add_option("--pod", options.pod, "The pod, as kubectl get -o json prints it")
      ->required()
      ->type_name("FILE");
  app->add_option("--pod-name", options.pod_name, "Which pod, when there are several")
      ->type_name("[NS/]NAME");
  app->add_option("--with", options.with, "Folder of further objects, *.json")->type_name("DIR");
  add_responses(*app, options);
  app->add_option("--set", options.set, "Value of a setting; repeat for more")
      ->type_name("KEY=VALUE");
  app->add_option("--now", options.now, "The cluster's time (default: the clock's)")
      ->type_name("TIME");
  app->add_flag("--explain", options.explain, "Show what the policy read, logged and cost");
}

void add_replay(CLI::App& group, PolicyOptions& options) {
  CLI::App* app =
      add_verb(group, options, Verb::Replay, "replay",
               "Decide what was recorded again, and list the verdicts that change", kReplayFooter);
  app->add_option("FILE", options.paths, "The new policy")->required()->expected(1);
  app->add_option("--records", options.records, "Folder that `moonfence policy capture` wrote")
      ->required()
      ->type_name("DIR");
  app->add_option("--instead-of", options.instead_of,
                  "Compare with what this policy said (default: the one of the same name)")
      ->type_name("NAME");
  add_responses(*app, options);
  app->add_option("--set", options.set,
                  "Value of a setting (default: the captured binding's); repeat for more")
      ->type_name("KEY=VALUE");
}

void add_others(CLI::App& group, PolicyOptions& options) {
  add_verb(group, options, Verb::List, "list", "Built-in policies", kListFooter);
  CLI::App* doc = add_verb(group, options, Verb::Doc, "doc", "Describe a policy", kDocFooter);
  doc->add_option("NAME", options.paths, "A built-in policy, or a file")->required()->expected(1);
  CLI::App* meta = add_verb(group, options, Verb::Meta, "meta",
                            "Files for editors and linters, or the reference", kMetaFooter);
  meta->add_option("-o", options.out, "Folder to write to (default: print)")->type_name("DIR");
  meta->add_flag("--markdown", options.markdown, "The reference page instead");
  CLI::App* fresh = add_verb(group, options, Verb::New, "new",
                             "Begin a policy, with a test that passes", kNewFooter);
  fresh->add_option("NAME", options.paths, "Its name, and the folder's")->required()->expected(1);
  fresh->add_option("--from", options.from, "A shipped policy to begin with, and its tests")
      ->type_name("POLICY");
  fresh->add_option("-o", options.out, "Folder to put it in (default: .)")->type_name("DIR");
}

}  // namespace

CLI::App* add_policy(CLI::App& app, PolicyOptions& options) {
  CLI::App* group = app.add_subcommand("policy", "Write and test policies");
  group->footer(kGroupFooter);
  group->require_subcommand(1);
  add_check(*group, options);
  add_test(*group, options);
  add_eval(*group, options);
  add_replay(*group, options);
  add_others(*group, options);
  return group;
}

std::string problem_of(const PolicyOptions& options) {
  if (options.coverage_min > 100) {
    return "--coverage: the minimum is a percentage from 0 to 100";
  }
  if (const auto least = parse_duration(options.least_after);
      !options.least_after.empty() &&
      (!least || *least < policy::kLeastOffAfter || *least > policy::kLongestAfter)) {
    return "--least-after: '" + escaped(options.least_after, 64) +
           "' is no time from 6s to 1h, for example 12s";
  }
  for (const std::string& pair : options.set) {
    if (pair.find('=') == std::string::npos || pair.starts_with('=')) {
      return "--set: '" + escaped(pair, 128) + "' is no KEY=VALUE, for example --set db=pod";
    }
  }
  return {};
}

}  // namespace moonfence::app
