#pragma once

// IncidentDesk owns the incidents, one per node at most (row E-15), and performs what they decide:
// timers, passes, records. It asks the brake for each pass, and lets go of the incidents that wait
// for it. It is told about nodes by the node cache and knows no cluster state of
// its own; an event only ever means "look". Which policies decide it finds in the ActiveSet.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cluster/node_cache.h"
#include "fence/incident.h"
#include "fence/operation.h"

namespace moonfence::fence {

class IncidentDesk final : public cluster::NodeListener {
 public:
  // `make_id` gives a new incident its id; the rules' hold-downs come from the policies. The
  // surroundings must outlive the desk.
  IncidentDesk(Surroundings surroundings, IncidentRules rules, std::function<IncidentId()> make_id);
  ~IncidentDesk() override;
  IncidentDesk(const IncidentDesk&) = delete;
  IncidentDesk& operator=(const IncidentDesk&) = delete;

  void look_at(const cluster::NodeView& node, cluster::Look why) override;
  void census_changed(const cluster::Census& census) override;

  // After another set was activated. Open incidents are judged again by it at once, or end when
  // none of its bindings concerns them; what was queued by a policy that is gone is not done. Nodes
  // whose incident is over are looked at again when the node cache tells of them with
  // Look::PoliciesChanged.
  void policies_changed();

  // Whether this replica acts. While it does not, the desk remembers which nodes are down and since
  // when, and opens nothing; when it begins to, the node cache tells of those nodes again with
  // Look::TookOver. Stepping down closes every incident. It acts until told otherwise.
  void lead();
  void step_down();

  // We trust ourselves again: evidence begins anew, and what waited goes on.
  void trust_restored();
  // From now on incidents are opened only when take_over() has told what is known of them: an
  // incident that another leader left open goes on under its id, with what it remembers; the brake
  // counts the nodes that were fenced within its window. Where there is more than one open record
  // of a node, the newest goes on with the steps of all.
  void await_records();
  void take_over(const std::vector<Journal::Found>& records);
  // Closes what was taken over of nodes that are not down any more, by what the node cache
  // believes.
  void review(const std::function<const cluster::NodeView*(const NodeName&)>& find);

  // Closes every incident. Calls that have left are followed to their end by GuardedActions.
  void stop();

  [[nodiscard]] std::size_t open_incidents() const { return open_.size(); }
  // Those that wait for the brake, or for us to trust ourselves again.
  [[nodiscard]] std::size_t braked_incidents() const;

 private:
  class Open;
  // What is known of a node that is down, with or without an incident.
  struct Down {
    Uid uid;
    Downtime downtime;
  };
  void consider(const cluster::NodeView& node, cluster::Look why);
  void inherit(const Journal::Found& found);
  void drop_inherited(const cluster::NodeView& node);
  void close_inherited(const NodeName& name, audit::Reason reason);
  const Downtime& remember(const cluster::NodeView& node, cluster::Look why);
  void open(const cluster::NodeView& node, cluster::Look why, const Downtime& downtime);
  [[nodiscard]] std::shared_ptr<Page> page_for(const cluster::NodeView& node, audit::Reason why,
                                               const Downtime& downtime);
  void forget(const NodeName& name);
  void close_all(audit::Reason reason);
  // Incidents that wait for the brake go on, the oldest first, as far as it lets them.
  void let_go();
  void let_go_soon();
  void restart_evidence();
  [[nodiscard]] IncidentRules rules_for(const Downtime& downtime) const;

  Surroundings around_;
  IncidentRules rules_;
  std::function<IncidentId()> make_id_;
  std::map<NodeName, Down> down_;
  std::map<NodeName, std::unique_ptr<Open>> open_;
  // Open records of leaders before us; an incident takes its own.
  std::map<NodeName, Journal::Found> inherited_;
  // Nodes that are down, while the records are being read, and why we are to look at them.
  std::map<NodeName, std::pair<cluster::NodeView, cluster::Look>> held_back_;
  bool awaits_records_ = false;
  bool leads_ = true;
  bool stopped_ = false;
  std::uint64_t opened_ = 0;  // incidents so far
  bool engaged_ = false;      // too many nodes were down when last asked
  loop::Timer let_go_soon_;
  loop::Timer let_go_later_;
};

}  // namespace moonfence::fence
