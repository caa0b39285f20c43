#pragma once

// NodePick chooses the nodes that the status page shows: those that are not simply Ready first, and
// as many as there is room for. It copies no more than that, whatever the size of the cluster.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "app/status/status_snapshot.h"

namespace moonfence::app {

// Ready, and nothing else is to be said of it.
[[nodiscard]] bool is_plain(const cluster::NodeView& view, bool called_failed);

class NodePick {
 public:
  explicit NodePick(std::size_t limit) : limit_(limit) {}

  void offer(const cluster::NodeView& view, bool called_failed);

  struct Picked {
    std::vector<NodeStatus> nodes;
    std::uint64_t left_out = 0;
  };
  // Of all that were offered. The pick is empty afterwards.
  [[nodiscard]] Picked take();

 private:
  const std::size_t limit_;
  std::vector<NodeStatus> remarkable_;
  std::vector<NodeStatus> plain_;
  std::uint64_t offered_ = 0;
};

}  // namespace moonfence::app
