#pragma once

// NodeAudience tells what is new of a node to those who act on it. A rehearsal acts only on nodes
// that it is asked about.

#include "cluster/detection/detection.h"
#include "cluster/nodes/node_cache.h"
#include "fence/incident/incidents_by_signal.h"
#include "fence/lift/taint_lifter.h"
#include "fence/publication/evidence_publisher.h"
#include "fence/silence/silent_taints.h"

namespace moonfence::app {

class NodeAudience final : public cluster::NodeListener {
 public:
  // `detection`: null where machines are not watched.
  NodeAudience(fence::IncidentsBySignal& incidents, fence::TaintLifter& taint_lifter,
               fence::SilentTaints& silent_taints, fence::EvidencePublisher& evidence,
               cluster::Detection* detection, bool on_demand)
      : incidents_(incidents),
        taint_lifter_(taint_lifter),
        silent_taints_(silent_taints),
        evidence_(evidence),
        detection_(detection),
        on_demand_(on_demand) {}
  void look_at(const cluster::NodeView& node, cluster::Look why) override {
    if (on_demand_) {
      return;
    }
    incidents_.look_at(node, why);
    taint_lifter_.look_at(node, why);
  }
  void census_changed(const cluster::Census& census) override { incidents_.census_changed(census); }
  void saw(const cluster::NodeView& node) override {
    if (detection_ != nullptr) {
      detection_->saw(node);
    }
    if (!on_demand_) {
      silent_taints_.saw(node);
      evidence_.saw(node);
    }
  }

 private:
  fence::IncidentsBySignal& incidents_;
  fence::TaintLifter& taint_lifter_;
  fence::SilentTaints& silent_taints_;
  fence::EvidencePublisher& evidence_;
  cluster::Detection* const detection_;
  const bool on_demand_;
};

}  // namespace moonfence::app
