#include "fence/lift/taint_lifter.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "base/overloaded.h"
#include "fence/lift/leftovers_reader.h"
#include "fence/lift/lift_machine.h"

namespace moonfence::fence {

using audit::Reason;
using audit::Record;

namespace {

constexpr const char* kGrant =
    "grant get on nodes/proxy with `kubectl apply -k deploy/rights/kubelet`: without it a node "
    "that "
    "was cut off and not booted again keeps the taint";

// After this a doubt that should have passed is told.
constexpr Duration kPatience = std::chrono::minutes(3);

}  // namespace

// One node with everything it has running.
class TaintLifter::Patient {
 public:
  Patient(TaintLifter& owner, NodeName name, Uid uid)
      : owner_(owner), around_(owner.around_), name_(std::move(name)), uid_(std::move(uid)) {
    authority_->incident_open = false;
    authority_->node = name_;
    authority_->node_uid = uid_;
    authority_->leadership = &around_.in_force.leadership;
  }
  ~Patient() { halt(); }
  Patient(const Patient&) = delete;
  Patient& operator=(const Patient&) = delete;

  void seen(const cluster::NodeView& node) { ready_ = node.readiness == cluster::Readiness::True; }
  void stir(bool leads) { perform(leads && ready_ ? machine_.wake() : machine_.sleep()); }
  void admit() { perform(machine_.admitted()); }

  [[nodiscard]] const Uid& uid() const { return uid_; }
  [[nodiscard]] bool is_looked_at() const { return machine_.is_looked_at(); }
  // It was told.
  [[nodiscard]] bool is_doubtful() const { return !told_.empty(); }
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  void perform(const LiftMachine::Effects& effects) {
    for (const LiftMachine::Effect& effect : effects) {
      std::visit(Overloaded{
                     [this](const LiftMachine::Queue&) { owner_.queue(name_); },
                     [this](const LiftMachine::Read&) { read(); },
                     [this](const LiftMachine::Search& search) { this->search(search.scope); },
                     [this](const LiftMachine::Lift& lift) { this->lift(lift.why); },
                     [this](const LiftMachine::Keep& keep) { doubt(keep.doubt); },
                     [this](const LiftMachine::SetTimer& set) { set_timer(set.delay); },
                     [this](const LiftMachine::Stop&) { halt(); },
                 },
                 effect);
    }
    owner_.admit_soon();
  }

  void halt() {
    call_.reset();
    timer_.cancel();
    if (lift_) {
      lift_->wanted = false;
    }
    told_.clear();
    doubtful_since_.reset();
    if (search_) {
      search_->retire();
    }
    // We may be inside one of its callbacks.
    around_.access.loop.defer(
        [dead = std::shared_ptr<LeftoversReader>(std::move(search_))] { (void)dead; });
  }

  void set_timer(Duration delay) {
    timer_ = around_.access.loop.after(delay, [this] { perform(machine_.timer_fired()); });
  }

  void read() {
    const Moment sent = around_.access.loop.now();
    call_ = around_.access.reader.get_node(name_, [this, sent](Result<kube::Node> node) {
      call_.reset();
      const Moment now = around_.access.loop.now();
      const bool usable = node && node->uid == uid_ &&
                          now - sent <= around_.in_force.leadership.limits().reading &&
                          !owner_.is_failed(name_);
      read_ = sent;
      node_ = usable ? std::optional(*std::move(node)) : std::nullopt;
      hold_ = usable ? hold_on_node(*node_->raw, around_.in_force.protections.hold_marks)
                     : std::nullopt;
      perform(machine_.read(node_, now, hold_));
    });
  }

  void search(Scope scope) {
    const std::weak_ptr<const void> alive = alive_;
    search_ = std::make_unique<LeftoversReader>(
        around_, owner_.kubelets_, name_, scope,
        [this, scope, alive](const NodeLeftovers& remains) {
          if (alive.expired()) {
            return;  // the search outlives us by a turn
          }
          LiftMachine::Finding finding = {.doubt = doubt_left_by(remains, scope),
                                          .kubelet_started = std::nullopt};
          if (remains.word && *remains.word) {
            finding.kubelet_started = (*remains.word)->process.started;
          }
          // What was found is let go: a node may rest for minutes. We are inside its callback.
          around_.access.loop.defer(
              [dead = std::shared_ptr<LeftoversReader>(std::move(search_))] { (void)dead; });
          perform(machine_.searched(finding, around_.access.loop.now()));
        });
  }

  [[nodiscard]] std::optional<Doubt> doubt_left_by(const NodeLeftovers& remains,
                                                   Scope scope) const {
    if (!scope.storage) {
      return doubt_by_pods(name_, remains);
    }
    for (const OwnTaint taint : {OwnTaint::Fenced, OwnTaint::OutOfService}) {
      const std::string& text = mark_text(*node_, taint);
      if (text.empty()) {
        continue;
      }
      const auto mark = read_mark(text);
      auto doubt = mark ? doubt_about(*node_, *mark, remains, around_.access.cluster_facts().now)
                        : Doubt{Doubt::Kind::MarkUnclear, "its mark cannot be read"};
      if (doubt) {
        return doubt;
      }
    }
    return std::nullopt;
  }

  // Whose incident is told of: the taint that goes furthest is the one that is asked about.
  [[nodiscard]] IncidentId incident() const {
    for (const OwnTaint taint : {OwnTaint::OutOfService, OwnTaint::Fenced}) {
      const auto mark = node_ ? read_mark(mark_text(*node_, taint)) : std::nullopt;
      if (mark) {
        return mark->incident;
      }
    }
    return IncidentId();
  }

  void lift(const std::string& why) {
    lift_ = std::make_shared<Lift>();
    lift_->node_uid = uid_;
    lift_->incident = incident();
    lift_->why = why;
    lift_->hold = hold_;
    lift_->read = read_;
    lift_->leadership = &around_.in_force.leadership;
    around_.actions.perform(LiftTaints{.right = lift_, .operations = operations_to_lift(*node_)},
                            authority_, alive_, [this](const ActionOutcome& outcome) {
                              const bool again = outcome.reason == Reason::NodeChanged ||
                                                 outcome.reason == Reason::OutcomeLost ||
                                                 outcome.reason == Reason::ReadingTooOld;
                              perform(machine_.lifted(outcome.reason == Reason::Done, again));
                            });
  }

  // What passes by itself is no news before it has lasted, and nothing is news twice: a doubt may
  // last for days, about one pod after the other.
  void doubt(const Doubt& doubt) {
    const Moment now = around_.access.loop.now();
    doubtful_since_ = doubtful_since_.value_or(now);
    why_ = doubt.why;
    if ((may_pass(doubt.kind) && now - *doubtful_since_ < kPatience) ||
        !told_.insert(doubt.kind).second) {
      return;
    }
    Record record;
    record.kind = Record::Kind::Refusal;
    record.reason = Reason::NotProvenClean;
    record.node = name_;
    record.node_uid = uid_;
    record.action = "lift_quarantine";
    record.text = doubt.why;
    record.incident = incident();
    (void)around_.output.trail.write(record);
    around_.output.log.warning(
        "quarantine_kept",
        {{"incident", record.incident.text()}, {"node", name_.text()}, {"why", doubt.why}});
  }

  TaintLifter& owner_;
  IncidentContext& around_;
  const NodeName name_;
  const Uid uid_;
  LiftMachine machine_;
  bool ready_ = false;               // by the watch
  std::optional<kube::Node> node_;   // as it was read last
  std::optional<std::string> hold_;  // likewise: why nobody may touch it
  Moment read_{};                    // when that was sent
  std::optional<Moment> doubtful_since_;
  std::set<Doubt::Kind> told_;
  std::string why_;  // the newest doubt
  kube::CallHandle call_;
  loop::Timer timer_;
  std::unique_ptr<LeftoversReader> search_;
  std::shared_ptr<Lift> lift_;
  // Of no incident: it says which node is meant, and permits nothing. That is for the lift.
  const std::shared_ptr<Authority> authority_ = std::make_shared<Authority>();
  std::shared_ptr<const void> alive_ = std::make_shared<int>(0);
};

TaintLifter::TaintLifter(IncidentContext surroundings, IsFailed is_failed)
    : around_(std::move(surroundings)),
      is_failed_(std::move(is_failed)),
      kubelets_(around_.access.loop) {}
TaintLifter::~TaintLifter() = default;

void TaintLifter::look_at(const cluster::NodeView& node, cluster::Look /*why*/) {
  if (!node.is_marked() || node.readiness == cluster::Readiness::Gone) {
    patients_.erase(node.name);
    admit_soon();  // it may have had a place
    return;
  }
  auto& patient = patients_[node.name];
  if (patient == nullptr || patient->uid() != node.uid) {
    patient = std::make_unique<Patient>(*this, node.name, node.uid);
  }
  patient->seen(node);
  patient->stir(leads_);
}

void TaintLifter::check_right() {
  if (around_.in_force.quarantine == Quarantine::Off) {
    return;
  }
  right_call_ = around_.access.reader.may(
      {.verb = "get", .resource = "nodes", .subresource = "proxy"},
      [this](const Result<bool>& allowed) {
        if (allowed && !*allowed) {
          around_.output.log.warning("kubelets_not_asked", {{"next_step", kGrant}});
        }
      });
}

void TaintLifter::lead() {
  leads_ = true;
  for (const auto& [name, patient] : patients_) {
    patient->stir(leads_);
  }
}

void TaintLifter::step_down() {
  leads_ = false;
  for (const auto& [name, patient] : patients_) {
    patient->stir(leads_);
  }
}

std::size_t TaintLifter::doubtful() const {
  return static_cast<std::size_t>(
      std::count_if(patients_.begin(), patients_.end(),
                    [](const auto& entry) { return entry.second->is_doubtful(); }));
}

std::map<NodeName, std::string> TaintLifter::kept() const {
  std::map<NodeName, std::string> kept;
  for (const auto& [name, patient] : patients_) {
    if (patient->is_doubtful()) {
      kept.emplace(name, patient->why());
    }
  }
  return kept;
}

void TaintLifter::queue(const NodeName& name) {
  queue_.push_back(name);
}

void TaintLifter::admit_soon() {
  if (!queue_.empty() && !admit_soon_.pending()) {
    admit_soon_ = around_.access.loop.in_next_turn([this] { admit(); });
  }
}

void TaintLifter::admit() {
  auto busy = static_cast<std::size_t>(
      std::count_if(patients_.begin(), patients_.end(),
                    [](const auto& entry) { return entry.second->is_looked_at(); }));
  while (!queue_.empty() && busy < kAtOnce) {
    const auto found = patients_.find(queue_.front());
    queue_.pop_front();
    if (found != patients_.end()) {  // one that fell asleep meanwhile does not want it
      found->second->admit();
      busy += found->second->is_looked_at() ? 1U : 0U;
    }
  }
}

}  // namespace moonfence::fence
