#include "app/fencer_check/fencer_asking.h"

#include <memory>
#include <utility>

#include "app/settings/version.h"
#include "cluster/nodes/ready_condition.h"
#include "kube/auth/live_credentials.h"
#include "kube/calls/reader.h"
#include "kube/wire/caller.h"
#include "loop/loop.h"
#include "os/net/curl_http.h"
#include "os/net/curl_poller.h"
#include "os/system/clocks.h"
#include "os/system/processes.h"
#include "os/system/system_files.h"

namespace moonfence::app {
namespace {

// A dead BMC takes up one place for its time-out.
constexpr std::size_t kAtOnce = 16;

class Silence final : public port::Log {
 public:
  void write(Level /*level*/, std::string_view /*event*/,
             const std::vector<port::LogField>& /*fields*/) override {}
};

class Round {
 public:
  Round(const FencerAsking& asking, const std::vector<kube::Node>& nodes)
      : asking_(asking),
        nodes_(nodes),
        loop_(poller_),
        http_(poller_),
        processes_(loop_, poller_),
        credentials_({loop_, http_, files_, processes_, wall_clock_, log_},
                     asking.config.connection),
        caller_(loop_, http_, credentials_, log_, asking.config.connection.server, user_agent()),
        reader_(caller_),
        endpoints_({loop_, http_, files_, log_, user_agent()}, asking.endpoints),
        questions_(nodes.size()) {}

  std::vector<FencerReport::Node> play() {
    for (const kube::Node& node : nodes_) {
      told_.push_back({.name = node.name.text(),
                       .is_ready = cluster::readiness_of(node) == cluster::Readiness::True});
    }
    do {
      while (next_ < nodes_.size() && under_way_ < kAtOnce) {
        ask(next_++);
      }
      if (under_way_ > 0) {
        loop_.turn();
      }
    } while (next_ < nodes_.size() || under_way_ > 0);
    return std::move(told_);
  }

 private:
  void ask(std::size_t at) {
    auto whom = fence::fencers_of(nodes_[at], asking_.fencers);
    if (whom.empty()) {
      return;
    }
    ++under_way_;
    questions_[at] = std::make_shared<fence::PowerQuestion>(
        fence::PowerQuestion::Surroundings{.loop = loop_,
                                           .reader = reader_,
                                           .allowed_reads = asking_.allowed_reads,
                                           .endpoints = &endpoints_},
        nodes_[at], std::move(whom), fence::PowerQuestion::Until::All,
        [this, at](const fence::PowerQuestion& question) {
          told_[at].words = question.words();
          --under_way_;
          fence::PowerQuestion::leave(loop_, std::exchange(questions_[at], nullptr));
        });
  }

  // Built from top to bottom, destroyed in reverse: whatever is used stands above its users.
  const FencerAsking& asking_;
  const std::vector<kube::Node>& nodes_;
  std::vector<FencerReport::Node> told_;
  std::size_t next_ = 0;
  std::size_t under_way_ = 0;
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
  std::vector<std::shared_ptr<fence::PowerQuestion>> questions_;
};

}  // namespace

std::vector<FencerReport::Node> ask_fencers(const FencerAsking& asking,
                                            const std::vector<kube::Node>& nodes) {
  return Round(asking, nodes).play();
}

}  // namespace moonfence::app
