#pragma once

// What happened in a run, told to whoever wants to know: a story on a terminal, a live timeline, a
// test. Nothing is formatted when nobody listens.

#include <functional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace moonfence::sim {

struct Happening {
  enum class Kind {
    Machine,   // a node's power, kubelet, connection
    Node,      // what the API says of a node: Ready, taints
    Pod,       // bound, Running, Terminating, gone
    Volume,    // attached, detached, refused
    Policies,  // what is in force
    Engine,    // started, crashed, paused
    Audit,     // one record of the engine, its JSON in `detail`
    Call,      // a request of the engine and how it ended
    Fault,     // what the simulation did to somebody
    Violation,
  };
  Duration at{};  // since the start of the run
  Kind kind = Kind::Pod;
  std::string subject;  // "n1", "noobaa/core-0", "moonfence-0"
  std::string what;     // "Ready=Unknown", "Running on n2"
  std::string detail;
};

using Listener = std::function<void(const Happening&)>;

class Story {
 public:
  void listen(Listener listener) { listener_ = std::move(listener); }
  [[nodiscard]] bool heard() const { return static_cast<bool>(listener_); }
  void tell(const Happening& happening) const {
    if (listener_) {
      listener_(happening);
    }
  }

 private:
  Listener listener_;
};

}  // namespace moonfence::sim
