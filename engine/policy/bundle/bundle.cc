#include "policy/bundle/bundle.h"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "base/text.h"
#include "kube/text/json.h"
#include "policy/bundle/bindings.h"
#include "policy/lua/spec.h"

namespace moonfence::policy {
namespace {

constexpr std::string_view kSource = ".lua";
constexpr std::string_view kTest = "_test.lua";
constexpr std::string_view kFixture = ".json";
constexpr std::size_t kMostUnknownKeys = 100;

// The policy a key belongs to by its form; "" for a key of no form.
std::string owner_of(std::string_view key) {
  std::string_view name;
  if (key.ends_with(kTest)) {
    name = key.substr(0, key.size() - kTest.size());
  } else if (key.ends_with(kSource)) {
    name = key.substr(0, key.size() - kSource.size());
  } else if (key.ends_with(kFixture)) {
    const auto dot = key.find('.');
    // Between the two dots stands the fixture's own name.
    name = dot + 1 < key.size() - kFixture.size() ? key.substr(0, dot) : std::string_view();
  }
  return is_identifier(name, '-') ? std::string(name) : std::string();
}

// The nearest key that would be read: one of the fixed ones, or the same stem with a right ending.
std::string with_nearest(const std::string& key) {
  const std::string stem = lower_cased(key.substr(0, key.find_first_of("._")));
  const std::string source = stem + std::string(kSource);
  const std::string test = stem + std::string(kTest);
  std::vector<std::string_view> known = {kBindingsKey, kModeKey};
  if (is_identifier(stem, '-')) {
    known.insert(known.end(), {source, test});
  }
  const auto found = nearest(key, known);
  const std::string shown = escaped(key, 128);
  if (found && *found != key) {
    return shown + " (did you mean " + *found + "?)";
  }
  return shown + " (keys are moonfence.yaml, mode, NAME.lua, NAME_test.lua, NAME.<fixture>.json)";
}

// The first of them with what each may have meant, which is dear to find out; the rest is counted.
class UnknownKeys {
 public:
  [[nodiscard]] bool is_full() const { return lines_.size() >= kMostUnknownKeys; }
  template <typename Line>
  void add(const Line& line) {
    if (is_full()) {
      ++more_;
    } else {
      lines_.push_back(line());
    }
  }
  [[nodiscard]] std::vector<std::string> take() {
    std::sort(lines_.begin(), lines_.end());
    if (more_ > 0) {
      lines_.push_back("and " + std::to_string(more_) + " more");
    }
    return std::move(lines_);
  }

 private:
  std::vector<std::string> lines_;
  std::size_t more_ = 0;
};

void read_mode(Bundle& bundle, std::string_view text) {
  constexpr std::array<std::string_view, 3> kModes = {"off", "observe", "enforce"};
  const std::string_view word = trimmed(text);
  bundle.mode = parse_mode(word);
  if (!bundle.mode) {
    bundle.mode = Mode::Off;
    bundle.mode_error = "key mode: '" + escaped(word, 64) + "' is no mode" +
                        did_you_mean(word, kModes) +
                        "; it must be off, observe or enforce, and counts as off until it is";
  }
}

void read_file(Bundle& bundle, const std::string& owner, const std::string& key,
               const std::string& text) {
  PolicyFiles& files = bundle.policies[owner];
  if (key.ends_with(kTest)) {
    files.test = text;
  } else if (key.ends_with(kSource)) {
    files.source = text;
  } else {
    files.fixtures[key] = text;
  }
}

// Tests and fixtures of nobody: their policy's key is misspelled, or theirs is.
void report_orphans(Bundle& bundle, const std::set<std::string>& builtins, UnknownKeys& unknown) {
  // At most kMostPolicies have a source, and the rest is compared only while it can be told.
  std::vector<std::string_view> known(builtins.begin(), builtins.end());
  for (const auto& [name, files] : bundle.policies) {
    if (files.source) {
      known.emplace_back(name);
    }
  }
  for (auto each = bundle.policies.begin(); each != bundle.policies.end();) {
    const auto& [name, files] = *each;
    if (files.source || builtins.contains(name)) {
      ++each;
      continue;
    }
    const std::string& owner = each->first;
    std::string why;
    if (!unknown.is_full()) {
      why.append(" (there is no policy '").append(name).append("'");
      why.append(did_you_mean(name, known)).append(")");
    }
    if (files.test) {
      unknown.add([&] { return std::string(owner).append(kTest).append(why); });
    }
    for (const auto& each_fixture : files.fixtures) {
      unknown.add([&] { return escaped(each_fixture.first, 128) + why; });
    }
    each = bundle.policies.erase(each);
  }
}

void check_size(Bundle& bundle, const kube::ConfigMap& map) {
  std::size_t bytes = 0;
  for (const auto& [key, text] : map.data) {
    bytes += text.size();
  }
  const auto sources = std::count_if(bundle.policies.begin(), bundle.policies.end(),
                                     [](const auto& each) { return each.second.source; });
  if (bytes > kMostSetBytes) {
    bundle.fault =
        Error{.kind = Error::Kind::Limit,
              .text = "ConfigMap " + map.ref.text() + ": its texts have " + std::to_string(bytes) +
                      " of " + std::to_string(kMostSetBytes) + " bytes",
              .hint = "leave out fixtures that only tests at home need"};
  } else if (static_cast<std::size_t>(sources) > kMostPolicies) {
    bundle.fault =
        Error{.kind = Error::Kind::Limit,
              .text = "ConfigMap " + map.ref.text() + ": it has " + std::to_string(sources) +
                      " of " + std::to_string(kMostPolicies) + " policies"};
  }
}

void read_binary_keys(Bundle& bundle, const kube::ConfigMap& map, UnknownKeys& unknown) {
  bundle.binary_keys = map.binary_keys;
  for (const std::string& key : map.binary_keys) {
    unknown.add([&key] {
      return escaped(key, 128) + " (binaryData is not read; save the file as UTF-8 text)";
    });
  }
  if (map.binary_keys.contains(std::string(kModeKey))) {
    bundle.mode = Mode::Off;
    bundle.mode_error = "key mode: is in binaryData, which is not read, and counts as off";
  }
  if (map.binary_keys.contains(std::string(kBindingsKey))) {
    bundle.fault = Error{.kind = Error::Kind::Invalid,
                         .text = std::string(kBindingsKey) + ": is in binaryData, so no UTF-8 text",
                         .hint = "save the file as UTF-8 and apply it again"};
  }
}

}  // namespace

std::string fingerprint_of(const kube::ConfigMap& map) {
  nlohmann::json all = {{"data", map.data}, {"binary", map.binary_keys}};
  return sha256_hex(kube::to_text(all));
}

Bundle read_bundle(const kube::ConfigMap& map, const std::set<std::string>& builtins) {
  Bundle bundle;
  UnknownKeys unknown;
  bundle.fingerprint = fingerprint_of(map);
  for (const auto& [key, text] : map.data) {
    if (key == kBindingsKey) {
      bundle.bindings = text;
    } else if (key == kModeKey) {
      read_mode(bundle, text);
    } else if (const std::string owner = owner_of(key); !owner.empty()) {
      read_file(bundle, owner, key, text);
    } else {
      unknown.add([&key_text = key] { return with_nearest(key_text); });
    }
  }
  check_size(bundle, map);
  if (!bundle.fault) {
    report_orphans(bundle, builtins, unknown);
  }
  read_binary_keys(bundle, map, unknown);
  bundle.unknown_keys = unknown.take();
  return bundle;
}

}  // namespace moonfence::policy
