#include "policy/bundle/validation.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/sha256.h"
#include "base/text.h"
#include "kube/text/json.h"
#include "policy/bundle/source_text.h"
#include "policy/cases/own_tests.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

// What the engine has to do for the policy beside calling pod(), in the words of the file.
std::vector<std::string> needs_of(const Policy& policy) {
  const Needs& needs = policy.needs();
  const std::array<std::pair<bool, std::string_view>, 8> words = {
      {{needs.volumes, "volumes"},
       {needs.placement, "placement"},
       {needs.root_owner, "root_owner"},
       {needs.siblings, "siblings"},
       {policy.fetches(), "fetch"},
       {policy.health_source().has_value(), "source"},
       {policy.judges_node(), "node"},
       {policy.node_fetches(), "node_fetch"}}};
  std::vector<std::string> out;
  for (const auto& [is_needed, word] : words) {
    if (is_needed) {
      out.emplace_back(word);
    }
  }
  return out;
}

std::string listed(const std::set<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    out += (out.empty() ? "" : ", ") + word;
  }
  return out;
}

}  // namespace

std::string Rejection::text() const {
  return hint.empty() ? message : message + " (" + hint + ")";
}

Rejection rejection(std::string stage, const Error& error) {
  Rejection out{.stage = std::move(stage), .message = error.text, .hint = error.hint};
  out.may_differ = error.kind == Error::Kind::Limit;
  const auto colon = error.text.find(':');
  if (colon == std::string::npos) {
    return out;
  }
  int line = 0;
  const char* const end = error.text.data() + error.text.size();
  const auto [stop, fault] = std::from_chars(error.text.data() + colon + 1, end, line);
  if (fault == std::errc() && line > 0 && stop != end && *stop == ':') {
    out.line = line;
    const auto rest = static_cast<std::size_t>(stop - error.text.data()) + 1;
    out.message = trimmed(std::string_view(error.text).substr(rest));
  }
  return out;
}

Validation::Validation(Candidate candidate, const ValidationRules& rules, port::CpuClock& clock)
    : candidate_(std::move(candidate)), rules_(rules), clock_(clock) {}

Validation::~Validation() = default;

void Validation::step() {
  const Duration before = clock_.thread_time();
  switch (stage_) {
    case Stage::Load:
      load();
      break;
    case Stage::Settings:
      set();
      break;
    case Stage::Smoke:
      smoke();
      break;
    case Stage::SelfTest:
      self_test();
      break;
  }
  spent_ += clock_.thread_time() - before;
  const bool rejected = outcome_ && std::holds_alternative<Rejection>(*outcome_);
  if (spent_ > rules_.cpu && !rejected) {
    reject("budget", Error{.kind = Error::Kind::Limit,
                           .text = "validating " + candidate_.name + ".lua took more than " +
                                   format_duration(rules_.cpu) + " of CPU time"});
  }
}

void Validation::load() {
  const std::string file = candidate_.name + ".lua";
  if (candidate_.source.size() > rules_.limits.source_bytes) {
    reject("source", Error{.kind = Error::Kind::Invalid,
                           .text = file + " has " + std::to_string(candidate_.source.size()) +
                                   " of " + std::to_string(rules_.limits.source_bytes) + " bytes"});
    return;
  }
  if (!is_utf8(candidate_.source)) {
    reject("source", Error{.kind = Error::Kind::Invalid,
                           .text = file + " is not UTF-8",
                           .hint = "save it as UTF-8 text"});
    return;
  }
  auto policy = Policy::load(candidate_.source, file, clock_, rules_.limits);
  if (!policy) {
    reject("load", policy.error());
    return;
  }
  if (policy->is_fencer()) {
    reject("load", Error{.kind = Error::Kind::Invalid,
                         .text = file + " declares a fencer, which judges no pods",
                         .hint = "bind it in the engine's configuration: docs/proof.md, Fencers"});
    return;
  }
  loaded_ = *std::move(policy);
  stage_ = Stage::Settings;
}

void Validation::set() {
  auto policy = loaded_->with_settings(candidate_.settings);
  if (!policy) {
    reject("settings", policy.error());
    return;
  }
  for (const std::string& need : needs_of(*policy)) {
    if (!rules_.needs.contains(need)) {
      reject("needs", Error{.kind = Error::Kind::Invalid,
                            .text = candidate_.name + ".lua declares '" + need +
                                    "', which this engine cannot serve",
                            .hint = rules_.needs.empty()
                                        ? "this engine knows the pod, its node and the cluster"
                                        : "it can serve " + listed(rules_.needs)});
      return;
    }
  }
  warnings_ = policy->warnings();
  warnings_.insert(warnings_.end(), policy->notices().begin(), policy->notices().end());
  policy_ = std::make_shared<const Policy>(*std::move(policy));
  cases_ = smoke_cases();
  std::reverse(cases_.begin(), cases_.end());
  stage_ = Stage::Smoke;
}

void Validation::smoke() {
  const SmokeCase& each = cases_.back();
  if (const auto fault = judge(each)) {
    Error error = *fault;
    error.hint = "it must be able to judge " + each.name +
                 (error.hint.empty() ? std::string() : "; " + error.hint);
    reject("smoke", error);
    return;
  }
  cases_.pop_back();
  if (cases_.empty()) {
    stage_ = Stage::SelfTest;
    if (!candidate_.test) {
      accept();
    }
  }
}

std::optional<Error> Validation::judge(const SmokeCase& each) const {
  if (auto fault = judge_pod(each)) {
    return fault;
  }
  return judge_node(each);
}

std::optional<Error> Validation::judge_node(const SmokeCase& each) const {
  if (!policy_->judges_node()) {
    return std::nullopt;
  }
  NodeFacts facts = each.facts;
  if (policy_->node_fetches()) {
    const auto plan = policy_->plan_node_fetch(each.node, facts, json::object());
    if (!plan.result) {
      return plan.result.error();
    }
    if (!plan.result->empty()) {
      return std::nullopt;  // what it would be answered is for its own tests to say
    }
    facts.fetched = std::make_shared<const json>(json::object());
  }
  const auto node = policy_->judge_node(each.node, each.cluster, facts);
  return node.result ? std::nullopt : std::optional(node.result.error());
}

std::optional<Error> Validation::judge_pod(const SmokeCase& each) const {
  kube::Pod pod = each.pod;
  json object = policy_->made_selectable(*pod.raw);
  if (object.is_null()) {
    return std::nullopt;  // it is asked about no pod at all
  }
  pod.raw = std::make_shared<const json>(std::move(object));
  if (policy_->fetches()) {
    const auto plan = policy_->plan_fetch(pod, each.gathered, json::object());
    if (!plan.result) {
      return plan.result.error();
    }
    if (!plan.result->empty()) {
      return std::nullopt;  // what it would be answered is for its own tests to say
    }
  }
  const Evaluation evaluation =
      policy_->evaluate(pod, each.node, each.cluster, each.facts, each.gathered);
  return evaluation.verdict ? std::nullopt : std::optional(evaluation.verdict.error());
}

void Validation::self_test() {
  if (!own_tests_) {
    own_tests_ = std::make_unique<OwnTests>(candidate_, clock_);
  }
  const auto done = own_tests_->step();
  if (!done) {
    return;
  }
  if (*done) {
    accept();
  } else {
    reject("self-test", done->error());
  }
}

void Validation::reject(std::string stage, const Error& error) {
  // The lines of a self-test are those of the test file, which stays in the message.
  const bool of_tests = stage == "self-test";
  Rejection out =
      of_tests ? Rejection{.stage = std::move(stage), .message = error.text, .hint = error.hint}
               : rejection(std::move(stage), error);
  // A text that is not read at all is not searched either: nobody can tell.
  out.may_differ = error.kind == Error::Kind::Limit;
  out.may_be_guard = loaded_ ? loaded_->is_guard()
                             : out.stage == "source" || mentions_objection(candidate_.source);
  if (out.line > 0) {
    out.quote = quoted_line(candidate_.source, error.text);
  }
  outcome_ = std::move(out);
}

void Validation::accept() {
  outcome_ = Accepted{.policy = policy_, .warnings = warnings_};
}

}  // namespace moonfence::policy
