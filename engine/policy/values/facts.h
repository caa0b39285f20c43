#pragma once

// What a policy can ask to know beside the pod's own object (`needs`, `fetch`). Whoever evaluates
// gathers it: the engine from the cluster, the test tool from a fixture. A part that is absent was
// not declared; one that was declared and could not be had means that the policy is not called at
// all.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/time.h"
#include "policy/values/evidence.h"

namespace moonfence::policy {

// What a policy declares to need beside the pod (`needs`).
struct Needs {
  bool volumes = false;
  bool placement = false;
  bool root_owner = false;
  bool siblings = false;

  friend bool operator==(const Needs&, const Needs&) = default;
};
constexpr Needs kEveryNeed = {
    .volumes = true, .placement = true, .root_owner = true, .siblings = true};

// One claim of the pod on its way pod > PVC > PV > VolumeAttachment.
struct VolumeFacts {
  std::string name;   // in spec.volumes
  std::string claim;  // of the PersistentVolumeClaim
  std::string space;  // its namespace
  std::string state;  // bound, unbound, claim_missing, volume_missing
  // "" from here on while it is not bound
  std::string pv;
  std::string driver;  // that attaches it (policy/input/translated), "" when no CSI driver does
  std::string handle;  // "" of a volume that Kubernetes translates to CSI
  std::string storage_class;
  std::string provisioner;  // beta annotation, else GA, else ""
  std::vector<std::string> access_modes;
  bool ephemeral = false;  // lives and dies with the pod: its replacement gets another one
  std::optional<std::string> attachment;  // name of the VolumeAttachment to the pod's node
};

struct OwnerFacts {
  std::string kind;  // "" when there is none
  std::string name;
  std::string uid;
  std::string api_version;
};

// A pod of the namespace that uses the same claim.
struct SiblingFacts {
  std::string name;
  std::string uid;
  std::string node_name;
  std::string claim;
  std::string phase;
  bool ready = false;
  bool terminating = false;
  std::string attach_error;  // its newest FailedAttachVolume message, "" when there is none
};

struct PodFacts {
  std::optional<std::vector<VolumeFacts>> volumes;     // need "volumes"
  std::optional<std::vector<std::string>> candidates;  // need "placement": nodes that can take it
  // Need "root_owner": from the pod's controller on; the last is the root. Empty: it has none.
  std::optional<std::vector<OwnerFacts>> owner_chain;
  std::optional<std::vector<SiblingFacts>> siblings;  // need "siblings"
  nlohmann::json fetched = nlohmann::json::object();  // by name: {"status": 200, "body": …}
};

// What a policy has come to in an incident so far.
struct Tally {
  std::int64_t seen = 0;     // pods it was asked about
  std::int64_t deleted = 0;  // pods it had deleted
  std::int64_t held = 0;     // pods it made wait or forbade
};

// What a policy sees beside its pod: the cluster as the engine believes it to be.
struct ClusterFacts {
  WallTime now;  // the API server's clock
  std::int64_t nodes_total = 0;
  std::int64_t nodes_ready = 0;
  std::int64_t nodes_schedulable = 0;
  Tally tally = {};
};

// What detection says of a node's machine: the words of cluster::Kernel, which this layer does not
// know.
enum class Machine { NotObservable, Answers, Unsure, Silent };
[[nodiscard]] constexpr std::string_view to_string(Machine machine) {
  switch (machine) {
    case Machine::NotObservable:
      return "not_observable";
    case Machine::Answers:
      return "answers";
    case Machine::Unsure:
      return "unsure";
    case Machine::Silent:
      return "silent";
  }
  return "not_observable";
}

// What the engine knows about the pod's node beside its object.
struct NodeFacts {
  bool exists = true;          // false: gone from the API, `node` is what was read last
  std::uint32_t failures = 1;  // consecutive down observations
  // Since when Ready is what it is, as far as we have heard; nullopt: by its own stamp, which is of
  // another machine's clock.
  std::optional<WallTime> since = std::nullopt;
  EvidenceSet evidence = {};  // what is known of a node that seems to be dead
  // For how long at least its kubelet has not renewed its Lease; nullopt: nobody has read it.
  std::optional<Duration> lease_age = std::nullopt;
  Machine machine = Machine::NotObservable;
  // By name, of node_fetch; null: nothing was fetched for this node.
  std::shared_ptr<const nlohmann::json> fetched = nullptr;
};

}  // namespace moonfence::policy
