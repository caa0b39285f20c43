#include "fence/record/journal.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "kube/text/json.h"

namespace moonfence::fence {

namespace {

constexpr const char* kLabel = "moonfence.io/incident";
constexpr const char* kKey = "record.json";
constexpr std::string_view kPrefix = "moonfence-incident-";
// How often a write is followed by a read at once before there is a pause.
constexpr int kRereads = 3;

}  // namespace

struct Journal::Entry {
  struct Waiter {
    std::uint64_t revision = 0;
    Saved saved;
  };
  std::shared_ptr<RecordLedger> ledger;
  std::optional<kube::ConfigMaps::Written> at = std::nullopt;  // absent: not created yet
  bool ours = true;          // what stands there, if anything, is of our hand
  bool lost = false;         // somebody else writes it
  bool over = false;         // the incident is
  bool failing = false;      // the last write failed; it is repeated
  bool uncertain = false;    // it may have been created: nobody heard what came of it
  bool missed = false;       // it had stood there, and is to stand there again
  int reread = 0;            // since the last success
  IncidentRecord sent = {};  // as the write under way has it, for the ledger goes on meanwhile
  std::vector<Waiter> waiting = {};
  kube::CallHandle call = nullptr;
  kube::Backoff backoff = {};
  Moment not_before{};  // the server asked for a pause before it is created
  loop::Timer later = {};
};

Journal::Journal(Surroundings around, Namespace space, std::string identity,
                 RecordLedger::Clock now, RetentionRules retention)
    : around_(around),
      config_maps_(around.caller),
      space_(std::move(space)),
      identity_(std::move(identity)),
      now_(std::move(now)),
      retention_(retention) {}

Journal::~Journal() {
  forget();
}

ObjectRef Journal::ref_of(const IncidentId& id) const {
  return {.space = space_, .name = std::string(kPrefix) + id.text()};
}

bool Journal::may_write(Moment now) const {
  const auto until = around_.leadership.acts_until();
  return until && now <= *until - around_.leadership.limits().action_span();
}

void Journal::read(Ready ready) {
  ready_ = std::move(ready);
  ask();
}

void Journal::ask() {
  reading_ = config_maps_.list(
      space_, kLabel, [this](const Result<std::vector<std::string>>& texts) { arrived(texts); });
}

namespace {

struct Read {
  Journal::Found found;
  std::string name;
};

Result<Read> read_one(const std::string& text) {
  const auto object = kube::parse_json(text);
  if (!object) {
    return failure(object.error());
  }
  const auto map = kube::decode_config_map(*object);
  if (!map) {
    return failure(map.error());
  }
  const std::string place = "ConfigMap " + map->ref.text() + ": " + kKey;
  const auto data = map->data.find(kKey);
  if (data == map->data.end()) {
    return failure(Error::Kind::Malformed, place + ": is required",
                   std::string("take the label ") + kLabel + " off what is no incident's record");
  }
  auto record = parse_record(data->second);
  if (!record) {
    return failure(std::move(record.error()).within(place));
  }
  if (map->ref.name != std::string(kPrefix) + record->id.text()) {
    return failure(Error::Kind::Malformed,
                   place + ": incident: is of another name than the ConfigMap",
                   "nothing is done by it; delete the ConfigMap");
  }
  return Read{.found = {.record = *std::move(record),
                        .at = {.uid = map->uid, .version = map->resource_version}},
              .name = map->ref.name};
}

}  // namespace

void Journal::arrived(const Result<std::vector<std::string>>& texts) {
  reading_.reset();
  if (!texts) {
    problem_ = texts.error().message();
    around_.log.warning("incident_records_unreadable", {{"error", problem_}});
    read_again_ = around_.loop.after(
        read_backoff_.next(around_.loop.now(), around_.random.unit(), texts.error().retry_after),
        [this] { ask(); });
    return;
  }
  problem_.clear();
  kept_.clear();
  uids_.clear();
  std::vector<Found> all;
  for (const std::string& text : *texts) {
    auto read = read_one(text);
    if (!read) {
      around_.log.error("incident_record_unreadable", {{"error", read.error().message()}});
      continue;
    }
    keep(read->found.record, read->found.at);
    all.push_back(std::move(read->found));
  }
  write_lost();
  const Ready ready = std::exchange(ready_, nullptr);
  ready(std::move(all));
  prune();
}

void Journal::begin_anew() {
  std::vector<std::shared_ptr<RecordLedger>> ours = std::move(lost_);
  for (const Entry& entry : entries_) {
    if (!entry.lost && (entry.at || entry.uncertain) && entry.ledger->is_worth()) {
      ours.push_back(entry.ledger);
    }
  }
  forget();
  lost_ = std::move(ours);
}

// What stands there is of the same moment as everything else in the store, and goes on.
void Journal::write_lost() {
  for (std::shared_ptr<RecordLedger>& ledger : std::exchange(lost_, {})) {
    if (kept_.contains(ref_of(ledger->record().id).name)) {
      continue;
    }
    ledger->close(audit::Reason::StoreWentBack);
    Entry& entry = add(std::move(ledger));
    entry.over = true;
    entry.missed = true;
    write(entry);
  }
}

void Journal::forget() {
  lost_.clear();
  reading_.reset();
  read_again_.cancel();
  pruning_.reset();
  ready_ = nullptr;
  for (const Entry& entry : entries_) {
    entry.ledger->on_change(nullptr);
  }
  entries_.clear();
  problem_.clear();
}

Journal::Entry& Journal::add(std::shared_ptr<RecordLedger> ledger) {
  entries_.push_back({.ledger = std::move(ledger)});
  Entry& entry = entries_.back();
  entry.ledger->on_change([this, &entry] {
    if (entry.at) {  // else nobody has asked for it to be written
      write_soon(entry, kWriteBehind);
    }
  });
  return entry;
}

std::shared_ptr<RecordLedger> Journal::begin(IncidentRecord record) {
  return add(std::make_shared<RecordLedger>(std::move(record), identity_, now_)).ledger;
}

std::shared_ptr<RecordLedger> Journal::resume(const Found& found) {
  Entry& entry = add(std::make_shared<RecordLedger>(found.record, identity_, now_));
  entry.at = found.at;
  entry.ours = false;
  write_soon(entry, Duration::zero());
  return entry.ledger;
}

Journal::Entry* Journal::entry_of(const RecordLedger& ledger) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&ledger](const Entry& entry) {
    return entry.ledger.get() == &ledger;
  });
  return found == entries_.end() ? nullptr : &*found;
}

void Journal::save(const std::shared_ptr<RecordLedger>& ledger, Saved saved) {
  Entry* entry = entry_of(*ledger);
  if (entry == nullptr || entry->lost) {
    around_.loop.defer([saved = std::move(saved)] { saved(false); });
    return;
  }
  if (!entry->at && around_.loop.now() < entry->not_before) {
    around_.loop.defer([saved = std::move(saved)] { saved(false); });
    return;
  }
  entry->waiting.push_back({.revision = ledger->revision(), .saved = std::move(saved)});
  entry->later.cancel();
  if (entry->call == nullptr) {
    write(*entry);
  }
}

void Journal::finish(const std::shared_ptr<RecordLedger>& ledger) {
  Entry* entry = entry_of(*ledger);
  if (entry == nullptr) {
    return;
  }
  entry->over = true;
  entry->later.cancel();
  const bool absent = !entry->at && entry->call == nullptr;
  if (entry->lost || (absent && !entry->uncertain)) {
    release(*entry);  // it is not ours, or nothing was done: there is nothing to close
    return;
  }
  if (absent) {
    reread(*entry);
    return;
  }
  write_soon(*entry, Duration::zero());
}

bool Journal::may_stand(const RecordLedger& ledger) const {
  return std::any_of(entries_.begin(), entries_.end(), [&ledger](const Entry& entry) {
    return entry.ledger.get() == &ledger &&
           (entry.at || entry.call != nullptr || entry.uncertain || entry.lost);
  });
}

void Journal::close(const Found& found, audit::Reason reason) {
  const std::shared_ptr<RecordLedger> ledger = resume(found);
  ledger->close(reason);
  finish(ledger);
}

void Journal::flush() {
  for (Entry& entry : entries_) {
    if (entry.later.pending() && !entry.failing) {
      entry.later.cancel();
      write_soon(entry, Duration::zero());
    }
  }
}

bool Journal::idle() const {
  return std::none_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return entry.call != nullptr || (entry.later.pending() && !entry.failing);
  });
}

bool Journal::is_complete() const {
  return !is_reading() && idle() &&
         std::none_of(entries_.begin(), entries_.end(),
                      [](const Entry& entry) { return entry.failing && !entry.lost; });
}

void Journal::write_soon(Entry& entry, Duration delay) {
  if (entry.call == nullptr && !entry.later.pending() && !entry.lost) {
    entry.later = around_.loop.after(delay, [this, &entry] { write(entry); });
  }
}

void Journal::write(Entry& entry) {
  RecordLedger& ledger = *entry.ledger;
  const std::uint64_t revision = ledger.revision();
  auto text = ledger.text();
  if (!text) {  // whoever asked hears of it in a later turn
    entry.later =
        around_.loop.in_next_turn([this, &entry, error = text.error()] { fail(entry, error); });
    return;
  }
  const kube::ConfigMapText map = {.ref = ref_of(ledger.record().id),
                                   .labels = {{kLabel, ledger.record().closed ? "closed" : "open"}},
                                   .data = {{kKey, *std::move(text)}}};
  config_maps_.limit_writes(around_.leadership.limits().call);
  const auto may_send = [this] { return may_write(around_.loop.live_now()); };
  entry.sent = ledger.record();
  const auto done = [this, &entry, revision](const Result<kube::ConfigMaps::Written>& outcome) {
    written(entry, revision, outcome);
  };
  entry.call = entry.at ? config_maps_.replace(map, *entry.at, may_send, done)
                        : config_maps_.create(map, may_send, done);
}

void Journal::written(Entry& entry, std::uint64_t revision,
                      const Result<kube::ConfigMaps::Written>& outcome) {
  entry.call.reset();
  if (!outcome) {
    const Error& error = outcome.error();
    entry.uncertain = entry.uncertain || (!entry.at && error.kind == Error::Kind::Unknown);
    const bool is_doubtful =
        error.kind == Error::Kind::Conflict || error.kind == Error::Kind::NotFound;
    if (is_doubtful && entry.reread < kRereads) {
      ++entry.reread;
      reread(entry);
    } else {
      fail(entry, error);
    }
    return;
  }
  problem_.clear();
  entry.at = *outcome;
  entry.uncertain = false;
  entry.ours = true;
  entry.reread = 0;
  entry.failing = false;
  RecordLedger& ledger = *entry.ledger;
  ledger.stands(revision);
  keep(std::exchange(entry.sent, {}), *outcome);
  std::vector<Entry::Waiter> ready;
  const auto waits = std::stable_partition(
      entry.waiting.begin(), entry.waiting.end(),
      [revision](const Entry::Waiter& waiter) { return waiter.revision > revision; });
  std::move(waits, entry.waiting.end(), std::back_inserter(ready));
  entry.waiting.erase(waits, entry.waiting.end());
  if (!entry.waiting.empty()) {
    write(entry);
  } else if (ledger.revision() > revision) {
    write_soon(entry, entry.over ? Duration::zero() : kWriteBehind);
  } else if (entry.over && !ledger.is_busy()) {
    release(entry);
    prune();
  }
  for (const Entry::Waiter& waiter : ready) {
    waiter.saved(true);
  }
}

// Our own write whose answer was lost, the last one of the leader before us, or somebody else's.
void Journal::reread(Entry& entry) {
  entry.call = config_maps_.get(
      ref_of(entry.ledger->record().id),
      [this, &entry](const Result<kube::ConfigMap>& found) { compare(entry, found); });
}

void Journal::compare(Entry& entry, const Result<kube::ConfigMap>& found) {
  entry.call.reset();
  if (!found) {
    const bool absent = found.error().kind == Error::Kind::NotFound;
    if (absent && entry.over && !entry.missed && (!entry.at || !entry.ours)) {
      drop(ref_of(entry.ledger->record().id).name);
      release(entry);  // nothing was done, for without it nothing may be; or nobody wants it
    } else if (absent) {
      entry.at.reset();  // somebody removed it; what it said still holds
      entry.ours = true;
      write(entry);
    } else {
      fail(entry, found.error());
    }
    return;
  }
  const auto data = found->data.find(kKey);
  const auto record = data == found->data.end()
                          ? Result<IncidentRecord>(failure(Error::Kind::Malformed, "no record"))
                          : parse_record(data->second);
  const bool by_us = record && !record->leaders.empty() &&
                     record->leaders.back().identity == identity_ &&
                     record->node_uid == entry.ledger->record().node_uid;
  if (by_us) {
    entry.ours = true;
  } else if (entry.ours || !record) {
    entry.lost = true;
    fail(entry, Error{.kind = Error::Kind::Conflict,
                      .text = "ConfigMap " + found->ref.text() + " was written by somebody else",
                      .hint = "is there a second moonfence that does not use the Lease?"});
    return;
  } else {
    entry.ledger->merge(*record);
  }
  entry.at = {.uid = found->uid, .version = found->resource_version};
  write(entry);
}

void Journal::fail(Entry& entry, const Error& error) {
  problem_ = error.message();
  around_.log.warning("incident_unrecorded", {{"incident", entry.ledger->record().id.text()},
                                              {"node", entry.ledger->record().node.text()},
                                              {"error", problem_}});
  entry.failing = true;
  entry.reread = 0;
  entry.not_before = around_.loop.now() + error.retry_after.value_or(Duration::zero());
  std::vector<Entry::Waiter> waiting;
  waiting.swap(entry.waiting);
  // A record that does not stand is wanted anew by the next pass; one that may stand is to be
  // closed.
  const bool may_stand = entry.at || (entry.over && entry.uncertain) || entry.missed;
  if (!entry.lost && may_stand) {
    const Duration pause =
        entry.backoff.next(around_.loop.now(), around_.random.unit(), error.retry_after);
    entry.later = around_.loop.after(pause, [this, &entry] {
      if (entry.at) {
        write(entry);
      } else {
        reread(entry);
      }
    });
  }
  if (entry.over && !entry.later.pending()) {
    release(entry);
  }
  for (const Entry::Waiter& waiter : waiting) {
    waiter.saved(false);
  }
}

void Journal::release(Entry& entry) {
  entry.ledger->on_change(nullptr);
  entries_.remove_if([&entry](const Entry& each) { return &each == &entry; });
}

void Journal::keep(const IncidentRecord& record, const kube::ConfigMaps::Written& at) {
  const std::string name = ref_of(record.id).name;
  kept_[name] = {.name = name,
                 .opened = record.opened,
                 .closed = record.closed ? std::optional(record.closed->at) : std::nullopt,
                 .empty = record.steps.empty() && record.steps_cut == 0};
  uids_[name] = at.uid;
  if (listener_ != nullptr) {
    listener_->stands(record, at.uid);
  }
}

void Journal::drop(const std::string& name) {
  kept_.erase(name);
  uids_.erase(name);
  if (listener_ != nullptr) {
    listener_->removed(IncidentId(name.substr(kPrefix.size())));
  }
}

void Journal::prune() {
  if (pruning_ != nullptr || !may_write(around_.loop.now())) {
    return;
  }
  std::vector<KeptRecord> records;
  records.reserve(kept_.size());
  for (const auto& [name, record] : kept_) {
    records.push_back(record);
  }
  const std::vector<std::string> old = outdated(records, retention_, now_());
  if (old.empty()) {
    return;
  }
  const std::string& name = old.back();
  pruning_ = config_maps_.remove(
      {.space = space_, .name = name}, uids_.at(name), [this, name](const Result<void>& outcome) {
        pruning_.reset();
        if (!outcome) {
          around_.log.warning("incident_record_kept",
                              {{"record", name}, {"error", outcome.error().message()}});
          forget_if_gone(name);
          return;
        }
        drop(name);
        prune();
      });
}

// Whatever the refusal said. Where it is still there the next one that is closed tries again.
void Journal::forget_if_gone(const std::string& name) {
  pruning_ = config_maps_.get(
      {.space = space_, .name = name}, [this, name](const Result<kube::ConfigMap>& found) {
        pruning_.reset();
        const bool gone =
            found ? found->uid != uids_[name] : found.error().kind == Error::Kind::NotFound;
        if (gone) {
          drop(name);
          prune();
        }
      });
}

}  // namespace moonfence::fence
