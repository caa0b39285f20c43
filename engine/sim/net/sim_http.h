#pragma once

// SimHttp is port::Http as a replica in the simulation sees it. It keeps os::CurlHttp's rules:
// lanes bound each other, may_send is asked when the bytes leave (also when a dead pooled
// connection makes the transport repeat a request), nothing is called inside start(), a deadline
// ends an exchange after what has arrived was looked at, drop_connections() fails whatever runs.

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loop/loop.h"
#include "port/http.h"
#include "sim/net/time_line.h"
#include "sim/net/wire.h"

namespace moonfence::sim {

class SimHttp final : public port::Http {
 public:
  static constexpr std::size_t kWrites = 192;
  static constexpr std::size_t kBulk = 4;
  static constexpr std::size_t kEndpoints = 16;
  static constexpr std::size_t kGuests = 4;

  // `may_leave` is asked before every effect of the process: false once it has crashed in the
  // middle of a turn. All references must outlive it; transfers must not.
  SimHttp(Wire& wire, std::string replica, int incarnation, std::function<bool()> may_leave);
  ~SimHttp() override;
  SimHttp(const SimHttp&) = delete;
  SimHttp& operator=(const SimHttp&) = delete;

  [[nodiscard]] std::unique_ptr<port::Transfer> start(port::HttpRequest request,
                                                      port::HttpSink& sink) override;
  void use_tls(port::TlsSettings /*settings*/) override {}
  void drop_connections() override;

  // At the end of a turn: what it started goes out.
  void flush();
  // When something is to be delivered; nullopt: nothing is on its way.
  [[nodiscard]] std::optional<Moment> next_due() const;
  // Delivers it.
  void perform();
  // After a partition: of the connections that lost bytes some go on and some are dead.
  void reconnect();

  [[nodiscard]] std::size_t running(port::Lane lane) const { return lane_of(lane).running; }
  [[nodiscard]] std::size_t queued(port::Lane lane) const { return lane_of(lane).queue.size(); }
  [[nodiscard]] std::size_t open() const { return exchanges_.size(); }

 private:
  struct Exchange;
  class Handle;
  struct Lane {
    std::size_t bound = 0;
    std::size_t running = 0;
    std::deque<std::uint64_t> queue;
  };
  using Id = std::uint64_t;

  [[nodiscard]] Exchange* find(Id id);
  [[nodiscard]] Lane& lane_of(port::Lane lane) { return lanes_[static_cast<std::size_t>(lane)]; }
  [[nodiscard]] const Lane& lane_of(port::Lane lane) const {
    return lanes_[static_cast<std::size_t>(lane)];
  }
  void cancel(Id id);
  void launch_queued();
  void launch(Exchange& exchange);
  void attempt(Exchange& exchange, bool pooled);
  void leave_lane(Exchange& exchange);
  void finish_locally(Exchange& exchange, Duration delay, Error error);
  void expire();
  void deliver(Id id);
  void take(Exchange& exchange, Arrival arrival);
  void hear(Exchange& exchange, std::string_view bytes);

  Wire& wire_;
  const std::string replica_;
  const int incarnation_;
  std::function<bool()> may_leave_;
  std::array<Lane, port::kLanes> lanes_;
  std::map<Id, std::unique_ptr<Exchange>> exchanges_;
  std::size_t pooled_ = 0;  // connections that wait to be used again
};

}  // namespace moonfence::sim
