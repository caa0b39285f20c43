#include "sim/draw.h"

#include <algorithm>
#include <array>
#include <utility>

#include "port/seeded_random.h"
#include "sim/chance.h"
#include "sim/settling.h"
#include "sim/write_refusals.h"

namespace moonfence::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

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

Duration between(port::Random& random, Duration from, Duration to) {
  return within(random, {.from = from, .to = to});
}

// A draw of one world, one concern after the other.
class Drawing {
 public:
  explicit Drawing(std::uint64_t seed) : random_(seed) {}

  Plan make() {
    plan_.name = "seed";
    draw_shape(*random_.fork("shape"));
    draw_replicas(*random_.fork("replicas"));
    draw_workloads(*random_.fork("workloads"));
    plan_.policies = draw_policies(*random_.fork("policies"));
    draw_timings(*random_.fork("timings"));
    draw_release(*random_.fork("release"));
    const auto cruelty = random_.fork("cruelty");
    // A third of the worlds is calm, a third unpleasant, a third cruel.
    cruelty_ = static_cast<int>(number(*cruelty, 0, 2));
    draw_wire(*random_.fork("wire"));
    draw_machines(*random_.fork("machines"));
    draw_engines(*random_.fork("engines"));
    draw_servers(*random_.fork("servers"));
    draw_controllers(*random_.fork("controllers"));
    draw_storage(*random_.fork("storage"));
    draw_objects(*random_.fork("objects"));
    draw_edits(*random_.fork("edits"));
    draw_brake(*random_.fork("brake"));
    draw_quarantine(*random_.fork("quarantine"));
    draw_verification(*random_.fork("verification"));
    draw_refusals(*random_.fork("refusals"));
    draw_hushes(*random_.fork("hushes"));
    draw_slowness(*random_.fork("slowness"));
    draw_clocks(*random_.fork("clocks"));
    draw_seats(*random_.fork("seats"));
    end();
    return std::move(plan_);
  }

 private:
  void add(Duration at, Verb verb, const std::string& target,
           std::map<std::string, std::string> arguments = {}) {
    plan_.steps.push_back(
        {.at = at, .verb = verb, .target = target, .arguments = std::move(arguments)});
  }
  [[nodiscard]] Duration moment(port::Random& random) const {
    return between(random, seconds(1), noise_ - seconds(10));
  }
  [[nodiscard]] const std::string& a_node(port::Random& random) const {
    return plan_.nodes[number(random, 0, plan_.nodes.size() - 1)].name;
  }
  static std::string text(Duration duration) {
    return format_duration(std::chrono::duration_cast<milliseconds>(duration));
  }

  void draw_shape(port::Random& random) {
    constexpr std::array<std::string_view, 3> kZones = {"a", "b", "c"};
    const std::size_t nodes = number(random, 3, 9);
    plan_.nodes.reserve(nodes);
    for (std::size_t i = 0; i < nodes; ++i) {
      NodePlan node;
      node.name = "n" + std::to_string(i + 1);
      node.zone = kZones[i % kZones.size()];
      plan_.nodes.push_back(std::move(node));
    }
    draw_uncommon_nodes(*random_.fork("uncommon-nodes"));
    plan_.engines = happens(random, 0.2) ? 2 : 1;
    plan_.servers = happens(random, 0.3) ? static_cast<int>(number(random, 2, 3)) : 1;
    noise_ = between(random, seconds(60), seconds(120));
  }

  // Machines that are no workers: reserved by a taint, cordoned, or ordered and never seen.
  void draw_uncommon_nodes(port::Random& random) {
    if (!happens(random, 0.25)) {
      return;
    }
    for (std::size_t i = number(random, 1, 4); i > 0; --i) {
      NodePlan node;
      node.name = "u" + std::to_string(i);
      node.dedicated = happens(random, 0.3);
      node.cordoned = !node.dedicated && happens(random, 0.3);
      node.never_joined = !node.dedicated && !node.cordoned;
      plan_.nodes.push_back(std::move(node));
    }
  }

  void draw_workloads(port::Random& random) {
    plan_.workloads = default_workloads();
    for (WorkloadPlan& each : plan_.workloads) {
      if (each.kind == WorkloadKind::StatefulSet || each.kind == WorkloadKind::Deployment) {
        each.replicas = static_cast<int>(number(random, 1, 6));
        each.stop_time = happens(random, 0.3) ? between(random, milliseconds(100), seconds(20))
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
      plan_.workloads.push_back(
          workload(WorkloadKind::DaemonSet, "kube-system/agent", 1, 0, {{"app", "agent"}}));
    }
  }

  void draw_timings(port::Random& random) {
    if (happens(random, 0.5)) {
      plan_.timings.node_monitor_grace = seconds(20);
      plan_.timings.lease_renewal = seconds(5);
    }
    plan_.settings["cache-expiry"] = happens(random, 0.5) ? "30s" : "45s";
    if (happens(random, 0.3)) {
      plan_.settings["retry-interval"] = "2s";
      plan_.settings["retry-window"] = "10s";
    }
  }

  void draw_release(port::Random& random) {
    if (happens(random, 0.5)) {
      plan_.settings["release"] = "on";
    }
  }

  void draw_verification(port::Random& random) {
    plan_.settings["replacement-wait"] = happens(random, 0.2)   ? "0s"
                                         : happens(random, 0.5) ? "10s"
                                                                : "30s";
  }

  void draw_wire(port::Random& random) {
    Faults& faults = plan_.faults;
    faults.piece_limit = happens(random, 0.3) ? number(random, 1, 200) : 16U << 10U;
    if (cruelty_ == 0) {
      return;
    }
    const double most = cruelty_ == 1 ? 0.02 : 0.2;
    // Each fault is switched on or off for the whole run first: not every cruel run is cruel alike.
    const auto share = [&random, most](double scale) {
      return happens(random, 0.4) ? random.unit() * most * scale : 0.0;
    };
    faults.refused = share(1);
    faults.lost_request = share(1);
    faults.lost_reply = share(1);
    faults.truncated = share(1);
    faults.slow = share(1);
    faults.black_hole = share(0.5);
    faults.too_many = share(1);
    faults.internal = share(1);
    faults.internal_after_commit = share(1);
    faults.watch_duplicate = share(2);
    faults.watch_cut = share(1);
    if (happens(random, 0.3)) {
      faults.latency = {milliseconds(1), between(random, milliseconds(5), milliseconds(400))};
    }
    if (happens(random, 0.3)) {
      faults.piece_gap = {Duration::zero(), milliseconds(20)};
    }
    if (happens(random, 0.3)) {
      faults.cache_lag = {Duration::zero(), between(random, milliseconds(10), seconds(3))};
    }
    if (happens(random, 0.5)) {
      faults.skew = {Duration::zero(), between(random, seconds(1), seconds(600))};
    }
    if (happens(random, 0.3)) {
      faults.informer_lag = {milliseconds(1), between(random, milliseconds(20), seconds(2))};
    }
  }

  // How a machine fails, how it comes back, and how often.
  void draw_machines(port::Random& random) {
    const std::uint64_t pattern = number(random, 0, 5);
    if (pattern == 0) {  // a whole zone
      const std::string zone = plan_.nodes[number(random, 0, 2)].zone;
      const Duration at = moment(random);
      const Verb verb = happens(random, 0.5) ? Verb::PowerOff : Verb::PartitionNode;
      for (const NodePlan& node : plan_.nodes) {
        if (node.zone == zone) {
          fail(random, node.name, at, verb, happens(random, 0.5));
        }
      }
      return;
    }
    if (pattern == 1) {  // one that flaps
      flap(random, a_node(random));
      return;
    }
    // One, or a storm.
    const std::size_t count =
        pattern == 2 ? number(random, 2, plan_.nodes.size() - 1) : number(random, 1, 2);
    for (std::size_t i = 0; i < count; ++i) {
      constexpr std::array<Verb, 5> kVerbs = {Verb::PowerOff, Verb::PartitionNode,
                                              Verb::StopKubelet, Verb::NotReady, Verb::RemoveReady};
      const Verb verb = kVerbs[number(random, 0, kVerbs.size() - 1)];
      const bool heals =
          verb == Verb::NotReady || verb == Verb::RemoveReady || happens(random, 0.4);
      fail(random, a_node(random), moment(random), verb, heals);
    }
  }

  void fail(port::Random& random, const std::string& node, Duration at, Verb verb, bool heals) {
    add(at, verb, node);
    if (heals) {
      add(std::min(at + between(random, seconds(1), seconds(70)), noise_ - seconds(1)), Verb::Heal,
          node);
    }
  }

  void flap(port::Random& random, const std::string& node) {
    const bool quickly = happens(random, 0.5);
    Duration at = moment(random) / 2;
    while (at < noise_ - seconds(10)) {
      add(at, quickly ? Verb::NotReady : Verb::StopKubelet, node);
      at += quickly ? between(random, milliseconds(1), seconds(3))
                    : between(random, seconds(15), seconds(50));
      add(std::min(at, noise_ - seconds(1)), Verb::Heal, node);
      at += quickly ? between(random, milliseconds(1), seconds(3))
                    : between(random, seconds(1), seconds(15));
    }
  }

  void draw_engines(port::Random& random) {
    const double chance = cruelty_ == 0 ? 0.1 : 0.4;
    for (int i = 0; i < plan_.engines; ++i) {
      const std::string name = "moonfence-" + std::to_string(i);
      while (happens(random, chance)) {
        const Duration at = moment(random);
        switch (number(random, 0, 5)) {
          case 0:
            add(at, Verb::CrashEngine, name,
                {{"for", text(between(random, milliseconds(10), seconds(10)))}});
            break;
          case 1:
            add(at, Verb::CrashEngine, name,
                {{"for", text(between(random, milliseconds(10), seconds(10)))},
                 {"inside", std::to_string(number(random, 0, 30))}});
            break;
          case 2:
            add(at, Verb::StopEngine, name,
                {{"for", text(between(random, milliseconds(10), seconds(5)))}});
            break;
          case 3:
            add(at, Verb::PauseEngine, name,
                {{"for", text(between(random, milliseconds(100), seconds(40)))}});
            break;
          case 4:
            add(at, Verb::PartitionEngine, name,
                {{"for", text(between(random, milliseconds(100), seconds(30)))}});
            break;
          default:
            add(at, Verb::StepClock, name,
                {{"by", (happens(random, 0.5) ? "-" : "") +
                            text(between(random, milliseconds(500), seconds(4000)))}});
            break;
        }
      }
    }
  }

  void draw_servers(port::Random& random) {
    const double chance = cruelty_ == 0 ? 0.05 : 0.3;
    while (happens(random, chance)) {
      const Duration at = moment(random);
      const std::string length = text(between(random, milliseconds(100), seconds(20)));
      switch (number(random, 0, 2)) {
        case 0:
          add(at, Verb::RestartServer,
              "api-" +
                  std::to_string(number(random, 0, static_cast<std::uint64_t>(plan_.servers) - 1)),
              {{"for", length}});
          break;
        case 1:
          add(at, Verb::Compact, "");
          break;
        default:
          add(at, Verb::Outage, "", {{"for", length}});
          break;
      }
    }
  }

  void draw_replicas(port::Random& random) {
    if (happens(random, 0.25)) {
      plan_.engines = static_cast<int>(number(random, 2, 3));
    }
  }

  void draw_controllers(port::Random& random) {
    if (happens(random, 0.5)) {
      plan_.kubernetes = 36;
    }
    while (happens(random, cruelty_ == 0 ? 0.1 : 0.3)) {
      const Duration at = moment(random);
      add(at, Verb::RestartControllers, "",
          {{"for", text(between(random, milliseconds(100), seconds(20)))}});
    }
  }

  void draw_storage(port::Random& random) {
    if (happens(random, 0.2)) {
      plan_.timings.detach = milliseconds(number(random, 10, 30'000));
    }
    while (happens(random, cruelty_ == 0 ? 0.1 : 0.3)) {
      const Duration at = moment(random);
      const std::string length = text(between(random, milliseconds(500), seconds(90)));
      switch (number(random, 0, 2)) {
        case 0:
          add(at, Verb::StopAttacher, "", {{"for", length}});
          break;
        case 1:
          add(at, Verb::RefuseAttach, a_node(random), {{"for", length}});
          break;
        default:
          add(at, Verb::RefuseDetach, a_node(random), {{"for", length}});
          break;
      }
    }
  }

  void draw_objects(port::Random& random) {
    while (happens(random, 0.4)) {
      add(moment(random), Verb::ReplacePod,
          (happens(random, 0.5) ? "db/postgres-" : "queue/kafka-") +
              std::to_string(number(random, 0, 2)));
    }
    if (happens(random, 0.15)) {
      add(moment(random), Verb::RecreateNode, a_node(random));
    }
    if (happens(random, 0.1)) {
      add(moment(random), Verb::DeleteNode, a_node(random));
    }
    if (happens(random, 0.2)) {
      add(moment(random), Verb::Scale, "db/postgres",
          {{"replicas", std::to_string(number(random, 0, 6))}});
    }
  }

  void draw_edits(port::Random& random) {
    while (happens(random, 0.25)) {
      add(moment(random), Verb::EditPolicies, "", draw_edit(random));
    }
    if (happens(random, 0.05)) {
      const Duration at = moment(random);
      add(at, Verb::DeletePolicies, "");
    }
  }

  // In a third of the worlds the brake is as it comes; in the others limits are off, or narrow. The
  // worlds are small and many of their nodes fail: with the brake on little would be deleted.
  void draw_brake(port::Random& random) {
    if (happens(random, 0.34)) {
      return;
    }
    if (happens(random, 0.8)) {
      plan_.settings["max-down"] = happens(random, 0.7) ? "off" : "80%";
    }
    if (happens(random, 0.3)) {
      plan_.settings["max-at-once"] = std::to_string(number(random, 1, 3));
    }
    if (happens(random, 0.5)) {
      plan_.settings["zone-max-down"] = "off";
    }
    if (happens(random, 0.5)) {
      plan_.settings["cool-down"] = text(between(random, milliseconds(100), seconds(15)));
    }
  }

  // For minutes, until all is calm at the latest. No cache entry expires in time to help.
  void draw_refusals(port::Random& random) {
    const auto one_of = [&random](std::span<const std::string_view> words) {
      return std::string(words[number(random, 0, words.size() - 1)]);
    };
    if (!happens(random, 0.25)) {
      return;
    }
    plan_.settings["cache-expiry"] = "1h";
    do {
      const Duration at = between(random, seconds(1), noise_ / 2);
      const std::string what = one_of(refusable_writes());
      const std::string how = one_of(kinds_of_refusal());
      const Duration length = between(random, seconds(20), seconds(120));
      add(at, Verb::RefuseWrites, what,
          {{"how", how}, {"for", text(std::min(length, noise_ - at))}});
    } while (happens(random, 0.3));
  }

  // Watches that stand still, and what they do not tell: that somebody has switched everything off.
  void draw_hushes(port::Random& random) {
    if (!happens(random, 0.2)) {
      return;
    }
    static constexpr std::array<std::string_view, 4> kWhat = {"nodes", "pods", "policies", "all"};
    const Duration at = between(random, seconds(1), noise_ / 2);
    const Duration length = between(random, seconds(20), seconds(120));
    add(at, Verb::HushWatches, std::string(kWhat[number(random, 0, kWhat.size() - 1)]),
        {{"for", text(std::min(length, noise_ - at))}});
    if (happens(random, 0.3)) {
      add(at + between(random, seconds(1), seconds(20)), Verb::EditPolicies, "", {{"mode", "off"}});
    }
  }

  // Slow and alive: disks, webhooks. Within what the engine waits for, and now and then beyond.
  void draw_slowness(port::Random& random) {
    if (!happens(random, 0.2)) {
      return;
    }
    const auto slow = [&](const char* what, Duration by) {
      const Duration at = between(random, seconds(1), noise_ / 2);
      const Duration length = between(random, seconds(20), seconds(90));
      add(at, Verb::SlowServers, what,
          {{"by", text(by)}, {"for", text(std::min(length, noise_ - at))}});
    };
    switch (number(random, 0, 3)) {
      case 0:
        slow("all", between(random, milliseconds(300), milliseconds(2500)));
        break;
      case 1:
        slow("deletions", between(random, seconds(2), seconds(30)));
        break;
      case 2:
        slow("leases", between(random, seconds(2), seconds(30)));
        break;
      default:
        slow("reads", between(random, milliseconds(500), seconds(8)));
        break;
    }
  }

  // Of nodes and of the control plane; those of replicas jump elsewhere.
  void draw_clocks(port::Random& random) {
    while (happens(random, 0.15)) {
      const Duration by = between(random, milliseconds(500), seconds(4000));
      const std::string jump = (happens(random, 0.5) ? "-" : "") + text(by);
      const Duration at = moment(random);
      if (happens(random, 0.7)) {
        add(at, Verb::StepNodeClock, a_node(random), {{"by", jump}});
      } else {
        add(at, Verb::StepServerClock, "", {{"by", jump}});
      }
    }
  }

  void draw_seats(port::Random& random) {
    if (happens(random, 0.3)) {
      for (int i = 0; i < plan_.engines; ++i) {
        plan_.seats.push_back(a_node(random));
      }
    }
  }

  void draw_quarantine(port::Random& random) {
    if (happens(random, 0.5)) {
      plan_.settings["quarantine"] = happens(random, 0.6) ? "always" : "missing";
    }
  }

  void end() {
    add(noise_, Verb::Calm, "");
    std::stable_sort(plan_.steps.begin(), plan_.steps.end(),
                     [](const Step& a, const Step& b) { return a.at < b.at; });
    plan_.length = noise_ + closing_time(plan_) + seconds(5);
  }

  port::SeededRandom random_;
  Plan plan_;
  Duration noise_{};  // how long it is not calm
  int cruelty_ = 0;
};

}  // namespace

Plan default_world() {
  Plan plan;
  plan.name = "default";
  for (int i = 1; i <= 5; ++i) {
    NodePlan node;
    node.name = "n" + std::to_string(i);
    node.zone = i < 4 ? "a" : "b";
    plan.nodes.push_back(std::move(node));
  }
  plan.workloads = default_workloads();
  plan.policies = default_policies();
  plan.steps.push_back(
      {.at = seconds(10), .verb = Verb::PowerOff, .target = "n2", .arguments = {}});
  plan.length = seconds(120);
  return plan;
}

Plan draw(std::uint64_t seed) {
  Plan plan = Drawing(seed).make();
  plan.name = "seed " + std::to_string(seed);
  return plan;
}

std::string describe(const Plan& plan) {
  int pods = 0;
  int volumes = 0;
  for (const WorkloadPlan& each : plan.workloads) {
    const int count =
        each.kind == WorkloadKind::DaemonSet ? static_cast<int>(plan.nodes.size()) : each.replicas;
    pods += count;
    volumes += each.kind == WorkloadKind::StatefulSet ? count * each.volumes : each.volumes;
  }
  std::string text = std::to_string(plan.nodes.size());
  text += " nodes, " + std::to_string(pods);
  text += " pods, " + std::to_string(volumes);
  text += " volumes, " + std::to_string(plan.engines);
  text += " engine(s), " + std::to_string(plan.servers);
  text += " server(s), " + std::to_string(plan.steps.size());
  text += " steps, " + format_duration(std::chrono::duration_cast<seconds>(plan.length));
  return text;
}

}  // namespace moonfence::sim
