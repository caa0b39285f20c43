#pragma once

// IncidentDriver is an open incident with everything it has running: the machine that decides
// (fence/incident/incident_machine), its timer, the pass under way, its watches over the storage
// and the pods that it waits for. It performs what the machine says, asks the brake before each
// pass, and records.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "audit/trail.h"
#include "cluster/nodes/node_cache.h"
#include "fence/incident/incident_machine.h"
#include "fence/incident/incident_status.h"
#include "fence/incident/pass.h"
#include "fence/incident/plan_ahead.h"
#include "fence/incident/storage_poll.h"
#include "fence/read/pod_watch.h"
#include "fence/verify/replacement_watch.h"

namespace moonfence::fence {

class IncidentDriver final : public Pass::Owner {
 public:
  // Who keeps the incidents.
  class Keeper {
   public:
    virtual ~Keeper() = default;
    [[nodiscard]] virtual IncidentRules rules_for(const Downtime& downtime) const = 0;
    // Something waits for the brake.
    virtual void let_go_soon() = 0;
    // The incident of this node is over. It is still on the stack.
    virtual void forget(const NodeName& name) = 0;
  };

  // An event lives for an hour: what lasts is told more often.
  static constexpr Duration kTellAgain = std::chrono::minutes(5);

  // `order`: among all incidents. Keeper and surroundings must outlive it.
  IncidentDriver(Keeper& keeper, IncidentContext& surroundings, std::uint64_t order,
                 const cluster::NodeView& node, const Downtime& downtime,
                 std::shared_ptr<RecordLedger> ledger);
  ~IncidentDriver() override { authority_->incident_open = false; }
  IncidentDriver(const IncidentDriver&) = delete;
  IncidentDriver& operator=(const IncidentDriver&) = delete;

  // What is left of a machine whose Node went, or was made anew by another: pods are bound to it,
  // and whoever comes under its name is not it.
  struct LeftBehind {
    cluster::NodeView node;
    Downtime downtime;
    bool was_silent = false;
    std::optional<kube::Node> last_seen;
    Moment at{};
  };
  // To be called before begin() of an incident that goes on with it.
  void take_up(LeftBehind left);
  // It was taken up, and this is the machine that has the node's name now.
  [[nodiscard]] bool is_outlived_by(const cluster::NodeView& node) const {
    return taken_up_ && node.uid != authority_->node_uid;
  }
  // Once it is closed.
  [[nodiscard]] std::optional<LeftBehind> left_behind() const;

  void begin(const cluster::NodeView& node, audit::Reason why);
  [[nodiscard]] const Uid& node_uid() const { return authority_->node_uid; }
  void node_seen(const cluster::NodeView& node, cluster::Look why);
  void policies_changed();
  void evidence_found();
  // What was observed until now proves nothing.
  void restart_evidence();
  // If the brake has nothing against it.
  void let_go();
  void stop(audit::Reason reason) { perform(machine_.stop(reason)); }

  [[nodiscard]] bool is_braked() const { return machine_.is_braked(); }
  [[nodiscard]] bool is_failing() const { return machine_.is_failing(); }
  // Policies for which the last pass held pods: they failed.
  [[nodiscard]] const std::set<std::string>& failing() const { return failing_; }
  [[nodiscard]] IncidentStatus incident_status() const;
  [[nodiscard]] std::uint64_t order() const { return order_; }
  // Nothing is left to do but to wait for what replaces deleted pods.
  [[nodiscard]] bool is_verifying() const {
    return machine_.state() == IncidentMachine::State::Verifying;
  }
  // Something was done to the node, and what follows from it is still to be done: attachments and
  // volumes of pods that are gone would stay behind.
  [[nodiscard]] bool is_midway() const;
  [[nodiscard]] const Replacements& replacements() const { return memory_.replacements; }

  void reading_arrived(const std::optional<Reading>& reading) override;
  void pass_ended(const PassResult& result) override;

 private:
  void hold(const std::optional<std::string>& why);
  void perform(const IncidentMachine::Effects& effects);
  void watch_pods();
  void carry_out(const IncidentMachine::Effects& effects);
  void entitle();
  void set_timer(Duration delay);
  [[nodiscard]] Brake::Candidate candidate() const;
  [[nodiscard]] std::optional<audit::Reason> refused_by_brake() const;
  void wait_for_brake(audit::Reason reason);
  [[nodiscard]] PassContext context() const;
  void start_pass();
  void plan_ahead();
  void act();
  void cancel_pass();
  void note_hold(audit::Reason reason);
  void stand(const PassResult& result);
  [[nodiscard]] std::string words_of_failing() const;
  [[nodiscard]] std::string words_of_brake(audit::Reason reason) const;
  // What lasts: told again when it is about something else, or after kTellAgain.
  void tell_lasting(audit::Reason reason, const std::string& about, std::string text);
  void close(audit::Reason reason);
  [[nodiscard]] std::string names_of_failing() const;
  void record(audit::Record::Kind kind, audit::Reason reason, const std::string& text = {});
  void record_opening();

  Keeper& keeper_;
  IncidentContext& around_;
  const IncidentId id_;
  const std::uint64_t order_;
  Downtime downtime_;
  IncidentMachine machine_;
  // Shared with the calls in flight, which may outlive us; see GuardedCall.
  std::shared_ptr<Authority> authority_;
  const Moment opened_;
  cluster::NodeView node_;  // as the watch has shown it last
  bool taken_up_ = false;
  std::optional<Moment> read_silent_;  // by the leader before us
  std::optional<audit::Reason> closed_by_;
  std::optional<audit::Reason> opening_;  // which is still to be recorded
  Memory memory_;
  StoragePoll storage_poll_;
  const bool awaits_replacements_;
  ReplacementWatch replacement_watch_;
  PodWatch pod_watch_;
  bool waits_ = false;  // by the last pass
  loop::Timer timer_;
  std::optional<Moment> timer_due_;
  IncidentStatus incident_status_;  // without what is asked for each time
  std::unique_ptr<PlanAhead> preplanning_;
  std::unique_ptr<Pass> pass_;
  Brake::Place place_;
  std::optional<audit::Reason> held_;
  std::set<std::pair<audit::Reason, std::string>> braked_;  // what was told, and the text beside it
  std::set<std::string> failing_;  // policies for which the last pass held pods
  std::string obstacle_;           // of the last pass
  std::uint32_t failed_ = 0;       // likewise
  std::string waiting_;            // likewise
  struct Told {
    Moment at{};
    std::string about;
  };
  std::map<audit::Reason, Told> told_lasting_;
};

}  // namespace moonfence::fence
