#pragma once

// What may be deleted and when (invariants I1, I2, I6, I11). The bound for a recovered node is
// exact: a deletion rests on a reading that is at most 1 s old when its bytes leave, and what the
// server answered was true when the read was sent or later; so at that moment the down signal can
// have been clear for 1 s at most. What happens on the way to the server cannot be called back and
// is not counted.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/truth/checker.h"
#include "sim/truth/heard_kernels.h"
#include "sim/truth/heard_policies.h"

namespace moonfence::sim {

class DeleteChecker final : public Checker {
 public:
  explicit DeleteChecker(Bench& bench) : Checker(bench) {}

  void on_started(const Life& life) override;
  void on_died(const Life& life, bool told) override;
  void on_left(const WireRequest& request) override;
  void on_answered(const WireRequest& request, const ServerAnswer& answer) override;
  void on_ended(const WireRequest& request) override;
  void on_heard(const WireRequest& request, int status, std::string_view text) override;
  void on_audit(const AuditLine& line) override;
  void on_change(const Change& change) override;
  void on_paused(const Life& life, bool paused) override;
  void on_partitioned(const std::string& replica, bool partitioned) override;
  void on_link_cut(const std::string& replica, const std::string& node, bool cut) override;
  void on_ordered(const Life& life, const BmcPlan& bmc) override;

 private:
  struct Reading {
    std::string uid;
    bool down = false;
    bool absent = false;  // the server named it and knew none
    Moment left{};
  };
  struct Known {
    // By pod UID: when an answer showed it last.
    std::map<std::string, Moment> listed;
    std::map<std::string, std::vector<Reading>> readings;  // by node name
    HeardPolicies policies;
    std::map<std::string, AuditLine> intents;  // the newest, by pod UID
    std::map<std::string, Moment> opened;      // incidents
    Duration slowest_read{};
  };

  void check_delete(const WireRequest& request, const Known& known);
  void check_failing(const WireRequest& request, const Known& known);
  void check_pod(const std::string& what, const std::string& uid, const WireRequest& request,
                 const Known& known);
  void check_attested(const std::string& what, const NodeTruth& node) const;
  [[nodiscard]] const AuditLine* intent_of(const std::string& what, const std::string& uid,
                                           const WireRequest& request, const Known& known);
  void check_detach(const WireRequest& request, const Known& known);
  void check_release(const WireRequest& request, const Known& known);
  void check_patch(const WireRequest& request, const Known& known);
  void check_eviction(const std::string& what, const AuditLine& intent, const Known& known);
  [[nodiscard]] bool may_be_evicted(const PodTruth& pod, const Known& known) const;
  // Whether the node is down or does not exist, and was read so; nullopt: neither.
  enum class Signal { Down, Deleted, Succeeded };
  std::optional<Signal> check_down(const std::string& what, const AuditLine& intent,
                                   const Known& known);
  // What changes the node needs one.
  [[nodiscard]] bool goes_by_source(const Known& known) const;
  [[nodiscard]] bool goes_by_silence(const Known& known) const;
  void check_lost(const std::string& what, const NodeTruth& node, const AuditLine& intent) const;
  void check_exists(const std::string& what, std::optional<Signal> signal);
  std::optional<Signal> check_node(const std::string& what, const AuditLine& intent,
                                   const Known& known);
  void check_lease(const std::string& what, const NodeTruth& node) const;
  // `pod`: that is deleted; null: it is an attachment, which may be anybody's.
  void check_kernel(const std::string& what, const AuditLine& intent, const PodTruth* pod,
                    const Known& known) const;
  [[nodiscard]] bool accepts_living_kernel(const PodTruth* pod, const Known& known) const;
  [[nodiscard]] bool is_dead(const NodeTruth& node) const;
  [[nodiscard]] bool stands_still(const NodeTruth& node) const;
  [[nodiscard]] bool was_bound_before_successor(const PodTruth& pod, const AuditLine& intent) const;
  [[nodiscard]] bool was_down_for(const NodeTruth& node, Duration time) const;
  [[nodiscard]] bool is_absent(const std::string& name) const;
  [[nodiscard]] bool was_read(const AuditLine& intent, const Known& known, Signal as) const;
  void check_reach(const std::string& what, const PodTruth& pod, const AuditLine& intent,
                   std::optional<Signal> signal, const Known& known);
  void note_node(const std::string& name, const WireRequest& request, const ServerAnswer& answer);
  void note_absence(const WireRequest& request, const ServerAnswer& answer);

  std::map<Life, Known> known_;
  HeardKernels kernels_;
  Duration lifetime_{};  // of a reading, for the request that is being judged
};

}  // namespace moonfence::sim
