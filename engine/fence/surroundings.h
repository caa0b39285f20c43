#pragma once

// What every incident needs of the engine; owned by app/, outlives them all.

#include <functional>
#include <set>
#include <string>

#include "audit/trail.h"
#include "cluster/endpoint.h"
#include "fence/actions.h"
#include "fence/health_source.h"
#include "fence/journal.h"
#include "fence/leadership.h"
#include "fence/roll_call.h"
#include "kube/reader.h"
#include "loop/loop.h"
#include "policy/policy_set.h"
#include "port/log.h"

namespace moonfence::fence {

struct Surroundings {
  loop::Loop& loop;
  kube::Reader& reader;
  GuardedActions& actions;
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
};

}  // namespace moonfence::fence
