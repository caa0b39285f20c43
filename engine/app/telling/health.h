#pragma once

// What /healthz and /readyz answer from. The loop's thread writes, the HTTP server's thread reads;
// this, the metrics registry, the status board and the testimony board are the only things the two
// share.

#include <map>
#include <mutex>
#include <string>

#include "base/time.h"

namespace moonfence::app {

class Health {
 public:
  struct Answer {
    bool ok = false;
    std::string text;  // "ok", or the checks line by line as Kubernetes prints them
  };

  // A check that readiness depends on; `why_not` is empty when it passes.
  void set_ready(const std::string& check, const std::string& why_not);
  // Something to know of a check that is no reason to be called unready: shown beside it; "" takes
  // it back.
  void note(const std::string& check, const std::string& text);
  // The loop turns. Liveness is about ourselves only: an API server that is away must never get us
  // restarted.
  void alive(Moment now);

  [[nodiscard]] Answer ready(bool verbose) const;
  // The checks that fail now, and why.
  [[nodiscard]] std::map<std::string, std::string> failing() const;
  [[nodiscard]] Answer live(Moment now, bool verbose) const;

  // The loop wakes at least every second; this long without a turn means that it hangs.
  static constexpr Duration kStuckAfter = std::chrono::seconds(20);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> checks_;
  std::map<std::string, std::string> notes_;
  Moment last_turn_{};
};

}  // namespace moonfence::app
