#include "fuzz/config_maps.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "fuzz/finding.h"
#include "kube/calls/config_maps.h"
#include "loop/loop.h"
#include "policy/bundle/bindings.h"
#include "policy/bundle/bundle.h"
#include "policy/bundle/last_good.h"
#include "policy/bundle/reload.h"
#include "support/fake_poller.h"
#include "support/policies.h"

namespace moonfence::fuzz {
namespace {

const std::string kBuiltinPolicy =
    policy_text("return fence.skip(s.text)",
                "settings = { text = { type = 'string', default = 'x' }, "
                "count = { type = 'integer', default = 1, min = 0, max = 9, clamp = true }, "
                "pause = { type = 'duration', default = '30s', max = '1h' }, "
                "names = { type = 'list', of = 'string', default = { 'a' } } },");

kube::ConfigMap config_map_of(std::string_view text) {
  kube::ConfigMap map{.ref = {Namespace("moonfence"), "moonfence-policies"}, .uid = Uid("u")};
  constexpr std::string_view kMark = "=== ";
  for (std::size_t at = text.find(kMark); at != std::string_view::npos;) {
    const std::size_t next = text.find("\n=== ", at);
    const std::string_view entry = text.substr(
        at + kMark.size(), next == std::string_view::npos ? next : next - at - kMark.size());
    const std::size_t line_end = std::min(entry.find('\n'), entry.size());
    std::string key(entry.substr(0, line_end));
    std::string value(entry.substr(std::min(entry.size(), line_end + 1)));
    if (key.starts_with("binary:")) {
      map.binary_keys.insert(key.substr(7));
    } else {
      map.data[std::move(key)] = std::move(value);
    }
    at = next == std::string_view::npos ? next : next + 1;
  }
  return map;
}

// What the reloader came to.
class Listener final : public policy::Reloader::Listener {
 public:
  void activate(std::shared_ptr<const policy::PolicySet> set) override { set_ = std::move(set); }
  void report(const policy::ReloadReport& /*report*/,
              const std::vector<policy::ReloadNews>& /*news*/) override {}
  void persist(const policy::LastGood& good) override {
    const auto decoded = policy::decode_last_good(policy::encode_last_good(good));
    if (!decoded.faults.empty() || !(decoded.good == good)) {
      fuzz::report("what is kept for a restart does not come back as it was: " +
                   (decoded.faults.empty() ? "it differs" : decoded.faults.front()));
    }
  }
  [[nodiscard]] const policy::PolicySet* set() const { return set_.get(); }

 private:
  std::shared_ptr<const policy::PolicySet> set_;
};

// No binding may be in force beyond what the file, the key `mode` and its own line allow.
void check_modes(const policy::PolicySet& set, const policy::Bundle& bundle) {
  policy::Mode ceiling = bundle.mode.value_or(policy::Mode::Enforce);
  if (bundle.bindings) {
    const auto parsed = policy::parse_bindings(*bundle.bindings);
    ceiling = policy::lowest(ceiling, parsed.mode.value_or(policy::Mode::Enforce));
  }
  for (const policy::Binding& binding : set.bindings) {
    if (binding.mode > ceiling || binding.mode == policy::Mode::Off) {
      report("the binding of " + binding.name + " is in force as " +
             std::string(policy::to_string(binding.mode)) + ", above " +
             std::string(policy::to_string(ceiling)));
    }
    check_line("why a binding has no policy", binding.error);
  }
}

void reload(const kube::ConfigMap& map, const policy::Bundle& bundle) {
  test::FakePoller poller;
  loop::Loop loop(poller);
  StoppedCpuClock clock;
  Listener listener;
  policy::ReloadRules rules{.builtins = {{"test", kBuiltinPolicy}}};
  rules.validation.limits.instructions = 20'000;
  rules.validation.limits.cpu = std::chrono::milliseconds(250);
  policy::Reloader reloader(loop, clock, listener, std::move(rules));
  reloader.observe(&map, WallTime());
  if (!test::run_until(
          loop, [&] { return reloader.is_idle(); }, std::chrono::hours(1))) {
    report("the reload does not end");
  }
  if (listener.set() != nullptr) {
    check_modes(*listener.set(), bundle);
  }
  reloader.observe(nullptr, WallTime());
  (void)test::run_until(
      loop, [&] { return reloader.is_idle(); }, std::chrono::hours(1));
  if (listener.set() != nullptr && !listener.set()->bindings.empty()) {
    report("a binding outlives the ConfigMap");
  }
}

}  // namespace

void read_bindings(std::string_view text) {
  const policy::ParsedBindings parsed = policy::parse_bindings(text);
  if (!parsed.file) {
    return check_error(parsed.file.error(), policy::kBindingsKey);
  }
  const auto& bindings = parsed.file->bindings;
  if (bindings.size() > policy::kMostPolicies) {
    report(std::to_string(bindings.size()) + " bindings were accepted");
  }
  if (parsed.mode && *parsed.mode != parsed.file->mode) {
    report("two modes were read from one file");
  }
  for (auto binding = bindings.begin(); binding != bindings.end(); ++binding) {
    check_line("a place", binding->place);
    check_line("the namespaces", policy::to_text(binding->scope));
    if (binding->policy.empty() || !binding->settings.is_object()) {
      report("a binding without a policy or with odd settings was accepted");
    }
    if (std::any_of(std::next(binding), bindings.end(), [&](const policy::BindingSpec& other) {
          return binding->is_same_place(other);
        })) {
      report("two bindings of one policy and the same namespaces were accepted");
    }
  }
  static ThreadCpuClock clock;
  static const auto builtin = policy::Policy::load(kBuiltinPolicy, "test.lua", clock);
  for (const policy::BindingSpec& binding : bindings) {
    if (const auto configured = builtin->with_settings(binding.settings); !configured) {
      check_error(configured.error(), "test");
    }
  }
}

void read_config_map(std::string_view text) {
  const kube::ConfigMap map = config_map_of(text);
  const policy::Bundle bundle = policy::read_bundle(map, {"test"});
  if (bundle.fingerprint != policy::fingerprint_of(map)) {
    report("one ConfigMap has two fingerprints");
  }
  if (!bundle.mode_error.empty() && bundle.mode != policy::Mode::Off) {
    report("a mode that cannot be read is not off");
  }
  for (const std::string& key : bundle.unknown_keys) {
    check_line("an unknown key", key);
  }
  if (bundle.fault) {
    check_error(*bundle.fault, "");
  }
  for (const std::string& fault : policy::decode_last_good(map.data).faults) {
    check_line("a fault", fault);
  }
  reload(map, bundle);
}

}  // namespace moonfence::fuzz
