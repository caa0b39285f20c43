#include "cluster/detection/detection.h"

#include <algorithm>

namespace moonfence::cluster {

// One link, from the attempt to open it to its end.
class Detection::Conversation final : public port::LinkSink {
 public:
  Conversation(Detection& detection, const NodeName& name)
      : node(name), asked(detection.loop_.now()), detection_(detection) {}

  void begin(const port::Peer& peer) {
    link_ = detection_.links_.open(peer, KernelWatch::kProbeLimit, *this);
  }
  void on_open() override { detection_.opened(*this); }
  void on_end(port::LinkEnd end) override { detection_.ended(*this, end); }

  const NodeName node;
  const Moment asked;

 private:
  Detection& detection_;
  std::unique_ptr<port::Link> link_;
};

Detection::Detection(loop::Loop& loop, port::Links& links, port::Random& random, Tell tell)
    : loop_(loop), links_(links), random_(random), tell_(std::move(tell)) {}

Detection::~Detection() = default;

void Detection::saw(const NodeView& node) {
  const auto found = nodes_.find(node.name);
  if (node.readiness == Readiness::Gone) {
    if (found != nodes_.end()) {
      due_.erase({found->second.due, node.name});
      nodes_.erase(found);
      silences_.forget(node.name);
      changed_(node.name, nullptr);
      schedule();
    }
    return;
  }
  silences_.saw(node.name, node.boot_id);
  std::vector<port::Peer> peers;
  for (const std::string& address : node.kubelet.addresses) {
    peers.push_back({.address = address, .port = node.kubelet.port});
  }
  if (found != nodes_.end() && found->second.peers == peers) {
    found->second.boot_id = node.boot_id;
    return;
  }
  Watched& watched = nodes_[node.name];
  due_.erase({watched.due, node.name});
  watched = {};
  watched.peers = std::move(peers);
  watched.boot_id = node.boot_id;
  if (!watched.peers.empty()) {
    watched.watch.begin(loop_.now());
    make_due(node.name, watched, loop_.now());
  }
  changed_(node.name, watched.peers.empty() ? nullptr : &watched.watch);
  schedule();
}

bool Detection::Watched::is_newly_quiet(Moment now) const {
  const std::optional<Moment> heard = watch.heard();
  return heard && now - *heard < KernelWatch::kUnsureFor &&
         (watch.quiet_since() || word(now) != Kernel::Answers);
}

Kernel Detection::word_of(const Watched& node) const {
  const Moment now = loop_.now();
  const Kernel word = node.word(now);
  return word == Kernel::Silent && node.is_newly_quiet(now) && !is_well() ? Kernel::Unsure : word;
}

Kernel Detection::kernel_of(const NodeName& node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? Kernel::NotObservable : word_of(found->second);
}

std::optional<Moment> Detection::last_sign(const NodeName& node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() || !found->second.watch.quiet_since() ? std::nullopt
                                                                     : found->second.watch.heard();
}

std::optional<Moment> Detection::heard_at(const NodeName& node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? std::nullopt : found->second.watch.heard();
}

std::vector<NodeName> Detection::silent() const {
  std::vector<NodeName> names;
  for (const auto& [name, node] : nodes_) {
    if (word_of(node) == Kernel::Silent) {
      names.push_back(name);
    }
  }
  return names;
}

std::optional<Moment> Detection::silent_since(const NodeName& node) const {
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || found->second.word(loop_.now()) != Kernel::Silent ||
      are_many_quiet()) {
    return std::nullopt;
  }
  const Moment heard = *found->second.watch.heard();
  return std::max({heard, call_failed_at_.value_or(heard), many_quiet_at_.value_or(heard)});
}

void Detection::each(
    const std::function<void(const NodeName&, std::optional<Duration> quiet)>& see) const {
  for (const auto& [name, node] : nodes_) {
    const std::optional<Moment> heard = node.watch.heard();
    see(name, heard ? std::optional(loop_.now() - *heard) : std::nullopt);
  }
}

std::vector<std::pair<Moment, NodeName>> Detection::quiet() const {
  std::vector<std::pair<Moment, NodeName>> quiet;
  for (const auto& [name, node] : nodes_) {
    if (!node.watch.heard() || node.word(loop_.now()) == Kernel::NotObservable) {
      quiet.emplace_back(Moment{}, name);
    } else if (const auto since = node.watch.quiet_since()) {
      quiet.emplace_back(*since, name);
    }
  }
  return quiet;
}

// When it is over, a machine is silent only by what it has not answered since: of several that can
// be heard again one is the first.
bool Detection::is_well() const {
  const auto is_recent = [this](std::optional<Moment> at) {
    return at && loop_.now() - *at < KernelWatch::kSilentAfter;
  };
  return !are_many_quiet() && !is_recent(many_quiet_at_) && !is_recent(call_failed_at_);
}

// One that fell silent long ago says nothing about us now.
bool Detection::are_many_quiet() const {
  const Moment now = loop_.now();
  if (counted_at_ == now) {
    return many_quiet_at_ == now;
  }
  counted_at_ = now;
  std::size_t quiet = 0;
  std::size_t once_heard = 0;
  for (const auto& [name, node] : nodes_) {
    once_heard += node.watch.heard() ? 1U : 0U;
    quiet += node.is_newly_quiet(now) ? 1U : 0U;
  }
  if (quiet > most_quiet(once_heard)) {
    many_quiet_at_ = now;
  }
  return many_quiet_at_ == now;
}

Detection::Counts Detection::counts() const {
  Counts counts;
  for (const auto& [name, node] : nodes_) {
    switch (word_of(node)) {
      case Kernel::Answers:
        ++counts.answers;
        break;
      case Kernel::Unsure:
        ++counts.unsure;
        break;
      case Kernel::Silent:
        ++counts.silent;
        break;
      case Kernel::NotObservable:
        ++counts.not_observable;
        break;
    }
  }
  return counts;
}

void Detection::tell_of(const NodeName& name, Watched& node, std::optional<Moment> quiet) {
  const Moment now = loop_.now();
  const bool is_heard = !node.watch.quiet_since();
  if (quiet && is_heard) {
    silences_.ended(name, node.boot_id, now - *quiet, now);
  }
  const bool is_silent = word_of(node) == Kernel::Silent;
  if (node.told_silent ? is_heard : is_silent) {
    node.told_silent = is_silent;
    tell_({.node = name,
           .is_silent = is_silent,
           .quiet = now - quiet.value_or(node.watch.quiet_since().value_or(now))});
  }
}

void Detection::make_due(const NodeName& name, Watched& node, Moment due) {
  due_.erase({node.due, name});
  node.due = due;
  due_.emplace(due, name);
}

void Detection::set_timer(Moment due) {
  timer_due_ = due;
  timer_ = loop_.after(std::max(due - loop_.now(), Duration(1)), [this] { ask_what_is_due(); });
}

void Detection::schedule() {
  if (due_.empty()) {
    timer_.cancel();
    return;
  }
  // One that is due in a moment, or late already, stays: bursts are spread by it, and lateness is
  // told by it.
  if (!timer_.pending() || (due_.begin()->first < timer_due_ && timer_due_ > loop_.now() + kThen)) {
    set_timer(std::max(due_.begin()->first, loop_.now()));
  }
}

void Detection::ask_what_is_due() {
  const Moment now = loop_.now();
  if (now - timer_due_ > kLate) {
    for (auto& [name, node] : nodes_) {
      node.watch.begin_anew(now);
      changed_(name, &node.watch);
    }
  }
  std::size_t asked = 0;
  while (!due_.empty() && due_.begin()->first <= now && asked < kAtOnce) {
    const NodeName name = due_.begin()->second;
    ask(name, nodes_.at(name));
    ++asked;
  }
  if (asked == kAtOnce) {
    set_timer(now + kThen);
  } else {
    schedule();
  }
}

void Detection::ask(const NodeName& name, Watched& node) {
  const port::Peer& peer = node.peers[node.next_peer++ % node.peers.size()];
  node.questions.push_back(std::make_unique<Conversation>(*this, name));
  node.questions.back()->begin(peer);
  const Duration pause = node.watch.is_linked() ? kReopened : node.watch.pause(loop_.now());
  make_due(name, node, loop_.now() + pause);
}

void Detection::opened(Conversation& conversation) {
  Watched& node = nodes_.at(conversation.node);
  const auto found =
      std::find_if(node.questions.begin(), node.questions.end(),
                   [&](const auto& question) { return question.get() == &conversation; });
  node.link = std::move(*found);
  node.questions.clear();  // the others have nothing to add
  const auto quiet = node.watch.quiet_since();
  node.watch.opened(loop_.now());
  changed_(conversation.node, &node.watch);
  tell_of(conversation.node, node, quiet);
  const auto jitter = Duration(static_cast<Duration::rep>(
      random_.unit() * static_cast<double>(Duration(kReopened).count())));
  make_due(conversation.node, node, loop_.now() + kReopened + jitter);
  schedule();
}

void Detection::ended(Conversation& conversation, port::LinkEnd end) {
  const NodeName name = conversation.node;
  Watched& node = nodes_.at(name);
  if (node.link.get() == &conversation) {
    node.link.reset();
    node.watch.link_ended(end, loop_.now());
    changed_(name, &node.watch);
    // Whoever accepts and closes at once is not asked again at once.
    const bool closed = end == port::LinkEnd::Closed;
    make_due(name, node, loop_.now() + (closed ? KernelWatch::kProbeEvery : Duration::zero()));
  } else {
    const Moment asked = conversation.asked;
    std::erase_if(node.questions,
                  [&](const auto& question) { return question.get() == &conversation; });
    const bool was_proven = node.watch.word(loop_.now()) == Kernel::Silent;
    const auto quiet = node.watch.quiet_since();
    node.watch.answered(end, asked, loop_.now());
    changed_(name, &node.watch);
    tell_of(name, node, quiet);
    // One that has answered until now, for want of a kubelet, is asked in earnest from now on.
    if (!node.watch.is_linked() && !was_proven) {
      make_due(name, node, std::min(node.due, loop_.now() + node.watch.pause(loop_.now())));
    }
  }
  schedule();
}

}  // namespace moonfence::cluster
