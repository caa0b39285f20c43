#include "app/engine/remediation_host.h"

#include <utility>

namespace moonfence::app {

RemediationHost::RemediationHost(fence::IncidentsBySignal& incidents, cluster::NodeCache& nodes,
                                 std::function<WallTime()> now)
    : incidents_(incidents), nodes_(nodes), now_(std::move(now)) {}

bool RemediationHost::is_informed() const {
  return nodes_.synced() && incidents_.is_informed();
}

const cluster::NodeView* RemediationHost::find(const NodeName& name) const {
  return nodes_.find(name);
}

bool RemediationHost::ask(const NodeName& name) {
  return nodes_.look_again_at(name, cluster::Look::Asked);
}

void RemediationHost::withdraw_all_but(const std::set<NodeName>& asked) {
  incidents_.withdraw_all_but(asked);
}

std::vector<fence::IncidentStatus> RemediationHost::incidents() const {
  return incidents_.incident_statuses();
}

IncidentId RemediationHost::incident_of(const NodeName& name) const {
  return incidents_.open_of(name);
}

}  // namespace moonfence::app
