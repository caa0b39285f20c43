#pragma once

// GuardedCall performs actions, and is the only object of the engine that can delete or taint
// anything, or switch a machine off, or have it refused by its storage. Each passes the same
// sequence, which stands nowhere else:
//
//   not under way already ──▶ guard ──▶ intent written ──▶ place in the brake ──▶ incident's record
//      ──▶ guard again, as its bytes leave ──▶ outcome written ──▶ incident's record ──▶ listeners
//
// What the guard refuses, or what cannot be written, is told and goes no further. A call that has
// left is followed to its end even when its incident is closed meanwhile: what happened is never
// left unrecorded.

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "audit/trail.h"
#include "cluster/endpoints/endpoint.h"
#include "fence/rules/action.h"
#include "kube/calls/destroyer.h"
#include "loop/loop.h"

namespace moonfence::fence {

class GuardedCall {
 public:
  using Done = std::function<void(const ActionOutcome&)>;
  using Released = std::function<void(const ReleaseVolume&, const ActionOutcome&)>;

  // `deposed` is called, before anybody hears of an outcome, when the server says that another
  // replica leads: everything that rests on leadership is to end. `endpoints`, by which machines
  // are switched off, outlives it; null: none.
  GuardedCall(
      loop::Loop& loop, kube::Destroyer destroyer, audit::Trail& trail,
      std::function<void()> deposed = [] {}, cluster::Endpoints* endpoints = nullptr);
  ~GuardedCall();
  GuardedCall(const GuardedCall&) = delete;
  GuardedCall& operator=(const GuardedCall&) = delete;

  // `done` hears the outcome in a later turn, or in this one when the guard refuses, unless
  // `listener` has died by then. The authority is shared because the call may outlive the incident;
  // it is asked when the call is made and again when its bytes leave. What is under way by the same
  // authority is not sent again: `done` hears of that call.
  void perform(Action action, std::shared_ptr<const Authority> authority,
               std::weak_ptr<const void> listener, Done done);
  // Volumes of one node, by one patch; what is refused of one of them at the wire stops them all.
  void perform(std::vector<ReleaseVolume> volumes, std::shared_ptr<const Authority> authority,
               const std::weak_ptr<const void>& listener, const Released& done);

  [[nodiscard]] std::size_t in_flight() const { return calls_.size(); }

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
  struct Item;
  struct Call;
  using Calls = std::list<Call>;
  void start(std::vector<Item> items, std::shared_ptr<const Authority> authority);
  // By one that is under way: it is answered to both.
  [[nodiscard]] bool join(Item& item, const std::shared_ptr<const Authority>& authority);
  [[nodiscard]] bool may_begin(const Item& item, const Authority& authority);
  [[nodiscard]] bool may_send(Call& call) const;
  [[nodiscard]] kube::CallHandle send(Calls::iterator call);
  // Its status, before its deletion.
  [[nodiscard]] kube::CallHandle fail_pod(const DeletePod& deletion, Duration limit,
                                          std::function<bool()> may_send, Calls::iterator call);
  // By a fencer's order.
  [[nodiscard]] kube::CallHandle write_custom(const policy::Request& order, Duration limit,
                                              std::function<bool()> may_send, Calls::iterator call);
  template <class Reply>
  void finish(Calls::iterator call, const Result<Reply>& reply, audit::Reason came_to);

  loop::Loop& loop_;
  kube::Destroyer destroyer_;
  audit::Trail& trail_;
  const std::function<void()> deposed_;
  cluster::Endpoints* const endpoints_;
  Calls calls_;
};

}  // namespace moonfence::fence
