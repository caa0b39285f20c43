#include "sim/net/sim_links.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "port/seeded_random.h"

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;
using port::LinkEnd;

constexpr Duration kLimit = 800ms;
constexpr const char* kReplica = "moonfence-0";

class Poller final : public loop::Poller {
 public:
  explicit Poller(const TimeLine& time) : time_(time) {}
  [[nodiscard]] Moment now() override { return time_.now; }
  void wait(std::optional<Duration> /*limit*/) override {}
  void perform() override {}

 private:
  const TimeLine& time_;
};

struct Deaf final : WireListener {
  void on_left(const WireRequest& /*request*/) override {}
  void on_answered(const WireRequest& /*request*/, const ServerAnswer& /*answer*/) override {}
  void on_heard(const WireRequest& /*request*/, int /*status*/,
                std::string_view /*text*/) override {}
  void on_ended(const WireRequest& /*request*/, int /*status*/,
                const port::HttpEnd& /*end*/) override {}
};

class CountingRandom final : public port::Random {
 public:
  explicit CountingRandom(int& draws) : draws_(draws) {}
  std::uint64_t next() override {
    ++draws_;
    return random_.next();
  }
  [[nodiscard]] std::unique_ptr<Random> fork(std::string_view name) override {
    return random_.fork(name);
  }

 private:
  int& draws_;
  port::SeededRandom random_{9};
};

// Somebody with a link.
struct Sink final : port::LinkSink {
  explicit Sink(const TimeLine& time_given) : time(time_given) {}
  void on_open() override {
    opened = time.now;
    if (when_open) {
      when_open();
    }
  }
  void on_end(LinkEnd how) override {
    EXPECT_FALSE(end.has_value());
    ended = time.now;
    end = how;
    if (when_ended) {
      when_ended();
    }
  }
  const TimeLine& time;
  std::optional<Moment> opened;
  std::optional<Moment> ended;
  std::optional<LinkEnd> end;
  std::function<void()> when_open;
  std::function<void()> when_ended;
  std::unique_ptr<port::Link> link;
};

struct SimLinksTest : ::testing::Test {
  SimLinksTest() {
    for (const std::string name : {"n1", "n2"}) {
      Machine& machine = machines.by_name[name];
      machine.name = name;
      machine.address = name == "n1" ? "10.0.0.1" : "10.0.0.2";
    }
  }

  void connect(Sink& sink, const std::string& address = "10.0.0.1",
               std::uint16_t port = kKubeletPort) {
    sink.link = links.open({.address = address, .port = port}, kLimit, sink);
    EXPECT_FALSE(sink.opened || sink.end);
  }
  void change(const std::function<void(Machine&)>& how) {
    how(machines.by_name.at("n1"));
    links.look();
  }
  void partition(bool partitioned) {
    wire.set_partitioned(kReplica, partitioned);
    links.look();
  }
  // As the world does: the cluster first, then the replica, which is given a turn only if it has
  // something to do.
  void run(Duration length) {
    const Moment end = time.now + length;
    for (;;) {
      Moment next = loop.next_due().value_or(end);
      if (!stopped) {
        next = std::min(next, links.next_due().value_or(end));
      }
      if (next >= end) {
        break;
      }
      time.now = std::max(time.now, next);
      loop.turn();
      take_turn();
    }
    time.now = end;
    loop.turn();
    take_turn();
  }
  void take_turn() {
    if (const auto due = links.next_due(); !stopped && due && *due <= time.now) {
      ++turns;
      links.perform();
    }
  }
  void go_on() {
    stopped = false;
    take_turn();
  }

  TimeLine time{.now = Moment(100s)};
  Poller poller{time};
  loop::Loop loop{poller};
  Machines machines;
  port::SeededRandom random{5};
  Deaf deaf;
  Faults faults{.latency = {1ms, 5ms}};
  Wire wire{loop, time, random, faults, ServerChoice{.count = 0, .at = {}}, deaf};
  int draws = 0;
  bool may_leave = true;
  bool stopped = false;  // the replica, by SIGSTOP
  int turns = 0;
  SimLinks links{{.loop = loop, .wire = wire, .machines = machines},
                 kReplica,
                 std::make_unique<CountingRandom>(draws),
                 [this] { return may_leave; }};
};

TEST_F(SimLinksTest, one_opens_after_a_way_there_and_back) {
  Sink sink(time);
  connect(sink);
  const Moment begun = time.now;
  run(kLimit * 2);
  ASSERT_TRUE(sink.opened);
  EXPECT_GE(*sink.opened - begun, 2ms);
  EXPECT_LE(*sink.opened - begun, 10ms);
  EXPECT_FALSE(sink.end);
}

TEST_F(SimLinksTest, a_machine_whose_kubelet_is_dead_refuses) {
  machines.by_name.at("n1").kubelet = false;
  Sink sink(time);
  connect(sink);
  run(10ms);
  EXPECT_EQ(sink.end, LinkEnd::Refused);
  EXPECT_FALSE(sink.opened);
  EXPECT_EQ(links.count(), 0U);
}

TEST_F(SimLinksTest, nobody_listens_on_another_port) {
  Sink sink(time);
  connect(sink, "10.0.0.1", 10255);
  run(10ms);
  EXPECT_EQ(sink.end, LinkEnd::Refused);
}

TEST_F(SimLinksTest, a_frozen_machine_accepts_and_keeps_what_is_open) {
  Sink before(time);
  connect(before);
  run(1s);
  change([](Machine& machine) { machine.frozen = true; });
  Sink after(time);
  connect(after);
  run(1h);
  EXPECT_TRUE(before.opened && after.opened);
  EXPECT_FALSE(before.end || after.end);
}

TEST_F(SimLinksTest, whoever_is_not_there_is_silent_at_the_limit) {
  const auto expect_silence = [this](const std::string& address) {
    Sink sink(time);
    connect(sink, address);
    const Moment begun = time.now;
    run(kLimit * 2);
    EXPECT_EQ(sink.end, LinkEnd::Silent);
    EXPECT_EQ(sink.ended, begun + kLimit);
    EXPECT_FALSE(sink.opened);
  };
  expect_silence("10.0.0.9");
  machines.by_name.at("n1").powered = false;
  expect_silence("10.0.0.1");
  machines.by_name.at("n2").connected = false;
  expect_silence("10.0.0.2");
  machines.by_name.at("n2").connected = true;
  partition(true);
  expect_silence("10.0.0.2");
}

TEST_F(SimLinksTest, a_machine_is_asked_when_the_packet_arrives) {
  Sink too_late(time);
  connect(too_late);
  change([](Machine& machine) { machine.powered = false; });
  run(1s);
  EXPECT_EQ(too_late.end, LinkEnd::Silent);
  Sink in_time(time);
  connect(in_time);
  change([](Machine& machine) { machine.powered = true; });
  run(1s);
  EXPECT_TRUE(in_time.opened);
}

TEST_F(SimLinksTest, an_answer_that_meets_a_partition_is_lost) {
  Sink sink(time);
  connect(sink);
  run(1ms);
  while (sink.link != nullptr && draws < 2) {  // until the machine has answered
    run(1us);
  }
  partition(true);
  run(1s);
  EXPECT_EQ(sink.end, LinkEnd::Silent);
}

TEST_F(SimLinksTest, a_kubelet_that_dies_closes_its_links_at_once) {
  Sink sink(time);
  Sink other(time);
  connect(sink);
  connect(other, "10.0.0.2");
  run(10s);
  change([](Machine& machine) { machine.kubelet = false; });
  EXPECT_FALSE(sink.end);
  const Moment died = time.now;
  run(1s);
  EXPECT_EQ(sink.end, LinkEnd::Closed);
  EXPECT_GE(*sink.ended - died, 1ms);
  EXPECT_LE(*sink.ended - died, 5ms);
  EXPECT_FALSE(other.end);
}

TEST_F(SimLinksTest, one_that_dies_in_the_moment_of_opening_closes_it) {
  Sink sink(time);
  connect(sink);
  while (draws < 2) {
    run(1us);
  }
  change([](Machine& machine) { machine.kubelet = false; });
  run(1s);
  EXPECT_TRUE(sink.opened);
  EXPECT_EQ(sink.end, LinkEnd::Closed);
}

TEST_F(SimLinksTest, a_machine_that_falls_silent_is_noticed_within_a_second_of_our_patience) {
  const std::vector<std::pair<std::function<void()>, std::function<void()>>> ways = {
      {[this] { change([](Machine& machine) { machine.powered = false; }); },
       [this] { change([](Machine& machine) { machine.powered = true; }); }},
      {[this] { change([](Machine& machine) { machine.connected = false; }); },
       [this] { change([](Machine& machine) { machine.connected = true; }); }},
      {[this] { partition(true); }, [this] { partition(false); }}};
  for (const auto& [fall, rise] : ways) {
    for (const Duration after : {100ms, 730ms, 5s + 1ms, 5s + 990ms}) {
      Sink sink(time);
      connect(sink);
      run(after);
      fall();
      const Moment fell = time.now;
      run(10s);
      EXPECT_EQ(sink.end, LinkEnd::Silent);
      EXPECT_GE(*sink.ended - fell, port::kLinkPatience);
      EXPECT_LE(*sink.ended - fell, port::kLinkPatience + 1s);
      rise();
      run(1s);
    }
  }
}

TEST_F(SimLinksTest, a_flap_shorter_than_our_patience_is_not_noticed) {
  Sink sink(time);
  connect(sink);
  run(1s);
  for (int i = 0; i < 20; ++i) {
    change([](Machine& machine) { machine.connected = false; });
    run(port::kLinkPatience - 1ms);
    change([](Machine& machine) { machine.connected = true; });
    run(137ms);
    partition(true);
    run(port::kLinkPatience - 1ms);
    partition(false);
    run(91ms);
  }
  EXPECT_FALSE(sink.end);
}

TEST_F(SimLinksTest, two_obstacles_of_which_one_ends_are_still_one) {
  Sink sink(time);
  connect(sink);
  run(1s);
  change([](Machine& machine) { machine.connected = false; });
  const Moment fell = time.now;
  run(1s);
  partition(true);
  run(500ms);
  change([](Machine& machine) { machine.connected = true; });
  run(5s);
  EXPECT_EQ(sink.end, LinkEnd::Silent);
  EXPECT_LE(*sink.ended - fell, port::kLinkPatience + 1s);
}

TEST_F(SimLinksTest, a_machine_that_boots_knows_nothing_of_a_link) {
  Sink sink(time);
  connect(sink);
  run(5s);
  change([](Machine& machine) { machine.powered = false; });
  run(1500ms);
  EXPECT_FALSE(sink.end);
  const Moment back = time.now;
  change([](Machine& machine) { machine.powered = true; });
  run(1s);
  EXPECT_EQ(sink.end, LinkEnd::Closed);
  EXPECT_LE(*sink.ended - back, 5ms);
}

TEST_F(SimLinksTest, what_a_kubelet_closed_while_nobody_heard_it_is_heard_later) {
  Sink sink(time);
  Sink never(time);
  connect(sink);
  connect(never);
  run(5s);
  change([](Machine& machine) {
    machine.connected = false;
    machine.kubelet = false;
  });
  run(1s);
  EXPECT_FALSE(sink.end);
  never.link.reset();
  change([](Machine& machine) {
    machine.connected = true;
    machine.kubelet = true;  // another one
  });
  run(1s);
  EXPECT_EQ(sink.end, LinkEnd::Closed);
  EXPECT_FALSE(never.end);
}

TEST_F(SimLinksTest, a_close_that_meets_a_partition_is_said_again) {
  Sink sink(time);
  connect(sink);
  run(5s);
  change([](Machine& machine) { machine.kubelet = false; });
  partition(true);
  run(1s);
  EXPECT_FALSE(sink.end);
  partition(false);
  run(10ms);
  EXPECT_EQ(sink.end, LinkEnd::Closed);
}

TEST_F(SimLinksTest, where_packets_are_lost_some_answers_are_and_links_break) {
  wire.set_faults({.latency = faults.latency, .lost_packet = 0.5});
  int opened = 0;
  int broken = 0;
  for (int i = 0; i < 100; ++i) {
    Sink sink(time);
    connect(sink);
    run(1min);
    EXPECT_EQ(sink.end, LinkEnd::Silent);
    opened += sink.opened ? 1 : 0;
    broken += sink.opened && sink.end ? 1 : 0;
  }
  EXPECT_GT(opened, 10);
  EXPECT_LT(opened, 45);
  EXPECT_EQ(broken, opened);

  wire.set_faults({.latency = faults.latency, .lost_packet = 0.05});
  Sink last(time);
  connect(last);
  run(10s);
  ASSERT_TRUE(last.opened && !last.end);
  wire.set_faults({.latency = faults.latency});
  run(1h);
  EXPECT_FALSE(last.end);
  EXPECT_EQ(loop.next_due(), std::nullopt);
}

TEST_F(SimLinksTest, links_that_are_well_cost_nothing) {
  Sink first(time);
  Sink second(time);
  connect(first);
  connect(second, "10.0.0.2");
  run(1s);
  EXPECT_EQ(loop.next_due(), std::nullopt);
  EXPECT_EQ(links.next_due(), std::nullopt);
  const auto before = std::pair(turns, draws);
  change([](Machine& machine) { machine.healthy = false; });
  run(1h);
  EXPECT_EQ(std::pair(turns, draws), before);
}

TEST_F(SimLinksTest, without_links_nothing_is_drawn) {
  change([](Machine& machine) { machine.powered = false; });
  partition(true);
  run(1min);
  partition(false);
  EXPECT_EQ(draws, 0);
  EXPECT_EQ(turns, 0);
  EXPECT_EQ(loop.next_due(), std::nullopt);
}

TEST_F(SimLinksTest, who_destroys_a_link_hears_nothing_more) {
  Sink connecting(time);
  connect(connecting);
  connecting.link.reset();
  Sink open(time);
  connect(open);
  run(1s);
  ASSERT_TRUE(open.opened);
  change([](Machine& machine) { machine.kubelet = false; });
  open.link.reset();
  run(1min);
  EXPECT_FALSE(connecting.opened || connecting.end || open.end);
  EXPECT_EQ(links.count(), 0U);
}

TEST_F(SimLinksTest, links_may_be_destroyed_and_opened_inside_the_calls) {
  Sink first(time);
  Sink second(time);
  Sink third(time);
  first.when_open = [&] { second.link.reset(); };
  first.when_ended = [&] {
    first.link.reset();
    connect(third);
  };
  connect(first);
  connect(second);
  stopped = true;  // both arrive before either is told
  run(1s);
  go_on();
  EXPECT_TRUE(first.opened);
  EXPECT_FALSE(second.opened || second.end);
  change([](Machine& machine) { machine.powered = false; });
  run(3s);
  EXPECT_EQ(first.end, LinkEnd::Silent);
  run(1s);
  EXPECT_EQ(third.end, LinkEnd::Silent);
}

TEST_F(SimLinksTest, what_arrived_while_the_replica_was_stopped_comes_before_its_limit) {
  Sink sink(time);
  Sink refused(time);
  Sink silent(time);
  connect(sink);
  connect(refused, "10.0.0.2", 1);
  connect(silent, "10.0.0.9");
  stopped = true;
  run(10s);
  EXPECT_FALSE(sink.opened);
  go_on();
  EXPECT_EQ(sink.opened, time.now);
  EXPECT_FALSE(sink.end);
  EXPECT_EQ(refused.end, LinkEnd::Refused);
  EXPECT_EQ(silent.end, LinkEnd::Silent);
}

TEST_F(SimLinksTest, the_kernel_of_a_stopped_replica_goes_on) {
  Sink early(time);
  connect(early);
  run(1s);
  stopped = true;
  Sink late(time);
  connect(late);
  run(1s);
  change([](Machine& machine) { machine.connected = false; });
  run(4s);
  change([](Machine& machine) { machine.connected = true; });
  run(1min);
  EXPECT_FALSE(early.end);
  go_on();
  EXPECT_EQ(early.end, LinkEnd::Silent);
  EXPECT_TRUE(late.opened);
  EXPECT_EQ(late.end, LinkEnd::Silent);
}

TEST_F(SimLinksTest, a_process_that_has_crashed_sends_nothing) {
  may_leave = false;
  Sink sink(time);
  connect(sink);
  EXPECT_EQ(loop.next_due(), std::nullopt);
  EXPECT_EQ(draws, 0);
  run(100ms);
  EXPECT_FALSE(sink.opened || sink.end);
}

TEST_F(SimLinksTest, the_same_seed_gives_the_same_times) {
  Sink first(time);
  connect(first);
  run(1s);
  int other_draws = 0;
  SimLinks other{{.loop = loop, .wire = wire, .machines = machines},
                 kReplica,
                 std::make_unique<CountingRandom>(other_draws),
                 [] { return true; }};
  Sink second(time);
  second.link = other.open({.address = "10.0.0.1", .port = kKubeletPort}, kLimit, second);
  const Moment begun = time.now;
  while (!other.next_due() || *other.next_due() > time.now) {
    time.now = loop.next_due().value_or(begun + kLimit);
    loop.turn();
  }
  other.perform();
  EXPECT_EQ(*second.opened - begun, *first.opened - Moment(100s));
}

}  // namespace
}  // namespace moonfence::sim
