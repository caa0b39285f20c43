#include "policy/cases/test_run.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"

namespace moonfence::policy {
namespace {

using Outcome = Expectation::Outcome;

constexpr int kStates = 5;

std::string number_text(double value) {
  std::array<char, 32> digits{};
  const auto [end, fault] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), fault == std::errc() ? end : digits.data()};
}

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::Decided:
      return "decided";
    case Outcome::NotSelected:
      return "not_selected";
    case Outcome::Deferred:
      return "deferred";
    case Outcome::Error:
      return "error";
  }
  return "";
}

std::string wanted_words(const Expectation& expect) {
  if (expect.outcome != Outcome::Decided) {
    return std::string(to_string(expect.outcome));
  }
  if (expect.of == Expectation::Of::Source) {
    Answer answer;
    answer.nodes = expect.nodes;
    return answer.words();
  }
  return expect.verdict + (expect.seconds ? " (" + number_text(*expect.seconds) + "s)" : "");
}

bool fits(const std::string& wanted, const std::string& text) {
  return wanted.starts_with('~') ? text.find(wanted.substr(1)) != std::string::npos
                                 : text == wanted;
}

std::string listed(const std::vector<std::string>& texts) {
  return texts.empty() ? "none" : joined(texts, ", ");
}

void compare_volumes(const Expectation& expect, const Answer& answer,
                     std::vector<std::string>& problems) {
  if (!expect.volumes) {
    return;
  }
  std::vector<std::string> wanted = *expect.volumes;
  std::sort(wanted.begin(), wanted.end());
  if (wanted != answer.volumes) {
    problems.push_back("volumes: want " + listed(wanted) + ", got " + listed(answer.volumes));
  }
}

void compare_options(const Expectation& expect, const Answer& answer,
                     std::vector<std::string>& problems) {
  if (expect.release && *expect.release != answer.release) {
    problems.emplace_back(answer.release ? "release: want none, got release"
                                         : "release: want release, got none");
  }
  if (expect.fail && *expect.fail != answer.fail) {
    problems.emplace_back(answer.fail ? "fail: want false, got true"
                                      : "fail: want true, got false");
  }
  if (expect.proof && *expect.proof != answer.proof) {
    const auto words = [](EvidenceSet proof) {
      return proof.empty() ? std::string("none") : evidence_words(proof, ", ");
    };
    problems.push_back("proof:   want " + words(*expect.proof) + ", got " + words(answer.proof));
  }
  if (expect.on_timeout && *expect.on_timeout != answer.on_timeout) {
    problems.push_back("on_timeout: want " + *expect.on_timeout + ", got " + answer.on_timeout);
  }
}

void compare_reads(const Expectation& expect, const Answer& answer,
                   std::vector<std::string>& problems) {
  for (const std::string& path : expect.reads) {
    const bool was_read = std::any_of(answer.trace.reads.begin(), answer.trace.reads.end(),
                                      [&path](const FieldRead& read) { return read.path == path; });
    if (!was_read) {
      problems.push_back("reads:   want " + escaped(path, 128) +
                         ", which the policy did not look at");
    }
  }
}

std::vector<std::string> compare(const Expectation& expect, const Answer& answer) {
  std::vector<std::string> problems;
  const bool same = expect.outcome == answer.outcome && expect.verdict == answer.verdict &&
                    expect.nodes == answer.nodes &&
                    (!expect.seconds || expect.seconds == answer.seconds);
  if (!same) {
    problems.push_back("verdict: want " + wanted_words(expect) + ", got " + answer.words());
    if (!answer.reason.empty()) {
      problems.push_back("reason:  " + answer.reason);
    }
    return problems;
  }
  if (expect.reason && !fits(*expect.reason, answer.reason)) {
    problems.push_back("reason:  want " + escaped(*expect.reason, 600));
    problems.push_back("         got  " + answer.reason);
  }
  if (expect.message && !fits("~" + *expect.message, answer.error)) {
    problems.push_back("message: want '" + escaped(*expect.message, 600) + "' in: " + answer.error);
  }
  compare_volumes(expect, answer, problems);
  compare_options(expect, answer, problems);
  compare_reads(expect, answer, problems);
  return problems;
}

// What a verdict made of a time nobody gave would be worth.
bool read_the_clock(const Answer& answer) {
  return std::any_of(answer.trace.reads.begin(), answer.trace.reads.end(),
                     [](const FieldRead& read) { return read.path == "cluster.now"; });
}

CaseResult malformed(CaseResult result, const std::string& why) {
  result.state = CaseResult::State::Malformed;
  result.outcome = "malformed";
  result.problems = {why};
  return result;
}

Result<void> check_mocks(const Subject& subject, const Stand& stand, const TestCase& test) {
  constexpr std::array<std::string_view, 5> kNeeds = {"volumes", "placement", "root_owner",
                                                      "siblings", "fetch"};
  std::vector<std::string> declared = declared_needs(stand.policy);
  if (subject.policy.fetches()) {
    declared.emplace_back("fetch");
  }
  for (const std::string& need : test.fail) {
    if (std::find(kNeeds.begin(), kNeeds.end(), need) == kNeeds.end()) {
      return failure(Error::Kind::Invalid,
                     "fail: unknown need '" + escaped(need, 64) + "'" + did_you_mean(need, kNeeds),
                     "known are volumes, placement, root_owner, siblings, fetch");
    }
    if (std::find(declared.begin(), declared.end(), need) == declared.end()) {
      return failure(
          Error::Kind::Invalid,
          "fail: " + subject.file + " does not declare '" + need + "', so it cannot be missed",
          "the policy declares " + listed(declared));
    }
  }
  if (!test.responses.empty() && !subject.policy.fetches() && !subject.policy.node_fetches() &&
      !subject.policy.health_source()) {
    return failure(Error::Kind::Invalid,
                   "responses: " + subject.file +
                       " has neither fetch, node_fetch nor source, so it asks for nothing",
                   "remove them");
  }
  return {};
}

// A need whose data the fixture lacks: nothing that the policy says then would mean anything.
std::string gap_of(const Stand& stand, const Scene& scene) {
  for (const std::string& need : declared_needs(stand.policy)) {
    if (const auto gap = scene.gaps.find(need); gap != scene.gaps.end()) {
      return "the policy needs '" + need + "': " + gap->second;
    }
  }
  return "";
}

// `hold` is a word about a pod as well: where the policy says nothing like it of the node. So is
// `deferred`, where all was read that node() is to see.
bool asks_pod(const Prepared& prepared, const TestCase& test) {
  const auto asked_about_node = [&] {
    return ask_node(prepared.stand, *prepared.scene, {.by_request = test.responses});
  };
  if (prepared.scene && test.expect.outcome == Outcome::Deferred &&
      prepared.stand.policy.node_fetches()) {
    const auto of_node = asked_about_node();
    return !of_node || of_node->outcome != Outcome::Deferred;
  }
  if (!prepared.scene || test.expect.of == Expectation::Of::Pod) {
    return prepared.scene.has_value();
  }
  if (test.expect.verdict != "hold") {
    return false;
  }
  const auto of_node = asked_about_node();
  return !of_node || of_node->verdict == "proceed";
}

Result<Answer> put(const Prepared& prepared, const TestCase& test) {
  const Responses responses{.by_request = test.responses};
  if (!prepared.scene) {
    return ask_source(prepared.stand, responses);
  }
  return asks_pod(prepared, test) ? ask(prepared.stand, *prepared.scene, responses)
                                  : ask_node(prepared.stand, *prepared.scene, responses);
}

// What another state says than the first did; "" when all agree.
std::string difference_of(const Prepared& prepared, const TestCase& test, const Answer& first) {
  for (int i = 1; i < kStates; ++i) {
    const auto again = put(prepared, test);
    if (!again || again->words() != first.words() || again->reason != first.reason) {
      return "one state said " + first.words() + ": " + first.reason + "; another " +
             (again ? again->words() + ": " + again->reason : again.error().text);
    }
  }
  return "";
}

Answer not_asked(Outcome outcome) {
  Answer answer;
  answer.outcome = outcome;
  return answer;
}

void judge(const Subject& subject, const TestCase& test, const Answer& answer, CaseResult& result) {
  result.outcome = answer.words();
  std::vector<std::string> problems = compare(test.expect, answer);
  if (problems.empty() && result.problems.empty()) {
    return;
  }
  result.state = CaseResult::State::Failed;
  if (answer.trace.returned && !problems.empty()) {
    problems.push_back("at " + subject.file + ":" + std::to_string(answer.trace.returned->line));
  }
  result.problems.insert(result.problems.begin(), problems.begin(), problems.end());
  result.reads = answer.trace.reads;
}

}  // namespace

Result<Prepared> prepare(const Subject& subject, const TestCase& test) {
  auto stand = set_up(subject.policy, test.settings);
  if (!stand) {
    return failure(std::move(stand.error()));
  }
  if (auto checked = check_mocks(subject, *stand, test); !checked) {
    return failure(std::move(checked.error()));
  }
  Prepared prepared{.scene = std::nullopt, .stand = std::move(*stand)};
  const bool of_source = test.expect.of == Expectation::Of::Source ||
                         (test.objects.empty() && subject.policy.health_source());
  if (of_source) {
    return prepared;
  }
  auto scene = make_scene(test.objects, test.pod, test.patch);
  if (!scene) {
    return failure(std::move(scene.error()));
  }
  if (test.now && !scene->now_given) {
    scene->cluster.now = *test.now;
    scene->now_given = true;
  }
  prepared.scene = std::move(*scene);
  return prepared;
}

CaseResult run_case(const Subject& subject, const TestCase& test, Coverage& coverage) {
  CaseResult result{.name = test.name, .line = test.line};
  const auto prepared = prepare(subject, test);
  if (!prepared) {
    return malformed(std::move(result), prepared.error().message());
  }
  coverage.add(prepared->stand.loading);
  const bool of_pod = asks_pod(*prepared, test);
  if (!test.fail.empty() && of_pod) {
    judge(subject, test, not_asked(Outcome::Deferred), result);
    return result;
  }
  if (const std::string gap = of_pod ? gap_of(prepared->stand, *prepared->scene) : "";
      !gap.empty()) {
    result.state = CaseResult::State::Failed;
    result.outcome = "no data";
    result.problems = {gap};
    return result;
  }
  const auto answer = put(*prepared, test);
  if (!answer) {
    return malformed(std::move(result), answer.error().message());
  }
  if (answer->outcome == Outcome::NotSelected) {
    judge(subject, test, *answer, result);
    if (result.state == CaseResult::State::Failed) {
      result.problems.push_back("rule:    the policy selects " + subject.policy.label_selector() +
                                "; this pod never reaches it");
    }
    return result;
  }
  coverage.add(answer->trace);
  result.usage = answer->usage;
  if (const std::string difference = difference_of(*prepared, test, *answer); !difference.empty()) {
    result.problems.push_back("order:   " + difference);
  }
  if (prepared->scene && !prepared->scene->now_given && read_the_clock(*answer)) {
    result.problems.emplace_back("now:     the policy read cluster.now; give the case now = '...'");
  }
  judge(subject, test, *answer, result);
  return result;
}

}  // namespace moonfence::policy
