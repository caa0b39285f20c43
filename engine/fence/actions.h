#pragma once

// GuardedActions is the only object of the engine that can delete anything. Every action passes the
// guard, is recorded as an intent, passes the guard again when its bytes leave, and is recorded
// with its outcome, in the audit and on the incident's page. A call that has left is followed to
// its end even when its incident is closed meanwhile: what happened is never left unrecorded.

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "audit/reason.h"
#include "audit/trail.h"
#include "fence/guard.h"
#include "fence/listener.h"
#include "fence/node_actions.h"
#include "kube/calls/destroyer.h"
#include "kube/objects/objects.h"
#include "loop/loop.h"

namespace moonfence::fence {

struct PodDeletion {
  kube::Pod pod;
  IncidentId incident;
  std::string policy;
  std::string policy_digest;  // of its binding
  std::string set_digest;     // of the set that judged: all three must be in force when it leaves
  std::string why;            // the policy's reason
  std::uint32_t attempt = 1;
  Moment judged{};  // by then a list had shown it on the node
};

// The deletion of a VolumeAttachment rests on the verdict about a pod.
struct AttachmentDeletion {
  PodDeletion verdict;
  AttachmentCase target;
};

// The release of a volume rests on the verdict about the pod that used it.
struct VolumeRelease {
  PodDeletion verdict;
  ReleaseCase target;
};

// Putting a node out of service rests on the word of a policy about the node, and on what becomes
// of all its pods.
struct Retirement {
  IncidentId incident;
  std::string policy;
  std::string policy_digest;
  std::string set_digest;
  std::string why;
  std::uint32_t attempt = 1;
  std::shared_ptr<const Eviction> eviction;
};

struct ActionOutcome {
  audit::Reason reason = audit::Reason::Done;
  std::optional<Duration> retry_after;
  std::string text = {};  // the server's words, if it refused

  // Nothing is left to do for this object: it is done, marked, was gone, or another took its name.
  [[nodiscard]] bool settled() const;
  // "pod db/web-0: refused; HTTP 403 …", for people.
  [[nodiscard]] std::string about(const std::string& what) const;
};

// By what it failed it will fail for as long as this process lives. Everything else is tried again,
// for ever: permissions are mended, webhooks come back, guards let go.
[[nodiscard]] bool is_hopeless(audit::Reason reason);

class GuardedActions {
 public:
  using Done = std::function<void(const ActionOutcome&)>;

  // `deposed` is called, before anybody hears of an outcome, when the server says that another
  // replica leads: everything that rests on leadership is to end.
  GuardedActions(
      loop::Loop& loop, kube::Destroyer destroyer, audit::Trail& trail,
      std::function<void()> deposed = [] {});
  ~GuardedActions();
  GuardedActions(const GuardedActions&) = delete;
  GuardedActions& operator=(const GuardedActions&) = delete;

  // `done` hears the outcome in a later turn, or in this one when the guard refuses, unless
  // `listener` has died by then. The authority is shared because the call may outlive the incident;
  // it is asked when the call is made and again when its bytes leave. What is under way by the same
  // authority is not sent again: `done` hears of that call. So with all of them below.
  void delete_pod(PodDeletion deletion, std::shared_ptr<const Authority> authority,
                  std::weak_ptr<const void> listener, Done done);

  // The same for a VolumeAttachment. `marked_only` is its usual outcome: it is gone when its
  // attacher lets go.
  void delete_attachment(AttachmentDeletion deletion, std::shared_ptr<const Authority> authority,
                         std::weak_ptr<const void> listener, Done done);

  // Volumes of one node, by one patch. `done` hears of each of them. `release_overtaken`: the
  // node's status is not what it was read as, and stays as it is.
  using Released = std::function<void(const VolumeRelease&, const ActionOutcome&)>;
  void release(std::vector<VolumeRelease> volumes,
               const std::shared_ptr<const Authority>& authority,
               const std::weak_ptr<const void>& listener, const Released& done);
  // Sets our taint, by operations_to_set(), before the deletion that waits for it and by the
  // deletion's own right. `node_changed`: it was read by what is no longer so.
  void set_quarantine(const PodDeletion& waiting, nlohmann::json operations,
                      const std::shared_ptr<const Authority>& authority,
                      std::weak_ptr<const void> listener, Done done);
  // Sets Kubernetes' taint out-of-service, by operations_to_set().
  void set_out_of_service(const Retirement& retirement, nlohmann::json operations,
                          const std::shared_ptr<const Authority>& authority,
                          std::weak_ptr<const void> listener, Done done);
  // Takes what is ours off again, by operations_to_lift().
  void lift_quarantine(std::shared_ptr<const Lift> lift, nlohmann::json operations,
                       std::weak_ptr<const void> listener, Done done);

  [[nodiscard]] std::size_t in_flight() const;

  // See kube::Destroyer.
  [[nodiscard]] std::size_t most_at_once() const { return destroyer_.most_at_once(); }
  // Nothing while anything is under way: it would wait behind what opens connections, and leaves
  // some behind itself.
  void make_way(std::size_t deletions) {
    if (in_flight() == 0) {
      destroyer_.make_way(deletions);
    }
  }

 private:
  struct Call;
  using Calls = std::list<Call>;
  // By one that is under way under the same authority: it is answered to both.
  [[nodiscard]] bool join(Call& call);
  void start(Call call);
  void finish(Calls::iterator call, const Result<kube::DeleteReply>& reply);
  [[nodiscard]] static const Uid& uid_of(const Call& call);
  [[nodiscard]] static std::optional<audit::Reason> refusal(const Call& call, Moment now);
  [[nodiscard]] static audit::Record record_of(const Call& call, audit::Record::Kind kind,
                                               audit::Reason reason);

  struct ReleasePart;
  struct Release;
  using Releases = std::list<Release>;
  [[nodiscard]] bool join(ReleasePart& part, const std::shared_ptr<const Authority>& authority);
  [[nodiscard]] bool may_begin(const ReleasePart& part, const Authority& authority);
  void finish(Releases::iterator release, const Result<kube::NodePatchReply>& reply);
  [[nodiscard]] static audit::Record record_of(const VolumeRelease& volume,
                                               const Authority& authority, audit::Record::Kind kind,
                                               audit::Reason reason);

  loop::Loop& loop_;
  kube::Destroyer destroyer_;
  audit::Trail& trail_;
  const std::function<void()> deposed_;
  Calls calls_;
  Releases releases_;
  NodeActions node_actions_;
};

}  // namespace moonfence::fence
