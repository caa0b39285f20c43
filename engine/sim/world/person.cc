#include "sim/world/person.h"

#include <utility>

#include "sim/ground/facts.h"
#include "sim/ground/refusals.h"
#include "sim/world/csi_addons.h"

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;

constexpr const char* kActor = "administrator";
constexpr const char* kNodeOfFence = "moonfence.io/node";
constexpr Duration kRound = 2s;
// So long a node has to be Ready before anybody believes that it stays so.
constexpr Duration kWell = 5s;

}  // namespace

Person::Person(const Ground& ground, const Plan& plan, Find find, std::function<void()> served)
    : ground_(ground),
      plan_(plan),
      find_(std::move(find)),
      served_(std::move(served)),
      random_(ground.random.fork("person")) {
  look_around();
}

bool Person::isolate(const std::string& node) {
  bool made = false;
  for (const Object& told : ground_.store.list(std::string(kCsiNodes))) {
    if (text_field(*told, {"spec", "driver", "nodeID"}) != node) {
      continue;
    }
    for (const Json& status : list_field(*told, {"status", "networkFenceClientStatus"})) {
      const std::string& name = text_field(status, {"networkFenceClassName"});
      Json cidrs = Json::array();
      for (const Json& client : list_field(status, {"ClientDetails"})) {
        for (const Json& cidr : list_field(client, {"cidrs"})) {
          cidrs.push_back(cidr);
        }
      }
      std::string unique = node;
      unique.append("-").append(name).append("-").append(std::to_string(++made_));
      const Json fence = {
          {"metadata", {{"name", unique}, {"annotations", {{kNodeOfFence, node}}}}},
          {"spec", {{"networkFenceClassName", name}, {"fenceState", "Fenced"}, {"cidrs", cidrs}}}};
      made |= ground_.store.create(std::string(kFences), "", fence, kActor).has_value();
    }
  }
  return made;
}

const Machine* Person::machine(const std::string& node) const {
  const auto found = ground_.machines.by_name.find(node);
  return found == ground_.machines.by_name.end() ? nullptr : &found->second;
}

void Person::look_around() {
  round_ = ground_.loop.after(kRound, [this] { look_around(); });
  for (const Object& fence : ground_.store.list(std::string(kFences))) {
    const std::string& node = text_field(*fence, {"metadata", "annotations", kNodeOfFence});
    const Machine* of = machine(node);
    if (of == nullptr) {
      continue;
    }
    Case& one = cases_
                    .try_emplace(uid_of(*fence), Case{.node = node,
                                                      .boot_id = of->boot_id,
                                                      .impaired_since = of->impaired_since,
                                                      .by_mistake = of->sound()})
                    .first->second;
    if (plan_.lifting != Lifting::Nobody && !one.done) {
      look_at(*fence, one);
    }
  }
}

void Person::look_at(const Json& fence, Case& one) {
  if (one.lifting) {
    lift(fence, one);
    return;
  }
  const Machine& of = *machine(one.node);
  const Object node = ground_.store.find({.resource = "nodes", .space = {}, .name = one.node});
  const bool is_well = node != nullptr && of.sound() &&
                       condition_status(*node, "Ready") == "True" &&
                       text_field(*node, {"status", "nodeInfo", "bootID"}) == of.boot_id;
  if (!is_well || text_field(fence, {"status", "result"}) != "Succeeded") {
    one.well_since.reset();
    return;
  }
  const Moment now = ground_.loop.now();
  one.well_since = one.well_since.value_or(now);
  if (now - *one.well_since < kWell || (calm_ && !one.rebooted)) {
    return;
  }
  if (needs_reboot(one, of)) {
    one.rebooted = true;
    one.well_since.reset();
    reboot(one.node);
    return;
  }
  one.lifting = true;
  lift(fence, one);
}

bool Person::needs_reboot(const Case& one, const Machine& of) const {
  const bool was_well = one.by_mistake && of.impaired_since == one.impaired_since;
  return of.boot_id == one.boot_id && !(was_well && plan_.lifting == Lifting::InStorage);
}

// Every part of it may be tried again.
void Person::lift(const Json& fence, Case& one) {
  const Key key{.resource = std::string(kFences), .space = {}, .name = name_of(fence)};
  if (plan_.lifting == Lifting::InStorage) {
    for (const Json& cidr : list_field(fence, {"spec", "cidrs"})) {
      set_refused(ground_.machines, text_field(fence, {"spec", "networkFenceClassName"}),
                  address_in(cidr.get<std::string>()), false, ground_.loop.now());
    }
    ground_.tell(Happening::Kind::Volume, "administrator", "lifts in the storage", name_of(fence));
    one.done = true;
    served_();
  } else if (text_field(fence, {"spec", "fenceState"}) != "Unfenced") {
    (void)ground_.store.update(
        key, [](Json& edited) { edited["spec"]["fenceState"] = "Unfenced"; },
        ObjectStore::Part::Spec, kActor);
  } else if (text_field(fence, {"status", "message"}) == kUnfenced) {
    one.done = ground_.store.remove(key, {}, kActor).has_value();
  }
}

void Person::reboot(const std::string& node) {
  Kubelet* kubelet = find_(node);
  if (kubelet == nullptr || reboots_[node].pending()) {
    return;
  }
  ground_.tell(Happening::Kind::Machine, node, "is rebooted by a person");
  kubelet->power_off();
  reboots_[node] =
      ground_.loop.after(between(*random_, 1s, 5s), [kubelet] { kubelet->switch_on(); });
}

}  // namespace moonfence::sim
