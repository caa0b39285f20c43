#include "fence/fencers/fencer_check.h"

#include <algorithm>

#include "cluster/nodes/ready_condition.h"

namespace moonfence::fence {
namespace {

constexpr std::size_t kLongestWhy = 512;
constexpr int kMostDoublings = 6;

}  // namespace

FencerCheck::FencerCheck(Surroundings surroundings, const std::vector<BoundFencer>& fencers)
    : around_(std::move(surroundings)), fencers_(fencers) {}

FencerCheck::~FencerCheck() = default;

void FencerCheck::lead() {
  if (!leads_) {
    leads_ = true;
    turn();
  }
}

// Whoever leads next finds out by itself.
void FencerCheck::step_down() {
  leads_ = false;
  timer_.cancel();
  looked_.reset();
  for (auto& [name, machine] : machines_) {
    leave(machine);
  }
  machines_.clear();
  told_ = {};
}

void FencerCheck::turn() {
  const Moment now = around_.loop.now();
  if (!looked_ || now - *looked_ >= kLook) {
    look(now);
  }
  const Moment next = std::min(begin_next(now), *looked_ + kLook);
  timer_ = around_.loop.after(next - now, [this] { turn(); });
}

// What was found out about a node that is gone, or made anew, is another machine's, perhaps.
void FencerCheck::look(Moment now) {
  looked_ = now;
  around_.each_node([this, now](const cluster::NodeView& node) {
    const bool is_ready = node.readiness == cluster::Readiness::True;
    const auto known = machines_.find(node.name);
    if (known != machines_.end() && known->second.uid == node.uid) {
      known->second.is_ready = is_ready;
      known->second.seen = now;
    } else if (is_ready) {
      Machine& machine = machines_[node.name];
      leave(machine);
      machine = Machine{.uid = node.uid, .seen = now, .due = now + kFirst};
    }
  });
  for (auto each = machines_.begin(); each != machines_.end();) {
    if (each->second.seen == now) {
      ++each;
    } else {
      leave(each->second);
      each = machines_.erase(each);
    }
  }
  tell();
}

// The one that is due for longest.
Moment FencerCheck::begin_next(Moment now) {
  if (under_way() >= kAtOnce) {
    return now + kPause;
  }
  auto first = machines_.end();
  for (auto each = machines_.begin(); each != machines_.end(); ++each) {
    const Machine& machine = each->second;
    if (machine.is_ready && !machine.is_asked() &&
        (first == machines_.end() || machine.due < first->second.due)) {
      first = each;
    }
  }
  if (first == machines_.end()) {
    return Moment::max();
  }
  if (first->second.due > now) {
    return std::max(first->second.due, now + kPause);
  }
  read(first->first, first->second);
  return now + kPause;
}

// The watch keeps neither its labels nor what fencers may look at.
void FencerCheck::read(const NodeName& name, Machine& machine) {
  machine.reading =
      around_.reader.get_node(name, [this, &name, &machine](const Result<kube::Node>& node) {
        machine.reading.reset();
        ask(name, machine, node);
      });
}

void FencerCheck::ask(const NodeName& name, Machine& machine, const Result<kube::Node>& node) {
  if (!node || node->uid != machine.uid ||
      cluster::readiness_of(*node) != cluster::Readiness::True) {
    machine.due = around_.loop.now() + kAgain;  // that is no fault of its fencers
    return;
  }
  auto whom = fencers_of(*node, fencers_);
  if (whom.empty()) {
    settle(name, machine, FencerState::None, {});
    return;
  }
  machine.question = std::make_shared<PowerQuestion>(
      PowerQuestion::Surroundings{.loop = around_.loop,
                                  .reader = around_.reader,
                                  .allowed_reads = around_.allowed_reads,
                                  .endpoints = around_.endpoints},
      *node, std::move(whom), PowerQuestion::Until::All,
      [this, &name, &machine](const PowerQuestion& question) {
        const std::string why = faults_of(question.words(), /*is_ready=*/true);
        PowerQuestion::leave(around_.loop, std::exchange(machine.question, nullptr));
        settle(name, machine, why.empty() ? FencerState::Works : FencerState::Broken,
               why.substr(0, kLongestWhy));
      });
}

void FencerCheck::settle(const NodeName& name, Machine& machine, FencerState found,
                         std::string why) {
  const bool failed = found == FencerState::Broken;
  machine.failures = failed ? machine.failures + 1 : 0;
  // Ever less often: a password that is refused again and again locks its account.
  const Duration again = kAgain * (1 << std::clamp(machine.failures - 1, 0, kMostDoublings));
  machine.due = around_.loop.now() + (failed ? std::min<Duration>(again, kEvery) : kEvery);
  machine.why = std::move(why);
  if (machine.state == found || (failed && machine.failures < kFailures)) {
    return;
  }
  const bool was_broken = machine.state == FencerState::Broken;
  machine.state = found;
  if (failed) {
    machine.since = around_.now();
    around_.log.warning("fencer_broken", {{"node", name.text()}, {"text", machine.why}});
    tell();
    around_.broke({.node = name, .uid = machine.uid, .why = machine.why, .since = machine.since});
  } else if (was_broken) {
    around_.log.info("fencer_mended", {{"node", name.text()}, {"state", to_string(found)}});
    tell();
  }
}

void FencerCheck::leave(Machine& machine) {
  machine.reading.reset();
  if (machine.question != nullptr) {
    PowerQuestion::leave(around_.loop, std::exchange(machine.question, nullptr));
  }
}

std::size_t FencerCheck::under_way() const {
  return static_cast<std::size_t>(std::count_if(
      machines_.begin(), machines_.end(), [](const auto& each) { return each.second.is_asked(); }));
}

void FencerCheck::tell() {
  told_ = {};
  for (const auto& [name, machine] : machines_) {
    if (!machine.state || !machine.is_ready) {
      continue;  // one that is down nobody tests
    }
    told_.counts.add(*machine.state);
    if (*machine.state != FencerState::Broken) {
      continue;
    }
    if (told_.broken.size() < kMostTold) {
      told_.broken.push_back(
          {.node = name, .uid = machine.uid, .why = machine.why, .since = machine.since});
    } else {
      ++told_.broken_cut;
    }
  }
}

}  // namespace moonfence::fence
