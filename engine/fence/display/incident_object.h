#pragma once

// FencingIncident is an incident as other tools read it: `kubectl get fencingincidents`, `kubectl
// wait`, Argo CD and Flux (docs/incident-record.md). It is made of the incident's record, and says
// beside that how an open one stands. Its owner is the ConfigMap of the record: Kubernetes removes
// it when that goes.
//
// Nothing is ever decided by what stands there. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "fence/incident/incident_status.h"
#include "fence/record/incident_record.h"

namespace moonfence::fence {

constexpr std::string_view kIncidentApi = "moonfence.io/v1alpha1";
constexpr std::string_view kIncidentResource = "fencingincidents";

// What stays of a record.
struct ShownRecord {
  IncidentId id = {};
  Uid record = {};  // of its ConfigMap
  NodeName node = {};
  Uid node_uid = {};
  WallTime opened{};
  audit::Reason opened_for = audit::Reason::NodeUnknown;
  std::optional<WallTime> closed = {};
  audit::Reason closed_for = audit::Reason::Settled;  // if it is closed
  std::optional<WallTime> first_deletion = {};        // the earliest of each pod's newest call
  // Pods that were to be deleted, of those the ones that are gone, and the ones of which the last
  // try was refused or failed, or which a finalizer keeps.
  std::uint64_t planned = 0;
  std::uint64_t deleted = 0;
  std::uint64_t not_deleted = 0;
  std::uint64_t steps_cut = 0;
  std::string proof = {};     // that was demanded last, "": none
  std::string evidence = {};  // what was known of the node then

  friend bool operator==(const ShownRecord&, const ShownRecord&) = default;
};
[[nodiscard]] ShownRecord shown_of(const IncidentRecord& record, const Uid& config_map);

// Pods of an open incident, by what policies and the engine said of them last.
struct JudgedPods {
  std::uint64_t judged = 0;
  std::uint64_t waiting = 0;
  std::uint64_t left_alone = 0;
  std::uint64_t would_delete = 0;  // observe

  friend bool operator==(const JudgedPods&, const JudgedPods&) = default;
};

// How an open incident stands.
struct ShownStand {
  IncidentStatus::State state = IncidentStatus::State::UnderWay;
  std::optional<audit::Reason> reason = {};
  std::string text = {};
  bool stalled = false;  // held or failing for long
  std::optional<JudgedPods> pods = {};

  friend bool operator==(const ShownStand&, const ShownStand&) = default;
};

// As its record's ConfigMap is called.
[[nodiscard]] std::string name_of(const IncidentId& id);

// The new object, without a status.
[[nodiscard]] std::string new_object(const ShownRecord& record, const Namespace& space);
// It belongs to this very record.
[[nodiscard]] bool is_of(const nlohmann::json& object, const ShownRecord& record);

// The status that is to stand there. `stand`: absent, nothing is known beside the record, as of one
// that is closed. Of `object` only the times are kept at which a condition last changed, and only
// those that can be.
[[nodiscard]] nlohmann::json status_of(const ShownRecord& record,
                                       const std::optional<ShownStand>& stand,
                                       const nlohmann::json& object, WallTime now);
// The JSON patch that makes it stand there, in the very object and version that was read; nullopt:
// it does.
[[nodiscard]] std::optional<std::string> status_change(const nlohmann::json& object,
                                                       const nlohmann::json& status);

}  // namespace moonfence::fence
