#include "fence/incident/node_reading.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "fence/rules/triggers.h"
#include "kube/objects/decode.h"

namespace moonfence::fence {

namespace {

std::shared_ptr<const kube::NodeStorage> storage_of(const kube::Node& node) {
  auto storage = kube::decode_node_storage(*node.raw);
  return storage ? std::make_shared<const kube::NodeStorage>(*std::move(storage)) : nullptr;
}

Reading reading_of(const kube::Node& node, const LeaseWatch::Finding& found, Moment sent) {
  return {.readiness = cluster::readiness_of(node),
          .uid = node.uid,
          .keeps_replacements_off = cluster::keeps_replacements_off(node),
          .own_taint = carried_by(node),
          .out_of_service = carried_by(node, OwnTaint::OutOfService),
          .kubelet_lease = found.kubelet_lease,
          .dead_at = found.dead_at,
          .lease_stands_since = found.since,
          .sent = sent};
}

}  // namespace

NodeReading::NodeReading(Surroundings& surroundings, const PassContext& context,
                         std::shared_ptr<Authority> authority, Memory& memory, Arrived arrived,
                         Purpose purpose)
    : around_(surroundings),
      context_(context),
      authority_(std::move(authority)),
      memory_(memory),
      arrived_(std::move(arrived)),
      purpose_(purpose),
      alive_(std::make_shared<int>(0)) {}

void NodeReading::retire() {
  node_call_.reset();
  lease_call_.reset();
  question_.reset();
  alive_.reset();
}

void NodeReading::begin() {
  if (around_.access.source == nullptr && !has_one_ && context_.unknown &&
      around_.in_force.brake.limits_down()) {
    read_peer_leases();
  }
  if (!has_one_) {
    prove_policies();
  }
  under_way_ = true;
  sent_ = around_.access.loop.now();
  lifetime_ = around_.in_force.leadership.limits().reading;
  fresh_.reset();
  gone_ = false;
  successor_.reset();
  successor_hold_.reset();
  node_call_ = around_.access.reader.get_node(
      authority_->node, [this](Result<kube::Node> node) { node_arrived(std::move(node)); },
      [this] { look_again(); });
  if (around_.access.source != nullptr) {
    word_.reset();
    question_ = around_.access.source->ask(
        authority_->node, [this](const Result<HealthSource::Word>& word) { word_arrived(word); });
    if (!is_by_fencers(authority_->source)) {
      return;
    }
  }
  ask_for_the_lease();
}

void NodeReading::ask_for_the_lease() {
  lease_.reset();
  lease_call_ = around_.access.reader.get_node_lease(
      authority_->node, lifetime_,
      [this](Result<kube::Lease> lease) { lease_arrived(std::move(lease)); });
}

// The node does not seem to be there, which a second read has to bear out: on a slow server the
// first ones would be too old by then.
void NodeReading::look_again() {
  sent_ = around_.access.loop.now();
  if (around_.access.source == nullptr) {
    ask_for_the_lease();
  }
}

void NodeReading::read_peer_leases() {
  peers_read_ = true;
  around_.access.peer_lease_reader.ask(alive_, [this](const Result<void>& outcome) {
    peer_leases_ = outcome;
    take_if_complete();
  });
}

void NodeReading::prove_policies() {
  policies_.reset();
  if (around_.access.prove_policies) {
    around_.access.prove_policies(alive_, [this](const Result<void>& outcome) {
      policies_ = outcome;
      take_if_complete();
    });
  }
}

void NodeReading::node_arrived(Result<kube::Node> node) {
  node_call_.reset();
  const bool gone = !node && node.error().kind == Error::Kind::NotFound;
  if (gone && !acts_on_deleted(*context_.set, context_.downtime.fell, authority_->source)) {
    arrived_(Reading{.readiness = cluster::Readiness::Gone, .sent = sent_});
    return;
  }
  if ((node || gone) && around_.access.loop.now() - sent_ > lifetime_) {
    // Too slow to act on. Read again at once, it would be too slow again.
    node = failure(Error::Kind::Retryable,
                   "the live read of the node took longer than " + format_duration(lifetime_));
  }
  if (gone && node.error().kind == Error::Kind::NotFound) {
    vanished();
    return;
  }
  if (!node) {
    around_.output.log.warning("node_unreadable", {{"incident", context_.incident.text()},
                                                   {"node", authority_->node.text()},
                                                   {"error", node.error().message()}});
    arrived_(std::nullopt);
    return;
  }
  if (is_succeeded_by(*node)) {
    successor_ = node->created;
    successor_hold_ = hold_on_node(*node->raw, around_.in_force.protections.hold_marks);
    vanished();
    return;
  }
  fresh_ = std::move(*node);
  if (needs_peer_leases() && !peers_read_) {
    read_peer_leases();
  }
  take_if_complete();
}

bool NodeReading::is_succeeded_by(const kube::Node& node) const {
  if (node.uid == authority_->node_uid || !node.created || around_.access.source != nullptr) {
    return false;
  }
  // A Node that no kubelet has written yet says nothing about the machine that had the name.
  const bool may_be_same = node.boot_id.empty()
                               ? !memory_.was_silent
                               : memory_.boot_id.empty() || memory_.boot_id == node.boot_id;
  if (may_be_same) {
    return false;
  }
  return memory_.was_silent ||
         acts_on_deleted(*context_.set, context_.downtime.fell, authority_->source);
}

void NodeReading::vanished() {
  gone_ = true;
  fresh_ = memory_.last_seen;
  if (!fresh_) {
    const nlohmann::json known = {
        {"metadata", {{"name", authority_->node.text()}, {"uid", authority_->node_uid.text()}}}};
    fresh_ = kube::Node{.name = authority_->node,
                        .uid = authority_->node_uid,
                        .raw = std::make_shared<const nlohmann::json>(known)};
  }
  take_if_complete();
}

cluster::Readiness NodeReading::readiness() const {
  if (successor_ && memory_.was_silent) {
    return cluster::Readiness::Unknown;  // as it was when it was last there
  }
  return gone_ ? cluster::Readiness::Gone : cluster::readiness_of(*fresh_);
}

void NodeReading::lease_arrived(Result<kube::Lease> lease) {
  lease_call_.reset();
  if (!lease && lease.error().kind != Error::Kind::NotFound) {
    around_.output.log.warning("lease_unreadable", {{"incident", context_.incident.text()},
                                                    {"node", authority_->node.text()},
                                                    {"error", lease.error().message()}});
  }
  lease_ = std::move(lease);
  take_if_complete();
}

void NodeReading::word_arrived(Result<HealthSource::Word> word) {
  word_ = std::move(word);
  take_if_complete();
}

// Only a controller's word may be about a storm, and only before anything is done.
bool NodeReading::needs_peer_leases() const {
  return around_.access.source == nullptr && !has_one_ && !successor_ &&
         around_.in_force.brake.limits_down() && fresh_->uid == authority_->node_uid &&
         readiness() == cluster::Readiness::Unknown;
}

bool NodeReading::peers_are_readable() const {
  if (peer_leases_->has_value()) {
    return true;
  }
  around_.output.log.warning("leases_unreadable", {{"incident", context_.incident.text()},
                                                   {"node", authority_->node.text()},
                                                   {"error", peer_leases_->error().message()}});
  return false;
}

// Others are as silent as this node and were not called so yet.
void NodeReading::heed_peer_leases(Duration stood_still) {
  const kube::Lease* lease = *lease_ ? &**lease_ : nullptr;
  const PeerLeaseReader::Silent silent =
      around_.access.peer_lease_reader.silent_beside(lease, stood_still);
  if (around_.in_force.brake.too_many_with(silent.workers, silent.machines)) {
    around_.output.log.warning("storm_suspected", {{"incident", context_.incident.text()},
                                                   {"node", authority_->node.text()},
                                                   {"silent_beside_it", silent.machines}});
    around_.in_force.brake.suspect(around_.access.loop.now());
  }
}

// Nobody waits for the Lease of a node that is not down any more; nor in the middle of a pass that
// did not go by it.
bool NodeReading::awaits_lease() const {
  const cluster::Readiness now = readiness();
  const bool down = cluster::is_down(now) || now == cluster::Readiness::Gone;
  if (!down || fresh_->uid != authority_->node_uid || successor_) {
    return false;  // the Lease of that name is the successor's
  }
  return !has_one_ || now == cluster::Readiness::Unknown ||
         authority_->reading.kubelet_lease == KubeletLease::Dead;
}

bool NodeReading::awaits_policies() const {
  const cluster::Readiness now = readiness();
  const bool down =
      around_.access.source != nullptr || cluster::is_down(now) || now == cluster::Readiness::Gone;
  return around_.access.prove_policies && !has_one_ && down && !policies_;
}

bool NodeReading::are_policies_proven() const {
  if (!policies_ || policies_->has_value()) {
    return true;
  }
  around_.output.log.warning("policies_unproven", {{"incident", context_.incident.text()},
                                                   {"node", authority_->node.text()},
                                                   {"error", policies_->error().message()}});
  return false;
}

void NodeReading::take_if_complete() {
  if (!under_way_ || !fresh_ || awaits_policies()) {
    return;
  }
  if (!are_policies_proven()) {
    under_way_ = false;
    arrived_(std::nullopt);
    return;
  }
  if (around_.access.source == nullptr) {
    if ((lease_ || !awaits_lease()) && (peer_leases_ || !needs_peer_leases())) {
      under_way_ = false;
      take(by_lease());
    }
    return;
  }
  if (!word_ || (is_by_fencers(authority_->source) && !lease_)) {
    return;
  }
  under_way_ = false;
  auto reading = by_source();
  if (reading) {
    take(*std::move(reading));
    return;
  }
  around_.output.log.warning("health_unreadable", {{"incident", context_.incident.text()},
                                                   {"node", authority_->node.text()},
                                                   {"error", reading.error().message()}});
  arrived_(std::nullopt);
}

// Kubernetes' Ready and Lease play no part. Nor does its taint, as long as it calls the node Ready:
// then it sets none, and without ours a replacement may be bound to the node again.
Result<Reading> NodeReading::by_source() const {
  if (!*word_) {
    return failure(Error(word_->error()));
  }
  const HealthSource::Word& word = **word_;
  if (word.health == policy::NodeHealth::Unknown) {
    return failure(Error::Kind::Retryable, "the health source calls the node unknown");
  }
  const Moment asked = std::min(sent_, word.asked);
  if (around_.access.loop.now() - asked > lifetime_) {
    return failure(Error::Kind::Retryable,
                   "the health source took longer than " + format_duration(lifetime_));
  }
  const bool failed = word.health == policy::NodeHealth::Failed;
  return Reading{
      .readiness = failed ? cluster::Readiness::Failed : cluster::Readiness::True,
      .uid = fresh_->uid,
      .keeps_replacements_off = cluster::keeps_replacements_off(*fresh_) ||
                                (around_.access.source->goes_without_taint() &&
                                 cluster::readiness_of(*fresh_) == cluster::Readiness::True &&
                                 around_.in_force.quarantine == Quarantine::Off),
      .own_taint = carried_by(*fresh_),
      .out_of_service = carried_by(*fresh_, OwnTaint::OutOfService),
      .kubelet_lease = KubeletLease::Dead,
      .lost = word.lost && stands_still(),
      .sent = asked};
}

// By the Lease itself: the list that calls it overdue may have been some seconds old.
bool NodeReading::stands_still() const {
  if (!lease_ || !*lease_) {
    return false;
  }
  const kube::Lease& lease = **lease_;
  const auto by = around_.access.when_written(lease).by;
  const Duration told = lease.record.duration;
  return by && sent_ - *by > (told > Duration::zero() ? told : kLeaseDuration) / 4;
}

Reading NodeReading::by_lease() {
  LeaseWatch::Finding found = {.kubelet_lease = authority_->reading.kubelet_lease,
                               .dead_at = authority_->reading.dead_at,
                               .since = authority_->reading.lease_stands_since};
  if (successor_) {
    found = {.kubelet_lease = KubeletLease::Dead};
  } else if (lease_) {
    const auto unwritten_since =
        lease_->has_value() ? around_.access.when_written(**lease_).by : std::nullopt;
    found = memory_.kubelet_lease.feel(*lease_, readiness(),
                                       {.unwritten_since = unwritten_since,
                                        .heard_down = context_.downtime.heard,
                                        .outage_ended = around_.in_force.doubt.outage_ended()},
                                       sent_, around_.access.loop.now());
  }
  if (needs_peer_leases()) {
    if (!peers_are_readable()) {
      found.kubelet_lease = KubeletLease::Unread;  // whether it is the only silent one nobody knows
    } else if (found.kubelet_lease == KubeletLease::Dead && purpose_ == Purpose::ToAct) {
      heed_peer_leases(sent_ - found.since.value_or(sent_));
    }
  }
  if (gone_) {
    return {.readiness = readiness(),
            .uid = authority_->node_uid,
            .keeps_replacements_off = true,
            .kubelet_lease = found.kubelet_lease,
            .successor = successor_,
            .dead_at = found.dead_at,
            .lease_stands_since = found.since,
            .sent = sent_};
  }
  Reading reading = reading_of(*fresh_, found, sent_);
  if (around_.in_force.kernels != nullptr) {
    reading.kernel = around_.in_force.kernels->kernel_of(authority_->node);
  }
  reading.renewed = lease_ && *lease_ ? (*lease_)->record.renewed : authority_->reading.renewed;
  return reading;
}

void NodeReading::take(Reading reading) {
  node_ = *std::exchange(fresh_, std::nullopt);
  has_one_ = true;
  authority_->reading = std::move(reading);
  auto hold = hold_on_node(*node_.raw, around_.in_force.protections.hold_marks);
  if (gone_) {
    // The last word on the node counts, and that of whoever holds its name now.
    hold = hold ? std::move(hold) : memory_.hold;
    hold = hold ? std::move(hold) : successor_hold_;
  } else if (node_.uid == authority_->node_uid) {
    memory_.hold = hold;
    if (authority_->ledger != nullptr) {
      authority_->ledger->held(hold.value_or(""));
    }
  }
  authority_->reading.hold = std::move(hold);
  authority_->reading.attestation = read_attestation();
  if (gone_) {
    if (successor_) {
      note_silence();
    }
    arrived_(authority_->reading);
    return;
  }
  if (node_.uid == authority_->node_uid && around_.access.source == nullptr) {
    memory_.boot_id = node_.boot_id;
    memory_.was_silent = cluster::is_down(authority_->reading.readiness) &&
                         authority_->reading.kubelet_lease == KubeletLease::Dead;
    note_silence();
  }
  if (node_.uid == authority_->node_uid &&
      (memory_.was_silent ||
       acts_on_deleted(*context_.set, context_.downtime.fell, authority_->source))) {
    memory_.last_seen = node_;
  }
  if (around_.in_force.release.on) {
    authority_->reading.storage = storage_of(node_);
    authority_->boot_id = authority_->boot_id.value_or(node_.boot_id);
  }
  note_boot(node_.boot_id);
  const bool asks_fencers = around_.access.source == nullptr || is_by_fencers(authority_->source);
  if (around_.in_force.powers != nullptr && asks_fencers &&
      authority_->reading.kubelet_lease == KubeletLease::Dead) {
    around_.in_force.powers->look_at(node_);
  }
  if (asks_fencers) {
    tell_evidence();
  }
  arrived_(authority_->reading);
}

void NodeReading::tell_evidence() const {
  if (around_.in_force.evidence != nullptr && purpose_ == Purpose::ToAct &&
      node_.uid == authority_->node_uid) {
    around_.in_force.evidence->looked_at(
        {.node = node_, .incident = context_.incident, .authority = authority_});
  }
}

// Of a node that is gone nobody can tell whose machine has its name.
AttestationCheck NodeReading::read_attestation() const {
  if (gone_) {
    return {};
  }
  if (around_.access.source != nullptr) {
    return {.why_not = "this incident goes by a health source, and reads no Lease",
            .is_futile = true};
  }
  const Result<kube::Lease> unread = failure(Error::Kind::Retryable, "it was not read");
  const cluster::Kernels* kernels = around_.in_force.kernels;
  const auto heard = kernels == nullptr ? std::nullopt : kernels->heard_at(authority_->node);
  const WallTime now = around_.access.cluster_facts().now;
  return check_attestation(
      node_,
      {.lease = lease_ ? *lease_ : unread,
       .kubelet_lease = lease_ ? authority_->reading.kubelet_lease : KubeletLease::Unread,
       .now = now,
       .heard = heard ? std::optional(now - (around_.access.loop.now() - *heard)) : std::nullopt});
}

// Whoever leads next may meet another Node of that name, and nothing that tells how ours was.
void NodeReading::note_silence() {
  if (authority_->ledger != nullptr) {
    authority_->ledger->silent(memory_.was_silent ? std::optional(around_.output.journal.now())
                                                  : std::nullopt);
  }
}

// What the leader before us had planned it did not plan for a node that was up since; nor did
// anybody wish it out of service.
void NodeReading::note_boot(const std::string& boot_id) {
  const auto before = std::exchange(memory_.inherited_boot, std::nullopt);
  if (before && !before->empty() && *before != boot_id) {
    around_.output.log.info("node_rebooted", {{"incident", context_.incident.text()},
                                              {"node", authority_->node.text()}});
    memory_.detachments.clear();
  }
  if (authority_->ledger != nullptr) {
    const std::string& last = authority_->ledger->record().boot_id;
    if (!last.empty() && last != boot_id) {
      memory_.retired_for.reset();
    }
    authority_->ledger->booted(boot_id);
  }
}

}  // namespace moonfence::fence
