#pragma once

// The sockets that libcurl has open, so that connections which are dead without having said so can
// be ended: libcurl itself keeps a silent connection and reuses it.

#include <cstdint>
#include <map>

namespace moonfence::os {

class OpenSockets {
 public:
  OpenSockets() = default;
  OpenSockets(const OpenSockets&) = delete;
  OpenSockets& operator=(const OpenSockets&) = delete;

  // A close-on-exec socket, recorded; -1 when the system has none for us.
  [[nodiscard]] int open(int family, int type, int protocol);
  // Closes it and returns what close(2) returned.
  int close(int fd);
  // Ends every connection. The descriptors stay open: closing them is libcurl's business.
  void shutdown_all();
  [[nodiscard]] std::size_t count() const { return cookies_.size(); }

 private:
  // By descriptor, the kernel's own number of the socket: a descriptor that was closed behind our
  // back and now means something else must not be shut down.
  std::map<int, std::uint64_t> cookies_;
};

}  // namespace moonfence::os
