#pragma once

// Incidents over the small cluster, told about its nodes by the test.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fence/incident/incidents.h"
#include "unit/fence/fence_fixture.h"

namespace moonfence::fence {

using audit::Reason;
using audit::Record;
using cluster::Look;

struct IncidentsTest : FenceTest {
  std::optional<Incidents> incidents;
  int made_ids = 0;

  // A policy that says nothing else about it acts on living kubelets too.
  static std::shared_ptr<const policy::Policy> on_every_signal(const std::string& body) {
    return policy_of(body, "trigger = { live_kubelet = true },");
  }
  void take_up_nodes(const std::shared_ptr<const policy::Policy>& policy =
                         on_every_signal("return fence.delete_pod('its node is dead')"),
                     Mode mode = Mode::Enforce) {
    activate({binding_of(policy, mode)});
    incidents.emplace(surroundings(), IncidentRules{},
                      [this] { return IncidentId("i" + std::to_string(++made_ids)); });
  }
  void tell(Look why = Look::Changed, const std::string& name = "n1") {
    incidents->look_at(view(name), why);
  }
  // The node falls, and its incident runs until it is closed.
  void run_incident(Duration limit = 10min) {
    tell(Look::Fell);
    EXPECT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }, limit));
  }
  [[nodiscard]] Reason closed_by() const {
    for (auto record = story.records.rbegin(); record != story.records.rend(); ++record) {
      if (record->kind == Record::Kind::IncidentClosed) {
        return record->reason;
      }
    }
    ADD_FAILURE() << "no incident was closed";
    return Reason::Stopping;
  }
  // By the record of the incident that was closed last.
  [[nodiscard]] bool goes_on() const {
    for (auto record = story.records.rbegin(); record != story.records.rend(); ++record) {
      if (record->kind == Record::Kind::IncidentClosed) {
        return record->goes_on;
      }
    }
    ADD_FAILURE() << "no incident was closed";
    return false;
  }
};

}  // namespace moonfence::fence
