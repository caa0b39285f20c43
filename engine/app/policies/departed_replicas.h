#pragma once

// ConfigMap moonfence-status has one key for each replica that reported, and a replica that is
// replaced cannot take its own away. Who lives looks now and then which keys are of no pod any
// more. Outside of a cluster's pods nobody knows who lives, and nothing is taken away.

#include <functional>
#include <set>
#include <string>

#include "base/names.h"
#include "kube/calls/config_maps.h"
#include "kube/wire/caller.h"
#include "loop/loop.h"

namespace moonfence::app {

class DepartedReplicas {
 public:
  // The keys that are of no pod any more.
  using Found = std::function<void(const std::set<std::string>&)>;

  // All references outlive it. `own`: the name of this replica, which is its pod's.
  DepartedReplicas(loop::Loop& loop, kube::Caller& caller, ObjectRef status, std::string own,
                   Found found);
  DepartedReplicas(const DepartedReplicas&) = delete;
  DepartedReplicas& operator=(const DepartedReplicas&) = delete;

  static constexpr Duration kFirst = std::chrono::minutes(1);
  static constexpr Duration kEvery = std::chrono::minutes(10);

 private:
  void look();
  void pods_arrived(const Result<kube::ApiReply>& reply);
  void status_arrived(const Result<kube::ConfigMap>& map);

  loop::Loop& loop_;
  kube::Caller& caller_;
  kube::ConfigMaps config_maps_;
  const ObjectRef status_;
  const std::string own_;
  const Found found_;
  std::set<std::string> pods_;
  kube::CallHandle call_;
  loop::Timer timer_;
};

}  // namespace moonfence::app
