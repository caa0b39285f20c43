#include "fence/sources/lost_nodes.h"

#include <algorithm>
#include <utility>

namespace moonfence::fence {

using cluster::Kernel;
using policy::NodeHealth;

namespace {

// What it says is its newest word: nothing of it grows old.
constexpr Duration kForEver = std::chrono::hours(24 * 365);

// Destroyed, it is not alive any more for whoever reads the Leases.
struct Taken final : HealthSource::Question {
  std::shared_ptr<const void> alive = std::make_shared<int>(0);
};

}  // namespace

LostNodes::LostNodes(loop::Loop& loop, const cluster::Kernels& kernels, PeerLeaseReader& leases,
                     Duration after, std::string key, Tell tell)
    : loop_(loop),
      kernels_(kernels),
      leases_(leases),
      after_(after),
      key_(std::move(key)),
      tell_(std::move(tell)),
      source_health_(kForEver) {}

void LostNodes::start() {
  stop();
  alive_ = std::make_shared<int>(0);
  poll();
}

void LostNodes::stop() {
  next_poll_.cancel();
  alive_.reset();
  asking_ = false;
  source_health_ = SourceHealth(kForEver);
  untold_.clear();
}

void LostNodes::poll() {
  next_poll_ = loop_.after(kEvery, [this] { poll(); });
  if (asking_) {
    return;
  }
  if (!wants_leases()) {
    look();  // those that were lost may be heard again
    return;
  }
  asking_ = true;
  asked_ = loop_.now();
  leases_.ask(alive_, [this](const Result<void>& outcome) {
    asking_ = false;
    if (outcome) {
      look();
    }
  });
}

bool LostNodes::wants_leases() const {
  const Moment now = loop_.now();
  const std::vector<NodeName> silent = kernels_.silent();
  return std::any_of(silent.begin(), silent.end(), [&](const NodeName& node) {
    const auto since = kernels_.silent_since(node);
    if (!since || now - *since < after_ || source_health_.health(node) == NodeHealth::Failed) {
      return false;
    }
    const bool is_fresh = now - *since < after_ + std::chrono::minutes(1);
    return is_fresh || !asked_ || now - *asked_ >= kSeldom;
  });
}

void LostNodes::look() {
  policy::NodeStates states;
  for (const NodeName& node : source_health_.failed()) {
    states.emplace(node, health_of(node));
  }
  for (const NodeName& node : kernels_.silent()) {
    if (health_of(node) == NodeHealth::Failed) {
      states.emplace(node, NodeHealth::Failed);
    }
  }
  take(states);
}

NodeHealth LostNodes::health_of(const NodeName& node) const {
  if (supposed_failed_.contains(node)) {
    return NodeHealth::Failed;
  }
  if (kernels_.kernel_of(node) == Kernel::Answers) {
    return NodeHealth::Healthy;
  }
  const auto since = kernels_.silent_since(node);
  const bool lost = since && loop_.now() - *since >= after_ && leases_.is_alone_overdue(node);
  return lost ? NodeHealth::Failed : NodeHealth::Unknown;
}

void LostNodes::take(const policy::NodeStates& states) {
  const std::vector<SourceHealth::News> news = source_health_.read(states, loop_.now());
  tell_again();
  for (const SourceHealth::News& item : news) {
    if (!tell_(item) && item.health == NodeHealth::Failed) {
      untold_.insert_or_assign(item.node, item.change);
    }
  }
}

void LostNodes::tell_again() {
  for (const auto& [node, change] : std::exchange(untold_, {})) {
    if (source_health_.health(node) == NodeHealth::Failed &&
        !tell_({.node = node, .health = NodeHealth::Failed, .change = change})) {
      untold_.insert_or_assign(node, change);
    }
  }
}

void LostNodes::suppose_failed(const NodeName& node) {
  supposed_failed_.insert(node);
  take({{node, NodeHealth::Failed}});
}

std::unique_ptr<HealthSource::Question> LostNodes::ask(const NodeName& node, Done done) {
  auto question = std::make_unique<Taken>();
  leases_.ask(question->alive, [this, node, done = std::move(done),
                                asked = loop_.now()](const Result<void>& outcome) {
    if (outcome) {
      done(Word{.health = health_of(node), .asked = asked});
    } else {
      done(failure(outcome.error()));
    }
  });
  return question;
}

}  // namespace moonfence::fence
