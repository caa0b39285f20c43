#pragma once

// LeftoversReader reads what a node that came back may still hold (fence/lift/node_leftovers), the
// cheapest first: its kubelet's word, then its pods, then, if nothing speaks against the node so
// far and it is wanted, the volumes of its pods, all VolumeAttachments, and its Lease. Kubelets are
// asked one at a time, so that many silent ones keep neither one another's time limits nor anybody
// else's requests waiting.

#include <functional>
#include <memory>
#include <vector>

#include "fence/lift/node_leftovers.h"
#include "fence/read/fact_reader.h"
#include "fence/read/surroundings.h"
#include "loop/turn_queue.h"

namespace moonfence::fence {

class LeftoversReader {
 public:
  using Done = std::function<void(const NodeLeftovers&)>;

  // `done` hears it in a later turn, and may destroy this.
  LeftoversReader(Surroundings& around, loop::TurnQueue& kubelets, const NodeName& node,
                  Scope scope, Done done);
  LeftoversReader(const LeftoversReader&) = delete;
  LeftoversReader& operator=(const LeftoversReader&) = delete;

  // Gives its turn up: what is left of it may outlive `kubelets`.
  void retire() { turn_.reset(); }

 private:
  void ask_kubelet();
  void list_pods();
  void pods_arrived(const Result<kube::ItemTexts>& listed);
  void read_storage();
  void attachments_arrived(Result<kube::ApiReply> reply);
  void lease_arrived(const Result<kube::Lease>& lease);
  void gathered(const kube::Pod& pod, const Gathered& facts);
  void lacks(const Error& error);
  void one_ended();
  void finish();

  Surroundings& around_;
  loop::TurnQueue& kubelets_;
  const NodeName node_;
  const Scope scope_;
  Done done_;
  NodeLeftovers leftovers_;
  FactReader fact_reader_;
  std::size_t pending_ = 0;
  std::unique_ptr<loop::TurnQueue::Ticket> turn_;
  std::vector<kube::CallHandle> calls_;
};

}  // namespace moonfence::fence
