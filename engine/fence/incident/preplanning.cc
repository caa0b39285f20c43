#include "fence/incident/preplanning.h"

#include <algorithm>
#include <utility>

#include "audit/trail.h"
#include "cluster/nodes/readiness.h"
#include "fence/act/steps.h"
#include "fence/incident/takeover.h"
#include "port/log.h"
#include "port/wall_clock.h"

namespace moonfence::fence {

std::unique_ptr<Gathering> new_gathering(const IncidentContext& surroundings) {
  return std::make_unique<Gathering>(
      surroundings.access.reader, surroundings.access.loop.now(), surroundings.access.allowed_reads,
      surroundings.access.endpoints,
      surroundings.in_force.release.on ? surroundings.in_force.release.attachers
                                       : Gathering::Leases());
}

void withdraw(Page* page, std::set<Uid>& planned, const std::set<std::string>& wanted) {
  if (page != nullptr) {
    for (const Uid& uid : planned) {
      page->withdraw(uid, wanted);
    }
  }
  planned.clear();
}

// Log and audit are for what counts.
class Preplanning::Hush final : public port::Log,
                                public port::WallClock,
                                public audit::Trail::Sink {
 public:
  void write(Level, std::string_view, const std::vector<port::LogField>&) override {}
  WallTime now() override { return {}; }
  Result<void> append(const audit::Record&, std::string_view) override { return {}; }

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
std::shared_ptr<Authority> with_scratch_page(const Authority& authority) {
  auto copy = std::make_shared<Authority>(authority);
  if (authority.page != nullptr) {
    IncidentRecord record;
    record.id = authority.page->record().id;
    record.boot_id = authority.page->record().boot_id;
    copy->page =
        std::make_shared<Page>(std::move(record), std::string(), [] { return WallTime(); });
  }
  return copy;
}

}  // namespace

Preplanning::Preplanning(const IncidentContext& surroundings, Occasion occasion,
                         const Authority& authority, const Memory& memory)
    : all_(*surroundings.preplannings),
      hush_(std::make_unique<Hush>()),
      around_(hushed(surroundings, *hush_, hush_->trail)),
      occasion_(std::move(occasion)),
      page_(authority.page),
      authority_(with_scratch_page(authority)),
      memory_(memory),
      inquiry_(around_, occasion_, authority_, memory_),
      detaching_(around_, occasion_, authority_, memory_),
      node_(
          around_, occasion_, authority_, memory_,
          [this](const std::optional<Reading>& reading) {
            if (reading) {
              go_on();
            }
          },
          NodeReading::Purpose::ToForesee),
      docket_(around_, *this),
      sees_volumes_(may_detach(*occasion_.set)),
      alive_(std::make_shared<int>(0)) {
  ++all_.open;
  memory_.enforcing.breaker.begin_pass();
  memory_.observing.breaker.begin_pass();
  ahead_.pods = std::make_unique<PodListing>(around_, occasion_, *authority_);
  ahead_.gathering = new_gathering(around_);
  ahead_.pods->tell([this](std::size_t, Result<kube::ItemTexts>& pods) {
    if (pods) {
      listed_ = true;
      docket_.add(std::move(pods->texts));
      go_on();
    }
  });
  ahead_.pods->ask();
  node_.begin();
}

Preplanning::~Preplanning() {
  end();
}

void Preplanning::end() {
  if (!std::exchange(over_, true)) {
    withdraw(page_.get(), ahead_.planned, {});
    --all_.open;
  }
}

void Preplanning::go_on() {
  if (docket_.has_begun() || !node_.has_one() || !listed_) {
    return;
  }
  const Reading& reading = authority_->reading;
  if (cluster::is_down(reading.readiness) && reading.uid == authority_->node_uid) {
    if (page_ != nullptr && page_->record().boot_id.empty()) {
      page_->booted(node_.node().boot_id);  // or the pass would have to write it
    }
    if (page_ != nullptr && page_->record().boot_id != node_.node().boot_id) {
      return;  // what is meant of another boot the pass has to sort out
    }
    if (page_ != nullptr) {
      page_->silent(authority_->page->record().silent);  // likewise
    }
    inquiry_.begin(node_.node());
    docket_.begin(*ahead_.gathering);
  }
}

Wants Preplanning::taken_up(const kube::Pod& pod) {
  ahead_.decoded.push_back(pod);
  Wants wants = inquiry_.wants_of(pod);
  wants.needs.volumes = wants.needs.volumes || sees_volumes_;
  return wants;
}

void Preplanning::gathered(const kube::Pod& pod, const Gathered& known) {
  missing_ = missing_ || !known.missing.empty() ||
             std::any_of(known.fetched.begin(), known.fetched.end(),
                         [](const auto& fetched) { return !fetched.second.missing.empty(); });
  detaching_.saw(pod, known);
}

void Preplanning::judge(kube::Pod pod, const Gathered& known, const policy::ClusterFacts& cluster) {
  PassResult ignored;
  const auto deed = inquiry_.judge(std::move(pod), known, cluster, ignored);
  if (!deed || !deed->deletes_pod || page_ == nullptr ||
      page_->record().find(deed->deletion.pod.uid) != nullptr) {
    return;
  }
  const DeletePod& deletion = deed->deletion;
  const auto refused = refuse_pod_deletion(
      *authority_,
      {.policy = deletion.policy, .digest = deletion.policy_digest, .set = deletion.set_digest},
      deletion.pod, around_.access.loop.now());
  // What the pass will have: the taint, a record, and a reading of its own.
  const bool expected =
      refused == audit::Reason::NotTainted || refused == audit::Reason::NotRecorded ||
      refused == audit::Reason::HoldUnknown || refused == audit::Reason::ReadingTooOld;
  if (refused && !expected) {
    return;
  }
  detaching_.plan(*deed);
  for (const IncidentRecord::Step& step : authority_->page->record().steps) {
    if (step.pod_uid == deletion.pod.uid) {
      page_->plan(step);
    }
  }
  page_->plan(step_of(deletion));
  ahead_.planned.insert(deletion.pod.uid);
  pace_.add(around_.access.loop.now());
}

void Preplanning::slice_ended() {
  if (recording_ || !pace_.is_due(docket_.to_come(), around_.access.loop.now())) {
    return;
  }
  const std::size_t written = pace_.write();
  recording_ = true;
  around_.output.journal.save(page_, [this, alive = std::weak_ptr<const void>(alive_)](bool) {
    if (!alive.expired()) {
      recording_ = false;
      slice_ended();
    }
  });
  if (written > RecordPace::kFew) {
    around_.actions.make_way(written);
  }
}

ReadAhead Preplanning::take(const Occasion& occasion) {
  ahead_.texts = docket_.take_texts();
  docket_.retire();
  node_.retire();
  alive_.reset();
  const bool same =
      occasion_.set == occasion.set && occasion_.downtime.fell == occasion.downtime.fell;
  if (!same || ahead_.pods->has_failed() ||
      around_.access.loop.now() - ahead_.pods->asked_at() >= kLifetime) {
    end();
    ahead_ = {};
    return {};
  }
  if (missing_) {
    ahead_.gathering.reset();  // the pass asks again
  }
  ReadAhead ahead = std::exchange(ahead_, {});
  end();
  return ahead;
}

}  // namespace moonfence::fence
