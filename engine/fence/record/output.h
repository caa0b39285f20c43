#pragma once

// Output is where an incident writes what it means to do and what came of it.

#include <functional>
#include <string>

#include "audit/trail.h"
#include "base/names.h"
#include "fence/record/journal.h"
#include "policy/bundle/policy_set.h"
#include "policy/lua/trace.h"
#include "policy/values/limits.h"
#include "port/log.h"

namespace moonfence::fence {

// What one policy read when it was asked about one pod; nothing, if what it said of the whole node
// is its word on the pod too. Without a listener nobody notes it.
using EvaluationWatch =
    std::function<void(const PodRef& pod, const policy::Binding& by, const policy::Trace& trace)>;

struct Output {
  Journal& journal;
  audit::Trail& trail;
  port::Log& log;
  // Told what each run of a policy took; empty: nobody counts.
  std::function<void(const std::string& policy, const policy::Usage& usage)> ran = {};
  EvaluationWatch on_evaluation = {};  // tools: hears of each pod that a policy was asked about
};

}  // namespace moonfence::fence
