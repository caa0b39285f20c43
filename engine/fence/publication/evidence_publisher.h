#pragma once

// EvidencePublisher writes what is proven of nodes to their Node objects
// (fence/publication/published_evidence), and takes it off when the kubelet or the machine is heard
// again: the former with `publishEvidence: on` and while some binding enforces, the latter always,
// since another leader may have left it.
//
// It only tells. One node at a time is read and patched, on the lane of the lists and without
// counting for what is known of the API server: nothing waits for it, and a webhook that refuses or
// hangs here stops no deletion. Only the replica that acts writes. In the quiet nothing is sent.

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "cluster/detection/kernel.h"
#include "cluster/nodes/node_view.h"
#include "fence/leadership/leadership.h"
#include "fence/publication/published_evidence.h"
#include "fence/rules/evidence_listener.h"
#include "kube/wire/caller.h"
#include "loop/loop.h"
#include "policy/bundle/policy_set.h"
#include "port/log.h"

namespace moonfence::fence {

class EvidencePublisher final : public EvidenceListener {
 public:
  // Between two looks at whether machines answer.
  static constexpr Duration kEvery = std::chrono::seconds(1);
  static constexpr Duration kAfterARace = std::chrono::seconds(1);
  // So many in a row are no race: a webhook may refuse with any code.
  static constexpr int kConflicts = 3;
  // What failed, or was not over yet, is tried again after this, then after twice as long.
  static constexpr Duration kPause = std::chrono::seconds(5);
  static constexpr Duration kLongest = std::chrono::minutes(5);
  static constexpr Duration kTimeout = std::chrono::seconds(10);
  // How long after a node was looked at its fencers' first answer is of the same look.
  static constexpr Duration kLook = std::chrono::seconds(30);

  // It stands there now.
  struct News {
    NodeName node;
    Uid uid;
    IncidentId incident;
    std::string text;
  };
  struct Surroundings {
    loop::Loop& loop;
    kube::Caller& caller;
    port::Log& log;
    const Leadership& leadership;
    const policy::ActiveSet& active;
    const Protections& protections;
    const cluster::Kernels* kernels = nullptr;  // null: nobody watches the machines
    std::function<WallTime()> now;              // by the API server's clock
    std::function<void(const News&)> published;
  };

  // All must outlive it. It does nothing before lead().
  EvidencePublisher(Surroundings surroundings, bool on);
  EvidencePublisher(const EvidencePublisher&) = delete;
  EvidencePublisher& operator=(const EvidencePublisher&) = delete;
  ~EvidencePublisher() override = default;

  void looked_at(ReadNode read) override;
  // A fencer has said something new of its machine, after the node was looked at.
  void power_read(const NodeName& name);
  // As the watch shows it.
  void saw(const cluster::NodeView& node);
  void lead();
  void step_down();

  // Why the last write failed; "" when it did not.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  // What is to become of what stands there. While that is the same the pauses grow, and what was
  // refused is not tried again, whatever else of the node changes.
  struct Aim {
    std::string mark;
    bool is_over = false;
    bool is_heard = false;
    friend bool operator==(const Aim&, const Aim&) = default;
  };
  struct Entry {
    Uid uid = {};
    bool is_marked = false;                   // by the watch, or by what we did a moment ago
    bool may_be_over = false;                 // something speaks for it: it is looked at
    bool is_heard = false;                    // by its Lease: it is over
    std::string mark = {};                    // what stands there, by the watch
    std::optional<Aim> tried = std::nullopt;  // what the last try is for, as it began
    bool is_refused = false;                  // the same try would be refused again
    int conflicts = 0;                        // in a row
    std::optional<PublishedEvidence> wanted = std::nullopt;
    Moment due{};      // max: it is being tried
    Duration pause{};  // zero: the last try did what it was to do
  };
  using Entries = std::map<NodeName, Entry>;
  struct Look {
    ReadNode read;
    Moment at{};
  };

  void consider(const ReadNode& read);
  void forget_looks();
  [[nodiscard]] bool may_publish(const kube::Node& node) const;
  [[nodiscard]] bool answers(const NodeName& node) const;
  void next_soon();
  void next();
  void heed_the_heard();
  void begin(const NodeName& name, Entry& entry);
  void read(const NodeName& name);
  void arrived(const NodeName& name, const Result<kube::ApiReply>& reply);
  void patch(const NodeName& name, const kube::Node& node, EvidenceChange change);
  void written(const NodeName& name, const EvidenceChange& change,
               const std::optional<PublishedEvidence>& wanted);
  void nothing_to_do(const NodeName& name);
  void failed(const NodeName& name, const Error& error);
  void put_off(Entry& entry);
  [[nodiscard]] Aim aim_of(const NodeName& name, const Entry& entry) const;
  void hurry(const NodeName& name, Entry& entry, Moment due) const;
  void done();

  const Surroundings around_;
  const bool on_;
  Entries nodes_;
  std::map<NodeName, Look> looks_;  // the newest
  bool leads_ = false;
  std::string problem_;
  std::string told_;  // what kind of problem, by the log
  loop::Timer timer_;
  loop::Timer soon_;
  loop::Timer forget_;
  kube::CallHandle call_;
};

}  // namespace moonfence::fence
