#pragma once

// Heartbeat asks /livez every 5 s on the lane that writes use. It finds out that the peer is dead
// within 13 s while libcurl and the kernel would wait for minutes. Any HTTP answer is a sign of
// life, and so is an answer to anybody else meanwhile; two misses in a row end all connections,
// once per outage. It asks several times side by side, to keep as many connections warm: an
// incident begins with as many reads at once, and none of them should have to shake hands first.
// Now and then, and only when it was answered well, it asks more often, for the deletions that
// leave together: their handshakes would be done by the server that is to delete
// (docs/decisions/0009). Only the first of the answers is judged, and while it is an error there
// are fewer questions: enough for fence/rules/self_doubt to see that most calls fail.

#include <vector>

#include "kube/wire/caller.h"
#include "kube/wire/warm_connections.h"
#include "loop/loop.h"
#include "port/http.h"
#include "port/log.h"

namespace moonfence::kube {

class Heartbeat {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(5);
  static constexpr Duration kLimit = std::chrono::seconds(3);
  // Of a server that is slow and alive.
  static constexpr Duration kLongestLimit = std::chrono::seconds(15);
  static constexpr int kMisses = 2;
  // The list, the node and its Lease; and the last two again, where the node's taint comes while
  // the first are still under way (fence/incident/plan_ahead).
  static constexpr std::size_t kWarm = 5;
  static constexpr std::size_t kWhileUnwell = 3;
  // For the deletions of a node, in every so many beats: an API server ends a connection that was
  // idle for 90 s (k/k staging/src/k8s.io/apiserver/pkg/server/secure_serving.go), a proxy before
  // it perhaps after 50 s. Each costs us 58 kB, holes in the heap included. The first beat is left
  // to the lists of the start.
  static constexpr std::size_t kWide = 32;
  static constexpr int kWideEvery = 8;

  Heartbeat(loop::Loop& loop, Caller& caller, port::Http& http, port::Log& log)
      : loop_(loop), caller_(caller), http_(http), log_(log), for_deletions_(caller) {}

  void start() { beat(); }
  // Misses since the last sign of life.
  [[nodiscard]] int misses() const { return misses_; }

 private:
  void beat();
  [[nodiscard]] Duration limit() const;
  void warm_up_for_deletions();
  [[nodiscard]] CallHandle ask(std::function<void(Result<ApiReply>)> done);
  void on_outcome(const Result<ApiReply>& reply);

  loop::Loop& loop_;
  Caller& caller_;
  port::Http& http_;
  port::Log& log_;
  int misses_ = 0;
  Moment asked_{};
  bool well_ = true;    // the last answer was no error
  int until_wide_ = 1;  // beats
  loop::Timer timer_;
  CallHandle call_;
  std::vector<CallHandle> beside_;
  WarmConnections for_deletions_;
};

}  // namespace moonfence::kube
