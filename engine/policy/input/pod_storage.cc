#include "policy/input/pod_storage.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <nlohmann/json.hpp>

#include "policy/lua/views.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

// What another node gets anew. hostPath is not among them: it may lead to anything that the node
// has mounted.
constexpr std::array<std::string_view, 6> kVolatile = {"configMap", "downwardAPI", "emptyDir",
                                                       "image",     "projected",   "secret"};

// The driver of the claim's volume; "" where it is not known, or no CSI volume.
std::string driver_of(std::string_view name, const std::vector<VolumeFacts>& volumes) {
  const auto is_it = [name](const VolumeFacts& volume) { return volume.name == name; };
  const auto found = std::find_if(volumes.begin(), volumes.end(), is_it);
  // A volume of an old kind, which Kubernetes translates to CSI, has no handle.
  return found == volumes.end() || found->state != "bound" || found->handle.empty() ? std::string()
                                                                                    : found->driver;
}

bool is_volatile(const json& volume) {
  return std::any_of(kVolatile.begin(), kVolatile.end(), [&volume](std::string_view kind) {
    return volume.contains(kind) && !volume[kind].is_null();
  });
}

// Of all that the volume may be it is one thing, beside its name.
bool is_plain(const json& volume) {
  return volume.is_object() && !text_of(member(&volume, "name")).empty() &&
         std::count_if(volume.begin(), volume.end(),
                       [](const json& part) { return !part.is_null(); }) == 2;
}

// What is privileged writes to every volume of its node.
bool is_privileged(const json& container) {
  const json* said = member(&container, "securityContext", "privileged");
  return !container.is_object() || (said != nullptr && *said != false);
}

// By a way that is no volume: a privileged container, or a device.
bool reaches_more(const json& pod) {
  const json* claims = member(&pod, "spec", "resourceClaims");
  if (claims != nullptr && !claims->empty()) {
    return true;
  }
  for (const char* kind : {"containers", "initContainers", "ephemeralContainers"}) {
    const json* listed = member(&pod, "spec", kind);
    if (listed != nullptr &&
        (!listed->is_array() || std::any_of(listed->begin(), listed->end(), is_privileged))) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::set<std::string> storage_drivers(const json& pod,
                                      const std::optional<std::vector<VolumeFacts>>& volumes) {
  const json* listed = member(&pod, "spec", "volumes");
  if (!volumes || listed == nullptr || !listed->is_array() || reaches_more(pod)) {
    return {};
  }
  std::set<std::string> drivers;
  for (const json& volume : *listed) {
    if (!is_plain(volume)) {
      return {};
    }
    if (is_volatile(volume)) {
      continue;
    }
    const bool is_claim = member(&volume, "persistentVolumeClaim") != nullptr ||
                          member(&volume, "ephemeral") != nullptr;
    std::string driver =
        is_claim ? driver_of(text_of(member(&volume, "name")), *volumes) : std::string();
    if (driver.empty()) {
      return {};
    }
    drivers.insert(std::move(driver));
  }
  return drivers;
}

}  // namespace moonfence::policy
