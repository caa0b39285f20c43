#pragma once

// LeftVolumes finds volumes that are still attached to a dead node although none of its pods uses
// them: somebody deleted the pod before any policy was asked about it, or while one made it wait.
// Policies judge pods, and there is none to be judged: nothing is deleted, and somebody is told,
// because the replacement waits for Kubernetes' own time of six minutes, or for ever where that is
// off. What policies decided with its pod is no matter of this: that goes on in
// fence/act/attachment_deleter, or was meant to stay.
//
// Where it looks: what the node's status calls attached or in use costs nothing to read. Each name
// that nobody accounts for leads to an attachment, which is read live, and by its PersistentVolume
// to the claim; only claims of namespaces are told of in which a policy may detach.

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "fence/act/volume_users.h"
#include "fence/judge/pod_evaluation.h"
#include "fence/read/lookups.h"
#include "fence/read/surroundings.h"

namespace moonfence::fence {

class LeftVolumes {
 public:
  // A volume that somebody is detaching is gone by then.
  static constexpr Duration kTellAfter = std::chrono::minutes(1);
  // An event lives for an hour.
  static constexpr Duration kTellAgain = std::chrono::minutes(5);
  static constexpr Duration kPause = std::chrono::seconds(30);

  // All references must outlive it.
  LeftVolumes(Surroundings& surroundings, const PassContext& context,
              std::shared_ptr<const Authority> authority, Memory& memory, const VolumeUsers& users);

  // Once in a pass, when its pods and attachments are dealt with; `node` as it was read last. True:
  // it is looking, and calls `looked` in a later turn.
  [[nodiscard]] bool look(const kube::Node& node, std::function<void()> looked);
  // As long as there is one the node is looked at again.
  void sum_up(PassResult& result);
  void retire();

 private:
  // Somebody knows what is to become of it: a pod of the node uses it, or may, or policies decided
  // about it with its pod.
  [[nodiscard]] bool is_accounted_for(const std::string& attachment) const;
  [[nodiscard]] std::set<std::string> unaccounted(const kube::Node& node) const;
  void attachment_arrived(const std::string& name, const Result<Lookups::Body>& found);
  void read_volume(const kube::Attachment& attachment);
  void volume_arrived(const kube::Attachment& attachment, const Result<Lookups::Body>& found);
  void inline_arrived(const kube::Attachment& attachment);
  void note(const kube::Attachment& attachment, const std::string& what);
  [[nodiscard]] bool may_be_detached_in(const std::string& space) const;
  void one_ended();

  Surroundings& around_;
  const PassContext& context_;
  std::shared_ptr<const Authority> authority_;
  Memory& memory_;
  const VolumeUsers& users_;
  std::function<void()> looked_;
  bool has_looked_ = false;
  std::size_t pending_ = 0;
  std::size_t left_ = 0;
  std::string words_;  // of the first that has been left for long enough to be told
  Lookups lookups_;
  loop::Timer next_;
};

}  // namespace moonfence::fence
