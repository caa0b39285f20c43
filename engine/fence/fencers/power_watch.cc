#include "fence/fencers/power_watch.h"

#include <algorithm>
#include <utility>

#include "fence/read/endpoint_lookups.h"
#include "fence/read/lookups.h"
#include "fence/read/policy_fetch.h"

namespace moonfence::fence {

using policy::Power;
using policy::PowerState;

namespace {

// Nobody has looked at it for so long: it is up, or gone.
constexpr Duration kForgotten = std::chrono::minutes(10);

std::string words_of(const std::string& fencer, const PowerState& state) {
  return fencer + ": " + std::string(to_string(state.power)) + ", " + state.why;
}

}  // namespace

// One machine while it is asked about. What a fencer reads is read once for it, and never reused.
struct PowerWatch::Question {
  Question(const Surroundings& surroundings, kube::Node of, std::vector<const BoundFencer*> whom)
      : node(std::move(of)), fencers(std::move(whom)), around(surroundings) {
    next();
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  // For the fencer that comes now.
  void next() {
    began = around.loop.now();
    policy_fetch.reset();
    lookups = std::make_unique<Lookups>(around.reader);
    endpoint_lookups = std::make_unique<EndpointLookups>(around.endpoints);
    policy_fetch = std::make_unique<PolicyFetch>(*lookups, around.allowed_reads, *endpoint_lookups);
  }
  [[nodiscard]] const policy::Policy& fencer() const { return *fencers.at(at)->fencer; }
  [[nodiscard]] bool may_switch_off() const { return fencers.at(at)->switches_off; }

  kube::Node node;
  std::vector<const BoundFencer*> fencers;
  const Surroundings& around;
  std::size_t at = 0;
  Moment began{};
  std::string told;        // of those that were asked
  nlohmann::json answers;  // to the fencer that was asked last
  std::unique_ptr<Lookups> lookups;
  std::unique_ptr<EndpointLookups> endpoint_lookups;
  std::unique_ptr<PolicyFetch> policy_fetch;
  loop::Timer turn;
  loop::Timer limit;
};

PowerWatch::PowerWatch(const Surroundings& surroundings, std::vector<BoundFencer> fencers)
    : around_(surroundings), fencers_(std::move(fencers)) {}

PowerWatch::~PowerWatch() = default;

bool PowerWatch::may_switch_off() const {
  return std::any_of(fencers_.begin(), fencers_.end(),
                     [](const BoundFencer& each) { return each.switches_off; });
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
  if (machine.question == nullptr && (!machine.asked || now - *machine.asked >= kEvery)) {
    machine.due = node;
  }
  give_turns();
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
  std::vector<const BoundFencer*> whom;
  for (const BoundFencer& bound : fencers_) {
    if (bound.nodes.matches(node.labels)) {
      whom.push_back(&bound);
    }
  }
  machine.asked = around_.loop.now();
  if (whom.empty()) {
    return;
  }
  machine.question = std::make_shared<Question>(around_, std::move(node), std::move(whom));
  ask_next(*machine.question);
}

// Not in this turn: an answer may come at once, and whoever looks is still reading.
void PowerWatch::ask_next(Question& question) {
  question.limit = around_.loop.after(kLimit, [this, &question] {
    ended(question,
          {.power = Power::Unknown, .why = "no answer within " + format_duration(kLimit)});
  });
  question.turn = around_.loop.in_next_turn([this, &question] {
    question.policy_fetch->ask(
        [&question](const nlohmann::json& got) {
          return question.fencer().plan_power(question.node, got);
        },
        [this, &question](const Fetched& fetched) {
          if (!fetched.missing.empty()) {
            ended(question, {.power = Power::Unknown, .why = fetched.missing});
          } else if (fetched.answers.empty()) {
            ended(question, {.power = Power::Failed, .why = "it has asked nobody"});
          } else {
            question.answers = fetched.answers;
            auto run = question.fencer().power_of(question.node, fetched.answers);
            ended(question, run.result ? *std::move(run.result)
                                       : PowerState{.power = Power::Unknown,
                                                    .why = run.result.error().message()});
          }
        });
  });
}

// Null: the node is another one by now, and nobody waits for it any more.
PowerWatch::Machine* PowerWatch::machine_of(const Question& question) {
  const auto found = machines_.find(question.node.name);
  return found != machines_.end() && found->second.question.get() == &question ? &found->second
                                                                               : nullptr;
}

// Whose answers say that it is on have just shown whose machine it is.
std::optional<policy::Request> PowerWatch::order_of(Question& question,
                                                    const PowerState& said) const {
  if (said.power != Power::On || !question.may_switch_off()) {
    return std::nullopt;
  }
  auto run = question.fencer().order_off(question.node, question.answers);
  if (!run.result || !run.result->request) {
    question.told += "; it cannot be switched off: " +
                     (run.result ? run.result->why_not : run.result.error().message());
    return std::nullopt;
  }
  return std::move(run.result->request);
}

void PowerWatch::ended(Question& question, PowerState said) {
  constexpr std::size_t kLongestTold = 1024;
  Machine* const machine = machine_of(question);
  if (machine == nullptr) {
    return;
  }
  const std::string fencer = question.fencer().name();
  question.limit.cancel();
  question.told += (question.told.empty() ? "" : "; ") + words_of(fencer, said);
  const bool is_answer = said.power == Power::On || said.power == Power::Off;
  if (!is_answer && question.at + 1 < question.fencers.size()) {
    // It is up the stack: the next one gets its own in a turn to come.
    question.turn = around_.loop.in_next_turn([this, &question] {
      ++question.at;
      question.next();
      ask_next(question);
    });
    return;
  }
  const NodeName node = question.node.name;
  auto off = order_of(question, said);
  const bool is_news = !machine->reading || machine->reading->state.power != said.power ||
                       machine->reading->fencer != fencer;
  if (is_news) {
    around_.log.info("power_read", {{"node", question.node.name.text()}, {"text", question.told}});
  }
  machine->told = question.told.substr(0, kLongestTold);
  // A slow one may have answered when its last word had just grown too old.
  const bool was_known = !is_news && reading_of(node, machine->node);
  const bool may_be_acted_by = said.power == Power::Off || off;
  machine->reading = PowerReading{.state = std::move(said),
                                  .fencer = fencer,
                                  .node = machine->node,
                                  .asked = question.began,
                                  .off = std::move(off)};
  end(*machine);
  if (may_be_acted_by && !was_known) {
    around_.found(node);
  }
  give_turns();
}

// It is up the stack: it dies at the end of the turn.
void PowerWatch::end(Machine& machine) {
  if (machine.question == nullptr) {
    return;
  }
  machine.question->turn.cancel();
  machine.question->limit.cancel();
  around_.loop.defer([dead = std::move(machine.question)] { (void)dead; });
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
