// How often Detection is wrong about machines that live (docs/detection.md): disturbances that
// leave a machine alive, at stated rates, and what two observers make of each.
//
//   moonfence-false-alarms [--node-years N] [--rates X] [--seed S]
//
// The observers are cluster::Detection over the simulator's links; a cluster has 30 machines.
// Nothing happens to a machine in the quiet, so the quiet is left out: one disturbance follows the
// other, now and then two at once, as often as chance would have it. Two things are counted.
// *Noise*: a machine is called silent or lost although it was there to answer all the while.
// *Short silences*: nobody could hear it, and it came back with the same boot ID; by how long one
// waits before one acts, with and without its kubelet's Lease, and what Kubernetes would have said.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numbers>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/detection/detection.h"
#include "loop/loop.h"
#include "port/seeded_random.h"
#include "sim/net/chance.h"
#include "sim/net/sim_links.h"
#include "sim/net/wire.h"

namespace moonfence::sim {
namespace {

using cluster::Detection;
using cluster::Kernel;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kMachines = 30;
constexpr int kRack = 10;  // machines that one switch connects
constexpr double kYear = 365.25 * 86400;
constexpr Duration kLook = milliseconds(250);
constexpr Duration kRenewal = seconds(10);
constexpr Duration kOverdue = milliseconds(11'400);  // as fence/leases/peer_leases has it
constexpr Duration kGrace = seconds(50);             // --node-monitor-grace-period
constexpr std::array<int, 6> kAges = {4, 6, 8, 12, 20, 40};

enum class Trouble {
  Silent,   // neither observer hears it, nor the API server
  Rack,     // all machines of a switch
  OnePath,  // one observer does not hear it
  Loss20,   // packets are lost, each way
  Loss50,
  Starved,      // its kubelet is late, its kernel answers
  KubeletGone,  // and its kernel refuses
  Server,       // the API server or etcd stands still
  Observer,     // one of us stands still
};

struct Kind {
  std::string_view name;
  Trouble trouble;
  double rate;  // a year and machine; of Server and Observer a year
  double median;
  double sigma;  // of the logarithm
  double least;
};

constexpr std::array<Kind, 11> kKinds = {{
    {"link flap, failover of a bond", Trouble::Silent, 4, 1, 1, 0},
    {"a switch restarts", Trouble::Rack, 0.5, 60, 0.7, 0},
    {"cut off for more than 10 s", Trouble::Silent, 0.05, 60, 1, 10},
    {"virtual machine paused", Trouble::Silent, 12, 0.6, 1, 0},
    {"no path from one observer", Trouble::OnePath, 4, 10, 1.5, 0},
    {"20 % of packets lost", Trouble::Loss20, 10, 20, 1, 0},
    {"50 % of packets lost", Trouble::Loss50, 2, 20, 1, 0},
    {"kubelet starved", Trouble::Starved, 20, 1, 1.3, 0},
    {"kubelet restarted", Trouble::KubeletGone, 12, 2, 0.8, 0},
    {"API server or etcd stands still", Trouble::Server, 50, 3, 1.3, 0},
    {"an observer stands still", Trouble::Observer, 50, 0.5, 1.3, 0},
}};

double lost_share(Trouble trouble) {
  return trouble == Trouble::Loss20 ? 0.2 : trouble == Trouble::Loss50 ? 0.5 : 0.0;
}

double rate_of(const Kind& kind) {
  switch (kind.trouble) {
    case Trouble::Server:
    case Trouble::Observer:
      return kind.rate;
    case Trouble::Rack:
      return kind.rate * kMachines / kRack;
    default:
      return kind.rate * kMachines;
  }
}

struct Deaf final : WireListener {
  void on_left(const WireRequest& /*request*/) override {}
  void on_answered(const WireRequest& /*request*/, const ServerAnswer& /*answer*/) override {}
  void on_heard(const WireRequest& /*request*/, int /*status*/,
                std::string_view /*text*/) override {}
  void on_ended(const WireRequest& /*request*/, int /*status*/,
                const port::HttpEnd& /*end*/) override {}
};

class Clock final : public loop::Poller {
 public:
  explicit Clock(const TimeLine& time) : time_(time) {}
  [[nodiscard]] Moment now() override { return time_.now; }
  void wait(std::optional<Duration> /*limit*/) override {}
  void perform() override {
    if (links != nullptr) {
      links->perform();
    }
  }
  SimLinks* links = nullptr;

 private:
  const TimeLine& time_;
};

std::string name_of_machine(int number) {
  return "n" + std::to_string(number);
}

// What is counted of one disturbance and machine: the longest silence by which one would have
// acted.
struct Longest {
  Duration alone{};  // by one observer
  Duration both{};   // by both
  Duration with_lease{};
  Duration unrenewed{};  // of its Lease
  bool noise_alone = false;
  bool noise_both = false;
  bool noise_lost = false;
};

// One of the two, with the machines as they are for it.
struct Observer {
  Observer(const TimeLine& time, loop::Loop& world, const Wire& wire, const std::string& name,
           port::Random& from)
      : clock(time),
        loop(clock),
        links({.loop = world, .wire = wire, .machines = machines}, name, from.fork("links"),
              [] { return true; }),
        random(from.fork("detection")),
        detection(loop, links, *random, [](const Detection::News& /*news*/) {}) {
    clock.links = &links;
    for (int i = 0; i < kMachines; ++i) {
      Machine& machine = machines.by_name[name_of_machine(i)];
      machine.name = name_of_machine(i);
      machine.address = "10.0.0." + std::to_string(i);
      cluster::NodeView view;
      view.name = NodeName(machine.name);
      view.readiness = cluster::Readiness::True;
      view.kubelet.addresses = {machine.address};
      detection.saw(view);
    }
  }
  [[nodiscard]] std::optional<Moment> next() const {
    if (stopped) {
      return std::nullopt;
    }
    const auto due = links.next_due();
    const auto timer = loop.next_due();
    return due && timer ? std::min(*due, *timer) : due ? due : timer;
  }

  Machines machines;
  Clock clock;
  loop::Loop loop;
  SimLinks links;
  std::unique_ptr<port::Random> random;
  Detection detection;
  bool stopped = false;
};

class World {
 public:
  explicit World(std::uint64_t seed)
      : random_(seed),
        clock_(time_),
        loop_(clock_),
        wire_random_(random_.fork("wire")),
        wire_(loop_, time_, *wire_random_, Faults{}, ServerChoice{.count = 0, .at = {}}, deaf_),
        observers_{std::make_unique<Observer>(time_, loop_, wire_, "a", *random_.fork("a")),
                   std::make_unique<Observer>(time_, loop_, wire_, "b", *random_.fork("b"))} {
    run_for(seconds(5));
  }

  // One after the other until so many years of the cluster are over.
  void live(double years, double rates) {
    double total = 0;
    for (const Kind& kind : kKinds) {
      total += rate_of(kind) * rates;
    }
    const auto count = static_cast<std::uint64_t>(std::llround(years * total));
    for (std::uint64_t i = 0; i < count; ++i) {
      disturb(total);
    }
  }

  struct Sum {
    std::array<std::uint64_t, kAges.size()> alone{};
    std::array<std::uint64_t, kAges.size()> both{};
    std::array<std::uint64_t, kAges.size()> with_lease{};
    std::uint64_t kubernetes = 0;
    std::uint64_t noise_alone = 0;
    std::uint64_t noise_both = 0;
    std::uint64_t noise_lost = 0;
    std::uint64_t disturbances = 0;
  };
  [[nodiscard]] const Sum& sum() const { return sum_; }

 private:
  struct Lease {
    Moment renewed{};
    bool away = false;  // nobody renews it
    double lost = 0;    // packets, each way
    loop::Timer timer = {};
  };

  const Kind& draw_kind() {
    double total = 0;
    for (const Kind& kind : kKinds) {
      total += rate_of(kind);
    }
    double at = random_.unit() * total;
    for (const Kind& kind : kKinds) {
      at -= rate_of(kind);
      if (at <= 0) {
        return kind;
      }
    }
    return kKinds.back();
  }

  Duration draw_length(const Kind& kind) {
    const double gauss = std::sqrt(-2 * std::log(1 - random_.unit())) *
                         std::cos(2 * std::numbers::pi * random_.unit());
    const double length = kind.least + kind.median * std::exp(kind.sigma * gauss);
    return std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(std::min(length, 3600.0)));
  }

  // `total`: of all rates, a year. A second one comes while this one lasts or is looked at, as
  // often as chance would have it.
  void disturb(double total) {
    longest_.fill({});
    troubled_.fill(false);
    ++sum_.disturbances;
    begin(draw_kind());
    constexpr double kWindow = 30;
    if (happens(random_, total * kWindow / kYear)) {
      const auto later = std::chrono::duration_cast<Duration>(
          std::chrono::duration<double>(random_.unit() * kWindow));
      ++open_;
      timers_.push_back(loop_.after(later, [this] {
        --open_;
        begin(draw_kind());
      }));
    }
    while (open_ > 0 || !is_well()) {
      run_for(kLook);
      look();
    }
    timers_.clear();
    count();
  }

  void begin(const Kind& kind) {
    const Duration length = draw_length(kind);
    const int first = static_cast<int>(number(random_, 0, kMachines - 1));
    const int count = kind.trouble == Trouble::Rack ? kRack : 1;
    const std::size_t who = number(random_, 0, 1);
    ++open_;
    for (int i = first; i < first + count; ++i) {
      trouble(kind.trouble, i % kMachines, who, true);
    }
    timers_.push_back(loop_.after(length, [this, kind, first, count, who] {
      --open_;
      for (int i = first; i < first + count; ++i) {
        trouble(kind.trouble, i % kMachines, who, false);
      }
    }));
  }

  void trouble(Trouble what, int number_of, std::size_t who, bool begins) {
    if (what == Trouble::Server) {
      server_down_ += begins ? 1 : -1;
      server_down_since_ = begins && server_down_ == 1 ? time_.now : server_down_since_;
      return;
    }
    if (what == Trouble::Observer) {
      observers_.at(who)->stopped = begins;
      return;
    }
    auto& lease = leases_.at(static_cast<std::size_t>(number_of));
    if (!troubled_.at(static_cast<std::size_t>(number_of))) {
      troubled_.at(static_cast<std::size_t>(number_of)) = true;
      lease.renewed = time_.now - milliseconds(number(random_, 0, 10'200));
      renew_later(number_of, lease.renewed + kRenewal - time_.now);
    }
    for (std::size_t each = 0; each < observers_.size(); ++each) {
      if (what == Trouble::OnePath && each != who) {
        continue;
      }
      Observer& observer = *observers_.at(each);
      Machine& machine = observer.machines.by_name.at(name_of_machine(number_of));
      switch (what) {
        case Trouble::Silent:
        case Trouble::Rack:
        case Trouble::OnePath:
          machine.connected = !begins;
          machine.answers_since = time_.now;
          break;
        case Trouble::Loss20:
        case Trouble::Loss50:
          machine.lost_packet = begins ? lost_share(what) : 0;
          break;
        case Trouble::KubeletGone:
          machine.kubelet = !begins;
          break;
        case Trouble::Starved:
        case Trouble::Server:
        case Trouble::Observer:
          break;
      }
      observer.links.look();
    }
    switch (what) {
      case Trouble::Silent:
      case Trouble::Rack:
      case Trouble::Starved:
      case Trouble::KubeletGone:
        lease.away = begins;
        break;
      case Trouble::Loss20:
      case Trouble::Loss50:
        lease.lost = begins ? lost_share(what) : 0;
        break;
      default:
        break;
    }
  }

  // A kubelet renews its Lease every 10 s and sends lost packets again, after 0.2 s, 0.4 s, …
  void renew_later(int number_of, Duration delay, Duration again = milliseconds(200)) {
    auto& lease = leases_.at(static_cast<std::size_t>(number_of));
    lease.timer = loop_.after(std::max(delay, Duration(1)), [this, number_of, again, &lease] {
      const bool lost = happens(random_, lease.lost) || happens(random_, lease.lost);
      if (lease.away || lost || server_down_ > 0) {
        renew_later(number_of, again, std::min<Duration>(again * 2, seconds(3)));
        return;
      }
      lease.renewed = time_.now;
      renew_later(number_of, kRenewal + milliseconds(number(random_, 0, 400)));
    });
  }

  void look() {
    const bool server_is_late = server_down_ > 0 && time_.now - server_down_since_ >= seconds(2);
    for (const auto& observer : observers_) {
      if (server_is_late && !observer->stopped) {
        observer->detection.call_failed();
      }
    }
    for (int i = 0; i < kMachines; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (troubled_.at(at)) {
        look_at(i, longest_.at(at), leases_.at(at));
      }
    }
  }

  // A leader's word, as LostNodes has it.
  Duration silence_of(const Observer& observer, const NodeName& name) const {
    if (observer.stopped) {
      return {};
    }
    const auto since = observer.detection.silent_since(name);
    return since ? time_.now - *since : Duration::zero();
  }

  // It was there to answer for as long as a silence has to last.
  [[nodiscard]] bool answered(const Observer& observer, const std::string& name) const {
    const Machine& machine = observer.machines.by_name.at(name);
    return machine.answers() && time_.now - machine.answers_since >= seconds(4);
  }

  void look_at(int number_of, Longest& longest, const Lease& lease) {
    const std::string name = name_of_machine(number_of);
    const Duration a = silence_of(*observers_[0], NodeName(name));
    const Duration b = silence_of(*observers_[1], NodeName(name));
    const bool is_noise = answered(*observers_[0], name) || answered(*observers_[1], name);
    const Duration unrenewed = time_.now - lease.renewed;
    const bool is_overdue = unrenewed > kOverdue && others_are_on_time(number_of);
    longest.alone = std::max({longest.alone, a, b});
    longest.both = std::max(longest.both, std::min(a, b));
    if (is_overdue) {
      longest.with_lease = std::max({longest.with_lease, a, b});
      longest.noise_lost = longest.noise_lost || (is_noise && std::max(a, b) >= seconds(12));
    }
    longest.unrenewed = std::max(longest.unrenewed, unrenewed);
    longest.noise_alone = longest.noise_alone || (is_noise && std::max(a, b) > Duration::zero());
    longest.noise_both = longest.noise_both || (is_noise && std::min(a, b) > Duration::zero());
  }

  // Nine in ten. Those that nothing happens to have renewed theirs unless the server stands still.
  [[nodiscard]] bool others_are_on_time(int number_of) const {
    int late = 0;
    for (int i = 0; i < kMachines; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (i != number_of && troubled_.at(at)) {
        late += time_.now - leases_.at(at).renewed > kOverdue ? 1 : 0;
      }
    }
    const bool all_may_be = server_down_ > 0 && time_.now - server_down_since_ > seconds(2);
    return !all_may_be && late * 10 <= kMachines - 1;
  }

  [[nodiscard]] bool is_well() const {
    return std::all_of(observers_.begin(), observers_.end(), [](const auto& observer) {
      return observer->detection.counts().answers == kMachines;
    });
  }

  void count() {
    for (int i = 0; i < kMachines; ++i) {
      const auto at = static_cast<std::size_t>(i);
      leases_.at(at).timer.cancel();
      const Longest& longest = longest_.at(at);
      for (std::size_t age = 0; age < kAges.size(); ++age) {
        const Duration least = seconds(kAges.at(age));
        sum_.alone.at(age) += longest.alone >= least ? 1U : 0U;
        sum_.both.at(age) += longest.both >= least ? 1U : 0U;
        sum_.with_lease.at(age) += longest.with_lease >= least ? 1U : 0U;
      }
      sum_.kubernetes += longest.unrenewed >= kGrace ? 1U : 0U;
      sum_.noise_alone += longest.noise_alone ? 1U : 0U;
      sum_.noise_both += longest.noise_both ? 1U : 0U;
      sum_.noise_lost += longest.noise_lost ? 1U : 0U;
    }
  }

  void run_for(Duration length) {
    const Moment end = time_.now + length;
    const loop::Timer until = loop_.after(length + (time_.now - loop_.now()), [] {});
    while (time_.now < end) {
      Moment next = loop_.next_due().value_or(end);
      for (const auto& observer : observers_) {
        next = std::min(next, observer->next().value_or(end));
      }
      time_.now = std::min(std::max(time_.now, next), end);
      if (loop_.next_due() <= time_.now) {
        loop_.turn();
      }
      for (const auto& observer : observers_) {
        if (const auto due = observer->next(); due && *due <= time_.now) {
          observer->loop.turn();
        }
      }
    }
  }

  port::SeededRandom random_;
  TimeLine time_{.now = Moment(seconds(1000))};
  Clock clock_;
  loop::Loop loop_;
  Deaf deaf_;
  std::unique_ptr<port::Random> wire_random_;
  Wire wire_;
  std::array<std::unique_ptr<Observer>, 2> observers_;
  std::vector<loop::Timer> timers_;
  int open_ = 0;
  int server_down_ = 0;
  Moment server_down_since_{};
  std::array<Lease, kMachines> leases_;
  std::array<bool, kMachines> troubled_{};
  std::array<Longest, kMachines> longest_{};
  Sum sum_;
};

void print_row(const char* what, const std::array<std::uint64_t, kAges.size()>& counts,
               double node_years) {
  std::printf("| %s |", what);
  for (const std::uint64_t count : counts) {
    std::printf(" %.3f |", static_cast<double>(count) / node_years);
  }
  std::printf("\n");
}

int run(double node_years, double rates, std::uint64_t seed) {
  World world(seed);
  world.live(node_years / kMachines, rates);
  const World::Sum& sum = world.sum();
  std::printf("%.0f node-years, rates times %g, %llu disturbances\n\n", node_years, rates,
              static_cast<unsigned long long>(sum.disturbances));
  std::printf(
      "| silent for | 4 s | 6 s | 8 s | 12 s | 20 s | 40 s |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n");
  print_row("by one replica", sum.alone, node_years);
  print_row("by both at once", sum.both, node_years);
  print_row("by one, and the Lease overdue", sum.with_lease, node_years);
  std::printf("\nKubernetes, Unknown: %.3f\n", static_cast<double>(sum.kubernetes) / node_years);
  std::printf("Noise: silent by one replica %llu, by both %llu, lost %llu\n",
              static_cast<unsigned long long>(sum.noise_alone),
              static_cast<unsigned long long>(sum.noise_both),
              static_cast<unsigned long long>(sum.noise_lost));
  return sum.noise_lost == 0 ? 0 : 1;
}

template <typename Number>
bool read(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace
}  // namespace moonfence::sim

int main(int argc, char** argv) {
  double node_years = 300;
  double rates = 1;
  std::uint64_t seed = 1;
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const bool fits =
        i + 1 < words.size() &&
        ((words[i] == "--node-years" && moonfence::sim::read(words[i + 1], node_years)) ||
         (words[i] == "--rates" && moonfence::sim::read(words[i + 1], rates)) ||
         (words[i] == "--seed" && moonfence::sim::read(words[i + 1], seed)));
    if (!fits || node_years <= 0 || rates <= 0) {
      std::fprintf(stderr,
                   "usage: moonfence-false-alarms [--node-years N] [--rates X] [--seed S]\n");
      return 2;
    }
  }
  return moonfence::sim::run(node_years, rates, seed);
}
