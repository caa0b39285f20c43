#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/policy_commands/policy_command.h"
#include "base/text.h"
#include "kube/text/json.h"
#include "os/tools/folders.h"
#include "policy/cases/test_subject.h"

namespace moonfence::app {
namespace {

using nlohmann::json;

PolicyOutput refused(const Error& error) {
  return {.code = PolicyExit::Unusable, .out = "", .err = policy_error_text(error)};
}

Result<void> read_objects(const std::string& path, port::Files& files, policy::Objects& into) {
  const auto text = files.read(path);
  if (!text) {
    return failure(text.error());
  }
  const auto value = kube::parse_json(*text);
  if (!value) {
    Error error = Error(value.error()).within(escaped(path));
    error.hint = "print it anew with kubectl get KIND NAME -o json";
    return failure(std::move(error));
  }
  return policy::add_objects(*value, escaped(path), into);
}

Result<policy::Objects> gather_objects(const PolicyOptions& options, port::Files& files) {
  policy::Objects objects;
  if (auto read = read_objects(options.pod, files, objects); !read) {
    return failure(read.error());
  }
  if (options.with.empty()) {
    return objects;
  }
  const auto more = os::find_files(options.with, ".json");
  if (!more) {
    return failure(more.error());
  }
  for (const std::string& path : *more) {
    if (path == options.pod) {
      continue;
    }
    if (auto read = read_objects(path, files, objects); !read) {
      return failure(read.error());
    }
  }
  return objects;
}

std::string explained(const policy::Answer& answer) {
  std::string text =
      "cost: " + std::to_string(answer.usage.instructions) + " instructions, " +
      std::to_string(
          std::chrono::duration_cast<std::chrono::microseconds>(answer.usage.cpu).count()) +
      " us, " + std::to_string(answer.usage.memory_bytes) + " bytes\n";
  for (const policy::FieldRead& read : answer.trace.reads) {
    text += "read: " + read.path + " = " + read.value + "\n";
  }
  for (const std::string& line : answer.log) {
    text += "log:  " + line + "\n";
  }
  return text;
}

PolicyOutput told(const policy::Answer& answer, const policy::Subject& subject, bool explain) {
  PolicyOutput output;
  output.out = answer.words() + "\n";
  if (!answer.reason.empty()) {
    output.out += "reason: " + answer.reason + "\n";
  }
  if (!answer.volumes.empty()) {
    output.out += "volumes: " + joined(answer.volumes, ", ") + "\n";
  }
  if (answer.outcome == policy::Expectation::Outcome::NotSelected) {
    output.out += "reason: the policy selects " + subject.policy.label_selector() + "\n";
  }
  if (answer.outcome == policy::Expectation::Outcome::Error) {
    output.code = PolicyExit::CaseFailed;
  }
  if (answer.trace.returned) {
    output.out += "at: " + subject.file + ":" + std::to_string(answer.trace.returned->line) + "\n";
  }
  output.out += explain ? explained(answer) : "";
  return output;
}

Result<policy::Scene> scene_of(const PolicyOptions& options, const PolicyGround& ground) {
  const auto objects = gather_objects(options, ground.files);
  if (!objects) {
    return failure(objects.error());
  }
  auto scene = policy::make_scene(*objects, options.pod_name, json::object());
  if (!scene) {
    return scene;
  }
  scene->cluster.now = ground.now;
  if (!options.now.empty()) {
    const bool digits = options.now.find_first_not_of("0123456789") == std::string::npos;
    const auto number = digits ? kube::parse_json(options.now) : Result<json>(json(options.now));
    const auto now = number ? policy::time_of(*number) : std::nullopt;
    if (!now) {
      return failure(Error::Kind::Invalid, "--now: '" + escaped(options.now, 64) + "' is no time",
                     "write 2026-11-20T10:07:00Z or Unix seconds");
    }
    scene->cluster.now = *now;
  }
  return scene;
}

}  // namespace

Result<json> parse_settings(const std::vector<std::string>& pairs,
                            const policy::DeclaredSettings& known) {
  json values = json::object();
  for (const std::string& pair : pairs) {
    const auto equals = pair.find('=');
    const std::string key = pair.substr(0, equals);
    const std::string text = pair.substr(equals + 1);
    const auto setting = known.find(key);
    const bool is_text = setting == known.end() ||
                         setting->second.type == policy::Setting::Type::String ||
                         setting->second.type == policy::Setting::Type::Enum ||
                         setting->second.type == policy::Setting::Type::Duration;
    if (is_text) {
      values[key] = text;
      continue;
    }
    auto value = kube::parse_json(text);
    if (!value) {
      return failure(Error::Kind::Invalid,
                     "--set " + escaped(key, 64) + ": '" + escaped(text, 64) + "' cannot be read",
                     "write 3, true or [\"a\", \"b\"]; quote it for the shell");
    }
    values[key] = std::move(*value);
  }
  return values;
}

Result<json> read_responses(const std::string& path, port::Files& files) {
  if (path.empty()) {
    return json(json::object());
  }
  const auto text = files.read(path);
  auto value = text ? kube::parse_json(*text) : Result<json>(failure(text.error()));
  if (!value) {
    return failure(std::move(value.error()).within("--responses " + escaped(path)));
  }
  if (!value->is_object()) {
    return failure(Error::Kind::Invalid, "--responses " + escaped(path) + ": not an object",
                   R"(write {"http vendor /v2/nodes": {"status": 200, "body": ...}})");
  }
  return value;
}

Result<ReadyPolicy> ready_policy(const PolicyOptions& options, const PolicyGround& ground) {
  const std::string& path = options.paths.front();
  auto source = ground.files.read(path);
  if (!source) {
    return failure(std::move(source.error()));
  }
  auto subject = policy::load_subject(*source, path, ground.clock);
  if (!subject) {
    return failure(std::move(subject.error()));
  }
  const auto settings = parse_settings(options.set, subject->policy.settings());
  if (!settings) {
    return failure(Error(settings.error()));
  }
  auto stand = policy::set_up(subject->policy, *settings);
  if (!stand) {
    return failure(std::move(stand.error()));
  }
  return ReadyPolicy{.subject = *std::move(subject), .stand = *std::move(stand)};
}

PolicyOutput eval_policy(const PolicyOptions& options, const PolicyGround& ground) {
  const auto ready = ready_policy(options, ground);
  if (!ready) {
    return refused(ready.error());
  }
  const auto scene = scene_of(options, ground);
  if (!scene) {
    return refused(scene.error());
  }
  for (const std::string& need : policy::declared_needs(ready->stand.policy)) {
    if (const auto gap = scene->gaps.find(need); gap != scene->gaps.end()) {
      return refused(Error{.text = "the policy needs '" + need + "'", .hint = gap->second});
    }
  }
  const auto responses = read_responses(options.responses, ground.files);
  if (!responses) {
    return refused(responses.error());
  }
  const auto answer = policy::ask(ready->stand, *scene, {.by_request = *responses});
  return answer ? told(*answer, ready->subject, options.explain) : refused(answer.error());
}

}  // namespace moonfence::app
