#include "fence/remediation/remediation_standing.h"

#include <utility>

#include "base/text.h"

namespace moonfence::fence {
namespace {

using Stage = RemediationStage;

constexpr std::size_t kLongestMessage = 768;  // with a node's name beside it, see kLongestText

RemediationStanding standing(Stage stage, std::string message) {
  return {.stage = stage, .message = std::move(message)};
}

RemediationStanding of_incident(const IncidentStatus& open) {
  std::string message =
      "Incident " + open.incident.text() + ": " + std::string(to_string(open.state));
  if (open.reason) {
    message += ": " + std::string(code(*open.reason));
  }
  message += open.text.empty() ? "" : ": " + open.text;
  if (message.size() > kLongestMessage) {
    message = escaped(message, kLongestMessage);
  }
  return standing(Stage::IncidentOpen,
                  message + " (see `moonfence plan " + open.node.text() + "`)");
}

std::string next_step(const Kept& kept, const std::string& node) {
  return kept.pod ? "moonfence explain " + kept.pod->name + " -n " + kept.pod->space.text()
                  : "moonfence plan " + node;
}

RemediationStanding of_ended(const EndedIncidents& ended, const std::string& name) {
  const std::string incident = " (incident " + ended.last.text() + ").";
  if (ended.refused) {
    return standing(Stage::Refused, "Policies want more deleted on node " + name +
                                        " than the engine ever deletes, " +
                                        std::string(code(ended.refused->reason)) + ": see `" +
                                        next_step(*ended.refused, name) + "`" + incident);
  }
  if (ended.observed) {
    return standing(Stage::OnlyObserved,
                    "Policies whose mode is observe would delete more on node " + name + ": see `" +
                        next_step(*ended.observed, name) + "`" + incident);
  }
  if (!ended.done) {
    return standing(Stage::NothingLeftToDo, "Nothing is left to delete on node " + name + incident);
  }
  return standing(Stage::NothingLeftToDo,
                  "What policies wanted deleted on node " + name + " is gone" +
                      (ended.unreplaced ? ", but not all of it is Ready elsewhere" : "") +
                      incident);
}

RemediationStanding of_absent(const RemediationObject& object, const NodeFacts& facts) {
  const std::string& name = object.node->text();
  if (!facts.absent_for_long) {
    return standing(Stage::Looking, "moonfence looks for node " + name + ".");
  }
  return object.node_uid.empty()
             ? standing(Stage::NodeNotFound,
                        "There is no node " + name + ": see `kubectl get nodes`.")
             : standing(Stage::NodeDeleted, "The Node " + name + " was deleted.");
}

}  // namespace

RemediationStanding standing_of(const RemediationObject& object, const NodeFacts& facts) {
  if (object.timed_out) {
    return standing(
        Stage::TimedOut,
        "NodeHealthCheck gave it up (annotation " + std::string(kTimedOutKey) +
            "), and moonfence begins nothing more for its sake" +
            (object.node ? ": see `moonfence plan " + object.node->text() + "`." : "."));
  }
  if (!object.node) {
    return standing(Stage::InvalidNodeName,
                    "Its annotation " + std::string(kNodeNameKey) +
                        ", or without one its name, is not the name of a node: delete the object.");
  }
  const std::string& name = object.node->text();
  const bool is_another =
      facts.node != nullptr && !object.node_uid.empty() && facts.node->uid != object.node_uid;
  if (is_another) {
    return standing(Stage::NodeReplaced,
                    "The Node " + name + " was made anew: this was about the one before.");
  }
  if (facts.open != nullptr) {
    return of_incident(*facts.open);
  }
  if (facts.node == nullptr) {
    return of_absent(object, facts);
  }
  if (!cluster::is_down(facts.node->readiness)) {
    return standing(
        Stage::NodeIsReady,
        "Kubernetes calls node " + name +
            " Ready, and moonfence waits until it does not: see `kubectl describe node " + name +
            "`.");
  }
  if (facts.ended != nullptr && facts.ended->settled) {
    return of_ended(*facts.ended, name);
  }
  if (facts.joining) {
    return standing(Stage::NodeIsJoining,
                    "The kubelet of node " + name +
                        " was never Ready, and there is nothing to fence: see `kubectl describe "
                        "node " +
                        name + "`.");
  }
  if (facts.asked_in_vain) {
    return standing(Stage::NoPolicyActs, "No policy in force acts on node " + name +
                                             " by Kubernetes' word: see `moonfence plan " + name +
                                             "`.");
  }
  return standing(Stage::Looking, "moonfence looks at node " + name + ".");
}

std::string_view to_string(Stage stage) {
  switch (stage) {
    case Stage::Looking:
      return "Looking";
    case Stage::NodeIsReady:
      return "NodeIsReady";
    case Stage::NodeIsJoining:
      return "NodeIsJoining";
    case Stage::NoPolicyActs:
      return "NoPolicyActs";
    case Stage::IncidentOpen:
      return "IncidentOpen";
    case Stage::NothingLeftToDo:
      return "NothingLeftToDo";
    case Stage::OnlyObserved:
      return "OnlyObserved";
    case Stage::Refused:
      return "Refused";
    case Stage::TimedOut:
      return "TimedOut";
    case Stage::NodeNotFound:
      return "NodeNotFound";
    case Stage::NodeDeleted:
      return "NodeDeleted";
    case Stage::NodeReplaced:
      return "NodeReplaced";
    case Stage::InvalidNodeName:
      break;
  }
  return "InvalidNodeName";
}

std::vector<RemediationCondition> conditions_of(const RemediationStanding& standing) {
  const std::string reason(to_string(standing.stage));
  const char* const succeeded = standing.asks()                            ? "Unknown"
                                : standing.stage == Stage::NothingLeftToDo ? "True"
                                                                           : "False";
  return {{.type = std::string(kProcessing),
           .status = standing.asks() ? "True" : "False",
           .reason = reason,
           .message = standing.message},
          {.type = std::string(kSucceeded),
           .status = succeeded,
           .reason = reason,
           .message = standing.message},
          {.type = std::string(kDeletionExpected),
           .status = "False",
           .reason = "NodesAreKept",
           .message = "moonfence never deletes a Node."}};
}

}  // namespace moonfence::fence
