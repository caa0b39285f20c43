#pragma once

// What is so in truth of a storage that refuses machines: by cluster and by address, as a
// NetworkFence of CSI-Addons has it told. A machine that is refused runs on, and cannot write to
// the volumes of that cluster.

#include <set>
#include <string>
#include <vector>

#include "sim/ground/machines.h"
#include "sim/ground/volumes.h"

namespace moonfence::sim {

// Under which the cluster knows that node's machine; also of one that is not there.
[[nodiscard]] std::vector<std::string> storage_addresses(const std::string& cluster,
                                                         const std::string& node);
// Which has the volume; "": one that refuses nobody.
[[nodiscard]] std::string cluster_of(const Machines& machines, const Volume& volume);

// By whom its machine has to be refused so that the pod writes nothing that lasts; empty: it may
// all the same, or nobody knows.
[[nodiscard]] std::set<std::string> clusters_of(const Machines& machines, const Json& pod,
                                                const Lookup& lookup);

void set_refused(Machines& machines, const std::string& cluster, const std::string& address,
                 bool refused, Moment now);
// Under all of its addresses.
[[nodiscard]] bool is_refused(const Machines& machines, const std::string& cluster,
                              const std::string& node);
// It is, or was at most `ago` before.
[[nodiscard]] bool was_refused(const Machines& machines, const std::string& cluster,
                               const std::string& node, Moment now, Duration ago);
// Whether that container, on this machine, can write to the volume of that handle.
[[nodiscard]] bool may_write(const Machines& machines, const std::string& node,
                             const Container& container, const std::string& handle);

}  // namespace moonfence::sim
