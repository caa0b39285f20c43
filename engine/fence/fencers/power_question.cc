#include "fence/fencers/power_question.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace moonfence::fence {

using policy::FencerAct;
using policy::Power;
using policy::PowerState;

namespace {

bool is_answer(const PowerState& said) {
  return said.power != Power::Unknown && said.power != Power::Failed;
}

// What is so when it has been done. What is isolated already stays so.
PowerState aim_of(FencerAct act, const PowerState& said, std::set<std::string> drivers) {
  if (act == FencerAct::SwitchOff) {
    return {.power = Power::Off};
  }
  drivers.insert(said.drivers.begin(), said.drivers.end());
  return {.power = Power::Isolated, .drivers = std::move(drivers)};
}

// Of those asked before, who says on; "" nobody. Whoever says off then contradicts it.
std::string who_says_on(const std::vector<PowerQuestion::Word>& words) {
  const auto found = std::find_if(words.begin(), words.end(),
                                  [](const auto& word) { return word.state.power == Power::On; });
  return found == words.end() ? std::string() : found->fencer;
}

}  // namespace

FencerAct BoundFencer::act_on(Power power) const {
  const FencerAct act = may_act ? fencer->act() : FencerAct::None;
  const bool fits = act == FencerAct::SwitchOff
                        ? power == Power::On
                        : power == Power::Served || power == Power::Isolated;
  return fits ? act : FencerAct::None;
}

std::vector<const BoundFencer*> fencers_of(const kube::Node& node,
                                           const std::vector<BoundFencer>& fencers) {
  std::vector<const BoundFencer*> whom;
  for (const BoundFencer& bound : fencers) {
    if (bound.nodes.matches(node.labels)) {
      whom.push_back(&bound);
    }
  }
  return whom;
}

PowerQuestion::PowerQuestion(const Surroundings& surroundings, kube::Node of,
                             std::vector<const BoundFencer*> whom, Until until, Done done)
    : around_(surroundings),
      node_(std::move(of)),
      fencers_(std::move(whom)),
      until_(until),
      done_(std::move(done)) {
  MOONFENCE_CHECK(!fencers_.empty());
  ask();
}

void PowerQuestion::leave(loop::Loop& loop, std::shared_ptr<PowerQuestion> question) {
  question->waits_ = false;
  question->turn_.cancel();
  question->limit_.cancel();
  loop.defer([dead = std::move(question)] { (void)dead; });
}

std::string PowerQuestion::told() const {
  std::string text;
  for (const Word& word : words_) {
    text += (text.empty() ? "" : "; ") + word.fencer + ": " +
            std::string(to_string(word.state.power)) + ", " + word.state.why;
  }
  return text;
}

void PowerQuestion::ask() {
  began_ = around_.loop.now();
  waits_ = true;
  policy_fetch_.reset();
  lookups_ = std::make_unique<Lookups>(around_.reader);
  endpoint_lookups_ = std::make_unique<EndpointLookups>(around_.endpoints, kAnswer);
  policy_fetch_ =
      std::make_unique<PolicyFetch>(*lookups_, around_.allowed_reads, *endpoint_lookups_);
  limit_ = around_.loop.after(kLimit, [this] {
    heard({.power = Power::Unknown, .why = "no answer within " + format_duration(kLimit)});
  });
  // Not in this turn: an answer may come at once, and whoever asks is still at work.
  turn_ = around_.loop.in_next_turn([this] {
    policy_fetch_->ask(
        [this](const nlohmann::json& got) { return last().fencer->plan_power(node_, got); },
        [this](const Fetched& fetched) { take(fetched); });
  });
}

void PowerQuestion::take(const Fetched& fetched) {
  if (!fetched.missing.empty()) {
    heard({.power = Power::Unknown, .why = fetched.missing});
    return;
  }
  auto run = last().fencer->power_of(node_, fetched.answers);
  if (fetched.answers.empty()) {
    // Why, in its own words; nothing else that it says is heard.
    const bool says_why = run.result && !is_answer(*run.result);
    heard({.power = Power::Failed,
           .why = "it has asked nobody" + (says_why ? ": " + run.result->why : "")});
    return;
  }
  answers_ = fetched.answers;
  heard(run.result ? *std::move(run.result)
                   : PowerState{.power = Power::Unknown, .why = run.result.error().message()});
}

PowerQuestion::Word PowerQuestion::word_of(PowerState said) const {
  Word word = {.fencer = last().fencer->name(), .state = std::move(said)};
  const FencerAct act = last().act_on(word.state.power);
  if (act == FencerAct::None) {
    return word;
  }
  auto run = last().fencer->order(node_, answers_);
  std::string why_not = run.result ? run.result->why_not : run.result.error().message();
  if (run.result && run.result->request) {
    const std::string kind = run.result->request->written_kind();
    if (!kind.empty() && !last().may_write.contains(kind)) {
      why_not = kind + " is not among allowedWrites of the engine's configuration";
    } else {
      word.order = PowerOrder{.request = *std::move(run.result->request),
                              .aim = aim_of(act, word.state, std::move(run.result->drivers))};
      return word;
    }
  } else if (run.result && word.state.power == Power::Isolated) {
    return word;  // there is nothing more that could refuse it
  }
  word.cannot =
      (act == FencerAct::Isolate ? "it cannot be isolated: " : "it cannot be switched off: ") +
      why_not;
  return word;
}

void PowerQuestion::heard(PowerState said) {
  if (!waits_) {
    return;  // too late, or nobody wants to know any more
  }
  waits_ = false;
  limit_.cancel();
  if (said.power == Power::Isolated && !isolated_) {
    isolated_ = std::move(said.drivers);
    turn_ = around_.loop.after(kPause, [this] { ask(); });
    return;
  }
  if (said.power == Power::Isolated && said.drivers != isolated_) {
    said = {.power = Power::Unknown, .why = said.why + "; but of other drivers than just before"};
  }
  isolated_.reset();
  if (const std::string other = who_says_on(words_); said.power == Power::Off && !other.empty()) {
    said = {.power = Power::Unknown, .why = "off, " + said.why + "; but " + other + " says on"};
  }
  // One that is on and may not be switched off here may be isolated by another.
  const bool ends = said.power == Power::Off || said.power == Power::Isolated ||
                    last().act_on(said.power) != FencerAct::None;
  words_.push_back(word_of(std::move(said)));
  if (at_ + 1 < fencers_.size() && (until_ == Until::All || !ends)) {
    // It is up the stack: the next one gets its own in a turn to come.
    turn_ = around_.loop.in_next_turn([this] {
      ++at_;
      ask();
    });
    return;
  }
  done_(*this);
}

}  // namespace moonfence::fence
