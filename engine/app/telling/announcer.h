#pragma once

// Turns audit records, and what else is news of a node, into Kubernetes events: what an operator
// sees with `kubectl describe` of the node or the pod.

#include <optional>

#include "audit/trail.h"
#include "fence/fencers/fencer_check.h"
#include "fence/publication/evidence_publisher.h"
#include "kube/calls/events.h"

namespace moonfence::app {

// nullopt: the record is not worth an event.
[[nodiscard]] std::optional<kube::EventNews> news_of(const audit::Record& record);
// Of a node whose fencers do not work.
[[nodiscard]] kube::EventNews news_of(const fence::FencerCheck::Broken& broken);
// What is proven of a node, and stands there for others.
[[nodiscard]] kube::EventNews news_of(const fence::EvidencePublisher::News& news);

}  // namespace moonfence::app
