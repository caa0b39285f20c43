#pragma once

// RecordLedger is the record of one incident as it is to stand in the cluster, and what of it
// stands there: a ledger without I/O. Whoever wants a deletion plans it here; the guard asks
// whether the ledger holds it, which it does when a write that contained it has succeeded; whoever
// deletes notes what came of it. The journal carries pages to the API server.
//
// The ledger of an incident that another leader began holds nothing until we have written it
// ourselves: from then on a late write of the other one is a conflict.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "fence/record/incident_record.h"

namespace moonfence::fence {

class RecordLedger {
 public:
  using Clock = std::function<WallTime()>;

  // `identity`: ours, added to the record's leaders.
  RecordLedger(IncidentRecord record, std::string identity, Clock now);
  RecordLedger(const RecordLedger&) = delete;
  RecordLedger& operator=(const RecordLedger&) = delete;

  // Kind, objects and verdict of a deletion; the time is set here. The newest verdict counts.
  void plan(IncidentRecord::Step step);
  [[nodiscard]] bool holds(const Uid& uid) const;
  // The pod's deletion, and those of its attachments as far as they are planned.
  [[nodiscard]] bool holds_all_of(const Uid& pod) const;
  // The pod and its attachments, of which nothing was begun or refused, are not wanted any more;
  // but for attachments that somebody else wants, by name.
  void withdraw(const Uid& pod, const std::set<std::string>& wanted);
  // Of the pod's attachments only these, by name, are wanted. When others were planned, its own
  // deletion is held by what is written without them.
  void keep_attachments(const Uid& pod, const std::set<std::string>& wanted);
  // What came of it: the guard's refusal, a call and its end or that it did not leave after all,
  // and that an attachment is absent by now.
  void refused(const Uid& uid, audit::Reason reason);
  void sent(const Uid& uid);
  void ended(const Uid& uid, audit::Reason outcome);
  void stopped_at_the_wire(const Uid& uid, audit::Reason reason);
  void gone(const Uid& uid);
  // A pod that is to be deleted is gone, by a live read. Whether by a call of ours whose outcome
  // nobody heard, or by somebody else, is not known.
  void found_gone(const Uid& pod);
  // Nothing is left to be done about the release of the attachment's volume.
  void release_over(const Uid& attachment);
  void followed(const Uid& uid, IncidentRecord::Step::Follow follow);
  // After another boot no leader takes up an attachment that was to go before it.
  void booted(const std::string& boot_id);
  // By a reading at that time its kubelet was dead; nullopt: it was not. Written again no more
  // often than the next leader needs it.
  static constexpr Duration kSilenceLasts = std::chrono::minutes(5);
  void silent(std::optional<WallTime> at);
  // Why nobody may touch the node; "": nobody said so.
  void held(const std::string& why);
  void close(audit::Reason reason);
  // What another leader wrote after we had read its record.
  void merge(const IncidentRecord& other);

  [[nodiscard]] const IncidentRecord& record() const { return record_; }
  [[nodiscard]] const std::string& identity() const { return identity_; }
  // Something is worth being written: without a step nothing was meant to be done.
  [[nodiscard]] bool is_worth() const { return !record_.steps.empty(); }
  // Calls under way.
  [[nodiscard]] bool is_busy() const { return under_way_ > 0; }

  // Counts the changes. What was written as of `revision` stands.
  [[nodiscard]] std::uint64_t revision() const { return revision_; }
  [[nodiscard]] std::uint64_t standing() const { return standing_; }
  [[nodiscard]] Result<std::string> text();
  void stands(std::uint64_t revision);

  // Called with each change.
  void on_change(std::function<void()> changed) { changed_ = std::move(changed); }

 private:
  void touch();

  IncidentRecord record_;
  const std::string identity_;
  const Clock now_;
  std::map<Uid, std::uint64_t> planned_in_;  // the revision that first had it
  std::uint64_t revision_ = 1;
  std::uint64_t standing_ = 0;
  int under_way_ = 0;
  std::function<void()> changed_;
};

}  // namespace moonfence::fence
