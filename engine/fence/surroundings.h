#pragma once

// What every incident needs of the engine; owned by app/, outlives them all.

#include <functional>
#include <set>
#include <string>

#include "audit/trail.h"
#include "fence/actions.h"
#include "fence/journal.h"
#include "fence/leadership.h"
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
  const Protections& protections;
  std::function<policy::ClusterFacts()> cluster_facts;
  const std::set<std::string>& fencing_drivers;  // see Authority
  const std::set<std::string>& allowed_reads;    // see Fetching
};

}  // namespace moonfence::fence
