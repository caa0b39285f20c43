#pragma once

// Inquiry asks the policies of one set about the pods of one node, records what each of them says
// (fence/minutes), and comes to one decision a pod. It reads nothing and deletes nothing.
//
// Who is asked about a pod: every binding whose scope covers it, whose policy selects it and that
// may act on the node by now (fence/triggers, and the policy's own word on the node) and on such a
// pod (fence/selection). A guard is asked beside them before its own time as well: its trigger says
// when it may act, not when it may speak against somebody else of its mode. Only that it forbids or
// holds, or could not say, counts then. A policy that holds the node is asked about a pod that
// somebody else would act on: it holds what it does not skip.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "audit/reason.h"
#include "audit/trail.h"
#include "fence/action.h"
#include "fence/breaker.h"
#include "fence/gathering.h"
#include "fence/guard.h"
#include "fence/incident.h"
#include "fence/minutes.h"
#include "fence/pod_watch.h"
#include "fence/pulse.h"
#include "fence/renewals.h"
#include "fence/resolution.h"
#include "fence/surroundings.h"
#include "fence/tallies.h"
#include "fence/triggers.h"
#include "fence/verification.h"
#include "kube/objects/objects.h"
#include "policy/bundle/policy_set.h"

namespace moonfence::fence {

// A policy wants the node out of service.
struct TaintWish {
  std::string policy;
  std::string policy_digest;  // of its binding
  std::string set_digest;
  std::string why;
  // Of its pods the first that came up, without its JSON; none in what a leader before us wished.
  std::optional<kube::Pod> pod = std::nullopt;
};

// What a policy's verdict comes to for one pod.
struct Deed {
  DeletePod deletion;
  bool deletes_pod = true;                        // false: only its attachments, before it
  std::vector<policy::VolumeFacts> volumes = {};  // whose attachments are to go
  bool releases = false;                          // what is detached is to be released
};

// An attachment that an incident wants gone.
struct Detachment {
  DeletePod verdict;  // about the pod that held it
  policy::VolumeFacts volume;
  bool before_pod = false;               // attachments-first
  std::uint32_t wanted_in = 0;           // the last pass in which its policy wanted it
  std::optional<Uid> asked;              // the attachment that was handed over to be deleted
  bool inherited = false;                // planned by the leader before us, who deleted nothing yet
  std::optional<audit::Reason> refused;  // why it can never go
  std::string told;                      // what was last recorded of it
  bool releases = false;                 // once it is gone, its volume is to be released
  bool carried = false;  // that rests on what the leader before us recorded, who asked it to go
  // As it was when external-attacher held it: without that "gone" proves nothing.
  std::optional<kube::Attachment> held = std::nullopt;
  std::optional<Moment> pod_gone_at = std::nullopt;
  bool alarmed = false;  // that it lasts too long
  std::optional<Moment> marked_at =
      std::nullopt;  // by us; the server keeps it until it is detached
};

// A volume whose attachment is gone (fence/releasing).
struct PendingRelease {
  Detachment detachment;
  Moment gone_at{};
  std::string name = {};       // what the node's status calls it, once it is known
  bool may_have_left = false;  // its release was sent, and nobody has heard what came of it
  bool late = false;           // the last attempt was refused because what it goes by was too old
  std::optional<Moment> sent_at = std::nullopt;  // it was released, and is to be acknowledged
  std::optional<Moment> acknowledged_at = std::nullopt;  // the node's status lists it no more
};

// A volume that stays attached to the node, and no pod of it is left there (fence/left_volumes).
struct LeftVolume {
  Uid uid;  // of its attachment
  Moment since{};
  std::optional<Moment> told = std::nullopt;
};

// What an incident remembers from one pass to the next.
struct Memory {
  // Of the bindings in one mode: a policy that fails or counts while it observes changes nothing
  // for one that enforces.
  struct Side {
    Breaker breaker;  // policies that fail
    Tallies tallies;  // what each policy has come to
  };
  [[nodiscard]] Side& side(policy::Mode mode) {
    return mode == policy::Mode::Enforce ? enforcing : observing;
  }

  std::set<Uid> handled;         // pods that it has settled
  std::map<Uid, Moment> pauses;  // the server asked not to be asked again before; by object
  Verification verification;     // what becomes of them
  PodsRead pods_read;            // by the last pass
  // The node's boot when the leader before us last read it, for as long as nobody has compared.
  std::optional<std::string> inherited_boot;
  PulseWatch pulse;
  Renewals renewals;  // of the Leases of those who detach
  // When its Ready condition last changed, by its own word, and when that word was first heard.
  struct Word {
    std::optional<WallTime> changed;
    Moment heard{};
  } word;
  std::map<std::string, Detachment> detachments;  // by the attachment's name
  Duration detach_pause{};                        // between looks at attachments that are going
  unsigned put_off = 0;  // passes in a row whose lists were too old to detach by
  std::map<std::string, PendingRelease> releases;  // by the attachment's name
  Duration release_pause{};                        // between looks at those that cannot go on
  // What left, and is waited for no more: another node may have it if this one comes back.
  std::map<std::string, PendingRelease> released;
  std::set<std::string> decided;  // attachments of pods that policies wanted deleted, by name
  std::map<std::string, LeftVolume> left_volumes;  // by the attachment's name
  // Before which our taint was set: it is set again when somebody drops it.
  std::optional<DeletePod> fenced_for;
  bool taint_failed = false;   // the pass before gave that up
  bool retire_failed = false;  // the same of the taint that puts the node out of service
  // By which the node was put out of service: the same for that taint.
  std::optional<TaintWish> retired_for;
  // The node when it was last there; kept where a binding acts on deleted nodes, or it was silent.
  std::optional<kube::Node> last_seen;
  // The pods of the first complete pass beside a successor, and what ran in them by their status.
  // By stamps alone a clock that was put back, of a server or of the new kubelet, would make ours
  // what came later or was started since.
  struct LeftBehind {
    std::shared_ptr<const policy::PolicySet> by;  // which says what is listed
    std::map<Uid, std::string> pods;              // starts_of()
  };
  std::optional<LeftBehind> left_behind;
  // Why nobody may touch the node, by the newest news or reading of this very one: who holds it
  // does not let go by its object's being deleted or made anew.
  std::optional<std::string> hold;
  // By the last reading of this very node its kubelet was dead. Whatever is made under its name
  // afterwards does not bring it back to life.
  bool was_silent = false;
  std::string boot_id;   // of the machine that failed, as far as it was known when it did
  unsigned retired = 0;  // how often
  std::map<Uid, Moment> detaching_since;  // attachments-first: pods whose attachments are to go
  Side enforcing;
  Side observing;
  std::set<std::pair<std::string, audit::Reason>> mentioned;  // by binding: what is told once
  // What was last recorded of a pod, by binding and kind of record: the same again is no news, or
  // an incident that waits for one pod would tell of all the others in every pass.
  std::map<std::pair<std::string, Uid>, std::pair<audit::Reason, std::string>> told;
};

// Whether a pod that is bound to the node's name is one of the machine that we mean.
[[nodiscard]] bool concerns(const Memory& memory, const Reading& reading, const kube::Pod& pod);

// When a pod that was deleted and is kept by its finalizers is looked at again.
constexpr Duration kMarkedPause = std::chrono::seconds(60);

// What one pass is about.
struct Occasion {
  std::shared_ptr<const policy::PolicySet> set;  // in force when the pass began; it keeps this one
  Downtime downtime;
  IncidentId incident;
  std::uint32_t attempt = 1;
  bool unknown = false;  // Ready is believed to be Unknown: the roll is called beside the reads
};

class Inquiry {
 public:
  // All references must outlive it.
  Inquiry(Surroundings& surroundings, const Occasion& occasion,
          std::shared_ptr<const Authority> authority, Memory& memory);

  // Before the first pod: the node as the authority's reading shows it.
  void begin(kube::Node node);

  // What has to be known about the pod before it can be judged: all that the policies need which
  // select it.
  [[nodiscard]] Wants wants_of(const kube::Pod& pod) const;

  // What is to be done, if anything. What has to come later is added to `result`. A pod that no
  // binding selects leaves no trace. `known` is what was gathered about the pod; a policy that
  // needs more waits.
  [[nodiscard]] std::optional<Deed> judge(kube::Pod pod, const Gathered& known,
                                          const policy::ClusterFacts& cluster, PassResult& result);

  // That of the first policy that enforces and wants the node out of service while it is not.
  [[nodiscard]] const std::optional<TaintWish>& taint_wish() const { return taint_wish_; }
  // What would be done in mode enforce, of pods in these namespaces, is told when somebody has read
  // whether they are held.
  [[nodiscard]] std::set<Namespace> observed_spaces() const;
  void tell_observed(PassResult& result);
  // Who spoke, or may have spoken, against touching some pod of the node.
  struct Objection {
    audit::Reason reason;
    std::string text;
  };
  [[nodiscard]] const std::optional<Objection>& objection() const { return objection_; }

 private:
  struct Case;
  [[nodiscard]] std::vector<std::size_t> selecting(const kube::Pod& pod) const;
  void ask_about_node(std::size_t index, const policy::ClusterFacts& cluster);
  void wish_taint(std::size_t index, const std::string& why);
  // Asked again, it wants it no more, or could not say.
  void drop_wish(std::size_t index);
  // Where a taint may evict the pod, whatever would have been done to it otherwise.
  void hear_objections(const Case& asked, PassResult& result);
  void hear_guards(const std::vector<std::size_t>& selected_by, Case& asked, PassResult& result);
  void hear_node_holds(const std::vector<std::size_t>& selected_by, Case& asked);
  void object_unasked(const kube::Pod& pod);
  [[nodiscard]] bool lets_go_of(const kube::Pod& pod, PassResult& result);
  void ask(std::size_t index, Case& asked);
  void ask_later(std::size_t index, Case& asked);
  [[nodiscard]] Opinion run(std::size_t index, Case& asked);
  [[nodiscard]] std::optional<Deed> enforce(Case& asked, PassResult& result);
  // A release begins with a pod whose volumes somebody will detach, and can: why it does not begin
  // yet. Before the pod is gone that costs nothing.
  struct Obstacle {
    audit::Reason reason;
    std::string text;
  };
  [[nodiscard]] std::optional<Obstacle> obstacle_to_release(const Case& asked,
                                                            const policy::Verdict& verdict);
  // Why nobody knows that the driver's attacher is alive; "" when it is, or is not watched.
  [[nodiscard]] std::string silence_of_attacher(const std::string& driver, const Gathered& known);
  [[nodiscard]] Deed deed_of(Case& asked, const Opinion& by);
  // What a policy had to say beside its verdict.
  void log_lines(const policy::Binding& by, const kube::Pod& pod,
                 const std::vector<std::string>& lines);
  void observe(const Case& asked, PassResult& result);
  // A pod that would be deleted in mode enforce: told when its namespace was read.
  struct Observed {
    kube::Pod pod;
    Opinion by;
  };
  void tell_observed(const Observed& observed, PassResult& result);
  [[nodiscard]] std::pair<audit::Reason, std::string> wait_of(const Opinion& opinion) const;
  void look_again(const Decision& decision, const Case& asked, PassResult& result) const;
  void note_failures(const Decision& decision, const Case& asked, PassResult& result) const;

  [[nodiscard]] const policy::Binding& binding(std::size_t index) const {
    return occasion_.set->bindings[index];
  }
  [[nodiscard]] policy::NodeFacts node_facts(std::size_t index) const;
  void tell_usage(const policy::Binding& binding, const policy::Usage& usage) const;

  Surroundings& around_;
  const Occasion& occasion_;
  std::shared_ptr<const Authority> authority_;
  Memory& memory_;
  Minutes minutes_;
  kube::Node node_;
  std::vector<Standing> standings_;  // by binding
  std::vector<bool> node_judged_;    // by binding: it was asked about the node
  // By binding: what it said of the node, or nothing because it failed.
  std::map<std::size_t, std::optional<policy::Verdict>> node_holds_;
  std::vector<Observed> observed_;
  const bool may_taint_;
  std::optional<TaintWish> taint_wish_;
  std::optional<Objection> objection_;
};

}  // namespace moonfence::fence
