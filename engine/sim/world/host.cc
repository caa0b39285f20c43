#include "sim/world/host.h"

#include <algorithm>
#include <utility>

#include "sim/net/chance.h"
#include "sim/net/sim_http.h"
#include "sim/net/sim_links.h"

namespace moonfence::sim {
namespace {

// What a look at the CPU clock costs: a policy looks often, so its limit is within reach.
constexpr Duration kCpuCharge = std::chrono::microseconds(20);

// Waiting is the World's business: whoever is given a turn has waited long enough.
class SimPoller final : public loop::Poller {
 public:
  SimPoller(const TimeLine& time, const std::unique_ptr<SimHttp>& http,
            const std::unique_ptr<SimLinks>& links)
      : time_(time), http_(http), links_(links) {}
  [[nodiscard]] Moment now() override { return time_.now; }
  void wait(std::optional<Duration> /*limit*/) override {}
  void perform() override {
    http_->perform();
    links_->perform();
  }

 private:
  const TimeLine& time_;
  const std::unique_ptr<SimHttp>& http_;
  const std::unique_ptr<SimLinks>& links_;
};

std::optional<Moment> earlier(std::optional<Moment> one, std::optional<Moment> other) {
  return one && other ? std::min(*one, *other) : one ? one : other;
}

}  // namespace

// One life. Built from top to bottom, destroyed in reverse.
struct Host::Process {
  explicit Process(Host& host)
      : poller(host.around_.time, http, links),
        loop(poller),
        processes(loop),
        wall_clock(host.around_.time, host.clock_offset_),
        cpu_clock(kCpuCharge),
        log(host.around_.time, host.around_.story, host.name_),
        random(host.around_.random.fork(host.name_ + "#" + std::to_string(host.incarnation_))) {
    const auto may_leave = [&host] { return host.spend_effect(); };
    http = std::make_unique<SimHttp>(host.around_.wire, host.name_, host.incarnation_, may_leave);
    links = std::make_unique<SimLinks>(SimLinks::Surroundings{.loop = host.around_.loop,
                                                              .wire = host.around_.wire,
                                                              .machines = host.around_.machines},
                                       host.name_, random->fork("links"), may_leave);
    peers = std::make_unique<PeerHttp>(PeerHttp::Surroundings{.others = *http,
                                                              .cluster = host.around_.loop,
                                                              .own = loop,
                                                              .wire = host.around_.wire,
                                                              .ask = host.around_.ask_peer},
                                       host.name_, random->fork("peers"), may_leave);
    network = std::make_unique<BmcHttp>(
        BmcHttp::Surroundings{
            .others = *peers,
            .own = loop,
            .wire = host.around_.wire,
            .send =
                [&host](Duration way, BmcQuestion question, BmcHttp::Heard heard) {
                  // The cluster's loop may have had its last turn a while ago.
                  const Duration behind = host.around_.time.now - host.around_.loop.now();
                  host.around_.bmcs.send(way + behind, std::move(question), std::move(heard));
                },
            .on_ordered =
                [&host](const std::string& bmc) {
                  if (const BmcPlan* plan = host.around_.bmcs.find(bmc)) {
                    host.around_.on_ordered(host.life(), *plan);
                  }
                }},
        random->fork("bmcs"), may_leave);
  }

  std::unique_ptr<SimHttp> http;
  std::unique_ptr<SimLinks> links;
  SimPoller poller;
  loop::Loop loop;
  NoFiles files;
  NoProcesses processes;
  SimWallClock wall_clock;
  SimCpuClock cpu_clock;
  StoryLog log;
  std::unique_ptr<port::Random> random;
  std::unique_ptr<PeerHttp> peers;
  std::unique_ptr<BmcHttp> network;
  std::unique_ptr<Replica> replica;
};

Host::Host(Surroundings around, std::string name, std::string server, std::string node,
           std::string address, Duration clock_offset)
    : around_(std::move(around)),
      name_(std::move(name)),
      server_(std::move(server)),
      node_(std::move(node)),
      address_(std::move(address)),
      clock_offset_(clock_offset),
      starts_at_(around_.time.now) {}

Host::~Host() = default;

void Host::tell(std::string_view what) const {
  if (around_.story.heard()) {
    around_.story.tell({.at = around_.time.now.time_since_epoch(),
                        .kind = Happening::Kind::Engine,
                        .subject = name_,
                        .what = std::string(what),
                        .detail = {}});
  }
}

void Host::start() {
  starts_at_.reset();
  ++incarnation_;
  cut_ = false;
  effects_left_.reset();
  left_.reset();
  process_ = std::make_unique<Process>(*this);
  Process& process = *process_;
  around_.on_started(life());
  process.replica = around_.make_replica({.loop = process.loop,
                                          .http = *process.network,
                                          .links = *process.links,
                                          .files = process.files,
                                          .processes = process.processes,
                                          .wall_clock = process.wall_clock,
                                          .cpu_clock = process.cpu_clock,
                                          .random = *process.random,
                                          .log = process.log,
                                          .append_audit =
                                              [this](std::string_view line) {
                                                if (spend_effect()) {
                                                  around_.on_audit(life(), line);
                                                }
                                                return Result<void>();
                                              },
                                          .name = name_,
                                          .server = server_,
                                          .node = node_,
                                          .address = address_});
  tell("started");
  process.replica->start();
  process.http->flush();
}

std::optional<Moment> Host::next_due() const {
  if (process_ == nullptr) {
    return starts_at_;
  }
  if (paused_until_) {
    return paused_until_;
  }
  return earlier(process_->loop.next_due(),
                 earlier(process_->http->next_due(), process_->links->next_due()));
}

void Host::turn() {
  if (process_ == nullptr) {
    start();
    return;
  }
  if (paused_until_) {
    paused_until_.reset();
    tell("goes on");
  }
  ++turns_;
  process_->loop.turn();
  process_->http->flush();
  end_if_over();
}

// What it does when it is asked to leave may be what it does not live to end.
void Host::end_if_over() {
  if (cut_) {
    die(false, away_);
  } else if (left_) {
    die(true, *left_);
  }
}

bool Host::spend_effect() {
  if (cut_) {
    return false;
  }
  if (effects_left_ && --*effects_left_ < 0) {
    cut_ = true;
    return false;
  }
  return true;
}

void Host::crash(Duration away) {
  if (process_ != nullptr) {
    die(false, away);
  }
}

void Host::crash_inside_turn(int effect, Duration away) {
  if (process_ != nullptr) {
    effects_left_ = effect;
    away_ = away;
  }
}

void Host::stop(Duration away) {
  if (process_ == nullptr) {
    return;
  }
  tell("is asked to leave");
  // A process that is stopped hears of the signal when it goes on; a test of both at once gets the
  // order in which they came.
  process_->replica->drain([this, away] { left_ = away; });
  process_->http->flush();
  end_if_over();
}

void Host::pause(Duration length) {
  if (process_ != nullptr) {
    paused_until_ = around_.time.now + length;
    tell("is stopped for " + format_duration(length));
  }
}

void Host::die(bool told, Duration away) {
  tell(told ? "has left" : "crashed");
  cut_ = true;  // nothing that its destructors start may leave
  process_.reset();
  paused_until_.reset();
  effects_left_.reset();
  left_.reset();
  starts_at_ = around_.time.now + away;
  around_.on_died(life(), told);
}

Standing Host::standing() const {
  if (process_ == nullptr) {
    return {.life = life()};
  }
  const SimHttp& http = *process_->http;
  return {.life = life(),
          .turns = turns_,
          .timers = process_->loop.timers(),
          .writes = http.running(port::Lane::Writes),
          .lists = http.running(port::Lane::Bulk),
          .watches = http.running(port::Lane::Watches),
          .exchanges = http.open()};
}

std::optional<std::string> Host::answer(std::string_view path) const {
  if (process_ == nullptr || paused_until_ || cut_ || around_.wire.partitioned(name_)) {
    return std::nullopt;
  }
  return process_->replica->answer(path, around_.time.now);
}

void Host::look_at_links() {
  if (process_ != nullptr) {
    process_->links->look();
  }
}

void Host::set_partitioned(bool partitioned) {
  around_.wire.set_partitioned(name_, partitioned);
  if (process_ != nullptr) {
    if (!partitioned) {
      process_->http->reconnect();
    }
    process_->links->look();
  }
}

}  // namespace moonfence::sim
