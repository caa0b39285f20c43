#pragma once

// What is said of a remediation: a pure function of the object and of what is known of its node.
// NodeHealthCheck is a detector. Its word makes the engine look at a node that Kubernetes calls
// down as well, and nothing more: what may be deleted there is decided as ever. So nothing here
// permits anything; it says how far that is.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "audit/reason.h"
#include "base/names.h"
#include "cluster/nodes/node_view.h"
#include "fence/incident/incident_status.h"
#include "fence/remediation/remediation_object.h"

namespace moonfence::fence {

// What policies wanted deleted, and is still there.
struct Kept {
  audit::Reason reason = audit::Reason::ModeObserves;
  std::optional<PodRef> pod = std::nullopt;  // or of an attachment the one that holds it
};

// The incidents of a node, opened by Kubernetes' own word, that ended since its remediation is
// known.
struct EndedIncidents {
  IncidentId last;
  bool settled = false;     // the last one: nothing was left to do
  bool unreplaced = false;  // but to wait for replacements, and that for long enough
  bool done = false;        // something was deleted in any of them
  // In the last one, for a policy's mode is observe; and for a reason that no time takes away.
  std::optional<Kept> observed = std::nullopt;
  std::optional<Kept> refused = std::nullopt;
};

struct NodeFacts {
  const cluster::NodeView* node = nullptr;  // null: there is none of that name
  bool absent_for_long = false;             // and not for a moment only
  const IncidentStatus* open = nullptr;     // null: it has no open incident
  const EndedIncidents* ended = nullptr;    // null: none has ended
  // It was asked for, and nothing was opened.
  bool asked_in_vain = false;
  bool joining = false;  // for its kubelet was never Ready
};

enum class RemediationStage {
  // It goes on:
  Looking,
  NodeIsReady,    // for Kubernetes, whose word is needed too
  NodeIsJoining,  // it was never Ready
  NoPolicyActs,
  IncidentOpen,
  // It is over:
  NothingLeftToDo,  // done
  OnlyObserved,     // the others: it cannot go on
  Refused,
  TimedOut,
  NodeNotFound,
  NodeDeleted,
  NodeReplaced,
  InvalidNodeName,
};

struct RemediationStanding {
  RemediationStage stage = RemediationStage::Looking;
  std::string message;

  // The node is to be dealt with.
  [[nodiscard]] bool asks() const { return stage <= RemediationStage::IncidentOpen; }
};

// Of one that we have not said the last word on.
[[nodiscard]] RemediationStanding standing_of(const RemediationObject& object,
                                              const NodeFacts& facts);

[[nodiscard]] std::string_view to_string(RemediationStage stage);

// As it is told: Processing, Succeeded and PermanentNodeDeletionExpected, which is never True.
[[nodiscard]] std::vector<RemediationCondition> conditions_of(const RemediationStanding& standing);

}  // namespace moonfence::fence
