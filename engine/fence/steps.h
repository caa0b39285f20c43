#pragma once

// What an incident does, as steps of its record, and what a record means to whoever goes on with
// the incident.

#include "fence/actions.h"
#include "fence/incident_record.h"
#include "fence/inquiry.h"
#include "policy/facts.h"

namespace moonfence::fence {

[[nodiscard]] IncidentRecord::Step step_of(const PodDeletion& deletion);
[[nodiscard]] IncidentRecord::Step step_of(const AttachmentDeletion& deletion,
                                           const policy::VolumeFacts& volume);

// What the leader before us had settled and had still to do. Each attachment is to go by the UID
// that was recorded; another one of its name is another one's.
void restore(Memory& memory, const IncidentRecord& record);

}  // namespace moonfence::fence
