#pragma once

// What an incident does, as steps of its record, and what a record means to whoever goes on with
// the incident.

#include "fence/action.h"
#include "fence/incident_record.h"
#include "fence/inquiry.h"

namespace moonfence::fence {

[[nodiscard]] IncidentRecord::Step step_of(const DeletePod& deletion);
// The authority's reading is what a release of its volume would rest on.
[[nodiscard]] IncidentRecord::Step step_of(const DeleteAttachment& deletion,
                                           const Detachment& detachment,
                                           const Authority& authority);

[[nodiscard]] IncidentRecord::Step step_of(const TaintWish& wish, const Uid& node);

// Has what the record's steps deleted verified. To be called again when there are more of them.
void verify(Verification& verification, const IncidentRecord& record);

// What the leader before us had settled and had still to do. Each attachment is to go by the UID
// that was recorded; another one of its name is another one's. A release begins its time anew.
void restore(Memory& memory, const IncidentRecord& record, Moment now);
// When the node's kubelet was last found dead by the record's leader; nullopt: it was not, or so
// long ago that it may have lived since.
[[nodiscard]] std::optional<Duration> silent_ago(const IncidentRecord& record, WallTime now);

}  // namespace moonfence::fence
