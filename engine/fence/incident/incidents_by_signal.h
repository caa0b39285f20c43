#pragma once

// IncidentsBySignal keeps Incidents for each health signal that a binding in force goes by: one
// for what Kubernetes says, and one for each health source, with the feed that tells of it: a
// policy's own source, or what the engine itself has heard of the machines.
// They share the guard, the brake and everything that acts, and no incident: a node that only a
// source calls failed is no matter of a binding that goes by Kubernetes, and the reverse. A node
// may have an incident at several of them; each deletes what its own bindings name.
//
// Only the replica that acts asks sources. For the brake a node is down when anybody calls it so.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "audit/reason.h"
#include "cluster/nodes/census.h"
#include "cluster/nodes/node_cache.h"
#include "fence/incident/incidents.h"
#include "fence/sources/node_health_feed.h"
#include "fence/sources/source_state.h"

namespace moonfence::fence {

class IncidentsBySignal final : public cluster::NodeListener {
 public:
  // What the node cache believes of a node; null: it knows none of that name.
  using Find = std::function<const cluster::NodeView*(const NodeName&)>;

  // See Incidents.
  IncidentsBySignal(const IncidentContext& surroundings, IncidentRules rules,
                    std::function<IncidentId()> make_id, Find find);
  ~IncidentsBySignal() override;
  IncidentsBySignal(const IncidentsBySignal&) = delete;
  IncidentsBySignal& operator=(const IncidentsBySignal&) = delete;

  // A rehearsal: whoever calls a node failed, nothing is opened for it before name(). All of them
  // count for the brake.
  void look_at_named_only() { named_.emplace(); }
  // From now on this one is dealt with too, at once if a source calls it failed.
  void name(const NodeName& node);
  // name(), and whatever they answer, all sources are taken to call it failed.
  void suppose_failed(const NodeName& node);

  void look_at(const cluster::NodeView& node, cluster::Look why) override;
  void census_changed(const cluster::Census& census) override;
  void policies_changed();
  // See Incidents: whoever asks is believed only where Kubernetes calls the node down.
  void withdraw_all_but(const std::set<NodeName>& asked) { kubernetes_.withdraw_all_but(asked); }
  // By Kubernetes' own word.
  [[nodiscard]] IncidentId open_of(const NodeName& node) const { return kubernetes_.open_of(node); }
  [[nodiscard]] bool is_informed() const { return kubernetes_.is_informed(); }
  // See Incidents.
  void evidence_found(const NodeName& node);
  void trust_restored();
  // See Incidents. The record of an incident goes to the Incidents of its signal. Without one it
  // waits for the policies; if these are known and none goes by that signal, it is closed.
  void await_records();
  void take_over(const std::vector<Journal::Found>& records);
  void review(const Find& find);
  void take_up_deleted(const Find& find, const std::function<bool(const NodeName&)>& may) {
    kubernetes_.take_up_deleted(find, may);  // a health source's incident needs the Node
  }
  void lead();
  void step_down(audit::Reason why = audit::Reason::SteppedDown);
  void stop();

  [[nodiscard]] std::size_t open_incidents() const;
  [[nodiscard]] std::size_t braked_incidents() const;
  [[nodiscard]] std::size_t failing_incidents() const;
  // Policies that keep pods of open incidents from being dealt with, because they fail.
  [[nodiscard]] std::set<std::string> failing_policies() const;
  // How each of the open ones stands, the newest first.
  [[nodiscard]] std::vector<IncidentStatus> incident_statuses() const;
  [[nodiscard]] std::map<audit::Reason, std::size_t> awaited_replacements() const;
  // Whether a health source calls it failed.
  [[nodiscard]] bool is_failed(const NodeName& node) const;
  [[nodiscard]] std::size_t sources() const { return sources_.size(); }
  // How they are heard, by whoever acts.
  [[nodiscard]] std::vector<SourceState> source_states() const;

 private:
  struct Source;
  using MakeFeed = std::function<std::unique_ptr<NodeHealthFeed>(NodeHealthFeed::Tell)>;
  [[nodiscard]] MakeFeed feed_of(const policy::Binding& binding, const std::string& key);
  void open_sources();
  void close_sources();
  [[nodiscard]] bool is_named(const NodeName& node) const {
    return !named_ || named_->contains(node);
  }
  bool hear(Source& source, const SourceHealth::News& news);
  void close_unclaimed();
  void recount();

  IncidentContext around_;
  const IncidentRules rules_;
  const std::function<IncidentId()> make_id_;
  const Find find_;
  Incidents kubernetes_;
  std::map<std::string, std::unique_ptr<Source>> sources_;        // by key
  cluster::Census census_;                                        // as the node cache counts
  std::map<std::string, std::vector<Journal::Found>> unclaimed_;  // by the key of their source
  std::optional<std::set<NodeName>> named_;                       // of a rehearsal
  std::set<NodeName> supposed_failed_;  // whoever supposes it has counted them
  bool counted_ = false;
  bool policies_known_ = false;
  bool awaits_records_ = false;
  bool leads_ = true;
  bool stopped_ = false;
};

}  // namespace moonfence::fence
