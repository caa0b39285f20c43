#pragma once

// What every incident needs of the engine; owned by app/, outlives them all.

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "audit/trail.h"
#include "cluster/endpoints/endpoint.h"
#include "fence/guarded_call.h"
#include "fence/health_source.h"
#include "fence/journal.h"
#include "fence/leadership.h"
#include "fence/pod_watch.h"
#include "fence/roll_call.h"
#include "kube/calls/reader.h"
#include "kube/leases/lease.h"
#include "kube/leases/revisions.h"
#include "loop/loop.h"
#include "loop/turn_queue.h"
#include "policy/bundle/policy_set.h"
#include "policy/lua/trace.h"
#include "port/log.h"

namespace moonfence::fence {

// What one policy read when it was asked about one pod; nothing, if what it said of the whole node
// is its word on the pod too. Without a listener nobody notes it.
using EvaluationWatch =
    std::function<void(const PodRef& pod, const policy::Binding& by, const policy::Trace& trace)>;

// Reads the policies and the mode live and puts in force what differs; then, in a later turn, says
// that what is in force is what the API server had when this was called or later, or why nobody
// knows. A watch that stands still looks like one that has nothing to tell. Says nothing once
// `alive` has ended.
using ProvePolicies = std::function<void(std::weak_ptr<const void> alive,
                                         std::function<void(const Result<void>&)> done)>;

struct Preplannings;

struct Surroundings {
  loop::Loop& loop;
  kube::Reader& reader;
  GuardedCall& actions;
  Journal& journal;
  audit::Trail& trail;
  port::Log& log;
  const policy::ActiveSet& active;
  const Leadership& leadership;
  Brake& brake;
  const SelfDoubt& doubt;
  RollCall& roll_call;
  const Protections& protections;
  std::function<policy::ClusterFacts()> cluster_facts;
  const std::set<std::string>& fencing_drivers;  // see Authority
  const std::set<std::string>& allowed_reads;    // see Fetching
  cluster::Endpoints* endpoints = nullptr;       // null: none can be asked
  const ReleaseRules& release;
  Quarantine quarantine = Quarantine::Off;  // see Authority
  HealthSource* source = nullptr;           // whose word incidents go by; null: Kubernetes'
  // Told what each run of a policy took; empty: nobody counts.
  std::function<void(const std::string& policy, const policy::Usage& usage)> ran = {};
  PodWatches* pod_watches = nullptr;     // null: incidents look at pods by time only
  EvaluationWatch on_evaluation = {};    // tools: hears of each pod that a policy was asked about
  loop::TurnQueue* looks = nullptr;      // of Verifying; null: incidents look side by side
  Preplannings* preplannings = nullptr;  // null: a pass reads nothing before it begins
  ProvePolicies prove_policies = {};     // empty: they come from no server
  // When a Lease was written last; empty: only what an incident itself has seen counts.
  std::function<kube::Revisions::Written(const kube::Lease&)> written = {};

  [[nodiscard]] kube::Revisions::Written when_written(const kube::Lease& lease) const {
    return written ? written(lease) : kube::Revisions::Written();
  }
};

}  // namespace moonfence::fence
