#pragma once

// Census counts the nodes that matter where many fail at once, as the node cache believes them:
// those that are up and those that fell, each with the moment. It is kept up to date with every
// change, because it is asked in front of every deletion. What each counts for is its Standing.
//
// Two counts, for one may not hide behind the other: the workers, and all machines, dedicated ones
// among them. A pool that takes no ordinary pods must not make the workers look better, and still a
// storm in it is a storm.

#include <cstdint>
#include <map>
#include <string>

#include "cluster/nodes/node_view.h"

namespace moonfence::cluster {

class Census {
 public:
  struct Fallen {
    NodeName node;
    std::string zone;

    friend bool operator==(const Fallen&, const Fallen&) = default;
  };
  struct Group {
    std::int64_t up = 0;
    std::map<std::string, std::int64_t> up_in;  // by zone that has a name
    std::multimap<Moment, Fallen> falls;        // by when; max(): nobody knows

    friend bool operator==(const Group&, const Group&) = default;
  };
  struct Count {
    std::int64_t workers = 0;
    std::int64_t down = 0;

    friend bool operator==(const Count&, const Count&) = default;
  };

  void add(const NodeView& node) { count(node, 1); }
  void remove(const NodeView& node) { count(node, -1); }

  [[nodiscard]] const Group& workers() const { return workers_; }
  [[nodiscard]] const Group& machines() const { return machines_; }
  // All workers that are counted, however long ago they fell.
  [[nodiscard]] Count all() const;

  // Whether two views of a node count alike.
  [[nodiscard]] static bool counts_alike(const NodeView& a, const NodeView& b);

  friend bool operator==(const Census&, const Census&) = default;

 private:
  void count(const NodeView& node, int sign);

  Group workers_;
  Group machines_;
};

}  // namespace moonfence::cluster
