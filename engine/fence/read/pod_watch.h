#pragma once

// PodWatch watches the pods of a node that is down, while policies wait for some of them, and rings
// when something happened to one (fence/read/pod_news). The watch is only a bell: the pass that
// follows reads the node, its pods and all that is needed anew, past the same guards.
//
// It begins where the lists of the last pass ended, one watch for each of them.
// kube/watching/watcher keeps them: one that breaks is resumed or lists again, with growing pauses.
// Until it works again, or when no watch is to be had, there are the passes that happen by time.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/names.h"
#include "fence/read/pod_lists.h"
#include "fence/read/pod_news.h"
#include "kube/wire/caller.h"
#include "loop/loop.h"
#include "port/log.h"
#include "port/random.h"

namespace moonfence::fence {

// What a pass has read of the node's pods.
struct PodsRead {
  struct List {
    PodList what;
    ResourceVersion version;  // "": it could not be read
  };
  std::vector<List> lists;
  std::map<Uid, PodSight> pods;
};

// What all watches share. All must outlive them.
struct PodWatches {
  // Each is a connection of its own, and a watcher that the server calls for every change of a pod
  // in the cluster. Incidents that come to wait when there are as many look at their pods by time.
  static constexpr std::size_t kMost = 32;

  loop::Loop& loop;
  kube::Caller& caller;
  port::Random& random;
  port::Log& log;
  std::size_t open = 0;
};

class PodWatch {
 public:
  // `watches` null: there are none. `is_settled` tells the pods whose fate is nobody's news. `ring`
  // may end this.
  PodWatch(PodWatches* watches, NodeName node, std::function<bool(const Uid&)> is_settled,
           std::function<void()> ring);
  ~PodWatch();
  PodWatch(const PodWatch&) = delete;
  PodWatch& operator=(const PodWatch&) = delete;

  // A pass has ended, and policies wait.
  void read(PodsRead pods);
  // Rings from now on, at once if there are news already.
  void listen();
  // Does not ring, and misses nothing: a pass is under way.
  void hush();
  // Nobody waits any more.
  void close();

 private:
  class Stream;
  void heard();

  PodWatches* const watches_;
  const NodeName node_;
  const std::function<bool(const Uid&)> is_settled_;
  const std::function<void()> ring_;
  PodNews news_;
  std::vector<std::unique_ptr<Stream>> streams_;
  bool listening_ = false;
  loop::Timer bell_;
};

}  // namespace moonfence::fence
