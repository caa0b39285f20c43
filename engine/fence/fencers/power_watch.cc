#include "fence/fencers/power_watch.h"

#include <algorithm>
#include <utility>

namespace moonfence::fence {

using policy::Power;

namespace {

// Nobody has looked at it for so long: it is up, or gone.
constexpr Duration kForgotten = std::chrono::minutes(10);
// Between two readings in a row of a machine that is looked at, at most.
constexpr Duration kTwice = std::chrono::seconds(45);

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

void PowerWatch::order_begins(const NodeName& node, const PowerOrder& order) {
  if (const auto found = machines_.find(node); found != machines_.end()) {
    found->second.ordered = LastOrder{.at = around_.loop.now(), .order = order};
  }
}

void PowerWatch::order_ended(const NodeName& node, const PowerOrder& order, bool may_have_arrived) {
  const auto found = machines_.find(node);
  // Another incident of the node may have given another order meanwhile.
  if (found == machines_.end() || !found->second.ordered || found->second.ordered->order != order) {
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
  const PowerQuestion::Word& word = question.words().back();
  const policy::FencerAct act = question.last().act_on(word.state.power);
  if (act == policy::FencerAct::None) {
    return std::nullopt;
  }
  if (machine.off && around_.loop.now() - *machine.off < kSwitchedOn) {
    told +=
        "; somebody has switched it on, and it is left alone for " + format_duration(kSwitchedOn);
    return std::nullopt;
  }
  const bool was_so = machine.reading && machine.reading->fencer == word.fencer &&
                      question.last().act_on(machine.reading->state.power) == act &&
                      question.began() - machine.reading->asked < kTwice;
  if (act == policy::FencerAct::Isolate && !was_so) {
    // Whoever is asked before it may have failed once, or be switching it off.
    told += "; it is isolated when that is so twice in a row";
    return std::nullopt;
  }
  told += word.cannot.empty() ? "" : "; " + word.cannot;
  return word.order;
}

void PowerWatch::ended(const PowerQuestion& question) {
  constexpr std::size_t kLongestTold = 1024;
  const NodeName node = question.node().name;
  Machine& machine = machines_.at(node);
  const std::string& fencer = question.words().back().fencer;
  const policy::PowerState& said = question.words().back().state;
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
