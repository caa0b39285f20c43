#include "policy/input/translated.h"

#include <array>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "policy/lua/views.h"

namespace moonfence::policy {
namespace {

// k8s.io/csi-translation-lib. All are translated without a switch since Kubernetes 1.31.
constexpr std::array<std::pair<const char*, std::string_view>, 7> kTranslated = {{
    {"awsElasticBlockStore", "ebs.csi.aws.com"},
    {"azureDisk", "disk.csi.azure.com"},
    {"azureFile", "file.csi.azure.com"},
    {"cinder", "cinder.csi.openstack.org"},
    {"gcePersistentDisk", "pd.csi.storage.gke.io"},
    {"portworxVolume", "pxd.portworx.com"},
    {"vsphereVolume", "csi.vsphere.vmware.com"},
}};

}  // namespace

std::string csi_driver_of(const nlohmann::json* volume) {
  const nlohmann::json* spec = member(volume, "spec");
  if (const nlohmann::json* csi = member(spec, "csi"); csi != nullptr) {
    return std::string(text_of(member(csi, "driver")));
  }
  const nlohmann::json* annotations = member(volume, "metadata", "annotations");
  const std::string_view told = text_of(member(annotations, "pv.kubernetes.io/migrated-to"));
  if (!told.empty()) {
    return std::string(told);
  }
  for (const auto& [kind, driver] : kTranslated) {
    if (member(spec, kind) != nullptr) {
      return std::string(driver);
    }
  }
  return {};
}

std::set<std::string> ephemeral_drivers(const nlohmann::json& pod) {
  std::set<std::string> drivers;
  const nlohmann::json* volumes = member(&pod, "spec", "volumes");
  if (volumes == nullptr || !volumes->is_array()) {
    return drivers;
  }
  for (const nlohmann::json& volume : *volumes) {
    const std::string_view driver = text_of(member(&volume, "csi", "driver"));
    if (!driver.empty()) {
      drivers.emplace(driver);
    }
  }
  return drivers;
}

std::set<std::string> inline_drivers(const nlohmann::json& pod) {
  std::set<std::string> drivers;
  const nlohmann::json* volumes = member(&pod, "spec", "volumes");
  if (volumes == nullptr || !volumes->is_array()) {
    return drivers;
  }
  for (const nlohmann::json& volume : *volumes) {
    for (const auto& [kind, driver] : kTranslated) {
      if (member(&volume, kind) != nullptr) {
        drivers.emplace(driver);
      }
    }
  }
  return drivers;
}

bool is_translated(const nlohmann::json* volume) {
  return member(member(volume, "spec"), "csi") == nullptr && !csi_driver_of(volume).empty();
}

}  // namespace moonfence::policy
