#include "sim/world/settle.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "sim/controllers/daemon_set.h"
#include "sim/controllers/replica_set.h"
#include "sim/controllers/scheduler.h"
#include "sim/controllers/stateful_set.h"
#include "sim/ground/blueprints.h"
#include "sim/ground/facts.h"
#include "sim/ground/volumes.h"

namespace moonfence::sim {
namespace {

constexpr const char* kActor = "settle";

bool has_joined(const Json& node) {
  return find_field(node, {"status", "nodeInfo"}) != nullptr;
}

class Settler {
 public:
  Settler(const Ground& ground, const Plan& plan)
      : ground_(ground), plan_(plan), random_(ground.random.fork("settle")) {}

  void settle() {
    for (const NodePlan& node : plan_.nodes) {
      add_node(node);
    }
    std::set<std::string> spaces = {"default", "kube-node-lease", "kube-public", "kube-system",
                                    "moonfence"};
    for (const WorkloadPlan& workload : plan_.workloads) {
      spaces.insert(workload.space);
    }
    for (const std::string& space : spaces) {
      create("namespaces", {}, {{"metadata", {{"name", space}}}});
    }
    for (const WorkloadPlan& workload : plan_.workloads) {
      add_workload(workload);
    }
    for (const auto& [name, volumes] : attached_) {
      show_volumes(name, volumes);
    }
    for (const NodePlan& node : plan_.nodes) {
      if (node.dead > Duration::zero()) {
        let_die(node);
      }
    }
    if (!plan_.policies.empty()) {
      create("configmaps", "moonfence",
             {{"metadata", {{"name", "moonfence-policies"}}}, {"data", plan_.policies}});
    }
  }

 private:
  Object create(const std::string& resource, const std::string& space, Json object) {
    const auto made = ground_.store.create(resource, space, std::move(object), kActor);
    MOONFENCE_CHECK(made.has_value());  // a plan that names something twice
    return *made;
  }

  // By its name; by a longer one when somebody has that.
  [[nodiscard]] std::string free_address(std::string name) const {
    const auto is_taken = [this](const std::string& address) {
      const auto& machines = ground_.machines.by_name;
      return std::any_of(machines.begin(), machines.end(),
                         [&address](const auto& entry) { return entry.second.address == address; });
    };
    while (is_taken(address_of(name))) {
      name += '+';
    }
    return address_of(name);
  }

  void add_node(const NodePlan& node) {
    Machine machine;
    machine.name = node.name;
    machine.address = free_address(node.name);
    // Real ones always say it. Here only to an engine that asks: in all other runs the wire cuts
    // answers into pieces where it always did.
    machine.port_is_told = detects(plan_);
    machine.powered = !node.never_joined;  // there is none
    machine.boot_id = make_uuid(*random_);
    machine.impaired_since = ground_.loop.now();
    machine.answers_since = ground_.loop.now();
    ground_.machines.by_name[node.name] = machine;
    if (node.absent) {
      return;
    }
    nodes_.push_back(create("nodes", {}, node_blueprint(node, machine, ground_.stamp())));
    if (!node.never_joined) {
      create("leases", "kube-node-lease",
             lease_blueprint(*nodes_.back(), ground_.timings, ground_.micro_stamp()));
    }
    loads_[node.name] = {.pods = 0, .room = static_cast<std::size_t>(node.capacity)};
  }

  void add_workload(const WorkloadPlan& plan) {
    switch (plan.kind) {
      case WorkloadKind::StatefulSet:
        add_stateful_set(plan);
        break;
      case WorkloadKind::Deployment:
        add_deployment(plan);
        break;
      case WorkloadKind::DaemonSet:
        add_daemon_set(plan);
        break;
      case WorkloadKind::Bare:
        add_bare(plan);
        break;
      case WorkloadKind::Mirror:
        add_mirrors(plan);
        break;
      case WorkloadKind::Finished:
        add_finished(plan);
        break;
    }
  }

  void add_stateful_set(const WorkloadPlan& plan) {
    const Object set = create("statefulsets", plan.space, workload_blueprint(plan, plan.name));
    for (int ordinal = 0; ordinal < plan.replicas; ++ordinal) {
      create_claims(ground_.store, *set, ordinal);
      run(stateful_pod(*set, ordinal), plan);
    }
  }

  void add_deployment(const WorkloadPlan& plan) {
    add_claims(plan);
    const Object deployment =
        create("deployments", plan.space, workload_blueprint(plan, plan.name));
    Json set = workload_blueprint(plan, plan.name + "-" + make_uuid(*random_).substr(0, 8));
    set_controller(set, "Deployment", *deployment);
    const Object made = create("replicasets", plan.space, std::move(set));
    for (int index = 0; index < plan.replicas; ++index) {
      run(replica_pod(*made), plan);
    }
  }

  void add_daemon_set(const WorkloadPlan& plan) {
    const Object set = create("daemonsets", plan.space, workload_blueprint(plan, plan.name));
    for (const Object& node : nodes_) {
      if (has_joined(*node)) {
        run(daemon_pod(*set, name_of(*node)), plan);
      }
    }
  }

  void add_bare(const WorkloadPlan& plan) {
    add_claims(plan);
    const Json workload = workload_blueprint(plan, plan.name);
    for (int index = 0; index < plan.replicas; ++index) {
      Json pod = pod_blueprint(*find_field(workload, {"spec", "template"}), plan.space,
                               numbered(plan, index));
      if (!plan.owner.empty()) {
        set_foreign_owner(pod, plan);
      }
      run(std::move(pod), plan);
    }
  }

  void add_mirrors(const WorkloadPlan& plan) {
    for (const Object& node : nodes_) {
      if (has_joined(*node) && (plan.node.empty() || plan.node == name_of(*node))) {
        Json pod = mirror_pod_blueprint(plan, *node, make_uuid(*random_));
        set_running(pod, ground_.stamp());
        create("pods", plan.space, std::move(pod));
        ++loads_[name_of(*node)].pods;
      }
    }
  }

  void add_finished(const WorkloadPlan& plan) {
    const Object job = create("jobs", plan.space, workload_blueprint(plan, plan.name));
    for (int index = 0; index < plan.replicas; ++index) {
      Json pod =
          pod_blueprint(*find_field(*job, {"spec", "template"}), plan.space, numbered(plan, index));
      set_controller(pod, "Job", *job);
      pod["spec"]["nodeName"] = choose(pod, plan);
      set_succeeded(pod, ground_.stamp());
      create("pods", plan.space, std::move(pod));
    }
  }

  [[nodiscard]] static std::string numbered(const WorkloadPlan& plan, int index) {
    return plan.replicas == 1 ? plan.name : plan.name + "-" + std::to_string(index);
  }

  void add_claims(const WorkloadPlan& plan) {
    for (int index = 0; index < plan.volumes; ++index) {
      std::string name = plan.name;
      name.append("-v").append(std::to_string(index));
      BoundClaim bound = claim_blueprint(plan.space, name, plan.driver);
      create("persistentvolumes", {}, std::move(bound.volume));
      create("persistentvolumeclaims", plan.space, std::move(bound.claim));
    }
  }

  // The fewest pods of the same workload first, then the fewest pods. Pods that share a volume
  // which only one node may have stay together.
  [[nodiscard]] std::string choose(const Json& pod, const WorkloadPlan& plan) {
    const bool together = plan.kind != WorkloadKind::StatefulSet && plan.volumes > 0;
    auto& siblings = siblings_[plan.space + "/" + plan.name];
    if (!plan.start.empty()) {
      return plan.start;
    }
    const bool placed = std::any_of(siblings.begin(), siblings.end(),
                                    [](const auto& entry) { return entry.second > 0; });
    const std::string* best = nullptr;
    std::pair<int, std::size_t> best_rank;
    for (const Object& node : nodes_) {
      const std::string& name = name_of(*node);
      const Load& load = loads_[name];
      if (!fits(pod, *node) || load.pods >= load.room ||
          (together && placed && siblings[name] == 0)) {
        continue;
      }
      const std::pair rank{together ? -siblings[name] : siblings[name], load.pods};
      if (best == nullptr || rank < best_rank) {
        best = &name;
        best_rank = rank;
      }
    }
    return best == nullptr ? std::string() : *best;
  }

  // A pod that fits nowhere is left Pending.
  void run(Json pod, const WorkloadPlan& plan) {
    const std::string node = choose(pod, plan);
    if (!node.empty()) {
      ++loads_[node].pods;
      ++siblings_[plan.space + "/" + plan.name][node];
      pod["spec"]["nodeName"] = node;
      set_running(pod, ground_.stamp());
    }
    const Object made = create("pods", plan.space, std::move(pod));
    if (node.empty()) {
      return;
    }
    const auto volumes =
        volumes_of(*made, [this](const Key& key) { return ground_.store.find(key); });
    MOONFENCE_CHECK(volumes.has_value());
    for (const Volume& volume : *volumes) {
      attach(volume, node);
    }
  }

  void attach(const Volume& volume, const std::string& node) {
    if (!attached_[node].insert(volume.unique_name()).second) {
      return;
    }
    Json attachment = attachment_blueprint(volume, node);
    attachment["metadata"]["finalizers"] = Json::array({attacher_finalizer(volume.driver)});
    attachment["status"]["attached"] = true;
    create("volumeattachments", {}, std::move(attachment));
    ground_.machines.published[volume.handle].insert(node);
  }

  void show_volumes(const std::string& name, const std::set<std::string>& volumes) {
    const auto edit = [&volumes](Json& node) {
      Json& status = node["status"];
      status["volumesInUse"] = volumes;
      for (const std::string& volume : volumes) {
        status["volumesAttached"].push_back({{"name", volume}, {"devicePath", ""}});
      }
    };
    (void)ground_.store.update({.resource = "nodes", .space = {}, .name = name}, edit,
                               ObjectStore::Part::Status, kActor);
  }

  // It happened long ago: its kubelet fell silent, its pods were asked to go, and nobody lets them.
  void let_die(const NodePlan& plan) {
    const std::string stamp = format_rfc3339(ground_.now() - plan.dead);
    const Key key{.resource = "nodes", .space = {}, .name = plan.name};
    const auto fall_silent = [&stamp](Json& node) { set_node_silent(node, stamp); };
    (void)ground_.store.update(key, fall_silent, ObjectStore::Part::Status, kActor);
    const auto taint = [&stamp](Json& node) {
      for (const char* effect : {"NoSchedule", "NoExecute"}) {
        node["spec"]["taints"].push_back(
            {{"key", kUnreachable}, {"effect", effect}, {"timeAdded", stamp}});
      }
    };
    (void)ground_.store.update(key, taint, ObjectStore::Part::Spec, kActor);
    const auto renewed = [&](Json& lease) {
      lease["spec"]["renewTime"] = format_rfc3339_micro(ground_.now() - plan.dead);
    };
    (void)ground_.store.update(
        {.resource = "leases", .space = "kube-node-lease", .name = plan.name}, renewed,
        ObjectStore::Part::Whole, kActor);
    for (const Object& pod : ground_.store.list("pods")) {
      const Json* owner = controller_of(*pod);
      const bool stays = is_mirror(*pod) || is_finished(*pod) ||
                         (owner != nullptr && text_field(*owner, {"kind"}) == "DaemonSet");
      if (node_of(*pod) == plan.name && !stays) {
        DeleteOptions options;
        options.uid = uid_of(*pod);
        (void)ground_.store.remove(key_of("pods", *pod), options, kActor);
      }
    }
  }

  struct Load {
    std::size_t pods = 0;
    std::size_t room = 0;
  };
  const Ground& ground_;
  const Plan& plan_;
  std::unique_ptr<port::Random> random_;
  std::vector<Object> nodes_;
  std::map<std::string, Load> loads_;
  std::map<std::string, std::map<std::string, int>> siblings_;
  std::map<std::string, std::set<std::string>> attached_;  // by node
};

}  // namespace

void settle(const Ground& ground, const Plan& plan) {
  Settler(ground, plan).settle();
}

}  // namespace moonfence::sim
