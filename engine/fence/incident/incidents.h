#pragma once

// Incidents owns the incidents (fence/incident/incident_driver), one per node at most (row E-15),
// and lets go of those that wait for the brake. It is told about nodes by the node cache and knows
// no cluster state of its own; an event only ever means "look". Which policies decide it finds in
// the ActiveSet.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "audit/reason.h"
#include "cluster/nodes/node_cache.h"
#include "fence/incident/incident_driver.h"
#include "fence/incident/incident_machine.h"
#include "fence/record/takeover.h"
#include "loop/loop.h"

namespace moonfence::fence {

class Incidents final : public cluster::NodeListener, public IncidentDriver::Keeper {
 public:
  // `make_id` gives a new incident its id; the rules' hold-downs come from the policies. The
  // surroundings must outlive it.
  Incidents(IncidentContext surroundings, IncidentRules rules, std::function<IncidentId()> make_id);
  ~Incidents() override;
  Incidents(const Incidents&) = delete;
  Incidents& operator=(const Incidents&) = delete;

  void look_at(const cluster::NodeView& node, cluster::Look why) override;
  void census_changed(const cluster::Census& census) override;

  // After another set was activated. Open incidents are judged again by it at once, or end when
  // none of its bindings concerns them; what was queued by a policy that is gone is not done. Nodes
  // whose incident is over are looked at again when the node cache tells of them with
  // Look::PoliciesChanged.
  void policies_changed();
  // Ends the incidents that only Look::Asked has opened and nobody asks for any more, but for those
  // that only wait for replacements, or have begun what must not be left half done.
  void withdraw_all_but(const std::set<NodeName>& asked);
  // "" where it has none.
  [[nodiscard]] IncidentId open_of(const NodeName& node) const;
  // What may be the proof that pods of the node wait for: they are judged again at once.
  void evidence_found(const NodeName& node);

  // Whether this replica acts. While it does not, it remembers which nodes are down and since
  // when, and opens nothing; when it begins to, the node cache tells of those nodes again with
  // Look::TookOver. Stepping down closes every incident. It acts until told otherwise.
  void lead();
  void step_down(audit::Reason why = audit::Reason::SteppedDown);

  // We trust ourselves again: evidence begins anew, and what waited goes on.
  void trust_restored();
  // From now on incidents are opened only when take_over() has told what is known of them: an
  // incident that another leader left open goes on under its id, with what it remembers; the brake
  // counts the nodes that were fenced within its window.
  void await_records();
  void take_over(const std::vector<Journal::Found>& records);
  using Find = std::function<const cluster::NodeView*(const NodeName&)>;
  // Closes what was taken over of nodes that are not down any more, by what the node cache
  // believes.
  void review(const Find& find);
  // Goes on with what was taken over of nodes that do not exist, where a policy acts on those: a
  // pod that names such a node is judged only because a record of ours names it too, or because we
  // saw the node go. And with what is left of one that was dead when its Node was made anew. `may`:
  // which ones.
  void take_up_deleted(const Find& find, const std::function<bool(const NodeName&)>& may);

  // Closes every incident. Calls that have left are followed to their end by GuardedCall.
  void stop();

  [[nodiscard]] std::size_t open_incidents() const { return open_.size(); }
  // It leads, and knows the policies and what other leaders have left open.
  [[nodiscard]] bool is_informed() const {
    return leads_ && !stopped_ && policies_known_ && !awaits_records_;
  }
  // Those that wait for the brake, or for us to trust ourselves again.
  [[nodiscard]] std::size_t braked_incidents() const;
  // Those in which something has failed for more than a minute; it is tried again.
  [[nodiscard]] std::size_t failing_incidents() const;
  void name_failing(std::set<std::string>& policies) const;
  // How each of the open ones stands.
  void stand(std::vector<IncidentStatus>& all) const;
  // Deleted pods without a replacement that is Ready, of open incidents, by what keeps it.
  [[nodiscard]] std::map<audit::Reason, std::size_t> awaited_replacements() const;

 private:
  // What is known of a node that is down, with or without an incident.
  struct Down {
    Uid uid;
    Downtime downtime;
    cluster::NodeView view;  // the newest
    bool deleted = false;    // nobody will tell when it is up again
  };
  // Down for somebody: a deleted node is for policies that say so.
  [[nodiscard]] bool is_down(const cluster::NodeView& node) const;
  [[nodiscard]] bool serves_deleted() const;
  // Whether what was taken over of a node that does not exist is to be kept.
  [[nodiscard]] bool keeps_deleted() const;
  void forget_deleted();
  void consider(const cluster::NodeView& node, cluster::Look why);
  const Downtime& remember(const cluster::NodeView& node, cluster::Look why);
  void open(const cluster::NodeView& node, cluster::Look why, const Downtime& downtime);
  // A Node was made under a name whose machine left pods behind.
  void take_up_left_behind(const cluster::NodeView& successor);
  void forget_left_behind();
  // What the record says of that is kept for a Node of that name to come.
  void recall_left_behind(const IncidentRecord& record);
  // A new Node of that name fell while its predecessor's incident was open.
  void look_at_successors();
  [[nodiscard]] std::shared_ptr<RecordLedger> ledger_for(const cluster::NodeView& node,
                                                         audit::Reason why,
                                                         const Downtime& downtime);
  void close_all(audit::Reason reason);
  // Incidents that wait for the brake go on, the oldest first, as far as it lets them.
  void let_go();
  void restart_evidence();
  void let_go_soon() override;
  void forget(const NodeName& name) override;
  [[nodiscard]] IncidentRules rules_for(const Downtime& downtime) const override;

  IncidentContext around_;
  IncidentRules rules_;
  std::function<IncidentId()> make_id_;
  std::map<NodeName, Down> down_;
  std::map<NodeName, std::unique_ptr<IncidentDriver>> open_;
  std::set<NodeName> asked_for_;  // of those: opened by Look::Asked, and called for by nothing else
  Takeover inheritance_;
  const Takeover::IsLeft is_left_;
  std::map<NodeName, IncidentDriver::LeftBehind> left_behind_;
  // Down themselves, while what their predecessors left behind was dealt with.
  std::vector<cluster::NodeView> successors_;
  loop::Timer successors_turn_;
  // Nodes that are down, while the records are being read, and why we are to look at them.
  std::map<NodeName, std::pair<cluster::NodeView, cluster::Look>> held_back_;
  bool policies_known_ = false;
  bool awaits_records_ = false;
  bool leads_ = true;
  bool stopped_ = false;
  std::uint64_t opened_ = 0;  // incidents so far
  bool engaged_ = false;      // too many nodes were down when last asked
  loop::Timer let_go_soon_;
  loop::Timer let_go_later_;
};

}  // namespace moonfence::fence
