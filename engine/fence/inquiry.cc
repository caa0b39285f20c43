#include "fence/inquiry.h"

#include <algorithm>
#include <set>

#include "fence/selection.h"

namespace moonfence::fence {

using audit::Reason;
using audit::Record;
using policy::Binding;
using policy::Mode;
using policy::NodeVerdict;
using policy::Verdict;

namespace {

// When a policy that failed over the node is asked again.
constexpr Duration kNodeRetry = std::chrono::seconds(30);
// When an attacher that showed no life is looked at again.
constexpr Duration kAttacherRetry = std::chrono::seconds(5);

Reason reason_of(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::Skip:
      return Reason::PolicySkips;
    case Verdict::Kind::Forbid:
      return Reason::PolicyForbids;
    case Verdict::Kind::Wait:
      return Reason::PolicyWaits;
    case Verdict::Kind::DeletePod:
      return Reason::PolicyDeletesPod;
    case Verdict::Kind::DeletePodAndAttachments:
      return Reason::PolicyDeletesPodAndAttachments;
    case Verdict::Kind::DeleteAttachments:
      return Reason::PolicyDeletesAttachments;
  }
  return Reason::PolicyFailed;
}

bool is_guard(const Binding& binding) {
  return binding.policy == nullptr || binding.policy->is_guard();
}

// Two bindings of one policy with other settings, or in another mode, are apart: neither fails or
// counts for the other.
std::string key_of(const Binding& binding) {
  return binding.name + "@" + binding.digest + " " + std::string(policy::to_string(binding.mode));
}

// The breaker's word on a policy, as a sentence.
std::string sentence(const Binding& binding, const std::string& why) {
  return "policy " + binding.name + " " + why;
}

Opinion opinion_of(const Binding& binding, std::size_t index) {
  return {.binding = index, .mode = binding.mode, .guard = is_guard(binding)};
}

}  // namespace

// One pod while it is being asked about.
struct Inquiry::Case {
  kube::Pod& pod;
  const Gathered& known;
  const policy::ClusterFacts& cluster;
  std::set<Mode> may_act = {};  // the modes in which some binding may act on it by now
  std::vector<Opinion> opinions;
  bool unfit = false;   // a binding would be asked if the node's kubelet were silent
  bool unread = false;  // a binding would be asked if what it needs could be read
};

Inquiry::Inquiry(Surroundings& surroundings, const Occasion& occasion,
                 std::shared_ptr<const Authority> authority, Memory& memory)
    : around_(surroundings),
      occasion_(occasion),
      authority_(std::move(authority)),
      memory_(memory) {}

void Inquiry::begin(kube::Node node) {
  node_ = std::move(node);
  node_judged_.assign(occasion_.set->bindings.size(), false);
  standings_.clear();
  for (const Binding& binding : occasion_.set->bindings) {
    standings_.push_back(binding.policy == nullptr ? Standing{}
                         : signal_of(binding) != authority_->source
                             ? Standing{.kind = Standing::Kind::OtherWord}
                             : standing_of(binding.policy->trigger(), occasion_.downtime,
                                           authority_->reading.pulse == Pulse::Dead,
                                           around_.loop.now()));
  }
}

Wants Inquiry::wants_of(const kube::Pod& pod) const {
  Wants wants;
  policy::Needs& all = wants.needs;
  for (const std::size_t index : selecting(pod)) {
    if (binding(index).policy != nullptr) {
      const policy::Needs& needs = binding(index).policy->needs();
      all.volumes = all.volumes || needs.volumes;
      all.placement = all.placement || needs.placement;
      all.root_owner = all.root_owner || needs.root_owner;
      all.siblings = all.siblings || needs.siblings;
      if (binding(index).policy->fetches()) {
        wants.fetchers.push_back(binding(index).policy);
      }
    }
  }
  return wants;
}

namespace {

// Why the policy cannot be asked about the pod yet; "" when it can.
std::string missing_for(const policy::Policy& policy, const Gathered& known) {
  if (!known.missing.empty() && policy.needs() != policy::Needs{}) {
    return known.missing;
  }
  if (!policy.fetches()) {
    return {};
  }
  const auto fetched = known.fetched.find(&policy);
  return fetched == known.fetched.end() ? "nothing was fetched; " + known.missing
                                        : fetched->second.missing;
}

policy::PodFacts facts_for(const policy::Policy& policy, const Gathered& known) {
  policy::PodFacts facts = known.facts;
  if (const auto fetched = known.fetched.find(&policy); fetched != known.fetched.end()) {
    facts.fetched = fetched->second.answers;
  }
  return facts;
}

}  // namespace

std::optional<Deed> Inquiry::judge(kube::Pod pod, const Gathered& known,
                                   const policy::ClusterFacts& cluster, PassResult& result) {
  const std::vector<std::size_t> selected_by = selecting(pod);
  if (selected_by.empty()) {
    return std::nullopt;
  }
  if (memory_.handled.contains(pod.uid)) {
    record_verdict(pod, nullptr, Reason::HandledBefore, {});
    return std::nullopt;
  }
  std::optional<Reason> untouchable;
  bool touchable = false;
  Case asked = {.pod = pod, .known = known, .cluster = cluster, .opinions = {}};
  for (const std::size_t index : selected_by) {
    if (binding(index).policy == nullptr) {
      continue;
    }
    const auto reason = left_alone(pod, binding(index).allow);
    untouchable = untouchable ? untouchable : reason;
    touchable = touchable || !reason;
    if (!reason) {
      ask_about_node(index, cluster);
    }
    if (!reason && standings_[index].kind == Standing::Kind::MayAct) {
      asked.may_act.insert(binding(index).mode);
    }
  }
  if (!touchable) {
    record_verdict(pod, nullptr, *untouchable, {});
    return std::nullopt;
  }
  for (const std::size_t index : selected_by) {
    ask(index, asked);
  }
  result.unreadable = result.unreadable || asked.unread;
  observe(asked, result);
  return enforce(asked, result);
}

std::vector<std::size_t> Inquiry::selecting(const kube::Pod& pod) const {
  std::vector<std::size_t> found;
  bool by_a_policy = false;
  for (std::size_t index = 0; index < occasion_.set->bindings.size(); ++index) {
    const Binding& candidate = binding(index);
    const bool asleep = (standings_[index].kind == Standing::Kind::NotSwept ||
                         standings_[index].kind == Standing::Kind::OtherWord) &&
                        !is_guard(candidate);
    if (asleep || !candidate.scope.covers(pod.ref.space) ||
        (candidate.policy != nullptr && !candidate.policy->selects(pod.labels))) {
      continue;
    }
    by_a_policy = by_a_policy || candidate.policy != nullptr;
    found.push_back(index);
  }
  if (!by_a_policy) {
    found.clear();
  }
  return found;
}

// Once for every reading, when the first of its pods comes up.
void Inquiry::ask_about_node(std::size_t index, const policy::ClusterFacts& cluster) {
  const Binding& asking = binding(index);
  Standing& standing = standings_[index];
  if (standing.kind != Standing::Kind::MayAct || node_judged_[index] ||
      !asking.policy->judges_node() || !memory_.side(asking.mode).breaker.may_run(key_of(asking))) {
    return;
  }
  node_judged_[index] = true;
  const auto run = asking.policy->judge_node(node_, cluster, node_facts(index));
  const auto tripped =
      memory_.side(asking.mode)
          .breaker.note(key_of(asking), run.result ? nullptr : &run.result.error(), run.usage);
  if (tripped) {
    mention_once(asking, Reason::PolicyFailing, sentence(asking, *tripped));
  }
  if (!run.result) {
    standing = {.kind = Standing::Kind::NodeHeld, .due_in = kNodeRetry};
    mention_once(asking, Reason::PolicyFailed, run.result.error().message());
    return;
  }
  switch (run.result->kind) {
    case NodeVerdict::Kind::Proceed:
      break;
    case NodeVerdict::Kind::Hold:
      standing = {.kind = Standing::Kind::NodeHeld, .due_in = run.result->wait};
      mention_once(asking, Reason::PolicyHoldsNode, run.result->reason);
      break;
    case NodeVerdict::Kind::TaintOutOfService:
      standing = {.kind = Standing::Kind::NodeHeld};
      mention_once(asking, Reason::TaintNotServed, run.result->reason);
      break;
  }
}

policy::NodeFacts Inquiry::node_facts(std::size_t index) const {
  const Duration down_for = around_.loop.now() - occasion_.downtime.since;
  return {.exists = true, .failures = failures_of(binding(index).policy->trigger(), down_for)};
}

void Inquiry::ask(std::size_t index, Case& asked) {
  const Binding& asking = binding(index);
  if (asking.policy == nullptr) {
    asked.opinions.push_back(opinion_of(asking, index));
    asked.opinions.back().failed = true;
    if (asked.may_act.contains(asking.mode)) {
      mention_once(asking, Reason::GuardBroken, asking.error);
    }
    return;
  }
  const bool may_act =
      standings_[index].kind == Standing::Kind::MayAct && !left_alone(asked.pod, asking.allow);
  if (may_act) {
    asked.opinions.push_back(run(index, asked));
    return;
  }
  if (is_guard(asking) && asked.may_act.contains(asking.mode)) {
    Opinion opinion = run(index, asked);
    if (!opinion.verdict || opinion.verdict->kind == Verdict::Kind::Forbid) {
      asked.opinions.push_back(std::move(opinion));
      return;
    }
  }
  ask_later(index, asked);
}

void Inquiry::ask_later(std::size_t index, Case& asked) {
  const Binding& asking = binding(index);
  if (left_alone(asked.pod, asking.allow)) {
    return;
  }
  const Standing& standing = standings_[index];
  if (standing.kind == Standing::Kind::Unfit) {
    asked.unfit = true;
    mention_once(asking, Reason::SignalUnfit, {});
  } else if (standing.kind == Standing::Kind::NodeHeld ||
             standing.kind == Standing::Kind::NotDueYet) {
    Opinion opinion = opinion_of(asking, index);
    opinion.guard = false;  // it has had its say
    if (standing.due_in > Duration::zero()) {
      opinion.verdict =
          Verdict{.kind = Verdict::Kind::Wait, .reason = "not yet", .wait = standing.due_in};
    }
    asked.opinions.push_back(std::move(opinion));
  }
  if (standing.kind == Standing::Kind::NotDueYet) {
    mention_once(asking, Reason::HoldingDown, "due in " + format_duration(standing.due_in));
  }
}

Opinion Inquiry::run(std::size_t index, Case& asked) {
  const Binding& asking = binding(index);
  Opinion opinion = opinion_of(asking, index);
  const std::string key = key_of(asking);
  auto& [breaker, tallies] = memory_.side(asking.mode);
  if (!breaker.may_run(key)) {
    opinion.failed = true;
    record_verdict(asked.pod, &asking, Reason::PolicyFailing,
                   sentence(asking, breaker.reason(key)));
    return opinion;
  }
  if (const std::string missing = missing_for(*asking.policy, asked.known); !missing.empty()) {
    opinion.failed = true;
    asked.unread = true;
    record_verdict(asked.pod, &asking, Reason::NeedsUnread, missing);
    return opinion;
  }
  policy::ClusterFacts cluster = asked.cluster;
  cluster.tally = tallies.without(key, asked.pod.uid);
  const policy::Evaluation evaluation = asking.policy->evaluate(
      asked.pod, node_, cluster, node_facts(index), facts_for(*asking.policy, asked.known));
  const auto tripped = breaker.note(key, evaluation);
  tallies.note(key, asked.pod.uid,
               evaluation.verdict ? evaluation.verdict->kind : Verdict::Kind::Wait);
  if (evaluation.verdict) {
    record_verdict(asked.pod, &asking, reason_of(evaluation.verdict->kind),
                   evaluation.verdict->reason);
    opinion.verdict = *evaluation.verdict;
  } else {
    record_verdict(asked.pod, &asking, Reason::PolicyFailed, evaluation.verdict.error().message());
    opinion.ask_again = !tripped;
    opinion.failed = true;
  }
  if (tripped) {
    mention_once(asking, Reason::PolicyFailing, sentence(asking, *tripped));
  }
  return opinion;
}

std::optional<Deed> Inquiry::enforce(Case& asked, PassResult& result) {
  const Decision decision = resolve(asked.opinions, Mode::Enforce);
  record_conflict(decision, asked.pod);
  record_stop(decision, asked.pod);
  if (decision.kind != Decision::Kind::Act) {
    look_again(decision, result);
    note_failures(decision, asked, result);
    result.unfit = result.unfit || asked.unfit;
    return std::nullopt;
  }
  const Verdict& verdict = *decision.by->verdict;
  if (const std::string driver = silent_attacher(asked, verdict); !driver.empty()) {
    record_refusal(asked.pod, *decision.by, Reason::AttacherSilent, driver);
    result.look_again = std::min(result.look_again.value_or(kAttacherRetry), kAttacherRetry);
    return std::nullopt;
  }
  if (verdict.release && around_.release.on) {
    for (const policy::VolumeFacts& volume : verdict.volumes) {
      if (!around_.release.attachers.contains(volume.driver)) {
        mention_once(binding(decision.by->binding), Reason::AttacherUnwatched, volume.driver);
      }
    }
  }
  return deed_of(asked, *decision.by);
}

std::string Inquiry::silent_attacher(const Case& asked, const Verdict& verdict) {
  if (!verdict.release || !around_.release.on) {
    return {};
  }
  for (const policy::VolumeFacts& volume : verdict.volumes) {
    const auto lease = asked.known.attachers.find(volume.driver);
    if (lease != asked.known.attachers.end() &&
        !(lease->second && is_fresh(*lease->second, asked.cluster.now))) {
      return volume.driver;
    }
  }
  return {};
}

Deed Inquiry::deed_of(Case& asked, const Opinion& opinion) {
  const Binding& by = binding(opinion.binding);
  const Verdict& verdict = *opinion.verdict;
  Deed deed;
  deed.deletes_pod = verdict.kind != Verdict::Kind::DeleteAttachments;
  deed.volumes = verdict.volumes;
  if (!deed.deletes_pod) {
    const Moment since =
        memory_.detaching_since.try_emplace(asked.pod.uid, around_.loop.now()).first->second;
    deed.deletes_pod = verdict.on_timeout == Verdict::OnTimeout::Delete &&
                       around_.loop.now() - since >= verdict.wait;
  }
  deed.releases = verdict.release && around_.release.on;
  if (verdict.release && !around_.release.on) {
    mention_once(by, Reason::ReleaseNotServed, verdict.reason);
  }
  asked.pod.raw.reset();  // the policies have read it; what waits in a queue stays small
  deed.deletion = {.pod = std::move(asked.pod),
                   .incident = occasion_.incident,
                   .policy = by.name,
                   .policy_digest = by.digest,
                   .set_digest = occasion_.set->digest,
                   .why = verdict.reason,
                   .attempt = occasion_.attempt};
  return deed;
}

void Inquiry::observe(const Case& asked, PassResult& result) {
  const Decision decision = resolve(asked.opinions, Mode::Observe);
  record_conflict(decision, asked.pod);
  if (decision.kind != Decision::Kind::Act) {
    look_again(decision, result);
    return;
  }
  // The guard's own word: it may have more against it than the mode. What enforces the same policy
  // here lets it pass; the age of the reading and the record matter to nobody who only looks.
  const Binding& by = binding(decision.by->binding);
  auto refused = refuse_pod_deletion(
      *authority_, {.policy = by.name, .digest = by.digest, .set = occasion_.set->digest},
      asked.pod, around_.loop.now());
  result.policies_changed = result.policies_changed || refused == Reason::PolicyChanged;
  // Enforcing would have set our taint.
  const bool untainted = refused == Reason::NotTainted && around_.quarantine != Quarantine::Off;
  if (!refused || *refused == Reason::ReadingTooOld || *refused == Reason::NotRecorded ||
      untainted) {
    refused = Reason::ModeObserves;
  }
  record_refusal(asked.pod, *decision.by, *refused, decision.by->verdict->reason);
}

void Inquiry::look_again(const Decision& decision, PassResult& result) const {
  if (decision.look_again) {
    result.look_again =
        std::min(result.look_again.value_or(*decision.look_again), *decision.look_again);
  }
  result.failed += decision.ask_again ? 1 : 0;
}

void Inquiry::note_failures(const Decision& decision, const Case& asked, PassResult& result) const {
  if (decision.kind != Decision::Kind::Held && decision.kind != Decision::Kind::Wait) {
    return;  // somebody else's word counts
  }
  for (const Opinion& opinion : asked.opinions) {
    // A guard without a policy acts on nothing itself: it holds only what another would do.
    const bool holds = binding(opinion.binding).policy != nullptr || decision.stopped != nullptr;
    if (opinion.failed && opinion.mode == Mode::Enforce && holds) {
      result.held_by_failure.insert(binding(opinion.binding).name);
    }
  }
}

void Inquiry::record_conflict(const Decision& decision, const kube::Pod& pod) {
  if (decision.overruled == nullptr) {
    return;
  }
  record_verdict(pod, &binding(decision.overruled->binding), Reason::PolicyConflict,
                 "another policy that stands before it wants another action; this one wanted: " +
                     decision.overruled->verdict->reason);
}

void Inquiry::record_stop(const Decision& decision, const kube::Pod& pod) {
  if (decision.stopped == nullptr) {
    return;
  }
  const Binding& by = binding(decision.by->binding);
  const Reason reason = decision.kind == Decision::Kind::Forbidden ? Reason::PolicyForbids
                        : by.policy == nullptr                     ? Reason::GuardBroken
                                                                   : Reason::GuardFailed;
  const std::string text =
      decision.by->verdict ? "policy " + by.name + " forbids it: " + decision.by->verdict->reason
                           : "policy " + by.name + " could not say whether it forbids it";
  record_refusal(pod, *decision.stopped, reason, text);
}

void Inquiry::record_verdict(const kube::Pod& pod, const Binding* by, Reason reason,
                             const std::string& text) {
  Record record = record_of(Record::Kind::Verdict, reason, by);
  record.pod = pod.ref;
  record.pod_uid = pod.uid;
  record.text = text;
  // A conflict comes on top of the policy's own verdict.
  write_news((by == nullptr ? std::string() : key_of(*by)) +
                 (reason == Reason::PolicyConflict ? " conflict" : " verdict"),
             text, record);
}

void Inquiry::record_refusal(const kube::Pod& pod, const Opinion& wanted, Reason reason,
                             const std::string& text) {
  Record record = record_of(Record::Kind::Refusal, reason, &binding(wanted.binding));
  record.pod = pod.ref;
  record.pod_uid = pod.uid;
  record.action = to_string(wanted.verdict->kind);
  record.text = text;
  write_news(key_of(binding(wanted.binding)) + " refusal", {}, record);
}

void Inquiry::write_news(const std::string& about, const std::string& told, const Record& record) {
  const std::pair key(about, record.pod_uid);
  std::pair news(record.reason, told);
  const auto known = memory_.told.find(key);
  if (known != memory_.told.end() && known->second == news) {
    return;
  }
  if (around_.trail.write(record)) {  // otherwise the next pass tries again
    memory_.told.insert_or_assign(key, std::move(news));
  }
}

void Inquiry::mention_once(const Binding& binding, Reason reason, const std::string& text) {
  if (memory_.mentioned.emplace(key_of(binding), reason).second) {
    Record record = record_of(Record::Kind::IncidentHeld, reason, &binding);
    record.text = text;
    (void)around_.trail.write(record);
  }
}

Record Inquiry::record_of(Record::Kind kind, Reason reason, const Binding* by) const {
  Record record;
  record.kind = kind;
  record.reason = reason;
  record.incident = occasion_.incident;
  record.node = authority_->node;
  record.node_uid = authority_->node_uid;
  record.policy = by == nullptr ? std::string() : by->name;
  record.policy_digest = by == nullptr ? std::string() : by->digest;
  record.attempt = occasion_.attempt;
  return record;
}

}  // namespace moonfence::fence
