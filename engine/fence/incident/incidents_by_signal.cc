#include "fence/incident/incidents_by_signal.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "fence/rules/triggers.h"
#include "fence/sources/health_source_poll.h"
#include "fence/sources/lost_nodes.h"

namespace moonfence::fence {

using cluster::Look;
using cluster::NodeView;
using cluster::Readiness;
using policy::NodeHealth;

namespace {

Look look_of(SourceHealth::Change change) {
  switch (change) {
    case SourceHealth::Change::First:
      return Look::Swept;
    case SourceHealth::Change::Expired:
      return Look::Expired;
    case SourceHealth::Change::Changed:
    case SourceHealth::Change::Forgotten:
      return Look::Fell;
  }
  return Look::Fell;
}

}  // namespace

struct IncidentsBySignal::Source {
  Source(const IncidentContext& around, const IncidentRules& rules,
         const std::function<IncidentId()>& make_id, const MakeFeed& make_feed,
         std::function<bool(Source&, const SourceHealth::News&)> tell)
      : feed(make_feed(
            [this, tell = std::move(tell)](const auto& news) { return tell(*this, news); })),
        incidents(with(around, *feed), rules, make_id) {}

  static IncidentContext with(IncidentContext around, HealthSource& source) {
    around.access.source = &source;
    return around;
  }

  // The node as it sees it when it calls it failed. Kubernetes' taint is awaited only where it sets
  // one.
  [[nodiscard]] NodeView failed(NodeView node, Quarantine quarantine) const {
    const bool goes_without = quarantine == Quarantine::Off && feed->goes_without_taint() &&
                              node.readiness == Readiness::True;
    node.keeps_replacements_off = node.keeps_replacements_off || goes_without;
    node.readiness = Readiness::Failed;
    return node;
  }

  const std::unique_ptr<NodeHealthFeed> feed;
  Incidents incidents;
};

IncidentsBySignal::IncidentsBySignal(const IncidentContext& surroundings, IncidentRules rules,
                                     std::function<IncidentId()> make_id, Find find)
    : around_(surroundings),
      rules_(rules),
      make_id_(std::move(make_id)),
      find_(std::move(find)),
      kubernetes_(surroundings, rules, make_id_) {}

IncidentsBySignal::~IncidentsBySignal() = default;

void IncidentsBySignal::name(const NodeName& node) {
  if (named_) {
    named_->insert(node);
  }
  const NodeView* known = find_(node);
  for (const auto& [key, source] : sources_) {
    if (known != nullptr && source->feed->source_health().health(node) == NodeHealth::Failed) {
      source->incidents.look_at(source->failed(*known, around_.in_force.quarantine), Look::Fell);
    }
  }
}

void IncidentsBySignal::suppose_failed(const NodeName& node) {
  supposed_failed_.insert(node);
  name(node);
  for (const auto& [key, source] : sources_) {
    source->feed->suppose_failed(node);
  }
}

void IncidentsBySignal::look_at(const NodeView& node, Look why) {
  kubernetes_.look_at(node, why);
  if (why == Look::PoliciesChanged || why == Look::TookOver || why == Look::Asked) {
    return;  // no news of the node
  }
  for (const auto& [key, source] : sources_) {
    if (node.readiness == Readiness::Gone) {
      source->incidents.look_at(node, Look::Changed);
    } else if (source->feed->source_health().health(node.name) == NodeHealth::Failed) {
      source->incidents.look_at(source->failed(node, around_.in_force.quarantine), Look::Changed);
    }
  }
}

void IncidentsBySignal::census_changed(const cluster::Census& census) {
  census_ = census;
  counted_ = true;
  recount();
  for (const auto& [key, source] : sources_) {
    source->feed->tell_again();  // the Node may be there by now
  }
}

void IncidentsBySignal::recount() {
  if (!counted_) {
    return;
  }
  cluster::Census census = census_;
  std::set<NodeName> names;
  for (const auto& [key, source] : sources_) {
    for (const NodeName& name : source->feed->source_health().failed()) {
      names.insert(name);
    }
  }
  for (const NodeName& name : names) {
    const NodeView* known = find_(name);
    if (known != nullptr && !cluster::is_down(known->readiness) &&
        !supposed_failed_.contains(name)) {
      NodeView down = *known;
      census.remove(down);
      down.readiness = Readiness::Failed;
      census.add(down);
    }
  }
  kubernetes_.census_changed(census);
  for (const auto& [key, source] : sources_) {
    source->incidents.census_changed(census);
  }
}

void IncidentsBySignal::policies_changed() {
  kubernetes_.policies_changed();
  for (const auto& [key, source] : sources_) {
    source->incidents.policies_changed();  // one that nobody goes by any more closes its incidents
  }
  close_sources();
  open_sources();
  policies_known_ = true;
  close_unclaimed();
}

void IncidentsBySignal::evidence_found(const NodeName& node) {
  kubernetes_.evidence_found(node);
  for (const auto& [key, source] : sources_) {
    if (is_by_fencers(key)) {
      source->incidents.evidence_found(node);
    }
  }
}

void IncidentsBySignal::trust_restored() {
  kubernetes_.trust_restored();
  for (const auto& [key, source] : sources_) {
    source->incidents.trust_restored();
  }
}

void IncidentsBySignal::await_records() {
  awaits_records_ = true;
  unclaimed_.clear();
  kubernetes_.await_records();
  for (const auto& [key, source] : sources_) {
    source->incidents.await_records();
  }
}

void IncidentsBySignal::take_over(const std::vector<Journal::Found>& records) {
  awaits_records_ = false;
  std::vector<Journal::Found> of_kubernetes;
  for (const Journal::Found& found : records) {
    // A closed one only says what was done, which is for the brake that all share.
    if (found.record.source.empty() || found.record.closed) {
      of_kubernetes.push_back(found);
    } else {
      unclaimed_[found.record.source].push_back(found);
    }
  }
  kubernetes_.take_over(of_kubernetes);
  for (const auto& [key, source] : sources_) {
    const auto claimed = unclaimed_.extract(key);
    source->incidents.take_over(claimed ? claimed.mapped() : std::vector<Journal::Found>());
  }
  close_unclaimed();
}

// Nobody would ever finish an incident of a source that no policy in force asks: its policy, or the
// settings that are part of the source's key, changed between two leaders.
void IncidentsBySignal::close_unclaimed() {
  if (stopped_ || !policies_known_ || awaits_records_) {
    return;  // stopped: the next leader reads them too
  }
  for (const auto& [key, records] : unclaimed_) {
    for (const Journal::Found& found : records) {
      audit::Record closed;
      closed.kind = audit::Record::Kind::IncidentClosed;
      closed.reason = audit::Reason::NoPolicy;
      closed.incident = found.record.id;
      closed.node = found.record.node;
      closed.node_uid = found.record.node_uid;
      closed.text = "no policy goes by what it was opened for any more";
      closed.took =
          std::max<Duration>(around_.output.journal.now() - found.record.opened, Duration::zero());
      (void)around_.output.trail.write(closed);
      around_.output.journal.close(found, audit::Reason::NoPolicy);
    }
  }
  unclaimed_.clear();
}

void IncidentsBySignal::review(const Find& find) {
  kubernetes_.review(find);
  // What a source says of its nodes is not known yet; a Node that is gone, or another, is.
  for (const auto& [key, source] : sources_) {
    NodeView seen;
    source->incidents.review([&, source = source.get()](const NodeName& name) -> const NodeView* {
      const NodeView* known = find(name);
      if (known == nullptr) {
        return nullptr;
      }
      // But for one that was not heard, and is heard now.
      const cluster::Kernels* kernels = around_.in_force.kernels;
      const bool is_back = is_by_detection(source->feed->key()) && kernels != nullptr &&
                           kernels->kernel_of(name) == cluster::Kernel::Answers;
      seen = is_back ? *known : source->failed(*known, around_.in_force.quarantine);
      return &seen;
    });
  }
}

void IncidentsBySignal::close_sources() {
  std::set<std::string> wanted;
  const auto set = around_.in_force.active.current();
  for (const policy::Binding& binding : set->bindings) {
    wanted.insert(signal_of(binding));
  }
  for (auto entry = sources_.begin(); entry != sources_.end();) {
    if (wanted.contains(entry->first)) {
      ++entry;
      continue;
    }
    entry->second->feed->stop();
    // Its incidents die at the end of the turn, and it after them.
    around_.access.loop.defer(
        [dead = std::shared_ptr<Source>(std::move(entry->second))] { (void)dead; });
    entry = sources_.erase(entry);
  }
}

// Null: nobody watches the machines that the binding goes by.
IncidentsBySignal::MakeFeed IncidentsBySignal::feed_of(const policy::Binding& binding,
                                                       const std::string& key) {
  if (binding.policy->health_source()) {
    return [this, policy = binding.policy, key](NodeHealthFeed::Tell tell) {
      return std::make_unique<HealthSourcePoll>(
          HealthSourcePoll::Surroundings{around_.access.loop, around_.access.reader,
                                         around_.access.allowed_reads, around_.access.endpoints,
                                         around_.output.log, around_.in_force.leadership},
          policy, key, std::move(tell));
    };
  }
  if (around_.in_force.kernels == nullptr) {
    return nullptr;
  }
  Powers* const powers = is_by_fencers(key) ? around_.in_force.powers : nullptr;
  return [this, key, powers, after = binding.allow.after](NodeHealthFeed::Tell tell) {
    return std::make_unique<LostNodes>(
        LostNodes::Surroundings{around_.access.loop, *around_.in_force.kernels,
                                around_.access.peer_lease_reader, around_.access.reader, powers},
        after, key, std::move(tell));
  };
}

void IncidentsBySignal::open_sources() {
  const auto set = around_.in_force.active.current();
  for (const policy::Binding& binding : set->bindings) {
    const std::string key = signal_of(binding);
    if (key.empty() || binding.policy == nullptr) {
      continue;
    }
    if (const auto known = sources_.find(key); known != sources_.end()) {
      // Failed nodes that are dealt with are looked at again.
      Source& source = *known->second;
      for (const NodeName& name : source.feed->source_health().failed()) {
        if (const NodeView* node = is_named(name) ? find_(name) : nullptr) {
          source.incidents.look_at(source.failed(*node, around_.in_force.quarantine),
                                   Look::PoliciesChanged);
        }
      }
      continue;
    }
    const auto make_feed = feed_of(binding, key);
    if (!make_feed) {
      continue;
    }
    auto made = std::make_unique<Source>(
        around_, rules_, make_id_, make_feed,
        [this](Source& source, const SourceHealth::News& news) { return hear(source, news); });
    Source& source = *sources_.emplace(key, std::move(made)).first->second;
    if (awaits_records_) {
      source.incidents.await_records();
    } else if (const auto claimed = unclaimed_.extract(key)) {
      source.incidents.take_over(claimed.mapped());
    }
    if (stopped_) {
      source.incidents.stop();
    } else if (leads_) {
      source.feed->start();
    } else {
      source.incidents.step_down();
    }
  }
  recount();
}

bool IncidentsBySignal::hear(Source& source, const SourceHealth::News& news) {
  const NodeView* known = find_(news.node);
  if (known == nullptr) {
    return false;
  }
  recount();
  if (!is_named(news.node)) {
    return true;  // name() looks into the book
  }
  const bool forgotten = news.change == SourceHealth::Change::Forgotten;
  if (!forgotten && news.health == NodeHealth::Unknown) {
    return true;  // acts on nothing; what is open waits for a word
  }
  if (!forgotten && news.health == NodeHealth::Failed) {
    source.incidents.look_at(source.failed(*known, around_.in_force.quarantine),
                             look_of(news.change));
  } else {
    NodeView healthy = *known;
    healthy.readiness = Readiness::True;
    source.incidents.look_at(healthy, Look::Changed);
  }
  return true;
}

void IncidentsBySignal::lead() {
  leads_ = true;
  kubernetes_.lead();
  for (const auto& [key, source] : sources_) {
    source->incidents.lead();
    source->feed->start();
  }
}

void IncidentsBySignal::step_down(audit::Reason why) {
  leads_ = false;
  unclaimed_.clear();
  kubernetes_.step_down(why);
  for (const auto& [key, source] : sources_) {
    source->feed->stop();
    source->incidents.step_down(why);
  }
  recount();
}

void IncidentsBySignal::stop() {
  stopped_ = true;
  kubernetes_.stop();
  for (const auto& [key, source] : sources_) {
    source->feed->stop();
    source->incidents.stop();
  }
}

bool IncidentsBySignal::is_failed(const NodeName& node) const {
  return std::any_of(sources_.begin(), sources_.end(), [&node](const auto& entry) {
    return entry.second->feed->source_health().health(node) == NodeHealth::Failed;
  });
}

std::vector<SourceState> IncidentsBySignal::source_states() const {
  std::vector<SourceState> states;
  for (const auto& [key, source] : sources_) {
    SourceState state = {
        .policy = source->feed->origin(), .fault = source->feed->lasting_fault(), .strangers = {}};
    for (const NodeName& name : source->feed->source_health().nodes()) {
      if (counted_ && find_(name) == nullptr) {  // else nobody knows which there are
        state.strangers.push_back(name);
      }
    }
    states.push_back(std::move(state));
  }
  return states;
}

std::size_t IncidentsBySignal::open_incidents() const {
  std::size_t open = kubernetes_.open_incidents();
  for (const auto& [key, source] : sources_) {
    open += source->incidents.open_incidents();
  }
  return open;
}

std::size_t IncidentsBySignal::braked_incidents() const {
  std::size_t braked = kubernetes_.braked_incidents();
  for (const auto& [key, source] : sources_) {
    braked += source->incidents.braked_incidents();
  }
  return braked;
}

std::size_t IncidentsBySignal::failing_incidents() const {
  std::size_t failing = kubernetes_.failing_incidents();
  for (const auto& [key, source] : sources_) {
    failing += source->incidents.failing_incidents();
  }
  return failing;
}

std::set<std::string> IncidentsBySignal::failing_policies() const {
  std::set<std::string> names;
  kubernetes_.name_failing(names);
  for (const auto& [key, source] : sources_) {
    source->incidents.name_failing(names);
  }
  return names;
}

std::vector<IncidentStatus> IncidentsBySignal::incident_statuses() const {
  std::vector<IncidentStatus> all;
  kubernetes_.stand(all);
  for (const auto& [key, source] : sources_) {
    source->incidents.stand(all);
  }
  std::stable_sort(all.begin(), all.end(), [](const IncidentStatus& a, const IncidentStatus& b) {
    return a.opened > b.opened;
  });
  return all;
}

std::map<audit::Reason, std::size_t> IncidentsBySignal::awaited_replacements() const {
  auto awaited = kubernetes_.awaited_replacements();
  for (const auto& [key, source] : sources_) {
    for (const auto& [reason, pods] : source->incidents.awaited_replacements()) {
      awaited[reason] += pods;
    }
  }
  return awaited;
}

}  // namespace moonfence::fence
