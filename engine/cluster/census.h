#pragma once

// Census counts the workers, those that are down, and both in each zone, as the node cache believes
// them; kept up to date with every change, because it is asked in front of every deletion. A worker
// is a node without the control plane's taint. One that was created down and never was Ready counts
// as down: who asks wants to know whether something is wrong with many nodes at once.

#include <cstdint>
#include <map>
#include <string>

#include "cluster/node_view.h"

namespace moonfence::cluster {

class Census {
 public:
  struct Count {
    std::int64_t workers = 0;
    std::int64_t down = 0;

    friend bool operator==(const Count&, const Count&) = default;
  };

  void add(const NodeView& node);
  void remove(const NodeView& node);

  [[nodiscard]] const Count& all() const { return all_; }
  // Only zones that have a name and a worker.
  [[nodiscard]] const std::map<std::string, Count>& zones() const { return zones_; }

  // Whether two views of a node count alike.
  [[nodiscard]] static bool counts_alike(const NodeView& a, const NodeView& b);

  friend bool operator==(const Census&, const Census&) = default;

 private:
  void count(const NodeView& node, int sign);

  Count all_;
  std::map<std::string, Count> zones_;
};

}  // namespace moonfence::cluster
