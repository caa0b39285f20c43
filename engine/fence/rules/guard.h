#pragma once

// The guard answers one question, in front of every destructive call and again when its bytes are
// about to leave: may this happen now? It is a pure function of what is known; every refusal is a
// Reason. No policy and no setting of a policy reaches it.

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "audit/reason.h"
#include "base/names.h"
#include "base/time.h"
#include "cluster/detection/kernel.h"
#include "fence/brake/brake.h"
#include "fence/leadership/leadership.h"
#include "fence/proof/demanded_proof.h"
#include "fence/proof/evidence_there.h"
#include "fence/record/record_ledger.h"
#include "fence/rules/eviction.h"
#include "fence/rules/hold_annotations.h"
#include "fence/rules/reading.h"
#include "fence/rules/self_doubt.h"
#include "fence/rules/volume_release.h"
#include "kube/objects/objects.h"
#include "policy/bundle/policy_set.h"

namespace moonfence::fence {

// What the engine's own configuration takes out of every policy's reach.
struct Protections {
  std::set<Namespace> namespaces;
  NodeName own_node;  // on which we run; empty: not known
  HoldMarks hold_marks;
  DemandedProof proof = {};
  bool fail_pods = false;  // a pod's status may be made to say Failed (setting failPods)
};

// What an incident is entitled to, shared between it and the calls that it started: closing the
// incident revokes it, also for a call that waits for a connection.
struct Authority {
  bool incident_open = true;
  NodeName node;
  Uid node_uid;             // of the node whose failure opened the incident
  Reading reading;          // the newest live reading of the node
  std::string zone;         // of the node, "" for none
  std::string source = {};  // whose word opened it: signal_of() of the bindings that may act
  // What of the incident's record stands in the cluster; null: nothing.
  std::shared_ptr<RecordLedger> ledger;
  // All outlive every incident and call; null permits nothing.
  Brake* brake = nullptr;
  const SelfDoubt* doubt = nullptr;
  const Protections* protections = nullptr;
  const policy::ActiveSet* active = nullptr;
  const Leadership* leadership = nullptr;
  Quarantine quarantine = Quarantine::Off;    // whether a taint of ours has to come first
  const cluster::Kernels* kernels = nullptr;  // null: nobody watches the machines
  const Powers* powers = nullptr;             // null: no fencer is bound
  // CSI drivers whose ControllerUnpublish keeps a node without power or network from writing, by
  // the word of who runs the cluster (setting fencingDrivers).
  const std::set<std::string>* fencing_drivers = nullptr;
  const ReleaseRules* release = nullptr;
  // Of those in which something is to be done (fence/read/namespace_reading).
  NamespaceWords namespaces = {};
  HeldPods held_pods = {};
  // Of the incident's first reading, once there is one: another boot is another machine.
  std::optional<std::string> boot_id = std::nullopt;
};

// Whose verdict an action rests on, and among whom it was reached: a policy that has come into
// force since may forbid it. Both must still be in force when the action is carried out.
struct Ground {
  std::string_view policy;
  std::string_view digest;  // of its binding
  std::string_view set;     // digest of the PolicySet that judged
  Moment judged{};          // by then a list had shown the pod on the node
  // What policies demand to be known of the node; null: nothing.
  const policy::ProofDemands* proof = nullptr;
  const KnownDrivers* drivers = nullptr;  // of the pod; null: nobody has looked
  // What has to refuse the node before it is isolated: Sightings::storage.
  std::set<std::string> storage = {};
};

// Why the pod lacks proof that its node is dead, for people; "" when it lacks none.
[[nodiscard]] std::string missing_proof(const Authority& authority, const Ground& ground,
                                        const kube::Pod& pod);

// Proof is missing of which this, if it were said of the machine, would be enough.
[[nodiscard]] bool lacks_only(const policy::PowerState& aim, const Authority& authority,
                              const Ground& ground, const kube::Pod& pod);

// The same of any pod that the taint out-of-service would evict.
[[nodiscard]] std::string missing_proof_of_any(const Authority& authority,
                                               const Eviction& eviction);

// What is known of the authority's node at this moment, for a pod or volume of this storage.
[[nodiscard]] Sightings sightings_of(const Authority& authority,
                                     std::set<std::string> storage = {});

// nullopt: it may. Otherwise the first thing that speaks against it.
[[nodiscard]] std::optional<audit::Reason> refuse_pod_deletion(const Authority& authority,
                                                               const Ground& ground,
                                                               const kube::Pod& pod, Moment now);

// Nothing may be deleted before the node carries our taint: it carries none that says down, or ours
// is demanded in any case, or the one it carries was set against another boot.
[[nodiscard]] bool needs_quarantine(const Authority& authority);

// The taint comes before a deletion that waits for it: everything that speaks against the deletion
// speaks against the taint, but for its absence.
[[nodiscard]] std::optional<audit::Reason> refuse_quarantine(const Authority& authority,
                                                             const Ground& ground,
                                                             const kube::Pod& pod, Moment now);

// The out-of-service taint deletes every pod that it evicts: what speaks against deleting any of
// them, but that a DaemonSet has it, speaks against the taint; and more. No trigger of a policy
// lifts the demand that the kubelet is silent and the machine does not answer. `about` is set to
// the pod, if it is one. Whether it stands in the record is asked last.
[[nodiscard]] std::optional<audit::Reason> refuse_out_of_service(const Authority& authority,
                                                                 const Ground& ground,
                                                                 const Eviction& eviction,
                                                                 Moment now,
                                                                 const kube::Pod** about = nullptr);

// Switching off the machine of a node, or having its storage refuse it, by the verdict about a pod
// that lacks this proof.
struct OrderCase {
  PowerOrder order;  // as the fencer's newest answer had it
  std::string fencer = {};
  // All pods of the node, without their JSON: each ends with its machine, or loses its volumes.
  std::shared_ptr<const std::vector<kube::Pod>> pods = nullptr;
  bool complete = false;  // these are all
  Moment listed{};        // when they were asked for
  Duration took{};        // until they and what policies need were known
  // What a policy says of any of them against it; nullopt: nothing.
  std::optional<audit::Reason> objection = std::nullopt;
};
// What speaks against deleting the pod speaks against it, but for the taint and the proof, of which
// the aim must be all that is missing; and so does a hold on any pod of the node, or on its
// namespace. No trigger of a policy lifts the demand that the kubelet is silent and the machine
// does not answer.
[[nodiscard]] std::optional<audit::Reason> refuse_order(const Authority& authority,
                                                        const Ground& ground, const kube::Pod& pod,
                                                        const OrderCase& target, Moment now);
// Who holds one of these pods, or its node or namespace, and why; "" when nobody does.
[[nodiscard]] std::string hold_on_any(const Authority& authority, const OrderCase& target);

// Taking our taint off a node that came back.
struct Lift {
  bool wanted = true;  // false: the node changed, or we do not act any more
  Uid node_uid;
  IncidentId incident;                             // that set it
  std::string why;                                 // what proves the node clean
  std::optional<std::string> hold = std::nullopt;  // why nobody may touch the node, as it was read
  Moment read{};                                   // when the newest live read of the node was sent
  const Leadership* leadership = nullptr;
};
[[nodiscard]] std::optional<audit::Reason> refuse_lift(const Lift& lift, Moment now);

// Setting the taint of a machine that has fallen silent. It rests on no verdict about a pod.
struct Silence {
  bool wanted = true;  // false: it was heard, or we do not act any more
  std::string why;     // when it was last heard, for people
};
// By the authority's node, its reading and its kernels; somewhere a policy must be enforced.
[[nodiscard]] std::optional<audit::Reason> refuse_silent_taint(const Authority& authority,
                                                               const Silence& silence, Moment now);

// A VolumeAttachment that is to go, and what speaks for it.
struct AttachmentCase {
  kube::Attachment attachment;  // as it was read in this pass
  std::string driver;           // of the volume that the policy named
  std::string volume;           // its PersistentVolume
  std::string handle = {};      // "" of one that Kubernetes translates to CSI
  // Some other pod of the node may use the volume: one that is there, or one whose volumes could
  // not be read.
  bool used_by_others = true;
  bool before_pod = false;  // the policy wants it to go before the pod, which must be terminating
};

// What rests on the verdict about a pod, and is done to a volume of it: its own driver is what has
// to refuse the node.
[[nodiscard]] Ground on_volume(const Ground& ground, const AttachmentCase& target);

// Everything that speaks against deleting its pod speaks against it too; and more.
[[nodiscard]] std::optional<audit::Reason> refuse_attachment_deletion(const Authority& authority,
                                                                      const Ground& ground,
                                                                      const kube::Pod& pod,
                                                                      const AttachmentCase& target,
                                                                      Moment now);

// A volume whose attachment is gone and that the node's status is to be relieved of.
struct ReleaseCase {
  AttachmentCase attachment;         // as it was when it was deleted; its users are today's
  std::string name;                  // what the node's status calls the volume
  bool attachment_is_gone = false;   // the one that was asked to go, and none has its name
  bool controller_is_alive = false;  // kube-controller-manager, by its Lease
  bool attacher_is_alive = false;    // the driver's, by its Lease, if that is named
  // It was asked to go by the leader before us; what the node showed then stands in the record.
  bool carried = false;
  // When the oldest of that was asked for, or what the pod lists made known was known.
  Moment checked{};
  std::shared_ptr<const kube::NodeStorage> seen;  // from which its patch was made
};

// Everything that speaks against deleting its attachment speaks against it too; and more. No
// trigger of a policy lifts the demand that the kubelet is silent and the machine does not answer.
[[nodiscard]] std::optional<audit::Reason> refuse_release(const Authority& authority,
                                                          const Ground& ground,
                                                          const kube::Pod& pod,
                                                          const ReleaseCase& target, Moment now);

}  // namespace moonfence::fence
