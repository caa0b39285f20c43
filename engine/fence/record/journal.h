#pragma once

// Journal keeps the records of incidents in the cluster: one ConfigMap `moonfence-incident-<id>`
// each, labelled `moonfence.io/incident` with "open" or "closed". It decides nothing; what stands
// there is the ledger's to say.
//
//   save()    before the first deletion: one create, and the caller waits for it. Later steps: one
//             patch for all that was planned meanwhile. One write of a ledger is under way at a
//             time.
//   changes   what came of the steps is written behind, a second after the first change; an error
//   is
//             repeated with growing pauses. Repeating a deletion is harmless, so nobody waits.
//   read()    all records, when we begin to lead.
//
// Nobody but the leader writes: each write is refused at the wire when our term does not cover it,
// and carries UID and version of what it replaces. A refusal that says that it is gone, or another
// one, may be anybody's: the record is read, and that decides. When it is not what it was and we
// had written it last, somebody else acts on this incident: the ledger is given up and holds
// nothing new.

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fence/leadership/leadership.h"
#include "fence/record/record_ledger.h"
#include "kube/calls/config_maps.h"
#include "kube/wire/backoff.h"
#include "loop/loop.h"
#include "port/log.h"
#include "port/random.h"

namespace moonfence::fence {

class Journal {
 public:
  static constexpr Duration kWriteBehind = std::chrono::seconds(1);

  struct Surroundings {
    loop::Loop& loop;
    kube::Caller& caller;
    port::Random& random;
    port::Log& log;
    const Leadership& leadership;
  };
  // A record that stands in the cluster.
  struct Found {
    IncidentRecord record;
    kube::ConfigMaps::Written at;
  };
  // Who hears what stands in the cluster: each record as it was read or written, in its ConfigMap,
  // and that one was removed.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void stands(const IncidentRecord& record, const Uid& config_map) = 0;
    virtual void removed(const IncidentId& id) = 0;
  };
  using Ready = std::function<void(std::vector<Found>)>;
  using Saved = std::function<void(bool stands)>;

  // All that is referred to must outlive the journal. `identity`: ours, never used twice.
  Journal(Surroundings around, Namespace space, std::string identity, RecordLedger::Clock now,
          RetentionRules retention = {});
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Null: nobody. It must outlive the journal, or be taken back.
  void tell(Listener* listener) { listener_ = listener; }
  // All that stand there, open and closed; repeated until it succeeds. Records that cannot be
  // understood are left alone and told.
  void read(Ready ready);
  // We do not lead any more: nothing is written or read from now on. Pages stay as they are.
  void forget();

  // The store went back in time. As forget(), but what stood there of pages of ours is missed when
  // the records are read: those that are absent are written again, closed, for it was done.
  void begin_anew();

  // A ledger of ours. Nothing is written until save().
  [[nodiscard]] std::shared_ptr<RecordLedger> begin(IncidentRecord record);
  // The ledger of an incident that another leader left open; it is made ours at once.
  [[nodiscard]] std::shared_ptr<RecordLedger> resume(const Found& found);
  // `saved` hears, in a later turn, whether all that is planned by now stands.
  void save(const std::shared_ptr<RecordLedger>& ledger, Saved saved);
  // The incident is over. What is still to be written is; a ledger without a step leaves no trace.
  void finish(const std::shared_ptr<RecordLedger>& ledger);
  // Whether the next leader may find a record of the incident: one was written, is being written,
  // or nobody heard what came of it.
  [[nodiscard]] bool may_stand(const RecordLedger& ledger) const;
  // The record of an incident that needs nobody any more.
  void close(const Found& found, audit::Reason reason);
  // What was written behind goes now.
  void flush();

  [[nodiscard]] WallTime now() const { return now_(); }
  // Nothing is under way or waits to be written, but for what failed and is repeated.
  [[nodiscard]] bool idle() const;
  [[nodiscard]] bool is_reading() const { return ready_ != nullptr; }
  // Whether what stands there is all that is known, but for a record that somebody else wrote
  // over, which nobody tries to write again.
  [[nodiscard]] bool is_complete() const;
  // Why the records could not be read or written when last tried, "" when they could.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  struct Entry;
  using Entries = std::list<Entry>;

  void ask();
  void arrived(const Result<std::vector<std::string>>& texts);
  [[nodiscard]] Entry& add(std::shared_ptr<RecordLedger> ledger);
  [[nodiscard]] Entry* entry_of(const RecordLedger& ledger);
  void write_soon(Entry& entry, Duration delay);
  void write(Entry& entry);
  void written(Entry& entry, std::uint64_t revision,
               const Result<kube::ConfigMaps::Written>& outcome);
  void reread(Entry& entry);
  void compare(Entry& entry, const Result<kube::ConfigMap>& found);
  void fail(Entry& entry, const Error& error);
  void release(Entry& entry);
  [[nodiscard]] bool may_write(Moment now) const;
  [[nodiscard]] ObjectRef ref_of(const IncidentId& id) const;
  void keep(const IncidentRecord& record, const kube::ConfigMaps::Written& at);
  void prune();
  void drop(const std::string& name);
  void forget_if_gone(const std::string& name);
  void write_lost();

  Surroundings around_;
  kube::ConfigMaps config_maps_;
  const Namespace space_;
  const std::string identity_;
  const RecordLedger::Clock now_;
  const RetentionRules retention_;
  Ready ready_;
  kube::CallHandle reading_;
  kube::Backoff read_backoff_;
  loop::Timer read_again_;
  Entries entries_;
  std::map<std::string, KeptRecord> kept_;  // closed and open ones, by name
  std::map<std::string, Uid> uids_;
  std::vector<std::shared_ptr<RecordLedger>> lost_;  // see begin_anew()
  kube::CallHandle pruning_;
  std::string problem_;
  Listener* listener_ = nullptr;
};

}  // namespace moonfence::fence
