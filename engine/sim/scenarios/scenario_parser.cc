#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "sim/scenarios/scenario.h"
#include "sim/scenarios/scenario_expect.h"
#include "sim/scenarios/scenario_knobs.h"
#include "sim/scenarios/scenario_line.h"
#include "sim/scenarios/scenario_node.h"
#include "sim/scenarios/scenario_steps.h"
#include "sim/scenarios/scenario_words.h"
#include "sim/scenarios/scenario_workload.h"

namespace moonfence::sim {
namespace {

constexpr std::size_t kLargest = 1U << 20U;
constexpr int kMostNodes = 5000;
constexpr const char* kBindingsKey = "moonfence.yaml";

class Parser {
 public:
  Parser(const std::string& file, const ScenarioGround& ground) : ground_(ground) {
    scenario_.file = file;
  }

  Result<Scenario> parse(std::string_view text);

 private:
  using Statement = Result<void> (Parser::*)(const ScenarioLine&);
  struct StatementWord {
    std::string_view name;
    Statement parse;
  };

  Result<void> statement(const ScenarioLine& line);
  Result<void> block_line(const ScenarioLine& line, std::string_view raw);
  Result<void> name(const ScenarioLine& line);
  Result<void> seed(const ScenarioLine& line);
  Result<void> knob(const ScenarioLine& line);
  Result<void> world(const ScenarioLine& line);
  Result<void> node(const ScenarioLine& line);
  Result<void> bmc(const ScenarioLine& line);
  Result<void> fence_class(const ScenarioLine& line);
  Result<void> workload(const ScenarioLine& line, WorkloadKind kind);
  Result<void> policies(const ScenarioLine& line);
  Result<void> policy_file(const ScenarioLine& line);
  Result<void> config(const ScenarioLine& line);
  Result<void> responses(const ScenarioLine& line);
  Result<void> text_block(const ScenarioLine& line, std::string& text, std::size_t first);
  Result<void> answer(const ScenarioLine& line);
  Result<void> at(const ScenarioLine& line);
  Result<void> expect(const ScenarioLine& line);

  Result<Step> step(const ScenarioLine& line, std::size_t first);
  Result<void> check_references();
  Result<void> check_node(const ScenarioLine& line, std::string_view name) const;
  NodePlan& node_of(std::string_view name);

  const ScenarioGround& ground_;
  Scenario scenario_;
  // Nodes that statements name: all are known only at the end of the text.
  std::vector<std::pair<ScenarioLine, std::string>> named_nodes_;
  std::map<std::string, std::string>* files_ = nullptr;  // where `file` puts texts
  std::string* block_ = nullptr;                         // where `|` lines go
  bool bindings_made_ = false;                           // by `policies`
};

Result<Scenario> Parser::parse(std::string_view text) {
  if (text.size() > kLargest || !is_utf8(text)) {
    return failure(Error::Kind::Invalid,
                   scenario_.file + ": no scenario: it has more than 1 MiB or is no UTF-8",
                   "docs/simulation.md shows how one looks");
  }
  files_ = &scenario_.plan.policies;
  std::size_t number = 0;
  for (const std::string_view raw : split(text, '\n')) {
    ++number;
    const std::string_view bare = raw.substr(std::min(raw.find_first_not_of(" \t"), raw.size()));
    ScenarioLine line{.file = scenario_.file, .number = number};
    if (bare.starts_with('|')) {
      if (auto done = block_line(line, bare); !done) {
        return failure(done.error());
      }
      continue;
    }
    line.text = trimmed(without_comment(raw));
    line.words = words_of(line.text);
    if (line.words.empty()) {
      continue;
    }
    if (auto done = statement(line); !done) {
      return failure(done.error());
    }
  }
  if (auto done = check_references(); !done) {
    return failure(done.error());
  }
  std::stable_sort(scenario_.plan.steps.begin(), scenario_.plan.steps.end(),
                   [](const Step& a, const Step& b) { return a.at < b.at; });
  return std::move(scenario_);
}

Result<void> Parser::statement(const ScenarioLine& line) {
  static constexpr std::array<StatementWord, 17> kStatements = {{
      {"name", &Parser::name},
      {"seed", &Parser::seed},
      {"length", &Parser::knob},
      {"world", &Parser::world},
      {"node", &Parser::node},
      {"bmc", &Parser::bmc},
      {"fence-class", &Parser::fence_class},
      {"policies", &Parser::policies},
      {"file", &Parser::policy_file},
      {"config", &Parser::config},
      {"responses", &Parser::responses},
      {"set", &Parser::knob},
      {"timing", &Parser::knob},
      {"fault", &Parser::knob},
      {"answer", &Parser::answer},
      {"at", &Parser::at},
      {"expect", &Parser::expect},
  }};
  const std::string_view word = line.word(0);
  block_ = nullptr;
  if (word != "file") {
    files_ = &scenario_.plan.policies;
  }
  if (const auto* known = find_word(std::span<const StatementWord>(kStatements), word)) {
    return (this->*(known->parse))(line);
  }
  if (const WorkloadWord* known = find_word(workload_words(), word)) {
    return workload(line, known->kind);
  }
  std::vector<std::string_view> names;
  add_names(std::span<const StatementWord>(kStatements), names);
  add_names(workload_words(), names);
  return line.unknown("statement", word, names);
}

// "| text" is a line of the file that was named before.
Result<void> Parser::block_line(const ScenarioLine& line, std::string_view raw) {
  if (block_ == nullptr) {
    return line.wrong("a line with '|' belongs to no file", "put `file NAME` before it");
  }
  raw.remove_prefix(raw.starts_with("| ") ? 2 : 1);
  *block_ += raw;
  *block_ += '\n';
  return {};
}

Result<void> Parser::name(const ScenarioLine& line) {
  if (line.size() < 2) {
    return line.wrong("the name is missing", "write `name` and what the scenario shows");
  }
  scenario_.plan.name = trimmed(std::string_view(line.text).substr(4));
  return {};
}

Result<void> Parser::seed(const ScenarioLine& line) {
  const auto number = line.number_of("seed", line.word(1), 0, 1'000'000'000);
  if (!number) {
    return failure(number.error());
  }
  scenario_.seed = static_cast<std::uint64_t>(*number);
  return line.ends_after(2);
}

// length D, set NAME V, timing NAME V, fault NAME V.
Result<void> Parser::knob(const ScenarioLine& line) {
  const std::string_view statement = line.word(0);
  const bool own = statement == "length";
  const std::string_view name = own ? statement : line.word(1);
  const std::vector<std::string_view> known = knob_names(statement);
  if (!own && std::find(known.begin(), known.end(), name) == known.end()) {
    return line.unknown("word for '" + std::string(statement) + "'", name, known);
  }
  const auto done = apply_knob(scenario_.plan, line, name, line.word(own ? 1 : 2));
  return done ? line.ends_after(own ? 2 : 3) : Result<void>(failure(done.error()));
}

// world nodes n1 n2…, world seats n1 n2…, world engines N, world servers N, world kubernetes 1.N,
// world lifting WHO
Result<void> Parser::world(const ScenarioLine& line) {
  static constexpr std::array<std::string_view, 6> kWords = {"nodes",   "engines",    "seats",
                                                             "servers", "kubernetes", "lifting"};
  const std::string_view what = line.word(1);
  if (std::find(kWords.begin(), kWords.end(), what) == kWords.end()) {
    return line.unknown("word for 'world'", what, kWords);
  }
  if (what == "lifting") {
    const auto lifting = parse_lifting(line);
    scenario_.plan.lifting = lifting ? *lifting : Lifting::Nobody;
    return lifting ? line.ends_after(3) : Result<void>(failure(lifting.error()));
  }
  if (what == "seats") {
    for (std::size_t i = 2; i < line.size(); ++i) {
      scenario_.plan.seats.emplace_back(line.word(i));
    }
    return {};
  }
  if (what != "nodes") {
    const auto done = apply_knob(scenario_.plan, line, what, line.word(2));
    return done ? line.ends_after(3) : Result<void>(failure(done.error()));
  }
  if (line.size() < 3 || line.size() > kMostNodes) {
    return line.wrong("a world has 1 to 5000 nodes", "write world nodes n1 n2 n3");
  }
  for (std::size_t i = 2; i < line.size(); ++i) {
    node_of(line.word(i));
  }
  return {};
}

Result<void> Parser::node(const ScenarioLine& line) {
  if (line.size() < 2) {
    return line.wrong("the node's name is missing", "write node n1 zone=a");
  }
  return parse_node(line, node_of(line.word(1)));
}

Result<void> Parser::bmc(const ScenarioLine& line) {
  auto bmc = parse_bmc(line);
  if (!bmc) {
    return failure(bmc.error());
  }
  named_nodes_.emplace_back(line, bmc->node);
  named_nodes_.emplace_back(line, bmc->machine());
  if (bmc_of(scenario_.plan, bmc->node) != nullptr) {
    return line.wrong("node '" + escaped(bmc->node, 64) + "' has one already", "leave one of them");
  }
  scenario_.plan.bmcs.push_back(std::move(*bmc));
  return {};
}

Result<void> Parser::fence_class(const ScenarioLine& line) {
  auto made = parse_fence_class(line);
  if (made) {
    scenario_.plan.fence_classes.push_back(std::move(*made));
  }
  return made ? Result<void>() : Result<void>(failure(made.error()));
}

NodePlan& Parser::node_of(std::string_view name) {
  for (NodePlan& node : scenario_.plan.nodes) {
    if (node.name == name) {
      return node;
    }
  }
  return scenario_.plan.nodes.emplace_back(NodePlan{.name = std::string(name)});
}

Result<void> Parser::workload(const ScenarioLine& line, WorkloadKind kind) {
  auto workload = parse_workload(line, kind);
  if (!workload) {
    return failure(workload.error());
  }
  for (const std::string& node : {workload->node, workload->start}) {
    if (!node.empty()) {
      named_nodes_.emplace_back(line, node);
    }
  }
  for (const WorkloadPlan& other : scenario_.plan.workloads) {
    if (other.space == workload->space && other.name == workload->name) {
      return line.wrong("'" + escaped(line.word(1), 64) + "' is there already",
                        "give it another name");
    }
  }
  scenario_.plan.workloads.push_back(std::move(*workload));
  return {};
}

// policies builtin NAME [namespaces=a,b] [mode=M] [holdDown=T] [SETTING=VALUE…] and policies
// NAME.lua …: a binding, without writing moonfence.yaml.
Result<void> Parser::policies(const ScenarioLine& line) {
  const bool builtin = line.word(1) == "builtin";
  const std::string_view given = line.word(builtin ? 2 : 1);
  if (given.empty() || (!builtin && !given.ends_with(".lua"))) {
    return line.wrong("'" + escaped(given, 64) + "' is no policy",
                      "write `policies builtin noobaa` or, for a `file my-db.lua` of this "
                      "scenario, `policies my-db.lua`");
  }
  std::string& yaml = scenario_.plan.policies[kBindingsKey];
  if (!yaml.empty() && !bindings_made_) {
    return line.wrong("moonfence.yaml is written out already", "add the binding there");
  }
  bindings_made_ = true;
  const std::string policy(builtin ? given : given.substr(0, given.size() - 4));
  std::string spaces = policy;
  std::string mode = "enforce";
  std::string hold_down;
  std::string settings;
  for (std::size_t i = builtin ? 3 : 2; i < line.size(); ++i) {
    const std::string_view word = line.word(i);
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == word.size()) {
      return line.wrong("'" + escaped(word, 64) + "' is no KEY=VALUE",
                        "write namespaces=a,b mode=observe or a setting of the policy, db=pod");
    }
    const std::string_view key = word.substr(0, equals);
    const std::string_view value = word.substr(equals + 1);
    if (key == "namespaces") {
      spaces = value;
    } else if (key == "mode") {
      mode = value;
    } else if (key == "holdDown") {
      hold_down = value;
    } else {
      settings.append(settings.empty() ? "" : ", ").append(key).append(": ").append(value);
    }
  }
  yaml += yaml.empty() ? "api: 1\nbindings:\n" : "";
  yaml += "- policy: " + policy + "\n";
  yaml += "  source: " + (builtin ? std::string("builtin") : std::string(given)) + "\n";
  yaml += "  namespaces: [" + (spaces == "*" ? std::string("\"*\"") : spaces) + "]\n";
  yaml += "  mode: " + mode + "\n";
  yaml += hold_down.empty() ? "" : "  holdDown: " + hold_down + "\n";
  yaml += settings.empty() ? "" : "  settings: {" + settings + "}\n";
  return {};
}

// file NAME, with "|" lines; file NAME = VALUE; file NAME from PATH; file NAME deleted. After
// `at T edit-policies` it belongs to that edit.
Result<void> Parser::policy_file(const ScenarioLine& line) {
  const std::string key(line.word(1));
  if (key.empty()) {
    return line.wrong("the file's name is missing", "write file my-db.lua, then lines with '|'");
  }
  if (files_->contains(key)) {
    return line.wrong("'" + escaped(key, 64) + "' is there already", "leave one of them");
  }
  if (line.word(2) == "deleted" && files_ != &scenario_.plan.policies) {
    (*files_)[key] = "";
    return line.ends_after(3);
  }
  if (line.word(2) == "=") {
    const std::string_view value = std::string_view(line.text).substr(line.text.find('=') + 1);
    (*files_)[key] = trimmed(value);
    return {};
  }
  return text_block(line, (*files_)[key], 2);
}

// config, with "|" lines; config from PATH: the engine's configuration, as for --config.
Result<void> Parser::config(const ScenarioLine& line) {
  return text_block(line, scenario_.plan.config, 1);
}

// responses, with "|" lines; responses from PATH: what endpoints of the configuration answer.
Result<void> Parser::responses(const ScenarioLine& line) {
  return text_block(line, scenario_.plan.responses, 1);
}

// "|" lines, or what `from PATH` at word `first` names.
Result<void> Parser::text_block(const ScenarioLine& line, std::string& text, std::size_t first) {
  if (line.word(first) == "from") {
    if (ground_.files == nullptr) {
      return line.wrong("a file cannot be read here", "write its lines with '|'");
    }
    std::string path(line.word(first + 1));
    if (!path.starts_with('/') && scenario_.file.find('/') != std::string::npos) {
      path = scenario_.file.substr(0, scenario_.file.rfind('/') + 1) + path;
    }
    auto read = ground_.files->read(path);
    if (!read) {
      return line.wrong(read.error().text, "the path counts from the scenario's folder");
    }
    text = std::move(*read);
    return line.ends_after(first + 2);
  }
  block_ = &text;
  return line.ends_after(first);
}

// answer delete SPACE/POD 500 [times=N] [from=T] [until=T]
Result<void> Parser::answer(const ScenarioLine& line) {
  static constexpr std::array<std::string_view, 3> kKnown = {"times", "from", "until"};
  auto pattern = parse_pattern(line, 1);
  if (!pattern) {
    return failure(pattern.error());
  }
  AnswerRule rule{.pattern = std::move(*pattern)};
  if (line.word(3) == "lost") {
    rule.status = 0;
  } else {
    const auto status = line.number_of("answer", line.word(3), 400, 599);
    if (!status) {
      return line.wrong("'" + escaped(line.word(3), 64) + "' is no answer",
                        "write a status from 400 to 599, or lost");
    }
    rule.status = *status;
  }
  const auto options = line.options(4, kKnown);
  if (!options) {
    return failure(options.error());
  }
  for (const auto& [key, value] : *options) {
    if (key == "times") {
      const auto times = line.number_of(key, value, 1, 1'000'000);
      if (!times) {
        return failure(times.error());
      }
      rule.times = *times;
      continue;
    }
    const auto time = line.duration(key, value);
    if (!time) {
      return failure(time.error());
    }
    (key == "from" ? rule.from : rule.until) = *time;
  }
  scenario_.answers.push_back(std::move(rule));
  return {};
}

// at TIME STEP, at list NODE STEP, at delete SPACE/POD STEP
Result<void> Parser::at(const ScenarioLine& line) {
  const std::string_view when = line.word(1);
  if (when == "list" || when == "delete" || when == "get" || when == "lease") {
    auto pattern = parse_pattern(line, 1);
    if (!pattern) {
      return failure(pattern.error());
    }
    auto step = this->step(line, 3);
    if (!step) {
      return failure(step.error());
    }
    if (step->verb == Verb::EditPolicies) {
      return line.wrong("'edit-policies' cannot wait for a request",
                        "give it a time: at 5s edit-policies");
    }
    scenario_.triggers.push_back({.pattern = std::move(*pattern), .step = std::move(*step)});
    return {};
  }
  const auto time = parse_duration(when);
  if (!time) {
    return line.wrong("'" + escaped(when, 64) + "' is no time",
                      "write at 5s power-off n1, at list n1 …, or at delete noobaa/core-0 …");
  }
  auto step = this->step(line, 2);
  if (!step) {
    return failure(step.error());
  }
  step->at = *time;
  scenario_.plan.steps.push_back(std::move(*step));
  files_ = &scenario_.plan.steps.back().arguments;
  return {};
}

Result<Step> Parser::step(const ScenarioLine& line, std::size_t first) {
  auto step = parse_step(line, first);
  if (step && find_word(verb_words(), line.word(first))->target == Target::Node) {
    named_nodes_.emplace_back(line, step->target);
  }
  return step;
}

Result<void> Parser::expect(const ScenarioLine& line) {
  auto expectation = parse_expectation(line, ground_.reasons);
  if (!expectation) {
    return failure(expectation.error());
  }
  if (const auto* state = std::get_if<StateCheck>(&expectation->check)) {
    if (state->subject == StateCheck::Subject::Node) {
      named_nodes_.emplace_back(line, state->name);
    }
    if (!state->node.empty()) {
      named_nodes_.emplace_back(line, state->node);
    }
  }
  scenario_.expectations.push_back(std::move(*expectation));
  return {};
}

Result<void> Parser::check_node(const ScenarioLine& line, std::string_view name) const {
  std::vector<std::string_view> known;
  known.reserve(scenario_.plan.nodes.size());
  for (const NodePlan& node : scenario_.plan.nodes) {
    known.push_back(node.name);
  }
  return std::find(known.begin(), known.end(), name) != known.end()
             ? Result<void>()
             : line.unknown("node of this world", name, known);
}

Result<void> Parser::check_references() {
  const ScenarioLine end{.file = scenario_.file, .number = 1};
  if (scenario_.plan.nodes.empty()) {
    return end.wrong("the world has no nodes", "write world nodes n1 n2 n3");
  }
  for (const auto& [line, name] : named_nodes_) {
    if (auto done = check_node(line, name); !done) {
      return done;
    }
  }
  return {};
}

}  // namespace

Result<Scenario> parse_scenario(std::string_view text, const std::string& file,
                                const ScenarioGround& ground) {
  return Parser(file, ground).parse(text);
}

}  // namespace moonfence::sim
