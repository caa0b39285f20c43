#pragma once

// PlanAhead uses the time in which an incident must wait for the node's taint, which is a few
// milliseconds (row H-05): it lists the node's pods, gathers what policies need to know, asks the
// policies as if the taint were there, and has what they would delete written into the incident's
// record, pods and their attachments. The pass that begins with the taint takes all of that over
// and is left with the live reading of the node before its first deletions.
//
// It decides nothing. It works on copies of what the incident knows, tells nobody what it finds,
// and deletes nothing; the pass asks every policy again, about the node as it is read then. What
// stands in the record and is not wanted any more by then is withdrawn: the record says what was
// meant, and the guard does not ask who wrote it there.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fence/act/attachment_deleter.h"
#include "fence/act/incident_context.h"
#include "fence/incident/node_reading.h"
#include "fence/judge/pod_evaluation.h"
#include "fence/judge/pod_queue.h"
#include "fence/read/fact_reader.h"
#include "fence/read/pod_listing.h"
#include "fence/record/record_pace.h"
#include "fence/rules/guard.h"

namespace moonfence::fence {

// What was found ahead, for the pass that takes it over.
struct ReadAhead {
  std::unique_ptr<PodListing> pods;         // null: nothing was
  std::vector<kube::Pod> decoded;           // of the lists that have arrived
  std::vector<std::string> texts;           // of the same, whose turn has not come
  std::unique_ptr<FactReader> fact_reader;  // null: not all that was asked for could be read
  std::set<Uid> planned;                    // pods that are in the record, by nobody's verdict
};

[[nodiscard]] std::unique_ptr<FactReader> new_fact_reader(const IncidentContext& surroundings);

// What all of them share; outlives them.
struct Preplannings {
  // Where more nodes fall within one taint's delay, the brake lets few of them go on, and their
  // lists would come before those of the passes that have begun.
  static constexpr std::size_t kMost = 4;
  std::size_t open = 0;

  [[nodiscard]] bool has_room() const { return open < kMost; }
};

// Takes out of the record what was only foreseen, but for attachments that somebody wants, by name.
void withdraw(RecordLedger* ledger, std::set<Uid>& planned, const std::set<std::string>& wanted);

class PlanAhead final : private PodQueue::PodQueueUser {
 public:
  // How old what was read ahead may be when a pass takes it over.
  static constexpr Duration kLifetime = Limits{}.reading;
  // When more than the first pages of the lists is asked for. The taint mostly comes before that,
  // and a server that is writing hundreds of pods then reads the node late.
  static constexpr Duration kRestDelay = std::chrono::milliseconds(100);

  // Begins at once. Authority and memory are copied; the surroundings, which name the
  // Preplannings, must outlive it.
  PlanAhead(const IncidentContext& surroundings, PassContext context, const Authority& authority,
            const Memory& memory);
  ~PlanAhead() override;
  PlanAhead(const PlanAhead&) = delete;
  PlanAhead& operator=(const PlanAhead&) = delete;

  // Ends it, for the pass that begins now; empty when it is too old, incomplete, or of other
  // policies. The rest of it may be destroyed later.
  [[nodiscard]] ReadAhead take(const PassContext& context);

 private:
  class Hush;

  void end();
  void go_on();
  [[nodiscard]] Wants taken_up(const kube::Pod& pod) override;
  void gathered(const kube::Pod& pod, const Gathered& known) override;
  void judge(kube::Pod pod, const Gathered& known, const policy::ClusterFacts& cluster) override;
  void came_again(const kube::Pod& pod) override { ahead_.decoded.push_back(pod); }
  void undecodable(const Error&) override {}
  void slice_ended() override;

  Preplannings& all_;
  std::unique_ptr<Hush> hush_;
  IncidentContext around_;  // in which nothing is told to anybody
  const PassContext context_;
  const std::shared_ptr<RecordLedger> ledger_;  // the incident's
  const std::shared_ptr<Authority> authority_;  // of our own, with a ledger that nobody writes
  Memory memory_;
  PodEvaluation pod_evaluation_;
  const VolumeUsers users_;    // nobody: nothing is deleted here
  AttachmentDeleter deleter_;  // says which attachments would go
  ReadAhead ahead_;
  NodeReading node_;
  PodQueue pod_queue_;
  const bool sees_volumes_;
  bool over_ = false;
  bool listed_ = false;
  bool missing_ = false;  // something that policies need could not be read
  loop::Timer rest_;
  RecordPace pace_;
  bool recording_ = false;
  std::shared_ptr<const void> alive_;
};

}  // namespace moonfence::fence
