#pragma once

// The objects that the simulated cluster is made of, as Kubernetes 1.20 would show them.

#include <string>
#include <vector>

#include "sim/ground/machines.h"
#include "sim/ground/plan.h"
#include "sim/ground/volumes.h"
#include "sim/store/object.h"

namespace moonfence::sim {

// A pod's containers take that long to stop: a duration as text, on pods of our workloads.
inline constexpr std::string_view kStopTime = "sim.moonfence.io/stop-time";
inline constexpr std::string_view kUnreachable = "node.kubernetes.io/unreachable";
inline constexpr std::string_view kNotReady = "node.kubernetes.io/not-ready";

// An address for whoever has that name. Two names may come to the same.
[[nodiscard]] std::string address_of(std::string_view name);
// What the machine's firmware calls it: n1 is 6e310000-0000-4000-8000-000000000000.
[[nodiscard]] std::string system_uuid(std::string_view name);
[[nodiscard]] Json node_blueprint(const NodePlan& plan, const Machine& machine,
                                  const std::string& stamp);
[[nodiscard]] Json lease_blueprint(const Json& node, const Timings& timings,
                                   const std::string& micro_stamp);

// What status.conditions says of a kubelet's own judgement.
void set_node_conditions(Json& node, bool ready, const std::string& stamp);
// And what a controller says of one that has not been heard of since.
void set_node_silent(Json& node, const std::string& stamp);

// StatefulSet, Deployment, ReplicaSet, DaemonSet or Job; and the template of their pods.
[[nodiscard]] Json workload_blueprint(const WorkloadPlan& plan, const std::string& name);
// A pod from a template: {"metadata": …, "spec": …}. `owner` may be null.
[[nodiscard]] Json pod_blueprint(const Json& pod_template, const std::string& space,
                                 const std::string& name);
// An owner of a kind that nobody in this cluster knows.
void set_foreign_owner(Json& pod, const WorkloadPlan& plan);
void set_controller(Json& object, std::string_view kind, const Json& owner);
// A static pod's shadow; `static_uid` is the kubelet's own UID of it.
[[nodiscard]] Json mirror_pod_blueprint(const WorkloadPlan& plan, const Json& node,
                                        const std::string& static_uid);

// Status of a pod whose containers all run, are done, or were stopped.
void set_running(Json& pod, const std::string& stamp);
void set_succeeded(Json& pod, const std::string& stamp);
void set_stopped(Json& pod, const std::string& stamp);
void set_pending(Json& pod);

// A claim and the volume that is bound to it.
struct BoundClaim {
  Json claim;
  Json volume;
};
[[nodiscard]] BoundClaim claim_blueprint(const std::string& space, const std::string& name,
                                         const std::string& driver);
[[nodiscard]] Json attachment_blueprint(const Volume& volume, const std::string& node);

}  // namespace moonfence::sim
