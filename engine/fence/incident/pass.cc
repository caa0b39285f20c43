#include "fence/incident/pass.h"

#include <algorithm>
#include <utility>

#include "fence/act/steps.h"
#include "fence/incident/restore.h"

namespace moonfence::fence {

using audit::Reason;

namespace {

constexpr Duration kSoon = std::chrono::milliseconds(100);
// Before a pod is looked at again that changed while its status was to be written.
constexpr Duration kChangedPause = std::chrono::seconds(1);

void keep_shortest(std::optional<Duration>& shortest, std::optional<Duration> candidate) {
  if (candidate) {
    shortest = std::min(shortest.value_or(*candidate), *candidate);
  }
}

}  // namespace

Pass::Pass(IncidentContext& surroundings, PassContext context, std::shared_ptr<Authority> authority,
           Memory& memory, Owner& owner)
    : around_(surroundings),
      context_(std::move(context)),
      authority_(std::move(authority)),
      memory_(memory),
      owner_(owner),
      pod_evaluation_(around_, context_, authority_, memory_),
      pod_queue_(around_, *this),
      node_(around_, context_, authority_, memory_,
            [this](const std::optional<Reading>& reading) { reading_arrived(reading); }),
      namespaces_(around_, context_, authority_, [this] { pump(); }),
      quarantining_(around_, context_, authority_, memory_),
      out_of_service_(around_, context_, authority_, memory_, pod_evaluation_, [this] { pump(); }),
      fencer_orders_(around_, authority_, memory_, pod_evaluation_, [this] { pump(); }),
      deleter_(around_, context_, authority_, memory_, users_),
      releaser_(around_, context_, authority_, memory_, deleter_, users_),
      unlisted_pods_(around_, context_, authority_, memory_),
      left_volumes_(around_, context_, authority_, memory_, users_),
      alive_(std::make_shared<int>(0)),
      sees_volumes_(may_detach(*context_.set)) {}

Pass::~Pass() = default;

void Pass::retire() {
  node_.retire();
  namespaces_.retire();
  late_list_.cancel();
  quarantining_.retire();
  out_of_service_.retire();
  fencer_orders_.retire();
  unlisted_pods_.retire();
  left_volumes_.retire();
  pod_queue_.retire();
  queue_.clear();
  for (PodListing* listing : {listing_.get(), ahead_.pods.get()}) {
    if (listing != nullptr) {
      listing->retire();
    }
  }
  withdraw(authority_->ledger.get(), ahead_.planned, deleter_.wanted());
  fact_reader_.reset();
  ahead_.fact_reader.reset();
  deleter_.retire();
  releaser_.retire();
  alive_.reset();
}

void Pass::start(ReadAhead ahead) {
  memory_.enforcing.breaker.begin_anew();
  memory_.observing.breaker.begin_pass();
  memory_.failed.begin_pass(context_, around_.access.loop.now());
  listing_ = std::make_unique<PodListing>(around_, context_, *authority_);
  fact_reader_ = new_fact_reader(around_);
  lists_ = listing_->lists().empty() ? Lists::Own : Lists::None;
  memory_.pods_read = {};
  if (memory_.left_behind && memory_.left_behind->by != context_.set) {
    memory_.left_behind.reset();
  }
  for (const PodList& list : listing_->lists()) {
    memory_.pods_read.lists.push_back({.what = list, .version = {}});
  }
  listing_->tell(
      [this](std::size_t list, Result<kube::ItemTexts>& pods) { pods_arrived(list, pods); });
  ahead_ = std::move(ahead);
  namespaces_.forget_old();
  for (const kube::Pod& pod : ahead_.decoded) {
    if (ahead_.planned.contains(pod.uid)) {
      (void)namespaces_.ask(pod.ref.space);
    }
  }
  if (ahead_.pods == nullptr) {
    listing_->ask();  // first: it is slower than the node
    node_.begin();
    return;
  }
  node_.begin();
  if (ahead_.fact_reader == nullptr) {
    listing_->ask();  // needs have to be gathered anew: nothing leaves that soon
  } else {
    // Or when the first deletion has left: until then the server need not write it.
    late_list_ = around_.access.loop.after(kListDelay, [this] { listing_->ask(); });
  }
  pod_queue_.add(std::move(ahead_.decoded));
  pod_queue_.add(std::move(ahead_.texts));
  ahead_.pods->tell([this](std::size_t, Result<kube::ItemTexts>& pods) { pods_ahead(pods); });
}

void Pass::reading_arrived(const std::optional<Reading>& reading) {
  // That nobody acts on a deleted node ends the incident without waiting for its pods.
  if (!reading || (is_of_deleted_node(*reading) && reading->uid.empty())) {
    owner_.reading_arrived(reading);
    return;
  }
  if (!acting_) {
    both_arrived();
    return;
  }
  pod_evaluation_.begin(node_.node());
  // A fresh reading in the middle of a pass. The owner may destroy us over it.
  const std::weak_ptr<const void> alive = alive_;
  owner_.reading_arrived(reading);
  if (!alive.expired()) {
    pump();
  }
}

void Pass::pods_arrived(std::size_t list, Result<kube::ItemTexts>& pods) {
  if (!pods) {
    around_.output.log.warning("pods_unreadable", {{"incident", context_.incident.text()},
                                                   {"node", authority_->node.text()},
                                                   {"error", pods.error().message()}});
    result_.unreadable = true;
    unlisted_ = true;
    memory_.pods_read.lists[list].version = {};  // of its first pages, of which nothing follows
    if (lists_ == Lists::Ahead) {
      ahead_.pods->go_on();  // what it shows can be dealt with all the same
    }
    if (acting_) {
      end_if_done();
    } else if (listing_->pending() == 0 && lists_ == Lists::None) {
      owner_.reading_arrived(std::nullopt);
    }
    return;
  }
  // Of a server that is slow to answer nothing younger can be had.
  listing_took_ = around_.access.loop.now() - listing_->asked_at();
  if (pod_queue_.is_done()) {
    reading_facts_since_ = around_.access.loop.now();
  }
  if (std::exchange(lists_, Lists::Own) == Lists::Ahead) {
    pod_queue_.drop();  // this list and its like bring them as they are now
    ahead_.pods->retire();
  }
  if (listing_->pending() > 0) {
    late_list_ = around_.access.loop.after(kListDelay, [this] { listing_->go_on(); });
  }
  memory_.pods_read.lists[list].version = pods->version;
  if (pod_queue_.has_begun()) {
    pod_queue_.gather_by(*fact_reader_);  // what was gathered ahead knows nothing of newer pods
  }
  pod_queue_.add(std::move(pods->texts));
  if (!acting_) {
    both_arrived();
  }
}

void Pass::pods_ahead(Result<kube::ItemTexts>& pods) {
  if (lists_ == Lists::Own || (unlisted_ && lists_ == Lists::None)) {
    return;
  }
  if (!pods) {
    if (acting_) {
      end_if_done();
    }
    return;
  }
  lists_ = Lists::Ahead;
  pod_queue_.add(std::move(pods->texts));
  if (!acting_) {
    both_arrived();
  }
}

// When the first deletion is on its way, or no pod that is known is to be deleted: before that the
// server need not write more.
void Pass::list_more() {
  if (in_flight_ > 0 || (queue_.empty() && pod_queue_.is_done())) {
    listing_->go_on();
    listing_->ask();
  }
}

void Pass::both_arrived() {
  if (!node_.has_one()) {
    return;
  }
  // A node that is not down any more ends the incident without waiting for its pods.
  const Reading& reading = authority_->reading;
  const bool still_down = (cluster::is_down(reading.readiness) || is_of_deleted_node(reading)) &&
                          reading.uid == authority_->node_uid;
  if (lists_ != Lists::None || !still_down) {
    owner_.reading_arrived(authority_->reading);
  } else {
    listing_->ask();  // whichever comes first of these lists and those that were asked for ahead
  }
}

void Pass::act() {
  acting_ = true;
  pod_evaluation_.begin(node_.node());
  reading_facts_since_ = around_.access.loop.now();
  known_since_ = listing_->asked_at();
  const bool by_what_was_gathered = ahead_.fact_reader != nullptr;
  if (by_what_was_gathered || lists_ == Lists::Ahead) {
    known_since_ = ahead_.pods->asked_at();
  }
  pod_queue_.begin(by_what_was_gathered ? *ahead_.fact_reader : *fact_reader_,
                   ahead_.planned.empty() ? PodQueue::kPodsPerTurn : kFirstAhead);
}

void Pass::slice_ended() {
  pump();
}

Wants Pass::taken_up(const kube::Pod& pod) {
  memory_.pods_read.pods.emplace(pod.uid, sight_of(*pod.raw));
  if (authority_->reading.successor) {
    starts_.insert_or_assign(pod.uid, starts_of(*pod.raw));
  }
  out_of_service_.saw(pod);
  fencer_orders_.saw(pod);
  note_hold(pod);
  Wants wants = pod_evaluation_.wants_of(pod);
  wants.needs.volumes = wants.needs.volumes || sees_volumes_;
  return wants;
}

void Pass::gathered(const kube::Pod& pod, const Gathered& known) {
  gathered_at_ = around_.access.loop.now();
  reading_facts_took_ = std::max(reading_facts_took_, gathered_at_ - reading_facts_since_);
  users_.saw(pod, known, !concerns(memory_, authority_->reading, pod));
  deleter_.saw(known);
}

void Pass::note_hold(const kube::Pod& pod) {
  if (auto why = hold_on(*pod.raw)) {
    authority_->held_pods.insert_or_assign(pod.uid, *std::move(why));
  } else {
    authority_->held_pods.erase(pod.uid);
  }
}

// It was judged as an older list showed it. The node controller marks all pods of a failed node in
// their status, which is no news.
void Pass::came_again(const kube::Pod& pod) {
  note_hold(pod);
  PodSight& known = memory_.pods_read.pods[pod.uid];
  const PodSight before = std::exchange(known, sight_of(*pod.raw));
  // What we are deleting may show that it is being deleted, and is judged anew if that fails.
  if (before.mark != known.mark && !memory_.handled.contains(pod.uid) &&
      !leaving_.contains(pod.uid)) {
    changed_.insert(pod.uid);
    keep_shortest(result_.look_again, kSoon);
  }
}

void Pass::undecodable(const Error& error) {
  around_.output.log.error("pod_undecodable", {{"incident", context_.incident.text()},
                                               {"node", authority_->node.text()},
                                               {"error", error.message()}});
  result_.fail("a pod cannot be understood: " + error.message());
  undecoded_ = true;
}

void Pass::judge(kube::Pod pod, const Gathered& known, const policy::ClusterFacts& cluster) {
  const Uid uid = pod.uid;
  auto pod_plan = pod_evaluation_.judge(std::move(pod), known, cluster, result_);
  if (pod_plan) {
    deleter_.plan(*pod_plan);
  }
  if (ahead_.planned.erase(uid) > 0) {
    compare_with_foreseen(uid, pod_plan);
  }
  if (pod_plan && pod_plan->deletes_pod) {
    for (const auto& [name, attachment] : known.attachments) {
      memory_.decided.insert(name);
    }
    if (authority_->ledger != nullptr) {
      authority_->ledger->plan(step_of(pod_plan->deletion));
    }
    (void)namespaces_.ask(pod_plan->deletion.pod.ref.space);  // beside the record
    enqueue({.deletion = std::move(pod_plan->deletion)});
  }
}

// What was foreseen and is not wanted any more leaves the record, at once where nothing else would
// be written: the next leader would take it for wanted.
void Pass::compare_with_foreseen(const Uid& pod, const std::optional<PodPlan>& pod_plan) {
  const std::shared_ptr<RecordLedger>& ledger = authority_->ledger;
  if (pod_plan && pod_plan->deletes_pod) {
    ledger->keep_attachments(pod, deleter_.wanted());
  } else {
    ledger->withdraw(pod, deleter_.wanted());
    around_.output.journal.save(ledger, [](bool) {});
  }
}

bool Pass::may_leave(const Waiting& waiting) const {
  // The deletions that it ends were recorded; by another leader, perhaps, whose record is to be
  // made ours first.
  if (std::holds_alternative<Portion>(waiting.deletion)) {
    return unrecorded_ || (authority_->ledger != nullptr && authority_->ledger->standing() > 0);
  }
  if (unrecorded_ || authority_->ledger == nullptr) {
    return unrecorded_;
  }
  // Of a pod that is gone only the record knows whose attachments are still to go.
  const auto* pod = std::get_if<DeletePod>(&waiting.deletion);
  return pod != nullptr ? authority_->ledger->holds_all_of(pod->pod.uid)
                        : authority_->ledger->holds(
                              std::get<DeleteAttachment>(waiting.deletion).target.attachment.uid);
}

Duration Pass::picture_took() const {
  const Duration longest = kLongestChain * around_.in_force.leadership.limits().reading;
  const Duration took = listing_took_ + std::min(reading_facts_took_, longest);
  // Of lists in pages both go on side by side.
  return gathered_at_ > known_since_ ? std::min(took, gathered_at_ - known_since_) : took;
}

bool Pass::is_listed_too_long_ago() const {
  return around_.access.loop.now() - known_since_ >
         picture_lifetime(around_.in_force.leadership.limits(), picture_took());
}

// The next pass judges it as it is now.
bool Pass::is_outdated(const Waiting& waiting) const {
  const auto* pod = std::get_if<DeletePod>(&waiting.deletion);
  return pod != nullptr && (changed_.contains(pod->pod.uid) || is_listed_too_long_ago());
}

// Null of a portion: it rests on several.
const DeletePod* Pass::verdict_of(const Waiting& waiting) {
  const auto* attachment = std::get_if<DeleteAttachment>(&waiting.deletion);
  return attachment != nullptr ? &attachment->verdict : std::get_if<DeletePod>(&waiting.deletion);
}

// Of a node that is not there it must be younger than the list: the name may have been taken since.
bool Pass::is_reading_outdated(const Waiting& waiting) const {
  const Reading& reading = authority_->reading;
  const DeletePod* verdict = verdict_of(waiting);
  return around_.access.loop.now() - reading.sent > around_.in_force.leadership.limits().reading ||
         (is_of_deleted_node(reading) && verdict != nullptr && reading.sent < verdict->judged);
}

void Pass::drop_outdated() {
  const kube::Pod& pod = std::get<DeletePod>(queue_.front().deletion).pod;
  if (!changed_.contains(pod.uid)) {
    result_.fail("pod " + pod.ref.text() + ": it was listed too long ago");
  }
  keep_shortest(result_.look_again, kSoon);
  queue_.pop_front();
}

bool Pass::are_namespaces_heard(const Waiting& waiting) {
  if (const DeletePod* verdict = verdict_of(waiting)) {
    return namespaces_.ask(verdict->pod.ref.space);
  }
  bool heard = true;
  for (const std::string& name : std::get<Portion>(waiting.deletion)) {
    const auto found = memory_.releases.find(name);
    const bool one = found == memory_.releases.end() ||
                     namespaces_.ask(found->second.detachment.verdict.pod.ref.space);
    heard = heard && one;
  }
  return heard;
}

const Uid& Pass::uid_of(const Waiting& waiting) {
  static const Uid none;
  if (const auto* pod = std::get_if<DeletePod>(&waiting.deletion)) {
    return pod->pod.uid;
  }
  const auto* attachment = std::get_if<DeleteAttachment>(&waiting.deletion);
  return attachment != nullptr ? attachment->target.attachment.uid : none;
}

// Deletions that take long made the lists too old for the attachments in the pass before. They come
// first again in the next one: where everything is slow, one of both is to have its turn.
void Pass::enqueue(Waiting waiting) {
  const bool is_pod = std::holds_alternative<DeletePod>(waiting.deletion);
  if (is_pod && memory_.put_off % 2 == 1 && volumes_ == Volumes::ToCome) {
    after_volumes_.push_back(std::move(waiting));
  } else {
    line_up(std::move(waiting));
  }
}

void Pass::line_up(Waiting waiting) {
  if (memory_.failed.still_failed(uid_of(waiting).text(), result_)) {
    return;
  }
  if (!may_leave(waiting)) {
    pace_.add(around_.access.loop.now());
  }
  const auto place = place_of(waiting);
  queue_.insert(place, std::move(waiting));
}

// Behind all that may leave by now, or when the write is done that is under way; of the others pods
// of a higher priority go first, and what came first otherwise.
std::deque<Pass::Waiting>::const_iterator Pass::place_of(const Waiting& waiting) const {
  const auto* pod = std::get_if<DeletePod>(&waiting.deletion);
  auto place = queue_.cend();
  while (pod != nullptr && place != queue_.cbegin()) {
    const Waiting& before = *std::prev(place);
    const auto* other = std::get_if<DeletePod>(&before.deletion);
    if (other == nullptr || other->pod.priority >= pod->pod.priority || before.written ||
        may_leave(before)) {
      break;
    }
    --place;
  }
  return place;
}

void Pass::record_waiting() {
  if (recording_ || queue_.empty()) {
    return;
  }
  // What stood there when it was enqueued may have been planned anew since, for another pod.
  const bool is_due = pace_.has_any()
                          ? pace_.is_due(pod_queue_.to_come(), around_.access.loop.now())
                          : !may_leave(queue_.front());
  if (!is_due) {
    return;
  }
  const std::size_t written = pace_.write();
  if (authority_->ledger == nullptr) {
    unrecorded_ = true;
    return;
  }
  recording_ = true;
  for (Waiting& waiting : queue_) {
    waiting.written = true;
  }
  around_.output.journal.save(authority_->ledger,
                              [this, alive = std::weak_ptr<const void>(alive_)](bool stands) {
                                if (!alive.expired()) {
                                  recording_ = false;
                                  unrecorded_ = unrecorded_ || !stands;
                                  pump();
                                }
                              });
  if (written > RecordPace::kFew) {
    around_.actions.make_way(written);
  }
}

void Pass::pump() {
  pumping_ = true;
  if (result_.braked) {
    queue_.clear();  // one refusal speaks for all of them
  }
  send_waiting();  // before the time is taken to write what the others wait for
  record_waiting();
  if (unrecorded_) {
    send_waiting();
  }
  pumping_ = false;
  if (acting_) {
    list_more();
  }
  end_if_done();
}

void Pass::send_waiting() {
  while (!queue_.empty() && in_flight_ < around_.actions.most_at_once() && !node_.is_under_way() &&
         !quarantining_.is_under_way() && may_leave(queue_.front())) {
    if (result_.braked) {
      queue_.clear();
      break;
    }
    if (is_outdated(queue_.front())) {
      drop_outdated();
      continue;
    }
    const bool heard = are_namespaces_heard(queue_.front());
    if (is_reading_outdated(queue_.front())) {
      if (const auto* pod = std::get_if<DeletePod>(&queue_.front().deletion)) {
        namespaces_.refresh(pod->pod.ref.space);
      }
      node_.begin();
      break;
    }
    if (!heard) {
      break;
    }
    // A release follows deletions before which it stood: lost meanwhile, it is set again at the
    // end.
    const DeletePod* verdict = verdict_of(queue_.front());
    if (needs_quarantine(*authority_) && !unrecorded_ && verdict != nullptr) {
      quarantine(*verdict);
      continue;
    }
    Waiting waiting = std::move(queue_.front());
    queue_.pop_front();
    ++in_flight_;
    send(std::move(waiting));
  }
}

void Pass::quarantine(const DeletePod& waiting) {
  if (quarantining_.is_given_up()) {
    give_up_untainted({.reason = Reason::NodeChanged, .retry_after = std::nullopt});
    return;
  }
  quarantining_.attempt(waiting, node_.node(),
                        [this](FencedTaintSetter::Next next, const ActionOutcome& outcome) {
                          quarantined(next, outcome);
                        });
}

void Pass::quarantined(FencedTaintSetter::Next next, const ActionOutcome& outcome) {
  switch (next) {
    case FencedTaintSetter::Next::ReadNode:
      node_.begin();
      break;
    case FencedTaintSetter::Next::GiveUp:
      give_up_untainted(outcome);
      break;
    case FencedTaintSetter::Next::Refuse:
      refuse_next(outcome);
  }
  if (!pumping_) {  // a refusal of the guard is answered inside pump()'s loop
    pump();
  }
}

void Pass::give_up_untainted(const ActionOutcome& outcome) {
  result_.untainted = true;
  memory_.taint_failed = true;
  result_.obstacle = outcome.about("taint moonfence.io/fenced");
  result_.retry_after = outcome.retry_after;
  queue_.clear();
}

// The guard's word on the deletion itself, to which another one may not be subject.
void Pass::refuse_next(const ActionOutcome& outcome) {
  if (queue_.empty()) {
    memory_.fenced_for.reset();  // its right is gone; the next deletion brings one of its own
    return;
  }
  Waiting waiting = std::move(queue_.front());
  queue_.pop_front();
  ++in_flight_;
  const bool pumps = std::exchange(pumping_, true);  // we do, in a moment
  deletion_ended(std::move(waiting), outcome);
  pumping_ = pumps;
}

void Pass::send(Waiting waiting) {
  if (const auto* portion = std::get_if<Portion>(&waiting.deletion)) {
    send_release(*portion);
    return;
  }
  const auto ended = [this, waiting](const ActionOutcome& outcome) {
    deletion_ended(waiting, outcome);
  };
  if (const auto* pod = std::get_if<DeletePod>(&waiting.deletion)) {
    leaving_.insert(pod->pod.uid);
    if (pod->fail && pod->pod.phase != "Failed" && pod->pod.phase != "Succeeded") {
      around_.actions.perform(
          FailPod{*pod}, authority_, alive_,
          [this, waiting](const ActionOutcome& outcome) { pod_failed(waiting, outcome); });
      return;
    }
    around_.actions.perform(*pod, authority_, alive_, ended);
  } else {
    around_.actions.perform(std::get<DeleteAttachment>(waiting.deletion), authority_, alive_,
                            ended);
  }
}

// The guard is asked anew whether it may be deleted.
void Pass::pod_failed(Waiting waiting, const ActionOutcome& outcome) {
  if (outcome.reason != Reason::Done) {
    deletion_ended(std::move(waiting), outcome);
    return;
  }
  std::get<DeletePod>(waiting.deletion).fail = false;
  send(std::move(waiting));
}

void Pass::send_release(const Portion& portion) {
  in_flight_ += portion.size() - 1;  // it was counted as one
  around_.actions.perform(releaser_.order(portion), authority_, alive_,
                          [this](const ReleaseVolume& volume, const ActionOutcome& outcome) {
                            --in_flight_;
                            releaser_.ended(volume, outcome, result_);
                            if (!pumping_) {
                              pump();
                            }
                          });
}

void Pass::deletion_ended(Waiting waiting, const ActionOutcome& outcome) {
  --in_flight_;
  if (outcome.reason == Reason::ReadingTooOld && waiting.late < kLateAttempts) {
    // It waited too long for a connection; it goes after a fresh reading.
    if (const auto* pod = std::get_if<DeletePod>(&waiting.deletion)) {
      leaving_.erase(pod->pod.uid);
    }
    ++waiting.late;
    queue_.push_back(std::move(waiting));
  } else if (const auto* pod = std::get_if<DeletePod>(&waiting.deletion)) {
    pod_ended(*pod, outcome);
  } else {
    deleter_.ended(std::get<DeleteAttachment>(waiting.deletion), outcome, result_);
  }
  if (!pumping_) {  // a refusal of the guard is answered inside pump()'s loop
    pump();
  }
}

void Pass::pod_ended(const DeletePod& deletion, const ActionOutcome& outcome) {
  if (outcome.settled()) {
    ++result_.deleted;
    memory_.handled.insert(deletion.pod.uid);
    if (outcome.reason == Reason::MarkedOnly) {
      result_.hold(outcome.about("pod " + deletion.pod.ref.text()), kMarkedPause,
                   Reason::HandledBefore);
    }
    // Of a replaced one the next list will tell: another pod has its name.
    if (outcome.reason == Reason::Done || outcome.reason == Reason::AlreadyGone) {
      users_.pod_gone(deletion.pod.uid);
    }
  } else if (outcome.reason == Reason::PolicyChanged || outcome.reason == Reason::OutsideBinding) {
    result_.policies_changed = true;  // those that are in force now have not been asked
  } else if (outcome.reason == Reason::SignalUnfit || outcome.reason == Reason::KernelAnswers ||
             outcome.reason == Reason::KernelUnsure) {
    result_.unfit = true;
  } else if (outcome.reason == Reason::OnHold) {
    result_.hold(hold_text(authority_->node, authority_->reading.hold, deletion.pod,
                           authority_->namespaces, authority_->held_pods),
                 kHoldPause);
  } else if (outcome.reason == Reason::FailingNotServed) {
    result_.hold(outcome.about("pod " + deletion.pod.ref.text()), kHoldPause,
                 Reason::FailingNotServed);
  } else if (outcome.reason == Reason::PodChanged) {
    // The next list shows it as it is now.
    result_.fail(outcome.about("pod " + deletion.pod.ref.text()), std::nullopt, Reason::PodChanged);
    keep_shortest(result_.look_again, kChangedPause);
  } else if (outcome.reason == Reason::ProofMissing) {
    result_.hold(outcome.about("pod " + deletion.pod.ref.text()), kProofPause,
                 Reason::ProofMissing);
  } else if (is_braking(outcome.reason)) {
    result_.braked = outcome.reason;
  } else if (!is_hopeless(outcome.reason)) {
    memory_.failed.fail(deletion.pod.uid.text(), "pod " + deletion.pod.ref.text(), outcome, result_,
                        around_.access.loop.now());
  }
}

bool Pass::judged_all() const {
  const bool ahead_follows = unlisted_ && lists_ == Lists::Ahead && ahead_.pods->pending() > 0;
  return listing_->pending() == 0 && !ahead_follows && pod_queue_.is_done();
}

void Pass::end_if_done() {
  if (!judged_all() || !queue_.empty() || in_flight_ > 0 || node_.is_under_way() ||
      quarantining_.is_under_way() || unlisted_pods_.is_looking()) {
    return;
  }
  withdraw(authority_->ledger.get(), ahead_.planned, deleter_.wanted());
  if (quarantining_.is_lost()) {
    if (namespaces_.ask(memory_.fenced_for->pod.ref.space)) {
      quarantine(*memory_.fenced_for);
    }
    return;
  }
  if (look_for_unlisted() || !tell_observed() || delete_after_volumes() || retire_node() ||
      look_at_volumes() || switch_off() || look_for_left_volumes()) {
    return;
  }
  note_left_behind();
  sum_up_replacements();
  releaser_.sum_up(result_);
  deleter_.sum_up(result_);
  left_volumes_.sum_up(result_);
  owner_.pass_ended(result_);
}

void Pass::note_left_behind() {
  if (!authority_->reading.successor || memory_.left_behind || !is_complete()) {
    return;
  }
  memory_.left_behind = {.by = context_.set, .pods = std::move(starts_)};
}

bool Pass::look_for_unlisted() {
  // Of a list that could not be read nobody knows what it would have shown; the next pass reads it.
  return !unlisted_ && unlisted_pods_.look(result_, [this] { unlisted_looked(); });
}

void Pass::unlisted_looked() {
  for (const Uid& pod : unlisted_pods_.take_gone()) {
    users_.pod_gone(pod);
  }
  reading_facts_since_ = around_.access.loop.now();
  const std::weak_ptr<const void> alive = alive_;
  pod_queue_.add(unlisted_pods_.take_present());
  if (!alive.expired()) {
    pump();
  }
}

// By the record: it has heard of the calls too that outlived their pass.
void Pass::sum_up_replacements() {
  Replacements& replacements = memory_.replacements;
  if (authority_->ledger != nullptr) {
    verify(replacements, authority_->ledger->record());
  }
  if (replacements.awaits()) {
    const Duration ago = around_.output.journal.now() - replacements.last_deletion();
    result_.unreplaced = around_.access.loop.now() - std::max(ago, Duration::zero());
    result_.unverified = replacements.is_blind();
  }
}

bool Pass::tell_observed() {
  bool heard = true;
  for (const Namespace& space : pod_evaluation_.observed_spaces()) {
    heard = namespaces_.ask(space) && heard;
  }
  if (heard) {
    pod_evaluation_.tell_observed(result_);
  }
  return heard;
}

bool Pass::switch_off() {
  bool heard = true;
  for (const Namespace& space : fencer_orders_.spaces()) {
    heard = namespaces_.ask(space) && heard;
  }
  if (!heard) {
    return true;
  }
  const auto next = fencer_orders_.go_on(is_complete() && changed_.empty(), listing_->asked_at(),
                                         picture_took(), result_);
  if (next == FencerOrders::Next::ReadNode) {
    node_.begin();
  }
  return next != FencerOrders::Next::Nothing;
}

bool Pass::retire_node() {
  // Who cannot set our taint hardly can set the other. Somebody may refuse ours alone.
  const bool waits = result_.untainted && context_.attempt % kRetireAnyway != 0;
  if (has_no_object(authority_->reading) || waits) {
    return false;
  }
  bool heard = true;
  for (const Namespace& space : out_of_service_.spaces()) {
    heard = namespaces_.ask(space) && heard;
  }
  if (!heard) {
    return true;
  }
  const auto next =
      out_of_service_.go_on(node_.node(), is_complete() && changed_.empty(),
                            {.listed = listing_->asked_at(), .took = picture_took()}, result_);
  if (next == OutOfServiceSetter::Next::ReadNode) {
    node_.begin();
  }
  return next != OutOfServiceSetter::Next::Nothing;
}

bool Pass::delete_after_volumes() {
  if (after_volumes_.empty()) {
    return false;
  }
  if (!look_at_volumes()) {
    for (Waiting& waiting : std::exchange(after_volumes_, {})) {
      line_up(std::move(waiting));
    }
    pump();
  }
  return true;
}

bool Pass::look_at_volumes() {
  const bool any = !memory_.detachments.empty() || !memory_.releases.empty();
  const bool attachments_next = any && volumes_ == Volumes::ToCome;
  const bool releases_next = any && volumes_ == Volumes::Between;
  // Who else uses a volume is told by the lists: the next pass has fresh ones.
  if (is_listed_too_long_ago()) {
    if (attachments_next || (releases_next && !memory_.releases.empty())) {
      deleter_.put_off();
    }
  } else if (attachments_next) {
    volumes_ = Volumes::Attachments;
    const bool complete = sees_volumes_ && is_complete();
    if (!complete) {
      users_.incomplete();
    }
    deleter_.look(
        complete, [this] { return is_listed_too_long_ago(); },
        [this](DeleteAttachment deletion) { enqueue({.deletion = std::move(deletion)}); },
        [this] { volumes_looked_at(Volumes::Between); });
    return true;
  } else if (releases_next) {
    volumes_ = Volumes::Releases;
    releaser_.look(
        known_since_ + picture_took(), result_,
        [this](Portion portion) { enqueue({.deletion = std::move(portion)}); },
        [this] { volumes_looked_at(Volumes::Done); });
    return true;
  }
  return volumes_ == Volumes::Attachments || volumes_ == Volumes::Releases;
}

void Pass::volumes_looked_at(Volumes next) {
  volumes_ = next;
  pump();
}

bool Pass::look_for_left_volumes() {
  return sees_volumes_ && is_complete() && node_.has_one() &&
         left_volumes_.look(node_.node(), [this] { pump(); });
}

}  // namespace moonfence::fence
