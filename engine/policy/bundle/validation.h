#pragma once

// Validation takes one source with its settings through everything that must hold before it may
// judge a pod: size, text, compilation, scan, declaration, settings, needs, the smoke test, its own
// tests. It runs in slices, one compilation or one pod at a time, so that the loop is never held
// longer than one evaluation may take; the whole is bounded in CPU time.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "policy/cases/smoke.h"
#include "policy/host/candidate.h"
#include "policy/host/policy.h"
#include "port/cpu_clock.h"

namespace moonfence::policy {

struct Rejection {
  std::string stage;  // source, load, settings, needs, smoke, self-test, budget, bindings
  int line = 0;       // in the source, 0 when none is to blame
  std::string message;
  std::string hint = {};
  std::string quote = {};  // that line: "   12 |   if pod.lables.tier then"
  // It can forbid, or its text says so, or nobody can tell: where nothing else runs in its place,
  // its scope must be held.
  bool may_be_guard = false;
  // A bound was reached that the next try may not reach.
  bool may_differ = false;

  // "message (hint)"
  [[nodiscard]] std::string text() const;

  friend bool operator==(const Rejection&, const Rejection&) = default;
};

// "db.lua:12: pod has no ..." into line and message; other texts stay whole.
[[nodiscard]] Rejection rejection(std::string stage, const Error& error);

struct Accepted {
  std::shared_ptr<const Policy> policy;
  std::vector<std::string> warnings;
};

struct ValidationRules {
  Limits limits;
  Duration cpu = std::chrono::seconds(2);  // over all slices
  // What this engine can serve beside the pod, its node and the cluster: volumes, placement,
  // root_owner, siblings, fetch, source, node, node_fetch. A policy that declares another is
  // rejected: it would be called without what it decides by.
  std::set<std::string> needs;
};

class OwnTests;

class Validation {
 public:
  using Outcome = std::variant<Accepted, Rejection>;

  // Both must outlive it.
  Validation(Candidate candidate, const ValidationRules& rules, port::CpuClock& clock);
  ~Validation();
  Validation(const Validation&) = delete;
  Validation& operator=(const Validation&) = delete;

  // One slice; not to be called again once there is an outcome.
  void step();
  [[nodiscard]] const std::optional<Outcome>& outcome() const { return outcome_; }
  [[nodiscard]] const Candidate& candidate() const { return candidate_; }

 private:
  enum class Stage { Load, Settings, Smoke, SelfTest };

  void load();
  void set();
  void smoke();
  [[nodiscard]] std::optional<Error> judge(const SmokeCase& each) const;
  [[nodiscard]] std::optional<Error> judge_pod(const SmokeCase& each) const;
  [[nodiscard]] std::optional<Error> judge_node(const SmokeCase& each) const;
  void self_test();
  void reject(std::string stage, const Error& error);
  void accept();

  const Candidate candidate_;
  const ValidationRules& rules_;
  port::CpuClock& clock_;
  Stage stage_ = Stage::Load;
  Duration spent_{};
  std::optional<Policy> loaded_;  // with its default settings
  std::shared_ptr<const Policy> policy_;
  std::vector<std::string> warnings_;
  std::vector<SmokeCase> cases_;  // still to be judged, last first
  std::unique_ptr<OwnTests> own_tests_;
  std::optional<Outcome> outcome_;
};

}  // namespace moonfence::policy
