#pragma once

// What a node that came back without a reboot may still hold of what was taken from it. A kubelet
// that lives stops the containers of pods that are gone, unmounts their volumes and stops reporting
// them; a kubelet that was restarted meanwhile never reports the volumes that it found mounted
// (release-step.md §2), so that for them silence proves nothing. Pure.

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/time.h"
#include "fence/quarantine.h"
#include "kube/objects.h"

namespace moonfence::fence {

struct Remains {
  std::string unread;                      // what could not be read; "": everything could
  std::vector<kube::Pod> pods;             // every pod of the node
  std::set<std::string> used_volumes;      // unique names: by pods that are there to stay
  std::set<std::string> used_attachments;  // their names, likewise
  nlohmann::json attachments;              // list of all VolumeAttachments
  nlohmann::json starts;                   // list of the events `Starting` about the node
};

// Whether what the pod uses may be in use for good reason.
[[nodiscard]] bool is_there_to_stay(const kube::Pod& pod);

// Why the node is not proven clean; "" when it is. `now` by the API server's clock.
[[nodiscard]] std::string doubt_about(const kube::Node& node, const FenceMark& mark,
                                      const Remains& remains, WallTime now);

}  // namespace moonfence::fence
