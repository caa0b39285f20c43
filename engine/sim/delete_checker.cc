#include "sim/delete_checker.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "sim/called_path.h"
#include "sim/fields.h"

namespace moonfence::sim {
namespace {

constexpr Duration kReadingLifetime = std::chrono::seconds(1);
// From the moment when a replica heard of an edit: 500 ms until it takes it up, and the slices of
// its validation.
constexpr Duration kReloadTime = std::chrono::seconds(1);

std::int64_t to_number(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool is_down(const Json& node) {
  const Json* conditions = find_field(node, {"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) {
    return true;
  }
  return std::none_of(conditions->begin(), conditions->end(), [](const Json& condition) {
    return text_field(condition, {"type"}) == "Ready" &&
           text_field(condition, {"status"}) == "True";
  });
}

}  // namespace

void DeleteChecker::on_started(const Life& life) {
  known_[life] = {};
}

void DeleteChecker::on_died(const Life& /*life*/, bool /*told*/) {}  // what left is on its way

void DeleteChecker::on_audit(const AuditLine& line) {
  Known& known = known_[line.life];
  if (line.kind == "intent") {
    known.intents.insert_or_assign(line.subject(), line);
  } else if (line.kind == "incident_opened") {
    known.opened.insert_or_assign(line.incident, now());
  }
}

void DeleteChecker::on_left(const WireRequest& request) {
  if (request.method == port::Method::Get) {
    return;
  }
  const CalledPath target = read_path(request.target);
  if (request.method == port::Method::Delete) {
    if (target.resource == "pods" && target.subresource.empty()) {
      check_delete(request, known_[life_of(request)]);
      return;
    }
    if (target.resource == "volumeattachments" && target.subresource.empty()) {
      check_detach(request, known_[life_of(request)]);
      return;
    }
    if (target.resource == "configmaps" && target.space == "moonfence" &&
        target.name.starts_with("moonfence-incident-")) {
      return;
    }
  } else if (request.method == port::Method::Patch && target.resource == "nodes" &&
             target.subresource == "status") {
    check_release(request, known_[life_of(request)]);
    return;
  } else if (request.method == port::Method::Patch && target.resource == "nodes" &&
             target.subresource.empty()) {
    check_patch(request, known_[life_of(request)]);
    return;
  } else if (target.resource == "events" ||
             (target.resource == "leases" && target.space == "moonfence") ||
             (target.resource == "configmaps" && target.space == "moonfence" &&
              target.name != "moonfence-policies")) {
    return;
  }
  accuse(rules::kExpectedWrite,
         std::string(port::to_string(request.method)) + " " + request.target);
}

void DeleteChecker::check_delete(const WireRequest& request, const Known& known) {
  const CalledPath target = read_path(request.target);
  const std::string what =
      request.replica + " deletes pod " + target.space + "/" + target.name + ": ";
  const AuditLine* intent = intent_of(what, request, known);
  if (intent == nullptr) {
    return;
  }
  const std::string uid = uid_precondition(request.body);
  const auto opened = known.opened.find(intent->incident);
  const auto listed = known.listed.find(uid);
  if (opened == known.opened.end() || listed == known.listed.end() ||
      listed->second < opened->second) {
    accuse(rules::kListedPod, what + "UID " + uid + " was not listed in its incident");
  }
  check_node(what, *intent, known);
  const PodTruth* pod = truth().pod(uid);
  if (pod == nullptr) {
    accuse(rules::kListedPod, what + "there never was a pod of UID " + uid);
    return;
  }
  check_reach(what, *pod, *intent, known);
}

void DeleteChecker::check_detach(const WireRequest& request, const Known& known) {
  const CalledPath target = read_path(request.target);
  const std::string what = request.replica + " deletes attachment " + target.name + ": ";
  if (const AuditLine* intent = intent_of(what, request, known); intent != nullptr) {
    check_node(what, *intent, known);
  }
}

// One intent of several: they are about one node and were recorded together.
void DeleteChecker::check_release(const WireRequest& request, const Known& known) {
  const std::string node = read_path(request.target).name;
  const std::string what = request.replica + " releases volumes of node " + node + ": ";
  const auto intent =
      std::find_if(known.intents.begin(), known.intents.end(), [&node](const auto& entry) {
        return entry.second.node == node && entry.second.reason == "policy_releases";
      });
  if (intent == known.intents.end()) {
    accuse(rules::kIntentFirst, what + "no intent");
    return;
  }
  check_node(what, intent->second, known);
}

// What it changes is seen in the store (TaintChecker). Ours goes on only where a pod is to go.
void DeleteChecker::check_patch(const WireRequest& request, const Known& known) {
  const std::string what =
      request.replica + " patches node " + read_path(request.target).name + ": ";
  const std::string uid = tested_uid(request.body);
  if (uid.empty()) {
    accuse(rules::kUidPrecondition, what + "without a test of its UID");
    return;
  }
  const auto intent = known.intents.find(uid);
  if (intent == known.intents.end()) {
    accuse(rules::kIntentFirst, what + "no intent for UID " + uid);
  } else if (intent->second.action == "set_quarantine") {
    check_down(what, intent->second, known);
  }
}

// The intent that a deletion of one object, by its UID, rests on; null when it breaks a rule.
const AuditLine* DeleteChecker::intent_of(const std::string& what, const WireRequest& request,
                                          const Known& known) {
  if (read_path(request.target).name.empty()) {
    accuse(rules::kNoCollections, what + request.target);
    return nullptr;
  }
  const std::string uid = uid_precondition(request.body);
  if (uid.empty()) {
    accuse(rules::kUidPrecondition, what + "without a UID precondition");
    return nullptr;
  }
  const auto intent = known.intents.find(uid);
  if (intent == known.intents.end()) {
    accuse(rules::kIntentFirst, what + "no intent for UID " + uid);
    return nullptr;
  }
  return &intent->second;
}

void DeleteChecker::check_node(const std::string& what, const AuditLine& intent,
                               const Known& known) {
  const NodeTruth* node = truth().node(intent.node_uid);
  if (check_down(what, intent, known) && !node->tainted.held_within(now(), kReadingLifetime)) {
    accuse(rules::kTaintedNode, what + "node " + intent.node + " carries no taint");
  }
}

bool DeleteChecker::check_down(const std::string& what, const AuditLine& intent,
                               const Known& known) {
  const auto read = known.readings.find(intent.node);
  const bool was_read =
      read != known.readings.end() &&
      std::any_of(read->second.begin(), read->second.end(), [&](const Reading& reading) {
        return reading.uid == intent.node_uid && reading.down &&
               now() - reading.left <= kReadingLifetime;
      });
  if (!was_read) {
    accuse(rules::kLiveRead, what + "node " + intent.node + " was not read as down within 1 s");
  }
  const NodeTruth* node = truth().node(intent.node_uid);
  if (node == nullptr || !node->down.held_within(now(), kReadingLifetime)) {
    accuse(rules::kRecoveredNode,
           what + "node " + intent.node + " is not down" +
               (node == nullptr ? ", it never was"
                                : " since " + format_duration(now() - node->down.changed)));
    return false;
  }
  check_lease(what, *node);
  return true;
}

// What was renewed within the last second may have come after the reading.
void DeleteChecker::check_lease(const std::string& what, const NodeTruth& node) const {
  const LeaseTruth* lease = truth().lease(node.name);
  if (!node.silent.holds || lease == nullptr || !lease->exists) {
    return;
  }
  const Moment since = std::max(node.silent.changed, now() - lease->duration);
  if (lease->changed_between(since, now() - kReadingLifetime)) {
    accuse(rules::kLivingLease, what + "the kubelet of " + node.name + " renews its Lease");
  }
}

bool DeleteChecker::stands_still(const NodeTruth& node) const {
  const LeaseTruth* lease = truth().lease(node.name);
  return lease != nullptr &&
         !lease->changed_between(now() - lease->duration, now() - kReadingLifetime);
}

// Every version that may rule: what was heard of within the last second, what was the newest
// before, and, behind a version that is refused, the one that it should have replaced.
std::vector<std::shared_ptr<const Reach>> DeleteChecker::in_force(const Known& known) const {
  std::vector<std::shared_ptr<const Reach>> found;
  const std::vector<PolicyEdit>& edits = truth().policy_edits();
  const auto add = [&found, &edits](std::int64_t version) {
    auto edit = std::find_if(edits.rbegin(), edits.rend(), [version](const PolicyEdit& candidate) {
      return candidate.version <= version;
    });
    if (edit == edits.rend() || edit->lowered) {
      return;
    }
    while (edit != edits.rend() && edit->reach == nullptr) {
      ++edit;
    }
    if (edit != edits.rend()) {
      found.push_back(edit->reach);
    }
  };
  for (auto hearing = known.policies.rbegin(); hearing != known.policies.rend(); ++hearing) {
    add(hearing->version);
    if (now() - hearing->at > kReloadTime) {
      break;
    }
  }
  return found;
}

void DeleteChecker::check_reach(const std::string& what, const PodTruth& pod,
                                const AuditLine& intent, const Known& known) {
  const NodeTruth* node = truth().node(intent.node_uid);
  if (pod.node != intent.node) {
    accuse(rules::kIncidentNode, what + "it is bound to " + pod.node + ", not " + intent.node);
  }
  if (pod.mirror || pod.controller == "DaemonSet" || pod.controller == "Node") {
    accuse(rules::kProtectedPod, what + "it is a mirror or DaemonSet pod");
  }
  bool covered = false;
  bool permits_kind = false;
  bool fits_signal = false;
  const bool was_silent =
      node != nullptr && (node->silent.held_within(now(), kReadingLifetime) || stands_still(*node));
  // Finished only since it was listed: the list could not know.
  const auto listed = known.listed.find(intent.pod_uid);
  const bool finished =
      pod.finished.holds && listed != known.listed.end() && pod.finished.changed < listed->second;
  for (const auto& reach : in_force(known)) {
    for (const BindingReach& binding : reach->bindings) {
      if (!binding.enforces || !binding.covers(pod.space, pod.labels)) {
        continue;
      }
      covered = true;
      const bool permits =
          (binding.bare_pods || !pod.controller.empty()) && (binding.finished_pods || !finished);
      permits_kind = permits_kind || permits;
      fits_signal = fits_signal || (permits && (binding.live_kubelet || was_silent));
    }
  }
  if (!covered) {
    accuse(rules::kCoveredPod, what + "no enforcing binding covers it");
  } else if (!permits_kind) {
    accuse(rules::kProtectedPod, what + "it is finished or bare, and no binding allows that");
  } else if (!fits_signal) {
    accuse(rules::kSilentKubelet, what + "the kubelet of " + intent.node + " is not silent");
  }
}

void DeleteChecker::on_answered(const WireRequest& request, const ServerAnswer& answer) {
  if (request.method != port::Method::Get || answer.status != 200 || answer.watch != nullptr) {
    return;
  }
  const CalledPath target = read_path(request.target);
  Known& known = known_[life_of(request)];
  if (target.resource == "nodes" && !target.name.empty()) {
    const Json node = Json::parse(answer.body, nullptr, false);
    std::vector<Reading>& readings = known.readings[target.name];
    std::erase_if(readings, [this](const Reading& reading) {
      return now() - reading.left > kReadingLifetime * 2;
    });
    readings.push_back({.uid = text_field(node, {"metadata", "uid"}),
                        .down = is_down(node),
                        .left = request.left});
  } else if (target.resource == "pods" && target.name.empty()) {
    const Json list = Json::parse(answer.body, nullptr, false);
    const Json* items = find_field(list, {"items"});
    for (const Json& pod : items == nullptr ? Json::array() : *items) {
      known.listed[text_field(pod, {"metadata", "uid"})] = now();
    }
  }
}

void DeleteChecker::on_heard(const WireRequest& request, int status, std::string_view text) {
  if (status != 200 || request.method != port::Method::Get ||
      request.target.find("/namespaces/moonfence/configmaps") == std::string::npos ||
      request.target.find("moonfence-policies") == std::string::npos) {
    return;
  }
  note_policies(known_[life_of(request)], request, text);
}

void DeleteChecker::note_policies(Known& known, const WireRequest& /*request*/,
                                  std::string_view text) const {
  const Json said = Json::parse(text, nullptr, false);
  if (said.is_discarded()) {
    return;
  }
  std::int64_t version = 0;
  if (const Json* event = find_field(said, {"object"})) {  // a line of the watch
    version = to_number(text_field(*event, {"metadata", "resourceVersion"}));
    if (text_field(said, {"type"}) == "BOOKMARK" || text_field(said, {"type"}) == "ERROR") {
      return;
    }
  } else {
    version = to_number(text_field(said, {"metadata", "resourceVersion"}));  // of the list
  }
  known.policies.push_back({.version = version, .at = now()});
}

void DeleteChecker::on_change(const Change& change) {
  if (change.type != ChangeType::Deleted || change.key.resource != "pods" ||
      !is_engine(change.actor)) {
    return;
  }
  const std::string& uid = text_field(*change.after, {"metadata", "uid"});
  const bool intended = std::any_of(known_.begin(), known_.end(), [&](const auto& entry) {
    return entry.first.replica == change.actor && entry.second.intents.contains(uid);
  });
  if (!intended) {
    accuse(rules::kUidPrecondition, change.actor + " removed pod " + change.key.space + "/" +
                                        change.key.name + " of UID " + uid +
                                        ", which it never meant");
  }
}

}  // namespace moonfence::sim
