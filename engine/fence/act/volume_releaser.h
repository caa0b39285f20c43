#pragma once

// VolumeReleaser tells Kubernetes of the volumes that AttachmentDeleter saw go
// (fence/rules/volume_release.h). In every pass, after the attachments:
//
//   attachment gone ──▶ still gone, nobody else, controller alive ──▶ one patch for a portion
//      ──▶ off the node's volumesAttached: acknowledged ──▶ the next portion
//
// Each attempt begins with what its own pass has read: nothing is carried over but that the
// attachment we asked to go is gone. No time-out ever turns into a release; a volume that cannot be
// released in time is left to the controller's own check, which finds it within a minute.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fence/act/attachment_deleter.h"
#include "fence/judge/pod_evaluation.h"
#include "fence/read/surroundings.h"
#include "fence/rules/action.h"

namespace moonfence::fence {

class VolumeReleaser {
 public:
  // How many volumes go at once: the controller takes its time for each before it attaches any.
  static constexpr std::size_t kPortion = 8;
  // How long an acknowledgement may take before the next portion goes.
  static constexpr Duration kAcknowledgement = std::chrono::seconds(10);
  // By then the controller has found out by itself.
  static constexpr Duration kGiveUp = std::chrono::seconds(90);

  using Act = std::function<void(std::vector<std::string>)>;

  // All references must outlive it.
  VolumeReleaser(Surroundings& surroundings, const PassContext& context,
                 std::shared_ptr<const Authority> authority, Memory& memory,
                 const AttachmentDeleter& deleter, const VolumeUsers& users);

  // Once in a pass: hands a portion to `act`, by the attachments' names, or none, and calls
  // `looked` after that. `known`: when what the lists of pods show, and what
  // their volumes are, was known.
  void look(Moment known, PassResult& result, Act act, std::function<void()> looked);
  // The portion by the newest reading.
  [[nodiscard]] std::vector<ReleaseVolume> order(const std::vector<std::string>& portion);
  void ended(const ReleaseVolume& volume, const ActionOutcome& outcome, PassResult& result);
  void sum_up(PassResult& result);
  void retire();

 private:
  // Those that may go now as far as the node's status says, the most important pods first.
  [[nodiscard]] std::vector<std::string> candidates(PassResult& result);
  [[nodiscard]] bool awaits(PendingRelease& pending, const kube::NodeStorage& storage);
  // `silence`: why nobody knows that its holder is alive, "" when it is.
  void read_lease(const ObjectRef& lease, std::string& silence);
  void read_attachment(const std::string& name);
  void read_one();
  void choose();
  // Nothing is left to be done about it, for whoever comes after us either.
  void drop(const std::string& name);
  [[nodiscard]] std::string silent_attacher(const PendingRelease& pending) const;
  void tell(PendingRelease& pending, audit::Record::Kind kind, audit::Reason reason,
            const std::string& text);

  Surroundings& around_;
  const PassContext& context_;
  std::shared_ptr<const Authority> authority_;
  Memory& memory_;
  const AttachmentDeleter& deleter_;
  const VolumeUsers& users_;
  Act act_;
  std::function<void()> looked_;
  Moment checked_{};
  std::vector<std::string> candidates_;
  std::set<std::string> absent_;                  // of the candidates
  std::string controller_;                        // silence of kube-controller-manager
  std::map<std::string, std::string> attachers_;  // the same of the attachers, by driver
  bool waits_ = false;  // for an acknowledgement, or until something else happens
  std::size_t pending_ = 0;
  std::vector<kube::CallHandle> reads_;
};

// The node came back: what of its storage had been told to let go is told of; of what was released
// also for how long another node may have had it.
void report_return(Surroundings& surroundings, const Authority& authority, const Memory& memory);

}  // namespace moonfence::fence
