#include "app/engine/status_reporter.h"

#include <algorithm>
#include <utility>

#include "app/status/node_pick.h"
#include "base/text.h"

namespace moonfence::app {
namespace {

std::string in_words(const fence::Limit& limit) {
  if (!limit.value) {
    return "off";
  }
  if (limit.percent) {
    return std::to_string(*limit.value) + " %";
  }
  return std::to_string(*limit.value) + (*limit.value == 1 ? " node" : " nodes");
}

StatusSnapshot::Guard guard_of(const StatusReporter::Subjects& subjects, Moment now) {
  const fence::Brake::Count count = subjects.brake.newly_down();
  const fence::BrakeRules& rules = subjects.brake_rules;
  StatusSnapshot::Guard guard = {.too_many_down = subjects.brake.engaged(now),
                                 .workers = count.workers,
                                 .workers_down = count.down,
                                 .down_text = count.text(),
                                 .down_names = {},
                                 .disrupted_zones = subjects.brake.disrupted_zones(now),
                                 .being_fenced = subjects.brake.being_fenced(),
                                 .waiting = subjects.by_signal.braked_incidents(),
                                 .failing = subjects.by_signal.failing_incidents(),
                                 .max_down = in_words(rules.max_down),
                                 .at_once = in_words(rules.cluster.at_once),
                                 .per_window = in_words(rules.cluster.per_window),
                                 .window = format_duration(rules.window),
                                 .doubts = {},
                                 .slowness = subjects.slowness,
                                 .fenced_nodes = subjects.taint_lifter.fenced(),
                                 .doubtful_nodes = subjects.taint_lifter.doubtful(),
                                 .silent_nodes = subjects.silent_taints.tainted(),
                                 .audit_failures = subjects.trail.failures(),
                                 .kept = subjects.taint_lifter.kept(),
                                 .sources = subjects.by_signal.source_states()};
  for (const NodeName& name : count.names) {
    if (guard.down_names.size() == StatusReporter::kMaxNodes) {
      break;
    }
    guard.down_names.push_back(name.text());
  }
  for (const fence::SelfDoubt::Cause cause : subjects.doubt.causes()) {
    guard.doubts.emplace_back(to_string(cause));
  }
  return guard;
}

StatusSnapshot::Detection detection_of(const StatusReporter::Subjects& subjects) {
  const cluster::Witnesses& witnesses = *subjects.witnesses;
  StatusSnapshot::Detection shown{.counts = subjects.detection->counts(),
                                  .silences = subjects.detection->silences(),
                                  .witnesses = witnesses.counts(),
                                  .machines = {},
                                  .machines_cut = 0};
  auto [machines, cut] = subjects.machine_history.machines(StatusReporter::kMaxMachines);
  for (cluster::MachineHistory::Machine& machine : machines) {
    const bool confirmed = witnesses.is_confirmed(machine.node);
    shown.machines.push_back({.history = std::move(machine), .is_confirmed = confirmed});
  }
  shown.machines_cut = cut;
  return shown;
}

void show_nodes(StatusSnapshot& snapshot, const StatusReporter::Subjects& subjects) {
  NodePick pick(StatusReporter::kMaxNodes);
  subjects.nodes.each([&subjects, &pick](const cluster::NodeView& view) {
    pick.offer(view, subjects.by_signal.is_failed(view.name));
  });
  auto [nodes, left_out] = pick.take();
  snapshot.nodes = std::move(nodes);
  snapshot.nodes_cut = left_out;
}

std::string in_words(const policy::NamespaceScope& scope) {
  std::vector<std::string> names;
  for (const Namespace& name : scope.names()) {
    names.push_back(name.text());
  }
  return scope.is_everywhere() ? "*" : joined(names, ", ");
}

// What --policy says, in the words of a report on the ConfigMap.
policy::ReloadReport report_of_the_file(const policy::PolicySet& set, policy::Mode mode,
                                        WallTime started) {
  policy::ReloadReport report;
  report.observed_at = started;
  report.active_set = set.digest;
  report.mode = mode;
  report.mode_set_by = "--mode";
  for (const policy::Binding& binding : set.bindings) {
    using State = policy::PolicyStatus::State;
    report.policies.push_back(
        {.name = binding.name,
         .namespaces = in_words(binding.scope),
         .state = binding.mode == policy::Mode::Enforce ? State::Active : State::Observe,
         .source = "--policy",
         .digest = binding.digest,
         .mode = binding.mode,
         .since = started});
  }
  return report;
}

}  // namespace

const StatusSnapshot::Stand* StatusSnapshot::stand_of(const IncidentId& id) const {
  const auto found = std::find_if(stands.begin(), stands.end(), [&id](const Stand& stand) {
    return stand.incident_status.incident == id;
  });
  return found == stands.end() ? nullptr : &*found;
}

std::uint64_t StatusSnapshot::count(fence::IncidentStatus::State state) const {
  return static_cast<std::uint64_t>(
      std::count_if(stands.begin(), stands.end(),
                    [state](const Stand& stand) { return stand.incident_status.state == state; }));
}

void StatusReporter::publish(const Subjects& subjects, Moment now, WallTime wall) {
  if (published_ && now - *published_ < kPeriod) {
    return;
  }
  published_ = now;
  auto snapshot = std::make_shared<StatusSnapshot>();
  snapshot->taken = wall;
  snapshot->replica = replica(subjects, now);
  snapshot->guard = guard_of(subjects, now);
  if (subjects.detection != nullptr) {
    snapshot->detection = detection_of(subjects);
  }
  if (subjects.fencer_check != nullptr && snapshot->replica.leads) {
    snapshot->fencers = subjects.fencer_check->told();
  }
  snapshot->not_ready = subjects.health.failing();
  snapshot->synced = subjects.nodes.synced();
  snapshot->counts = subjects.nodes.counts();
  show_nodes(*snapshot, subjects);
  show_policies(*snapshot, subjects);
  snapshot->under_way = book_.under_way();
  snapshot->past = book_.past();
  snapshot->open_incidents = subjects.by_signal.open_incidents();
  for (fence::IncidentStatus& incident_status : subjects.by_signal.incident_statuses()) {
    const auto next = incident_status.next;
    snapshot->stands.push_back(
        {.incident_status = std::move(incident_status),
         .next = next ? std::optional(wall + (std::max(*next, now) - now)) : std::nullopt});
  }
  board_.publish(std::move(snapshot));
}

StatusSnapshot::Replica StatusReporter::replica(const Subjects& subjects, Moment now) const {
  StatusSnapshot::Replica replica = {.instance = identity_.instance,
                                     .node = identity_.node,
                                     .server = identity_.server,
                                     .started = started_,
                                     .elects = subjects.elector != nullptr,
                                     .leads = subjects.elector == nullptr,
                                     .holder = {},
                                     .witness_address = identity_.witness_address,
                                     .witness_key = identity_.witness_key};
  if (subjects.elector != nullptr) {
    const auto until = subjects.elector->leading_until();
    replica.leads = until && *until > now;
    replica.holder = subjects.elector->holder();
    replica.seat = subjects.elector->seat();
  }
  return replica;
}

void StatusReporter::show_policies(StatusSnapshot& snapshot, const Subjects& subjects) const {
  snapshot.policy_file = identity_.policy_file;
  snapshot.policies = subjects.feed != nullptr
                          ? subjects.feed->last_report()
                          : report_of_the_file(subjects.active, subjects.mode, started_);
  for (const policy::Binding& binding : subjects.active.bindings) {
    if (binding.policy != nullptr) {
      snapshot.versions[binding.digest] = binding.policy->version();
    }
  }
}

}  // namespace moonfence::app
