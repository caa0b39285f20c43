#pragma once

// A scenario is a run that people wrote down: a Plan, what the wire does to single requests, and
// what is expected of it. Its text is one statement a line; docs/simulation.md has the grammar.
// Errors name file, line, value, rule and next step, with the nearest known word.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "port/files.h"
#include "sim/ground/plan.h"

namespace moonfence::sim {

// Requests of the engine, by what they do. `subject` is a node of list and get, "space/name" of
// delete and of the pods' get; "*" at its end stands for anything.
struct RequestPattern {
  enum class Verb { List, Get, Lease, Delete };  // Get: of the node; Lease: of its kubelet
  Verb verb = Verb::Delete;
  std::string subject;
};

// What the engine is answered instead of what the API server would say.
struct AnswerRule {
  RequestPattern pattern;
  int status = 500;  // 0: the server does it, and the reply is lost
  int times = -1;    // how often; -1: always
  Duration from{};   // since the start of the run
  Duration until = Duration::max();
};

// A step that happens with a request, not at a time: once, the first time it is seen.
struct Trigger {
  RequestPattern pattern;  // List: when its answer is complete; else before it is sent
  Step step;
};

// The time that an expectation is about.
struct Window {
  enum class Kind { Whole, At, Within, After, Between };
  Kind kind = Kind::Whole;  // of a state: at the end
  Duration from{};          // of After and Between
  Duration to{};            // of At, Within and Between
};

// A state of the cluster, as the API server has it.
struct StateCheck {
  enum class Subject { Pod, Workload, Node, Policy };
  enum class State {
    Survives,     // the object of the start (its UID) is there
    Deleted,      // it is not
    Replaced,     // it is not, and another has its name
    Terminating,  // it is there and marked for deletion
    Running,
    Ready,
    NotReady,
    Unknown,
    Tainted,
    Fenced,  // by the taint moonfence.io/fenced
    Unfenced,
    Proven,  // by the condition FencingEvidence
    Unproven,
    Gone,
    Reported,  // of a policy: `word` in ConfigMap moonfence-status
  };
  Subject subject = Subject::Pod;
  State state = State::Survives;
  std::string name;
  std::string node;          // of Running: "" anywhere
  std::string word;          // of Reported
  std::optional<int> count;  // of a workload Running; else all that it had
  bool elsewhere = false;    // of Running: not where it ran at the start
};

// Something that happens, counted.
struct EventCheck {
  enum class What {
    Record,     // of the audit; `word` is its kind
    Delete,     // a DELETE of a pod that the engine sent
    Request,    // any request; `word` is its method, `subject` a part of its path
    ApiEvent,   // an Event object; `word` is its reason
    Violation,  // of a rule of the checkers
    Writers,    // two writers that the policy accepts
  };
  What what = What::Record;
  std::string word;
  std::string subject;       // node of an incident's record, else "space/name"; "any", "core-*"
  std::string reason;        // of a Record; "" any
  std::string policy;        // of a Record; "" any
  std::optional<int> count;  // exactly; else at least one
};

// When the engine tried to delete a pod, counted from the first time.
struct AttemptsCheck {
  std::string pod;
  std::vector<Duration> at;
  Duration tolerance = std::chrono::seconds(1);
};

struct Expectation {
  Window window;
  std::variant<StateCheck, EventCheck, AttemptsCheck> check;
  std::string text;  // as written
  std::size_t line = 0;
};

struct Scenario {
  Plan plan;
  std::string file;
  std::uint64_t seed = 1;
  std::vector<AnswerRule> answers;
  std::vector<Trigger> triggers;
  std::vector<Expectation> expectations;
};

// What a text may refer to.
struct ScenarioGround {
  port::Files* files = nullptr;               // for `file NAME from PATH`; null: refused
  std::span<const std::string_view> reasons;  // the audit's words; empty: any
};

[[nodiscard]] Result<Scenario> parse_scenario(std::string_view text, const std::string& file,
                                              const ScenarioGround& ground);

// One `NAME VALUE` that changes a scenario from outside: a setting of the engine, a timing, a
// fault, `length`, `engines`, `servers`, or `mode`, the key of the policies' ConfigMap.
[[nodiscard]] Result<void> set_knob(Scenario& scenario, std::string_view name,
                                    std::string_view value);

// "power-off"
[[nodiscard]] std::string_view to_string(Verb verb);

// Whether `text` is `pattern`, which may end in "*"; "any" is anything.
[[nodiscard]] bool matches_subject(std::string_view pattern, std::string_view text);

}  // namespace moonfence::sim
