#include "sim/world/csi_addons.h"

#include <algorithm>
#include <utility>

#include "sim/ground/facts.h"
#include "sim/ground/refusals.h"

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;

constexpr const char* kSpace = "kube-system";
constexpr const char* kActor = "csi-addons";
constexpr const char* kClasses = "csiaddons.openshift.io/networkfenceclass-names";

std::string name_for(const std::string& node) {
  return node + "-csi";
}

bool fences(const Json& fence) {
  return text_field(fence, {"spec", "fenceState"}) != "Unfenced";
}

// For what its spec wants now.
bool has_result(const Json& fence) {
  return text_field(fence, {"status", "result"}) == "Succeeded" &&
         text_field(fence, {"status", "message"}) == (fences(fence) ? kFenced : kUnfenced);
}

Json status_of(const FenceClassPlan& by, bool fenced) {
  return by.kind == FenceKind::Failing
             ? Json{{"result", "Failed"}, {"message", "the storage does not answer"}}
             : Json{{"result", "Succeeded"}, {"message", fenced ? kFenced : kUnfenced}};
}

}  // namespace

std::string cidr_of(const std::string& address) {
  return address + "/32";
}

std::string address_in(const std::string& cidr) {
  return cidr.substr(0, cidr.find('/'));
}

CsiAddons::CsiAddons(const Ground& ground, const Plan& plan, std::function<void()> served)
    : ground_(ground),
      plan_(plan),
      served_(std::move(served)),
      random_(ground.random.fork("csi-addons")),
      nodes_(ground.informer("csi-addons", "nodes")),
      fences_(ground.informer("csi-addons", std::string(kFences))) {
  for (const auto& [key, node] : nodes_->all()) {
    tell_addresses(name_of(*node));
  }
  nodes_->on_change([this](const Object& before, const Object& after) {
    if (after != nullptr && (before == nullptr || uid_of(*before) != uid_of(*after))) {
      await_driver(name_of(*after), between(*random_, 2s, 8s));
    }
  });
  fences_->on_change([this](const Object& /*before*/, const Object& after) {
    if (after != nullptr && !has_result(*after)) {
      carry_out(name_of(*after));
    }
  });
}

void CsiAddons::await_driver(const std::string& node, Duration after) {
  drivers_[node] = ground_.loop.after(after, [this, node] {
    const auto machine = ground_.machines.by_name.find(node);
    if (machine != ground_.machines.by_name.end() && machine->second.sound()) {
      tell_addresses(node);
    } else {
      await_driver(node, 5s);
    }
  });
}

void CsiAddons::tell_addresses(const std::string& node) {
  const Key key{.resource = std::string(kCsiNodes), .space = kSpace, .name = name_for(node)};
  (void)ground_.store.remove(key, {}, kActor);  // of the pod before
  Json statuses = Json::array();
  Json classes = Json::array();
  for (const FenceClassPlan& each : plan_.fence_classes) {
    Json cidrs = Json::array();
    for (const std::string& address : storage_addresses(each.name, node)) {
      cidrs.push_back(cidr_of(address));
    }
    classes.push_back(each.name);
    statuses.push_back({{"networkFenceClassName", each.name},
                        {"ClientDetails", Json::array({{{"id", each.name}, {"cidrs", cidrs}}})}});
  }
  (void)ground_.store.create(
      key.resource, key.space,
      {{"metadata", {{"name", key.name}, {"annotations", {{kClasses, classes.dump()}}}}},
       {"spec", {{"driver", {{"name", kFencedDriver}, {"nodeID", node}, {"endpoint", "pod://"}}}}},
       {"status", {{"state", "Connected"}, {"networkFenceClientStatus", statuses}}}},
      kActor);
}

void CsiAddons::carry_out(const std::string& fence) {
  const Object object =
      ground_.store.find({.resource = std::string(kFences), .space = {}, .name = fence});
  if (object == nullptr) {
    return;
  }
  const std::string& named = text_field(*object, {"spec", "networkFenceClassName"});
  const auto by = std::find_if(plan_.fence_classes.begin(), plan_.fence_classes.end(),
                               [&named](const FenceClassPlan& each) { return each.name == named; });
  if (by == plan_.fence_classes.end() || by->kind == FenceKind::Dead) {
    return;
  }
  at_work_[fence] = ground_.loop.after(about(*random_, by->takes, 0.2),
                                       [this, fence, by] { finish(fence, *by); });
}

void CsiAddons::finish(const std::string& fence, const FenceClassPlan& by) {
  const Key key{.resource = std::string(kFences), .space = {}, .name = fence};
  const Object object = ground_.store.find(key);
  if (object == nullptr || has_result(*object)) {
    return;
  }
  const bool fenced = fences(*object);
  if (by.kind == FenceKind::Honest) {
    if (by.lags > Duration::zero() && fenced) {
      spreading_[fence] =
          ground_.loop.after(by.lags, [this, object, &by] { set(by, *object, true); });
    } else {
      spreading_.erase(fence);
      set(by, *object, fenced);
    }
  }
  update_same(
      ground_.store, key, uid_of(*object),
      [&by, fenced](Json& edited) { edited["status"] = status_of(by, fenced); },
      ObjectStore::Part::Status, kActor);
}

void CsiAddons::set(const FenceClassPlan& by, const Json& fence, bool refused) {
  for (const Json& cidr : list_field(fence, {"spec", "cidrs"})) {
    set_refused(ground_.machines, by.name, address_in(cidr.get<std::string>()), refused,
                ground_.loop.now());
  }
  ground_.tell(Happening::Kind::Volume, by.name,
               refused ? "refuses the addresses of" : "serves again those of", name_of(fence));
  if (!refused) {
    served_();
  }
}

}  // namespace moonfence::sim
