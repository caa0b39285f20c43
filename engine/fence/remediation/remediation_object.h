#pragma once

// RemediationObject is what we keep of a MoonfenceRemediation: medik8s' NodeHealthCheck makes one
// for each node that it calls unhealthy, and reads its conditions (docs/install.md). Whoever may
// create such objects wrote it: nothing in it is trusted, and of long texts nothing is kept.

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/names.h"
#include "base/result.h"
#include "base/time.h"
#include "kube/watching/watcher.h"

namespace moonfence::fence {

constexpr std::string_view kRemediationApi = "remediation.moonfence.io/v1alpha1";
constexpr std::string_view kRemediationResource = "moonfenceremediations";
constexpr std::string_view kNodeNameKey = "remediation.medik8s.io/node-name";
constexpr std::string_view kTimedOutKey = "remediation.medik8s.io/nhc-timed-out";

constexpr std::string_view kProcessing = "Processing";
constexpr std::string_view kSucceeded = "Succeeded";
constexpr std::string_view kDeletionExpected = "PermanentNodeDeletionExpected";

// One of metav1.Condition, but for its time.
struct RemediationCondition {
  std::string type;
  std::string status;
  std::string reason;
  std::string message;

  friend bool operator==(const RemediationCondition&, const RemediationCondition&) = default;
};

struct RemediationObject {
  ObjectRef ref;
  Uid uid;
  std::optional<NodeName> node;  // that it is about; nullopt: what stands there names none
  bool timed_out = false;        // NodeHealthCheck has given it up
  bool leaving = false;          // it is being deleted
  Uid node_uid;                  // of the Node that it was about when we saw it first; ""
  std::map<std::string, RemediationCondition> conditions;  // of ours, by type

  [[nodiscard]] std::string_view status_of(std::string_view type) const;
  // We have said the last word on it.
  [[nodiscard]] bool is_finished() const;
};

[[nodiscard]] kube::WatchTarget remediation_target();

// namespace, name and uid are required.
[[nodiscard]] Result<RemediationObject> decode_remediation(const nlohmann::json& object);

// The merge patch of its status that makes `wanted` stand there, beside conditions of others, and
// only while it is what we read. A time changes with its condition's status only.
[[nodiscard]] std::string status_patch(const nlohmann::json& object,
                                       const std::vector<RemediationCondition>& wanted,
                                       const Uid& node_uid, WallTime now);

}  // namespace moonfence::fence
