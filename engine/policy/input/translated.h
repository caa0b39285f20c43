#pragma once

// By which CSI driver Kubernetes attaches a PersistentVolume. Volumes of the old kinds, whose code
// is no longer part of Kubernetes, are translated to CSI ("migrated"): their object names no
// driver, but they are attached by one, under a handle that only Kubernetes can make of them.

#include <set>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace moonfence::policy {

// spec.csi.driver; else the annotation by which kube-controller-manager says that it translates the
// volume; else, for one that an administrator made by hand and that has none, what its kind is
// translated to. "" for volumes that no CSI driver attaches.
[[nodiscard]] std::string csi_driver_of(const nlohmann::json* volume);

// It has a driver and no handle: its attachment is found by the volume's name alone.
[[nodiscard]] bool is_translated(const nlohmann::json* volume);

// The drivers by which Kubernetes attaches volumes of old kinds that stand in the pod itself,
// without a claim. Their attachments name no PersistentVolume.
[[nodiscard]] std::set<std::string> inline_drivers(const nlohmann::json& pod);
// CSI drivers of ephemeral volumes that stand in the pod itself.
[[nodiscard]] std::set<std::string> ephemeral_drivers(const nlohmann::json& pod);

}  // namespace moonfence::policy
