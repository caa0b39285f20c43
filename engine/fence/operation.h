#pragma once

// Operation is one pass over a failed node, written to be read from top to bottom: read the node
// and its Lease live and list its pods side by side, gather what the policies need to know beside
// that (fence/gathering), ask them about each pod, hand the deletions to GuardedActions a bounded
// number at a time, then those of volume attachments (fence/detaching), sum up. The incident
// decides whether a pass starts, goes on and is repeated. The policies are those that were in force
// when it began; what they decided is carried out only if it still is in force then.
//
// A node whose Ready is Unknown may be the first of many: the Leases of all nodes are read beside
// it, once a pass (fence/roll_call).
//
// Time: what the first slice decides is written into the incident's record in the turn in which the
// latest of the node, its Lease, the roll and the first list (fence/pod_lists) arrived, and leaves
// when it stands there (fence/journal); what is decided meanwhile, and pods of later lists, goes
// into one more write. Each pod is decoded once. Evaluation goes in slices of at most kPodsPerTurn
// pods and about kSliceTime, so
// that neither a node with hundreds of pods nor a slow script holds up the loop. When the node's
// reading grows older than kReadingLifetime in the middle of a long pass, deletions pause until a
// fresh one has arrived: once per incident and second, not per call.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "fence/actions.h"
#include "fence/detaching.h"
#include "fence/gathering.h"
#include "fence/guard.h"
#include "fence/incident.h"
#include "fence/inquiry.h"
#include "fence/pod_lists.h"
#include "fence/releasing.h"
#include "fence/surroundings.h"
#include "kube/reader.h"
#include "loop/loop.h"

namespace moonfence::fence {

class Operation {
 public:
  static constexpr std::size_t kPodsPerTurn = 32;
  static constexpr Duration kSliceTime = std::chrono::milliseconds(20);
  // Measured on 400 pods against a real API server: docs/performance.md. Leaves room on the lane
  // for live reads.
  static constexpr std::size_t kParallelDeletes = 64;
  // How often in a pass a deletion whose reading grew old on the way to the wire is tried again. On
  // a path where that happens every time it must end: each attempt writes two records.
  static constexpr int kLateAttempts = 3;
  // How often in a pass our taint is tried to be set.
  static constexpr int kTaintAttempts = 3;
  // How old the lists may be by which a volume is known to have no other user. The node's taint
  // keeps new pods off, but for those that tolerate it.
  static constexpr Duration kListLifetime = std::chrono::seconds(5);

  class Owner {
   public:
    virtual ~Owner() = default;
    // The node was read (and, the first time, pods were listed); nullopt: it could not be. The
    // owner answers by act(), by doing nothing (when act() was called before), or by destroying the
    // operation.
    virtual void reading_arrived(const std::optional<Reading>& reading) = 0;
    // The last call. The operation may be destroyed inside it.
    virtual void pass_ended(const PassResult& result) = 0;
  };

  // All references must outlive the operation.
  Operation(Surroundings& surroundings, Occasion occasion, std::shared_ptr<Authority> authority,
            Memory& memory, Owner& owner);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  void start();
  void act();
  // Starts nothing more and calls nobody back; what has left is still recorded.
  void retire();

 private:
  // Volumes to be released at once, by their attachments.
  using Portion = std::vector<std::string>;
  struct Waiting {
    std::variant<PodDeletion, AttachmentDeletion, Portion> deletion;
    int late = 0;  // how often its reading grew old on the way
  };
  // A pod with all that its policies need to know.
  struct Known {
    kube::Pod pod;
    Gathered gathered;
  };
  void call_roll();
  void read_node();
  void node_arrived(Result<kube::Node> node, Moment sent);
  void lease_arrived(Result<kube::Lease> lease);
  [[nodiscard]] bool awaits_lease(const kube::Node& node) const;
  [[nodiscard]] bool needs_roll(const kube::Node& node) const;
  void word_arrived(Result<HealthSource::Word> word);
  void take_reading_if_complete();
  void take_reading();
  void use_reading(Reading reading);
  [[nodiscard]] bool roll_is_readable() const;
  void heed_roll();
  // What the answers come to; an error when that is nothing to go by.
  [[nodiscard]] Result<Reading> reading_by_source() const;
  void note_boot(const std::string& boot_id);
  void pods_arrived(std::size_t list, Result<std::vector<std::string>> pods);
  void both_arrived();
  void evaluate_slice();
  void take_up(const std::string& text);
  void judge(Known known, const policy::ClusterFacts& facts);
  void pump();
  // The right by which our taint is set: that of the deletion that is next, and goes on when the
  // node carries it.
  [[nodiscard]] const PodDeletion& next_deletion() const;
  void quarantine(const PodDeletion& waiting);
  void quarantined(const PodDeletion& waiting, const ActionOutcome& outcome);
  void refuse_next(const ActionOutcome& outcome);
  // kube-controller-manager, which writes the whole list of taints from a picture that may be old,
  // can drop ours: what was deleted would come back to a node that nobody watches over.
  [[nodiscard]] bool lost_quarantine() const;
  void enqueue(Waiting waiting);
  // Writes into the incident's record what waits and does not stand there yet.
  void record_waiting();
  [[nodiscard]] bool may_leave(const Waiting& waiting) const;
  void send(Waiting waiting);
  void send_release(const Portion& portion);
  void deletion_ended(Waiting waiting, const ActionOutcome& outcome);
  void pod_ended(const PodDeletion& deletion, const ActionOutcome& outcome);
  void end_if_done();
  // Whether attachments or releases are being looked at now.
  [[nodiscard]] bool look_at_volumes();
  [[nodiscard]] bool judged_all() const;

  Surroundings& around_;
  const Occasion occasion_;
  std::shared_ptr<Authority> authority_;
  Memory& memory_;
  Owner& owner_;
  Inquiry inquiry_;
  std::optional<Gathering> gathering_;  // absent once retired
  Detaching detaching_;
  Releasing releasing_;

  kube::CallHandle node_call_;
  kube::CallHandle lease_call_;
  std::optional<Result<kube::Lease>> lease_;  // as it arrived
  std::optional<Result<void>> roll_;          // how the roll call ended
  // In place of the Lease, when the incident goes by the word of a health source.
  std::unique_ptr<HealthSource::Question> question_;
  std::optional<Result<HealthSource::Word>> word_;
  std::vector<kube::CallHandle> lists_;  // null: it has arrived, or failed
  std::size_t lists_pending_ = 0;
  Moment listed_at_{};              // when the lists were asked for
  std::optional<kube::Node> node_;  // of the newest reading, until the policies have it
  std::vector<std::string> pods_;   // as JSON, each decoded when its turn comes
  std::set<Uid> seen_;              // a pod may come twice while lists are read page by page
  std::size_t next_pod_ = 0;        // the first that was not taken up yet
  std::size_t gathering_pods_ = 0;
  std::deque<Known> known_;  // ready to be judged
  loop::Timer next_slice_;
  std::deque<Waiting> queue_;
  std::size_t in_flight_ = 0;
  PassResult result_;
  std::shared_ptr<const void> alive_;  // calls that outlive us must not call back

  enum class Stage { NotYet, Looking, Looked };
  Stage attachments_ = Stage::NotYet;
  Stage releases_ = Stage::NotYet;
  const bool sees_volumes_;  // of every pod: attachments may be deleted
  bool listed_ = false;      // a list has arrived, or there was none to make
  Moment reading_sent_{};    // the newest reading's
  bool reading_ = false;     // a reading is under way: the node, or what else it needs
  bool roll_called_ = false;
  bool unlisted_ = false;   // a list could not be read
  bool undecoded_ = false;  // a pod could not be understood
  kube::Node as_read_;      // of the newest reading
  int taint_attempts_ = 0;
  bool tainting_ = false;  // our taint is being set
  bool acting_ = false;
  bool to_record_ = false;   // something waits that does not stand in the record
  bool recording_ = false;   // which is being written
  bool unrecorded_ = false;  // it could not be: the guard has its say
  bool pumping_ = false;
};

}  // namespace moonfence::fence
