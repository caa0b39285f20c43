#pragma once

// The changes of nodes among the guarded actions: our taint goes on before a deletion, and comes
// off when the node is proven clean. Each passes the guard, is recorded as an intent, passes the
// guard again when its bytes leave, and is recorded with its outcome, as deletions are. Part of
// GuardedActions, which lends it what sends.

#include <functional>
#include <list>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "audit/reason.h"
#include "audit/trail.h"
#include "fence/guard.h"
#include "fence/listener.h"
#include "kube/calls/destroyer.h"
#include "loop/loop.h"

namespace moonfence::fence {

struct PodDeletion;
struct ActionOutcome;
struct Retirement;

class NodeActions {
 public:
  using Done = std::function<void(const ActionOutcome&)>;

  NodeActions(loop::Loop& loop, kube::Destroyer& destroyer, audit::Trail& trail,
              const std::function<void()>& deposed);
  ~NodeActions();
  NodeActions(const NodeActions&) = delete;
  NodeActions& operator=(const NodeActions&) = delete;

  // As GuardedActions tells of them.
  void set_quarantine(const PodDeletion& waiting, nlohmann::json operations,
                      const std::shared_ptr<const Authority>& authority,
                      std::weak_ptr<const void> listener, Done done);
  void set_out_of_service(const Retirement& retirement, nlohmann::json operations,
                          const std::shared_ptr<const Authority>& authority,
                          std::weak_ptr<const void> listener, Done done);
  void lift_quarantine(std::shared_ptr<const Lift> lift, nlohmann::json operations,
                       std::weak_ptr<const void> listener, Done done);

  [[nodiscard]] std::size_t in_flight() const;

 private:
  struct Call;
  using Calls = std::list<Call>;
  [[nodiscard]] bool join(Call& call);  // as of GuardedActions
  void start(Call call);
  void finish(Calls::iterator call, const Result<kube::NodePatchReply>& reply);

  loop::Loop& loop_;
  kube::Destroyer& destroyer_;
  audit::Trail& trail_;
  const std::function<void()>& deposed_;
  Calls calls_;
};

}  // namespace moonfence::fence
