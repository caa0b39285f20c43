#include "sim/taint_checker.h"

#include <algorithm>
#include <string>

#include "sim/facts.h"
#include "sim/fields.h"
#include "sim/rules.h"

namespace moonfence::sim {
namespace {

constexpr std::string_view kKey = "moonfence.io/fenced";
// Observed for 30 s, of which an answer may take the first.
constexpr Duration kReadyFor = std::chrono::seconds(29);

bool is_own(const Json& taint) {
  return text_field(taint, {"key"}) == kKey && text_field(taint, {"effect"}) == "NoSchedule";
}

bool carries(const Json& node) {
  const Json& taints = list_field(node, {"spec", "taints"});
  return std::any_of(taints.begin(), taints.end(), is_own);
}

const std::string& mark_of(const Json& node) {
  return text_field(node, {"metadata", "annotations", kKey});
}

// The node without what is the engine's own, and without what a release changes (VolumeChecker).
Json rest_of(Json node) {
  Json others = Json::array();
  for (const Json& taint : list_field(node, {"spec", "taints"})) {
    if (!is_own(taint)) {
      others.push_back(taint);
    }
  }
  node["spec"]["taints"] = std::move(others);
  if (node["metadata"].contains("annotations")) {
    node["metadata"]["annotations"].erase(std::string(kKey));
  }
  if (node.contains("status")) {
    node["status"].erase("volumesInUse");
  }
  for (const char* field : {"resourceVersion", "managedFields", "generation"}) {
    node["metadata"].erase(field);
  }
  if (node["metadata"].value("annotations", Json()).empty()) {
    node["metadata"].erase("annotations");
  }
  return node;
}

}  // namespace

void TaintChecker::on_change(const Change& change) {
  if (change.key.resource != "nodes" || !is_engine(change.actor) || change.before == nullptr) {
    return;
  }
  const std::string what = change.actor + " changes node " + change.key.name + ": ";
  if (rest_of(*change.before) != rest_of(*change.after)) {
    accuse(rules::kOwnTaint, what + "more than its own taint");
  }
  if (carries(*change.before) && mark_of(*change.before).empty()) {
    accuse(rules::kOwnTaint, what + "it carries somebody else's taint");
  }
  if (carries(*change.after) == mark_of(*change.after).empty()) {
    accuse(rules::kOwnTaint, what + "the taint and its annotation come and go together");
  }
  if (carries(*change.before) && !carries(*change.after)) {
    check_lift(change);
  }
}

void TaintChecker::check_lift(const Change& change) {
  const Json& node = *change.after;
  const std::string what = change.actor + " hands node " + change.key.name + " back: ";
  const NodeTruth* known = truth().node(text_field(node, {"metadata", "uid"}));
  if (known == nullptr || known->down.holds) {
    accuse(rules::kHandedBackClean, what + "it is down");
    return;
  }
  const Json mark = Json::parse(mark_of(*change.before), nullptr, false);
  if (text_field(mark, {"bootID"}) != text_field(node, {"status", "nodeInfo", "bootID"})) {
    return;
  }
  if (now() - known->down.changed < kReadyFor) {
    accuse(rules::kHandedBackClean,
           what + "it is Ready for " + format_duration(now() - known->down.changed) + " only");
  }
  for (const auto& [uid, pod] : truth().pods()) {
    if (pod.node == change.key.name && pod.marked && !pod.gone &&
        now() - *pod.marked > std::chrono::seconds(2)) {
      accuse(rules::kHandedBackClean, what + "pod " + pod.name + " is being deleted there");
    }
  }
}

}  // namespace moonfence::sim
