#pragma once

// What an incident does, as steps of its record.

#include "fence/judge/memory.h"
#include "fence/record/incident_record.h"
#include "fence/rules/action.h"

namespace moonfence::fence {

[[nodiscard]] IncidentRecord::Step step_of(const DeletePod& deletion);
// The authority's reading is what a release of its volume would rest on.
[[nodiscard]] IncidentRecord::Step step_of(const DeleteAttachment& deletion,
                                           const Detachment& detachment,
                                           const Authority& authority);

[[nodiscard]] IncidentRecord::Step step_of(const TaintWish& wish, const Uid& node);

}  // namespace moonfence::fence
