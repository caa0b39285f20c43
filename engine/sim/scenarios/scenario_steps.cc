#include "sim/scenarios/scenario_steps.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "sim/net/slow_calls.h"
#include "sim/scenarios/scenario_words.h"
#include "sim/server/hidden_objects.h"
#include "sim/server/write_refusals.h"

namespace moonfence::sim {
namespace {

bool is_one_of(std::span<const std::string_view> words, std::string_view text) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

Result<void> check_target(const ScenarioLine& line, Target target, std::string_view text) {
  const auto wrong = [&](std::string_view what, std::string next) -> Result<void> {
    return line.wrong("'" + escaped(text, 64) + "' is no " + std::string(what), std::move(next));
  };
  switch (target) {
    case Target::Nothing:
      return {};
    case Target::Node:
      return text.empty() ? wrong("node", "name one of the world's nodes") : Result<void>();
    case Target::Namespace:
      return text.empty() ? wrong("namespace", "write for example noobaa") : Result<void>();
    case Target::Pod:
    case Target::PodOrWorkload:
    case Target::Workload:
      return is_qualified(text) ? Result<void>()
                                : wrong("NAMESPACE/NAME", "write for example noobaa/core-0");
    case Target::Server:
      return text.starts_with("api-") ? Result<void>()
                                      : wrong("API server", "write api-0, api-1 …");
    case Target::Writes:
      return is_one_of(refusable_writes(), text)
                 ? Result<void>()
                 : wrong("kind of write", "write pods, attachments, nodes, records or all");
    case Target::Watches:
      return text == "nodes" || text == "pods" || text == "policies" || text == "all"
                 ? Result<void>()
                 : wrong("kind of watch", "write nodes, pods, policies or all");
    case Target::Objects:
      return is_one_of(hidable_objects(), text)
                 ? Result<void>()
                 : wrong("kind of object", "write nodes, pods, attachments or all");
    case Target::Calls:
      return is_one_of(slow_calls(), text)
                 ? Result<void>()
                 : wrong("kind of call", "write reads, writes, deletions, leases or all");
    case Target::Replica:
      return text.starts_with("moonfence-")
                 ? Result<void>()
                 : wrong("replica of the engine", "write moonfence-0, moonfence-1 …");
  }
  return {};
}

Result<void> check_argument(const ScenarioLine& line, std::string_view key,
                            std::string_view value) {
  if (key == "for" || key == "by") {
    const auto time = key == "by" ? line.signed_duration(key, value) : line.duration(key, value);
    return time ? Result<void>() : Result<void>(failure(time.error()));
  }
  if (key == "how" && !is_one_of(kinds_of_refusal(), value)) {
    return line.wrong("'" + escaped(value, 64) + "' is no refusal",
                      "write too-many, quota, webhook, hang, not-found, conflict or gone");
  }
  if (key == "replicas" || key == "inside" || key == "times") {
    const auto count = line.number_of(key, value, 0, 10'000);
    return count ? Result<void>() : Result<void>(failure(count.error()));
  }
  return {};
}

}  // namespace

Result<RequestPattern> parse_pattern(const ScenarioLine& line, std::size_t first) {
  static constexpr std::array<std::string_view, 4> kWords = {"list", "get", "lease", "delete"};
  const std::string_view verb = line.word(first);
  if (std::find(kWords.begin(), kWords.end(), verb) == kWords.end()) {
    return line.unknown("kind of request", verb, kWords);
  }
  const std::string_view subject = line.word(first + 1);
  if (verb == "delete" ? subject != "any" && !is_qualified(subject) : subject.empty()) {
    return line.wrong("'" + escaped(subject, 64) + "' is no subject of " + std::string(verb),
                      verb == "delete" ? "write NAMESPACE/POD, NAMESPACE/begin* or any"
                                       : "write the node's name, or any");
  }
  return RequestPattern{.verb = verb == "list"    ? RequestPattern::Verb::List
                                : verb == "get"   ? RequestPattern::Verb::Get
                                : verb == "lease" ? RequestPattern::Verb::Lease
                                                  : RequestPattern::Verb::Delete,
                        .subject = std::string(subject)};
}

Result<Step> parse_step(const ScenarioLine& line, std::size_t first) {
  const VerbWord* word = find_word(verb_words(), line.word(first));
  if (word == nullptr) {
    std::vector<std::string_view> names;
    add_names(verb_words(), names);
    return line.unknown("step", line.word(first), names);
  }
  Step step{.verb = word->verb};
  std::size_t next = first + 1;
  if (word->target != Target::Nothing) {
    step.target = line.word(next++);
    if (auto done = check_target(line, word->target, step.target); !done) {
      return failure(done.error());
    }
  }
  const std::array<std::string_view, 2> known = {word->argument, word->another};
  const std::size_t count = word->argument.empty() ? 0 : word->another.empty() ? 1 : 2;
  auto options = line.options(next, std::span<const std::string_view>(known).first(count));
  if (!options) {
    return failure(options.error());
  }
  if (word->needed && options->empty()) {
    return line.wrong(
        std::string(word->name) + " needs " + std::string(word->argument) + "=",
        "write at 5s " + std::string(word->name) + " … " + std::string(word->argument) + "=VALUE");
  }
  for (const auto& [key, value] : *options) {
    const auto sound = check_argument(line, key, value);
    if (!sound) {
      return failure(sound.error());
    }
  }
  step.arguments = std::move(*options);
  return step;
}

}  // namespace moonfence::sim
