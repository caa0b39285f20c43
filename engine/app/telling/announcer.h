#pragma once

// Turns audit records into Kubernetes events: what an operator sees with `kubectl describe` of the
// node or the pod.

#include "audit/trail.h"
#include "kube/calls/events.h"

namespace moonfence::app {

// nullopt: the record is not worth an event.
[[nodiscard]] std::optional<kube::EventNews> news_of(const audit::Record& record);

}  // namespace moonfence::app
