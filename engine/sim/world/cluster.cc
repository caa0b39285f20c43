#include "sim/world/cluster.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "sim/controllers/attach_detach.h"
#include "sim/controllers/attacher.h"
#include "sim/controllers/daemon_set.h"
#include "sim/controllers/kubelet.h"
#include "sim/controllers/leader_lease.h"
#include "sim/controllers/node_lifecycle.h"
#include "sim/controllers/pod_gc.h"
#include "sim/controllers/replica_set.h"
#include "sim/controllers/scheduler.h"
#include "sim/controllers/stateful_set.h"
#include "sim/controllers/taint_manager.h"
#include "sim/ground/chronicle.h"
#include "sim/ground/facts.h"
#include "sim/ground/ground.h"
#include "sim/world/csi_addons.h"
#include "sim/world/person.h"
#include "sim/world/servers.h"
#include "sim/world/settle.h"
#include "sim/world/steps.h"

namespace moonfence::sim {
namespace {

// What happens to a machine or its kubelet, with nothing more to say of it.
struct Fault {
  Verb verb;
  void (Kubelet::*happen)();
};
constexpr std::array kFaults = {
    Fault{Verb::PowerOff, &Kubelet::power_off},
    Fault{Verb::PartitionNode, &Kubelet::cut_off},
    Fault{Verb::StopKubelet, &Kubelet::stop_kubelet},
    Fault{Verb::Freeze, &Kubelet::freeze},
    Fault{Verb::NotReady, &Kubelet::turn_not_ready},
    Fault{Verb::RemoveReady, &Kubelet::take_ready_away},
    Fault{Verb::MarkUnknown, &Kubelet::be_called_unknown},
};

// kube-controller-manager: one set of informers for all its controllers.
struct ControllerManager {
  explicit ControllerManager(const Ground& ground)
      : nodes(ground.informer("controller-manager", "nodes")),
        leases(ground.informer("controller-manager", "leases")),
        pods(ground.informer("controller-manager", "pods")),
        claims(ground.informer("controller-manager", "persistentvolumeclaims")),
        volumes(ground.informer("controller-manager", "persistentvolumes")),
        attachments(ground.informer("controller-manager", "volumeattachments")),
        stateful_set_views(ground.informer("controller-manager", "statefulsets")),
        replica_set_views(ground.informer("controller-manager", "replicasets")),
        daemon_set_views(ground.informer("controller-manager", "daemonsets")),
        node_lifecycle(ground, *nodes, *leases, *pods),
        taint_manager(ground, *nodes, *pods),
        pod_gc(ground, *nodes, *pods),
        stateful_sets(ground, *stateful_set_views, *pods),
        replica_sets(ground, *replica_set_views, *pods),
        daemon_sets(ground, *daemon_set_views, *nodes, *pods),
        attach_detach(ground, {.nodes = *nodes,
                               .pods = *pods,
                               .claims = *claims,
                               .volumes = *volumes,
                               .attachments = *attachments}) {}

  // After a restart: what happened meanwhile told nobody.
  void take_up() {
    taint_manager.take_up();
    stateful_sets.take_up();
    replica_sets.take_up();
    daemon_sets.take_up();
  }

  std::unique_ptr<Informer> nodes;
  std::unique_ptr<Informer> leases;
  std::unique_ptr<Informer> pods;
  std::unique_ptr<Informer> claims;
  std::unique_ptr<Informer> volumes;
  std::unique_ptr<Informer> attachments;
  std::unique_ptr<Informer> stateful_set_views;
  std::unique_ptr<Informer> replica_set_views;
  std::unique_ptr<Informer> daemon_set_views;
  NodeLifecycle node_lifecycle;
  TaintManager taint_manager;
  PodGc pod_gc;
  StatefulSets stateful_sets;
  ReplicaSets replica_sets;
  DaemonSets daemon_sets;
  AttachDetach attach_detach;
};

// The kubelets of all machines. They share informers, and each hears of its own node.
struct Kubelets {
  Kubelets(const Ground& ground, const Plan& plan)
      : nodes(ground.informer("kubelets", "nodes")),
        pods(ground.informer("kubelets", "pods")),
        attachments(ground.informer("kubelets", "volumeattachments")) {
    const KubeletViews views{.nodes = *nodes, .pods = *pods, .attachments = *attachments};
    for (const NodePlan& node : plan.nodes) {
      if (node.never_joined) {
        continue;
      }
      by_name.emplace(node.name, std::make_unique<Kubelet>(ground, node, views));
    }
    for (const auto& [key, pod] : pods->all()) {
      Kubelet* kubelet = find(node_of(*pod));
      if (kubelet != nullptr && phase_of(*pod) == "Running") {
        kubelet->adopt(pod);
      }
    }
    for (const NodePlan& node : plan.nodes) {
      if (node.absent || node.dead > Duration::zero()) {
        by_name.at(node.name)->power_off();
      }
    }
    pods->on_change([this](const Object& before, const Object& after) {
      if (Kubelet* kubelet = find(node_of(after == nullptr ? *before : *after))) {
        kubelet->saw_pod(before, after);
      }
    });
    nodes->on_change([this](const Object& before, const Object& after) {
      if (Kubelet* kubelet = find(name_of(after == nullptr ? *before : *after))) {
        kubelet->saw_node();
      }
    });
    attachments->on_change([this](const Object& before, const Object& after) {
      const Json& attachment = after == nullptr ? *before : *after;
      if (Kubelet* kubelet = find(text_field(attachment, {"spec", "nodeName"}))) {
        kubelet->saw_attachment();
      }
    });
  }

  [[nodiscard]] Kubelet* find(const std::string& node) const {
    const auto found = by_name.find(node);
    return found == by_name.end() ? nullptr : found->second.get();
  }

  // What a storage refused, it may serve now.
  void mount_again() const {
    for (const auto& [name, kubelet] : by_name) {
      kubelet->saw_attachment();
    }
  }

  std::unique_ptr<Informer> nodes;
  std::unique_ptr<Informer> pods;
  std::unique_ptr<Informer> attachments;
  std::map<std::string, std::unique_ptr<Kubelet>> by_name;
};

// "for", nothing when it is not said.
Duration length_of(const Step& step) {
  const auto found = step.arguments.find("for");
  return found == step.arguments.end() ? Duration()
                                       : parse_duration(found->second).value_or(Duration());
}

}  // namespace

struct Cluster::State {
  State(loop::Loop& loop, port::Random& random, std::function<WallTime()> now, const Plan& plan,
        Story& story)
      : uids(random.fork("uids")),
        store(now, *uids),
        ground{.loop = loop,
               .random = random,
               .now = std::move(now),
               .kubernetes = plan.kubernetes,
               .timings = plan.timings,
               .informer_lag = plan.faults.informer_lag,
               .store = store,
               .machines = machines,
               .story = story,
               .start = loop.now()} {
    for (const FenceClassPlan& each : plan.fence_classes) {
      machines.clusters.push_back(each.name);
    }
    settle(ground, plan);
    keep_chronicle(ground);
    servers = std::make_unique<Servers>(
        ground, plan, [this](const std::string& node, std::string_view path) {
          Kubelet* kubelet = kubelets->find(node);
          return kubelet == nullptr ? unreachable_kubelet() : kubelet->answer(path);
        });
    manager = std::make_unique<ControllerManager>(ground);
    // Nobody else reads it, and its beats would lengthen every other world.
    if (const auto release = plan.settings.find("release");
        release != plan.settings.end() && release->second == "on") {
      elects = true;
      leader_lease = std::make_unique<LeaderLease>(ground);
    }
    scheduler_nodes = ground.informer("scheduler", "nodes");
    scheduler_pods = ground.informer("scheduler", "pods");
    scheduler = std::make_unique<Scheduler>(ground, *scheduler_nodes, *scheduler_pods);
    attacher_view = ground.informer("attacher", "volumeattachments");
    attacher = std::make_unique<Attacher>(ground, *attacher_view);
    kubelets = std::make_unique<Kubelets>(ground, plan);
    bmcs = std::make_unique<Bmcs>(
        ground, plan, [this](const std::string& machine) { return kubelets->find(machine); });
    if (!plan.fence_classes.empty()) {
      csi_addons = std::make_unique<CsiAddons>(ground, plan, [this] { kubelets->mount_again(); });
      person = std::make_unique<Person>(
          ground, plan, [this](const std::string& machine) { return kubelets->find(machine); },
          [this] { kubelets->mount_again(); });
    }
  }

  bool perform_on_machine(const Step& step);
  bool delete_node(const std::string& name);
  bool heal(const std::string& node, Kubelet& kubelet);
  bool remove_lease(const std::string& name, const std::string& actor);
  bool restart_controllers(Duration away);
  bool restore_store(Duration away);
  bool perform(const Step& step);

  std::unique_ptr<port::Random> uids;
  ObjectStore store;
  Machines machines;
  Ground ground;
  std::optional<StoreSnapshot> snapshot;
  std::unique_ptr<Servers> servers;
  std::unique_ptr<ControllerManager> manager;  // null while it is away
  loop::Timer manager_returns;
  bool elects = false;  // a leader, before it does anything
  std::unique_ptr<LeaderLease> leader_lease;
  std::unique_ptr<Informer> scheduler_nodes;
  std::unique_ptr<Informer> scheduler_pods;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<Informer> attacher_view;
  std::unique_ptr<Attacher> attacher;
  std::unique_ptr<Kubelets> kubelets;
  std::unique_ptr<Bmcs> bmcs;
  std::unique_ptr<CsiAddons> csi_addons;  // null where no storage can refuse anybody
  std::unique_ptr<Person> person;         // likewise
};

bool Cluster::State::delete_node(const std::string& name) {
  const bool deleted =
      store.remove({.resource = "nodes", .space = {}, .name = name}, {}, "administrator")
          .has_value();
  if (deleted) {
    // The Lease is the node's, and goes with it.
    (void)remove_lease(name, "generic-garbage-collector");
  }
  return deleted;
}

bool Cluster::State::remove_lease(const std::string& name, const std::string& actor) {
  return store.remove({.resource = "leases", .space = "kube-node-lease", .name = name}, {}, actor)
      .has_value();
}

bool Cluster::State::restart_controllers(Duration away) {
  manager.reset();
  leader_lease.reset();
  ground.tell(Happening::Kind::Fault, "controller-manager", "is away",
              "for " + format_duration(away));
  manager_returns = ground.loop.after(away, [this] {
    leader_lease = elects ? std::make_unique<LeaderLease>(ground) : nullptr;
    manager = std::make_unique<ControllerManager>(ground);
    manager->take_up();
    ground.tell(Happening::Kind::Fault, "controller-manager", "is back");
  });
  return true;
}

// Kubelets and controllers hear of what it undoes as they hear of any change: theirs too list
// everything again.
bool Cluster::State::restore_store(Duration away) {
  if (!snapshot) {
    return false;
  }
  ground.tell(Happening::Kind::Fault, "etcd",
              "goes back from version " + std::to_string(store.version()) + " to " +
                  std::to_string(snapshot->version));
  servers->restore(*snapshot, away);
  return true;
}

bool Cluster::State::heal(const std::string& node, Kubelet& kubelet) {
  if (store.find({.resource = "nodes", .space = {}, .name = node}) == nullptr) {
    kubelet.register_again();
  } else {
    kubelet.heal();
  }
  return true;
}

bool Cluster::State::perform_on_machine(const Step& step) {
  Kubelet* kubelet = kubelets->find(step.target);
  if (kubelet == nullptr) {
    return false;
  }
  if (step.verb == Verb::RemoveLease) {
    return remove_lease(step.target, "administrator");
  }
  if (step.verb == Verb::DeleteNode) {
    return delete_node(step.target);
  }
  if (step.verb == Verb::RecreateNode) {
    (void)delete_node(step.target);
    return heal(step.target, *kubelet);
  }
  if (step.verb == Verb::Heal) {
    return heal(step.target, *kubelet);
  }
  if (step.verb == Verb::StepNodeClock) {
    kubelet->step_clock(duration_argument(step, "by"));
    return true;
  }
  const auto fault = std::find_if(kFaults.begin(), kFaults.end(),
                                  [&step](const Fault& known) { return known.verb == step.verb; });
  if (fault == kFaults.end()) {
    return false;
  }
  (kubelet->*fault->happen)();
  return true;
}

bool Cluster::State::perform(const Step& step) {
  switch (step.verb) {
    case Verb::PowerOff:
    case Verb::PartitionNode:
    case Verb::StopKubelet:
    case Verb::Freeze:
    case Verb::NotReady:
    case Verb::RemoveReady:
    case Verb::MarkUnknown:
    case Verb::RemoveLease:
    case Verb::Heal:
    case Verb::DeleteNode:
    case Verb::RecreateNode:
    case Verb::StepNodeClock:
      return perform_on_machine(step);
    case Verb::HoldNode:
    case Verb::HoldNamespace:
    case Verb::HoldPod:
    case Verb::Attest:
    case Verb::AnnotateNode:
    case Verb::LabelNode:
    case Verb::ReplacePod:
    case Verb::DeletePod:
    case Verb::FailPod:
    case Verb::AddFinalizer:
    case Verb::RemoveFinalizer:
    case Verb::Scale:
    case Verb::EditPolicies:
    case Verb::DeletePolicies:
    case Verb::DeleteAttachments:
    case Verb::ReleaseVolumes:
    case Verb::TaintOutOfService:
      return change_objects(ground, step);
    case Verb::SnapshotStore:
      snapshot = store.snapshot();
      return true;
    case Verb::RestoreStore:
      return restore_store(length_of(step));
    case Verb::RestartServer:
    case Verb::Compact:
    case Verb::Outage:
    case Verb::HushWatches:
    case Verb::RefuseWrites:
    case Verb::HideObjects:
      return servers->perform(step);
    case Verb::Isolate:
      return person != nullptr && person->isolate(step.target);
    case Verb::Calm:
      attacher->calm();
      if (person != nullptr) {
        person->calm();
      }
      return servers->perform(step);
    case Verb::StopAttacher:
    case Verb::RefuseAttach:
    case Verb::RefuseDetach:
      return attacher->perform(step);
    case Verb::RestartControllers:
      return restart_controllers(length_of(step));
    case Verb::CrashEngine:
    case Verb::StopEngine:
    case Verb::PauseEngine:
    case Verb::PartitionEngine:
    case Verb::CutLink:
    case Verb::StepClock:
    case Verb::SlowServers:
    case Verb::StepServerClock:
      break;
  }
  return false;
}

Cluster::Cluster(loop::Loop& loop, port::Random& random, std::function<WallTime()> now,
                 const Plan& plan, Story& story)
    : state_(std::make_unique<State>(loop, random, std::move(now), plan, story)) {}

Cluster::~Cluster() = default;

ObjectStore& Cluster::store() {
  return state_->store;
}

ApiServer& Cluster::server(std::size_t index) {
  return state_->servers->at(index);
}

std::size_t Cluster::servers() const {
  return state_->servers->size();
}

const Machines& Cluster::machines() const {
  return state_->machines;
}

Bmcs& Cluster::bmcs() {
  return *state_->bmcs;
}

void Cluster::on_machine_change(std::function<void()> heard) {
  state_->machines.on_change = std::move(heard);
}

bool Cluster::perform(const Step& step) {
  return state_->perform(step);
}

}  // namespace moonfence::sim
