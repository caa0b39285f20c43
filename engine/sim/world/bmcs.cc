#include "sim/world/bmcs.h"

#include <utility>

#include "sim/ground/blueprints.h"
#include "sim/store/fields.h"

namespace moonfence::sim {
namespace {

constexpr std::string_view kSystems = "/redfish/v1/Systems";
constexpr std::string_view kSystem = "/redfish/v1/Systems/1";
constexpr std::string_view kReset = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";
// How old what a BMC of kind Late says of a machine without power may be.
constexpr Duration kLate = std::chrono::seconds(60);

constexpr int kUnauthorized = 401;
constexpr int kNotFound = 404;
constexpr int kConflict = 409;
constexpr int kUnavailable = 503;

}  // namespace

Bmcs::Bmcs(const Ground& ground, const Plan& plan, Find find)
    : ground_(ground), find_(std::move(find)) {
  for (const BmcPlan& bmc : plan.bmcs) {
    by_endpoint_["bmc-" + bmc.node].plan = bmc;
  }
}

const BmcPlan* Bmcs::find(std::string_view endpoint) const {
  const auto found = by_endpoint_.find(endpoint);
  return found == by_endpoint_.end() ? nullptr : &found->second.plan;
}

void Bmcs::send(Duration way, BmcQuestion question, BmcHttp::Heard heard) {
  under_way_.remove_if([](const loop::Timer& timer) { return !timer.pending(); });
  under_way_.push_back(
      ground_.loop.after(way, [this, question = std::move(question), heard = std::move(heard)] {
        heard(answer(question));
      }));
}

BmcAnswer Bmcs::answer(const BmcQuestion& question) {
  const auto found = by_endpoint_.find(question.bmc);
  if (found == by_endpoint_.end()) {
    return {};
  }
  Bmc& bmc = found->second;
  BmcAnswer answer{.status = kNotFound, .body = "{}"};
  if (bmc.plan.kind == BmcKind::Dead) {
    answer = {};
  } else if (bmc.plan.kind == BmcKind::Busy) {
    answer.status = kUnavailable;
  } else if (bmc.plan.kind == BmcKind::Locked) {
    answer.status = kUnauthorized;
  } else if (bmc.plan.kind == BmcKind::Broken) {
    answer = {.status = 200, .body = R"({"PowerState": "Off", )"};
  } else if (question.method == port::Method::Post && question.path == kReset) {
    answer = order(bmc, question.body);
  } else if (question.path == kSystems) {
    answer = {.status = 200,
              .body = Json{{"Members", Json::array({{{"@odata.id", kSystem}}})}}.dump()};
  } else if (question.path == kSystem) {
    answer = {.status = 200,
              .body = Json{{"UUID", system_uuid(bmc.plan.machine())},
                           {"PowerState", state_of(bmc)},
                           {"Actions", {{"#ComputerSystem.Reset", {{"target", kReset}}}}}}
                          .dump()};
  }
  answer.takes = bmc.plan.takes;
  return answer;
}

BmcAnswer Bmcs::order(Bmc& bmc, const std::string& body) {
  const Json wanted = Json::parse(body, nullptr, false);
  if (bmc.plan.kind == BmcKind::Refusing || text_field(wanted, {"ResetType"}) != "ForceOff") {
    tell(bmc, "refuses an order");
    return {.status = kConflict, .body = "{}"};
  }
  bmc.ordered = true;
  tell(bmc, "is told to switch off " + bmc.plan.machine());
  const bool obeys = bmc.plan.kind == BmcKind::Honest || bmc.plan.kind == BmcKind::Stuck ||
                     bmc.plan.kind == BmcKind::Late;
  if (obeys && !bmc.goes_off.pending()) {
    bmc.goes_off = ground_.loop.after(bmc.plan.off_takes, [this, &bmc] { switch_off(bmc); });
  }
  return {.status = 204, .body = {}};
}

void Bmcs::switch_off(Bmc& bmc) {
  Kubelet* machine = find_(bmc.plan.machine());
  if (machine == nullptr) {
    return;
  }
  machine->power_off();
  if (bmc.plan.on_again > Duration::zero() && !std::exchange(bmc.came_on, true)) {
    bmc.comes_on = ground_.loop.after(bmc.plan.on_again, [machine] { machine->switch_on(); });
  }
}

std::string Bmcs::state_of(const Bmc& bmc) const {
  const auto machine = ground_.machines.by_name.find(bmc.plan.machine());
  const bool powered = machine != ground_.machines.by_name.end() && machine->second.powered;
  const bool lately = !powered && machine != ground_.machines.by_name.end() &&
                      ground_.loop.now() - machine->second.switched < kLate;
  switch (bmc.plan.kind) {
    case BmcKind::Lying:
      return "Off";
    case BmcKind::Stuck:
      return "On";
    case BmcKind::Late:
      return powered || lately ? "On" : "Off";
    case BmcKind::Hanging:
      return bmc.ordered ? "PoweringOff" : powered ? "On" : "Off";
    case BmcKind::Honest:
      return bmc.goes_off.pending() ? "PoweringOff" : powered ? "On" : "Off";
    case BmcKind::Dead:
    case BmcKind::Busy:
    case BmcKind::Locked:
    case BmcKind::Broken:
    case BmcKind::Refusing:
    case BmcKind::Stubborn:
      break;
  }
  return powered ? "On" : "Off";
}

void Bmcs::tell(const Bmc& bmc, std::string_view what) const {
  ground_.tell(Happening::Kind::Machine, "bmc-" + bmc.plan.node, what);
}

}  // namespace moonfence::sim
