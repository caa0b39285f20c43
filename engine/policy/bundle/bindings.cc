#include "policy/bundle/bindings.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/text.h"
#include "kube/text/yaml.h"
#include "kube/text/yaml_values.h"
#include "policy/lua/spec.h"

namespace moonfence::policy {
namespace {

using kube::Yaml;
using Words = std::span<const std::string_view>;

constexpr kube::YamlLimits kLimits{
    .bytes = 256U << 10U, .depth = 12, .values = 20'000, .plain = true};
constexpr std::size_t kMostNamespaces = 1024;

constexpr std::array<std::string_view, 3> kFileKeys = {"api", "mode", "bindings"};
constexpr std::array<std::string_view, 10> kBindingKeys = {
    "policy", "source",   "namespaces", "mode",  "settings",
    "allow",  "holdDown", "actOn",      "after", "onReject"};
constexpr std::array<std::string_view, 3> kModes = {"off", "observe", "enforce"};
constexpr std::array<std::string_view, 2> kOnReject = {"keep", "disable"};
constexpr std::array<std::string_view, 3> kActOn = {"down", "lost", "off"};  // in ActOn's order
constexpr std::array<std::string_view, 3> kAllow = {"out-of-service", "bare-pods", "finished-pods"};

// The first fault of the file; what is read after it does not matter.
class Reader {
 public:
  void refuse(int line, const std::string& field, const std::string& rule, std::string hint = {}) {
    if (!fault_) {
      fault_ = Error{.kind = Error::Kind::Invalid,
                     .text = at(line) + (field.empty() ? "" : field + ": ") + rule,
                     .hint = std::move(hint)};
    }
  }
  [[nodiscard]] const std::optional<Error>& fault() const { return fault_; }

  static std::string at(int line) {
    return std::string(kBindingsKey) + ":" + std::to_string(line) + ": ";
  }

  void check_keys(const Yaml& map, const std::string& field, Words known) {
    for (std::size_t i = 0; i < map.keys.size() && !fault_; ++i) {
      const std::string& key = map.keys[i];
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        refuse(map.key_lines[i], field,
               "unknown key '" + escaped(key, 64) + "'" + did_you_mean(key, known),
               "known are " + listed(known));
      } else if (map.items[i].kind == Yaml::Kind::Null) {
        refuse(map.key_lines[i], name(field, key), "has no value", "leave the key out instead");
      }
    }
  }

  // Null when it is missing, after refusing that.
  const Yaml* required(const Yaml& map, const std::string& field, std::string_view key,
                       const std::string& hint) {
    const Yaml* value = map.find(key);
    if (value == nullptr) {
      refuse(map.line, name(field, key), "is missing", hint);
    }
    return value;
  }

  std::string text(const Yaml& value, const std::string& field) {
    const auto json = to_json(value);
    if (!json || !json->is_string()) {
      refuse(value.line, field, "must be text, not " + described(value),
             value.kind == Yaml::Kind::Scalar ? "quote it if it is text" : "");
      return {};
    }
    return value.text;
  }

  // Its place among the known words, 0 after refusing it.
  std::size_t word(const Yaml& value, const std::string& field, Words known,
                   const std::string& what) {
    const std::string given = text(value, field);
    const auto found = std::find(known.begin(), known.end(), given);
    if (found == known.end()) {
      refuse(value.line, field,
             "'" + escaped(given, 64) + "' is no " + what + did_you_mean(given, known),
             "it must be one of " + listed(known));
      return 0;
    }
    return static_cast<std::size_t>(found - known.begin());
  }

  // False after refusing it.
  bool expect(const Yaml& value, Yaml::Kind kind, const std::string& field, const std::string& what,
              const std::string& hint = {}) {
    if (value.kind == kind) {
      return true;
    }
    refuse(value.line, field, "must be " + what + ", not " + described(value), hint);
    return false;
  }

  static std::string name(const std::string& field, std::string_view key) {
    return field.empty() ? std::string(key) : field + "." + std::string(key);
  }
  static std::string name(const std::string& field, std::size_t index) {
    return field + "[" + std::to_string(index) + "]";
  }

 private:
  static std::string listed(Words words) {
    std::string out;
    for (const std::string_view word : words) {
      out += (out.empty() ? "" : ", ") + std::string(word);
    }
    return out;
  }

  std::optional<Error> fault_;
};

NamespaceScope read_namespaces(Reader& reader, const Yaml& value, const std::string& field) {
  std::set<Namespace> names;
  bool everywhere = false;
  if (!reader.expect(value, Yaml::Kind::Sequence, field, "a list of namespaces",
                     R"(write ["*"] for all of them)")) {
    return NamespaceScope::of({});
  }
  if (value.items.empty() || value.items.size() > kMostNamespaces) {
    reader.refuse(value.line, field,
                  value.items.empty()
                      ? "is empty, so the policy would run nowhere"
                      : "has more than " + std::to_string(kMostNamespaces) + " names",
                  R"(name namespaces, or write ["*"] for all of them)");
  }
  for (std::size_t i = 0; i < value.items.size() && !reader.fault(); ++i) {
    const std::string place = Reader::name(field, i);
    const std::string text = reader.text(value.items[i], place);
    if (text == "*") {
      everywhere = true;
      continue;
    }
    if (!reader.fault() && !is_dns_label(text)) {
      reader.refuse(value.items[i].line, place, "'" + escaped(text, 80) + "' is no namespace",
                    "a name is [a-z0-9-], at most 63 long; patterns do not exist but for \"*\"");
    }
    if (!names.insert(Namespace(text)).second) {
      reader.refuse(value.items[i].line, place, "'" + text + "' is given twice");
    }
  }
  if (everywhere && value.items.size() > 1) {
    reader.refuse(value.line, field, "'*' already means every namespace; it must stand alone");
  }
  return everywhere ? NamespaceScope::everywhere() : NamespaceScope::of(std::move(names));
}

Allowances read_allow(Reader& reader, const Yaml& value, const std::string& field) {
  Allowances allow;
  if (!reader.expect(value, Yaml::Kind::Sequence, field, "a list")) {
    return allow;
  }
  const std::array<bool*, kAllow.size()> flags = {&allow.out_of_service, &allow.bare_pods,
                                                  &allow.finished_pods};
  for (std::size_t i = 0; i < value.items.size() && !reader.fault(); ++i) {
    const std::string place = Reader::name(field, i);
    bool& flag = *flags.at(reader.word(value.items[i], place, kAllow, "allowance"));
    if (flag) {
      reader.refuse(value.items[i].line, place,
                    "'" + escaped(value.items[i].text, 64) + "' is given twice");
    }
    flag = true;
  }
  return allow;
}

Duration read_hold_down(Reader& reader, const Yaml& value, const std::string& field) {
  constexpr Duration kLongest = std::chrono::hours(24);
  const auto given = value.kind == Yaml::Kind::Scalar ? parse_duration(value.text) : std::nullopt;
  if (!given || *given < Duration::zero() || *given > kLongest) {
    reader.refuse(value.line, field, "must be a duration up to 24h, not " + described(value),
                  "the default is 10s; 0s acts on the kubelet's first word");
    return kHoldDown;
  }
  return *given;
}

// A link that is down for some seconds is no dead machine. `demanded`: by the engine's
// configuration.
Duration read_after(Reader& reader, const Yaml& value, const std::string& field, ActOn act_on,
                    Duration demanded) {
  const Duration own = act_on == ActOn::Off ? kLeastOffAfter : kLostAfter;
  const Duration least = std::max(own, demanded);
  const auto given = value.kind == Yaml::Kind::Scalar ? parse_duration(value.text) : std::nullopt;
  if (given && *given >= least && *given <= kLongestAfter) {
    return *given;
  }
  const std::string from = format_duration(least);
  const bool is_demanded = demanded > own;
  reader.refuse(
      value.line, field,
      "must be a duration from " + from + " to 1h, not " + described(value) +
          (is_demanded ? ", since the engine's configuration says leastAfter: " + from : ""),
      is_demanded ? "write " + from +
                        " or more; what it costs to lower leastAfter there is in docs/detection.md"
                  : "what it costs to act earlier is in docs/detection.md; without it lost is "
                    "12s, off 1m");
  return least;
}

// In place of Kubernetes' word.
void read_act_on(Reader& reader, const Yaml& value, const std::string& field, Duration least_after,
                 Allowances& into) {
  const Yaml* act_on = value.find("actOn");
  const Yaml* after = value.find("after");
  if (act_on == nullptr) {
    if (after != nullptr) {
      reader.refuse(after->line, Reader::name(field, "after"), "says nothing without actOn",
                    "write actOn: lost or actOn: off beside it, or leave it out");
    }
    return;
  }
  const auto word = reader.word(*act_on, Reader::name(field, "actOn"), kActOn, "signal");
  if (reader.fault() || word == 0) {
    return;
  }
  into.act_on = static_cast<ActOn>(word);
  into.after =
      after != nullptr
          ? read_after(reader, *after, Reader::name(field, "after"), into.act_on, least_after)
          : std::max(into.act_on == ActOn::Off ? kOffAfter : kLostAfter, least_after);
}

nlohmann::json read_settings_map(Reader& reader, const Yaml& value, const std::string& field) {
  nlohmann::json settings = nlohmann::json::object();
  if (!reader.expect(value, Yaml::Kind::Map, field, "a map of settings")) {
    return settings;
  }
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    auto converted = to_json(value.items[i]);
    if (!converted) {
      reader.refuse(value.key_lines[i], Reader::name(field, escaped(value.keys[i], 64)),
                    converted.error().text, converted.error().hint);
      return settings;
    }
    settings[value.keys[i]] = *std::move(converted);
  }
  return settings;
}

// The source holds the policy of its own name, so the two must agree.
void check_source(Reader& reader, const BindingSpec& binding, const Yaml& value,
                  const std::string& field) {
  const std::string wanted = binding.policy + ".lua";
  if (reader.fault() || binding.source == kBuiltin || binding.source == wanted) {
    return;
  }
  const std::array<std::string_view, 2> known = {kBuiltin, wanted};
  reader.refuse(value.line, field,
                "'" + escaped(binding.source, 80) + "' cannot hold policy " + binding.policy +
                    did_you_mean(binding.source, known),
                "a policy's name equals its file's: write builtin or " + wanted);
}

BindingSpec read_binding(Reader& reader, const Yaml& value, const std::string& field,
                         Duration least_after) {
  BindingSpec binding;
  binding.place = Reader::at(value.line) + field;
  if (!reader.expect(value, Yaml::Kind::Map, field, "a map")) {
    return binding;
  }
  reader.check_keys(value, field, kBindingKeys);
  if (const Yaml* policy = reader.required(value, field, "policy", "name the policy to bind")) {
    const std::string place = Reader::name(field, "policy");
    binding.policy = reader.text(*policy, place);
    if (!reader.fault() && !is_identifier(binding.policy, '-')) {
      reader.refuse(policy->line, place, "'" + escaped(binding.policy, 64) + "' names no policy",
                    "a name is [a-z][a-z0-9-]* of at most 40 letters, without .lua");
    }
  }
  if (const Yaml* source = value.find("source")) {
    const std::string place = Reader::name(field, "source");
    binding.source = reader.text(*source, place);
    check_source(reader, binding, *source, place);
  }
  if (const Yaml* spaces =
          reader.required(value, field, "namespaces",
                          R"(name the namespaces it may act in, or write ["*"] for all)")) {
    binding.scope = read_namespaces(reader, *spaces, Reader::name(field, "namespaces"));
  }
  if (const Yaml* mode = value.find("mode")) {
    binding.mode =
        *parse_mode(kModes.at(reader.word(*mode, Reader::name(field, "mode"), kModes, "mode")));
  }
  if (const Yaml* settings = value.find("settings")) {
    binding.settings = read_settings_map(reader, *settings, Reader::name(field, "settings"));
  }
  if (const Yaml* allow = value.find("allow")) {
    binding.allow = read_allow(reader, *allow, Reader::name(field, "allow"));
  }
  if (const Yaml* hold_down = value.find("holdDown")) {
    binding.hold_down = read_hold_down(reader, *hold_down, Reader::name(field, "holdDown"));
  }
  read_act_on(reader, value, field, least_after, binding.allow);
  if (const Yaml* on_reject = value.find("onReject")) {
    binding.on_reject =
        reader.word(*on_reject, Reader::name(field, "onReject"), kOnReject, "answer") == 0
            ? BindingSpec::OnReject::Keep
            : BindingSpec::OnReject::Disable;
  }
  return binding;
}

void read_api(Reader& reader, const Yaml& root) {
  const Yaml* api = reader.required(root, "", "api", "begin the file with: api: 1");
  if (api == nullptr) {
    return;
  }
  const auto version = to_json(*api);
  if (!version || *version != nlohmann::json(1)) {
    reader.refuse(api->line, "api", "must be 1, not " + described(*api),
                  "this engine knows version 1 only");
  }
}

std::vector<BindingSpec> read_bindings(Reader& reader, const Yaml& root, Duration least_after) {
  std::vector<BindingSpec> bindings;
  const Yaml* list = reader.required(root, "", "bindings", "write [] to bind nothing");
  if (list == nullptr || !reader.expect(*list, Yaml::Kind::Sequence, "bindings", "a list")) {
    return bindings;
  }
  if (list->items.size() > kMostPolicies) {
    reader.refuse(list->line, "bindings",
                  "has " + std::to_string(list->items.size()) + " entries, at most " +
                      std::to_string(kMostPolicies) + " are allowed");
  }
  for (std::size_t i = 0; i < list->items.size() && !reader.fault(); ++i) {
    const std::string field = Reader::name("bindings", i);
    bindings.push_back(read_binding(reader, list->items[i], field, least_after));
    const auto is_same = [&last = bindings.back()](const BindingSpec& other) {
      return last.is_same_place(other);
    };
    if (std::any_of(bindings.begin(), bindings.end() - 1, is_same)) {
      reader.refuse(
          list->items[i].line, field,
          "policy '" + bindings.back().policy + "' is bound to these namespaces twice",
          "one policy may have several bindings, each with namespaces of its own; for the same "
          "ones one for each actOn: down, lost, off");
    }
  }
  return bindings;
}

Error unreadable(Error error) {
  const bool is_star = error.text.find("alias") != std::string::npos;
  std::string place(kBindingsKey);
  constexpr std::string_view kLine = "line ";
  if (error.text.starts_with(kLine)) {
    place += ":";
    error.text.erase(0, kLine.size());
  } else {
    place += ": ";
  }
  error.text.insert(0, place);
  error.hint = is_star ? R"(a * begins an alias; in quotes it is text: "*")"
                       : "the file is YAML 1.2; `moonfence policy check moonfence.yaml` reads it "
                         "without a cluster";
  return error;
}

}  // namespace

ParsedBindings parse_bindings(std::string_view text, Duration least_after) {
  if (!is_utf8(text)) {
    return {.file = failure(Error::Kind::Invalid, std::string(kBindingsKey) + ": is not UTF-8"),
            .mode = std::nullopt};
  }
  auto root = kube::parse_yaml(text, kLimits);
  if (!root) {
    return {.file = failure(unreadable(std::move(root.error()))), .mode = std::nullopt};
  }
  Reader reader;
  if (root->kind != Yaml::Kind::Map) {
    reader.refuse(std::max(root->line, 1), "",
                  "must be a map with the keys api, mode and bindings, not " + described(*root));
    return {.file = failure(*reader.fault()), .mode = std::nullopt};
  }
  std::optional<Mode> mode;
  if (const Yaml* given = root->find("mode")) {
    Reader word;
    mode = parse_mode(kModes.at(word.word(*given, "mode", kModes, "mode")));
    if (word.fault()) {
      mode = Mode::Off;  // who wrote it wanted a limit; which one is not for us to guess
      reader.refuse(given->line, "mode",
                    "'" + escaped(given->text, 64) + "' is no mode" +
                        did_you_mean(given->text, kModes) + "; until it is one, it counts as off",
                    "it must be one of off, observe, enforce");
    }
  }
  reader.check_keys(*root, "", kFileKeys);
  read_api(reader, *root);
  BindingsFile file{.mode = mode.value_or(Mode::Enforce),
                    .bindings = read_bindings(reader, *root, least_after)};
  if (reader.fault()) {
    return {.file = failure(*reader.fault()), .mode = mode};
  }
  return {.file = std::move(file), .mode = mode};
}

std::string to_text(const NamespaceScope& scope) {
  if (scope.is_everywhere()) {
    return "*";
  }
  std::string out;
  for (const Namespace& name : scope.names()) {
    out += (out.empty() ? "" : ", ") + name.text();
  }
  return out;
}

}  // namespace moonfence::policy
