#pragma once

// SimLinks is port::Links as a replica in the simulation sees it. What kernels do with a connection
// happens on the cluster's loop, also while the replica is stopped; what reaches the replica waits
// until it takes a turn. A connection that is well costs nothing: its machines are looked at again
// only when something happens to one of them, or to the way between.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "loop/loop.h"
#include "port/links.h"
#include "port/random.h"
#include "sim/ground/machines.h"
#include "sim/net/wire.h"

namespace moonfence::sim {

class SimLinks final : public port::Links {
 public:
  struct Surroundings {
    loop::Loop& loop;  // the cluster's
    const Wire& wire;  // whose latency and partitions are ours too
    const Machines& machines;
  };

  // Draws from `random` alone, and only for links. `may_leave` is asked before every effect of the
  // process: false once it has crashed in the middle of a turn. All references must outlive it;
  // links must not.
  SimLinks(const Surroundings& around, std::string replica, std::unique_ptr<port::Random> random,
           std::function<bool()> may_leave);
  ~SimLinks() override;
  SimLinks(const SimLinks&) = delete;
  SimLinks& operator=(const SimLinks&) = delete;

  // What is not there is silent: no machine of that address, no power, no connection to it.
  [[nodiscard]] std::unique_ptr<port::Link> open(const port::Peer& peer, Duration limit,
                                                 port::LinkSink& sink) override;

  // Something happened to a machine, or a partition of this replica began or ended.
  void look();
  // When something is to be delivered; nullopt: nothing is on its way.
  [[nodiscard]] std::optional<Moment> next_due() const;
  // Delivers it. A limit that has passed counts only after what has arrived.
  void perform();

  [[nodiscard]] std::size_t count() const { return connections_.size(); }

 private:
  struct Connection;
  class Handle;
  using Id = std::uint64_t;
  // Something that has reached the replica: the connection is open, or at its end.
  struct Arrival {
    Moment at{};
    Id id = 0;
    std::optional<port::LinkEnd> end;
  };

  [[nodiscard]] Connection* find(Id id);
  void cancel(Id id);
  [[nodiscard]] Duration draw_latency();
  // A packet and its answer have both come through.
  [[nodiscard]] bool draws_answer(const Machine& machine);
  // How many are lost, each way.
  [[nodiscard]] double lost_packet(const Machine& machine) const;
  [[nodiscard]] loop::Timer in(Duration delay, std::function<void()> action);
  [[nodiscard]] const Machine* machine_of(const std::string& address) const;
  [[nodiscard]] bool is_cut_off(const Machine& machine) const {
    return around_.wire.partitioned(replica_) || around_.wire.is_link_cut(replica_, machine.name);
  }
  void ask(Id id);
  void look_at(Id id, Connection& connection);
  // While packets are lost our kernel's questions over a link that is open are of interest: one a
  // second.
  void keep_alive(Id id, Connection& connection);
  void close(Id id, port::LinkEnd end);
  void arrive(Id id, std::optional<port::LinkEnd> end);
  void end(Id id, port::LinkEnd how);
  void expire();

  Surroundings around_;
  const std::string replica_;
  std::unique_ptr<port::Random> random_;
  std::function<bool()> may_leave_;
  std::map<Id, std::unique_ptr<Connection>> connections_;
  std::deque<Arrival> arrivals_;
  Id next_id_ = 1;
};

}  // namespace moonfence::sim
