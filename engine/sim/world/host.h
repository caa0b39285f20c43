#pragma once

// Host is a replica's container: it starts the engine's process, gives it turns, pauses it, kills
// it at any instant and starts it again. What the process had outside itself stays: its audit, its
// clock's error. Everything inside is new with each life.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "loop/loop.h"
#include "port/random.h"
#include "sim/ground/machines.h"
#include "sim/ground/story.h"
#include "sim/net/peer_http.h"
#include "sim/net/sim_http.h"
#include "sim/net/surroundings.h"
#include "sim/net/wire.h"
#include "sim/truth/checker.h"
#include "sim/world/bmcs.h"
#include "sim/world/replica.h"

namespace moonfence::sim {

class Host {
 public:
  struct Surroundings {
    const TimeLine& time;
    loop::Loop& loop;  // the cluster's
    Wire& wire;
    const Machines& machines;
    port::Random& random;  // forked for each life
    const ReplicaFactory& make_replica;
    const Story& story;
    // One line of audit; false when it cannot be written.
    std::function<void(const Life& life, std::string_view line)> on_audit;
    std::function<void(const Life& life)> on_started;
    std::function<void(const Life& life, bool told)> on_died;
    PeerHttp::Ask ask_peer;
    Bmcs& bmcs;
    // It orders that the machine behind that BMC is switched off.
    std::function<void(const Life& life, const BmcPlan& bmc)> on_ordered;
  };

  // `node`: on which it is told to sit; "" nobody tells it.
  Host(Surroundings around, std::string name, std::string server, std::string node,
       std::string address, Duration clock_offset);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  void start();
  // When this host has something to do; nullopt: never.
  [[nodiscard]] std::optional<Moment> next_due() const;
  // One turn, if it is due.
  void turn();

  // SIGKILL, `away` before it starts again. In the middle of the next turn that has effects (a
  // request that starts, a record): all effects of that turn from the n-th on never happen.
  void crash(Duration away);
  void crash_inside_turn(int effect, Duration away);
  void stop(Duration away);  // SIGTERM
  void pause(Duration length);
  void step_clock(Duration by) { clock_offset_ += by; }

  [[nodiscard]] bool is_running() const { return process_ != nullptr; }
  [[nodiscard]] bool is_paused() const { return paused_until_.has_value(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] Life life() const { return {.replica = name_, .incarnation = incarnation_}; }
  [[nodiscard]] std::uint64_t turns() const { return turns_; }
  [[nodiscard]] Standing standing() const;
  // What its process answers to another replica, if packets reach it and it runs.
  [[nodiscard]] std::optional<std::string> answer(std::string_view path) const;
  // Something happened to a machine.
  void look_at_links();
  // Its network is gone, or there again.
  void set_partitioned(bool partitioned);

 private:
  struct Process;
  [[nodiscard]] bool spend_effect();
  void end_if_over();
  void die(bool told, Duration away);
  void tell(std::string_view what) const;

  Surroundings around_;
  const std::string name_;
  const std::string server_;
  const std::string node_;
  const std::string address_;
  Duration clock_offset_;
  int incarnation_ = 0;
  std::uint64_t turns_ = 0;
  std::unique_ptr<Process> process_;
  std::optional<Moment> starts_at_;
  std::optional<Moment> paused_until_;
  std::optional<int> effects_left_;  // of a crash inside a turn
  bool cut_ = false;                 // the process is dead and its turn not over
  Duration away_{};
  std::optional<Duration> left_;  // it has left by itself; how long it stays away
};

}  // namespace moonfence::sim
