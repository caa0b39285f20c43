#pragma once

// FailureRows knows of each request that fails since when it has failed without a success in
// between, so that who asks can say "for five minutes". A row that nobody has added to for long is
// over: what was so meanwhile nobody knows. It is kept in memory alone: after a restart, and with
// the next leader, a row begins anew, which only delays what somebody would give up.

#include <map>
#include <string>

#include "base/time.h"

namespace moonfence::cluster {

class FailureRows {
 public:
  // Longer than the longest time after which what failed is asked again by itself.
  static constexpr Duration kForgottenAfter = std::chrono::minutes(10);

  // How long it has failed in a row; zero for the first time.
  [[nodiscard]] Duration failed(const std::string& request, Moment now);
  void succeeded(const std::string& request) { rows_.erase(request); }

 private:
  struct Row {
    Moment first{};
    Moment last{};
  };
  std::map<std::string, Row> rows_;
};

}  // namespace moonfence::cluster
