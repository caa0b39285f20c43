#pragma once

// Detection keeps a link to the kubelet's port of every node, and asks those machines again and
// again that have lost it; what that comes to decides KernelWatch. No credentials are sent, and
// nothing is asked of the API server. In the quiet the kernels alone are at work: we wake up to
// open a link anew, once in half an hour to an hour, so that an address that went to another
// machine, or a firewall that forgot us, is not taken for the node for ever.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/names.h"
#include "cluster/detection/kernel.h"
#include "cluster/detection/kernel_watch.h"
#include "cluster/detection/silences.h"
#include "cluster/nodes/node_view.h"
#include "loop/loop.h"
#include "port/links.h"
#include "port/random.h"

namespace moonfence::cluster {

// Part of the engine's own configuration.
struct DetectionRules {
  bool on = false;

  friend bool operator==(const DetectionRules&, const DetectionRules&) = default;
};

class Detection final : public Kernels {
 public:
  // More than so many that do not answer speak for a fault of our own: a fifth of those that were
  // heard once, of a hundred and more two in a hundred, but in any case one, or two.
  [[nodiscard]] static constexpr std::size_t most_quiet(std::size_t heard) {
    constexpr std::size_t kMany = 100;
    return heard < kMany ? std::max<std::size_t>(1, heard / 5)
                         : std::max<std::size_t>(2, heard / 50);
  }
  // A burst of questions is spread over the time, whatever asks for it.
  static constexpr std::size_t kAtOnce = 32;
  static constexpr Duration kThen = std::chrono::milliseconds(10);
  // By which our own loop may be late before what it has not heard counts for nothing.
  static constexpr Duration kLate = std::chrono::milliseconds(300);
  static constexpr Duration kCall = std::chrono::seconds(3);
  static constexpr Duration kReopened = std::chrono::minutes(30);  // up to twice that

  // A machine fell silent, or was heard again after it had.
  struct News {
    NodeName node;
    bool is_silent = false;
    Duration quiet{};  // for how long nothing was heard of it
  };
  using Tell = std::function<void(const News&)>;
  // What is known of a node's machine has changed; null: the node is forgotten.
  using Changed = std::function<void(const NodeName&, const KernelWatch*)>;

  // All must outlive it.
  Detection(loop::Loop& loop, port::Links& links, port::Random& random, Tell tell);
  ~Detection() override;
  Detection(const Detection&) = delete;
  Detection& operator=(const Detection&) = delete;

  // A node is new, or has changed; one that is Gone is forgotten.
  void saw(const NodeView& node);

  [[nodiscard]] Kernel kernel_of(const NodeName& node) const override;
  [[nodiscard]] std::optional<Moment> last_sign(const NodeName& node) const override;
  [[nodiscard]] std::optional<Moment> heard_at(const NodeName& node) const override;
  [[nodiscard]] std::vector<NodeName> silent() const override;
  [[nodiscard]] bool is_confirmed(const NodeName& /*node*/) const override { return false; }
  [[nodiscard]] std::optional<Moment> silent_since(const NodeName& node) const override;
  // Every watched machine, with for how long it was not heard; nullopt: it never was.
  void each(const std::function<void(const NodeName&, std::optional<Duration> quiet)>& see) const;
  // Those that have left unanswered what they were asked, with since when; and those of which we
  // know nothing, with Moment{}.
  [[nodiscard]] std::vector<std::pair<Moment, NodeName>> quiet() const;
  // Nothing speaks for a fault of our own, and nothing has in the last seconds.
  [[nodiscard]] bool is_well() const;
  // From now on.
  void tell_changes(Changed changed) { changed_ = std::move(changed); }
  // A call to the API server failed, or took longer than `kCall`.
  void call_failed() { call_failed_at_ = loop_.now(); }

  struct Counts {
    std::size_t answers = 0;
    std::size_t unsure = 0;
    std::size_t silent = 0;
    std::size_t not_observable = 0;

    [[nodiscard]] std::size_t total() const { return answers + unsure + silent + not_observable; }
  };
  [[nodiscard]] Counts counts() const;
  [[nodiscard]] const Silences::Lasted& silences() { return silences_.lasted(loop_.now()); }

 private:
  class Conversation;
  struct Watched {
    KernelWatch watch;
    std::vector<port::Peer> peers;
    std::size_t next_peer = 0;
    std::string boot_id;
    bool told_silent = false;
    Moment due{};
    std::unique_ptr<Conversation> link;  // that is open
    std::vector<std::unique_ptr<Conversation>> questions;

    [[nodiscard]] Kernel word(Moment now) const {
      return peers.empty() ? Kernel::NotObservable : watch.word(now);
    }
    // It does not answer, and has not for long.
    [[nodiscard]] bool is_newly_quiet(Moment now) const;
  };
  using ByName = std::map<NodeName, Watched>;

  // While something speaks for a fault of our own, one that fell silent a moment ago may not be.
  [[nodiscard]] Kernel word_of(const Watched& node) const;
  void ask_what_is_due();
  void ask(const NodeName& name, Watched& node);
  // The conversation is on the stack; what it is told may destroy it, and nothing comes after.
  void opened(Conversation& conversation);
  void ended(Conversation& conversation, port::LinkEnd end);
  // So many that it speaks for a fault of our own. Counted once in a turn.
  [[nodiscard]] bool are_many_quiet() const;
  // After something was heard of it, or not. `quiet`: since when it was quiet before that.
  void tell_of(const NodeName& name, Watched& node, std::optional<Moment> quiet);
  // In place of when it was due until now.
  void make_due(const NodeName& name, Watched& node, Moment due);
  void schedule();
  void set_timer(Moment due);

  loop::Loop& loop_;
  port::Links& links_;
  port::Random& random_;
  const Tell tell_;
  Changed changed_ = [](const NodeName& /*node*/, const KernelWatch* /*watch*/) {};
  Silences silences_;
  ByName nodes_;
  std::set<std::pair<Moment, NodeName>> due_;
  loop::Timer timer_;
  Moment timer_due_{};
  std::optional<Moment> call_failed_at_;
  mutable std::optional<Moment> counted_at_;
  mutable std::optional<Moment> many_quiet_at_;  // last
};

}  // namespace moonfence::cluster
