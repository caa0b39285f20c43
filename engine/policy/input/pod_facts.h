#pragma once

// PodFacts out of Kubernetes objects, one set of rules for the engine, which reads them from the
// cluster, and for the test tool, which has them from fixtures.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "policy/values/facts.h"

namespace moonfence::policy {

// Kubernetes objects, each with its kind. Shared: many pods stand on one claim or fixture.
using Objects = std::vector<std::shared_ptr<const nlohmann::json>>;

// The objects of a kind.
[[nodiscard]] std::vector<const nlohmann::json*> of_kind(const Objects& objects,
                                                         std::string_view kind);

// Name of each volume in the pod that has a claim, and its claim; generic ephemeral volumes have
// claims too.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> claims_of(const nlohmann::json& pod);

// What the objects say about the pod, as far as `needs` asks. Placement candidates are Nodes other
// than the pod's that are Ready, not cordoned, match its nodeSelector, its required node affinity
// and that of its PersistentVolumes, and have no NoSchedule or NoExecute taint that it does not
// tolerate; resources and spreading are not looked at.
// `gaps` gets, by need, what the objects lack for it.
[[nodiscard]] PodFacts facts_of(const nlohmann::json& pod, const Objects& objects,
                                const Needs& needs, std::map<std::string, std::string>& gaps);

// The name the CSI attacher gives a VolumeAttachment: "csi-" and SHA-256 of handle, driver, node.
[[nodiscard]] std::string attachment_name(std::string_view handle, std::string_view driver,
                                          std::string_view node);

// Whether an object of this kind usually has an owner of its own; the others are taken for roots
// when their object is not there.
[[nodiscard]] bool may_be_owned(std::string_view api_version, std::string_view kind);

// The owner reference that manages the object, null without one.
[[nodiscard]] const nlohmann::json* controller_of(const nlohmann::json* object);

}  // namespace moonfence::policy
