#include "fence/rules/volume_release.h"

#include <algorithm>
#include <string_view>

#include "policy/input/pod_facts.h"

namespace moonfence::fence {

namespace {

constexpr std::string_view kCsi = "kubernetes.io/csi/";

nlohmann::json test_of(const std::string& path, const nlohmann::json& value) {
  return {{"op", "test"}, {"path", path}, {"value", value}};
}

}  // namespace

bool gains_by_release(const policy::VolumeFacts& volume) {
  // Kubernetes' own rule: several nodes may have it when any mode says so, or none says anything.
  const auto is_single = [](const std::string& mode) {
    return mode != "ReadWriteMany" && mode != "ReadOnlyMany";
  };
  return !volume.ephemeral && !volume.access_modes.empty() &&
         std::all_of(volume.access_modes.begin(), volume.access_modes.end(), is_single);
}

std::string attachment_behind(std::string_view unique_name, const NodeName& node) {
  if (!unique_name.starts_with(kCsi)) {
    return {};
  }
  unique_name.remove_prefix(kCsi.size());
  const std::size_t mark = unique_name.find('^');  // no driver's name contains one
  return mark == std::string_view::npos
             ? std::string()
             : policy::attachment_name(unique_name.substr(mark + 1), unique_name.substr(0, mark),
                                       node.text());
}

std::string unique_name(const std::string& attachment, const kube::NodeStorage& storage,
                        const NodeName& node) {
  for (const auto* names : {&storage.in_use, &storage.attached}) {
    for (const std::string& name : *names) {
      if (!attachment.empty() && attachment_behind(name, node) == attachment) {
        return name;
      }
    }
  }
  return {};
}

bool is_in_use(const kube::NodeStorage& storage, const std::string& name) {
  return std::find(storage.in_use.begin(), storage.in_use.end(), name) != storage.in_use.end();
}

bool is_attached(const kube::NodeStorage& storage, const std::string& name) {
  return std::find(storage.attached.begin(), storage.attached.end(), name) !=
         storage.attached.end();
}

bool is_releasable(const std::string& unique_name) {
  return std::count(unique_name.begin(), unique_name.end(), '^') == 1;
}

nlohmann::json release_operations(const kube::NodeStorage& storage,
                                  const std::set<std::string>& names) {
  const std::string ready =
      "/status/conditions/" + std::to_string(storage.ready_index.value_or(0)) + "/";
  nlohmann::json left = nlohmann::json::array();
  for (const std::string& name : storage.in_use) {
    if (!names.contains(name)) {
      left.push_back(name);
    }
  }
  nlohmann::json operations = nlohmann::json::array();
  operations.push_back(test_of(ready + "type", "Ready"));
  operations.push_back(test_of(ready + "status", storage.ready_status));
  operations.push_back(test_of(ready + "lastHeartbeatTime", storage.ready_heartbeat));
  operations.push_back(test_of("/status/nodeInfo/bootID", storage.boot_id));
  operations.push_back(test_of("/status/volumesInUse", storage.in_use));
  operations.push_back({{"op", "replace"}, {"path", "/status/volumesInUse"}, {"value", left}});
  return operations;
}

}  // namespace moonfence::fence
