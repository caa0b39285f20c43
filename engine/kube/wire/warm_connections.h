#pragma once

// WarmConnections opens connections on the lane that writes use, before there is anything to send
// over them: it asks /livez so many times side by side, which waits in no queue of the API server
// (exempt from Priority and Fairness since k/k 100678). Whatever is answered, they are open then.
// fence/rules/self_doubt does not see these calls: so many answers at once would hide that others
// fail.

#include <cstddef>
#include <vector>

#include "kube/wire/caller.h"

namespace moonfence::kube {

class WarmConnections {
 public:
  // They hold places that others wait for, and what waits for longer has to be read again
  // (fence/leadership/limits.h).
  static constexpr Duration kLimit = std::chrono::seconds(1);

  explicit WarmConnections(Caller& caller) : caller_(caller) {}
  WarmConnections(const WarmConnections&) = delete;
  WarmConnections& operator=(const WarmConnections&) = delete;

  // As many as that, counting those that are open and have nothing to do; nothing while those that
  // were asked for before are being opened.
  void open(std::size_t count);

 private:
  Caller& caller_;
  std::vector<CallHandle> calls_;
  std::size_t waiting_ = 0;  // calls that are not answered
};

}  // namespace moonfence::kube
