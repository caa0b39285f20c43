#pragma once

// The node lifecycle controller of kube-controller-manager 1.20. Every monitor period it judges
// each node by its Lease and its Ready condition: nothing new for the grace period makes Ready and
// the pressure conditions Unknown and the pods' Ready False. The NoSchedule taint follows the
// condition within milliseconds; the NoExecute taint is queued by the *next* monitor pass, and
// leaves a zone's queue at a limited rate.

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "sim/ground/ground.h"

namespace moonfence::sim {

class NodeLifecycle final {
 public:
  NodeLifecycle(const Ground& ground, Informer& nodes, Informer& leases, Informer& pods);
  NodeLifecycle(const NodeLifecycle&) = delete;
  NodeLifecycle& operator=(const NodeLifecycle&) = delete;

 private:
  struct Health {
    Moment probe{};          // when something new was last seen
    std::string heartbeat;   // of the Ready condition
    std::string renew_time;  // of the Lease
    // The last that were judged healthy: the same again are so until the grace ends.
    Object healthy_node;
    Object healthy_lease;
    loop::Timer no_schedule;
  };
  // The queue of nodes that are to be evicted from. One at once, then one every eviction_interval.
  struct Zone {
    std::deque<std::string> queue;
    Moment next{};
    loop::Timer timer;
  };

  void monitor();
  void judge(const Object& node, bool first);
  [[nodiscard]] static bool has_news(Health& health, const Json& node, const Object& lease,
                                     bool first);
  void mark_unknown(const Object& node);
  void mark_pods_not_ready(const std::string& node);
  void saw_node(const Object& before, const Object& after);
  void taint_no_schedule(const std::string& node);
  void judge_no_execute(const Json& node, const std::string& observed);
  void serve(const std::string& zone);
  void set_taint(const std::string& node, std::string_view effect, std::string_view key);

  const Ground& ground_;
  Informer& nodes_;
  Informer& leases_;
  Informer& pods_;
  std::unique_ptr<port::Random> random_;
  std::map<std::string, Health> health_;
  std::map<std::string, Zone> zones_;
  loop::Timer monitor_;
};

}  // namespace moonfence::sim
