#pragma once

// What the record of an incident means to the leader who goes on with it.

#include <optional>

#include "base/time.h"
#include "fence/judge/memory.h"
#include "fence/record/incident_record.h"

namespace moonfence::fence {

// Has what the record's steps deleted verified. To be called again when there are more of them.
void verify(Replacements& replacements, const IncidentRecord& record);

// What the leader before us had settled and had still to do. Each attachment is to go by the UID
// that was recorded; another one of its name is another one's. A release begins its time anew.
void restore(Memory& memory, const IncidentRecord& record, Moment now);
// When the node's kubelet was last found dead by the record's leader; nullopt: it was not, or so
// long ago that it may have lived since.
[[nodiscard]] std::optional<Duration> silent_ago(const IncidentRecord& record, WallTime now);

}  // namespace moonfence::fence
