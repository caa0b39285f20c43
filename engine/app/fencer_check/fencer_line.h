#pragma once

// What asking fencers needs where a command runs: a loop of its own, the network, files with
// credentials. Whoever asks by it turns the loop.

#include <set>
#include <string>
#include <vector>

#include "app/settings/version.h"
#include "cluster/endpoints/endpoint.h"
#include "fence/fencers/power_question.h"
#include "kube/auth/config.h"
#include "kube/auth/live_credentials.h"
#include "kube/calls/reader.h"
#include "kube/wire/caller.h"
#include "loop/loop.h"
#include "os/net/curl_http.h"
#include "os/net/curl_poller.h"
#include "os/system/clocks.h"
#include "os/system/processes.h"
#include "os/system/system_files.h"
#include "port/log.h"

namespace moonfence::app {

struct FencerAsking {
  const kube::LoadedConfig& config;  // fencers may ask the API server, too
  const std::set<std::string>& allowed_reads;
  const cluster::EndpointTable& endpoints;
  const std::vector<fence::BoundFencer>& fencers;
};

class FencerLine {
 public:
  // What `asking` refers to must outlive it.
  explicit FencerLine(const FencerAsking& asking)
      : asking_(asking),
        loop_(poller_),
        http_(poller_),
        processes_(loop_, poller_),
        credentials_({loop_, http_, files_, processes_, wall_clock_, log_},
                     asking.config.connection),
        caller_(loop_, http_, credentials_, log_, asking.config.connection.server, user_agent()),
        reader_(caller_),
        endpoints_({loop_, http_, files_, log_, user_agent()}, asking.endpoints) {}
  FencerLine(const FencerLine&) = delete;
  FencerLine& operator=(const FencerLine&) = delete;
  ~FencerLine() = default;

  [[nodiscard]] loop::Loop& loop() { return loop_; }
  [[nodiscard]] fence::PowerQuestion::Surroundings around() {
    return {.loop = loop_,
            .reader = reader_,
            .allowed_reads = asking_.allowed_reads,
            .endpoints = &endpoints_};
  }

 private:
  class Silence final : public port::Log {
   public:
    void write(Level /*level*/, std::string_view /*event*/,
               const std::vector<port::LogField>& /*fields*/) override {}
  };

  // Built from top to bottom, destroyed in reverse: whatever is used stands above its users.
  const FencerAsking asking_;
  Silence log_;
  os::SystemWallClock wall_clock_;
  os::SystemFiles files_;
  os::CurlPoller poller_;
  loop::Loop loop_;
  os::CurlHttp http_;
  os::ChildProcesses processes_;
  kube::LiveCredentials credentials_;
  kube::Caller caller_;
  kube::Reader reader_;
  cluster::Endpoints endpoints_;
};

}  // namespace moonfence::app
