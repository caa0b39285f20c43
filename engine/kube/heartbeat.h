#pragma once

// Heartbeat asks /livez every 5 s on the lane that writes use. It finds out that the peer is dead
// within 13 s while libcurl and the kernel would wait for minutes, and it keeps a connection warm
// for the write that comes next. Any HTTP answer is a sign of life; two misses in a row end all
// connections, once per outage.

#include "kube/caller.h"
#include "loop/loop.h"
#include "port/http.h"
#include "port/log.h"

namespace moonfence::kube {

class Heartbeat {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(5);
  static constexpr Duration kLimit = std::chrono::seconds(3);
  static constexpr int kMisses = 2;

  Heartbeat(loop::Loop& loop, Caller& caller, port::Http& http, port::Log& log)
      : loop_(loop), caller_(caller), http_(http), log_(log) {}

  void start() { beat(); }
  // Misses since the last sign of life.
  [[nodiscard]] int misses() const { return misses_; }

 private:
  void beat();
  void on_outcome(const Result<ApiReply>& reply);

  loop::Loop& loop_;
  Caller& caller_;
  port::Http& http_;
  port::Log& log_;
  int misses_ = 0;
  loop::Timer timer_;
  CallHandle call_;
};

}  // namespace moonfence::kube
