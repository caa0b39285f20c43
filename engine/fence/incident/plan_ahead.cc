#include "fence/incident/plan_ahead.h"

#include <algorithm>
#include <utility>

#include "audit/trail.h"
#include "cluster/nodes/ready_condition.h"
#include "fence/act/steps.h"
#include "fence/incident/restore.h"
#include "port/log.h"
#include "port/wall_clock.h"

namespace moonfence::fence {

std::unique_ptr<FactReader> new_fact_reader(const IncidentContext& surroundings) {
  return std::make_unique<FactReader>(
      surroundings.access.reader, surroundings.access.loop.now(), surroundings.access.allowed_reads,
      surroundings.access.endpoints,
      surroundings.in_force.release.on ? surroundings.in_force.release.attachers
                                       : FactReader::Leases());
}

void withdraw(RecordLedger* ledger, std::set<Uid>& planned, const std::set<std::string>& wanted) {
  if (ledger != nullptr) {
    for (const Uid& uid : planned) {
      ledger->withdraw(uid, wanted);
    }
  }
  planned.clear();
}

// Log and audit are for what counts.
class PlanAhead::Hush final : public port::Log, public port::WallClock, public audit::Trail::Sink {
 public:
  void write(Level, std::string_view, const std::vector<port::LogField>&) override {}
  WallTime now() override { return {}; }
  Result<void> append(const audit::Record&, WallTime, std::string_view) override { return {}; }

  audit::Trail trail{*this, *this};
};

namespace {

IncidentContext hushed(const IncidentContext& surroundings, port::Log& log, audit::Trail& trail) {
  Access access = surroundings.access;
  access.pod_watches = nullptr;
  access.looks = nullptr;
  access.prove_policies = {};
  return {{.access = std::move(access),
           .output = {.journal = surroundings.output.journal, .trail = trail, .log = log},
           .in_force = surroundings.in_force},
          surroundings.actions};
}

// Of a record like the incident's, in which plans show.
std::shared_ptr<Authority> with_scratch_ledger(const Authority& authority) {
  auto copy = std::make_shared<Authority>(authority);
  if (authority.ledger != nullptr) {
    IncidentRecord record;
    record.id = authority.ledger->record().id;
    record.boot_id = authority.ledger->record().boot_id;
    copy->ledger =
        std::make_shared<RecordLedger>(std::move(record), std::string(), [] { return WallTime(); });
  }
  return copy;
}

}  // namespace

PlanAhead::PlanAhead(const IncidentContext& surroundings, PassContext context,
                     const Authority& authority, const Memory& memory)
    : all_(*surroundings.preplannings),
      hush_(std::make_unique<Hush>()),
      around_(hushed(surroundings, *hush_, hush_->trail)),
      context_(std::move(context)),
      ledger_(authority.ledger),
      authority_(with_scratch_ledger(authority)),
      memory_(memory),
      pod_evaluation_(around_, context_, authority_, memory_),
      deleter_(around_, context_, authority_, memory_, users_),
      node_(
          around_, context_, authority_, memory_,
          [this](const std::optional<Reading>& reading) {
            if (reading) {
              go_on();
            }
          },
          NodeReading::Purpose::ToForesee),
      pod_queue_(around_, *this),
      sees_volumes_(may_detach(*context_.set)),
      alive_(std::make_shared<int>(0)) {
  ++all_.open;
  memory_.enforcing.breaker.begin_pass();
  memory_.observing.breaker.begin_pass();
  ahead_.pods = std::make_unique<PodListing>(around_, context_, *authority_);
  ahead_.fact_reader = new_fact_reader(around_);
  ahead_.pods->tell([this](std::size_t, Result<kube::ItemTexts>& pods) {
    if (pods) {
      listed_ = true;
      pod_queue_.add(std::move(pods->texts));
      go_on();
    }
  });
  ahead_.pods->ask();
  node_.begin();
  rest_ = around_.access.loop.after(kRestDelay, [this] { ahead_.pods->go_on(); });
}

PlanAhead::~PlanAhead() {
  end();
}

void PlanAhead::end() {
  if (!std::exchange(over_, true)) {
    withdraw(ledger_.get(), ahead_.planned, {});
    --all_.open;
  }
}

void PlanAhead::go_on() {
  if (pod_queue_.has_begun() || !node_.has_one() || !listed_) {
    return;
  }
  const Reading& reading = authority_->reading;
  if (cluster::is_down(reading.readiness) && reading.uid == authority_->node_uid) {
    if (ledger_ != nullptr && ledger_->record().boot_id.empty()) {
      ledger_->booted(node_.node().boot_id);  // or the pass would have to write it
    }
    if (ledger_ != nullptr && ledger_->record().boot_id != node_.node().boot_id) {
      return;  // what is meant of another boot the pass has to sort out
    }
    if (ledger_ != nullptr) {
      ledger_->silent(authority_->ledger->record().silent);  // likewise
    }
    pod_evaluation_.begin(node_.node());
    pod_queue_.begin(*ahead_.fact_reader);
  }
}

Wants PlanAhead::taken_up(const kube::Pod& pod) {
  ahead_.decoded.push_back(pod);
  Wants wants = pod_evaluation_.wants_of(pod);
  wants.needs.volumes = wants.needs.volumes || sees_volumes_;
  return wants;
}

void PlanAhead::gathered(const kube::Pod&, const Gathered& known) {
  missing_ = missing_ || !known.missing.empty() ||
             std::any_of(known.fetched.begin(), known.fetched.end(),
                         [](const auto& fetched) { return !fetched.second.missing.empty(); });
  deleter_.saw(known);
}

void PlanAhead::judge(kube::Pod pod, const Gathered& known, const policy::ClusterFacts& cluster) {
  PassResult ignored;
  const auto pod_plan = pod_evaluation_.judge(std::move(pod), known, cluster, ignored);
  if (!pod_plan || !pod_plan->deletes_pod || ledger_ == nullptr ||
      ledger_->record().find(pod_plan->deletion.pod.uid) != nullptr) {
    return;
  }
  const DeletePod& deletion = pod_plan->deletion;
  const auto refused = refuse_pod_deletion(*authority_,
                                           {.policy = deletion.policy,
                                            .digest = deletion.policy_digest,
                                            .set = deletion.set_digest,
                                            .proof = &deletion.proof,
                                            .drivers = &deletion.drivers,
                                            .storage = deletion.storage},
                                           deletion.pod, around_.access.loop.now());
  // What the pass will have: the taint, a record, and a reading of its own.
  const bool expected =
      refused == audit::Reason::NotTainted || refused == audit::Reason::NotRecorded ||
      refused == audit::Reason::HoldUnknown || refused == audit::Reason::ReadingTooOld;
  if (refused && !expected) {
    return;
  }
  deleter_.plan(*pod_plan);
  for (const IncidentRecord::Step& step : authority_->ledger->record().steps) {
    if (step.pod_uid == deletion.pod.uid) {
      ledger_->plan(step);
    }
  }
  ledger_->plan(step_of(deletion));
  ahead_.planned.insert(deletion.pod.uid);
  pace_.add(around_.access.loop.now());
}

void PlanAhead::slice_ended() {
  if (recording_ || !pace_.is_due(pod_queue_.to_come(), around_.access.loop.now())) {
    return;
  }
  const std::size_t written = pace_.write();
  recording_ = true;
  around_.output.journal.save(ledger_, [this, alive = std::weak_ptr<const void>(alive_)](bool) {
    if (!alive.expired()) {
      recording_ = false;
      slice_ended();
    }
  });
  if (written > RecordPace::kFew) {
    around_.actions.make_way(written);
  }
}

ReadAhead PlanAhead::take(const PassContext& context) {
  ahead_.texts = pod_queue_.take_texts();
  pod_queue_.retire();
  node_.retire();
  rest_.cancel();
  alive_.reset();
  const bool same = context_.set == context.set && context_.downtime.fell == context.downtime.fell;
  if (!same || ahead_.pods->has_failed() ||
      around_.access.loop.now() - ahead_.pods->asked_at() >= kLifetime) {
    end();
    ahead_ = {};
    return {};
  }
  if (missing_) {
    ahead_.fact_reader.reset();  // the pass asks again
  }
  ReadAhead ahead = std::exchange(ahead_, {});
  end();
  return ahead;
}

}  // namespace moonfence::fence
