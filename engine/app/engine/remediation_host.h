#pragma once

// What the remediator (fence/remediation) needs of the engine.

#include <functional>
#include <set>
#include <utility>
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
                  std::function<WallTime()> now)
      : incidents_(incidents), nodes_(nodes), now_(std::move(now)) {}

  [[nodiscard]] bool is_informed() const override {
    return nodes_.synced() && incidents_.is_informed();
  }
  [[nodiscard]] const cluster::NodeView* find(const NodeName& name) const override {
    return nodes_.find(name);
  }
  bool ask(const NodeName& name) override {
    return nodes_.look_again_at(name, cluster::Look::Asked);
  }
  void withdraw_all_but(const std::set<NodeName>& asked) override {
    incidents_.withdraw_all_but(asked);
  }
  [[nodiscard]] std::vector<fence::IncidentStatus> incidents() const override {
    return incidents_.incident_statuses();
  }
  [[nodiscard]] IncidentId incident_of(const NodeName& name) const override {
    return incidents_.open_of(name);
  }
  [[nodiscard]] WallTime now() const override { return now_(); }

 private:
  fence::IncidentsBySignal& incidents_;
  cluster::NodeCache& nodes_;
  const std::function<WallTime()> now_;
};

}  // namespace moonfence::app
