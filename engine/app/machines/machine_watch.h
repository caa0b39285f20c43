#pragma once

// MachineWatch watches whether the machines of nodes answer: by this replica itself
// (cluster/detection), and by what the other one says (cluster/witness), which it answers in turn.
// Without links, or where detection is off, no machine is watched, and everything here is idle.

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "app/machines/witness_watch.h"
#include "app/telling/health.h"
#include "app/telling/metrics.h"
#include "cluster/detection/detection.h"
#include "cluster/detection/machine_history.h"
#include "cluster/witness/testimony_board.h"
#include "cluster/witness/witnesses.h"
#include "port/http.h"
#include "port/links.h"

namespace moonfence::app {

class MachineWatch {
 public:
  // All must outlive it. `secret`: its answers to other replicas are signed with it. `links`: null
  // where machines are not watched.
  MachineWatch(loop::Loop& loop, port::Http& http, port::Random& random, port::Log& log,
               const SigningKey::Secret& secret, port::Links* links);
  MachineWatch(const MachineWatch&) = delete;
  MachineWatch& operator=(const MachineWatch&) = delete;

  [[nodiscard]] bool are_watched() const { return detection_ != nullptr; }
  // Both null where machines are not watched.
  [[nodiscard]] cluster::Detection* detection() const { return detection_.get(); }
  [[nodiscard]] cluster::Witnesses* witnesses() const { return witnesses_.get(); }
  [[nodiscard]] const cluster::MachineHistory& history() const { return history_; }
  [[nodiscard]] const std::string& public_key() const { return testimony_.public_key(); }

  // Where other replicas can be asked stands in ConfigMap moonfence-status of that namespace; `own`
  // is this one's name there. From start() on.
  void follow_replicas(kube::Caller& caller, const Namespace& space, std::string own);
  void start();
  // Every second. `now` by the API server's clock.
  void tell(Metrics& metrics, Health& health, WallTime now);
  // What another replica is answered. From any thread; see TestimonyBoard.
  [[nodiscard]] Result<std::string> testify(std::string_view nonce, std::string_view nodes,
                                            Moment now) const {
    return testimony_.answer(nonce, nodes, now);
  }

 private:
  loop::Loop& loop_;
  port::Log& log_;
  const std::unique_ptr<port::Random> detection_random_;
  const std::unique_ptr<cluster::Detection> detection_;
  cluster::TestimonyBoard testimony_;
  const std::unique_ptr<port::Random> witness_random_;
  const std::unique_ptr<cluster::Witnesses> witnesses_;
  cluster::MachineHistory history_;
  std::optional<WitnessWatch> witness_watch_;
};

}  // namespace moonfence::app
