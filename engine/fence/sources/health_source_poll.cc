#include "fence/sources/health_source_poll.h"

#include <utility>

#include "fence/rules/reading.h"

namespace moonfence::fence {

using policy::NodeHealth;

// One incident's question.
struct HealthSourcePoll::Asked {
  NodeName node;
  Done done;  // null: answered, or taken back
  loop::Timer deadline;

  void answer(const Result<Word>& word) {
    deadline.cancel();
    if (const Done told = std::exchange(done, nullptr)) {
      told(word);
    }
  }
};

class HealthSourcePoll::Handle final : public Question {
 public:
  explicit Handle(std::shared_ptr<Asked> asked) : asked_(std::move(asked)) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() override {
    asked_->deadline.cancel();
    asked_->done = nullptr;
  }

 private:
  std::shared_ptr<Asked> asked_;
};

// One reading of the source. What it reads is read once in it, and never reused.
struct HealthSourcePoll::Run {
  explicit Run(const Surroundings& around)
      : began(around.loop.now()),
        lookups(around.reader),
        endpoint_lookups(around.endpoints),
        policy_fetch(lookups, around.allowed_reads, endpoint_lookups) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const Moment began;
  bool is_poll = false;
  std::vector<std::shared_ptr<Asked>> asked;
  Lookups lookups;
  EndpointLookups endpoint_lookups;
  PolicyFetch policy_fetch;
  loop::Timer start;
};

HealthSourcePoll::HealthSourcePoll(const Surroundings& surroundings,
                                   std::shared_ptr<const policy::Policy> policy, std::string key,
                                   Tell tell)
    : around_(surroundings),
      policy_(std::move(policy)),
      key_(std::move(key)),
      tell_(std::move(tell)),
      source_health_(policy_->health_source()->expiry) {}

HealthSourcePoll::~HealthSourcePoll() = default;

void HealthSourcePoll::start() {
  stop();
  running_ = true;
  poll();
}

void HealthSourcePoll::stop() {
  running_ = false;
  next_poll_.cancel();
  source_health_ = SourceHealth(policy_->health_source()->expiry);
  untold_.clear();
  fault_.clear();
  failing_since_.reset();
  // What was asked before says nothing to whoever leads next.
  around_.loop.defer([dead = std::make_shared<decltype(runs_)>(std::move(runs_))] { (void)dead; });
  runs_.clear();
}

void HealthSourcePoll::poll() {
  next_poll_ = around_.loop.after(policy_->health_source()->every, [this] { poll(); });
  for (const auto& run : runs_) {
    if (run->is_poll) {
      return;  // it takes longer than it should
    }
  }
  begin().is_poll = true;
}

HealthSourcePoll::Run& HealthSourcePoll::begin() {
  Run& run = *runs_.emplace_back(std::make_unique<Run>(around_));
  // Not in this turn: whoever asks in it too shares the answer.
  run.start = around_.loop.in_next_turn([this, &run] { set_out(run); });
  return run;
}

std::unique_ptr<HealthSource::Question> HealthSourcePoll::ask(const NodeName& node, Done done) {
  auto asked = std::make_shared<Asked>();
  asked->node = node;
  asked->done = std::move(done);
  asked->deadline = around_.loop.after(around_.leadership.limits().reading, [asked = asked.get()] {
    asked->answer(failure(Error::Kind::Retryable, "the health source took too long"));
  });
  const bool share = !runs_.empty() && runs_.back()->began == around_.loop.now();
  Run& run = share ? *runs_.back() : begin();
  run.asked.push_back(asked);
  return std::make_unique<Handle>(std::move(asked));
}

void HealthSourcePoll::set_out(Run& run) {
  run.policy_fetch.ask([policy = policy_](const auto& got) { return policy->plan_source(got); },
                       [this, &run](const Fetched& fetched) { answered(run, fetched); });
}

void HealthSourcePoll::answered(Run& run, const Fetched& fetched) {
  if (!fetched.missing.empty()) {
    take(run, failure(Error::Kind::Retryable, fetched.missing));
    return;
  }
  take(run, policy_->nodes_of_source(fetched.answers).result);
}

void HealthSourcePoll::suppose_failed(const NodeName& node) {
  supposed_failed_.insert(node);
  for (const SourceHealth::News& item :
       source_health_.read({{node, NodeHealth::Failed}}, around_.loop.now())) {
    tell(item);
  }
}

void HealthSourcePoll::take(Run& run, Result<policy::NodeStates> states) {
  for (const NodeName& node : supposed_failed_) {
    if (states) {
      states->insert_or_assign(node, NodeHealth::Failed);
    }
  }
  // It may be further up the stack: it dies at the end of the turn.
  for (auto mine = runs_.begin(); mine != runs_.end(); ++mine) {
    if (mine->get() == &run) {
      around_.loop.defer([dead = std::shared_ptr<Run>(std::move(*mine))] { (void)dead; });
      runs_.erase(mine);
      break;
    }
  }
  if (!states) {
    note_fault(states.error().message());
  } else if (running_) {
    note(*states, run.began);
  }
  const auto questions = std::exchange(run.asked, {});
  for (const auto& each : questions) {
    if (!states) {
      each->answer(failure(Error(states.error())));
      continue;
    }
    const auto found = states->find(each->node);
    if (found == states->end()) {
      each->answer(failure(Error::Kind::NotFound, "the health source does not name the node"));
    } else {
      each->answer(Word{.health = found->second, .asked = run.began});
    }
  }
}

void HealthSourcePoll::note(const policy::NodeStates& states, Moment began) {
  note_fault({});
  if (began < noted_) {
    return;  // overtaken by one that began later
  }
  noted_ = began;
  const std::vector<SourceHealth::News> news = source_health_.read(states, around_.loop.now());
  tell_again();
  for (const SourceHealth::News& item : news) {
    tell(item);
  }
}

void HealthSourcePoll::tell_again() {
  for (const auto& [node, change] : std::exchange(untold_, {})) {
    if (source_health_.health(node) == NodeHealth::Failed) {
      tell({.node = node, .health = NodeHealth::Failed, .change = change});
    }
  }
}

void HealthSourcePoll::tell(const SourceHealth::News& news) {
  if (!tell_(news) && news.health == NodeHealth::Failed) {
    untold_.insert_or_assign(news.node, news.change);
  }
}

std::string HealthSourcePoll::lasting_fault() const {
  const Moment now = around_.loop.now();
  return now - failing_since_.value_or(now) >= SourceState::kPatience ? fault_ : std::string();
}

void HealthSourcePoll::note_fault(const std::string& fault) {
  failing_since_ =
      fault.empty() ? std::nullopt : std::optional(failing_since_.value_or(around_.loop.now()));
  if (fault == fault_) {
    return;
  }
  if (fault.empty()) {
    around_.log.info("health_source_recovered", {{"policy", policy_->name()}});
  } else {
    around_.log.warning("health_source_unreadable",
                        {{"policy", policy_->name()}, {"error", fault}});
  }
  fault_ = fault;
}

}  // namespace moonfence::fence
