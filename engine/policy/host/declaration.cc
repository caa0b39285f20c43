#include "policy/host/declaration.h"

#include <array>
#include <chrono>
#include <string_view>

#include "base/text.h"
#include "policy/host/keys.h"
#include "policy/input/inputs.h"
#include "policy/lua/library.h"
#include "policy/lua/sandbox.h"
#include "policy/lua/spec.h"

namespace moonfence::policy {
namespace {

// Their addresses are registry keys: the table given to policy{}, and what it returned.
constexpr char kSpec = 's';
constexpr char kToken = 't';

constexpr std::size_t kLongestSummary = 256;
constexpr std::size_t kLongestDoc = 16U << 10U;
constexpr lua_Integer kMostFailures = 1000;
constexpr Duration kLongestInterval = std::chrono::hours(24);
constexpr Duration kShortestInterval = std::chrono::seconds(1);
constexpr Duration kLongestEvery = std::chrono::hours(1);
constexpr Duration kLongestExpiry = std::chrono::hours(24);
constexpr std::size_t kLongestNeed = 64;

void read_select(lua_State* lua, Declaration& declaration) {
  const SpecTable table = table_on_top(lua, "select");
  table.check_keys(kSelectKeys);
  if (!table.has("labels")) {
    return;
  }
  table.push("labels");
  if (lua_type(lua, -1) != LUA_TSTRING) {
    raise_spec_type(lua, "select.labels", "a text", -1);
  }
  auto selector = LabelSelector::parse(text_at(lua, -1));
  if (!selector) {
    raise_spec(lua, "select.labels", "cannot be used: " + selector.error().text);
  }
  declaration.selector = std::move(*selector);
  declaration.label_selector = std::string(trimmed(text_at(lua, -1)));
  lua_pop(lua, 1);
}

// One entry of `needs`, the text on top.
void add_need(lua_State* lua, const std::string& place, Needs& needs) {
  constexpr std::array<std::string_view, 4> kNeeds = {"volumes", "placement", "root_owner",
                                                      "siblings"};
  if (lua_type(lua, -1) != LUA_TSTRING) {
    raise_spec_type(lua, place, "a text", -1);
  }
  const std::string_view need = text_at(lua, -1);
  if (need == "volumes") {
    needs.volumes = true;
  } else if (need == "placement") {
    needs.placement = true;
  } else if (need == "root_owner") {
    needs.root_owner = true;
  } else if (need == "siblings") {
    needs.siblings = true;
  } else if (need == "volume_health") {
    raise_spec(lua, place,
               "is 'volume_health', which is no need: health comes through fetch, as the answer "
               "of the storage's own API");
  } else {
    raise_spec(
        lua, place,
        "is the unknown need '" + escaped(need, kLongestNeed) + "'" + did_you_mean(need, kNeeds));
  }
}

// The list on top.
Needs read_needs(lua_State* lua, const std::string& place) {
  constexpr lua_Unsigned kMostNeeds = 16;
  Needs needs;
  const SpecTable table = table_on_top(lua, place);
  const lua_Unsigned count = lua_rawlen(lua, table.index);
  if (count > kMostNeeds) {
    raise_spec(lua, place, "has more than " + std::to_string(kMostNeeds) + " entries");
  }
  for (lua_Unsigned i = 1; i <= count; ++i) {
    lua_rawgeti(lua, table.index, static_cast<lua_Integer>(i));
    add_need(lua, place + "[" + std::to_string(i) + "]", needs);
    lua_pop(lua, 1);
  }
  lua_pushnil(lua);
  for (lua_Unsigned keys = 0; lua_next(lua, table.index) != 0; lua_pop(lua, 1)) {
    if (++keys > count) {
      raise_spec(lua, place, "must be a plain list such as { 'volumes' }");
    }
  }
  return needs;
}

std::uint32_t read_failures(const SpecTable& table) {
  if (table.push("failures") == LUA_TNIL) {
    lua_pop(table.lua, 1);
    return 1;
  }
  const bool integer = lua_isinteger(table.lua, -1) != 0;
  const lua_Integer value = integer ? lua_tointeger(table.lua, -1) : 0;
  if (!integer || value < 1 || value > kMostFailures) {
    raise_spec(table.lua, table.place("failures"),
               "must be an integer from 1 to " + std::to_string(kMostFailures));
  }
  lua_pop(table.lua, 1);
  return static_cast<std::uint32_t>(value);
}

Trigger read_trigger(const SpecTable& table) {
  table.check_keys(kTriggerKeys);
  Trigger trigger;
  trigger.failures = read_failures(table);
  trigger.sweep = table.boolean_or("sweep", trigger.sweep);
  trigger.deleted = table.boolean_or("deleted", trigger.deleted);
  trigger.live_kubelet = table.boolean_or("live_kubelet", trigger.live_kubelet);
  trigger.live_kernel = table.boolean_or("live_kernel", trigger.live_kernel);
  const std::string place = table.place("interval");
  if (table.push("interval") != LUA_TNIL) {
    trigger.interval = duration_on_top(table.lua, place, true);
  }
  lua_pop(table.lua, 1);
  if (trigger.interval > kLongestInterval) {
    raise_spec(table.lua, place, "must not be longer than 24h");
  }
  if (trigger.failures > 1 && trigger.interval < kShortestInterval) {
    raise_spec(table.lua, place, "must be at least 1s when failures is more than 1");
  }
  return trigger;
}

Duration read_period(const SpecTable& table, std::string_view key, Duration shortest,
                     Duration longest) {
  const std::string place = table.place(key);
  table.push(key);
  const Duration period = duration_on_top(table.lua, place, true);
  if (period < shortest || period > longest) {
    raise_spec(table.lua, place,
               "must be from " + format_duration(shortest) + " to " + format_duration(longest));
  }
  lua_pop(table.lua, 1);
  return period;
}

Source read_source(const SpecTable& table) {
  table.check_keys(kSourceKeys);
  Source source;
  source.every = read_period(table, "every", kShortestInterval, kLongestEvery);
  source.expiry = read_period(table, "expiry", source.every, kLongestExpiry);
  for (const char* key : {"plan", "nodes"}) {
    table.push(key);
    if (lua_type(table.lua, -1) != LUA_TFUNCTION) {
      raise_spec_type(table.lua, table.place(key), "a function", -1);
    }
    lua_pop(table.lua, 1);
  }
  return source;
}

// Calls a function of settings, which is on top, and leaves the table that it returned.
void call_for_table(lua_State* lua, const char* key, const nlohmann::json& settings) {
  const std::string place = place_of_function(lua, -1);
  push_settings(lua, settings);
  lua_call(lua, 1, 1);
  if (lua_type(lua, -1) != LUA_TTABLE) {
    raise(lua, place + ": " + key + " returned " + described(lua, -1) + "; it must return a table");
  }
}

void read_name(const SpecTable& table, const Declaration& declaration) {
  const std::string name = table.text("name", 40);
  if (!is_identifier(name, '-')) {
    raise_spec(table.lua, "name",
               "is '" + escaped(name, 40) + "'; a name is [a-z][a-z0-9-]* of at most 40 letters");
  }
  if (name != declaration.name) {
    raise_spec(table.lua, "name",
               "is '" + name + "', but the file's name demands '" + declaration.name + "'");
  }
}

void read_api(const SpecTable& table) {
  table.push("api");
  if (lua_type(table.lua, -1) != LUA_TNUMBER) {
    raise_spec_type(table.lua, "api", "1", -1);
  }
  if (lua_isinteger(table.lua, -1) == 0 || lua_tointeger(table.lua, -1) != 1) {
    raise_spec(table.lua, "api", "must be 1; this engine speaks 1");
  }
  lua_pop(table.lua, 1);
}

// Runs `read` with the value of an optional key on top.
template <class Read>
void read_optional(const SpecTable& table, std::string_view key, Read read) {
  if (table.push(key) != LUA_TNIL) {
    read();
  }
  lua_settop(table.lua, table.index);
}

// Whether the key is there; what is there must be a function.
bool has_function(const SpecTable& table, const std::string& key) {
  const int type = table.push(key);
  if (type != LUA_TNIL && type != LUA_TFUNCTION) {
    raise_spec_type(table.lua, key, "a function", -1);
  }
  lua_pop(table.lua, 1);
  return type == LUA_TFUNCTION;
}

// What policies and fencers have in common.
void read_heading(const SpecTable& table, Declaration& declaration) {
  lua_State* lua = table.lua;
  read_api(table);
  read_name(table, declaration);
  declaration.version = table.text("version", 64);
  if (!is_semantic_version(declaration.version)) {
    raise_spec(lua, "version",
               "is '" + escaped(declaration.version, 64) +
                   "', which is no semantic version such as 1.0.0");
  }
  declaration.summary = escaped(table.text("summary", kLongestSummary), 2 * kLongestSummary);
  declaration.doc = table.text_or("doc", kLongestDoc, "");
  lua_settop(lua, table.index);
}

void read_fencer(lua_State* lua, Declaration& declaration) {
  const SpecTable table{.lua = lua, .index = 1, .name = "fencer"};
  table.check_keys(kFencerKeys);
  read_heading(table, declaration);
  read_optional(table, "settings", [&] { declaration.settings = read_settings(lua); });
  declaration.is_fencer = true;
  const bool isolates = has_function(table, "isolate");
  const bool switches_off = has_function(table, "off");
  if (isolates && switches_off) {
    raise_spec(lua, "isolate", "stands beside off; a fencer does one of them: make two");
  }
  declaration.act = isolates       ? FencerAct::Isolate
                    : switches_off ? FencerAct::SwitchOff
                                   : FencerAct::None;
  for (const char* key : {"plan", "state"}) {
    if (!has_function(table, key)) {
      raise_spec(lua, key, "is missing; it must be a function");
    }
  }
}

void read_declaration(lua_State* lua, Declaration& declaration) {
  const SpecTable table{.lua = lua, .index = 1, .name = "policy"};
  table.check_keys(kPolicyKeys);
  read_heading(table, declaration);
  read_optional(table, "select", [&] { read_select(lua, declaration); });
  read_optional(table, "needs", [&] {
    declaration.needs_by_settings = lua_type(lua, -1) == LUA_TFUNCTION;
    if (!declaration.needs_by_settings) {
      declaration.needs = read_needs(lua, "needs");
    }
  });
  read_optional(table, "settings", [&] { declaration.settings = read_settings(lua); });
  read_optional(table, "trigger", [&] {
    if (lua_type(lua, -1) != LUA_TFUNCTION) {
      declaration.trigger = read_trigger(table_on_top(lua, "trigger"));
    }
  });
  read_optional(table, "source", [&] {
    if (lua_type(lua, -1) != LUA_TFUNCTION) {
      declaration.source = read_source(table_on_top(lua, "source"));
    }
  });
  declaration.judges_node = has_function(table, "node");
  declaration.fetches = has_function(table, "fetch");
  declaration.node_fetches = has_function(table, "node_fetch");
  if (declaration.node_fetches && !declaration.judges_node) {
    raise_spec(lua, "node_fetch", "reads for a node function, and there is none");
  }
  if (!has_function(table, "pod")) {
    raise_spec(lua, "pod", "is missing; it must be a function");
  }
}

int declare(lua_State* lua, void (*read)(lua_State* lua, Declaration& declaration)) {
  Session& session = Sandbox::of(lua).session;
  if (session.declared || session.hook != Hook::None) {
    raise(lua, function_name(lua) +
                   ": called twice; a file declares one policy or fencer and "
                   "returns it");
  }
  table_argument(lua, 1);
  lua_settop(lua, 1);
  session.declared = true;
  if (session.declaration != nullptr) {
    read(lua, *session.declaration);
  }
  lua_rawsetp(lua, LUA_REGISTRYINDEX, &kSpec);
  lua_newuserdatauv(lua, 0, 0);
  lua_pushvalue(lua, -1);
  lua_rawsetp(lua, LUA_REGISTRYINDEX, &kToken);
  return 1;
}

int declare_policy(lua_State* lua) {
  return declare(lua, read_declaration);
}

int declare_fencer(lua_State* lua) {
  return declare(lua, read_fencer);
}

constexpr std::array<HostFunction, 2> kDeclaration = {{
    {"policy", declare_policy, "(declaration: PolicySpec): Policy",
     "Declares the policy; the file returns its result."},
    {"fencer", declare_fencer, "(declaration: FencerSpec): Policy",
     "Declares a fencer, in place of a policy."},
}};

}  // namespace

const Library& declaration_library() {
  static constexpr Library kLibrary{.name = "", .functions = kDeclaration};
  return kLibrary;
}

void push_declared(lua_State* lua, const char* key) {
  if (lua_rawgetp(lua, LUA_REGISTRYINDEX, &kSpec) != LUA_TTABLE) {
    return;
  }
  lua_pushstring(lua, key);
  lua_rawget(lua, -2);
  lua_remove(lua, -2);
}

bool is_declaration(lua_State* lua, int index) {
  lua_pushvalue(lua, index);
  const bool same =
      lua_rawgetp(lua, LUA_REGISTRYINDEX, &kToken) != LUA_TNIL && lua_rawequal(lua, -1, -2) != 0;
  lua_pop(lua, 2);
  return same;
}

void evaluate_needs(lua_State* lua, Declaration& declaration, const nlohmann::json& settings) {
  push_declared(lua, "needs");
  if (lua_type(lua, -1) == LUA_TFUNCTION) {
    const std::string place = place_of_function(lua, -1);
    call_for_table(lua, "needs", settings);
    declaration.needs = read_needs(lua, place + ": needs");
  }
  lua_pop(lua, 1);
}

void evaluate_trigger(lua_State* lua, Declaration& declaration, const nlohmann::json& settings) {
  push_declared(lua, "trigger");
  if (lua_type(lua, -1) != LUA_TFUNCTION) {
    lua_pop(lua, 1);
    return;
  }
  const std::string place = place_of_function(lua, -1);
  call_for_table(lua, "trigger", settings);
  declaration.trigger = read_trigger(table_on_top(lua, place + ": trigger"));
  lua_pop(lua, 1);
}

void evaluate_source(lua_State* lua, Declaration& declaration, const nlohmann::json& settings) {
  push_declared(lua, "source");
  if (lua_type(lua, -1) == LUA_TFUNCTION) {
    const std::string place = place_of_function(lua, -1);
    call_for_table(lua, "source", settings);
    declaration.source = read_source(table_on_top(lua, place + ": source"));
  }
  lua_pop(lua, 1);
}

void push_source_function(lua_State* lua, const char* key, const nlohmann::json& settings) {
  push_declared(lua, "source");
  if (lua_type(lua, -1) == LUA_TFUNCTION) {
    call_for_table(lua, "source", settings);
  }
  if (lua_type(lua, -1) == LUA_TTABLE) {
    lua_pushstring(lua, key);
    lua_rawget(lua, -2);
    lua_remove(lua, -2);
  }
}

std::string place_of_function(lua_State* lua, int index) {
  lua_Debug where{};
  lua_pushvalue(lua, index);
  lua_getinfo(lua, ">S", &where);
  if (where.linedefined <= 0) {
    return Sandbox::of(lua).file();
  }
  return std::string(where.short_src) + ":" + std::to_string(where.linedefined);
}

}  // namespace moonfence::policy
