#include "policy/cases/test_subject.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <utility>

#include "base/text.h"
#include "kube/objects/decode.h"
#include "kube/text/json.h"
#include "policy/lua/views.h"
#include "policy/values/failed_answer.h"
#include "policy/values/list_answer.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;
using Outcome = Expectation::Outcome;

constexpr int kMostRounds = 4;

std::string seconds_text(double seconds) {
  std::array<char, 32> digits{};
  const auto [end, fault] = std::to_chars(digits.data(), digits.data() + digits.size(), seconds);
  return std::string(digits.data(), fault == std::errc() ? end : digits.data()) + "s";
}

double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

void take_error(const Error& error, Answer& answer) {
  answer.outcome = Outcome::Error;
  answer.error = error.text;
}

// What a policy does not declare, the engine does not gather.
PodFacts declared_facts(const Policy& policy, const PodFacts& all) {
  PodFacts facts = all;
  if (!policy.needs().volumes) {
    facts.volumes.reset();
  }
  if (!policy.needs().placement) {
    facts.candidates.reset();
  }
  if (!policy.needs().root_owner) {
    facts.owner_chain.reset();
  }
  if (!policy.needs().siblings) {
    facts.siblings.reset();
  }
  return facts;
}

// What a case, or --responses, says of a request that fails; nullopt: it is answered.
//   { status = 503 }   { error = "timeout", since = 300, message = "…", status = 408 }
Result<std::optional<FailedAnswer>> failure_in(const Request& request, const json& given) {
  const std::string name = "responses: '" + escaped(request.text(), 256) + "'";
  const json* status = member(&given, "status");
  const json* error = member(&given, "error");
  if (status != nullptr ? !status->is_number_integer() : error == nullptr) {
    return failure(Error::Kind::Invalid, name + " has no status",
                   "write { status = 200, body = ... } or { error = \"timeout\", since = 300 }");
  }
  const int code = status == nullptr ? 0 : status->get<int>();
  const bool is_object =
      request.kind == Request::Kind::Object || request.kind == Request::Kind::List;
  const bool answers = code == 404 || (is_object ? code == 200 : code >= 200 && code <= 299);
  if (error == nullptr && answers) {
    return std::nullopt;
  }
  const json* since = member(&given, "since");
  if ((error != nullptr && given.contains("body")) ||
      (since != nullptr && !since->is_number_integer())) {
    return failure(Error::Kind::Invalid, name + " fails",
                   "write no body, and since as a whole number of seconds");
  }
  FailedAnswer failed = {
      .error = code == 0 ? "unreachable" : "status",
      .message =
          request.text() + (code == 0 ? " got no answer" : " answered " + std::to_string(code)),
      .since = since == nullptr ? 0 : since->get<std::int64_t>(),
      .status = code == 0 ? std::nullopt : std::optional(code)};
  if (error != nullptr) {
    failed.error = text_of(error);
  }
  if (std::find(kFailures.begin(), kFailures.end(), failed.error) == kFailures.end()) {
    return failure(Error::Kind::Invalid,
                   name + ": unknown error '" + escaped(failed.error, 64) + "'" +
                       did_you_mean(failed.error, kFailures),
                   "write timeout, unreachable, status, unauthorized, not_json or too_large");
  }
  if (const json* message = member(&given, "message")) {
    failed.message = text_of(message);
  }
  if (const json* word = member(&given, "code")) {
    failed.code = text_of(word);
  }
  return failed;
}

json answer_of(const Request& request, const json& given) {
  const int status = given.at("status").get<int>();
  const json* body = member(&given, "body");
  return request.tries ? tried_json(status, body) : answer_json(status, body);
}

// The answers that the engine would come back with. A request that fails ends a round, but for one
// that was made by fence.try.
Result<json> responses_to(const Requests& requests, const Responses& responses, Answer& answer) {
  json got = json::object();
  for (const auto& [name, request] : requests) {
    const auto found = responses.by_request.find(request.text());
    if (found == responses.by_request.end()) {
      return failure(
          Error::Kind::Invalid,
          "the policy asks for '" + escaped(request.text(), 256) + "', which has no response",
          "in a case add responses = { [\"" + escaped(request.text(), 256) +
              "\"] = { status = 200, body = ... } }; for eval and replay give --responses FILE");
    }
    auto failed = failure_in(request, *found);
    if (!failed) {
      return failure(std::move(failed.error()));
    }
    if (*failed && !request.tries) {
      answer.outcome = Outcome::Deferred;
      answer.error = (*failed)->message;
    }
    const json* body = member(&*found, "body");
    if (!*failed && request.kind == Request::Kind::List && body != nullptr) {
      if (const std::string fault = fault_of_list(request, *body); !fault.empty()) {
        answer.outcome = Outcome::Deferred;
        answer.error = fault;
      }
    }
    got[name] = !*failed        ? answer_of(request, *found)
                : request.tries ? failed_json(**failed)
                                : json();
  }
  return got;
}

// Asks what to read until the policy has enough; true when it has.
Result<bool> read_rounds(const std::function<Run<Requests>(const json&)>& plan,
                         const Responses& responses, json& got, Answer& answer) {
  for (int round = 0; round <= kMostRounds; ++round) {
    const auto asked = plan(got);
    answer.usage = asked.usage;
    if (!asked.result) {
      take_error(asked.result.error(), answer);
      return false;
    }
    if (asked.result->empty()) {
      return true;
    }
    if (round == kMostRounds) {
      break;
    }
    auto read = responses_to(*asked.result, responses, answer);
    if (!read) {
      return failure(std::move(read.error()));
    }
    if (answer.outcome == Outcome::Deferred) {
      return false;
    }
    got.update(*read);
  }
  answer.outcome = Outcome::Deferred;
  answer.error = "it still asks after " + std::to_string(kMostRounds) + " rounds";
  return false;
}

void take_verdict_words(const Verdict& verdict, Answer& answer) {
  answer.verdict = to_string(verdict.kind);
  answer.reason = verdict.reason;
  answer.release = verdict.release;
  answer.fail = verdict.fail;
  answer.proof = verdict.proof;
  if (verdict.kind == Verdict::Kind::Wait || verdict.kind == Verdict::Kind::Hold) {
    answer.seconds = seconds_of(verdict.wait);
  }
  if (verdict.kind == Verdict::Kind::DeleteAttachments) {
    answer.seconds = seconds_of(verdict.wait);
    answer.on_timeout = verdict.on_timeout == Verdict::OnTimeout::Hold ? "hold" : "delete";
  }
  for (const VolumeFacts& volume : verdict.volumes) {
    answer.volumes.push_back(volume.claim);
  }
  std::sort(answer.volumes.begin(), answer.volumes.end());
}

kube::Node node_of(const Scene& scene) {
  kube::Node node;
  node.name = NodeName(std::string(text_of(member(&scene.node, "metadata", "name"))));
  node.raw = std::make_shared<const json>(scene.node);
  return node;
}

Result<Answer> judge_pod(const Stand& stand, const Scene& scene, const kube::Pod& pod,
                         const Responses& responses) {
  *stand.trace = Trace();
  Answer answer;
  PodFacts facts = declared_facts(stand.policy, scene.facts);
  if (stand.policy.fetches()) {
    const auto plan = [&](const json& got) { return stand.policy.plan_fetch(pod, facts, got); };
    const auto enough = read_rounds(plan, responses, facts.fetched, answer);
    answer.trace = *stand.trace;
    if (!enough) {
      return failure(enough.error());
    }
    if (!*enough) {
      return answer;
    }
  }
  auto evaluation =
      stand.policy.evaluate(pod, node_of(scene), scene.cluster, node_facts_of(scene), facts);
  answer.usage = evaluation.usage;
  answer.log = std::move(evaluation.log);
  answer.trace = *stand.trace;
  if (evaluation.verdict) {
    take_verdict_words(*evaluation.verdict, answer);
  } else {
    take_error(evaluation.verdict.error(), answer);
  }
  return answer;
}

}  // namespace

std::string Answer::words() const {
  switch (outcome) {
    case Outcome::Decided: {
      std::string text = verdict;
      for (const auto& [node, state] : nodes) {
        text += (text.empty() ? "nodes " : ", ") + escaped(node, 64) + "=" + state;
      }
      return (text.empty() ? "no nodes" : text) +
             (seconds ? " (" + seconds_text(*seconds) + ")" : "");
    }
    case Outcome::NotSelected:
      return "not_selected";
    case Outcome::Deferred:
      return "deferred" + (error.empty() ? "" : ": " + error);
    case Outcome::Error:
      return "error: " + error;
  }
  return "";
}

bool Answer::acts() const {
  return outcome == Outcome::Decided &&
         (verdict.starts_with("delete_") || verdict == "taint_out_of_service");
}

Result<Subject> load_subject(const std::string& source, const std::string& path,
                             port::CpuClock& clock) {
  auto policy = Policy::load(source, path, clock);
  if (!policy) {
    return failure(std::move(policy.error()));
  }
  auto map = map_chunk(source, policy->file(), clock);
  if (!map) {
    return failure(std::move(map.error()));
  }
  std::string file = policy->file();
  return Subject{.file = std::move(file), .policy = std::move(*policy), .map = std::move(*map)};
}

Result<Stand> set_up(const Policy& policy, const json& settings) {
  auto trace = std::make_unique<Trace>();
  auto settled = policy.with_settings(settings, trace.get());
  if (!settled) {
    return failure(std::move(settled.error()));
  }
  Trace loading = *trace;
  return Stand{
      .trace = std::move(trace), .policy = std::move(*settled), .loading = std::move(loading)};
}

Result<Answer> ask(const Stand& stand, const Scene& scene, const Responses& responses) {
  const auto pod = kube::decode_pod(scene.pod, true);
  if (!pod) {
    return failure(pod.error());
  }
  if (!stand.policy.selects(pod->labels)) {
    Answer answer;
    answer.outcome = Outcome::NotSelected;
    return answer;
  }
  return judge_pod(stand, scene, *pod, responses);
}

Result<Answer> ask_node(const Stand& stand, const Scene& scene, const Responses& responses) {
  if (!stand.policy.judges_node()) {
    return failure(Error::Kind::Invalid, "the policy has no node function",
                   "expect a verdict about the pod");
  }
  *stand.trace = Trace();
  Answer answer;
  const kube::Node node = node_of(scene);
  NodeFacts facts = node_facts_of(scene);
  if (stand.policy.node_fetches()) {
    json got = json::object();
    const auto plan = [&](const json& known) {
      return stand.policy.plan_node_fetch(node, facts, known);
    };
    const auto enough = read_rounds(plan, responses, got, answer);
    answer.trace = *stand.trace;
    if (!enough) {
      return failure(enough.error());
    }
    if (!*enough) {
      return answer;
    }
    facts.fetched = std::make_shared<const json>(std::move(got));
  }
  auto run = stand.policy.judge_node(node, scene.cluster, facts);
  answer.usage = run.usage;
  answer.log = std::move(run.log);
  answer.trace = *stand.trace;
  if (!run.result) {
    take_error(run.result.error(), answer);
    return answer;
  }
  answer.verdict = to_string(run.result->kind);
  answer.reason = run.result->reason;
  answer.proof = run.result->proof;
  if (run.result->kind == NodeVerdict::Kind::Hold) {
    answer.seconds = seconds_of(run.result->wait);
  }
  return answer;
}

Result<Answer> ask_source(const Stand& stand, const Responses& responses) {
  if (!stand.policy.health_source()) {
    return failure(Error::Kind::Invalid, "the policy has no source of node health",
                   "give the case objects and expect a verdict");
  }
  *stand.trace = Trace();
  Answer answer;
  json got = json::object();
  const auto plan = [&](const json& known) { return stand.policy.plan_source(known); };
  const auto enough = read_rounds(plan, responses, got, answer);
  if (!enough) {
    return failure(enough.error());
  }
  if (*enough) {
    auto run = stand.policy.nodes_of_source(got);
    answer.usage = run.usage;
    answer.log = std::move(run.log);
    if (!run.result) {
      take_error(run.result.error(), answer);
    } else {
      for (const auto& [node, health] : *run.result) {
        answer.nodes[node.text()] = to_string(health);
      }
    }
  }
  answer.trace = *stand.trace;
  return answer;
}

std::vector<std::string> declared_needs(const Policy& policy) {
  std::vector<std::string> needs;
  const auto add = [&needs](bool declared, const char* name) {
    if (declared) {
      needs.emplace_back(name);
    }
  };
  add(policy.needs().volumes, "volumes");
  add(policy.needs().placement, "placement");
  add(policy.needs().root_owner, "root_owner");
  add(policy.needs().siblings, "siblings");
  return needs;
}

}  // namespace moonfence::policy
