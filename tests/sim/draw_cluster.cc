#include <array>
#include <utility>

#include "sim/drawing.h"
#include "sim/net/chance.h"

namespace moonfence::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

}  // namespace

WorkloadPlan workload(WorkloadKind kind, const std::string& path, int replicas, int volumes,
                      std::map<std::string, std::string> labels) {
  const auto slash = path.find('/');
  WorkloadPlan plan;
  plan.kind = kind;
  plan.space = path.substr(0, slash);
  plan.name = path.substr(slash + 1);
  plan.replicas = replicas;
  plan.volumes = volumes;
  plan.labels = std::move(labels);
  return plan;
}

std::vector<WorkloadPlan> default_workloads() {
  using Kind = WorkloadKind;
  return {workload(Kind::StatefulSet, "noobaa/noobaa-core", 1, 1, {{"app", "noobaa"}}),
          workload(Kind::StatefulSet, "noobaa/noobaa-db-pg", 1, 1, {{"app", "noobaa"}}),
          workload(Kind::Deployment, "noobaa/noobaa-endpoint", 3, 0, {{"app", "noobaa"}}),
          workload(Kind::StatefulSet, "db/postgres", 4, 1, {{"app", "postgres"}}),
          workload(Kind::StatefulSet, "queue/kafka", 3, 1, {{"app", "kafka"}}),
          workload(Kind::Deployment, "web/shop", 4, 0, {{"app", "shop"}, {"tier", "front"}}),
          workload(Kind::Deployment, "web/uploads", 1, 1, {{"app", "uploads"}}),
          workload(Kind::Bare, "web/toolbox", 1, 0, {{"app", "toolbox"}}),
          workload(Kind::Mirror, "kube-system/proxy", 1, 0, {{"app", "proxy"}}),
          workload(Kind::Finished, "db/backup", 1, 0, {{"app", "backup"}})};
}

void draw_shape(Drawing& drawing, port::Random& random) {
  constexpr std::array<std::string_view, 3> kZones = {"a", "b", "c"};
  const std::size_t nodes = number(random, 3, 9);
  drawing.plan.nodes.reserve(nodes);
  for (std::size_t i = 0; i < nodes; ++i) {
    NodePlan node;
    node.name = "n" + std::to_string(i + 1);
    node.zone = kZones[i % kZones.size()];
    drawing.plan.nodes.push_back(std::move(node));
  }
  drawing.plan.engines = happens(random, 0.2) ? 2 : 1;
  drawing.plan.servers = happens(random, 0.3) ? static_cast<int>(number(random, 2, 3)) : 1;
  drawing.noise = drawn_between(random, seconds(60), seconds(120));
}

// Machines that are no workers: reserved by a taint, cordoned, or ordered and never seen.
void draw_uncommon_nodes(Drawing& drawing, port::Random& random) {
  if (!happens(random, 0.25)) {
    return;
  }
  for (std::size_t i = number(random, 1, 4); i > 0; --i) {
    NodePlan node;
    node.name = "u" + std::to_string(i);
    node.dedicated = happens(random, 0.3);
    node.cordoned = !node.dedicated && happens(random, 0.3);
    node.never_joined = !node.dedicated && !node.cordoned;
    drawing.plan.nodes.push_back(std::move(node));
  }
}

// So long ago that no clock that is put back makes it look new.
void draw_long_dead(Drawing& drawing, port::Random& random) {
  if (!happens(random, 0.2)) {
    return;
  }
  for (std::size_t i = number(random, 1, 2); i > 0; --i) {
    NodePlan node;
    node.name = "d" + std::to_string(i);
    node.zone = drawing.plan.nodes[i].zone;
    node.dead = std::chrono::hours(3 * i) + drawn_between(random, seconds(0), seconds(7200));
    if (happens(random, 0.2)) {
      drawing.add(drawing.moment(random), Verb::Heal, node.name);
    }
    drawing.plan.nodes.push_back(std::move(node));
  }
}

void draw_joining(Drawing& drawing, port::Random& random) {
  if (!happens(random, 0.2)) {
    return;
  }
  for (std::size_t i = number(random, 1, 2); i > 0; --i) {
    NodePlan node;
    node.name = "j" + std::to_string(i);
    node.zone = drawing.plan.nodes[i].zone;
    node.absent = true;
    const Duration joins = drawn_between(random, seconds(1), drawing.noise / 2);
    drawing.add(joins, Verb::Heal, node.name);
    if (happens(random, 0.4)) {
      drawing.add(drawn_between(random, joins + seconds(1), drawing.noise - seconds(1)),
                  Verb::PowerOff, node.name);
    }
    drawing.plan.nodes.push_back(std::move(node));
  }
}

void draw_replicas(Drawing& drawing, port::Random& random) {
  if (happens(random, 0.25)) {
    drawing.plan.engines = static_cast<int>(number(random, 2, 3));
  }
}

void draw_workloads(Drawing& drawing, port::Random& random) {
  drawing.plan.workloads = default_workloads();
  for (WorkloadPlan& each : drawing.plan.workloads) {
    if (each.kind == WorkloadKind::StatefulSet || each.kind == WorkloadKind::Deployment) {
      each.replicas = static_cast<int>(number(random, 1, 6));
      each.stop_time = happens(random, 0.3) ? drawn_between(random, milliseconds(100), seconds(20))
                                            : Duration::zero();
    }
    if (happens(random, 0.1)) {
      each.labels["precious"] = "yes";
    }
    if (each.kind == WorkloadKind::Deployment && each.volumes > 0) {
      each.replicas = 1;
    }
    if (happens(random, 0.05)) {
      each.finalizers = {"example.com/held"};
    }
  }
  if (happens(random, 0.5)) {
    drawing.plan.workloads.push_back(
        workload(WorkloadKind::DaemonSet, "kube-system/agent", 1, 0, {{"app", "agent"}}));
  }
}

void draw_timings(Drawing& drawing, port::Random& random) {
  if (happens(random, 0.5)) {
    drawing.plan.timings.node_monitor_grace = seconds(20);
    drawing.plan.timings.lease_renewal = seconds(5);
  }
  drawing.plan.settings["cache-expiry"] = happens(random, 0.5) ? "30s" : "45s";
  if (happens(random, 0.3)) {
    drawing.plan.settings["retry-interval"] = "2s";
    drawing.plan.settings["retry-window"] = "10s";
  }
}

void draw_controllers(Drawing& drawing, port::Random& random) {
  if (happens(random, 0.5)) {
    drawing.plan.kubernetes = 36;
  }
  while (happens(random, drawing.cruelty == 0 ? 0.1 : 0.3)) {
    const Duration at = drawing.moment(random);
    drawing.add(at, Verb::RestartControllers, "",
                {{"for", text_of(drawn_between(random, milliseconds(100), seconds(20)))}});
  }
}

void draw_seats(Drawing& drawing, port::Random& random) {
  if (happens(random, 0.3)) {
    for (int i = 0; i < drawing.plan.engines; ++i) {
      drawing.plan.seats.push_back(drawing.a_node(random));
    }
  }
}

}  // namespace moonfence::sim
