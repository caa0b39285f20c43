#pragma once

// AttachmentDeleter deletes the VolumeAttachments that policies named, and waits until they are
// gone, which is the only sign that the storage has let go of them. It comes after the pods in
// every pass:
//
//   pod deleted ──▶ its object is gone ──▶ attachment deleted, by UID ──▶ absent
//
// and from pass to pass in Memory: a pod that is gone is judged by nobody any more, yet its
// attachments are still to go (row E-13). Attachments-first leaves the first two
// steps out and demands a pod that is being deleted.
//
// An attachment goes only when no other pod object of the node uses the volume
// (fence/act/volume_users). Nothing here ever removes a finalizer.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fence/act/volume_users.h"
#include "fence/judge/pod_evaluation.h"
#include "fence/read/fact_reader.h"
#include "fence/read/lookups.h"
#include "fence/read/surroundings.h"
#include "fence/rules/action.h"
#include "kube/objects/objects.h"

namespace moonfence::fence {

class AttachmentDeleter {
 public:
  using Act = std::function<void(DeleteAttachment)>;

  // All references must outlive it.
  AttachmentDeleter(Surroundings& surroundings, const PassContext& context,
                    std::shared_ptr<const Authority> authority, Memory& memory,
                    const VolumeUsers& users);

  // What was read about a pod of the node.
  void saw(const Gathered& gathered) {
    attachments_.insert(gathered.attachments.begin(), gathered.attachments.end());
  }
  // What a policy wants; its pod is deleted by somebody else when it has to be.
  void plan(const PodPlan& pod_plan);
  // Attachments that some policy of this pass wants deleted, by name.
  [[nodiscard]] std::set<std::string> wanted() const;

  // Once in a pass, after the pods: hands each deletion that may be made to `act`, in this turn or
  // later, and calls `looked` after the last. `complete` false: there may be more pods. `outdated`:
  // the lists are too old that tell who uses a volume; reading attachments may take so long that
  // they say nothing any more, and the next pass has fresh ones.
  void look(bool complete, std::function<bool()> outdated, Act act, std::function<void()> looked);
  // In place of a look: the lists are too old. Where the next pass has no better ones it is told.
  void put_off() { put_off_ = true; }
  void ended(const DeleteAttachment& deletion, const ActionOutcome& outcome, PassResult& result);
  void sum_up(PassResult& result);
  // Nothing is read or handed over from now on.
  void retire();

  // What a release asks too: whether what its policy said still holds; it is adapted to the
  // policies in force.
  [[nodiscard]] bool is_in_force(Detachment& detachment) const;

 private:
  // What is to be done about it before it is looked at.
  enum class Stand { Consider, Waits, Refused, Dropped };
  [[nodiscard]] Stand stand_of(Detachment& detachment, bool complete);
  void plan_step(const Detachment& detachment) const;
  void consider(Detachment& detachment, const kube::Attachment& attachment);
  void wait(Detachment& detachment, audit::Reason reason, const std::string& text);
  void read(const std::vector<std::string>& names);
  void arrived(const std::string& name, const Result<Lookups::Body>& found);
  void gone(const std::string& name);
  void alarm_before_force(Detachment& detachment, const kube::Attachment& attachment);
  void record(const Detachment& detachment, audit::Record::Kind kind, audit::Reason reason,
              const std::string& text);
  void tell(Detachment& detachment, audit::Reason reason, const std::string& text);
  void looked_at_one();

  Surroundings& around_;
  const PassContext& context_;
  std::shared_ptr<const Authority> authority_;
  Memory& memory_;
  const VolumeUsers& users_;
  std::map<std::string, kube::Attachment> attachments_;  // read in this pass, by name
  Act act_;
  std::function<void()> looked_;
  std::size_t pending_ = 0;
  std::size_t unread_ = 0;
  std::function<bool()> outdated_;
  bool put_off_ = false;           // the lists were too old
  std::set<std::string> waiting_;  // attachments that go, or may go, when something else happens
  bool pod_waits_ = false;         // a pod that comes after its attachments is to be judged again
  Lookups lookups_;
  std::map<std::string, Result<Lookups::Body>> answers_;  // of lookups_, by name
  loop::Timer all_read_;
  bool retired_ = false;
};

}  // namespace moonfence::fence
