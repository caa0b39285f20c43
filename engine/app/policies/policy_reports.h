#pragma once

// PolicyReports tells log, metrics and health which policies are in force, and what an edit of them
// has brought.

#include <string>
#include <vector>

#include "app/telling/health.h"
#include "app/telling/metrics.h"
#include "policy/bundle/policy_set.h"
#include "policy/bundle/reload.h"
#include "port/log.h"

namespace moonfence::app {

class PolicyReports {
 public:
  // All must outlive it.
  PolicyReports(port::Log& log, Metrics& metrics, Health& health, const policy::ActiveSet& active)
      : log_(log), metrics_(metrics), health_(health), active_(active) {}

  // Once for each edit.
  void tell_reload(const policy::ReloadReport& report, const std::vector<policy::ReloadNews>& news,
                   WallTime now);
  // The same without what is new, when only the mode has changed.
  void show(const policy::ReloadReport& report, WallTime now);
  // Since when policies are in force that an edit was to replace: it grows by itself.
  void tell_stale(const policy::ReloadReport& report, WallTime now);

 private:
  [[nodiscard]] std::string version_of(const policy::PolicyStatus& status) const;

  port::Log& log_;
  Metrics& metrics_;
  Health& health_;
  const policy::ActiveSet& active_;
  std::string counted_version_;  // of the ConfigMap, counted as a reload
};

}  // namespace moonfence::app
