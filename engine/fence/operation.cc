#include "fence/operation.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kube/decode.h"

namespace moonfence::fence {

using audit::Reason;

namespace {

Reading reading_of(const kube::Node& node, Moment sent) {
  return {.readiness = cluster::readiness_of(node),
          .uid = node.uid,
          .keeps_replacements_off = cluster::keeps_replacements_off(node),
          .sent = sent};
}

// Refused by the server counts: permissions may be mended while the window lasts.
bool may_succeed_later(Reason reason) {
  return reason == Reason::Retryable || reason == Reason::OutcomeLost ||
         reason == Reason::Refused || reason == Reason::AuditUnwritable ||
         reason == Reason::ReadingTooOld || reason == Reason::NotLeader;
}

bool is_braking(Reason reason) {
  return reason == Reason::TooManyDown || reason == Reason::TooManyAtOnce ||
         reason == Reason::TooManyInWindow || reason == Reason::ZoneDisrupted;
}

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
      alive_(std::make_shared<int>(0)) {}

Operation::~Operation() = default;

void Operation::retire() {
  node_call_.reset();
  lists_.clear();
  next_slice_.cancel();
  queue_.clear();
  alive_.reset();
}

void Operation::start() {
  memory_.enforcing.breaker.begin_pass();
  memory_.observing.breaker.begin_pass();
  // The lists are slower than the node: they go out first. They ask for the most recent state; why
  // not for "not older than the event" is told in docs/decisions/0004.
  const std::vector<PodList> plan = plan_lists(*occasion_.set, occasion_.downtime.fell);
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
  read_node();
}

void Operation::read_node() {
  const Moment sent = around_.loop.now();
  node_call_ = around_.reader.get_node(authority_->node, [this, sent](Result<kube::Node> node) {
    node_arrived(std::move(node), sent);
  });
}

void Operation::node_arrived(Result<kube::Node> node, Moment sent) {
  node_call_.reset();
  if (!node && node.error().kind == Error::Kind::NotFound) {
    owner_.reading_arrived(Reading{.readiness = cluster::Readiness::Gone,
                                   .uid = {},
                                   .keeps_replacements_off = false,
                                   .sent = sent});
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
  authority_->reading = reading_of(*node, sent);
  if (!acting_) {
    node_ = std::move(*node);
    both_arrived();
    return;
  }
  inquiry_.begin(std::move(*node));
  // A fresh reading in the middle of a pass. The owner may destroy us over it.
  const std::weak_ptr<const void> alive = alive_;
  owner_.reading_arrived(authority_->reading);
  if (!alive.expired()) {
    pump();
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
    if (acting_) {
      end_if_done();
    } else if (lists_pending_ == 0 && !listed_) {
      owner_.reading_arrived(std::nullopt);
    }
    return;
  }
  listed_ = true;
  const bool idle = next_pod_ >= pods_.size();
  pods_.insert(pods_.end(), std::make_move_iterator(pods->begin()),
               std::make_move_iterator(pods->end()));
  if (!acting_) {
    both_arrived();
  } else if (idle) {
    evaluate_slice();  // otherwise a slice is due in the next turn
  }
}

void Operation::both_arrived() {
  if (!node_) {
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
  evaluate_slice();
}

void Operation::evaluate_slice() {
  const policy::ClusterFacts facts = around_.cluster_facts();
  const Moment enough = around_.loop.live_now() + kSliceTime;
  const std::size_t end = std::min(next_pod_ + kPodsPerTurn, pods_.size());
  while (next_pod_ < end && around_.loop.live_now() < enough) {
    evaluate(std::exchange(pods_[next_pod_], {}), facts);
    ++next_pod_;
    // The first deletion's request leaves at the end of this turn, while the others are judged.
    if (first_slice_ && !queue_.empty()) {
      break;
    }
  }
  first_slice_ = first_slice_ && queue_.empty();
  if (next_pod_ < pods_.size()) {
    next_slice_ = around_.loop.in_next_turn([this] { evaluate_slice(); });
  }
  pump();
}

void Operation::evaluate(const std::string& text, const policy::ClusterFacts& facts) {
  auto pod = kube::decode_pod_text(text);
  if (!pod) {
    // One pod that cannot be understood must not keep us from the others.
    around_.log.error("pod_undecodable", {{"incident", occasion_.incident.text()},
                                          {"node", authority_->node.text()},
                                          {"error", pod.error().message()}});
    ++result_.failed;
    return;
  }
  if (!seen_.insert(pod->uid).second) {
    return;
  }
  if (auto deletion = inquiry_.judge(*std::move(pod), {}, facts, result_)) {
    queue_.push_back({.deletion = *std::move(deletion)});
  }
}

void Operation::pump() {
  pumping_ = true;
  while (!queue_.empty() && in_flight_ < kParallelDeletes && node_call_ == nullptr) {
    if (result_.braked) {
      queue_.clear();  // one refusal speaks for all of them
      break;
    }
    const Duration age = around_.loop.now() - authority_->reading.sent;
    if (age > kReadingLifetime) {
      read_node();
      break;
    }
    const Waiting waiting = std::move(queue_.front());
    queue_.pop_front();
    ++in_flight_;
    around_.actions.delete_pod(
        waiting.deletion, authority_, alive_,
        [this, waiting](const ActionOutcome& outcome) { deletion_ended(waiting, outcome); });
  }
  pumping_ = false;
  end_if_done();
}

void Operation::deletion_ended(Waiting waiting, const ActionOutcome& outcome) {
  --in_flight_;
  if (outcome.settled()) {
    memory_.handled.insert(waiting.deletion.pod.uid);
  } else if (outcome.reason == Reason::ReadingTooOld && waiting.late < kLateAttempts) {
    // It waited too long for a connection; it goes after a fresh reading.
    ++waiting.late;
    queue_.push_back(std::move(waiting));
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
  if (!pumping_) {  // a refusal of the guard is answered inside pump()'s loop
    pump();
  }
}

void Operation::end_if_done() {
  const bool evaluated = lists_pending_ == 0 && next_pod_ >= pods_.size();
  if (evaluated && queue_.empty() && in_flight_ == 0 && node_call_ == nullptr) {
    next_slice_.cancel();
    owner_.pass_ended(result_);
  }
}

}  // namespace moonfence::fence
