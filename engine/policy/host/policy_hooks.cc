// Running the functions of a policy: each in a fresh state, from what its text was compiled to.

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "policy/host/declaration.h"
#include "policy/host/policy.h"
#include "policy/host/policy_state.h"
#include "policy/host/request_values.h"
#include "policy/host/verdicts.h"
#include "policy/input/inputs.h"
#include "policy/input/node_conditions.h"
#include "policy/lua/library.h"
#include "policy/lua/sandbox.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

template <class T>
struct HookJob {
  const Program& program;
  Hook hook;
  T (*body)(lua_State* lua, const Program& program);
  T result;
};

template <class T>
void run_job(lua_State* lua, void* context) {
  auto& job = *static_cast<HookJob<T>*>(context);
  job.program.compiled.push(lua, job.program.file);
  run_declaration(lua, job.program);
  Session& session = Sandbox::of(lua).session;
  session.hook = job.hook;
  session.prepared = Sandbox::of(lua).cpu_used();
  job.result = job.body(lua, job.program);
}

template <class T>
Run<T> run_hook(const Program& program, Hook hook, Inputs inputs,
                T (*body)(lua_State* lua, const Program& program), Trace* trace = nullptr) {
  Sandbox sandbox(*program.clock, program.limits, program.file);
  inputs.settings = program.settings;
  inputs.planned = planned_of(inputs.node.get());
  sandbox.session.inputs = std::make_shared<const Inputs>(std::move(inputs));
  sandbox.session.needs = program.needs;
  sandbox.session.fetches = program.fetches;
  sandbox.session.node_fetches = program.node_fetches;
  if (trace == nullptr) {
    trace = program.trace;
  }
  if (trace != nullptr) {
    sandbox.start_trace(*trace);
  }
  HookJob<T> job{.program = program, .hook = hook, .body = body, .result = {}};
  auto ran = sandbox.run(run_job<T>, &job);
  Run<T> run{.result = std::move(job.result),
             .usage = sandbox.usage(),
             .log = std::move(sandbox.session.log),
             .log_dropped = sandbox.session.log_dropped};
  if (!ran) {
    run.result = failure(std::move(ran.error()));
  }
  return run;
}

// What policy{} was called with may have been changed since it was loaded.
void require_function(lua_State* lua, const Program& program, const char* name) {
  if (lua_type(lua, -1) != LUA_TFUNCTION) {
    raise(lua, program.file + ": " + name + " is " + described(lua, -1) +
                   " now; it was a function at load");
  }
}

Verdict judge_pod(lua_State* lua, const Program& program) {
  push_declared(lua, "pod");
  require_function(lua, program, "pod");
  const std::string place = place_of_function(lua, -1);
  push_pod(lua);
  push_settings(lua, *program.settings);
  push_cluster(lua);
  push_node(lua);
  lua_call(lua, 4, 1);
  return take_verdict(lua, -1, place);
}

NodeVerdict judge(lua_State* lua, const Program& program) {
  push_declared(lua, "node");
  require_function(lua, program, "node");
  const std::string place = place_of_function(lua, -1);
  push_node(lua);
  push_settings(lua, *program.settings);
  push_cluster(lua);
  lua_call(lua, 3, 1);
  return take_node_verdict(lua, -1, place);
}

Requests fetch(lua_State* lua, const Program& program) {
  push_declared(lua, "fetch");
  require_function(lua, program, "fetch");
  const std::string place = place_of_function(lua, -1);
  push_pod(lua);
  push_settings(lua, *program.settings);
  push_answers(lua);
  lua_call(lua, 3, 1);
  return take_requests(lua, -1, place + ": fetch", *Sandbox::of(lua).session.inputs->answers);
}

Requests node_fetch(lua_State* lua, const Program& program) {
  push_declared(lua, "node_fetch");
  require_function(lua, program, "node_fetch");
  const std::string place = place_of_function(lua, -1);
  push_node(lua);
  push_settings(lua, *program.settings);
  push_answers(lua);
  lua_call(lua, 3, 1);
  return take_requests(lua, -1, place + ": node_fetch", *Sandbox::of(lua).session.inputs->answers);
}

Requests plan(lua_State* lua, const Program& program) {
  push_source_function(lua, "plan", *program.settings);
  require_function(lua, program, "source.plan");
  const std::string place = place_of_function(lua, -1);
  push_settings(lua, *program.settings);
  push_answers(lua);
  lua_call(lua, 2, 1);
  return take_requests(lua, -1, place + ": source.plan", *Sandbox::of(lua).session.inputs->answers);
}

// ---- the states of nodes ---------------------------------------------------------------------

constexpr std::size_t kMostNodes = 20'000;
constexpr std::size_t kLongestNodeName = 253;
constexpr std::uint64_t kUnitsANode = 16;

std::optional<NodeHealth> parse_health(std::string_view word) {
  for (const NodeHealth health : {NodeHealth::Healthy, NodeHealth::Failed, NodeHealth::Unknown}) {
    if (word == to_string(health)) {
      return health;
    }
  }
  return std::nullopt;
}

// The state of the node whose name and state are on top, or why they are none.
Result<NodeHealth> health_on_top(lua_State* lua) {
  const std::string_view name = text_at(lua, -2);
  const std::string given = "returned node '" + escaped(name, 64) + "'";
  if (name.empty() || name.size() > kLongestNodeName ||
      escaped(name, 2 * kLongestNodeName) != name) {
    return failure(Error::Kind::Invalid, given + ", which cannot be the name of a node");
  }
  const bool text = lua_type(lua, -1) == LUA_TSTRING;
  const auto health = text ? parse_health(text_at(lua, -1)) : std::nullopt;
  if (!health) {
    return failure(Error::Kind::Invalid,
                   given + " as " +
                       (text ? "'" + escaped(text_at(lua, -1), 32) + "'" : described(lua, -1)) +
                       "; it must be 'healthy', 'failed' or 'unknown'");
  }
  return *health;
}

NodeStates take_states(lua_State* lua, const std::string& place) {
  if (lua_type(lua, -1) != LUA_TTABLE) {
    raise(lua, place + " returned " + described(lua, -1) +
                   "; it must return { [name] = 'healthy', 'failed' or 'unknown' }");
  }
  const int table = lua_gettop(lua);
  NodeStates states;
  std::map<std::string, std::string> faults;  // the first in order is reported, whatever the hash
  lua_pushnil(lua);
  for (; lua_next(lua, table) != 0; lua_pop(lua, 1)) {
    Sandbox::of(lua).charge(lua, kUnitsANode);
    if (lua_type(lua, -2) != LUA_TSTRING) {
      raise(lua, place + " returned a table with " + described(lua, -2) +
                     " as a key; its keys are names of nodes");
    }
    if (states.size() == kMostNodes) {
      raise(lua, place + " returned more than " + std::to_string(kMostNodes) + " nodes");
    }
    std::string name(text_at(lua, -2));
    if (const auto health = health_on_top(lua); health) {
      states.emplace(NodeName(std::move(name)), *health);
    } else if (faults.empty() || name < faults.begin()->first) {
      faults = {{std::move(name), health.error().text}};
    }
  }
  if (!faults.empty()) {
    raise(lua, place + " " + faults.begin()->second);
  }
  return states;
}

NodeStates nodes(lua_State* lua, const Program& program) {
  push_source_function(lua, "nodes", *program.settings);
  require_function(lua, program, "source.nodes");
  const std::string place = place_of_function(lua, -1);
  push_settings(lua, *program.settings);
  push_answers(lua);
  lua_call(lua, 2, 1);
  return take_states(lua, place + ": source.nodes");
}

// ---- the power of a machine ------------------------------------------------------------------

Requests plan_power(lua_State* lua, const Program& program) {
  push_declared(lua, "plan");
  require_function(lua, program, "plan");
  const std::string place = place_of_function(lua, -1);
  push_node(lua);
  push_settings(lua, *program.settings);
  push_answers(lua);
  lua_call(lua, 3, 1);
  return take_requests(lua, -1, place + ": plan", *Sandbox::of(lua).session.inputs->answers);
}

// "" or what is wrong with the names that stand on top as { drivers = {…} }.
std::string take_drivers(lua_State* lua, std::set<std::string>& drivers) {
  constexpr std::size_t kMostDrivers = 16;
  if (lua_type(lua, -1) != LUA_TTABLE) {
    return "{ drivers = { … } } is missing at the end";
  }
  const int table = lua_gettop(lua);
  lua_pushliteral(lua, "drivers");
  lua_rawget(lua, table);
  const bool is_list = lua_type(lua, -1) == LUA_TTABLE;
  const lua_Integer count = is_list ? static_cast<lua_Integer>(lua_rawlen(lua, -1)) : 0;
  std::string fault = count == 0 || count > static_cast<lua_Integer>(kMostDrivers)
                          ? "drivers must be a list of 1 to 16 names of CSI drivers"
                          : "";
  for (lua_Integer i = 1; fault.empty() && i <= count; ++i) {
    lua_rawgeti(lua, -1, i);
    const std::string name(lua_type(lua, -1) == LUA_TSTRING ? text_at(lua, -1) : "");
    lua_pop(lua, 1);
    if (!is_csi_driver_name(name)) {
      fault = "drivers: '" + escaped(name, 64) + "' is no name of a CSI driver";
    }
    drivers.insert(name);
  }
  lua_pop(lua, 1);
  return fault;
}

PowerState state_of_power(lua_State* lua, const Program& program) {
  constexpr std::size_t kLongestWhy = 512;
  push_declared(lua, "state");
  require_function(lua, program, "state");
  const std::string place = place_of_function(lua, -1);
  push_node(lua);
  push_settings(lua, *program.settings);
  push_answers(lua);
  lua_call(lua, 3, 3);
  const std::string_view word = lua_type(lua, -3) == LUA_TSTRING ? text_at(lua, -3) : "";
  const auto power = find_power(word);
  const std::string why = lua_type(lua, -2) == LUA_TSTRING
                              ? escaped(trimmed(text_at(lua, -2)), kLongestWhy)
                              : std::string();
  if (!power || why.empty()) {
    raise(lua, place + ": state returned " + described(lua, -3) + " and " + described(lua, -2) +
                   "; it must return 'on', 'off', 'isolated', 'served', 'unknown' or 'failed', "
                   "and a text that says why");
  }
  PowerState state = {.power = *power, .why = why};
  if (*power == Power::Isolated) {
    if (const std::string fault = take_drivers(lua, state.drivers); !fault.empty()) {
      raise(lua, place + ": state: isolated: " + fault);
    }
  }
  return state;
}

// What it returns is a request or nil, and behind it why not, or for which drivers.
FencerOrder order_by(lua_State* lua, const Program& program, const char* function) {
  push_declared(lua, function);
  require_function(lua, program, function);
  const std::string place = place_of_function(lua, -1) + ": " + function;
  push_node(lua);
  push_settings(lua, *program.settings);
  push_answers(lua);
  lua_call(lua, 3, 2);
  return take_order(lua, place);
}

FencerOrder switch_off(lua_State* lua, const Program& program) {
  return order_by(lua, program, "off");
}

FencerOrder isolate(lua_State* lua, const Program& program) {
  FencerOrder order = order_by(lua, program, "isolate");
  if (order.request) {
    if (const std::string fault = take_drivers(lua, order.drivers); !fault.empty()) {
      raise(lua, "isolate: " + fault);
    }
  }
  return order;
}

// ---- inputs ----------------------------------------------------------------------------------

std::shared_ptr<const json> node_json(const kube::Node& node) {
  if (node.raw != nullptr) {
    return node.raw;
  }
  return std::make_shared<const json>(json{{"metadata", {{"name", node.name.text()}}}});
}

// The first need that `known` does not hold.
std::optional<Need> missing_need(const Needs& needs, const PodFacts& known) {
  if (needs.volumes && !known.volumes) {
    return Need::Volumes;
  }
  if (needs.placement && !known.candidates) {
    return Need::Placement;
  }
  if (needs.root_owner && !known.owner_chain) {
    return Need::RootOwner;
  }
  if (needs.siblings && !known.siblings) {
    return Need::Siblings;
  }
  return std::nullopt;
}

Result<void> check_given(const Program& program, const kube::Pod& pod, const PodFacts& known) {
  if (pod.raw == nullptr) {
    return failure(Error::Kind::Invalid,
                   program.file + ": pod " + pod.ref.text() + " was read without its JSON");
  }
  if (const auto need = missing_need(program.needs, known)) {
    return failure(Error::Kind::Invalid,
                   program.file + ": pod " + pod.ref.text() + " was read without its " +
                       std::string(to_string(*need)) + ", which the policy needs");
  }
  return {};
}

Failure no_fencer(const Program& program) {
  return failure(Error::Kind::Invalid, program.file + ": it is no fencer");
}

Failure no_source(const Program& program) {
  return failure(Error::Kind::Invalid, program.file + ": the policy has no health source");
}

}  // namespace

Evaluation Policy::evaluate(const kube::Pod& pod, const kube::Node& node,
                            const ClusterFacts& cluster, const NodeFacts& facts,
                            const PodFacts& known, Trace* trace) const {
  if (auto given = check_given(state_->program, pod, known); !given) {
    return Evaluation{.verdict = failure(std::move(given.error()))};
  }
  Inputs inputs{.pod = pod.raw, .node = node_json(node), .cluster = cluster, .facts = facts};
  add_pod_facts(inputs, known, state_->program.needs);
  auto run = run_hook<Verdict>(state_->program, Hook::Pod, std::move(inputs), judge_pod, trace);
  return Evaluation{.verdict = std::move(run.result),
                    .usage = run.usage,
                    .log = std::move(run.log),
                    .log_dropped = run.log_dropped};
}

Evaluation Policy::evaluate(const kube::Pod& pod, const kube::Node& node,
                            const ClusterFacts& cluster, const NodeFacts& facts) const {
  return evaluate(pod, node, cluster, facts, PodFacts{});
}

Result<Verdict> Policy::decide(const kube::Pod& pod, const kube::Node& node,
                               const ClusterFacts& cluster, const NodeFacts& facts) const {
  return evaluate(pod, node, cluster, facts).verdict;
}

Run<NodeVerdict> Policy::judge_node(const kube::Node& node, const ClusterFacts& cluster,
                                    const NodeFacts& facts) const {
  if (!judges_node()) {
    return {.result = NodeVerdict{.reason = "the policy does not judge nodes"}};
  }
  if (node_fetches() && facts.fetched == nullptr) {
    return {.result =
                failure(Error::Kind::Invalid, state_->program.file + ": node " + node.name.text() +
                                                  " was read without what node_fetch asks for")};
  }
  return run_hook<NodeVerdict>(state_->program, Hook::Node,
                               Inputs{.node = node_json(node),
                                      .cluster = cluster,
                                      .facts = facts,
                                      .answers = facts.fetched.get()},
                               judge);
}

Run<Requests> Policy::plan_fetch(const kube::Pod& pod, const PodFacts& known,
                                 const json& got) const {
  if (!fetches()) {
    return {.result = Requests{}};
  }
  if (auto given = check_given(state_->program, pod, known); !given) {
    return {.result = failure(std::move(given.error()))};
  }
  Inputs inputs{.pod = pod.raw};
  add_pod_facts(inputs, known, state_->program.needs);
  inputs.answers = &got;
  return run_hook<Requests>(state_->program, Hook::Fetch, std::move(inputs), fetch);
}

Run<Requests> Policy::plan_node_fetch(const kube::Node& node, const NodeFacts& facts,
                                      const json& got) const {
  if (!node_fetches()) {
    return {.result = Requests{}};
  }
  return run_hook<Requests>(state_->program, Hook::NodeFetch,
                            Inputs{.node = node_json(node), .facts = facts, .answers = &got},
                            node_fetch);
}

Run<Requests> Policy::plan_source(const json& got) const {
  if (!health_source()) {
    return {.result = no_source(state_->program)};
  }
  return run_hook<Requests>(state_->program, Hook::Plan, Inputs{.answers = &got}, plan);
}

Run<NodeStates> Policy::nodes_of_source(const json& got) const {
  if (!health_source()) {
    return {.result = no_source(state_->program)};
  }
  return run_hook<NodeStates>(state_->program, Hook::Nodes, Inputs{.answers = &got}, nodes);
}

Run<Requests> Policy::plan_power(const kube::Node& node, const json& got) const {
  if (!is_fencer()) {
    return {.result = no_fencer(state_->program)};
  }
  return run_hook<Requests>(state_->program, Hook::Power,
                            Inputs{.node = node_json(node), .answers = &got}, policy::plan_power);
}

Run<PowerState> Policy::power_of(const kube::Node& node, const json& got) const {
  if (!is_fencer()) {
    return {.result = no_fencer(state_->program)};
  }
  return run_hook<PowerState>(state_->program, Hook::Nodes,
                              Inputs{.node = node_json(node), .answers = &got}, state_of_power);
}

Run<FencerOrder> Policy::order(const kube::Node& node, const json& got) const {
  if (act() == FencerAct::None) {
    return {.result = no_fencer(state_->program)};
  }
  return run_hook<FencerOrder>(state_->program, Hook::Off,
                               Inputs{.node = node_json(node), .answers = &got},
                               act() == FencerAct::Isolate ? isolate : switch_off);
}

}  // namespace moonfence::policy
