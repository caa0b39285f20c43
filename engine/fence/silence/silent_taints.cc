#include "fence/silence/silent_taints.h"

#include <algorithm>
#include <utility>

#include "fence/rules/our_taints.h"

namespace moonfence::fence {

using audit::Reason;
using cluster::Kernel;

namespace {

constexpr Duration kAfterARace = std::chrono::seconds(1);
// Until the watch shows what we did.
constexpr Duration kShown = std::chrono::seconds(5);

}  // namespace

// Reads the node and changes it, once.
class SilentTaints::Work {
 public:
  Work(SilentTaints& owner, const cluster::NodeView& node, Act act)
      : owner_(owner), around_(owner.around_), name_(node.name), uid_(node.uid), act_(act) {
    authority_->incident_open = false;
    authority_->node = name_;
    authority_->leadership = &around_.in_force.leadership;
    authority_->brake = &around_.in_force.brake;
    authority_->doubt = &around_.in_force.doubt;
    authority_->protections = &around_.in_force.protections;
    authority_->active = &around_.in_force.active;
    authority_->kernels = around_.in_force.kernels;
    read();
  }
  ~Work() {
    silence_->wanted = false;
    lift_->wanted = false;
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  [[nodiscard]] Act act() const { return act_; }

 private:
  void read() {
    call_ = around_.access.reader.get_node(
        name_, [this, sent = around_.access.loop.now()](const Result<kube::Node>& node) {
          call_.reset();
          if (!node) {
            end(End::Failed);
            return;
          }
          if (node->uid != uid_) {
            end(End::Raced);  // another one of that name: the watch is late
            return;
          }
          authority_->node_uid = node->uid;
          authority_->zone = node->zone;
          authority_->reading.uid = node->uid;
          authority_->reading.sent = sent;
          authority_->reading.hold =
              hold_on_node(*node->raw, around_.in_force.protections.hold_marks);
          act_ == Act::Lift ? lift(*node) : set(*node);
        });
  }

  void set(const kube::Node& node) {
    if (carried_by(node, OwnTaint::Silent) != Carried::Nothing ||
        cluster::keeps_replacements_off(node)) {
      end(End::NotNeeded);
      return;
    }
    const auto last = around_.in_force.kernels->last_sign(name_);
    const Duration quiet = last ? around_.access.loop.now() - *last : Duration::zero();
    silence_->why = "its machine was last heard " +
                    format_duration(std::chrono::duration_cast<std::chrono::seconds>(quiet)) +
                    " ago";
    const FenceMark mark = {.incident = IncidentId("silence"),
                            .boot_id = node.boot_id,
                            .since = around_.access.cluster_facts().now};
    owner_.set_at_.push_back(around_.access.loop.now());
    perform(SetSilentTaint{.right = silence_,
                           .operations = operations_to_set(node, mark, OwnTaint::Silent)});
  }

  void lift(const kube::Node& node) {
    if (node.silent_mark.empty()) {
      end(End::NotNeeded);
      return;
    }
    if (!owner_.is_heard(name_, said_ready_since(node, node.silent_mark))) {
      end(End::NotHeard);
      return;
    }
    lift_->node_uid = node.uid;
    lift_->why = owner_.answers(name_) ? "its machine answers" : "its kubelet has said Ready since";
    lift_->hold = authority_->reading.hold;
    lift_->read = authority_->reading.sent;
    lift_->leadership = &around_.in_force.leadership;
    perform(LiftTaints{
        .right = lift_, .operations = operations_to_lift_silent(node), .of_silence = true});
  }

  void perform(Action action) {
    around_.actions.perform(std::move(action), authority_, alive_,
                            [this](const ActionOutcome& outcome) { end(end_of(outcome.reason)); });
  }

  static End end_of(Reason reason) {
    switch (reason) {
      case Reason::Done:
        return End::Done;
      case Reason::OnHold:
        return End::Held;
      case Reason::NodeChanged:
      case Reason::ReadingTooOld:
        return End::Raced;
      default:
        return End::Failed;
    }
  }

  // We may be inside our own constructor.
  void end(End end) {
    around_.access.loop.defer(
        [&owner = owner_, name = name_, end, alive = std::weak_ptr<const void>(alive_)] {
          if (!alive.expired()) {
            owner.ended(name, end);
          }
        });
  }

  SilentTaints& owner_;
  IncidentContext& around_;
  const NodeName name_;
  const Uid uid_;  // by the watch: of the node whose machine is known to be silent, or heard
  const Act act_;
  const std::shared_ptr<Authority> authority_ = std::make_shared<Authority>();
  const std::shared_ptr<Silence> silence_ = std::make_shared<Silence>();
  const std::shared_ptr<Lift> lift_ = std::make_shared<Lift>();
  kube::CallHandle call_;
  std::shared_ptr<const void> alive_ = std::make_shared<int>(0);
};

bool SilentTaints::Turns::is_due(const NodeName& node, Moment now) const {
  const auto turn = turns_.find(node);
  return turn == turns_.end() || now >= turn->second.at;
}

void SilentTaints::Turns::put_off(const NodeName& node, Moment now, Duration pause) {
  turns_.insert_or_assign(node, Turn{.at = now + pause});
}

void SilentTaints::Turns::put_off_longer(const NodeName& node, Moment now, Duration longest) {
  Turn& turn = turns_[node];
  turn.pause = std::clamp(2 * turn.pause, kPause, longest);
  turn.at = now + turn.pause;
}

void SilentTaints::Turns::forget(Moment now) {
  std::erase_if(turns_, [now](const auto& entry) {
    return now >= entry.second.at + entry.second.pause + kPause;
  });
}

SilentTaints::SilentTaints(IncidentContext surroundings, bool on, WatchedNodes nodes)
    : around_(std::move(surroundings)), on_(on), nodes_(std::move(nodes)) {}
SilentTaints::~SilentTaints() = default;

void SilentTaints::saw(const cluster::NodeView& node) {
  const bool is_marked = !node.silent_mark.empty() && node.readiness != cluster::Readiness::Gone;
  if (!is_marked || !node.hold) {
    held_.erase(node.name);
  }
  if (is_marked) {
    marked_.insert(node.name);
    set_timer();
  } else {
    marked_.erase(node.name);
  }
}

void SilentTaints::lead() {
  leads_ = true;
  set_timer();
}

void SilentTaints::step_down() {
  leads_ = false;
  timer_.cancel();
  works_.clear();
  to_set_.clear();
  to_lift_.clear();
}

// In the quiet nothing is looked at unless machines are watched for it.
void SilentTaints::set_timer() {
  if (leads_ && !timer_.pending() && (watches() || !marked_.empty())) {
    timer_ = around_.access.loop.after(kEvery, [this] { poll(); });
  }
}

void SilentTaints::poll() {
  to_set_.forget(around_.access.loop.now());
  to_lift_.forget(around_.access.loop.now());
  relieve_the_heard();
  if (watches()) {
    taint_the_silent();
  }
  set_timer();
}

void SilentTaints::relieve_the_heard() {
  for (const NodeName& name : marked_) {
    const cluster::NodeView* node = nodes_.find(name);
    if (node != nullptr && !works_.contains(name) &&
        to_lift_.is_due(name, around_.access.loop.now()) && !held_.contains(name) &&
        is_heard(name, node->readiness == cluster::Readiness::True)) {
      begin(*node, Act::Lift);
    }
  }
}

bool SilentTaints::answers(const NodeName& node) const {
  const cluster::Kernels* kernels = around_.in_force.kernels;
  return kernels != nullptr && kernels->kernel_of(node) == Kernel::Answers;
}

bool SilentTaints::is_heard(const NodeName& node, bool ready) const {
  const cluster::Kernels* kernels = around_.in_force.kernels;
  const Kernel kernel = kernels != nullptr ? kernels->kernel_of(node) : Kernel::NotObservable;
  return kernel == Kernel::Answers || (kernel == Kernel::NotObservable && ready);
}

void SilentTaints::taint_the_silent() {
  const std::vector<NodeName> silent = around_.in_force.kernels->silent();
  std::size_t places = silent.empty() ? 0 : free_places();
  std::set<NodeName> withheld;
  for (const NodeName& name : silent) {
    const cluster::NodeView* node = nodes_.find(name);
    if (node == nullptr || node->readiness == cluster::Readiness::Gone ||
        node->keeps_replacements_off || node->hold || marked_.contains(name) ||
        works_.contains(name) || !around_.in_force.kernels->is_confirmed(name)) {
      continue;
    }
    if (places == 0) {
      withheld.insert(name);
    } else if (to_set_.is_due(name, around_.access.loop.now())) {
      --places;
      begin(*node, Act::Set);
    }
  }
  tell_withheld(std::move(withheld));
}

// What Kubernetes itself has given up meanwhile takes no place.
std::size_t SilentTaints::free_places() {
  const Moment now = around_.access.loop.now();
  while (!set_at_.empty() && now - set_at_.front() >= std::chrono::hours(1)) {
    set_at_.pop_front();
  }
  const auto under_way = static_cast<std::size_t>(
      std::count_if(works_.begin(), works_.end(), [this](const auto& entry) {
        return entry.second->act() == Act::Set && !marked_.contains(entry.first);
      }));
  const auto kept_free = static_cast<std::size_t>(
      std::count_if(marked_.begin(), marked_.end(), [this](const NodeName& name) {
        const cluster::NodeView* node = nodes_.find(name);
        return node != nullptr && !node->keeps_replacements_off;
      }));
  const auto rest = [under_way](std::size_t limit, std::size_t taken) {
    return limit - std::min(limit, taken + under_way);
  };
  return std::min(rest(std::max<std::size_t>(1, nodes_.count() / 100), kept_free),
                  rest(kInAnHour, set_at_.size()));
}

void SilentTaints::tell_withheld(std::set<NodeName> withheld) {
  for (const NodeName& name : withheld) {
    if (!withheld_.contains(name)) {
      around_.output.log.warning(
          "silent_taint_withheld",
          {{"node", name.text()},
           {"rule", "at most one node or 1 % of them at a time, and ten in an hour"}});
    }
  }
  withheld_ = std::move(withheld);
}

void SilentTaints::begin(const cluster::NodeView& node, Act act) {
  works_.emplace(node.name, std::make_unique<Work>(*this, node, act));
}

void SilentTaints::ended(const NodeName& node, End end) {
  const auto work = works_.extract(node);  // it ends when we return
  work.mapped()->act() == Act::Set ? ended_setting(node, end) : ended_lifting(node, end);
}

void SilentTaints::ended_setting(const NodeName& node, End end) {
  const Moment now = around_.access.loop.now();
  if (end == End::Done) {
    marked_.insert(node);
  }
  if (end == End::Failed || end == End::Held || end == End::NotNeeded) {
    to_set_.put_off_longer(node, now, kLongestToSet);
  } else {
    to_set_.put_off(node, now, end == End::Raced ? kAfterARace : kShown);
  }
}

void SilentTaints::ended_lifting(const NodeName& node, End end) {
  const Moment now = around_.access.loop.now();
  if (end == End::Done || end == End::NotNeeded) {
    marked_.erase(node);
  } else if (end == End::Held) {
    held_.insert(node);
  } else if (end == End::Failed) {
    to_lift_.put_off_longer(node, now, kLongestToLift);
  } else {
    to_lift_.put_off(node, now, kAfterARace);
  }
}

}  // namespace moonfence::fence
