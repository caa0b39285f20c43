#include "sim/checkers/taint_checker.h"

#include <algorithm>
#include <array>
#include <string>

#include "sim/ground/facts.h"
#include "sim/store/fields.h"
#include "sim/truth/rules.h"

namespace moonfence::sim {
namespace {

// A taint that the engine sets, and the annotation that makes it the engine's.
struct Own {
  std::string_view key;
  std::string_view effect;
  std::string_view annotation;
};
constexpr Own kFenced = {"moonfence.io/fenced", "NoSchedule", "moonfence.io/fenced"};
constexpr Own kOutOfService = {"node.kubernetes.io/out-of-service", "NoExecute",
                               "moonfence.io/out-of-service"};
constexpr Own kSilent = {"moonfence.io/silent", "NoSchedule", "moonfence.io/silent"};
constexpr std::array<Own, 3> kOwn = {kFenced, kOutOfService, kSilent};

// Observed for 30 s, of which an answer may take the first.
constexpr Duration kReadyFor = std::chrono::seconds(29);

// How old the lists may be by which it is handed back.
constexpr Duration kListTime = std::chrono::seconds(6);

bool is_it(const Json& taint, const Own& own) {
  return text_field(taint, {"key"}) == own.key && text_field(taint, {"effect"}) == own.effect;
}

bool carries(const Json& node, const Own& own) {
  const Json& taints = list_field(node, {"spec", "taints"});
  return std::any_of(taints.begin(), taints.end(),
                     [&own](const Json& taint) { return is_it(taint, own); });
}

const std::string& mark_of(const Json& node, const Own& own) {
  return text_field(node, {"metadata", "annotations", own.annotation});
}

// The node without what is the engine's own or tells others what it knows, and without what a
// release changes (VolumeChecker).
Json rest_of(Json node) {
  Json others = Json::array();
  for (const Json& taint : list_field(node, {"spec", "taints"})) {
    if (std::none_of(kOwn.begin(), kOwn.end(),
                     [&taint](const Own& own) { return is_it(taint, own); })) {
      others.push_back(taint);
    }
  }
  node["spec"]["taints"] = std::move(others);
  if (node["metadata"].contains("annotations")) {
    for (const Own& own : kOwn) {
      node["metadata"]["annotations"].erase(std::string(own.annotation));
    }
  }
  if (node.contains("status")) {
    node["status"].erase("volumesInUse");
  }
  return without_evidence(std::move(node));
}

}  // namespace

void TaintChecker::on_change(const Change& change) {
  if (change.key.resource != "nodes" || !is_engine(change.actor) || change.before == nullptr) {
    return;
  }
  const Json& before = *change.before;
  const Json& after = *change.after;
  const std::string what = change.actor + " changes node " + change.key.name + ": ";
  if (rest_of(before) != rest_of(after)) {
    accuse(rules::kOwnTaint, what + "more than its own taint");
  }
  bool lifted = false;
  for (const Own& own : kOwn) {
    if (carries(before, own) == carries(after, own) &&
        mark_of(before, own) == mark_of(after, own)) {
      continue;
    }
    if (carries(before, own) && mark_of(before, own).empty()) {
      accuse(rules::kOwnTaint, what + "it carries somebody else's taint");
    }
    if (carries(after, own) == mark_of(after, own).empty()) {
      accuse(rules::kOwnTaint, what + "the taint and its annotation come and go together");
    }
    // Nothing was done on one that was only silent.
    if (own.key != kSilent.key && !mark_of(before, own).empty() && mark_of(after, own).empty()) {
      lifted = true;
      check_boot(change, mark_of(before, own));
    }
  }
  if (lifted && !mark_of(before, kOutOfService).empty()) {
    check_detached(change);
  }
}

void TaintChecker::check_boot(const Change& change, const std::string& text) {
  const Json& node = *change.after;
  const std::string what = change.actor + " hands node " + change.key.name + " back: ";
  const NodeTruth* known = truth().node(text_field(node, {"metadata", "uid"}));
  if (known == nullptr || known->down.holds) {
    accuse(rules::kHandedBackClean, what + "it is down");
    return;
  }
  const Json mark = Json::parse(text, nullptr, false);
  if (text_field(mark, {"bootID"}) != text_field(node, {"status", "nodeInfo", "bootID"})) {
    return;
  }
  if (now() - known->down.changed < kReadyFor) {
    accuse(rules::kHandedBackClean,
           what + "it is Ready for " + format_duration(now() - known->down.changed) + " only");
  }
  check_containers(change);
  for (const auto& [uid, pod] : truth().pods()) {
    if (pod.node == change.key.name && pod.marked && !pod.gone &&
        now() - *pod.marked > std::chrono::seconds(2)) {
      accuse(rules::kHandedBackClean, what + "pod " + pod.name + " is being deleted there");
    }
  }
}

// What writes on although its pod is gone, wherever that runs by now.
void TaintChecker::check_containers(const Change& change) {
  const auto machine = truth().machines().by_name.find(change.key.name);
  if (machine == truth().machines().by_name.end()) {
    return;
  }
  for (const auto& [uid, container] : machine->second.containers) {
    const PodTruth* pod = truth().pod(uid);
    if (pod != nullptr && pod->gone && now() - *pod->gone > kListTime) {
      accuse(rules::kHandedBackClean, change.actor + " hands node " + change.key.name +
                                          " back: a container of pod " + container.pod +
                                          " runs there, and the pod is gone");
    }
  }
}

// As long as Kubernetes believes in the taint it detaches by force what it wants to detach: what
// nobody needs any more it has not detached yet, or mounted nobody knows where.
void TaintChecker::check_detached(const Change& change) {
  const std::string what = change.actor + " hands node " + change.key.name + " back: attachment ";
  for (const Object& attachment : truth().store().list("volumeattachments")) {
    if (text_field(*attachment, {"spec", "nodeName"}) != change.key.name) {
      continue;
    }
    if (!text_field(*attachment, {"metadata", "deletionTimestamp"}).empty()) {
      accuse(rules::kHandedBackClean, what + name_of(*attachment) + " is being deleted there");
    } else if (!is_needed(*attachment)) {
      accuse(rules::kHandedBackClean, what + name_of(*attachment) + " is needed by no pod there");
    }
  }
}

// A pod that ended since it was listed may have needed it.
bool TaintChecker::is_needed(const Json& attachment) const {
  const std::string& node = text_field(attachment, {"spec", "nodeName"});
  const std::string& volume = text_field(attachment, {"spec", "source", "persistentVolumeName"});
  for (const Object& pod : truth().store().list("pods")) {
    if (node_of(*pod) == node && !is_terminating(*pod) && !is_finished(*pod) &&
        claims_volume(truth().store(), *pod, volume)) {
      return true;
    }
  }
  return std::any_of(truth().pods().begin(), truth().pods().end(), [&](const auto& entry) {
    const PodTruth& pod = entry.second;
    const auto lately = [this](const std::optional<Moment>& at) {
      return at && now() - *at < kListTime;
    };
    return pod.node == node && (lately(pod.marked) || lately(pod.gone) ||
                                (pod.finished.holds && lately(pod.finished.changed)));
  });
}

}  // namespace moonfence::sim
