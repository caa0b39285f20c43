#pragma once

// What the remediator (fence/remediation) needs of the engine.

#include <functional>
#include <set>
#include <vector>

#include "base/names.h"
#include "base/time.h"
#include "cluster/nodes/node_cache.h"
#include "fence/incident/incidents_by_signal.h"
#include "fence/remediation/remediations.h"

namespace moonfence::app {

class RemediationHost final : public fence::Remediations::Host {
 public:
  // All that is referred to must outlive it.
  RemediationHost(fence::IncidentsBySignal& incidents, cluster::NodeCache& nodes,
                  std::function<WallTime()> now);

  [[nodiscard]] bool is_informed() const override;
  [[nodiscard]] const cluster::NodeView* find(const NodeName& name) const override;
  bool ask(const NodeName& name) override;
  void withdraw_all_but(const std::set<NodeName>& asked) override;
  [[nodiscard]] std::vector<fence::IncidentStatus> incidents() const override;
  [[nodiscard]] IncidentId incident_of(const NodeName& name) const override;
  [[nodiscard]] WallTime now() const override { return now_(); }

 private:
  fence::IncidentsBySignal& incidents_;
  cluster::NodeCache& nodes_;
  const std::function<WallTime()> now_;
};

}  // namespace moonfence::app
