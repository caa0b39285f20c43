#pragma once

// Volumes as the parts of Kubernetes name them: by claim, by PersistentVolume, by handle.

#include <optional>
#include <string>
#include <vector>

#include "sim/store/object_store.h"

namespace moonfence::sim {

struct Volume {
  std::string persistent_volume;
  std::string driver;
  std::string handle;
  bool shared = false;  // may be attached to several nodes

  // What a node's status calls it: "kubernetes.io/csi/<driver>^<handle>".
  [[nodiscard]] std::string unique_name() const;
};

// The name of the VolumeAttachment that the attach/detach controller makes.
[[nodiscard]] std::string attachment_name(const Volume& volume, const std::string& node);
// What external-attacher holds an attachment by.
[[nodiscard]] std::string attacher_finalizer(std::string_view driver);

// How a controller reads an object: from its informer or from the store.
using Lookup = std::function<Object(const Key&)>;
// nullopt while a claim or its volume cannot be found.
[[nodiscard]] std::optional<std::vector<Volume>> volumes_of(const Json& pod, const Lookup& lookup);
[[nodiscard]] std::optional<Volume> volume_of(const Json& persistent_volume);

}  // namespace moonfence::sim
