#pragma once

// How far the policies of a ConfigMap moonfence-policies reach, read by the simulation itself and
// not by the engine's code: which pods a deletion may hit, and which must be deleted in the end.
// Where it cannot tell, it permits and demands nothing.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "sim/store/object.h"

namespace moonfence::sim {

struct BindingReach {
  std::string policy;
  bool everywhere = false;
  std::set<std::string> spaces;
  bool enforces = false;
  bool bare_pods = false;
  bool finished_pods = false;
  bool out_of_service = false;
  bool live_kubelet = false;  // acts on any kind of not Ready
  bool live_kernel = false;   // acts although the machine's kernel answers
  // For how long it must have been so while the kubelet speaks.
  Duration hold_down = std::chrono::seconds(10);
  bool deleted = false;    // acts on a node whose object is gone
  bool by_source = false;  // a source of its own says which nodes are down
  bool lost = false;       // the engine itself does, by what it hears of machines
  std::string signal;      // of that: one node has an incident for each
  bool unread = false;     // its text is not known here: it may have one
  std::map<std::string, std::string> labels;  // of the pods it selects
  std::string spared_prefix;                  // of pods' names
  bool deletes = false;                       // every pod that it is asked about, at once

  // By namespace and labels.
  [[nodiscard]] bool covers(const std::string& space, const Json& pod_labels) const;
};

struct Reach {
  std::vector<BindingReach> bindings;
};

// What `moonfence.yaml` binds; null: it is refused, and what was bound before goes on.
[[nodiscard]] std::shared_ptr<const Reach> read_reach(
    const std::map<std::string, std::string>& data);
// The key `mode` keeps everything from acting; it works whatever else is broken.
[[nodiscard]] bool is_lowered(const std::map<std::string, std::string>& data);

}  // namespace moonfence::sim
