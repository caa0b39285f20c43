#pragma once

// PeerHttp is port::Http as a replica in the simulation sees it, with the other replicas on it:
// what goes to the address of one is answered by that replica, everything else as before. An answer
// is made when the question has arrived, and taken when the asking replica has its next turn: it
// may be old by then.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "loop/loop.h"
#include "port/http.h"
#include "port/random.h"
#include "sim/net/wire.h"

namespace moonfence::sim {

// "10.255.0.1:8081": of the replica with that index.
[[nodiscard]] std::string peer_address(int index);

class PeerHttp final : public port::Http {
 public:
  // What the replica of that address answers to a path with its query; nullopt: nobody does.
  using Ask = std::function<std::optional<std::string>(const std::string& address,
                                                       const std::string& path)>;
  struct Surroundings {
    port::Http& others;
    loop::Loop& cluster;  // on which packets travel
    loop::Loop& own;
    const Wire& wire;  // whose latency, losses and partitions are ours too
    Ask ask;
  };

  // Draws from `random` alone. `may_leave` is asked before every effect of the process. Transfers
  // must not outlive it.
  PeerHttp(Surroundings around, std::string replica, std::unique_ptr<port::Random> random,
           std::function<bool()> may_leave);

  [[nodiscard]] std::unique_ptr<port::Transfer> start(port::HttpRequest request,
                                                      port::HttpSink& sink) override;
  void use_tls(port::TlsSettings settings) override { around_.others.use_tls(std::move(settings)); }
  void drop_connections() override { around_.others.drop_connections(); }

 private:
  class Exchange;
  [[nodiscard]] Duration draw_latency();
  [[nodiscard]] bool is_lost();

  Surroundings around_;
  const std::string replica_;
  std::unique_ptr<port::Random> random_;
  std::function<bool()> may_leave_;
};

}  // namespace moonfence::sim
