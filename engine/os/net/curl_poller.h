#pragma once

// How the production loop waits: one curl multi handle holds every connection, and the descriptors
// of signals and child processes wait beside them in one epoll(7). libcurl is run for what is ready
// and due, and not, as curl_multi_perform() does it, for each connection in each turn: a hundred
// deletions under way would be a hundred system calls to find the one that was answered. Owns the
// multi handle and the record of its sockets; must outlive the CurlHttp that drives it. now() is
// CLOCK_BOOTTIME: time passes while the machine is suspended, so a lease is not fresh after a long
// sleep.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "loop/loop.h"
#include "os/net/open_sockets.h"
#include "os/system/descriptor.h"
#include "os/system/descriptors.h"

namespace moonfence::os {

class CurlPoller final : public loop::Poller, public Descriptors {
 public:
  // The HTTP client's part of a turn.
  class Client {
   public:
    virtual ~Client() = default;
    // Puts what was started and waited for its turn on the wire; returns how long the wait may last
    // at most (zero: something waits to be delivered, nullopt: no limit).
    virtual std::optional<Duration> before_wait() = 0;
    // Moves bytes and hands what arrived to the sinks.
    virtual void deliver() = 0;
  };

  CurlPoller();
  CurlPoller(const CurlPoller&) = delete;
  CurlPoller& operator=(const CurlPoller&) = delete;
  ~CurlPoller() override;

  [[nodiscard]] Moment now() override;
  void wait(std::optional<Duration> limit) override;
  void perform() override;

  using Descriptors::watch;
  void watch(int fd, std::function<void()> ready, Wait wait) override;
  void forget(int fd) override;

  // At most one client; null takes it away.
  void attach(Client* client) { client_ = client; }
  // The CURLM. No curl header leaves this folder's sources.
  [[nodiscard]] void* multi() const { return multi_; }
  // Runs libcurl for the sockets that were ready, and for what is due.
  void drive();
  // For what is due alone: a transfer that was just added is.
  void drive_due();
  // For every transfer.
  void drive_all();
  [[nodiscard]] OpenSockets& sockets() { return sockets_; }

 private:
  struct Watched {
    std::uint32_t serial = 0;
    std::function<void()> ready;
  };
  struct Ready {
    int fd = -1;
    std::uint32_t serial = 0;
  };
  struct ReadySocket {
    int fd = -1;
    int how = 0;  // CURL_CSELECT_*
  };
  struct FromCurl;  // what libcurl calls

  Descriptor epoll_;     // before multi_: libcurl takes its sockets out of it as it closes them
  OpenSockets sockets_;  // likewise: closing connections records in it
  void* multi_ = nullptr;
  std::optional<Moment> due_;  // when libcurl wants to be run without any input
  Client* client_ = nullptr;
  std::map<int, Watched> watched_;
  std::uint32_t next_serial_ = 1;
  std::vector<Ready> ready_;
  std::vector<ReadySocket> ready_sockets_;
};

}  // namespace moonfence::os
