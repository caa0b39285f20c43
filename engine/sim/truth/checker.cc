#include "sim/truth/checker.h"

#include <algorithm>

#include "sim/ground/facts.h"
#include "sim/store/fields.h"
#include "sim/truth/node_marks.h"
#include "sim/truth/settling.h"

namespace moonfence::sim {

bool Checker::is_own_node_of_all(const std::string& node) const {
  const std::vector<std::string>& seats = plan().seats;
  const auto is_up = [this](const std::string& name) {
    return std::any_of(truth().nodes().begin(), truth().nodes().end(), [&name](const auto& entry) {
      return entry.second.name == name && entry.second.exists.holds && !entry.second.down.holds;
    });
  };
  // One that was made anew is up, but the replica may run on the machine before it.
  return std::find(seats.begin(), seats.end(), node) != seats.end() &&
         std::none_of(seats.begin(), seats.end(),
                      [&](const std::string& seat) { return seat != node && is_up(seat); });
}

bool Checker::is_node_held(const std::string& node) const {
  const Object object = truth().store().find({.resource = "nodes", .space = {}, .name = node});
  return object != nullptr && node_marks(plan()).hold(*object);
}

bool Checker::is_proof_awaited(const std::string& node) const {
  const bool by_word = demands(plan(), "attested");
  const bool by_power = demands(plan(), "off") || demands_of_volumes(plan(), "off");
  if ((!by_word && !by_power) || demands(plan(), "silent") || demands(plan(), "unreachable")) {
    return false;
  }
  return !(by_word && is_attested(node)) && !(by_power && is_shown_off(node));
}

// Who asks its BMC has been told so, for as long as it takes to settle.
bool Checker::is_shown_off(const std::string& node) const {
  // Two questions, within eight seconds.
  constexpr Duration kSlowest = std::chrono::seconds(2);
  const BmcPlan* bmc = bmc_of(plan(), node);
  const auto machine = truth().machines().by_name.find(node);
  return bmc != nullptr && bmc->kind == BmcKind::Honest && bmc->machine() == node &&
         bmc->takes <= kSlowest && machine != truth().machines().by_name.end() &&
         !machine->second.powered && now() - machine->second.switched >= settling_time(plan());
}

bool Checker::is_attested(const std::string& node) const {
  const Object object = truth().store().find({.resource = "nodes", .space = {}, .name = node});
  const Object lease =
      truth().store().find({.resource = "leases", .space = "kube-node-lease", .name = node});
  const Json* ready = object == nullptr ? nullptr : find_condition(*object, "Ready");
  if (ready == nullptr || lease == nullptr) {
    return false;
  }
  const Json word = Json::parse(
      text_field(*object, {"metadata", "annotations", "moonfence.io/attested"}), nullptr, false);
  return word.is_object() &&
         word.value("bootID", "") == text_field(*object, {"status", "nodeInfo", "bootID"}) &&
         word.value("lease", "") == uid_of(*lease) &&
         word.value("renewTime", "") == text_field(*lease, {"spec", "renewTime"}) &&
         word.value("lastHeartbeatTime", "") == text_field(*ready, {"lastHeartbeatTime"});
}

bool Checker::was_node_held(const std::string& node) const {
  const NodeMarks marks = node_marks(plan());
  return std::any_of(truth().nodes().begin(), truth().nodes().end(), [&](const auto& entry) {
    const NodeTruth& one = entry.second;
    return one.name == node && !one.exists.holds && marks.hold(*one.object);
  });
}

bool Checker::is_pod_held(const PodTruth& pod) const {
  const auto holds = [this](const Key& key) {
    const Object object = truth().store().find(key);
    return object != nullptr && is_held(*object);
  };
  return holds({.resource = "pods", .space = pod.space, .name = pod.name}) ||
         holds({.resource = "namespaces", .space = {}, .name = pod.space});
}

}  // namespace moonfence::sim
