#include "fence/verify/replacement_watch.h"

#include <algorithm>
#include <utility>

#include "kube/objects/decode.h"
#include "kube/wire/url.h"

namespace moonfence::fence {

using audit::Record;

ReplacementWatch::ReplacementWatch(Surroundings& surroundings, IncidentId incident,
                                   std::shared_ptr<const Authority> authority,
                                   Replacements& replacements, std::function<void()> over)
    : around_(surroundings),
      incident_(std::move(incident)),
      authority_(std::move(authority)),
      replacements_(replacements),
      over_(std::move(over)) {}

void ReplacementWatch::keep() {
  if (!replacements_.awaits()) {
    rest();
    return;
  }
  if (deletions_ != replacements_.deletions()) {
    deletions_ = replacements_.deletions();
    since_ = around_.access.loop.now();
    next_.cancel();
  }
  plan();
}

void ReplacementWatch::rest() {
  next_.cancel();
  conclude_.cancel();
  end_look();
}

void ReplacementWatch::end_look() {
  looking_ = false;
  list_.reset();
  lookups_.reset();
  questions_.clear();
  unattached_.clear();
  seen_ = {};
  turn_.reset();
}

void ReplacementWatch::plan() {
  if (!looking_ && !next_.pending()) {
    const Duration pause = std::clamp<Duration>((around_.access.loop.now() - since_) / 2,
                                                Duration(kFirstPause), Duration(kLongestPause));
    next_ = around_.access.loop.after(pause, [this] { await_turn(); });
  }
}

void ReplacementWatch::await_turn() {
  looking_ = true;
  if (around_.access.looks == nullptr) {
    begin();
  } else {
    turn_ = around_.access.looks->queue([this] { begin(); });
  }
}

void ReplacementWatch::begin() {
  questions_ = replacements_.questions();
  lookups_ = std::make_unique<Lookups>(around_.access.reader);
  list_next();
}

void ReplacementWatch::list_next() {
  if (questions_.empty()) {
    read_further();
    return;
  }
  const Replacements::Question question = questions_.back();
  questions_.pop_back();
  const Namespace& space = question.space;
  kube::ItemFlow flow = {.begin = [this, space] { seen_.pods[space] = {}; },
                         .take = [this, space](const std::string& text) -> Result<void> {
                           if (const auto pod = pods_.decode(text)) {
                             replacements_.see(namespace_pod(*pod), seen_.pods[space]);
                           }
                           return {};
                         }};
  list_ = around_.access.reader.list_namespace_pods(
      space, question.name, std::move(flow), [this, space](const Result<ResourceVersion>& whole) {
        if (!whole) {
          seen_.pods.erase(space);  // of half a list nobody knows what it lacks
          around_.output.log.warning("replacements_unreadable",
                                     {{"incident", incident_.text()},
                                      {"node", authority_->node.text()},
                                      {"error", whole.error().message()}});
        }
        list_next();
      });
}

void ReplacementWatch::read_further() {
  Replacements::Further further = replacements_.further(seen_, authority_->node);
  unattached_ = std::move(further.unattached);
  pending_ = 2;  // an answer may come at once
  for (const auto& [space, owner] : further.owners) {
    read_owner(space, owner);
  }
  read_next_events();
  has_read();
}

// An owner that cannot be read, also for want of a permission, is awaited.
void ReplacementWatch::read_owner(const Namespace& space, const kube::OwnerReference& owner) {
  ++pending_;
  const auto path =
      kube::object_path(owner.api_version, readable_collection(owner), space, owner.name);
  lookups_->get(path, [this, uid = owner.uid](const Result<Lookups::Body>& found) {
    if (found) {
      seen_.owners[uid] =
          *found == nullptr ? OwnerSight{.gone = true} : owner_sight_of(**found, uid);
    }
    has_read();
  });
}

// One list after the other.
void ReplacementWatch::read_next_events() {
  if (unattached_.empty()) {
    has_read();
    return;
  }
  const NamespacePod pod = std::move(unattached_.back());
  unattached_.pop_back();
  lookups_->list(kube::events_path(pod.ref.space),
                 {{"fieldSelector", "involvedObject.kind=Pod,involvedObject.name=" +
                                        kube::selector_value(pod.ref.name)}},
                 [this, uid = pod.uid](const Result<Lookups::Body>& found) {
                   if (found && *found != nullptr) {
                     seen_.storage[uid] = storage_sight_of(**found, uid);
                   }
                   read_next_events();
                 });
}

void ReplacementWatch::has_read() {
  if (--pending_ == 0) {
    // Not inside the answer to a read of ours: what follows may end us.
    conclude_ = around_.access.loop.in_next_turn([this] { conclude(); });
  }
}

void ReplacementWatch::conclude() {
  const auto news = replacements_.look(seen_, authority_->node, around_.output.journal.now());
  end_look();
  for (const Replacements::Finding& finding : news) {
    tell(finding);
  }
  if (replacements_.awaits()) {
    plan();
  } else {
    over_();
  }
}

void ReplacementWatch::tell(const Replacements::Finding& finding) {
  (void)around_.output.trail.write({.kind = Record::Kind::Replacement,
                                    .reason = finding.obstacle.reason,
                                    .incident = incident_,
                                    .node = authority_->node,
                                    .node_uid = authority_->node_uid,
                                    .pod = finding.pod,
                                    .pod_uid = finding.uid,
                                    .policy = {},
                                    .policy_digest = {},
                                    .action = {},
                                    .text = finding.obstacle.text,
                                    .attempt = 0,
                                    .server_audit_id = {},
                                    .took = finding.took});
  if (authority_->ledger != nullptr) {
    authority_->ledger->followed(finding.uid, {.state = finding.obstacle.reason,
                                               .text = finding.obstacle.text,
                                               .node = finding.node,
                                               .uid = finding.replacement,
                                               .at = around_.output.journal.now()});
  }
}

}  // namespace moonfence::fence
