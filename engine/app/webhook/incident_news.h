#pragma once

// IncidentNews decides what is told of incidents to a receiver outside, and when: opened, acting,
// attention, settled. It goes by the audit records, from which status page and Events are made too,
// and by the stands and counts of the status page. It decides nothing else.
//
//   opened     the incident was opened. One that was only opened anew, for its node is still down
//              (entry_expired, policies_changed), is told when it acts or needs somebody.
//   acting     the first call that changes more than a taint of ours is about to be made.
//   attention  it has been held, or something has failed, for a minute (fence/incident/trouble), or
//              what was deleted has no replacement. Told once for each reason; again when it was
//              out of it or told of another reason in between, and an hour has passed.
//   settled    it is over.
//
// After a change of leader an incident that has acted keeps its id, and what is told anew has the
// ids that it had before (id_of). What was over in the last minutes is told anew likewise: whoever
// led before may have died with it untold. An incident that has not acted has no record: the next
// leader opens another one, of the same node. Attention is the exception: a trouble that lasts is
// told by each leader under an id of its own, for nobody knows whether it is the same one. Better
// told twice than taken for a double.

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "app/status/status_snapshot.h"
#include "app/webhook/incident_event.h"
#include "audit/trail.h"
#include "base/names.h"
#include "base/time.h"
#include "fence/incident/trouble.h"
#include "fence/record/incident_record.h"

namespace moonfence::app {

class IncidentNews {
 public:
  // How long ago a record was closed that is told anew.
  static constexpr Duration kToldAnew = std::chrono::minutes(10);
  // The same reason for attention is told again after this.
  static constexpr Duration kAttentionAgain = std::chrono::hours(1);

  using Tell = std::function<void(const IncidentEvent& event)>;

  explicit IncidentNews(Tell tell) : tell_(std::move(tell)) {}
  IncidentNews(const IncidentNews&) = delete;
  IncidentNews& operator=(const IncidentNews&) = delete;

  // We do not lead any more, or begin to: nothing is known.
  void forget();
  // A record that an earlier leader left in the cluster; before its incident goes on.
  void recall(const fence::IncidentRecord& record, WallTime now);
  void hear(const audit::Record& record, WallTime at);
  // Once a second: tells what was heard since, with the counts of the status page.
  void look(const StatusSnapshot& snapshot, bool enforces, Moment now, WallTime at);

 private:
  // Of an open incident, by its record.
  struct Recalled {
    WallTime opened{};
    audit::Reason opened_for = audit::Reason::NodeUnknown;
    std::optional<WallTime> acted = {};
    audit::Reason acted_for = audit::Reason::PolicyDeletesPod;
  };
  struct Entry {
    NodeName node = {};
    WallTime opened{};
    audit::Reason opened_for = audit::Reason::NodeUnknown;
    bool is_told = false;  // that it was opened
    bool acts = false;
    fence::Trouble trouble = {};
    std::map<audit::Reason, Moment> attention = {};  // when it was last told
    std::optional<audit::Reason> newest = {};        // for attention
  };

  [[nodiscard]] IncidentEvent event_of(const IncidentId& id, const Entry& entry,
                                       IncidentPhase phase, audit::Reason reason,
                                       WallTime at) const;
  void begin(const audit::Record& record, WallTime at);
  void open(const IncidentId& id, Entry& entry);
  void act(const audit::Record& record, WallTime at);
  void close(const audit::Record& record, WallTime at);
  // `status`: null, nothing is known of it.
  void follow(const IncidentId& id, Entry& entry, const fence::IncidentStatus* status, Moment now,
              WallTime at);
  void need(const IncidentId& id, Entry& entry, audit::Reason reason, Moment now, WallTime at);

  [[nodiscard]] static Recalled recalled(const fence::IncidentRecord& record);

  const Tell tell_;
  std::map<IncidentId, Entry> entries_;     // open ones
  std::map<IncidentId, Recalled> earlier_;  // not taken up yet
  std::vector<IncidentEvent> pending_;      // until look()
};

}  // namespace moonfence::app
