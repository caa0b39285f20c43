#pragma once

// IncidentTrace turns the records of one incident into the spans of one trace, by the records' own
// times. A span is handed out when it has ended:
//
//   incident   the root: the node fell            ──▶ the incident is closed
//   detect     Ready changed                      ──▶ the incident was opened
//   confirm    the incident was opened            ──▶ the first verdict or intent
//   wait       an incident is held                ──▶ it goes on, or is held for something else
//   verdict    what was decided about a pod       ──▶ an intent, a refusal or another verdict
//   refusal    what the guard did not let pass, a moment
//   delete_pod and other actions: the intent      ──▶ the answer
//   detached   an attachment was deleted          ──▶ the storage has let go
//   replaced   a pod was deleted                  ──▶ its replacement is Ready
//   outcome    what came of a call without a call of ours
//
// All are children of the root. So nothing is lost with a leader that dies but what it had not yet
// sent: the next one continues the same trace and sends the root, because trace and root have their
// ids from the incident's id alone. Every other id also comes from the name of the replica's run.
//
// A leader that leaves an incident sends no root if its record may stand (audit::Record::goes_on):
// the next one goes on under the same id. Without a record nothing was to be deleted yet, and the
// next one opens another incident: then the root is sent. When the store went back in time, only
// what stands there tells: the root is kept for whoever reads it, see take_root().
//
// No texts of policies or of servers are in it: names, reasons and numbers.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "app/traces/span.h"
#include "audit/trail.h"
#include "base/names.h"
#include "base/time.h"

namespace moonfence::app {

// 32 hexadecimal digits, 16 of its root.
[[nodiscard]] std::string trace_id_of(const IncidentId& incident);
[[nodiscard]] std::string root_span_id_of(const IncidentId& incident);

class IncidentTrace {
 public:
  // More than these of one run are left out, and counted. The root is always told. Verdicts, waits
  // and refusals may take half of it, for the calls and what came of them matter most.
  static constexpr std::size_t kMostSpans = 2'000;
  // A node that fell longer ago than this before its incident was opened has a wrong stamp: it is
  // its kubelet's word.
  static constexpr Duration kLongestDetection = std::chrono::hours(1);

  // What an earlier leader wrote of it, to a second, by our own clock.
  struct Earlier {
    WallTime opened{};
    audit::Reason opened_for = audit::Reason::NodeNotReady;
    std::optional<WallTime> last_sign = {};  // of the node's machine
  };
  // By our own clock.
  struct Beginning {
    // The node, by the stamp of its Ready condition, or by its machine's last sign of life where
    // that opened the incident.
    std::optional<WallTime> fell = {};
    std::optional<Earlier> earlier = {};
  };

  // `opened`: the record that opened it here, or the first that we heard of it. `run`: of this
  // process, never the same twice.
  IncidentTrace(const audit::Record& opened, WallTime at, const Beginning& beginning,
                const std::string& run, std::size_t most_spans = kMostSpans);

  // In their order. The spans that ended are appended to `ended`.
  void hear(const audit::Record& record, WallTime at, std::vector<Span>& ended);

  // Its last record was heard.
  [[nodiscard]] bool is_closed() const { return closed_; }
  // Of one that ended because the store went back in time: to be sent if its record is lost.
  [[nodiscard]] std::optional<Span> take_root() { return std::exchange(root_, std::nullopt); }
  // Spans that were not told.
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  // What one thing is about: an action on a pod or an attachment.
  using Subject = std::tuple<std::string, Uid, std::string>;  // action, pod, attachment
  struct Open {
    WallTime since{};
    audit::Record record;  // without its texts
  };
  using Ended = std::vector<Span>;

  [[nodiscard]] Span span(const std::string& name, const audit::Record& record, WallTime start,
                          WallTime end);
  // Of what may take all places, and of what may take half of them.
  [[nodiscard]] bool has_room();
  [[nodiscard]] bool has_common_room();
  [[nodiscard]] bool may_wait() const;
  void tell_common(const char* name, const audit::Record& record, WallTime start, WallTime end,
                   Ended& ended);
  void tell(const char* name, const audit::Record& record, WallTime start, WallTime end,
            Ended& ended);
  void hear_verdict(const audit::Record& record, WallTime at, std::vector<Span>& ended);
  void hear_held(const audit::Record& record, WallTime at, std::vector<Span>& ended);
  void hear_outcome(const audit::Record& record, WallTime at, std::vector<Span>& ended);
  void hear_replacement(const audit::Record& record, WallTime at, std::vector<Span>& ended);
  void close(const audit::Record& record, WallTime at, std::vector<Span>& ended);
  void goes_on(WallTime at, std::vector<Span>& ended);
  void end_verdicts(const audit::Record& record, WallTime at, std::vector<Span>& ended);
  void end_wait(const Subject& subject, WallTime at, std::vector<Span>& ended);

  const std::string trace_id_;
  const std::string root_id_;
  const std::uint64_t first_span_id_;
  const std::size_t most_spans_;
  const audit::Record opened_;
  WallTime opened_at_{};
  WallTime fell_{};
  bool taken_over_ = false;
  bool confirmed_ = false;
  bool closed_ = false;
  bool detected_ = false;     // there is nothing to tell of that, or it was told
  std::optional<Span> root_;  // see take_root()
  std::map<std::pair<Uid, std::string>, Open> verdicts_;  // by pod and policy's digest
  std::map<Subject, Open> waits_;                         // empty subject: of the node
  std::map<Subject, Open> calls_;
  std::uint64_t made_ = 0;    // spans that were told
  std::uint64_t common_ = 0;  // of them verdicts, waits and refusals
  std::uint64_t left_out_ = 0;
  std::uint64_t numbered_ = 0;
  std::int64_t deleted_ = 0;
};

}  // namespace moonfence::app
