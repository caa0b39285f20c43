#include "sim/checkers/audit_checker.h"

#include <algorithm>
#include <utility>

#include "sim/checkers/leadership_checker.h"
#include "sim/ground/facts.h"
#include "sim/net/slow_calls.h"
#include "sim/store/fields.h"
#include "sim/truth/called_path.h"
#include "sim/truth/settling.h"

namespace moonfence::sim {
namespace {

// What waits to leave waits behind calls of 35 s at most.
constexpr Duration kLeavingTime = std::chrono::seconds(38);
// Beside the limit that the call itself names: the way, the live read after a refusal, a turn.
constexpr Duration kTellingTime = std::chrono::seconds(3);

// By incident and object. A node that comes back is handed back at once, also while what came of
// its taint is not known: both patches test what they change. Its machine is another thing.
std::pair<std::string, std::string> key_of(const AuditLine& line) {
  return {line.incident, line.subject() + (line.lifts()        ? " lifted"
                                           : line.orders_off() ? " ordered off"
                                           : line.isolates()   ? " isolated"
                                           : line.fails_pod()  ? " failed"
                                                               : "")};
}

}  // namespace

std::string AuditChecker::node_uid(const std::string& name) const {
  const Object node = truth().store().find({.resource = "nodes", .space = {}, .name = name});
  return node == nullptr ? std::string() : text_field(*node, {"metadata", "uid"});
}

AuditLine read_audit_line(const Life& life, std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  const auto field = [&json](std::string_view name) { return text_field(json, {name}); };
  return {.life = life,
          .kind = field("kind"),
          .reason = field("reason"),
          .incident = field("incident"),
          .node = field("node"),
          .node_uid = field("node_uid"),
          .pod_uid = field("pod_uid"),
          .pod = field("namespace") + "/" + field("pod"),
          .attachment_uid = field("attachment_uid"),
          .action = field("action"),
          .evidence = field("evidence")};
}

void AuditChecker::on_died(const Life& life, bool told) {
  const auto book = books_.find(life);
  if (book == books_.end()) {
    return;
  }
  if (told && !book->second.incidents.empty()) {
    accuse(rules::kOneIncident, life.replica + " left with an open incident of node " +
                                    book->second.incidents.begin()->second.node);
  }
  books_.erase(book);
}

void AuditChecker::on_audit(const AuditLine& line) {
  Book& book = books_[line.life];
  if (line.kind == "incident_opened") {
    ++opened_;
    opened_by_anybody_.insert(line.incident);
    const auto others =
        std::count_if(book.incidents.begin(), book.incidents.end(),
                      [&line](const auto& entry) { return entry.second.node == line.node; });
    book.incidents.emplace(line.incident, Open{.node = line.node, .since = now()});
    if (others >= signals()) {
      accuse(rules::kOneIncident,
             line.life.replica + " opened a second incident of node " + line.node);
    }
  } else if (line.kind == "incident_held" && line.reason == "volume_left") {
    if (const auto open = book.incidents.find(line.incident); open != book.incidents.end()) {
      open->second.told_left = now();
    }
  } else if (line.kind == "refusal" && line.action == "taint_out_of_service") {
    const bool passes = line.reason == "reading_too_old" || line.reason == "pods_unknown";
    if (const auto open = book.incidents.find(line.incident); open != book.incidents.end()) {
      open->second.kept_in_service = !passes;
    }
  } else if (line.kind == "incident_closed") {
    ++closed_;
    const auto open = book.incidents.find(line.incident);
    if (open == book.incidents.end() || open->second.node != line.node) {
      // A leader before opened it, by a signal that no policy goes by any more.
      if (line.reason == "no_policy" && opened_by_anybody_.contains(line.incident)) {
        return;
      }
      accuse(rules::kOneIncident, line.life.replica + " closed incident " + line.incident +
                                      " of node " + line.node + ", which is not open");
      return;
    }
    book.incidents.erase(open);
  } else if (line.kind == "intent") {
    on_intent(line);
  } else if (line.kind == "outcome" || line.kind == "refusal") {
    on_outcome(line);
  }
}

void AuditChecker::on_intent(const AuditLine& line) {
  Book& book = books_[line.life];
  if (const auto open = book.incidents.find(line.incident); open != book.incidents.end()) {
    open->second.acted = true;
  }
  intended_.insert(line.subject());
  intended_.insert(line.node_uid);
  if (!book.intents
           .emplace(key_of(line),
                    Pending{.due = now() + kLeavingTime,
                            .subject = line.orders_off() || line.isolates() ? "" : line.subject(),
                            .node_uid = line.node_uid,
                            .releases = line.action == "release_volume",
                            .fails = line.fails_pod()})
           .second) {
    accuse(rules::kOutcomeRecorded, line.life.replica + " means to delete pod " + line.pod +
                                        " again before the outcome of the first time is known");
  }
}

void AuditChecker::on_outcome(const AuditLine& line) {
  if (line.reason == "release_acknowledged" || line.reason == "storage_withdrawn" ||
      line.reason == "detached") {
    return;  // what became of it, beside the outcome of what we did
  }
  Book& book = books_[line.life];
  const auto intent = book.intents.find(key_of(line));
  if (intent == book.intents.end()) {
    if (line.kind == "outcome" && line.reason == "already_gone" && line.attachment_uid.empty() &&
        !line.changes_node()) {
      check_claim(line);  // of a deletion by another leader, or one whose outcome was lost
    } else if (line.kind == "outcome") {
      accuse(rules::kIntentFirst,
             line.life.replica + " tells the outcome for pod " + line.pod + " without an intent");
    }
    return;
  }
  if (line.kind == "refusal" && intent->second.left) {
    return;  // of another try; what came of the one that left is still to be told
  }
  book.intents.erase(intent);
  if (line.kind == "outcome" && line.attachment_uid.empty() && !line.changes_node() &&
      !line.fails_pod()) {
    check_claim(line);
  }
}

void AuditChecker::check_claim(const AuditLine& line) {
  if (const auto restored = truth().restored_at(); restored && now() - *restored <= kLeavingTime) {
    return;  // it was true when it was done
  }
  const PodTruth* pod = truth().pod(line.pod_uid);
  const bool is_gone = pod != nullptr && pod->gone;
  const bool holds =
      line.reason == "done" || line.reason == "already_gone" || line.reason == "replaced" ? is_gone
      : line.reason == "marked_only" ? pod != nullptr && (is_gone || pod->marked)
                                     : true;
  if (!holds) {
    accuse(rules::kAuditTrue,
           line.life.replica + " says " + line.reason + " of pod " + line.pod + ": it is there");
  }
}

void AuditChecker::on_left(const WireRequest& request) {
  if (!is_destructive(request)) {
    return;
  }
  Book& book = books_[life_of(request)];
  const CalledPath target = read_path(request.target);
  const bool releases = target.resource == "nodes" && target.subresource == "status";
  const bool fails = target.resource == "pods" && request.method == port::Method::Patch;
  const std::string uid = releases                     ? node_uid(target.name)
                          : target.resource == "nodes" ? tested_uid(request.body)
                          : fails                      ? merged_uid(request.body)
                                                       : uid_precondition(request.body);
  const auto intent =
      std::find_if(book.intents.begin(), book.intents.end(), [&](const auto& entry) {
        const Pending& pending = entry.second;
        const std::string& about = releases ? pending.node_uid : pending.subject;
        return about == uid && pending.releases == releases && pending.fails == fails &&
               !pending.left;
      });
  if (intent == book.intents.end()) {
    accuse(rules::kIntentFirst,
           request.replica + " sends " + request.target + " without an intent of its own");
    return;
  }
  intent->second.left = true;
  intent->second.due = now() + server_limit(request) + kTellingTime;
}

void AuditChecker::on_change(const Change& change) {
  brake_.on_change(change, truth());
  if (is_engine(change.actor)) {
    check_known(change);
  }
}

void AuditChecker::check_known(const Change& change) {
  const std::string& resource = change.key.resource;
  const bool is_node = resource == "nodes";
  // Of a mark and the removal that follows it, the first.
  const bool was_marked = change.before != nullptr &&
                          !text_field(*change.before, {"metadata", "deletionTimestamp"}).empty();
  if ((resource != "pods" && resource != "volumeattachments" && !is_node) ||
      (was_marked && !is_node)) {
    return;
  }
  if (is_node && change.before != nullptr &&
      without_evidence(*change.before) == without_evidence(*change.after)) {
    return;  // others are told what is known of it: the API server's own audit log has that
  }
  if (!intended_.contains(text_field(*change.after, {"metadata", "uid"}))) {
    accuse(rules::kAuditComplete, change.actor + " changed " + resource + " " + change.key.space +
                                      "/" + change.key.name + " and the audit does not know");
  }
}

void AuditChecker::after_turn(const Standing& standing) {
  const auto book = books_.find(standing.life);
  if (book == books_.end()) {
    return;
  }
  for (auto& [key, pending] : book->second.intents) {
    if (now() > pending.due) {
      accuse(rules::kOutcomeRecorded,
             standing.life.replica + " has not told the outcome for pod UID " + key.second);
      pending.due = Moment::max();
    }
  }
}

void AuditChecker::on_paused(const Life& life, bool paused) {
  const auto book = books_.find(life);
  if (paused || book == books_.end()) {
    return;
  }
  for (auto& [key, pending] : book->second.intents) {
    pending.due = now() + kLeavingTime;  // its time begins again
  }
}

bool AuditChecker::may_wait() const {
  const std::vector<PolicyEdit>& edits = truth().policy_edits();
  if (edits.empty()) {
    return false;
  }
  const Reach* reach = edits.back().reach.get();
  return reach == nullptr ||
         std::any_of(reach->bindings.begin(), reach->bindings.end(),
                     [](const BindingReach& binding) { return !binding.deletes; });
}

// A node may have an incident for each of them: Kubernetes' word, and what bindings go by instead.
std::ptrdiff_t AuditChecker::signals() const {
  std::set<std::string> all = {""};
  for (const PolicyEdit& edit : truth().policy_edits()) {
    if (edit.reach != nullptr) {
      for (const BindingReach& binding : edit.reach->bindings) {
        all.insert(binding.signal);
      }
    }
  }
  return std::ssize(all);
}

bool AuditChecker::is_held_up(const std::string& node) const {
  return is_node_held(node) || was_node_held(node) ||
         std::any_of(truth().pods().begin(), truth().pods().end(), [&](const auto& entry) {
           return entry.second.node == node && !entry.second.gone && is_pod_held(entry.second);
         });
}

// A machine that answers keeps the incident of its node open.
bool AuditChecker::is_vetoed(const std::string& node) const {
  const auto& machines = truth().machines().by_name;
  const auto found = machines.find(node);
  return detects(plan()) && found != machines.end() && found->second.answers();
}

// An object that a finalizer keeps keeps its attachments, and they the incident.
bool AuditChecker::keeps_a_pod(const std::string& node) const {
  return std::any_of(truth().pods().begin(), truth().pods().end(), [&node](const auto& entry) {
    const PodTruth& pod = entry.second;
    return pod.node == node && pod.finalized && pod.marked && !pod.gone;
  });
}

void AuditChecker::at_end(Duration calm_for) {
  const Duration settled = settling_time(plan());
  if (calm_for < settled || may_wait() || brake_.engaged_within(now(), settled)) {
    return;
  }
  for (const auto& [life, book] : books_) {
    for (const auto& [incident, open] : book.incidents) {
      const std::string& node = open.node;
      const Duration limit = open.acted ? closing_time(plan()) : settled;
      // Told every five minutes for as long as it is so.
      const bool left = open.told_left && now() - *open.told_left < std::chrono::minutes(6);
      if (calm_for >= limit && now() - open.since > limit && !left && !open.kept_in_service &&
          !keeps_a_pod(node) && !is_held_up(node) && !is_own_node_of_all(node) &&
          !is_vetoed(node) && !is_proof_awaited(node)) {
        std::string what = life.replica;
        what.append(": incident ").append(incident).append(" of node ").append(node);
        what.append(" is open since ").append(format_duration(now() - open.since));
        accuse(rules::kIncidentClosed, what);
      }
    }
  }
}

}  // namespace moonfence::sim
