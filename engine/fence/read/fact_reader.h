#pragma once

// FactReader finds out what policies need to know about a pod beside its own object
// (policy/values/facts.h): it follows the pod to its claims, their PersistentVolumes and the
// VolumeAttachments to its node, to its owners and to the pods it shares claims with. All pods of a
// pass share one FactReader: everything is read once however many pods use it. Where many claims,
// PersistentVolumes or attachments are wanted they are one list, if that is cheaper
// (fence/read/lookups).
//
// Attachments are looked for by name, a hash of handle, driver and node: no selector finds those of
// a node. What could not be read is told as `missing` and holds only the pods that need it.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/names.h"
#include "fence/read/lookups.h"
#include "fence/read/policy_fetch.h"
#include "kube/objects/objects.h"
#include "policy/host/policy.h"
#include "policy/input/pod_facts.h"
#include "policy/values/facts.h"

namespace moonfence::fence {

// What is to be known about one pod.
struct Wants {
  policy::Needs needs;
  std::vector<std::shared_ptr<const policy::Policy>> fetchers;  // policies with a fetch function
  // Policies with a node_fetch function that are yet to judge the pod's node, as each would see it.
  struct NodeFetcher {
    std::shared_ptr<const policy::Policy> policy;
    kube::Node node;
    policy::NodeFacts facts;
  };
  std::vector<NodeFetcher> node_fetchers;

  [[nodiscard]] bool nothing() const {
    return needs == policy::Needs{} && fetchers.empty() && node_fetchers.empty();
  }
};

struct Gathered {
  policy::PodFacts facts;
  std::map<const policy::Policy*, Fetched> fetched;
  // For the node, shared by its pods.
  std::map<const policy::Policy*, std::shared_ptr<const Fetched>> node_fetched;
  std::string missing;          // why a need could not be met; "" when each was
  std::string volumes_missing;  // the same of the volumes alone
  // To the pod's node, by name; also those of volumes that do not exist any more.
  std::map<std::string, kube::Attachment> attachments;
  // Leader Leases of the volumes' attachers, by driver, of those that are named, asked for no
  // earlier than at `began`; or why nobody has read it.
  std::map<std::string, Result<kube::Lease>> attachers;
  Moment began{};

  // Why the policy cannot be asked about the pod yet; "" when it can.
  [[nodiscard]] std::string missing_for(const policy::Policy& policy) const;
  [[nodiscard]] policy::PodFacts facts_for(const policy::Policy& policy) const;
};

class FactReader {
 public:
  using Done = std::function<void(Gathered)>;

  using Leases = std::map<std::string, ObjectRef>;

  // `allowed_reads`: see PolicyFetch; `endpoints`: see EndpointLookups. `attachers`: which Leases
  // are read, by driver. `now`: see Gathered::began.
  FactReader(kube::Reader& reader, Moment now, const std::set<std::string>& allowed_reads,
             cluster::Endpoints* endpoints = nullptr, Leases attachers = {})
      : attachers_(std::move(attachers)),
        began_(now),
        lookups_(reader),
        endpoint_lookups_(endpoints),
        policy_fetch_(lookups_, allowed_reads, endpoint_lookups_) {}

  // `done` may be called at once, when nothing is left to read. The pod must carry its raw JSON.
  void gather(const kube::Pod& pod, Wants wants, Done done);

  // What is gathered while it lives is asked for together.
  [[nodiscard]] Lookups::Together together() { return Lookups::Together(lookups_); }
  [[nodiscard]] std::size_t requests() const { return lookups_.requests(); }

 private:
  struct Job;
  void find_claims(const std::shared_ptr<Job>& job);
  void follow_claim(const std::shared_ptr<Job>& job, const Lookups::Body& claim);
  void follow_volume(const std::shared_ptr<Job>& job, const Lookups::Body& volume);
  void find_by_volume(const std::shared_ptr<Job>& job, const std::string& volume);
  static void take_attachment(Job& job, const Lookups::Body& object);
  void find_attacher(const std::shared_ptr<Job>& job, const std::string& driver);
  void follow_owner(const std::shared_ptr<Job>& job, const nlohmann::json& object, int depth);
  void find_siblings(const std::shared_ptr<Job>& job);
  void find_nodes(const std::shared_ptr<Job>& job);
  void fetch_for_node(const std::shared_ptr<Job>& job, const Wants::NodeFetcher& fetcher);
  void close(const std::shared_ptr<Job>& job);

  const Leases attachers_;
  const Moment began_;
  Lookups lookups_;
  EndpointLookups endpoint_lookups_;
  PolicyFetch policy_fetch_;
  std::map<Namespace, std::multimap<std::string, Lookups::Body>> users_;  // pods, by claim
  std::map<Namespace, policy::Objects> events_;
  std::optional<policy::Objects> nodes_;  // reduced to what placement asks
  // What was fetched for the node, by policy: once, however many of its pods wait for it.
  struct NodeAnswers {
    std::shared_ptr<const Fetched> found;  // null while it is being read
    std::vector<std::function<void()>> waiting;
  };
  std::map<const policy::Policy*, NodeAnswers> node_answers_;
  // Attachments by node and PersistentVolume, once a volume was seen whose handle nobody knows.
  std::optional<std::multimap<std::string, Lookups::Body>> attached_;
};

}  // namespace moonfence::fence
