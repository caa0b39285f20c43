#pragma once

// TlsFront stands before an HTTP server that speaks no TLS: it accepts connections, does the
// handshake, and hands over one end of a socket pair, through which the server gets what the client
// sends, decrypted, and sends what is encrypted for it. It understands nothing of HTTP.
//
// One thread of its own serves all connections and never blocks on one of them: each has a buffer
// of 16 KiB in each direction, and a client that reads slowly is not read from either. Clients are
// hostile: a handshake that is not done in time, a connection that stands still, a request that
// never ends, and what is no TLS are ended; new ones are taken at a bounded pace, since a handshake
// is what costs most. Whoever speaks HTTP to it is told to speak HTTPS.

#include <chrono>
#include <functional>
#include <memory>

#include "base/result.h"
#include "base/time.h"
#include "os/net/tls_identity.h"
#include "os/system/descriptor.h"

namespace moonfence::os {

class TlsFront final {
 public:
  struct Limits {
    std::size_t connections = 64;                   // more wait in the kernel's queue
    Duration handshake = std::chrono::seconds(10);  // idle_when_full while all are taken
    Duration idle = std::chrono::seconds(45);       // longer than the server's own limit
    Duration idle_when_full = std::chrono::seconds(5);
    // From the first byte of a request to the first one of its answer: longer than the server
    // takes.
    Duration answer = std::chrono::seconds(20);
    int burst = 64;  // new connections, then one every `pace`
    Duration pace = std::chrono::milliseconds(20);
  };
  // Takes a connected stream socket, which is its own from now on, whatever it answers; false: the
  // server does not want it. Called on the front's thread.
  using HandOver = std::function<bool(Descriptor socket)>;

  // `listener` listens and does not block. Limit when the thread cannot be started.
  [[nodiscard]] static Result<std::unique_ptr<TlsFront>> start(
      Descriptor listener, std::shared_ptr<const TlsIdentity> identity, HandOver hand_over,
      Limits limits);
  // Ends every connection, and its thread.
  ~TlsFront();
  TlsFront(const TlsFront&) = delete;
  TlsFront& operator=(const TlsFront&) = delete;

  // For every connection from now on; those that are open live on. From any thread.
  void use(std::shared_ptr<const TlsIdentity> identity);

 private:
  class Thread;
  explicit TlsFront(std::unique_ptr<Thread> thread);

  std::unique_ptr<Thread> thread_;
};

}  // namespace moonfence::os
