#include "sim/ground/blueprints.h"

#include <algorithm>

#include "sim/ground/facts.h"

namespace moonfence::sim {
namespace {

std::string_view api_version_of(std::string_view kind) {
  if (kind == "Node") {
    return "v1";
  }
  return kind == "Job" ? "batch/v1" : "apps/v1";
}

Json evicting_toleration(std::string_view key, Duration tolerated) {
  return {
      {"key", key},
      {"operator", "Exists"},
      {"effect", "NoExecute"},
      {"tolerationSeconds", std::chrono::duration_cast<std::chrono::seconds>(tolerated).count()}};
}

Json tolerations_of(const WorkloadPlan& plan) {
  if (plan.kind == WorkloadKind::DaemonSet || plan.kind == WorkloadKind::Mirror) {
    return Json::array({{{"operator", "Exists"}}});
  }
  return Json::array({evicting_toleration(kNotReady, plan.toleration),
                      evicting_toleration(kUnreachable, plan.toleration)});
}

std::string volume_label(int index) {
  return "v" + std::to_string(index);
}

Json template_of(const WorkloadPlan& plan) {
  Json metadata = {{"labels", Json::object()}};
  for (const auto& [key, value] : plan.labels) {
    metadata["labels"][key] = value;
  }
  metadata["labels"]["workload"] = plan.name;
  if (plan.stop_time > Duration::zero()) {
    metadata["annotations"][std::string(kStopTime)] = format_duration(plan.stop_time);
  }
  if (!plan.finalizers.empty()) {
    metadata["finalizers"] = plan.finalizers;
  }
  Json spec = {{"containers", Json::array({{{"name", "main"}, {"image", "example.com/main:1"}}})},
               {"restartPolicy", plan.kind == WorkloadKind::Finished ? "Never" : "Always"},
               {"terminationGracePeriodSeconds",
                std::chrono::duration_cast<std::chrono::seconds>(plan.grace).count()},
               {"tolerations", tolerations_of(plan)}};
  if (!plan.node.empty()) {
    spec["nodeSelector"] = {{"kubernetes.io/hostname", plan.node}};
  }
  if (plan.inline_volume) {
    spec["volumes"].push_back({{"name", "inline"}, {"csi", {{"driver", "inline.example.com"}}}});
  }
  // A StatefulSet's are added for each pod by its controller.
  if (plan.kind != WorkloadKind::StatefulSet) {
    for (int index = 0; index < plan.volumes; ++index) {
      spec["volumes"].push_back(
          {{"name", volume_label(index)},
           {"persistentVolumeClaim", {{"claimName", plan.name + "-" + volume_label(index)}}}});
    }
  }
  return {{"metadata", std::move(metadata)}, {"spec", std::move(spec)}};
}

}  // namespace

std::string address_of(std::string_view name) {
  std::uint32_t number = 2166136261U;
  for (const char c : name) {
    number = (number ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  std::string address = "10.";
  address.append(std::to_string(64 + number % 64));
  address.append(".").append(std::to_string(number / 64 % 256));
  address.append(".").append(std::to_string(1 + number / 16384 % 250));
  return address;
}

std::string system_uuid(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  constexpr std::size_t kBytes = 4;
  std::string text;
  for (std::size_t i = 0; i < kBytes; ++i) {
    const auto byte = static_cast<unsigned char>(i < name.size() ? name[i] : 0);
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text + "-0000-4000-8000-000000000000";
}

Json node_blueprint(const NodePlan& plan, const Machine& machine, const std::string& stamp) {
  Json node = {
      {"metadata",
       {{"name", plan.name},
        {"annotations",
         {{"volumes.kubernetes.io/controller-managed-attach-detach", "true"},
          {"node.alpha.kubernetes.io/ttl", "0"}}},
        {"labels", {{"kubernetes.io/hostname", plan.name}, {"kubernetes.io/os", "linux"}}}}},
      {"spec", Json::object()},
      {"status",
       {{"capacity", {{"cpu", "64"}, {"memory", "256Gi"}, {"pods", std::to_string(plan.capacity)}}},
        {"addresses", Json::array({{{"type", "InternalIP"}, {"address", machine.address}},
                                   {{"type", "Hostname"}, {"address", plan.name}}})},
        {"nodeInfo",
         {{"bootID", machine.boot_id},
          {"systemUUID", system_uuid(plan.name)},
          {"kubeletVersion", "v1.20.2"},
          {"operatingSystem", "linux"}}}}}};
  node["status"]["allocatable"] = node["status"]["capacity"];
  if (!plan.zone.empty()) {
    node["metadata"]["labels"]["topology.kubernetes.io/zone"] = plan.zone;
  }
  if (plan.control_plane) {
    node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = "";
    node["spec"]["taints"] =
        Json::array({{{"key", "node-role.kubernetes.io/master"}, {"effect", "NoSchedule"}}});
  }
  const auto taint = [&node](const char* key) {
    node["spec"]["taints"].push_back({{"key", key}, {"effect", "NoSchedule"}});
  };
  if (plan.dedicated) {
    taint("example.com/gpu");
  }
  if (plan.cordoned) {
    node["spec"]["unschedulable"] = true;
    taint("node.kubernetes.io/unschedulable");
  }
  if (plan.never_joined) {
    taint("node.kubernetes.io/not-ready");
    node["status"].erase("nodeInfo");
    return node;
  }
  if (machine.port_is_told) {
    node["status"]["daemonEndpoints"] = {{"kubeletEndpoint", {{"Port", kKubeletPort}}}};
  }
  set_node_conditions(node, true, stamp);
  return node;
}

void set_node_conditions(Json& node, bool ready, const std::string& stamp) {
  set_condition(node,
                {.type = "MemoryPressure",
                 .status = "False",
                 .reason = "KubeletHasSufficientMemory",
                 .message = "kubelet has sufficient memory available"},
                stamp);
  set_condition(node,
                {.type = "DiskPressure",
                 .status = "False",
                 .reason = "KubeletHasNoDiskPressure",
                 .message = "kubelet has no disk pressure"},
                stamp);
  set_condition(node,
                {.type = "PIDPressure",
                 .status = "False",
                 .reason = "KubeletHasSufficientPID",
                 .message = "kubelet has sufficient PID available"},
                stamp);
  set_condition(
      node,
      {.type = "Ready",
       .status = ready ? "True" : "False",
       .reason = ready ? "KubeletReady" : "KubeletNotReady",
       .message = ready ? "kubelet is posting ready status" : "container runtime is down"},
      stamp);
  for (Json& condition : node["status"]["conditions"]) {
    condition["lastHeartbeatTime"] = stamp;
  }
}

void set_node_silent(Json& node, const std::string& stamp) {
  for (const char* type : {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"}) {
    set_condition(node,
                  {.type = type,
                   .status = "Unknown",
                   .reason = "NodeStatusUnknown",
                   .message = "Kubelet stopped posting node status."},
                  stamp);
  }
  for (Json& condition : node["status"]["conditions"]) {
    condition["lastHeartbeatTime"] = stamp;
  }
}

Json lease_blueprint(const Json& node, const Timings& timings, const std::string& micro_stamp) {
  const std::string& name = name_of(node);
  return {
      {"metadata",
       {{"name", name},
        {"namespace", "kube-node-lease"},
        {"ownerReferences",
         Json::array(
             {{{"apiVersion", "v1"}, {"kind", "Node"}, {"name", name}, {"uid", uid_of(node)}}})}}},
      {"spec",
       {{"holderIdentity", name},
        // A kubelet renews it four times within its duration.
        {"leaseDurationSeconds",
         std::chrono::duration_cast<std::chrono::seconds>(timings.lease_renewal * 4).count()},
        {"renewTime", micro_stamp}}}};
}

Json workload_blueprint(const WorkloadPlan& plan, const std::string& name) {
  Json object = {{"metadata", {{"name", name}, {"namespace", plan.space}}},
                 {"spec",
                  {{"replicas", plan.replicas},
                   {"selector", {{"matchLabels", {{"workload", plan.name}}}}},
                   {"template", template_of(plan)}}}};
  if (!plan.labels.empty()) {
    object["metadata"]["labels"] = plan.labels;
  }
  if (plan.kind == WorkloadKind::DaemonSet || plan.kind == WorkloadKind::Finished) {
    object["spec"].erase("replicas");
  }
  if (plan.kind == WorkloadKind::StatefulSet) {
    object["spec"]["serviceName"] = plan.name;
    object["spec"]["podManagementPolicy"] = "OrderedReady";
    for (int index = 0; index < plan.volumes; ++index) {
      object["spec"]["volumeClaimTemplates"].push_back(
          {{"metadata", {{"name", volume_label(index)}}},
           {"spec",
            {{"accessModes", Json::array({"ReadWriteOnce"})}, {"storageClassName", plan.driver}}}});
    }
  }
  return object;
}

void set_controller(Json& object, std::string_view kind, const Json& owner) {
  object["metadata"]["ownerReferences"] = Json::array({{{"apiVersion", api_version_of(kind)},
                                                        {"kind", kind},
                                                        {"name", name_of(owner)},
                                                        {"uid", uid_of(owner)},
                                                        {"controller", true},
                                                        {"blockOwnerDeletion", true}}});
}

void set_foreign_owner(Json& pod, const WorkloadPlan& plan) {
  pod["metadata"]["ownerReferences"] = Json::array({{{"apiVersion", "example.com/v1"},
                                                     {"kind", plan.owner},
                                                     {"name", plan.name},
                                                     {"uid", "uid-of-" + plan.name},
                                                     {"controller", plan.owner_controls}}});
}

Json pod_blueprint(const Json& pod_template, const std::string& space, const std::string& name) {
  Json pod = pod_template;
  pod["metadata"]["name"] = name;
  pod["metadata"]["namespace"] = space;
  set_pending(pod);
  return pod;
}

Json mirror_pod_blueprint(const WorkloadPlan& plan, const Json& node,
                          const std::string& static_uid) {
  Json pod = pod_blueprint(template_of(plan), plan.space, plan.name + "-" + name_of(node));
  Json& annotations = pod["metadata"]["annotations"];
  annotations["kubernetes.io/config.mirror"] = static_uid;
  annotations["kubernetes.io/config.hash"] = static_uid;
  annotations["kubernetes.io/config.source"] = "file";
  set_controller(pod, "Node", node);
  pod["spec"]["nodeName"] = name_of(node);
  return pod;
}

void set_pending(Json& pod) {
  pod["status"] = {{"phase", "Pending"}};
}

void set_running(Json& pod, const std::string& stamp) {
  Json& status = pod["status"];
  status["phase"] = "Running";
  status["podIP"] = address_of(uid_of(pod));
  status["hostIP"] = address_of(node_of(pod));
  if (!status.contains("startTime")) {
    status["startTime"] = stamp;
  }
  for (const std::string_view type : {"Initialized", "Ready", "ContainersReady", "PodScheduled"}) {
    set_condition(pod, {.type = type, .status = "True", .reason = "", .message = ""}, stamp);
  }
  Json statuses = Json::array();
  for (const Json& container : list_field(pod, {"spec", "containers"})) {
    statuses.push_back({{"name", container["name"]},
                        {"image", container["image"]},
                        {"ready", true},
                        {"started", true},
                        {"restartCount", 0},
                        {"state", {{"running", {{"startedAt", stamp}}}}}});
  }
  status["containerStatuses"] = std::move(statuses);
}

void set_succeeded(Json& pod, const std::string& stamp) {
  Json& status = pod["status"];
  status["phase"] = "Succeeded";
  status["startTime"] = stamp;
  set_condition(pod, {.type = "Ready", .status = "False", .reason = "PodCompleted", .message = ""},
                stamp);
  status["containerStatuses"] =
      Json::array({{{"name", "main"},
                    {"ready", false},
                    {"state", {{"terminated", {{"exitCode", 0}, {"reason", "Completed"}}}}}}});
}

void set_stopped(Json& pod, const std::string& stamp) {
  for (const std::string_view type : {"Ready", "ContainersReady"}) {
    set_condition(pod,
                  {.type = type, .status = "False", .reason = "ContainersNotReady", .message = ""},
                  stamp);
  }
  for (Json& container : pod["status"]["containerStatuses"]) {
    container["ready"] = false;
    container["state"] = {{"terminated", {{"exitCode", 143}, {"reason", "Error"}}}};
  }
}

BoundClaim claim_blueprint(const std::string& space, const std::string& name,
                           const std::string& driver) {
  std::string volume = "pv-";
  volume.append(space).append("-").append(name);
  std::string handle = driver == kOddDriver ? "../vol/?a=1&b#%2F " : "vol-";
  handle.append(space).append("-").append(name);
  Json source = {{"csi", {{"driver", driver}, {"volumeHandle", handle}}}};
  if (driver == kInTreeDriver) {
    source = {{"awsElasticBlockStore", {{"volumeID", handle}}}};
  }
  const Json size = {{"storage", "1Gi"}};
  const Json modes = Json::array({"ReadWriteOnce"});
  BoundClaim bound = {
      .claim = {{"metadata", {{"name", name}, {"namespace", space}}},
                {"spec",
                 {{"accessModes", modes},
                  {"resources", {{"requests", size}}},
                  {"storageClassName", driver},
                  {"volumeMode", "Filesystem"},
                  {"volumeName", volume}}},
                {"status", {{"phase", "Bound"}, {"accessModes", modes}, {"capacity", size}}}},
      .volume = {
          {"metadata", {{"name", volume}}},
          {"spec",
           {{"accessModes", modes},
            {"capacity", size},
            {"claimRef", {{"kind", "PersistentVolumeClaim"}, {"namespace", space}, {"name", name}}},
            {"persistentVolumeReclaimPolicy", "Delete"},
            {"storageClassName", driver},
            {"volumeMode", "Filesystem"}}},
          {"status", {{"phase", "Bound"}}}}};
  bound.volume["spec"].update(source);
  return bound;
}

Json attachment_blueprint(const Volume& volume, const std::string& node) {
  return {{"metadata", {{"name", attachment_name(volume, node)}}},
          {"spec",
           {{"attacher", volume.driver},
            {"nodeName", node},
            {"source", {{"persistentVolumeName", volume.persistent_volume}}}}},
          {"status", {{"attached", false}}}};
}

}  // namespace moonfence::sim
