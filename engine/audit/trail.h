#pragma once

// Trail is the engine's memory for judges: what was decided, intended, done and refused, and why,
// as JSON lines. The rule that makes it worth reading: an intent is written before its call leaves,
// and a failure to write it forbids the call; the outcome follows when it is known.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "audit/reason.h"
#include "base/names.h"
#include "base/result.h"
#include "base/time.h"
#include "port/wall_clock.h"

namespace moonfence::audit {

struct Record {
  enum class Kind {
    IncidentOpened,
    IncidentClosed,
    IncidentHeld,  // why it does not go on yet
    Verdict,       // what was decided about a pod
    Refusal,       // what the guard did not let pass
    Intent,        // written before the call
    Outcome,       // how the call ended
    Replacement,   // what became of a pod that was deleted
  };

  Kind kind = Kind::Verdict;
  Reason reason = Reason::Settled;
  IncidentId incident;
  NodeName node;
  Uid node_uid;
  std::optional<PodRef> pod;
  Uid pod_uid;
  std::string attachment;  // of an action on a VolumeAttachment: its name
  Uid attachment_uid;
  std::string policy;         // "" where no policy is involved
  std::string policy_digest;  // which text decided
  std::string action;         // "delete_pod"
  std::string instead_of;     // of ShadowDiffers: what the policies that enforce came to
  std::string text;           // the policy's reason or an error's message
  std::string evidence;       // what was known of the node, where proof was demanded
  std::uint32_t attempt = 0;  // of an intent or outcome, from 1
  std::string server_audit_id;
  // Of an outcome: from the intent; of a closed incident: from its opening; of a replacement: from
  // the deletion; of a return after a release: from the acknowledgement.
  Duration took{};
  // Of an outcome: what the call was answered; 0: it was not, or nobody knows. For whoever shows
  // the call (app/traces); `reason` says what came of it, and the line has only that.
  int http_status = 0;
  // Likewise. Of a refusal: the intent stands, and its call was stopped as its bytes were to leave.
  bool stopped_at_the_wire = false;
  // Likewise. Of a closed incident: its record may stand, by which the next leader goes on with it.
  bool goes_on = false;
};

[[nodiscard]] std::string_view to_string(Record::Kind kind);

// One line of JSON without its newline; keys in a fixed order, empty ones left out.
[[nodiscard]] std::string to_json(const Record& record, std::uint64_t sequence, WallTime at);

class Trail {
 public:
  // Where the lines go. A line is complete or not written at all.
  class Sink {
   public:
    virtual ~Sink() = default;
    // `at` is the time that `json` tells.
    virtual Result<void> append(const Record& record, WallTime at, std::string_view json) = 0;
  };

  Trail(port::WallClock& clock, Sink& sink) : clock_(clock), sink_(sink) {}

  // A failed intent forbids its action. For every other kind the failure is reported through
  // failures() and the work goes on: stopping half-way would not make it undone.
  Result<void> write(const Record& record);

  [[nodiscard]] std::uint64_t failures() const { return failures_; }

 private:
  port::WallClock& clock_;
  Sink& sink_;
  std::uint64_t sequence_ = 0;
  std::uint64_t failures_ = 0;
};

}  // namespace moonfence::audit
