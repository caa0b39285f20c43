#include "sim/ground/volumes.h"

#include <algorithm>
#include <array>

#include <openssl/evp.h>

#include "base/check.h"
#include "sim/ground/facts.h"
#include "sim/ground/plan.h"

namespace moonfence::sim {
namespace {

std::string hex_sha256(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  MOONFENCE_CHECK(
      EVP_Digest(text.data(), text.size(), bytes.data(), &size, EVP_sha256(), nullptr) == 1);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * static_cast<std::size_t>(size));
  for (unsigned i = 0; i < size; ++i) {
    hex += kDigits[bytes.at(i) >> 4U];
    hex += kDigits[bytes.at(i) & 15U];
  }
  return hex;
}

}  // namespace

std::string Volume::unique_name() const {
  return "kubernetes.io/csi/" + driver + "^" + handle;
}

std::string attachment_name(const Volume& volume, const std::string& node) {
  return "csi-" + hex_sha256(volume.handle + volume.driver + node);
}

std::string attacher_finalizer(std::string_view driver) {
  std::string name = "external-attacher/";
  name.append(driver);
  std::replace(name.begin() + 18, name.end(), '/', '-');
  return name;
}

std::optional<Volume> volume_of(const Json& persistent_volume) {
  std::string driver = text_field(persistent_volume, {"spec", "csi", "driver"});
  std::string handle = text_field(persistent_volume, {"spec", "csi", "volumeHandle"});
  if (driver.empty()) {  // as k8s.io/csi-translation-lib does it
    driver = kTranslatedDriver;
    handle = text_field(persistent_volume, {"spec", "awsElasticBlockStore", "volumeID"});
  }
  if (handle.empty()) {
    return std::nullopt;
  }
  const Json& modes = list_field(persistent_volume, {"spec", "accessModes"});
  return Volume{.persistent_volume = name_of(persistent_volume),
                .driver = std::move(driver),
                .handle = std::move(handle),
                .shared = std::any_of(modes.begin(), modes.end(), [](const Json& mode) {
                  return mode == "ReadWriteMany" || mode == "ReadOnlyMany";
                })};
}

std::optional<std::vector<Volume>> volumes_of(const Json& pod, const Lookup& lookup) {
  std::vector<Volume> volumes;
  for (const Json& entry : list_field(pod, {"spec", "volumes"})) {
    const std::string& claim_name = text_field(entry, {"persistentVolumeClaim", "claimName"});
    if (claim_name.empty()) {
      continue;
    }
    const Object claim =
        lookup({.resource = "persistentvolumeclaims", .space = space_of(pod), .name = claim_name});
    if (claim == nullptr || text_field(*claim, {"status", "phase"}) != "Bound") {
      return std::nullopt;
    }
    const Object bound = lookup({.resource = "persistentvolumes",
                                 .space = {},
                                 .name = text_field(*claim, {"spec", "volumeName"})});
    if (bound == nullptr) {
      return std::nullopt;
    }
    if (auto volume = volume_of(*bound)) {
      volumes.push_back(*std::move(volume));
    }
  }
  return volumes;
}

}  // namespace moonfence::sim
