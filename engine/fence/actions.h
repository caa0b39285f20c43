#pragma once

// GuardedActions is the only object of the engine that can delete anything. Every action passes the
// guard, is recorded as an intent, passes the guard again when its bytes leave, and is recorded
// with its outcome, in the audit and on the incident's page. A call that has left is followed to
// its end even when its incident is closed meanwhile: what happened is never left unrecorded.

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "audit/reason.h"
#include "audit/trail.h"
#include "fence/guarded_call.h"
#include "fence/listener.h"
#include "kube/calls/destroyer.h"
#include "kube/objects/objects.h"
#include "loop/loop.h"

namespace moonfence::fence {

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
  void delete_pod(DeletePod deletion, std::shared_ptr<const Authority> authority,
                  std::weak_ptr<const void> listener, Done done);

  // The same for a VolumeAttachment. `marked_only` is its usual outcome: it is gone when its
  // attacher lets go.
  void delete_attachment(DeleteAttachment deletion, std::shared_ptr<const Authority> authority,
                         std::weak_ptr<const void> listener, Done done);

  // Volumes of one node, by one patch. `done` hears of each of them. `release_overtaken`: the
  // node's status is not what it was read as, and stays as it is.
  using Released = std::function<void(const ReleaseVolume&, const ActionOutcome&)>;
  void release(std::vector<ReleaseVolume> volumes,
               const std::shared_ptr<const Authority>& authority,
               const std::weak_ptr<const void>& listener, const Released& done);
  // What changes the taints of a node.
  void perform(Action action, std::shared_ptr<const Authority> authority,
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
  [[nodiscard]] static audit::Record record_of(const ReleaseVolume& volume,
                                               const Authority& authority, audit::Record::Kind kind,
                                               audit::Reason reason);

  loop::Loop& loop_;
  kube::Destroyer destroyer_;
  audit::Trail& trail_;
  const std::function<void()> deposed_;
  Calls calls_;
  Releases releases_;
  GuardedCall taints_;
};

}  // namespace moonfence::fence
