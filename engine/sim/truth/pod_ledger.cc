#include "sim/truth/pod_ledger.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sim/ground/facts.h"
#include "sim/store/fields.h"

namespace moonfence::sim {
namespace {

const Json* controller(const Json& pod) {
  const Json::json_pointer place("/metadata/ownerReferences");
  if (!pod.contains(place)) {
    return nullptr;
  }
  for (const Json& owner : pod[place]) {
    if (owner.value("controller", false)) {
      return &owner;
    }
  }
  return nullptr;
}

bool is_by_node(const Json& pod) {
  const Json* owner = controller(pod);
  const std::string kind = owner == nullptr ? "" : owner->value("kind", "");
  return kind == "DaemonSet" || kind == "Node" ||
         pod.contains(Json::json_pointer("/metadata/annotations/kubernetes.io~1config.mirror"));
}

}  // namespace

bool is_pod_ready(const Json& pod) {
  if (text_field(pod, {"status", "phase"}) != "Running" ||
      pod.contains(Json::json_pointer("/metadata/deletionTimestamp"))) {
    return false;
  }
  const Json::json_pointer place("/status/conditions");
  if (pod.contains(place)) {
    for (const Json& condition : pod[place]) {
      if (condition.value("type", "") == "Ready") {
        return condition.value("status", "") == "True";
      }
    }
  }
  return true;
}

std::string workload_of(const Json& pod) {
  const Json* owner = controller(pod);
  if (owner == nullptr) {
    return {};
  }
  const std::string name = owner->value("name", "");
  return owner->value("kind", "") == "ReplicaSet" ? name.substr(0, name.rfind('-')) : name;
}

PodLedger::PodLedger(ObjectStore& store, std::function<Duration()> elapsed)
    : elapsed_(std::move(elapsed)) {
  for (const Object& pod : store.list("pods")) {
    PodLife& life = life_of(*pod);
    life.at_start = true;
  }
  store.listen([this](const Change& change) {
    if (change.key.resource == "pods") {
      see(change);
    }
  });
}

const PodLife* PodLedger::find(std::string_view uid) const {
  for (const PodLife& life : lives_) {
    if (life.uid == uid) {
      return &life;
    }
  }
  return nullptr;
}

PodLife& PodLedger::life_of(const Json& pod) {
  const std::string uid = text_field(pod, {"metadata", "uid"});
  // The newest are the likeliest.
  const auto known = std::find_if(lives_.rbegin(), lives_.rend(),
                                  [&uid](const PodLife& life) { return life.uid == uid; });
  PodLife& life =
      known != lives_.rend()
          ? *known
          : lives_.emplace_back(PodLife{.space = text_field(pod, {"metadata", "namespace"}),
                                        .name = text_field(pod, {"metadata", "name"}),
                                        .uid = uid,
                                        .workload = workload_of(pod),
                                        .created = elapsed_(),
                                        .by_node = is_by_node(pod)});
  life.node = text_field(pod, {"spec", "nodeName"});
  life.finished = has_ended_by_itself(pod);
  life.ready = is_pod_ready(pod);
  if (!life.running && life.ready) {
    life.running = elapsed_();
  }
  if (!life.marked && pod.contains(Json::json_pointer("/metadata/deletionTimestamp"))) {
    life.marked = elapsed_();
  }
  return life;
}

void PodLedger::see(const Change& change) {
  PodLife& life = life_of(*change.after);
  if (change.restores && change.type != ChangeType::Deleted) {
    life.deleted.reset();  // it is there again
    life.deleted_by.clear();
  }
  if (change.type == ChangeType::Deleted) {
    life.deleted = elapsed_();
    life.deleted_by = change.actor;
  }
}

std::vector<Failover> PodLedger::failovers(std::string_view node) const {
  std::vector<Failover> found;
  std::set<const PodLife*> taken;
  const auto replaces = [](const PodLife& old, const PodLife& young) {
    if (young.at_start || old.space != young.space || old.workload.empty() ||
        old.workload != young.workload || !young.running) {
      return false;
    }
    // A StatefulSet's pods keep their names; a ReplicaSet's never do.
    const bool ordinal =
        old.name.find_first_not_of("0123456789", old.name.rfind('-') + 1) == std::string::npos &&
        old.name.substr(0, old.name.rfind('-')) == old.workload;
    return !ordinal || old.name == young.name;
  };
  for (const PodLife& pod : lives_) {
    if (!pod.at_start || pod.node != node || pod.by_node || pod.finished) {
      continue;
    }
    Failover& failover = found.emplace_back(Failover{.pod = &pod});
    for (const PodLife& young : lives_) {
      if (replaces(pod, young) && !taken.contains(&young)) {
        failover.replacement = &young;
        taken.insert(&young);
        break;
      }
    }
  }
  return found;
}

}  // namespace moonfence::sim
