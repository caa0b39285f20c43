#include "sim/scenarios/scenario_expect.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "sim/scenarios/scenario_words.h"

namespace moonfence::sim {
namespace {

using State = StateCheck::State;
using Subject = StateCheck::Subject;
using What = EventCheck::What;

struct StateWord {
  std::string_view name;
  State state;
};

constexpr std::array<StateWord, 5> kPodStates = {{{"survives", State::Survives},
                                                  {"deleted", State::Deleted},
                                                  {"replaced", State::Replaced},
                                                  {"terminating", State::Terminating},
                                                  {"running", State::Running}}};
constexpr std::array<StateWord, 9> kNodeStates = {{{"ready", State::Ready},
                                                   {"not-ready", State::NotReady},
                                                   {"unknown", State::Unknown},
                                                   {"tainted", State::Tainted},
                                                   {"fenced", State::Fenced},
                                                   {"unfenced", State::Unfenced},
                                                   {"proven", State::Proven},
                                                   {"unproven", State::Unproven},
                                                   {"gone", State::Gone}}};
constexpr std::array<std::string_view, 5> kReports = {"Active", "Observe", "Stale", "Rejected",
                                                      "Off"};
constexpr std::array<std::string_view, 4> kStates = {"pod", "workload", "node", "policy"};
constexpr std::array<std::string_view, 11> kEvents = {
    "incident", "verdict", "refusal", "intent",    "outcome",       "replacement",
    "delete",   "request", "event",   "violation", "double-writers"};
constexpr std::array<std::string_view, 1> kOthers = {"attempts"};

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Reads one line from left to right.
class ExpectationParser {
 public:
  ExpectationParser(const ScenarioLine& line, std::span<const std::string_view> reasons)
      : line_(line), reasons_(reasons) {}

  Result<Expectation> parse();

 private:
  [[nodiscard]] std::string_view peek() const { return line_.word(next_); }
  std::string_view take() { return line_.word(next_++); }
  [[nodiscard]] Result<void> end() const { return line_.ends_after(next_); }

  Result<Duration> time();
  Result<Window> window();
  Result<StateCheck> state();
  Result<void> running(StateCheck& check);
  Result<EventCheck> event(std::optional<int> count);
  Result<void> record(EventCheck& check, std::string_view kind);
  Result<std::string> subject(std::string_view example);
  Result<void> reason(EventCheck& check);
  Result<AttemptsCheck> attempts();

  const ScenarioLine& line_;
  std::span<const std::string_view> reasons_;
  std::size_t next_ = 1;
};

Result<Duration> ExpectationParser::time() {
  return line_.duration("time", take());
}

// at T | within T | after T | between A and B
Result<Window> ExpectationParser::window() {
  Window window;
  const std::string_view word = peek();
  const auto kind = word == "at"        ? Window::Kind::At
                    : word == "within"  ? Window::Kind::Within
                    : word == "after"   ? Window::Kind::After
                    : word == "between" ? Window::Kind::Between
                                        : Window::Kind::Whole;
  if (kind == Window::Kind::Whole) {
    return window;
  }
  window.kind = kind;
  ++next_;
  const auto first = time();
  if (!first) {
    return failure(first.error());
  }
  (kind == Window::Kind::At || kind == Window::Kind::Within ? window.to : window.from) = *first;
  if (kind == Window::Kind::Between) {
    if (take() != "and") {
      return line_.wrong("'between' has two times", "write between 10s and 20s");
    }
    const auto second = time();
    if (!second) {
      return failure(second.error());
    }
    window.to = *second;
  }
  return window;
}

Result<std::string> ExpectationParser::subject(std::string_view example) {
  const std::string_view word = take();
  if (word != "any" && !is_qualified(word)) {
    return line_.wrong(
        "'" + escaped(word, 64) + "' is no NAMESPACE/NAME",
        "write for example " + std::string(example) + ", or its beginning and '*', or any");
  }
  return std::string(word);
}

Result<StateCheck> ExpectationParser::state() {
  const std::string_view what = take();
  StateCheck check;
  const auto named = [&](Subject subject, std::span<const StateWord> words) -> Result<void> {
    check.subject = subject;
    check.name = take();
    if (subject != Subject::Node && !is_qualified(check.name)) {
      return line_.wrong("'" + escaped(check.name, 64) + "' is no NAMESPACE/NAME",
                         "write for example noobaa/core-0");
    }
    const StateWord* word = find_word(words, peek());
    if (word == nullptr) {
      std::vector<std::string_view> names;
      add_names(words, names);
      return line_.unknown("state of a " + std::string(what), peek(), names);
    }
    ++next_;
    check.state = word->state;
    return {};
  };
  Result<void> done;
  if (what == "policy") {
    check = {.subject = Subject::Policy, .state = State::Reported, .name = std::string(take())};
    if (!is_one_of(peek(), kReports)) {
      return line_.unknown("state of a policy", peek(), kReports);
    }
    check.word = take();
  } else if (what == "node") {
    done = named(Subject::Node, kNodeStates);
  } else {
    done = named(what == "pod" ? Subject::Pod : Subject::Workload, kPodStates);
  }
  if (done && check.state == State::Running) {
    done = running(check);
  }
  if (done) {
    done = end();
  }
  return done ? Result<StateCheck>(std::move(check)) : Result<StateCheck>(failure(done.error()));
}

// running [N] [on NODE | elsewhere]
Result<void> ExpectationParser::running(StateCheck& check) {
  const std::string_view word = peek();
  if (check.subject == Subject::Workload && !word.empty() && word != "on" && word != "elsewhere") {
    const auto count = line_.number_of("running", take(), 0, 100'000);
    if (!count) {
      return failure(count.error());
    }
    check.count = *count;
  }
  if (peek() == "elsewhere") {
    ++next_;
    check.elsewhere = true;
  } else if (peek() == "on") {
    ++next_;
    check.node = take();
    if (check.node.empty()) {
      return line_.wrong("the node is missing after 'on'", "write running on n2");
    }
  }
  return {};
}

Result<void> ExpectationParser::reason(EventCheck& check) {
  if (peek().empty() || peek() == "by") {
    return {};
  }
  if (!reasons_.empty() && !is_one_of(peek(), reasons_)) {
    return line_.wrong(
        "'" + escaped(peek(), 64) + "' is no reason" + did_you_mean(peek(), reasons_),
        "docs/reasons.md lists them");
  }
  check.reason = take();
  return {};
}

// incident NODE opened|closed|held [REASON], verdict|refusal|intent|outcome|replacement POD
// [REASON] [by POLICY]
Result<void> ExpectationParser::record(EventCheck& check, std::string_view kind) {
  static constexpr std::array<std::string_view, 3> kStages = {"opened", "closed", "held"};
  check.what = What::Record;
  if (kind == "incident") {
    check.subject = take();
    if (!is_one_of(peek(), kStages)) {
      return line_.unknown("stage of an incident", peek(), kStages);
    }
    check.word = "incident_" + std::string(take());
  } else {
    auto pod = subject("noobaa/core-0");
    if (!pod) {
      return failure(pod.error());
    }
    check.word = kind;
    check.subject = std::move(*pod);
  }
  if (auto done = reason(check); !done) {
    return done;
  }
  if (peek() == "by") {
    ++next_;
    check.policy = take();
  }
  return {};
}

Result<EventCheck> ExpectationParser::event(std::optional<int> count) {
  const std::string_view what = take();
  EventCheck check{.count = count};
  Result<void> done;
  if (what == "delete" || what == "event") {
    check.what = what == "delete" ? What::Delete : What::ApiEvent;
    check.word = what == "event" ? take() : std::string_view();
    auto about = what == "event" && !is_qualified(peek()) ? Result<std::string>(std::string(take()))
                                                          : subject("noobaa/core-0");
    done = about ? Result<void>() : Result<void>(failure(about.error()));
    check.subject = about.value_or("");
  } else if (what == "request") {
    check.what = What::Request;
    check.word = take();
    check.subject = take();
    if (check.word.empty()) {
      done = line_.wrong("the request's method is missing",
                         "write request any, or request LIST /pods");
    }
  } else if (what == "violation" || what == "double-writers") {
    check.what = what == "violation" ? What::Violation : What::Writers;
    check.word = what == "violation" ? take() : std::string_view();
  } else {
    done = record(check, what);
  }
  if (done) {
    done = end();
  }
  return done ? Result<EventCheck>(std::move(check)) : Result<EventCheck>(failure(done.error()));
}

// attempts POD T1 T2 … [tolerance=D]
Result<AttemptsCheck> ExpectationParser::attempts() {
  static constexpr std::string_view kTolerance = "tolerance=";
  ++next_;
  AttemptsCheck check;
  auto pod = subject("noobaa/core-0");
  if (!pod) {
    return failure(pod.error());
  }
  check.pod = std::move(*pod);
  while (next_ < line_.size()) {
    const std::string_view word = take();
    const bool tolerance = word.starts_with(kTolerance);
    const auto time = line_.duration("attempts", tolerance ? word.substr(kTolerance.size()) : word);
    if (!time) {
      return failure(time.error());
    }
    if (tolerance) {
      check.tolerance = *time;
    } else {
      check.at.push_back(*time);
    }
  }
  if (check.at.empty() || check.at.front() != Duration::zero()) {
    return line_.wrong("attempts are counted from the first one",
                       "write attempts noobaa/core-0 0 5s 10s");
  }
  return check;
}

Result<Expectation> ExpectationParser::parse() {
  Expectation expectation{.text = line_.text, .line = line_.number};
  const auto window = this->window();
  if (!window) {
    return failure(window.error());
  }
  expectation.window = *window;
  const auto within = [&](auto parsed) -> Result<Expectation> {
    if (!parsed) {
      return failure(parsed.error());
    }
    expectation.check = std::move(*parsed);
    return std::move(expectation);
  };
  const Window::Kind kind = window->kind;
  if (is_one_of(peek(), kStates)) {
    if (kind == Window::Kind::After || kind == Window::Kind::Between) {
      return line_.wrong("a state is looked at at one time",
                         "write at T, within T, or nothing for the end");
    }
    return within(state());
  }
  if (kind == Window::Kind::At) {
    return line_.wrong("what happens has no time 'at'",
                       "write within T, after T or between A and B");
  }
  if (peek() == "attempts") {
    return within(attempts());
  }
  std::optional<int> count;
  if (peek() == "no") {
    ++next_;
    count = 0;
  } else if (!peek().empty() && peek().find_first_not_of("0123456789") == std::string_view::npos) {
    const auto number = line_.number_of("count", take(), 0, 1'000'000);
    if (!number) {
      return failure(number.error());
    }
    count = *number;
  }
  if (!is_one_of(peek(), kEvents)) {
    std::vector<std::string_view> known(kStates.begin(), kStates.end());
    known.insert(known.end(), kEvents.begin(), kEvents.end());
    known.insert(known.end(), kOthers.begin(), kOthers.end());
    return line_.unknown("word for 'expect'", peek(), known);
  }
  return within(event(count));
}

}  // namespace

Result<Expectation> parse_expectation(const ScenarioLine& line,
                                      std::span<const std::string_view> reasons) {
  return ExpectationParser(line, reasons).parse();
}

bool matches_subject(std::string_view pattern, std::string_view text) {
  if (pattern == "any") {
    return true;
  }
  return pattern.ends_with('*') ? text.starts_with(pattern.substr(0, pattern.size() - 1))
                                : text == pattern;
}

}  // namespace moonfence::sim
