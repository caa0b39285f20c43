#pragma once

// Policy is one compiled and validated policy file (policy API version 1, docs/policy-api.md). It
// is immutable and pure: decide() depends on its arguments alone, runs in a fresh Lua state without
// any stock library, and is bounded in instructions, memory and CPU time. It performs nothing; the
// engine carries its verdict out, or refuses to.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/time.h"
#include "kube/objects/objects.h"
#include "policy/values/facts.h"
#include "policy/values/limits.h"
#include "policy/values/power.h"
#include "policy/values/request.h"
#include "policy/values/setting.h"
#include "policy/values/verdict.h"
#include "port/cpu_clock.h"

namespace moonfence::policy {

struct Trace;

struct Trigger {
  std::uint32_t failures = 1;
  Duration interval{};
  bool sweep = true;          // nodes already down when we start count
  bool deleted = false;       // a node that is gone from the API counts as down
  bool live_kubelet = false;  // Ready=False or missing with a living Lease counts as down
  bool live_kernel = false;   // so does a machine that answers although its kubelet is dead
};

// A policy's own source of node health.
struct Source {
  Duration every{};   // between two askings
  Duration expiry{};  // how long a node that is not named keeps its state
};

// A decision with what it took to reach it.
struct Evaluation {
  Result<Verdict> verdict;
  Usage usage = {};
  std::vector<std::string> log =
      {};                         // of log.info and log.warn: at most 20 lines of 1 KiB, escaped
  std::uint64_t log_dropped = 0;  // lines beyond those
};

// What a hook other than pod() came to, with what it took.
template <class T>
struct Run {
  Result<T> result;
  Usage usage = {};
  std::vector<std::string> log = {};  // as an Evaluation's
  std::uint64_t log_dropped = 0;
};

class Policy {
 public:
  // `file` names the policy (its base name without ".lua", or the folder of a "policy.lua") and
  // stands in every message. The clock must outlive the policy.
  [[nodiscard]] static Result<Policy> load(std::string source, const std::string& file,
                                           port::CpuClock& clock, Limits limits = {});
  Policy(Policy&&) noexcept;
  Policy& operator=(Policy&&) noexcept;
  ~Policy();

  // The same policy with the values a binding gives to its settings: an object of texts, numbers,
  // booleans and lists of them; durations are texts ("30s"). The rest hold their defaults. The
  // error names every setting that breaks a rule. `trace`, for tools, outlives the new policy and
  // notes what each of its runs does, this one first.
  [[nodiscard]] Result<Policy> with_settings(const nlohmann::json& values,
                                             Trace* trace = nullptr) const;

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const std::string& version() const;
  [[nodiscard]] const std::string& summary() const;
  [[nodiscard]] const std::string& doc() const;             // "" without one
  [[nodiscard]] const std::string& label_selector() const;  // "" selects all pods
  // Whether label_selector() selects these labels; the API server's rules.
  [[nodiscard]] bool selects(const kube::Labels& labels) const;
  // A copy of a pod's object with labels that are selected; null when no labels are. For what is
  // tried out on a policy: it is never asked about other pods, and need not be able to judge them.
  [[nodiscard]] nlohmann::json made_selectable(nlohmann::json pod) const;
  [[nodiscard]] const Needs& needs() const;  // what evaluate() has to be given
  [[nodiscard]] const Trigger& trigger() const;
  [[nodiscard]] const std::optional<Source>& health_source() const;  // instead of the trigger
  [[nodiscard]] bool judges_node() const;                            // has a node function
  [[nodiscard]] bool fetches() const;                                // has a fetch function
  [[nodiscard]] bool node_fetches() const;                           // has a node_fetch function
  // It asks for the power of machines, and judges nothing: declared by fencer{}.
  [[nodiscard]] bool is_fencer() const;
  // What it can do about them.
  [[nodiscard]] FencerAct act() const;
  // It can forbid: where it fails or cannot be loaded, the pods it selects are held.
  [[nodiscard]] bool is_guard() const;
  // Its text names a verdict that does something to a pod or a node.
  [[nodiscard]] bool can_act() const;
  [[nodiscard]] const DeclaredSettings& settings() const;  // as declared
  // In force: every declared setting, a duration as its number of seconds.
  [[nodiscard]] const nlohmann::json& settings_values() const;
  // Settings that were moved to a limit (`clamp`), one line each.
  [[nodiscard]] const std::vector<std::string>& notices() const;
  // What is allowed but hardly meant, found without running it: "x.lua:7: ...".
  [[nodiscard]] const std::vector<std::string>& warnings() const;
  [[nodiscard]] const std::string& source() const;  // its text
  [[nodiscard]] const std::string& file() const;    // as messages show it: "noobaa/policy.lua"
  // Hex SHA-256 of source and settings in force: what decided, for records. It is
  // source_digest() while every setting holds its default.
  [[nodiscard]] const std::string& digest() const;
  [[nodiscard]] const std::string& source_digest() const;  // of the source alone

  // An Error means that the script failed (Limit: a bound was hit); it never acts and counts as a
  // wait. `pod` and `node` must carry their raw JSON; `known` must hold what needs() names.
  // `trace`, for tools: what this run does is noted there.
  [[nodiscard]] Evaluation evaluate(const kube::Pod& pod, const kube::Node& node,
                                    const ClusterFacts& cluster, const NodeFacts& facts,
                                    const PodFacts& known, Trace* trace = nullptr) const;
  [[nodiscard]] Evaluation evaluate(const kube::Pod& pod, const kube::Node& node,
                                    const ClusterFacts& cluster, const NodeFacts& facts = {}) const;
  // The verdict alone.
  [[nodiscard]] Result<Verdict> decide(const kube::Pod& pod, const kube::Node& node,
                                       const ClusterFacts& cluster,
                                       const NodeFacts& facts = {}) const;

  // What the node function says; Proceed without one. On an Error the caller holds the node.
  // `facts` must hold what was fetched if it node_fetches().
  [[nodiscard]] Run<NodeVerdict> judge_node(const kube::Node& node, const ClusterFacts& cluster,
                                            const NodeFacts& facts = {}) const;

  // What fetch asks for before the pod can be judged; none: it has enough, or there is no fetch.
  // `got` is an object of the answers so far, {} in the first round; at the end it is the pod's
  // PodFacts::fetched. At most 8 requests; the caller counts the rounds.
  [[nodiscard]] Run<Requests> plan_fetch(const kube::Pod& pod, const PodFacts& known,
                                         const nlohmann::json& got) const;
  // The same for the node function; at the end it is NodeFacts::fetched.
  [[nodiscard]] Run<Requests> plan_node_fetch(const kube::Node& node, const NodeFacts& facts,
                                              const nlohmann::json& got) const;
  // The same for the health source, and what it makes of the answers. Invalid without a
  // health_source().
  [[nodiscard]] Run<Requests> plan_source(const nlohmann::json& got) const;
  [[nodiscard]] Run<NodeStates> nodes_of_source(const nlohmann::json& got) const;
  // The same for a machine's power. Invalid unless is_fencer().
  [[nodiscard]] Run<Requests> plan_power(const kube::Node& node, const nlohmann::json& got) const;
  [[nodiscard]] Run<PowerState> power_of(const kube::Node& node, const nlohmann::json& got) const;
  // How it does so, by answers by which the machine is on, or not isolated. Invalid without act().
  [[nodiscard]] Run<FencerOrder> order(const kube::Node& node, const nlohmann::json& got) const;

 private:
  struct State;
  explicit Policy(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace moonfence::policy
