#pragma once

// Access is what an incident can ask: the API server, endpoints, a health source, the clock.

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "cluster/endpoints/endpoint.h"
#include "fence/leases/peer_lease_reader.h"
#include "fence/read/health_source.h"
#include "fence/read/pod_watch.h"
#include "kube/calls/reader.h"
#include "kube/leases/lease.h"
#include "kube/leases/revisions.h"
#include "loop/loop.h"
#include "loop/turn_queue.h"
#include "policy/values/facts.h"

namespace moonfence::fence {

// Reads the policies and the mode live and puts in force what differs; then, in a later turn, says
// that what is in force is what the API server had when this was called or later, or why nobody
// knows. A watch that stands still looks like one that has nothing to tell. Says nothing once
// `alive` has ended.
using ProvePolicies = std::function<void(std::weak_ptr<const void> alive,
                                         std::function<void(const Result<void>&)> done)>;

struct Access {
  loop::Loop& loop;
  kube::Reader& reader;
  PeerLeaseReader& peer_lease_reader;
  std::function<policy::ClusterFacts()> cluster_facts;
  const std::set<std::string>& allowed_reads;  // see PolicyFetch
  cluster::Endpoints* endpoints = nullptr;     // null: none can be asked
  HealthSource* source = nullptr;              // whose word incidents go by; null: Kubernetes'
  PodWatches* pod_watches = nullptr;           // null: incidents look at pods by time only
  loop::TurnQueue* looks = nullptr;   // of ReplacementWatch; null: incidents look side by side
  ProvePolicies prove_policies = {};  // empty: they come from no server
  // When a Lease was written last; empty: only what an incident itself has seen counts.
  std::function<kube::Revisions::Written(const kube::Lease&)> written = {};

  [[nodiscard]] kube::Revisions::Written when_written(const kube::Lease& lease) const {
    return written ? written(lease) : kube::Revisions::Written();
  }
};

}  // namespace moonfence::fence
