#pragma once

// BmcHttp is port::Http as a replica in the simulation sees it, with the machines' management
// controllers on it: what goes to bmc-NODE.bmc.sim is answered by the BMC of that name, everything
// else as before. They have a network of their own, which loses nothing and reaches also a replica
// that the cluster does not reach. What has left arrives, whatever became of its sender.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "loop/loop.h"
#include "port/http.h"
#include "port/random.h"
#include "sim/net/wire.h"

namespace moonfence::sim {

// "http://bmc-n1.bmc.sim": of the endpoint bmc-n1.
[[nodiscard]] std::string bmc_url(std::string_view endpoint);

struct BmcQuestion {
  std::string bmc;  // "bmc-n1"
  port::Method method = port::Method::Get;
  std::string path;
  std::string body;
};

struct BmcAnswer {
  int status = 0;  // 0: the connection is refused
  std::string body = {};
  Duration takes{};  // until it leaves the BMC
};

class BmcHttp final : public port::Http {
 public:
  using Heard = std::function<void(const BmcAnswer&)>;
  struct Surroundings {
    port::Http& others;
    loop::Loop& own;
    const Wire& wire;  // whose latency is ours too
    // Takes the question there, `way` from now.
    std::function<void(Duration way, BmcQuestion question, Heard heard)> send;
    // An order is leaving.
    std::function<void(const std::string& bmc)> on_ordered;
  };

  // Draws from `random` alone. `may_leave` is asked before every effect of the process. Transfers
  // must not outlive it.
  BmcHttp(Surroundings around, std::unique_ptr<port::Random> random,
          std::function<bool()> may_leave);

  [[nodiscard]] std::unique_ptr<port::Transfer> start(port::HttpRequest request,
                                                      port::HttpSink& sink) override;
  void use_tls(port::TlsSettings settings) override { around_.others.use_tls(std::move(settings)); }
  void drop_connections() override { around_.others.drop_connections(); }

 private:
  class Exchange;

  Surroundings around_;
  std::unique_ptr<port::Random> random_;
  std::function<bool()> may_leave_;
};

}  // namespace moonfence::sim
