#pragma once

// Memory is what an incident remembers from one pass to the next. Values; the incident owns it.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "audit/reason.h"
#include "base/names.h"
#include "base/time.h"
#include "fence/judge/failed_acts.h"
#include "fence/judge/policy_breaker.h"
#include "fence/judge/verdict_counts.h"
#include "fence/leases/kubelet_lease.h"
#include "fence/leases/renewals.h"
#include "fence/read/pod_watch.h"
#include "fence/rules/action.h"
#include "fence/rules/reading.h"
#include "fence/verify/replacements.h"
#include "kube/objects/objects.h"
#include "policy/bundle/policy_set.h"

namespace moonfence::fence {

// A policy wants the node out of service.
struct TaintWish {
  std::string policy;
  std::string policy_digest;  // of its binding
  std::string set_digest;
  std::string why;
  policy::ProofDemands proof = {};
  std::string evidence = {};  // what was known of the node, where some was demanded
  // Of its pods the first that came up, without its JSON; none in what a leader before us wished.
  std::optional<kube::Pod> pod = std::nullopt;
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

// A volume whose attachment is gone (fence/act/volume_releaser).
struct PendingRelease {
  Detachment detachment;
  Moment gone_at{};
  std::string name = {};       // what the node's status calls it, once it is known
  bool may_have_left = false;  // its release was sent, and nobody has heard what came of it
  bool late = false;           // the last attempt was refused because what it goes by was too old
  std::optional<Moment> sent_at = std::nullopt;  // it was released, and is to be acknowledged
  std::optional<Moment> acknowledged_at = std::nullopt;  // the node's status lists it no more
};

// A volume that stays attached to the node, and no pod of it is left there
// (fence/act/left_volumes).
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
    PolicyBreaker breaker;         // policies that fail
    VerdictCounts verdict_counts;  // what each policy has come to
  };
  [[nodiscard]] Side& side(policy::Mode mode) {
    return mode == policy::Mode::Enforce ? enforcing : observing;
  }

  std::set<Uid> handled;  // pods that it has settled
  FailedActs failed;
  Replacements replacements;  // what becomes of them
  PodsRead pods_read;         // by the last pass
  // The node's boot when the leader before us last read it, for as long as nobody has compared.
  std::optional<std::string> inherited_boot;
  LeaseWatch kubelet_lease;
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
  std::map<Uid, Moment> deleting_since;  // attachments-first: pods whose attachments are to go
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

}  // namespace moonfence::fence
