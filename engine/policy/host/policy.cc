#include "policy/host/policy.h"

#include <utility>

#include "base/sha256.h"
#include "base/text.h"
#include "policy/host/declaration.h"
#include "policy/host/policy_state.h"
#include "policy/host/program.h"
#include "policy/host/scan.h"
#include "policy/lua/sandbox.h"
#include "policy/lua/spec.h"

namespace moonfence::policy {
namespace {

struct FileName {
  std::string policy;   // "noobaa"
  std::string display;  // "noobaa.lua", "noobaa/policy.lua"
};

Result<FileName> parse_file_name(std::string_view file) {
  constexpr std::string_view kExtension = ".lua";
  const auto parts = split(file, '/');
  const std::string base(parts.back());
  FileName name{.policy = base, .display = base};
  if ((base == "policy.lua" || base == "fencer.lua") && parts.size() > 1) {
    name.policy = parts[parts.size() - 2];
    name.display = name.policy + "/" + base;
  } else if (base.ends_with(kExtension)) {
    name.policy.resize(base.size() - kExtension.size());
  }
  if (!is_identifier(name.policy, '-')) {
    return failure(Error::Kind::Invalid,
                   escaped(file, 256) + ": '" + escaped(name.policy, 64) +
                       "' cannot name a policy; a name is [a-z][a-z0-9-]* of at most 40 letters",
                   "name the file NAME.lua, or policy.lua in a folder NAME");
  }
  return name;
}

struct LoadJob {
  const Program& program;
  Declaration& declaration;
  Scan scan;
  Compiled compiled = {};
};

// What the text alone gives away is reported before anything of it runs.
void load_policy(lua_State* lua, void* context) {
  LoadJob& job = *static_cast<LoadJob*>(context);
  Sandbox& sandbox = Sandbox::of(lua);
  const Duration started = job.program.clock->thread_time();
  compile(lua, job.program);
  sandbox.check_compile_time(lua, started);
  job.scan = scan_chunk(lua);
  raise_first(lua, job.scan, job.program.file);
  job.compiled = Compiled::of_top(lua);
  run_declaration(lua, job.program);
  compare_with(job.declaration, job.scan);
  raise_first(lua, job.scan, job.program.file);
  const auto values = default_values(job.declaration.settings);
  evaluate_needs(lua, job.declaration, values);
  evaluate_trigger(lua, job.declaration, values);
  evaluate_source(lua, job.declaration, values);
}

// What depends on the settings, once more with those of a binding.
void settle_policy(lua_State* lua, void* context) {
  const auto& job = *static_cast<LoadJob*>(context);
  job.program.compiled.push(lua, job.program.file);
  run_declaration(lua, job.program);
  evaluate_needs(lua, job.declaration, *job.program.settings);
  evaluate_trigger(lua, job.declaration, *job.program.settings);
  evaluate_source(lua, job.declaration, *job.program.settings);
}

}  // namespace

Result<Policy> Policy::load(std::string source, const std::string& file, port::CpuClock& clock,
                            Limits limits) {
  auto name = parse_file_name(file);
  if (!name) {
    return failure(std::move(name.error()));
  }
  if (source.size() > limits.source_bytes) {
    return failure(Error::Kind::Limit, name->display + ": the source has " +
                                           std::to_string(source.size()) + " of " +
                                           std::to_string(limits.source_bytes) + " bytes");
  }
  auto state = std::make_unique<State>();
  state->declaration.name = name->policy;
  state->program = Program{
      .source = std::move(source), .file = name->display, .limits = limits, .clock = &clock};
  LoadJob job{.program = state->program, .declaration = state->declaration};
  {
    Sandbox sandbox(clock, limits, state->program.file);
    sandbox.session.declaration = &state->declaration;
    if (auto loaded = sandbox.run(load_policy, &job); !loaded) {
      return failure(std::move(loaded.error()));
    }
  }
  state->program.compiled = std::move(job.compiled);
  state->warnings = texts_of(std::move(job.scan.warnings), state->program.file);
  state->guard = job.scan.forbids || job.scan.demands_proof ||
                 (job.scan.holds && !state->declaration.judges_node);
  state->acts = job.scan.acts;
  state->program.needs = state->declaration.needs;
  state->program.fetches = state->declaration.fetches;
  state->program.node_fetches = state->declaration.node_fetches;
  state->program.settings =
      std::make_shared<const nlohmann::json>(default_values(state->declaration.settings));
  state->source_digest = sha256_hex(state->program.source);
  state->digest = state->source_digest;
  return Policy(std::move(state));
}

Result<Policy> Policy::with_settings(const nlohmann::json& values, Trace* trace) const {
  auto settled = settle(state_->declaration.settings, values);
  if (!settled) {
    return failure(std::move(settled.error()).within(state_->program.file));
  }
  auto state = std::make_unique<State>(*state_);
  state->notices = std::move(settled->notices);
  state->program.trace = trace;
  state->program.settings = std::make_shared<const nlohmann::json>(std::move(settled->values));
  LoadJob job{.program = state->program, .declaration = state->declaration};
  Sandbox sandbox(*state->program.clock, state->program.limits, state->program.file);
  if (trace != nullptr) {
    sandbox.start_trace(*trace);
  }
  if (auto loaded = sandbox.run(settle_policy, &job); !loaded) {
    return failure(std::move(loaded.error()));
  }
  state->program.needs = state->declaration.needs;
  // One and the same text for equal values: objects are ordered by their keys.
  if (*state->program.settings != default_values(state->declaration.settings)) {
    state->digest = sha256_hex(
        state->program.source + '\0' +
        state->program.settings->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    state->digest = state->source_digest;
  }
  return Policy(std::move(state));
}

Policy::Policy(std::unique_ptr<State> state) : state_(std::move(state)) {}
Policy::Policy(Policy&&) noexcept = default;
Policy& Policy::operator=(Policy&&) noexcept = default;
Policy::~Policy() = default;

const std::string& Policy::name() const {
  return state_->declaration.name;
}
const std::string& Policy::version() const {
  return state_->declaration.version;
}
const std::string& Policy::summary() const {
  return state_->declaration.summary;
}
const std::string& Policy::doc() const {
  return state_->declaration.doc;
}
const std::string& Policy::label_selector() const {
  return state_->declaration.label_selector;
}
bool Policy::selects(const kube::Labels& labels) const {
  return state_->declaration.selector.matches(labels);
}
nlohmann::json Policy::made_selectable(nlohmann::json pod) const {
  nlohmann::json& metadata = pod["metadata"];
  const auto labels = state_->declaration.selector.made_to_match(
      metadata.value("labels", nlohmann::json::object()).get<kube::Labels>());
  if (!labels) {
    return {};
  }
  if (!labels->empty()) {
    metadata["labels"] = *labels;
  } else {
    metadata.erase("labels");
  }
  return pod;
}
const Needs& Policy::needs() const {
  return state_->declaration.needs;
}
const Trigger& Policy::trigger() const {
  return state_->declaration.trigger;
}
const std::optional<Source>& Policy::health_source() const {
  return state_->declaration.source;
}
bool Policy::judges_node() const {
  return state_->declaration.judges_node;
}
bool Policy::fetches() const {
  return state_->declaration.fetches;
}
bool Policy::node_fetches() const {
  return state_->declaration.node_fetches;
}
bool Policy::is_fencer() const {
  return state_->declaration.is_fencer;
}

FencerAct Policy::act() const {
  return state_->declaration.act;
}

bool Policy::is_guard() const {
  return state_->guard;
}
bool Policy::can_act() const {
  return state_->acts;
}
const DeclaredSettings& Policy::settings() const {
  return state_->declaration.settings;
}
const nlohmann::json& Policy::settings_values() const {
  return *state_->program.settings;
}
const std::vector<std::string>& Policy::notices() const {
  return state_->notices;
}
const std::vector<std::string>& Policy::warnings() const {
  return state_->warnings;
}
const std::string& Policy::source() const {
  return state_->program.source;
}
const std::string& Policy::file() const {
  return state_->program.file;
}
const std::string& Policy::digest() const {
  return state_->digest;
}
const std::string& Policy::source_digest() const {
  return state_->source_digest;
}

}  // namespace moonfence::policy
