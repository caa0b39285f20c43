#pragma once

// Takeover is what leaders before us left open: records of incidents (fence/record/journal)
// whose nodes were down when they lost the Lease. An incident of ours takes the one of its node and
// goes on with it; the record of a node that is up again, gone (and no policy acts on that) or
// another one is closed, unless the machine that it is about was dead and left something behind:
// Incidents goes on with that beside the new one.

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "audit/reason.h"
#include "base/names.h"
#include "cluster/nodes/node_cache.h"
#include "fence/record/journal.h"

namespace moonfence::fence {

class Takeover {
 public:
  // The journal must outlive it.
  explicit Takeover(Journal& journal) : journal_(journal) {}

  // Where there is more than one open record of a node, the newest goes on with the steps of all.
  void add(const Journal::Found& found);
  [[nodiscard]] const IncidentRecord* find(const NodeName& name) const;
  [[nodiscard]] std::optional<Journal::Found> take(const NodeName& name);
  using Find = std::function<const cluster::NodeView*(const NodeName&)>;
  // Whether something is left behind of the machine that had that name.
  using IsLeft = std::function<bool(const NodeName&)>;
  // Closes what is of no use for a node as it is seen now: not down any more, or another one.
  void drop(const cluster::NodeView& node, bool is_down, const IsLeft& is_left);
  // The same for all nodes, by what the node cache believes. `keeps_absent`: a node that does not
  // exist may be down for some policy.
  void review(const Find& find, bool keeps_absent, const IsLeft& is_left);
  // Nodes that do not exist, as they were recorded.
  [[nodiscard]] std::vector<cluster::NodeView> absent(const Find& find) const;
  void close(const NodeName& name, audit::Reason reason);
  void forget() { left_.clear(); }

 private:
  Journal& journal_;
  std::map<NodeName, Journal::Found> left_;
};

}  // namespace moonfence::fence
