#pragma once

// Truth is what really is and was, for the checkers: since when a node is down or clear, what each
// pod is bound to and whether it is gone, which policies were written when. It follows the store
// itself, so it knows of every change in the moment of its commit, long before any watcher does.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/ground/machines.h"
#include "sim/net/time_line.h"
#include "sim/store/object_store.h"
#include "sim/truth/reach.h"

namespace moonfence::sim {

// Something that holds or does not, and since when.
struct Since {
  bool holds = false;
  Moment changed{};

  void set(bool now_holds, Moment now) {
    if (holds != now_holds) {
      holds = now_holds;
      changed = now;
    }
  }
  // It holds, or did at most `ago` before.
  [[nodiscard]] bool held_within(Moment now, Duration ago) const {
    return holds || now - changed <= ago;
  }
  // It holds and has for at least `long_enough`.
  [[nodiscard]] bool held_for(Moment now, Duration long_enough) const {
    return holds && now - changed >= long_enough;
  }
};

struct NodeTruth {
  std::string name;
  Since down;     // this very Node exists and its Ready condition is not True
  Since silent;   // and is Unknown
  Since tainted;  // and it carries a NoSchedule taint that keeps replacements off
  Since exists;
  Moment made{};
  // How long the one of that name before it had been silent when it went; zero: it was not.
  Duration silent_before{};
  Object object;  // as it is, or was last
};

// A kubelet's Lease.
struct LeaseTruth {
  bool exists = false;
  Duration duration{};
  std::vector<Moment> changes;  // made, renewed, removed

  [[nodiscard]] bool changed_between(Moment after, Moment before) const;
};

struct PodTruth {
  std::string space;
  std::string name;
  std::string node;
  Json labels = Json::object();
  std::string controller;  // kind; "" for none
  bool mirror = false;
  bool finalized = false;  // something keeps the object
  Since finished;
  Moment bound{};
  std::optional<Moment> marked;
  std::optional<Moment> gone;
  std::string deleted_by;  // who removed or first marked it
};

// A write of the policies' ConfigMap.
struct PolicyEdit {
  int restores = 0;  // how often the store had gone back in time: versions count anew
  std::int64_t version = 0;
  Moment at{};
  std::shared_ptr<const Reach> reach;  // null: refused, and the one before goes on
  bool lowered = false;                // nothing may act, whatever is bound
  std::string bindings;                // text of moonfence.yaml
  bool deleted = false;                // and whatever was bound before is over for good
};

class Truth {
 public:
  Truth(const TimeLine& time, const ObjectStore& store, const Machines& machines)
      : time_(time), store_(store), machines_(machines) {}

  // Every commit, in order.
  void on_change(const Change& change);

  [[nodiscard]] const NodeTruth* node(const std::string& uid) const;
  [[nodiscard]] const PodTruth* pod(const std::string& uid) const;
  // Of the node of that name; null when there never was one.
  [[nodiscard]] const LeaseTruth* lease(const std::string& node) const;
  [[nodiscard]] const std::map<std::string, NodeTruth>& nodes() const { return nodes_; }
  [[nodiscard]] const std::map<std::string, PodTruth>& pods() const { return pods_; }
  [[nodiscard]] const std::vector<PolicyEdit>& policy_edits() const { return policy_edits_; }
  [[nodiscard]] const Machines& machines() const { return machines_; }
  [[nodiscard]] const ObjectStore& store() const { return store_; }
  [[nodiscard]] Moment now() const { return time_.now; }
  // How often the store went back in time, and when for the last time.
  [[nodiscard]] int restores() const { return restores_; }
  [[nodiscard]] std::optional<Moment> restored_at() const { return restored_at_; }

 private:
  void on_node(const Change& change);
  void on_lease(const Change& change);
  void on_pod(const Change& change);
  void on_policies(const Change& change);

  const TimeLine& time_;
  const ObjectStore& store_;
  const Machines& machines_;
  std::map<std::string, NodeTruth> nodes_;       // by UID, also those that are gone
  std::map<std::string, Duration> left_silent_;  // by node name: of the last one that went
  std::map<std::string, LeaseTruth> leases_;     // by node name
  std::map<std::string, PodTruth> pods_;
  std::vector<PolicyEdit> policy_edits_;
  int restores_ = 0;
  std::optional<Moment> restored_at_;
};

}  // namespace moonfence::sim
