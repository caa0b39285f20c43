#include "fence/fencers/power_watch.h"

#include <algorithm>
#include <utility>

namespace moonfence::fence {

using policy::FencerAct;
using policy::Power;
using policy::PowerState;

namespace {

// Nobody has looked at it for so long: it is up, or gone.
constexpr Duration kForgotten = std::chrono::minutes(10);

// What is so when it has been done. What is isolated already stays so.
PowerState aim_of(FencerAct act, const PowerState& said, std::set<std::string> drivers) {
  if (act == FencerAct::SwitchOff) {
    return {.power = Power::Off};
  }
  drivers.insert(said.drivers.begin(), said.drivers.end());
  return {.power = Power::Isolated, .drivers = std::move(drivers)};
}

}  // namespace

PowerWatch::PowerWatch(const Surroundings& surroundings, std::vector<BoundFencer> fencers)
    : around_(surroundings), fencers_(std::move(fencers)) {}

PowerWatch::~PowerWatch() = default;

bool PowerWatch::may_act() const {
  return std::any_of(fencers_.begin(), fencers_.end(),
                     [](const BoundFencer& each) { return each.may_act; });
}

void PowerWatch::look_at(const kube::Node& node) {
  const Moment now = around_.loop.now();
  std::erase_if(machines_, [now](const auto& each) {
    return each.second.question == nullptr && now - each.second.looked_at > kForgotten;
  });
  Machine& machine = machines_[node.name];
  if (machine.node != node.uid) {  // what was read is another machine's, perhaps
    end(machine);
    machine = Machine{.node = node.uid};
  }
  machine.looked_at = now;
  if (machine.about && machine.about->boot_id != node.boot_id) {
    machine.off.reset();  // its kubelet has spoken since: that it is silent now is another outage
  }
  machine.about = node;
  if (machine.question == nullptr && (!machine.asked || now - *machine.asked >= kEvery)) {
    machine.due = node;
  }
  give_turns();
}

void PowerWatch::order_begins(const NodeName& node, const policy::Request& request) {
  if (const auto found = machines_.find(node); found != machines_.end()) {
    found->second.ordered = LastOrder{.at = around_.loop.now(), .request = request};
  }
}

void PowerWatch::order_ended(const NodeName& node, bool may_have_arrived) {
  const auto found = machines_.find(node);
  if (found == machines_.end() || !found->second.ordered) {
    return;
  }
  if (!may_have_arrived) {
    found->second.ordered.reset();
    return;
  }
  found->second.ordered->at = around_.loop.now();
  read_after_order(node, 0);
}

// A question that is under way may have been answered before the order; the next one was not.
void PowerWatch::read_after_order(const NodeName& node, std::size_t step) {
  if (step == kAfterOrder.size()) {
    return;
  }
  const Duration pause = kAfterOrder.at(step) - (step == 0 ? Duration{} : kAfterOrder.at(step - 1));
  machines_.at(node).after_order = around_.loop.after(pause, [this, node, step] {
    Machine& machine = machines_.at(node);
    if (machine.question == nullptr) {
      machine.due = machine.about;
      give_turns();
    }
    read_after_order(node, step + 1);
  });
}

std::optional<LastOrder> PowerWatch::last_order(const NodeName& node) const {
  const auto found = machines_.find(node);
  return found == machines_.end() ? std::nullopt : found->second.ordered;
}

void PowerWatch::give_turns() {
  while (under_way() < kAtOnce) {
    Machine* first = nullptr;
    for (auto& [name, machine] : machines_) {
      if (machine.due && (first == nullptr || machine.asked < first->asked)) {
        first = &machine;
      }
    }
    if (first == nullptr) {
      return;
    }
    ask(*first, *std::exchange(first->due, std::nullopt));
  }
}

void PowerWatch::ask(Machine& machine, kube::Node node) {
  std::vector<const BoundFencer*> whom = fencers_of(node, fencers_);
  machine.asked = around_.loop.now();
  if (whom.empty()) {
    return;
  }
  machine.question = std::make_shared<PowerQuestion>(
      PowerQuestion::Surroundings{.loop = around_.loop,
                                  .reader = around_.reader,
                                  .allowed_reads = around_.allowed_reads,
                                  .endpoints = around_.endpoints},
      std::move(node), std::move(whom), PowerQuestion::Until::FirstAnswer,
      [this](const PowerQuestion& question) { ended(question); });
}

// Whose answers say that it is on, or served, have just shown whose machine it is.
std::optional<PowerOrder> PowerWatch::order_of(const Machine& machine,
                                               const PowerQuestion& question,
                                               std::string& told) const {
  const BoundFencer& by = question.last();
  const PowerState& said = question.words().back().state;
  const FencerAct act = by.act_on(said.power);
  if (act == FencerAct::None) {
    return std::nullopt;
  }
  if (act == FencerAct::SwitchOff && machine.off &&
      around_.loop.now() - *machine.off < kSwitchedOn) {
    told += "; somebody has switched it on, and it is left on for " + format_duration(kSwitchedOn);
    return std::nullopt;
  }
  auto run = by.fencer->order(question.node(), question.answers());
  std::string why_not = run.result ? run.result->why_not : run.result.error().message();
  if (run.result && run.result->request) {
    const std::string kind = run.result->request->written_kind();
    if (!kind.empty() &&
        (around_.allowed_writes == nullptr || !around_.allowed_writes->contains(kind))) {
      why_not = kind + " is not among allowedWrites of the engine's configuration";
    }
  }
  if (!why_not.empty()) {
    // Of one that is isolated: there is nothing more to refuse.
    told += said.power == Power::Isolated ? ""
            : act == FencerAct::Isolate   ? "; it cannot be isolated: " + why_not
                                          : "; it cannot be switched off: " + why_not;
    return std::nullopt;
  }
  return PowerOrder{.request = *std::move(run.result->request),
                    .aim = aim_of(act, said, std::move(run.result->drivers))};
}

void PowerWatch::ended(const PowerQuestion& question) {
  constexpr std::size_t kLongestTold = 1024;
  const NodeName node = question.node().name;
  Machine& machine = machines_.at(node);
  const auto& [fencer, said] = question.words().back();
  std::string told = question.told();
  auto order = order_of(machine, question, told);
  const bool is_news = !machine.reading || machine.reading->state.power != said.power ||
                       machine.reading->state.drivers != said.drivers ||
                       machine.reading->fencer != fencer || machine.reading->order != order;
  if (is_news) {
    around_.log.info("power_read", {{"node", node.text()}, {"text", told}});
  }
  machine.told = told.substr(0, kLongestTold);
  // A slow one may have answered when its last word had just grown too old.
  const bool was_known = !is_news && reading_of(node, machine.node);
  if (said.power == Power::Off) {
    machine.off = around_.loop.now();
    machine.after_order.cancel();
  }
  const bool may_be_acted_by =
      said.power == Power::Off || said.power == Power::Isolated || order.has_value();
  machine.reading = PowerReading{.state = said,
                                 .fencer = fencer,
                                 .node = machine.node,
                                 .asked = question.began(),
                                 .order = std::move(order)};
  end(machine);
  if (may_be_acted_by && !was_known) {
    around_.found(node);
  }
  give_turns();
}

void PowerWatch::end(Machine& machine) {
  if (machine.question != nullptr) {
    PowerQuestion::leave(around_.loop, std::exchange(machine.question, nullptr));
  }
}

std::size_t PowerWatch::under_way() const {
  return static_cast<std::size_t>(
      std::count_if(machines_.begin(), machines_.end(),
                    [](const auto& each) { return each.second.question != nullptr; }));
}

std::optional<PowerReading> PowerWatch::reading_of(const NodeName& node, const Uid& uid) const {
  const auto found = machines_.find(node);
  if (found == machines_.end() || !found->second.reading || found->second.reading->node != uid ||
      around_.loop.live_now() - found->second.reading->asked > kLifetime) {
    return std::nullopt;
  }
  return found->second.reading;
}

std::string PowerWatch::told_of(const NodeName& node) const {
  const auto found = machines_.find(node);
  if (found == machines_.end() || found->second.told.empty()) {
    return {};
  }
  const Duration age = around_.loop.now() - found->second.reading->asked;
  return found->second.told +
         (age > kLifetime ? " (" + format_duration(std::chrono::floor<std::chrono::seconds>(age)) +
                                " ago, too old to count)"
                          : "");
}

}  // namespace moonfence::fence
