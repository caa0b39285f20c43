#pragma once

// Subject is a policy under test: its text, what coverage is measured against, and the policy
// itself. A Stand is the policy with the settings of one case; ask() puts one scene to it, once, in
// a fresh state.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/cases/chunk_map.h"
#include "policy/cases/fixture.h"
#include "policy/cases/test_file.h"
#include "policy/host/policy.h"
#include "port/cpu_clock.h"

namespace moonfence::policy {

struct Subject {
  std::string file;  // as messages show it
  Policy policy;
  ChunkMap map;
};

[[nodiscard]] Result<Subject> load_subject(const std::string& source, const std::string& path,
                                           port::CpuClock& clock);

// The policy with these values of its settings, and what its last run did. `loading` is what
// settling the values did.
struct Stand {
  std::unique_ptr<Trace> trace;
  Policy policy;
  Trace loading;
};
[[nodiscard]] Result<Stand> set_up(const Policy& policy, const nlohmann::json& settings);

// What the policy made of a question, in the words of tests.
struct Answer {
  Expectation::Outcome outcome = Expectation::Outcome::Decided;
  std::string verdict;  // "wait"; empty unless decided
  std::string reason;
  std::optional<double> seconds;             // of wait, hold and delete_attachments
  std::vector<std::string> volumes;          // claims that the verdict names, sorted
  bool release = false;                      // of delete_pod_and_attachments
  bool fail = false;                         // of those that delete the pod
  std::string on_timeout;                    // of delete_attachments
  EvidenceSet proof;                         // of those that delete or evict
  std::map<std::string, std::string> nodes;  // of a source
  std::string error;                         // of outcome Error; why, of Deferred
  Usage usage;                               // of the last of its functions
  std::vector<std::string> log;
  Trace trace;

  // "wait (30s)", "not_selected", "error: ...".
  [[nodiscard]] std::string words() const;
  // Whether it would delete something.
  [[nodiscard]] bool acts() const;
};

// { status = 200, body = ... } by the text of a request: "http vendor /v2/nodes".
struct Responses {
  const nlohmann::json& by_request;
};

// An error means that the question cannot be put: the pod is no pod, a request has no response.
[[nodiscard]] Result<Answer> ask(const Stand& stand, const Scene& scene,
                                 const Responses& responses);
[[nodiscard]] Result<Answer> ask_node(const Stand& stand, const Scene& scene,
                                      const Responses& responses);
[[nodiscard]] Result<Answer> ask_source(const Stand& stand, const Responses& responses);

// The needs that a policy declares, as it writes them.
[[nodiscard]] std::vector<std::string> declared_needs(const Policy& policy);

}  // namespace moonfence::policy
