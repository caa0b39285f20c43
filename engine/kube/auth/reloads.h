#pragma once

// How keeping something fresh has gone so far: for metrics, and so that a reason is logged once.

#include <cstdint>
#include <string>

#include "port/log.h"

namespace moonfence::kube {

struct Reloads {
  std::uint64_t taken = 0;   // times a new value came into force
  std::uint64_t failed = 0;  // times nothing good could be had; the last good value stayed
  std::string fault;         // the latest attempt's; "" when it went well

  friend bool operator==(const Reloads&, const Reloads&) = default;

  // `what` names the credential in the log: "token", "authority", "certificate", "plugin".
  void fail(port::Log& log, std::string_view what, const std::string& reason) {
    ++failed;
    if (fault != reason) {
      log.warning("credential_reload_failed", {{"credential", what}, {"reason", reason}});
      fault = reason;
    }
  }
  void succeed(port::Log& log, std::string_view what, bool changed) {
    taken += changed ? 1U : 0U;
    if (changed || !fault.empty()) {
      log.info("credential_reloaded",
               {{"credential", what}, {"changed", changed ? "true" : "false"}});
    }
    fault.clear();
  }
};

}  // namespace moonfence::kube
