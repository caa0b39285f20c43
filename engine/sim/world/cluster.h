#pragma once

// Cluster is Kubernetes and its machines, without the engine: store, API servers, the controllers
// that matter to fencing, kubelets and storage. It lives on the world's loop; Plan says what it
// holds. Controllers see the store through informers and so sometimes act on old facts.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "loop/loop.h"
#include "port/random.h"
#include "sim/ground/machines.h"
#include "sim/ground/plan.h"
#include "sim/ground/story.h"
#include "sim/server/api_server.h"
#include "sim/store/object_store.h"
#include "sim/world/bmcs.h"

namespace moonfence::sim {

class Cluster {
 public:
  // Everything that the plan names is created and running when the constructor returns: nodes
  // Ready, pods Running, volumes attached. `now` is the API servers' wall clock.
  Cluster(loop::Loop& loop, port::Random& random, std::function<WallTime()> now, const Plan& plan,
          Story& story);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  [[nodiscard]] ObjectStore& store();
  [[nodiscard]] ApiServer& server(std::size_t index);
  [[nodiscard]] std::size_t servers() const;
  [[nodiscard]] const Machines& machines() const;
  [[nodiscard]] Bmcs& bmcs();
  // Calls `heard` whenever something happens to a machine or its kubelet, until the cluster ends.
  void on_machine_change(std::function<void()> heard);

  // The steps about machines and cluster; those about the engine are World's. False when the target
  // does not exist (any more): nothing was done.
  bool perform(const Step& step);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moonfence::sim
