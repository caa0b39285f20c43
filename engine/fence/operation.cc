#include "fence/operation.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "fence/steps.h"
#include "kube/decode.h"

namespace moonfence::fence {

using audit::Reason;

namespace {

std::shared_ptr<const kube::NodeStorage> storage_of(const kube::Node& node) {
  auto storage = kube::decode_node_storage(*node.raw);
  return storage ? std::make_shared<const kube::NodeStorage>(*std::move(storage)) : nullptr;
}

Reading reading_of(const kube::Node& node, const PulseWatch::Finding& found, Moment sent) {
  return {.readiness = cluster::readiness_of(node),
          .uid = node.uid,
          .keeps_replacements_off = cluster::keeps_replacements_off(node),
          .own_taint = carried_by(node),
          .pulse = found.pulse,
          .dead_at = found.dead_at,
          .sent = sent};
}

constexpr Duration kSoon = std::chrono::milliseconds(100);

void keep_shortest(std::optional<Duration>& shortest, std::optional<Duration> candidate) {
  if (candidate) {
    shortest = std::min(shortest.value_or(*candidate), *candidate);
  }
}

}  // namespace

Operation::Operation(Surroundings& surroundings, Occasion occasion,
                     std::shared_ptr<Authority> authority, Memory& memory, Owner& owner)
    : around_(surroundings),
      occasion_(std::move(occasion)),
      authority_(std::move(authority)),
      memory_(memory),
      owner_(owner),
      inquiry_(around_, occasion_, authority_, memory_),
      gathering_(std::in_place, around_.reader, around_.allowed_reads, around_.endpoints,
                 around_.release.on ? around_.release.attachers : Gathering::Leases()),
      detaching_(around_, occasion_, authority_, memory_),
      releasing_(around_, occasion_, authority_, memory_, detaching_),
      alive_(std::make_shared<int>(0)),
      sees_volumes_(may_detach(*occasion_.set)) {}

Operation::~Operation() = default;

void Operation::retire() {
  node_call_.reset();
  lease_call_.reset();
  question_.reset();
  lists_.clear();
  next_slice_.cancel();
  queue_.clear();
  gathering_.reset();
  detaching_.retire();
  releasing_.retire();
  alive_.reset();
}

void Operation::start() {
  memory_.enforcing.breaker.begin_pass();
  memory_.observing.breaker.begin_pass();
  listed_at_ = around_.loop.now();
  // The lists are slower than the node: they go out first. They ask for the most recent state; why
  // not for "not older than the event" is told in docs/decisions/0004.
  const std::vector<PodList> plan =
      plan_lists(*occasion_.set, occasion_.downtime.fell, authority_->source);
  listed_ = plan.empty();
  lists_pending_ = plan.size();
  lists_.resize(plan.size());
  for (std::size_t list = 0; list < plan.size(); ++list) {
    lists_[list] = around_.reader.list_pods({.node = authority_->node,
                                             .space = plan[list].space,
                                             .label_selector = plan[list].label_selector},
                                            [this, list](Result<std::vector<std::string>> pods) {
                                              pods_arrived(list, std::move(pods));
                                            });
  }
  if (around_.source == nullptr && occasion_.unknown && around_.brake.limits_down()) {
    call_roll();
  }
  read_node();
}

void Operation::call_roll() {
  roll_called_ = true;
  around_.roll_call.ask(alive_, [this](const Result<void>& outcome) {
    roll_ = outcome;
    if (reading_ && node_) {
      take_reading_if_complete();
    }
  });
}

void Operation::read_node() {
  const Moment sent = around_.loop.now();
  reading_ = true;
  reading_sent_ = sent;
  lease_.reset();
  node_call_ = around_.reader.get_node(authority_->node, [this, sent](Result<kube::Node> node) {
    node_arrived(std::move(node), sent);
  });
  if (around_.source != nullptr) {
    word_.reset();
    question_ = around_.source->ask(
        authority_->node, [this](const Result<HealthSource::Word>& word) { word_arrived(word); });
    return;
  }
  lease_call_ = around_.reader.get_node_lease(
      authority_->node, kReadingLifetime,
      [this](Result<kube::Lease> lease) { lease_arrived(std::move(lease)); });
}

void Operation::node_arrived(Result<kube::Node> node, Moment sent) {
  node_call_.reset();
  if (!node && node.error().kind == Error::Kind::NotFound) {
    Reading gone;
    gone.readiness = cluster::Readiness::Gone;
    gone.sent = sent;
    owner_.reading_arrived(gone);
    return;
  }
  if (node && around_.loop.now() - sent > kReadingLifetime) {
    // Too slow to act on. Read again at once, it would be too slow again.
    node = failure(Error::Kind::Retryable, "the live read of the node took longer than a second");
  }
  if (!node) {
    around_.log.warning("node_unreadable", {{"incident", occasion_.incident.text()},
                                            {"node", authority_->node.text()},
                                            {"error", node.error().message()}});
    owner_.reading_arrived(std::nullopt);
    return;
  }
  node_ = std::move(*node);
  if (needs_roll(*node_) && !roll_called_) {
    call_roll();
  }
  take_reading_if_complete();
}

void Operation::lease_arrived(Result<kube::Lease> lease) {
  lease_call_.reset();
  if (!lease && lease.error().kind != Error::Kind::NotFound) {
    around_.log.warning("lease_unreadable", {{"incident", occasion_.incident.text()},
                                             {"node", authority_->node.text()},
                                             {"error", lease.error().message()}});
  }
  lease_ = std::move(lease);
  if (reading_ && node_) {
    take_reading_if_complete();
  }
}

void Operation::word_arrived(Result<HealthSource::Word> word) {
  word_ = std::move(word);
  if (reading_ && node_) {
    take_reading_if_complete();
  }
}

void Operation::take_reading_if_complete() {
  const bool by_source = around_.source != nullptr;
  if (by_source ? word_.has_value()
                : (lease_ || !awaits_lease(*node_)) && (roll_ || !needs_roll(*node_))) {
    take_reading();
  }
}

// Only a controller's word may be about a storm, and only before anything is done.
bool Operation::needs_roll(const kube::Node& node) const {
  return around_.source == nullptr && !acting_ && around_.brake.limits_down() &&
         node.uid == authority_->node_uid &&
         cluster::readiness_of(node) == cluster::Readiness::Unknown;
}

bool Operation::roll_is_readable() const {
  if (roll_->has_value()) {
    return true;
  }
  around_.log.warning("leases_unreadable", {{"incident", occasion_.incident.text()},
                                            {"node", authority_->node.text()},
                                            {"error", roll_->error().message()}});
  return false;
}

// Others are as silent as this node and were not called so yet.
void Operation::heed_roll() {
  const auto renewed = *lease_ ? (*lease_)->record.renewed : std::nullopt;
  const std::int64_t silent =
      around_.roll_call.silent_beside(renewed, node_->ready->last_transition_time);
  if (around_.brake.too_many_with(silent)) {
    around_.log.warning("storm_suspected", {{"incident", occasion_.incident.text()},
                                            {"node", authority_->node.text()},
                                            {"silent_beside_it", silent}});
    around_.brake.suspect(around_.loop.now());
  }
}

// Nobody waits for the Lease of a node that is not down any more; nor in the middle of a pass that
// did not go by it.
bool Operation::awaits_lease(const kube::Node& node) const {
  const cluster::Readiness readiness = cluster::readiness_of(node);
  if (!cluster::is_down(readiness) || node.uid != authority_->node_uid) {
    return false;
  }
  return !acting_ || readiness == cluster::Readiness::Unknown ||
         authority_->reading.pulse == Pulse::Dead;
}

// Kubernetes' Ready and Lease play no part. Nor does its taint, as long as it calls the node Ready:
// then it sets none, and without ours a replacement may be bound to the node again.
Result<Reading> Operation::reading_by_source() const {
  if (!*word_) {
    return failure(Error(word_->error()));
  }
  const HealthSource::Word& word = **word_;
  if (word.health == policy::NodeHealth::Unknown) {
    return failure(Error::Kind::Retryable, "the health source calls the node unknown");
  }
  const Moment asked = std::min(reading_sent_, word.asked);
  if (around_.loop.now() - asked > kReadingLifetime) {
    return failure(Error::Kind::Retryable, "the health source took longer than a second");
  }
  const bool failed = word.health == policy::NodeHealth::Failed;
  return Reading{
      .readiness = failed ? cluster::Readiness::Failed : cluster::Readiness::True,
      .uid = node_->uid,
      .keeps_replacements_off = cluster::keeps_replacements_off(*node_) ||
                                (cluster::readiness_of(*node_) == cluster::Readiness::True &&
                                 around_.quarantine == Quarantine::Off),
      .own_taint = carried_by(*node_),
      .pulse = Pulse::Dead,
      .sent = asked};
}

void Operation::take_reading() {
  reading_ = false;
  if (around_.source != nullptr) {
    auto reading = reading_by_source();
    if (!reading) {
      around_.log.warning("health_unreadable", {{"incident", occasion_.incident.text()},
                                                {"node", authority_->node.text()},
                                                {"error", reading.error().message()}});
      owner_.reading_arrived(std::nullopt);
      return;
    }
    use_reading(*std::move(reading));
    return;
  }
  PulseWatch::Finding found = {.pulse = authority_->reading.pulse,
                               .dead_at = authority_->reading.dead_at};
  if (lease_) {
    found = memory_.pulse.feel(*lease_, cluster::readiness_of(*node_),
                               node_->ready ? node_->ready->last_transition_time : std::nullopt,
                               reading_sent_, around_.loop.now(), around_.doubt.outage_ended());
  }
  if (needs_roll(*node_)) {
    if (!roll_is_readable()) {
      found.pulse = Pulse::Unread;  // whether it is the only silent one nobody knows
    } else if (found.pulse == Pulse::Dead) {
      heed_roll();
    }
  }
  use_reading(reading_of(*node_, found, reading_sent_));
}

void Operation::use_reading(Reading reading) {
  authority_->reading = std::move(reading);
  if (around_.release.on) {
    authority_->reading.storage = storage_of(*node_);
    authority_->boot_id = authority_->boot_id.value_or(node_->boot_id);
  }
  as_read_ = *node_;
  note_boot(node_->boot_id);
  if (!acting_) {
    both_arrived();
    return;
  }
  inquiry_.begin(std::move(*node_));
  node_.reset();
  // A fresh reading in the middle of a pass. The owner may destroy us over it.
  const std::weak_ptr<const void> alive = alive_;
  owner_.reading_arrived(authority_->reading);
  if (!alive.expired()) {
    pump();
  }
}

// What the leader before us had planned it did not plan for a node that was up since.
void Operation::note_boot(const std::string& boot_id) {
  const auto before = std::exchange(memory_.inherited_boot, std::nullopt);
  if (before && !before->empty() && *before != boot_id) {
    around_.log.info("node_rebooted",
                     {{"incident", occasion_.incident.text()}, {"node", authority_->node.text()}});
    memory_.detachments.clear();
  }
  if (authority_->page != nullptr) {
    authority_->page->booted(boot_id);
  }
}

void Operation::pods_arrived(std::size_t list, Result<std::vector<std::string>> pods) {
  lists_[list].reset();
  --lists_pending_;
  if (!pods) {
    around_.log.warning("pods_unreadable", {{"incident", occasion_.incident.text()},
                                            {"node", authority_->node.text()},
                                            {"error", pods.error().message()}});
    result_.unreadable = true;
    unlisted_ = true;
    if (acting_) {
      end_if_done();
    } else if (lists_pending_ == 0 && !listed_) {
      owner_.reading_arrived(std::nullopt);
    }
    return;
  }
  listed_ = true;
  const bool idle = next_pod_ >= pods_.size() && known_.empty();
  pods_.insert(pods_.end(), std::make_move_iterator(pods->begin()),
               std::make_move_iterator(pods->end()));
  if (!acting_) {
    both_arrived();
  } else if (idle) {
    evaluate_slice();  // otherwise a slice is due in the next turn
  }
}

void Operation::both_arrived() {
  if (!node_ || reading_) {
    return;
  }
  // A node that is not down any more ends the incident without waiting for its pods.
  const bool still_down = cluster::is_down(authority_->reading.readiness) &&
                          authority_->reading.uid == authority_->node_uid;
  if (listed_ || !still_down) {
    owner_.reading_arrived(authority_->reading);
  }
}

void Operation::act() {
  acting_ = true;
  inquiry_.begin(std::move(*node_));
  node_.reset();
  evaluate_slice();
}

void Operation::evaluate_slice() {
  const policy::ClusterFacts facts = around_.cluster_facts();
  const Moment enough = around_.loop.live_now() + kSliceTime;
  std::size_t left = kPodsPerTurn;
  while (left > 0 && around_.loop.live_now() < enough) {
    if (!known_.empty()) {
      Known known = std::move(known_.front());
      known_.pop_front();
      judge(std::move(known), facts);
      --left;
    } else if (next_pod_ < pods_.size()) {
      take_up(std::exchange(pods_[next_pod_], {}));
      ++next_pod_;
    } else {
      break;
    }
  }
  if (!known_.empty() || next_pod_ < pods_.size()) {
    next_slice_ = around_.loop.in_next_turn([this] { evaluate_slice(); });
  }
  pump();
}

void Operation::take_up(const std::string& text) {
  auto pod = kube::decode_pod_text(text);
  if (!pod) {
    // One pod that cannot be understood must not keep us from the others.
    around_.log.error("pod_undecodable", {{"incident", occasion_.incident.text()},
                                          {"node", authority_->node.text()},
                                          {"error", pod.error().message()}});
    ++result_.failed;
    undecoded_ = true;
    return;
  }
  if (!seen_.insert(pod->uid).second) {
    return;
  }
  Wants wants = inquiry_.wants_of(*pod);
  wants.needs.volumes = wants.needs.volumes || sees_volumes_;
  if (wants.nothing()) {
    known_.push_back({.pod = *std::move(pod), .gathered = {}});
    return;
  }
  ++gathering_pods_;
  gathering_->gather(*pod, std::move(wants), [this, pod = *pod](Gathered gathered) {
    --gathering_pods_;
    detaching_.saw(pod, gathered);
    known_.push_back({.pod = pod, .gathered = std::move(gathered)});
    if (!next_slice_.pending()) {
      next_slice_ = around_.loop.in_next_turn([this] { evaluate_slice(); });
    }
  });
}

void Operation::judge(Known known, const policy::ClusterFacts& facts) {
  auto deed = inquiry_.judge(std::move(known.pod), known.gathered, facts, result_);
  if (!deed) {
    return;
  }
  detaching_.plan(*deed);
  if (deed->deletes_pod) {
    if (authority_->page != nullptr) {
      authority_->page->plan(step_of(deed->deletion));
    }
    enqueue({.deletion = std::move(deed->deletion)});
  }
}

bool Operation::may_leave(const Waiting& waiting) const {
  if (std::holds_alternative<Portion>(waiting.deletion)) {
    return true;  // the deletions that it ends were recorded
  }
  const auto* pod = std::get_if<PodDeletion>(&waiting.deletion);
  const Uid& uid = pod != nullptr
                       ? pod->pod.uid
                       : std::get<AttachmentDeletion>(waiting.deletion).target.attachment.uid;
  return unrecorded_ || (authority_->page != nullptr && authority_->page->holds(uid));
}

void Operation::enqueue(Waiting waiting) {
  to_record_ = to_record_ || !may_leave(waiting);
  queue_.push_back(std::move(waiting));
}

void Operation::record_waiting() {
  if (!to_record_ || recording_ || queue_.empty()) {
    return;
  }
  to_record_ = false;
  if (authority_->page == nullptr) {
    unrecorded_ = true;
    return;
  }
  recording_ = true;
  around_.journal.save(authority_->page,
                       [this, alive = std::weak_ptr<const void>(alive_)](bool stands) {
                         if (!alive.expired()) {
                           recording_ = false;
                           unrecorded_ = unrecorded_ || !stands;
                           pump();
                         }
                       });
}

void Operation::pump() {
  pumping_ = true;
  if (result_.braked) {
    queue_.clear();  // one refusal speaks for all of them
  }
  record_waiting();
  while (!queue_.empty() && in_flight_ < kParallelDeletes && !reading_ && !tainting_ &&
         may_leave(queue_.front())) {
    if (result_.braked) {
      queue_.clear();
      break;
    }
    const Duration age = around_.loop.now() - authority_->reading.sent;
    if (age > kReadingLifetime) {
      read_node();
      break;
    }
    // A release follows deletions before which it stood: lost meanwhile, it is set again at the
    // end.
    const bool releases = std::holds_alternative<Portion>(queue_.front().deletion);
    if (needs_quarantine(*authority_) && !unrecorded_ && !releases) {
      quarantine(next_deletion());
      continue;
    }
    Waiting waiting = std::move(queue_.front());
    queue_.pop_front();
    ++in_flight_;
    send(std::move(waiting));
  }
  pumping_ = false;
  end_if_done();
}

const PodDeletion& Operation::next_deletion() const {
  const auto& next = queue_.front().deletion;
  if (const auto* pod = std::get_if<PodDeletion>(&next)) {
    return *pod;
  }
  return std::get<AttachmentDeletion>(next).verdict;
}

void Operation::quarantine(const PodDeletion& waiting) {
  if (result_.untainted || taint_attempts_ == kTaintAttempts) {
    result_.untainted = true;
    queue_.clear();
    return;
  }
  const FenceMark mark = mark_for(as_read_, occasion_.incident, around_.cluster_facts().now);
  ++taint_attempts_;
  tainting_ = true;
  const auto ended = [this, waiting](const ActionOutcome& outcome) {
    quarantined(waiting, outcome);
  };
  around_.actions.set_quarantine(waiting, operations_to_set(as_read_, mark), authority_, alive_,
                                 ended);
}

void Operation::quarantined(const PodDeletion& waiting, const ActionOutcome& outcome) {
  tainting_ = false;
  switch (outcome.reason) {
    case Reason::Done:
      memory_.fenced_for = waiting;
      read_node();  // the live node must carry it
      break;
    case Reason::NodeChanged:
    case Reason::OutcomeLost:
    case Reason::AlreadyGone:
    case Reason::ReadingTooOld:
      read_node();
      break;
    case Reason::Refused:
    case Reason::Retryable:
      result_.untainted = true;
      queue_.clear();
      break;
    default:
      refuse_next(outcome);
  }
  if (!pumping_) {  // a refusal of the guard is answered inside pump()'s loop
    pump();
  }
}

// The guard's word on the deletion itself, to which another one may not be subject.
void Operation::refuse_next(const ActionOutcome& outcome) {
  --taint_attempts_;
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

bool Operation::lost_quarantine() const {
  return memory_.fenced_for && needs_quarantine(*authority_) && !result_.untainted &&
         taint_attempts_ < kTaintAttempts;
}

void Operation::send(Waiting waiting) {
  if (const auto* portion = std::get_if<Portion>(&waiting.deletion)) {
    send_release(*portion);
    return;
  }
  const auto ended = [this, waiting](const ActionOutcome& outcome) {
    deletion_ended(waiting, outcome);
  };
  if (const auto* pod = std::get_if<PodDeletion>(&waiting.deletion)) {
    around_.actions.delete_pod(*pod, authority_, alive_, ended);
  } else {
    around_.actions.delete_attachment(std::get<AttachmentDeletion>(waiting.deletion), authority_,
                                      alive_, ended);
  }
}

void Operation::send_release(const Portion& portion) {
  in_flight_ += portion.size() - 1;  // it was counted as one
  around_.actions.release(releasing_.order(portion), authority_, alive_,
                          [this](const VolumeRelease& volume, const ActionOutcome& outcome) {
                            --in_flight_;
                            releasing_.ended(volume, outcome, result_);
                            if (!pumping_) {
                              pump();
                            }
                          });
}

void Operation::deletion_ended(Waiting waiting, const ActionOutcome& outcome) {
  --in_flight_;
  if (outcome.reason == Reason::ReadingTooOld && waiting.late < kLateAttempts) {
    // It waited too long for a connection; it goes after a fresh reading.
    ++waiting.late;
    queue_.push_back(std::move(waiting));
  } else if (const auto* pod = std::get_if<PodDeletion>(&waiting.deletion)) {
    pod_ended(*pod, outcome);
  } else {
    detaching_.ended(std::get<AttachmentDeletion>(waiting.deletion), outcome, result_);
  }
  if (!pumping_) {  // a refusal of the guard is answered inside pump()'s loop
    pump();
  }
}

void Operation::pod_ended(const PodDeletion& deletion, const ActionOutcome& outcome) {
  if (outcome.settled()) {
    ++result_.deleted;
    memory_.handled.insert(deletion.pod.uid);
    // Of a replaced one the next list will tell: another pod has its name.
    if (outcome.reason == Reason::Done || outcome.reason == Reason::AlreadyGone) {
      detaching_.pod_gone(deletion.pod.uid);
    }
  } else if (may_succeed_later(outcome.reason)) {
    ++result_.failed;
    keep_shortest(result_.retry_after, outcome.retry_after);
  } else if (outcome.reason == Reason::PolicyChanged || outcome.reason == Reason::OutsideBinding) {
    result_.policies_changed = true;  // those that are in force now have not been asked
  } else if (outcome.reason == Reason::SignalUnfit) {
    result_.unfit = true;
  } else if (is_braking(outcome.reason)) {
    result_.braked = outcome.reason;
  }
}

bool Operation::judged_all() const {
  return lists_pending_ == 0 && next_pod_ >= pods_.size() && gathering_pods_ == 0 && known_.empty();
}

void Operation::end_if_done() {
  if (!judged_all() || !queue_.empty() || in_flight_ > 0 || reading_ || tainting_) {
    return;
  }
  next_slice_.cancel();
  if (lost_quarantine()) {
    quarantine(*memory_.fenced_for);
    return;
  }
  if (look_at_volumes()) {
    return;
  }
  releasing_.sum_up(result_);
  detaching_.sum_up(result_);
  owner_.pass_ended(result_);
}

bool Operation::look_at_volumes() {
  if (memory_.detachments.empty() && memory_.releases.empty()) {
    return attachments_ == Stage::Looking || releases_ == Stage::Looking;
  }
  // Who else uses a volume is told by the lists: the next pass has fresh ones.
  if (around_.loop.now() - listed_at_ > kListLifetime) {
    keep_shortest(result_.look_again, kSoon);
  } else if (attachments_ == Stage::NotYet) {
    attachments_ = Stage::Looking;
    detaching_.look(
        /*complete=*/sees_volumes_ && !unlisted_ && !undecoded_,
        [this](AttachmentDeletion deletion) { enqueue({.deletion = std::move(deletion)}); },
        [this] {
          attachments_ = Stage::Looked;
          pump();
        });
    return true;
  } else if (attachments_ == Stage::Looked && releases_ == Stage::NotYet) {
    releases_ = Stage::Looking;
    releasing_.look(
        listed_at_, [this](Portion portion) { queue_.push_back({.deletion = std::move(portion)}); },
        [this] {
          releases_ = Stage::Looked;
          pump();
        });
    return true;
  }
  return attachments_ == Stage::Looking || releases_ == Stage::Looking;
}

}  // namespace moonfence::fence
