#include "sim/ground/refusals.h"

#include <algorithm>
#include <cstdint>

#include "sim/ground/blueprints.h"
#include "sim/ground/facts.h"

namespace moonfence::sim {
namespace {

std::size_t share_of(std::string_view handle, std::size_t shares) {
  std::uint32_t number = 2166136261U;
  for (const char c : handle) {
    number = (number ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return number / 7 % shares;
}

template <class Is>
bool are_all(const Machines& machines, const std::string& cluster, const std::string& node,
             const Is& is) {
  const std::vector<std::string> addresses = storage_addresses(cluster, node);
  return std::all_of(addresses.begin(), addresses.end(), [&](const std::string& address) {
    const auto found = machines.refusals.find({cluster, address});
    return found != machines.refusals.end() && is(found->second);
  });
}

}  // namespace

std::vector<std::string> storage_addresses(const std::string& cluster, const std::string& node) {
  std::vector<std::string> addresses = {address_of(cluster + "/" + node)};
  if (share_of(cluster, 2) == 0) {  // it has two networks
    addresses.push_back(address_of(cluster + "/" + node + "/second"));
  }
  return addresses;
}

std::string cluster_of(const Machines& machines, const Volume& volume) {
  return machines.clusters.empty() || volume.driver != kFencedDriver
             ? std::string()
             : machines.clusters[share_of(volume.handle, machines.clusters.size())];
}

std::set<std::string> clusters_of(const Machines& machines, const Json& pod, const Lookup& lookup) {
  const Json& entries = list_field(pod, {"spec", "volumes"});
  const bool are_claims = std::all_of(entries.begin(), entries.end(), [](const Json& entry) {
    return entry.contains("persistentVolumeClaim");
  });
  const auto volumes = volumes_of(pod, lookup);
  std::set<std::string> clusters;
  for (const Volume& volume : volumes.value_or(std::vector<Volume>())) {
    clusters.insert(cluster_of(machines, volume));
  }
  return are_claims && !clusters.contains("") ? clusters : std::set<std::string>();
}

void set_refused(Machines& machines, const std::string& cluster, const std::string& address,
                 bool refused, Moment now) {
  Refusal& refusal = machines.refusals[{cluster, address}];
  if (refusal.holds != refused) {
    refusal = {.holds = refused, .changed = now};
  }
}

bool is_refused(const Machines& machines, const std::string& cluster, const std::string& node) {
  return are_all(machines, cluster, node, [](const Refusal& refusal) { return refusal.holds; });
}

bool was_refused(const Machines& machines, const std::string& cluster, const std::string& node,
                 Moment now, Duration ago) {
  return are_all(machines, cluster, node, [now, ago](const Refusal& refusal) {
    return refusal.holds || (refusal.changed != Moment{} && now - refusal.changed <= ago);
  });
}

bool may_write(const Machines& machines, const std::string& node, const Container& container,
               const std::string& handle) {
  const auto cluster = container.clusters.find(handle);
  return cluster == container.clusters.end() || !is_refused(machines, cluster->second, node);
}

}  // namespace moonfence::sim
