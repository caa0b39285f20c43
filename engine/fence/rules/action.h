#pragma once

// Action is one thing that the engine does to what is not its own, as a value: to which object, and
// on whose word. GuardedCall performs it. What tells one kind from another stands here: the guard
// that it passes, and its form. A kind without one of them does not compile.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include <nlohmann/json.hpp>

#include "audit/reason.h"
#include "audit/trail.h"
#include "fence/rules/guard.h"
#include "kube/objects/objects.h"

namespace moonfence::fence {

struct DeletePod {
  kube::Pod pod;
  IncidentId incident;
  std::string policy;
  std::string policy_digest;  // of its binding
  std::string set_digest;     // of the set that judged: all three must be in force when it leaves
  std::string why;            // the policy's reason
  std::uint32_t attempt = 1;
  Moment judged{};                     // by then a list had shown it on the node
  policy::ProofDemands proof = {};     // of the policies that enforce
  KnownDrivers drivers = {};           // where the engine's configuration demands proof by driver
  std::set<std::string> storage = {};  // isolates the pod when all of it refuses the node
  std::string evidence = {};  // what was known of the node, where some was demanded; for people
  bool fail = false;          // its status is to say Failed before
  WallTime wall{};            // by the API server's clock, when it was judged
};

// Sets the pod's phase to Failed, with condition DisruptionTarget, before its deletion and by the
// deletion's own right. To a Job and to Kubernetes it is as good as the deletion: the pod may be
// replaced, and its volumes detached. `pod_changed`: it is not as it was when it was judged.
struct FailPod {
  DeletePod deletion;
};

// Rests on the verdict about a pod. Its usual outcome is `marked_only`: it is gone when its
// attacher lets go.
struct DeleteAttachment {
  DeletePod verdict;
  AttachmentCase target;
};

// Rests on the verdict about the pod that used the volume. `release_overtaken`: the node's status
// is not what it was read as, and stays as it is.
struct ReleaseVolume {
  DeletePod verdict;
  ReleaseCase target;
};

// Sets our taint, by operations_to_set(), before the deletion that waits for it and by the
// deletion's own right. `node_changed`, here and below: it was read by what is no longer so.
struct SetFencedTaint {
  DeletePod waiting;
  nlohmann::json operations;
};

// Sets Kubernetes' taint out-of-service, by operations_to_set(): on the word of a policy about the
// node, and by what becomes of all its pods.
struct SetOutOfService {
  IncidentId incident;
  std::string policy;
  std::string policy_digest;
  std::string set_digest;
  std::string why;
  std::uint32_t attempt = 1;
  std::shared_ptr<const Eviction> eviction;
  std::string evidence;  // as DeletePod's
  nlohmann::json operations;
};

// Has a fencer switch the machine off, or have its storage refuse it. It rests on the verdict about
// a pod that lacks this proof; `done`: it was accepted. What came of it is read afterwards.
struct TellFencer {
  DeletePod waiting;
  OrderCase target;
};

// Sets the taint of a machine that has fallen silent, by operations_to_set().
struct SetSilentTaint {
  std::shared_ptr<const Silence> right;
  nlohmann::json operations;
};

// Takes what is ours off a node again, by operations_to_lift() or operations_to_lift_silent().
struct LiftTaints {
  std::shared_ptr<const Lift> right;
  nlohmann::json operations;
  bool of_silence = false;  // by the latter
};

using Action = std::variant<DeletePod, FailPod, DeleteAttachment, ReleaseVolume, SetFencedTaint,
                            SetOutOfService, TellFencer, SetSilentTaint, LiftTaints>;

// The guard's word on it.
[[nodiscard]] std::optional<audit::Reason> refuse(const Action& action, const Authority& authority,
                                                  Moment now);

// How it is told, and counted.
struct Form {
  audit::Record told;  // what its records have in common
  audit::Reason intent;
  Uid subject;               // what it is done to
  std::string why;           // beside its intent, and its refusal
  std::string refused = {};  // in place of that beside its refusal; "": the same
  std::string done = {};     // beside its outcome, when it is done
  bool is_step = true;       // of the incident's record, known there by its subject
  bool fences = true;        // its node is being fenced while it is under way, and counts as fenced
  // Where a test of its patch fails: what it was read by is no longer so.
  audit::Reason overtaken = audit::Reason::NodeChanged;
};
[[nodiscard]] Form form_of(const Action& action, const Authority& authority);
// Beside the refusal of what rests on the verdict about a pod: who holds it, or what proof is
// missing. "" of anything else.
[[nodiscard]] std::string refusal_text(const Action& action, const Authority& authority,
                                       audit::Reason reason);

// What is known of the node now, for people; "" where the pod's deletion demands no proof.
[[nodiscard]] std::string evidence_told(const Authority& authority, const DeletePod& verdict);

// What every record of something that rests on the verdict about a pod has in common.
[[nodiscard]] audit::Record record_about(const char* action, const Authority& authority,
                                         const DeletePod& verdict);

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

}  // namespace moonfence::fence
