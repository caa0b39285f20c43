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

LostNodes::LostNodes(const Surroundings& surroundings, Duration after, std::string key, Tell tell)
    : around_(surroundings),
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
  looked_.clear();
  proven_.clear();
}

void LostNodes::poll() {
  next_poll_ = around_.loop.after(kEvery, [this] { poll(); });
  if (around_.powers != nullptr) {
    ask_fencers();
  }
  if (asking_) {
    return;
  }
  if (!wants_leases()) {
    look();  // those that were lost may be heard again
    return;
  }
  asking_ = true;
  asked_ = around_.loop.now();
  around_.leases.ask(alive_, [this](const Result<void>& outcome) {
    asking_ = false;
    if (outcome) {
      look();
    }
  });
}

bool LostNodes::wants_leases() const {
  const Moment now = around_.loop.now();
  const std::vector<NodeName> silent = around_.kernels.silent();
  return std::any_of(silent.begin(), silent.end(), [&](const NodeName& node) {
    const auto since = around_.kernels.silent_since(node);
    const bool failed = source_health_.health(node) == NodeHealth::Failed;
    if (!since || now - *since < after_ ||
        (failed && (around_.powers == nullptr || is_off(node)))) {
      return false;
    }
    if (failed) {
      return !asked_ || now - *asked_ >= kSeldom;
    }
    const bool is_fresh = now - *since < after_ + std::chrono::minutes(1);
    return is_fresh || !asked_ || now - *asked_ >= kSeldom;
  });
}

// Once one has called it off its incident has them asked.
void LostNodes::ask_fencers() {
  const Moment now = around_.loop.now();
  std::map<NodeName, Looked> before = std::exchange(looked_, {});
  std::vector<std::pair<std::optional<Moment>, NodeName>> due;  // who was looked at longest ago
  std::size_t under_way = 0;
  for (const NodeName& node : around_.kernels.silent()) {
    const auto since = around_.kernels.silent_since(node);
    if (!since) {
      continue;
    }
    const auto known = before.extract(node);
    Looked& looked = looked_[node];
    if (known) {
      looked = std::move(known.mapped());
    }
    const Duration pause = now - *since < std::chrono::minutes(1) ? kLookEvery : kSeldom;
    if (looked.call) {
      ++under_way;
    } else if (!is_off(node) && (!looked.at || now - *looked.at >= pause)) {
      due.emplace_back(looked.at, node);
    }
  }
  std::sort(due.begin(), due.end());
  for (std::size_t i = 0; i < due.size() && under_way + i < kLooksAtOnce; ++i) {
    look_at(due[i].second);
  }
  policy::NodeStates off;
  for (const auto& [node, looked] : looked_) {
    if (is_off(node)) {
      off.emplace(node, NodeHealth::Failed);
    }
  }
  if (!off.empty()) {
    take(off);
  }
}

void LostNodes::look_at(const NodeName& node) {
  Looked& looked = looked_.at(node);
  looked.at = around_.loop.now();
  looked.call = around_.reader.get_node(node, [this, node](const Result<kube::Node>& read) {
    Looked& about = looked_.at(node);
    const kube::CallHandle ended = std::move(about.call);
    if (read) {
      about.uid = read->uid;
      around_.powers->look_at(*read);
    }
  });
}

bool LostNodes::is_off(const NodeName& node) const {
  const auto looked = looked_.find(node);
  const auto since = around_.kernels.silent_since(node);
  if (around_.powers == nullptr || looked == looked_.end() || !since) {
    return false;
  }
  const auto reading = around_.powers->reading_of(node, looked->second.uid);
  return reading && reading->state.power == policy::Power::Off && reading->asked >= *since;
}

void LostNodes::look() {
  policy::NodeStates states;
  for (const NodeName& node : source_health_.failed()) {
    states.emplace(node, stays_failed(node) ? NodeHealth::Failed : health_of(node));
  }
  for (const NodeName& node : around_.kernels.silent()) {
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
  if (around_.kernels.kernel_of(node) == Kernel::Answers) {
    return NodeHealth::Healthy;
  }
  return is_off(node) || is_lost(node) ? NodeHealth::Failed : NodeHealth::Unknown;
}

// Whose controller is silent for a while has not come back by it.
bool LostNodes::stays_failed(const NodeName& node) {
  if (around_.powers == nullptr || around_.kernels.kernel_of(node) != Kernel::Silent) {
    proven_.erase(node);
    return false;
  }
  const Moment now = around_.loop.now();
  if (is_off(node) || is_lost(node)) {
    proven_[node] = now;
  }
  const auto proven = proven_.find(node);
  return proven != proven_.end() && now - proven->second < kStays;
}

bool LostNodes::is_lost(const NodeName& node) const {
  const auto since = around_.kernels.silent_since(node);
  return since && around_.loop.now() - *since >= after_ && around_.leases.is_alone_overdue(node);
}

void LostNodes::take(const policy::NodeStates& states) {
  const std::vector<SourceHealth::News> news = source_health_.read(states, around_.loop.now());
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
  if (is_off(node)) {
    around_.loop.defer([alive = std::weak_ptr<const void>(question->alive), done = std::move(done),
                        asked = around_.loop.now()] {
      if (!alive.expired()) {
        done(Word{.health = NodeHealth::Failed, .asked = asked});
      }
    });
    return question;
  }
  around_.leases.ask(question->alive, [this, node, done = std::move(done),
                                       asked = around_.loop.now()](const Result<void>& outcome) {
    if (outcome) {
      done(Word{.health = health_of(node), .asked = asked, .lost = is_lost(node)});
    } else {
      done(failure(outcome.error()));
    }
  });
  return question;
}

}  // namespace moonfence::fence
