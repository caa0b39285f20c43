#pragma once

// Pass is one pass over a failed node, written to be read from top to bottom: read the node
// live (fence/incident/node_reading) and list its pods, gather what the policies need to know
// beside that (fence/read/fact_reader), ask them about each pod, hand the deletions to GuardedCall
// a bounded number at a time, our taint before them (fence/act/fenced_taint_setter), then those of
// volume attachments (fence/act/attachment_deleter) and releases (fence/act/volume_releaser), sum
// up. The incident decides whether a pass starts, goes on and is repeated. The policies are those
// that were in force when it began; what they decided is carried out only if it still is in force
// then.
//
// Time: what the first slice (fence/judge/pod_queue) decides is written into the incident's record
// in the turn in which the latest of the node, its Lease, the Leases of its peers and the first
// list (fence/read/pod_listing) arrived, and leaves when it stands there (fence/record/journal);
// what is decided meanwhile, and pods of later lists, goes into one more write. What was read ahead
// (fence/incident/plan_ahead) is such a list, and what was foreseen stands already. The pass makes
// its own lists all the same, when its first deletion has left: the node had no taint when the
// others were made, and what tells who uses a volume has to be younger. When the node's reading
// grows too old (fence/leadership/limits.h) in the middle of a long pass, deletions pause until a
// fresh one has arrived: once per incident and second, not per call.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "fence/act/attachment_deleter.h"
#include "fence/act/fenced_taint_setter.h"
#include "fence/act/fencer_orders.h"
#include "fence/act/incident_context.h"
#include "fence/act/left_volumes.h"
#include "fence/act/out_of_service_setter.h"
#include "fence/act/volume_releaser.h"
#include "fence/act/volume_users.h"
#include "fence/incident/incident_machine.h"
#include "fence/incident/node_reading.h"
#include "fence/incident/plan_ahead.h"
#include "fence/incident/unlisted_pods.h"
#include "fence/judge/pod_evaluation.h"
#include "fence/judge/pod_queue.h"
#include "fence/read/namespace_reading.h"
#include "fence/record/record_pace.h"
#include "fence/rules/action.h"
#include "fence/rules/guard.h"
#include "kube/calls/reader.h"
#include "loop/loop.h"

namespace moonfence::fence {

class Pass final : private PodQueue::PodQueueUser {
 public:
  // Where the record stands already, the first deletion need not wait for the others' verdicts.
  static constexpr std::size_t kFirstAhead = 1;
  // How long the pass's own lists wait for the node where there are others (docs/decisions/0008),
  // and their next pages for the first deletion.
  static constexpr Duration kListDelay = std::chrono::milliseconds(20);
  // How often in a pass a deletion whose reading grew old on the way to the wire is tried again. On
  // a path where that happens every time it must end: each attempt writes two records.
  static constexpr int kLateAttempts = 3;
  // Where our taint is refused: in every so many passes out-of-service is tried all the same.
  static constexpr std::uint32_t kRetireAnyway = 4;
  // Of the time that it took to find out what policies need to know so much is granted to the
  // lists, in readings that follow one another: claims, volumes, attachments, owners and their
  // owners.
  static constexpr int kLongestChain = 5;

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

  // All references must outlive the pass.
  Pass(IncidentContext& surroundings, PassContext context, std::shared_ptr<Authority> authority,
       Memory& memory, Owner& owner);
  ~Pass() override;
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  // `ahead`: what was read before the pass began, if anything was.
  void start(ReadAhead ahead = {});
  void act();
  // Starts nothing more and calls nobody back; what has left is still recorded.
  void retire();

 private:
  // After the pods: their attachments, then the releases.
  enum class Volumes { ToCome, Attachments, Between, Releases, Done };
  // Volumes to be released at once, by their attachments.
  using Portion = std::vector<std::string>;
  struct Waiting {
    std::variant<DeletePod, DeleteAttachment, Portion> deletion;
    int late = 0;          // how often its reading grew old on the way
    bool written = false;  // the write of the record that it waits for is under way
  };
  void reading_arrived(const std::optional<Reading>& reading);
  void pods_arrived(std::size_t list, Result<kube::ItemTexts>& pods);
  void pods_ahead(Result<kube::ItemTexts>& pods);
  void list_more();
  void both_arrived();
  [[nodiscard]] Wants taken_up(const kube::Pod& pod) override;
  void gathered(const kube::Pod& pod, const Gathered& known) override;
  void judge(kube::Pod pod, const Gathered& known, const policy::ClusterFacts& cluster) override;
  void came_again(const kube::Pod& pod) override;
  void undecodable(const Error& error) override;
  void slice_ended() override;
  void note_hold(const kube::Pod& pod);
  void compare_with_foreseen(const Uid& pod, const std::optional<PodPlan>& pod_plan);
  void pump();
  void send_waiting();
  // By the right of the deletion that is next, and goes on when the node carries our taint.
  void quarantine(const DeletePod& waiting);
  void quarantined(FencedTaintSetter::Next next, const ActionOutcome& outcome);
  void give_up_untainted(const ActionOutcome& outcome);
  void refuse_next(const ActionOutcome& outcome);
  void enqueue(Waiting waiting);
  void line_up(Waiting waiting);
  [[nodiscard]] std::deque<Waiting>::const_iterator place_of(const Waiting& waiting) const;
  [[nodiscard]] static const DeletePod* verdict_of(const Waiting& waiting);
  [[nodiscard]] static const Uid& uid_of(const Waiting& waiting);
  // Writes into the incident's record what waits and does not stand there yet.
  void record_waiting();
  [[nodiscard]] bool may_leave(const Waiting& waiting) const;
  // How long it took to know what is known of the pods.
  [[nodiscard]] Duration picture_took() const;
  [[nodiscard]] bool is_listed_too_long_ago() const;
  [[nodiscard]] bool is_outdated(const Waiting& waiting) const;
  [[nodiscard]] bool is_reading_outdated(const Waiting& waiting) const;
  void drop_outdated();
  // Those of what it deletes are heard of; else they are asked for.
  [[nodiscard]] bool are_namespaces_heard(const Waiting& waiting);
  void send(Waiting waiting);
  void pod_failed(Waiting waiting, const ActionOutcome& outcome);
  void send_release(const Portion& portion);
  void deletion_ended(Waiting waiting, const ActionOutcome& outcome);
  void pod_ended(const DeletePod& deletion, const ActionOutcome& outcome);
  void end_if_done();
  // Whether pods that no list shows are being looked for.
  [[nodiscard]] bool look_for_unlisted();
  void unlisted_looked();
  void note_left_behind();
  void sum_up_replacements();
  // False: whether somebody holds their namespaces is still being read.
  [[nodiscard]] bool tell_observed();
  // Whether its machine is being switched off.
  [[nodiscard]] bool switch_off();
  // Whether the node is being put out of service.
  [[nodiscard]] bool retire_node();
  // True: they were, or attachments are still being looked at before.
  [[nodiscard]] bool delete_after_volumes();
  // Whether attachments or releases are being looked at now.
  [[nodiscard]] bool look_at_volumes();
  void volumes_looked_at(Volumes next);
  // All pods of the node are known.
  [[nodiscard]] bool is_complete() const { return !unlisted_ && !undecoded_; }
  // Whether volumes that nobody accounts for are being looked at.
  [[nodiscard]] bool look_for_left_volumes();
  [[nodiscard]] bool judged_all() const;

  IncidentContext& around_;
  const PassContext context_;
  std::shared_ptr<Authority> authority_;
  Memory& memory_;
  Owner& owner_;
  PodEvaluation pod_evaluation_;
  std::unique_ptr<PodListing> listing_;
  std::unique_ptr<FactReader> fact_reader_;  // null once retired
  ReadAhead ahead_;                          // likewise
  PodQueue pod_queue_;
  NodeReading node_;
  NamespaceReading namespaces_;
  FencedTaintSetter quarantining_;
  OutOfServiceSetter out_of_service_;
  FencerOrders fencer_orders_;
  VolumeUsers users_;
  AttachmentDeleter deleter_;
  VolumeReleaser releaser_;
  UnlistedPods unlisted_pods_;
  LeftVolumes left_volumes_;

  loop::Timer late_list_;
  std::set<Uid> leaving_;              // pods whose deletion was sent in this pass
  std::map<Uid, std::string> starts_;  // of pods beside a successor: starts_of()
  std::set<Uid> changed_;              // pods that were judged as an older list showed them
  Moment known_since_{};               // when the oldest was asked for that tells who uses a volume
  Duration listing_took_ = Duration::zero();
  Moment reading_facts_since_{};
  Duration reading_facts_took_ = Duration::zero();
  Moment gathered_at_{};  // what was gathered last
  std::deque<Waiting> queue_;
  std::vector<Waiting> after_volumes_;  // pods
  std::size_t in_flight_ = 0;
  PassResult result_;
  std::shared_ptr<const void> alive_;  // calls that outlive us must not call back

  // What has arrived of the lists: nothing, those that were made ahead, our own or there were none
  // to make.
  enum class Lists { None, Ahead, Own };
  Lists lists_ = Lists::None;
  bool unlisted_ = false;   // a list could not be read
  bool undecoded_ = false;  // a pod could not be understood
  bool acting_ = false;
  Volumes volumes_ = Volumes::ToCome;
  const bool sees_volumes_;  // of every pod: attachments may be deleted
  RecordPace pace_;          // of what waits and does not stand in the record
  bool recording_ = false;   // it is being written
  bool unrecorded_ = false;  // it could not be: the guard has its say
  bool pumping_ = false;
};

}  // namespace moonfence::fence
