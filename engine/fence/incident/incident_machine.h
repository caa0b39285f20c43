#pragma once

// Incident is one node's failure from the moment it is believed down until it is dealt with: a pure
// machine. It is told events with the time, and answers with effects; IncidentDriver performs them
// and decides nothing. It can be printed, compared and tested without any I/O.
//
//   Holding ──tainted──▶ Confirming ──still down──▶ Operating ──nothing left──▶ Closed
//      ▲                   │     ▲                      │
//      └── not tainted ────┘     └── 5 s ── Resting ◀───┘ failures
//
// Nothing is given up: as long as the node is down and something that was to be done failed, or
// pods are held because policies fail, another pass follows, for ever.
//
// From every state: the node is Ready again, replaced or gone ──▶ Closed.
//
// But where a policy takes a deleted node for down (HoldDowns), one that is gone goes on: whoever
// judged until then does so no more, so another pass begins, and so it does when the same node
// turns out to be there after all. Another node of its name still closes it.
//
// But what is known to be dead, or was deleted and some policy acts on that, goes on in another
// incident when its Node is made anew by another machine (Incidents): that one knows no watch.
//
// When the next pass begins says NextPass. What fails for longer than `tell_failing_after` is told,
// and so are policies that make pods wait for longer than `tell_waiting_after`. After the retry
// window it does not count as being fenced any more: others may take its place.
//
// While it waits for the taint that belongs to what it believes, it has the next pass prepared
// (PlanAhead); the next CancelPass ends that, the next StartPass may use it.
//
// Several bindings act on one node, each by a trigger of its own. The machine knows of them only
// when the first may act (HoldDowns, the minimum over the bindings); from then on each pass sorts
// out which of them are due and comes back with the shortest wait of the others. What a silent
// kubelet would permit and a living one does not keeps the incident open until the node changes.
//
// A reload (policies_changed) starts a pass at once, or right after the one under way; the window
// begins again with it.
//
// While policies wait, news of the node's pods (fence/read/pod_watch) begin a pass before its time.
//
// The brake may refuse a pass before it reads anything, at its reading and in its middle: the
// incident holds, without a timer of its own, until the brake lets go, and starts a fresh pass
// then. Nothing that was read or decided before is kept.
//
// A reading that says "Ready" ends the incident unless the watch said "down" after the pass began:
// the answer may then be older than the news, and nobody would look again. Such a pass is repeated.
//
// When all of this is done and replacements of what was deleted are not Ready yet (PassResult says
// so) it is Verifying: it does nothing, holds no place of the brake, and waits to be told that they
// are, for `replacement_wait` after the last deletion.
//
// Whether the kubelet is silent says its Lease (fence/leases/kubelet_lease). On Ready=Unknown
// nobody acts while it is alive or unread; on False or missing it decides which bindings may. While
// it is alive we look again exactly when it could be dead. While the kubelet is dead and its
// machine answers, only bindings act that say so (trigger `live_kernel`), and we look again now and
// then.

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "audit/reason.h"
#include "base/names.h"
#include "base/time.h"
#include "cluster/nodes/node_cache.h"
#include "fence/incident/incident_rules.h"
#include "fence/incident/next_pass.h"
#include "fence/rules/pass_result.h"
#include "fence/rules/reading.h"
#include "fence/rules/triggers.h"

namespace moonfence::fence {

class IncidentMachine {
 public:
  enum class State { Holding, Confirming, Operating, Resting, Verifying, Closed };

  // Effects, in the order in which they are to be performed.
  struct SetTimer {
    Duration delay;
  };
  struct CancelTimer {};
  struct StartPass {};   // read the node live and list its pods
  struct PlanAhead {};   // find out what the pass will need that the taint begins
  struct Act {};         // go on with what was read: evaluate, guard, delete
  struct CancelPass {};  // start nothing more; what has left is still recorded
  struct Hold {
    audit::Reason reason;
  };
  struct Close {
    audit::Reason reason;
  };
  using Effect =
      std::variant<SetTimer, CancelTimer, StartPass, PlanAhead, Act, CancelPass, Hold, Close>;
  using Effects = std::vector<Effect>;

  // `down_since`: the first down observation, from which the hold-downs count.
  IncidentMachine(Uid node_uid, IncidentRules rules, Moment down_since)
      : node_uid_(std::move(node_uid)),
        rules_(rules),
        next_(rules),
        state_(Holding{.what = For::Watch, .until = std::nullopt}),
        down_since_(down_since) {}

  // The first event, once.
  [[nodiscard]] Effects open(const cluster::NodeView& view, Moment now);
  // The watch has news of the node.
  [[nodiscard]] Effects node_seen(const cluster::NodeView& view, Moment now);
  [[nodiscard]] Effects timer_fired(Moment now);
  // The pass has its reading; nullopt: the node or its pods could not be read.
  [[nodiscard]] Effects confirmed(const std::optional<Reading>& reading, Moment now);
  [[nodiscard]] Effects pass_ended(const PassResult& result, Moment now);
  // What the last pass left waiting for the storage has moved on, or proof was found that it
  // lacked.
  [[nodiscard]] Effects storage_moved(Moment now);
  // No replacement is awaited any more.
  [[nodiscard]] Effects replacements_ready();
  // Something happened to a pod while policies wait; only while it may_hear().
  [[nodiscard]] Effects pods_changed(Moment now);
  // It rests because policies wait. What failed is repeated in its own time, whoever rings: the
  // server may have asked for a pause.
  [[nodiscard]] bool may_hear() const;
  // Other bindings are in force, or are entitled to this incident.
  [[nodiscard]] Effects policies_changed(const HoldDowns& hold_downs, Moment now);
  // The brake refuses the pass that was to start or is under way.
  [[nodiscard]] Effects braked(audit::Reason reason, Moment now);
  // The brake does not refuse it any more.
  [[nodiscard]] Effects brake_released(Moment now);
  // It is about a machine whose Node does not exist any more: news of another Node of that name are
  // none, only readings tell.
  void outlive_the_node() { outlives_ = true; }
  // What was observed until now proves nothing: hold-downs count from now on.
  void evidence_restarts(Moment now) { down_since_ = now; }
  // We must not go on: shut down, or not the replica that acts.
  [[nodiscard]] Effects stop(audit::Reason reason = audit::Reason::Stopping);

  [[nodiscard]] State state() const { return static_cast<State>(state_.index()); }
  [[nodiscard]] bool is_braked() const { return holds_for(For::Brake); }
  // A pass is under way, or rests to repeat what failed: the node counts as being fenced.
  [[nodiscard]] bool in_progress() const;
  // For so long that it was told: StillFailing.
  [[nodiscard]] bool is_failing() const { return failing_ && failing_->told && !is_braked(); }
  // When it looks next if nothing happens before; nullopt: it waits for something to happen.
  [[nodiscard]] std::optional<Moment> next_pass() const;
  // By the newest news or reading.
  [[nodiscard]] bool believes_unknown() const { return seen_ == cluster::Readiness::Unknown; }
  [[nodiscard]] const Uid& node_uid() const { return node_uid_; }
  [[nodiscard]] std::uint32_t passes() const { return passes_; }
  [[nodiscard]] std::uint32_t stretch() const { return next_.stretch(); }
  [[nodiscard]] Duration unread() const { return next_.unread(); }
  [[nodiscard]] const RetryRules& retry() const { return rules_.retry; }

 private:
  enum class For { Watch, Silence, Brake };  // Silence: as Resting::unfit
  enum class News { None, Down, Gone };      // what the watch said after the pass began
  struct Pass {
    Moment started{};
    News news = News::None;
    bool outdated = false;  // the policies changed after it began
    Moment silence_at{};    // by its last reading: silence_by()
  };
  // In the order of State. `until`: when the timer it has asked for starts the next pass.
  struct Holding {
    For what;
    std::optional<Moment> until;
  };
  struct Confirming : Pass {};
  struct Operating : Pass {
    bool of_deleted = false;  // its reading found no such node
  };
  struct Resting {
    Moment until;
    bool unfit;  // the last pass left pods to policies that want silence
  };
  struct Verifying {};
  struct Closed {};

  [[nodiscard]] bool holds_for(For what) const;
  [[nodiscard]] Pass* pass_under_way();
  // Waits for the watch, and looks by itself at `until` when one is given.
  Effects hold(audit::Reason reason, std::optional<Moment> until, Moment now,
               For what = For::Watch);
  Effects await_taint(Moment now, Duration at_least = {});
  // Whether the pass failed is kept in mind, and told when it lasts until `next`.
  void note_failure(const Pass& pass, const PassResult& result, std::optional<Moment> next,
                    Effects& effects);
  // Whether policies wait is kept in mind, and told when it lasts until `next`.
  void note_waiting(const Pass& pass, const PassResult& result, std::optional<Moment> next,
                    Effects& effects);
  // After a pass that may have another at `next`.
  Effects go_on(const Pass& pass, const PassResult& result, std::optional<Moment> next, Moment now);
  // Kubernetes' own taint is not waited for, or was for long enough.
  [[nodiscard]] bool may_quarantine() const;
  // No binding acts on a node that is down like this.
  Effects await_silence(const Pass& pass, const Reading& reading, Moment now);
  Effects await_readable(audit::Reason reason, Moment now);
  // Starts a pass, or holds for what is missing.
  Effects begin(bool tainted, Moment now);
  Effects start_pass(Moment now);
  Effects start_next_pass(Moment now);  // in place of the one under way, with a window of its own
  Effects rest(Moment until, Moment now, bool unfit = false);
  Effects close(audit::Reason reason);
  // Nothing is left to do: closed, unless replacements are to be awaited.
  Effects settle(const PassResult& result, Moment now);
  // Why this reading or view ends the incident; nullopt: it does not.
  [[nodiscard]] std::optional<audit::Reason> ends(cluster::Readiness readiness,
                                                  const Uid& uid) const;
  // When the first binding may act on a node that is down like this; nullopt: none does. What the
  // watch believes, `seen_`, has no Lease: Unknown passes for silence until it is read.
  [[nodiscard]] std::optional<Moment> due_by(const Reading& reading) const;
  [[nodiscard]] std::optional<Moment> due_by_belief() const;
  // When kubelet and machine could both be silent that are not by this reading.
  [[nodiscard]] Moment silence_by(const Reading& reading, Moment now) const;
  [[nodiscard]] std::optional<Moment> due_after(const std::optional<Duration>& hold_down) const;

  Uid node_uid_;
  IncidentRules rules_;
  NextPass next_;
  std::variant<Holding, Confirming, Operating, Resting, Verifying, Closed> state_;
  std::uint32_t passes_ = 0;
  std::uint32_t untainted_ = 0;                            // waits in a row for the taint
  bool outlives_ = false;                                  // see outlive_the_node()
  cluster::Readiness seen_ = cluster::Readiness::Missing;  // the newest news or reading
  Moment down_since_;
  struct Failing {
    Moment since{};
    bool told = false;
  };
  std::optional<Failing> failing_;       // each pass fails since then
  std::optional<Moment> waiting_since_;  // since when each pass left something waiting
};

[[nodiscard]] std::string_view to_string(IncidentMachine::State state);

}  // namespace moonfence::fence
