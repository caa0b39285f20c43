#include "sim/world/world.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/sha256.h"
#include "port/seeded_random.h"
#include "sim/checkers/judge.h"
#include "sim/net/chance.h"
#include "sim/net/time_line.h"
#include "sim/net/wire.h"
#include "sim/truth/settling.h"
#include "sim/truth/truth.h"
#include "sim/world/host.h"

namespace moonfence::sim {
namespace {

// A world whose time stands still for so many rounds is stuck; what spins was told before.
constexpr int kMostRounds = 100'000;

class ClusterPoller final : public loop::Poller {
 public:
  explicit ClusterPoller(const TimeLine& time) : time_(time) {}
  [[nodiscard]] Moment now() override { return time_.now; }
  void wait(std::optional<Duration> /*limit*/) override {}
  void perform() override {}

 private:
  const TimeLine& time_;
};

Faults calmed(const Faults& faults) {
  Faults calm;
  calm.piece_limit = faults.piece_limit;
  calm.informer_lag = faults.informer_lag;
  return calm;
}

}  // namespace

// Built from top to bottom, destroyed in reverse.
struct World::State {
  State(Plan plan_given, std::uint64_t seed, ReplicaFactory factory, Story& story_given)
      : plan(std::move(plan_given)),
        make_replica(std::move(factory)),
        story(story_given),
        random(seed),
        poller(time),
        loop(poller),
        cluster_random(random.fork("cluster")),
        cluster(
            loop, *cluster_random, [this] { return true_wall_time(time) + server_clock; }, plan,
            story),
        truth(time, cluster.store(), cluster.machines()),
        judge(plan, truth, time, story),
        wire_random(random.fork("wire")),
        wire(loop, time, *wire_random, plan.faults,
             {.count = cluster.servers(),
              .at = [this](std::size_t index) -> ApiServer& { return cluster.server(index); }},
             judge),
        host_random(random.fork("hosts")) {
    learn();
    for (int i = 0; i < plan.engines; ++i) {
      add_host(i);
    }
    cluster.on_machine_change([this] {
      for (const auto& host : hosts) {
        host->look_at_links();
      }
    });
    timers.reserve(plan.steps.size() * 2);
    for (const Step& step : plan.steps) {
      timers.push_back(loop.after(step.at, [this, &step] { perform(step); }));
    }
  }

  // What was there before we listened.
  void learn() {
    const auto meet = [this](const std::string& resource) {
      for (const Object& object : cluster.store().list(resource)) {
        const Json& metadata = object->at("metadata");
        truth.on_change({.type = ChangeType::Added,
                         .key = {.resource = resource,
                                 .space = metadata.value("namespace", ""),
                                 .name = metadata.at("name").get<std::string>()},
                         .before = nullptr,
                         .after = object,
                         .version = cluster.store().version(),
                         .actor = "before"});
      }
    };
    meet("nodes");
    meet("leases");
    meet("pods");
    meet("configmaps");
    cluster.store().listen([this](const Change& change) {
      truth.on_change(change);
      judge.on_change(change);
    });
  }

  void add_host(int index) {
    const Duration skew = within(*host_random, plan.faults.skew);
    const bool ahead = (host_random->next() & 1U) != 0;
    const bool balanced = plan.servers > 1 && (host_random->next() & 1U) != 0;
    const int server = plan.servers > 1 ? index % plan.servers : 0;
    hosts.push_back(std::make_unique<Host>(
        Host::Surroundings{
            .time = time,
            .loop = loop,
            .wire = wire,
            .machines = cluster.machines(),
            .random = *host_random,
            .make_replica = make_replica,
            .story = story,
            .on_audit = [this](const Life& life, std::string_view line) { audit(life, line); },
            .on_started = [this](const Life& life) { judge.on_started(life); },
            .on_died = [this](const Life& life, bool told) { judge.on_died(life, told); },
            .ask_peer = [this](const auto& address,
                               const auto& path) { return ask_peer(address, path); },
            .bmcs = cluster.bmcs(),
            .on_ordered = [this](const Life& life,
                                 const BmcPlan& bmc) { judge.on_ordered(life, bmc); }},
        "moonfence-" + std::to_string(index),
        balanced ? "http://api.sim" : "http://api-" + std::to_string(server) + ".sim",
        static_cast<std::size_t>(index) < plan.seats.size()
            ? plan.seats[static_cast<std::size_t>(index)]
            : "",
        peer_address(index), ahead ? skew : -skew));
  }

  [[nodiscard]] std::optional<std::string> ask_peer(const std::string& address,
                                                    const std::string& path) const {
    for (const auto& host : hosts) {
      if (host->address() == address) {
        return host->answer(path);
      }
    }
    return std::nullopt;
  }

  void audit(const Life& life, std::string_view line) {
    lines.emplace_back(line);
    hash.add(life.replica + " " + lines.back() + "\n");
    judge.on_audit(life, line);
  }

  [[nodiscard]] Host* find_host(const std::string& name) {
    const auto found = std::find_if(hosts.begin(), hosts.end(),
                                    [&name](const auto& host) { return host->name() == name; });
    return found == hosts.end() ? nullptr : found->get();
  }

  // Inside a turn of the cluster's loop.
  void perform(const Step& step) {
    if (step.verb == Verb::SlowServers) {
      wire.slow_calls().add(step.target, duration_argument(step, "by"),
                            time.now + duration_argument(step, "for"));
    } else if (step.verb == Verb::StepServerClock) {
      server_clock += duration_argument(step, "by");
    } else if (step.verb == Verb::Calm) {
      calm();
      (void)cluster.perform(step);
    } else if (step.verb == Verb::CutLink) {
      cut_link(step);
    } else if (!perform_on_engine(step)) {
      (void)cluster.perform(step);
    }
    disturbed = std::max(disturbed, time.now + duration_argument(step, "for"));
  }

  bool perform_on_engine(const Step& step) {
    Host* host = find_host(step.target);
    if (host == nullptr) {
      return false;
    }
    const Duration length = duration_argument(step, "for");
    if (step.verb == Verb::CrashEngine) {
      const auto inside = step.arguments.find("inside");
      if (inside == step.arguments.end()) {
        host->crash(length);
      } else {
        host->crash_inside_turn(std::stoi(inside->second), length);
      }
    } else if (step.verb == Verb::StopEngine) {
      host->stop(length);
    } else if (step.verb == Verb::PauseEngine) {
      host->pause(length);
    } else if (step.verb == Verb::PartitionEngine) {
      cut_off(*host, length);
    } else if (step.verb == Verb::StepClock) {
      host->step_clock(duration_argument(step, "by"));
    } else {
      return false;
    }
    return true;
  }

  void cut_off(Host& host, Duration length) {
    host.set_partitioned(true);
    judge.on_partitioned(host.name(), true);
    timers.push_back(loop.after(length, [this, &host] { reconnect(host); }));
  }

  // Until it is over, or all is calm.
  void cut_link(const Step& step) {
    const auto from = step.arguments.find("from");
    const std::string replica = from == step.arguments.end() ? "" : from->second;
    set_link_cut(replica, step.target, true);
    timers.push_back(
        loop.after(duration_argument(step, "for"),
                   [this, replica, node = step.target] { set_link_cut(replica, node, false); }));
    cut_links.emplace_back(replica, step.target);
  }

  void set_link_cut(const std::string& replica, const std::string& node, bool cut) {
    wire.set_link_cut(replica, node, cut);
    judge.on_link_cut(replica, node, cut);
    if (Host* host = find_host(replica)) {
      host->look_at_links();
    }
  }

  void reconnect(Host& host) {
    if (wire.partitioned(host.name())) {
      host.set_partitioned(false);
      judge.on_partitioned(host.name(), false);
    }
  }

  void calm() {
    for (const auto& host : hosts) {
      reconnect(*host);
    }
    for (const auto& [replica, node] : cut_links) {
      set_link_cut(replica, node, false);
    }
    wire.set_faults(calmed(plan.faults));
    wire.slow_calls().clear();
    calmed_down = true;
  }

  [[nodiscard]] std::optional<Moment> next_due() const {
    std::optional<Moment> due = loop.next_due();
    for (const auto& host : hosts) {
      const auto theirs = host->next_due();
      due = due && theirs ? std::min(*due, *theirs) : (due ? due : theirs);
    }
    return due;
  }

  bool step() {
    const Moment end = Moment(plan.length);
    const auto due = next_due();
    if (!due || *due > end || rounds > kMostRounds) {
      finish();
      return false;
    }
    rounds = *due > time.now ? 0 : rounds + 1;
    time.now = std::max(time.now, *due);
    if (const auto next = loop.next_due(); next && *next <= time.now) {
      loop.turn();
      judge.after_cluster_turn();
    }
    for (const auto& host : hosts) {
      const auto next = host->next_due();
      if (next && *next <= time.now) {
        turn(*host);
      }
    }
    return true;
  }

  void turn(Host& host) {
    const bool was_paused = host.is_paused();
    if (was_paused) {
      judge.on_paused(host.life(), false);
    }
    host.turn();
    ++turns;
    if (host.is_running()) {
      judge.after_turn(host.standing());
    }
  }

  void finish() {
    if (std::exchange(finished, true)) {
      return;
    }
    time.now = std::max(time.now, Moment(plan.length));
    const bool is_quiet = calmed_down || is_calm(plan.faults);
    judge.at_end(is_quiet ? time.now - disturbed : Duration::zero());
  }

  const Plan plan;
  const ReplicaFactory make_replica;
  Story& story;
  port::SeededRandom random;
  TimeLine time;
  Duration server_clock{};  // how far the control plane's clocks are off
  ClusterPoller poller;
  loop::Loop loop;
  std::unique_ptr<port::Random> cluster_random;
  Cluster cluster;
  Truth truth;
  Judge judge;
  std::unique_ptr<port::Random> wire_random;
  Wire wire;
  std::unique_ptr<port::Random> host_random;
  std::vector<std::string> lines;
  Sha256Stream hash;
  std::vector<std::unique_ptr<Host>> hosts;
  std::vector<loop::Timer> timers;
  std::vector<std::pair<std::string, std::string>> cut_links;  // that were cut; replicas and nodes
  Moment disturbed{};                                          // the end of the last disturbance
  bool calmed_down = false;
  bool finished = false;
  int rounds = 0;  // at this moment
  std::uint64_t turns = 0;
};

World::World(Plan plan, std::uint64_t seed, ReplicaFactory make_replica, Story& story)
    : state_(std::make_unique<State>(std::move(plan), seed, std::move(make_replica), story)) {}

World::~World() = default;

Outcome World::run(bool stop_at_violation) {
  while (step()) {
    if (stop_at_violation && !state_->judge.violations().empty()) {
      break;
    }
  }
  return outcome();
}

bool World::step() {
  return state_->step();
}

void World::perform(const Step& step) {
  State& state = *state_;
  state.timers.push_back(
      state.loop.after(state.time.now - state.loop.now(), [&state, step] { state.perform(step); }));
}

Duration World::elapsed() const {
  return state_->time.now.time_since_epoch();
}

Cluster& World::cluster() {
  return state_->cluster;
}

const std::vector<std::string>& World::audit_lines() const {
  return state_->lines;
}

Outcome World::outcome() const {
  const Judge& judge = state_->judge;
  return {.audit_hash = state_->hash.hex(),
          .violations = judge.violations(),
          .accepted_double_writers = judge.accepted_double_writers(),
          .overlaps = judge.overlaps(),
          .isolated = judge.isolated(),
          .incidents_opened = judge.opened(),
          .incidents_closed = judge.closed(),
          .deletions = judge.deletions(),
          .turns = state_->turns,
          .lived = elapsed()};
}

}  // namespace moonfence::sim
