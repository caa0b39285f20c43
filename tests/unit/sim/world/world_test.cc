#include "sim/world/world.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/draw.h"
#include "sim/ground/blueprints.h"

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;

// A replica that asks /livez every second and writes down what it hears.
class Probe final : public Replica, public port::HttpSink {
 public:
  explicit Probe(const ReplicaSurroundings& around) : around_(around) {}
  void start() override { ask(); }
  void drain(std::function<void()> left) override { left(); }
  void on_head(const port::HttpHead& head) override { status_ = head.status; }
  void on_body(std::string_view /*bytes*/) override {}
  void on_end(const port::HttpEnd& end) override {
    note(end.error ? "failed" : "ok " + std::to_string(status_));
    timer_ = around_.loop.after(1s, [this] { ask(); });
  }

 private:
  void ask() {
    note("asks");
    transfer_ = around_.http.start({.url = around_.server + "/livez", .timeout = 2s}, *this);
    note("asked");
  }
  void note(const std::string& what) {
    (void)around_.append_audit(R"({"kind":")" + what + R"(","at":)" +
                               std::to_string(around_.loop.now().time_since_epoch().count()) +
                               R"(,"random":)" + std::to_string(around_.random.next() % 100) + "}");
  }

  ReplicaSurroundings around_;
  int status_ = 0;
  loop::Timer timer_;
  std::unique_ptr<port::Transfer> transfer_;
};

// One that never waits.
class Spinner final : public Replica {
 public:
  explicit Spinner(const ReplicaSurroundings& around) : around_(around) {}
  void start() override { spin(); }
  void drain(std::function<void()> left) override { left(); }

 private:
  void spin() {
    around_.loop.defer([this] { spin(); });
  }
  ReplicaSurroundings around_;
};

// One that keeps a link to each machine and asks nobody anything.
class Linker final : public Replica {
 public:
  explicit Linker(const ReplicaSurroundings& around) {
    for (const std::string name : {"n1", "n2"}) {
      ends_.push_back(std::make_unique<End>(around, name));
    }
  }
  void start() override {
    for (const auto& end : ends_) {
      end->open();
    }
  }
  void drain(std::function<void()> left) override { left(); }

 private:
  class End final : public port::LinkSink {
   public:
    End(const ReplicaSurroundings& around, std::string name)
        : around_(around), name_(std::move(name)) {}
    void open() {
      link_ =
          around_.links.open({.address = address_of(name_), .port = kKubeletPort}, 800ms, *this);
      note("asks");
    }
    void on_open() override { note("open"); }
    void on_end(port::LinkEnd end) override {
      note(end == port::LinkEnd::Silent    ? "silent"
           : end == port::LinkEnd::Refused ? "refused"
                                           : "closed");
      timer_ = around_.loop.after(1s, [this] { open(); });
    }

   private:
    void note(const std::string& what) {
      (void)around_.append_audit(R"({"kind":")" + name_ + " " + what + R"(","at":)" +
                                 std::to_string(around_.loop.now().time_since_epoch().count()) +
                                 "}");
    }
    ReplicaSurroundings around_;
    std::string name_;
    loop::Timer timer_;
    std::unique_ptr<port::Link> link_;
  };
  std::vector<std::unique_ptr<End>> ends_;
};

template <class R>
ReplicaFactory make() {
  return [](const ReplicaSurroundings& around) { return std::make_unique<R>(around); };
}

Plan quiet(std::vector<Step> steps = {}) {
  Plan plan = default_world();
  plan.length = 30s;
  plan.steps = std::move(steps);
  return plan;
}

Step step(Duration at, Verb verb, std::map<std::string, std::string> arguments) {
  return {.at = at, .verb = verb, .target = "moonfence-0", .arguments = std::move(arguments)};
}

std::size_t count(const std::vector<std::string>& lines, const std::string& kind) {
  return static_cast<std::size_t>(
      std::count_if(lines.begin(), lines.end(), [&kind](const std::string& line) {
        return line.find("\"" + kind + "\"") != std::string::npos;
      }));
}

struct Lived {
  Outcome outcome;
  std::vector<std::string> lines;
  std::vector<std::string> engine;  // what was told about it
};

Lived live(const Plan& plan, std::uint64_t seed = 1,
           const ReplicaFactory& factory = make<Probe>()) {
  Lived run;
  Story story;
  story.listen([&run](const Happening& happening) {
    if (happening.kind == Happening::Kind::Engine) {
      run.engine.push_back(happening.what);
    }
  });
  World world(plan, seed, factory, story);
  run.outcome = world.run();
  run.lines = world.audit_lines();
  return run;
}

TEST(World, lives_to_its_end_and_not_longer) {
  const Lived run = live(quiet());
  EXPECT_EQ(run.outcome.lived, 30s);
  EXPECT_TRUE(run.outcome.violations.empty());
  EXPECT_GE(count(run.lines, "ok 200"), 28U);
}

TEST(World, the_same_seed_gives_the_same_hash_and_another_one_another) {
  const std::string hash = live(quiet(), 1).outcome.audit_hash;
  EXPECT_EQ(hash.size(), 64U);
  EXPECT_EQ(live(quiet(), 1).outcome.audit_hash, hash);
  EXPECT_NE(live(quiet(), 2).outcome.audit_hash, hash);
}

TEST(World, a_crashed_engine_starts_again) {
  const Lived run = live(quiet({step(10s, Verb::CrashEngine, {{"for", "5s"}})}));
  EXPECT_EQ(run.engine, (std::vector<std::string>{"started", "crashed", "started"}));
  EXPECT_LT(count(run.lines, "ok 200"), 27U);
}

TEST(World, a_crash_inside_a_turn_takes_the_rest_of_the_turn_with_it) {
  // Each turn of the probe: it hears, or it asks (a note, the request, a note).
  std::set<std::string> last;
  for (int effect = 0; effect < 8; ++effect) {
    const Lived run = live(quiet(
        {step(10s, Verb::CrashEngine, {{"for", "60s"}, {"inside", std::to_string(effect)}})}));
    EXPECT_EQ(run.engine.back(), "crashed");
    last.insert(run.lines.back().substr(0, 14));
  }
  EXPECT_GE(last.size(), 3U);  // it died after each of them
}

TEST(World, a_paused_engine_takes_no_turns) {
  const Lived run = live(quiet({step(10s, Verb::PauseEngine, {{"for", "10s"}})}));
  EXPECT_EQ(run.engine, (std::vector<std::string>{"started", "is stopped for 10s", "goes on"}));
  EXPECT_LE(count(run.lines, "ok 200"), 21U);
}

TEST(World, a_partitioned_engine_hears_nothing_until_it_ends) {
  const Lived run = live(quiet({step(10s, Verb::PartitionEngine, {{"for", "10s"}})}));
  EXPECT_GE(count(run.lines, "failed"), 2U);
  EXPECT_GE(count(run.lines, "ok 200"), 14U);
}

TEST(World, an_engine_that_is_asked_to_leave_does_and_comes_back) {
  const Lived run = live(quiet({step(10s, Verb::StopEngine, {{"for", "1s"}})}));
  EXPECT_EQ(run.engine,
            (std::vector<std::string>{"started", "is asked to leave", "has left", "started"}));
}

TEST(World, an_outage_is_felt) {
  const Lived run =
      live(quiet({{.at = 10s, .verb = Verb::Outage, .target = "", .arguments = {{"for", "5s"}}}}));
  EXPECT_GE(count(run.lines, "failed"), 3U);
  EXPECT_GE(count(run.lines, "ok 200"), 20U);
}

TEST(World, a_spinning_engine_is_a_violation) {
  const Lived run = live(quiet(), 1, make<Spinner>());
  ASSERT_EQ(run.outcome.violations.size(), 1U);
  EXPECT_EQ(run.outcome.violations[0].rule, "bounded-turns");
}

// What it wrote down of n1, without the asking.
std::vector<std::string> heard_of_n1(const Lived& run) {
  std::vector<std::string> heard;
  for (const std::string& line : run.lines) {
    const std::size_t at = line.find("\"n1 ");
    if (at != std::string::npos && line.find("asks") == std::string::npos) {
      heard.push_back(line.substr(at + 4, line.find('"', at + 1) - at - 4));
    }
  }
  return heard;
}

Step node_step(Duration at, Verb verb) {
  return {.at = at, .verb = verb, .target = "n1", .arguments = {}};
}

Plan without_failures(std::vector<Step> steps) {
  Plan plan = quiet(std::move(steps));
  plan.workloads.clear();
  return plan;
}

using Words = std::vector<std::string>;

TEST(World, a_link_tells_what_becomes_of_a_machine) {
  const auto heard = [](Verb verb) {
    return heard_of_n1(live(without_failures({node_step(10s, verb), node_step(13s, Verb::Heal)}), 1,
                            make<Linker>()));
  };
  EXPECT_EQ(heard(Verb::Freeze), Words{"open"});
  EXPECT_EQ(heard(Verb::NotReady), Words{"open"});
  EXPECT_EQ(heard(Verb::StopKubelet), (Words{"open", "closed", "refused", "refused", "open"}));
  EXPECT_EQ(heard(Verb::PowerOff), (Words{"open", "silent", "open"}));
  EXPECT_EQ(heard(Verb::PartitionNode), (Words{"open", "silent", "open"}));
}

TEST(World, a_link_ends_when_the_replica_is_cut_off) {
  const Lived run = live(without_failures({step(10s, Verb::PartitionEngine, {{"for", "3s"}})}), 1,
                         make<Linker>());
  EXPECT_EQ(heard_of_n1(run), (Words{"open", "silent", "open"}));
}

TEST(World, a_stopped_replica_hears_of_its_links_afterwards) {
  const Lived run = live(without_failures({step(10s, Verb::PauseEngine, {{"for", "8s"}}),
                                           node_step(11s, Verb::StopKubelet)}),
                         1, make<Linker>());
  const Words heard = heard_of_n1(run);
  ASSERT_GE(heard.size(), 2U);
  EXPECT_EQ(heard[1], "closed");
  const auto closed = std::find_if(run.lines.begin(), run.lines.end(), [](const auto& line) {
    return line.find("n1 closed") != std::string::npos;
  });
  EXPECT_NE(closed->find(std::to_string(Duration(18s).count())), std::string::npos);
}

TEST(World, links_that_are_well_cause_no_turns) {
  const Lived run = live(without_failures({}), 1, make<Linker>());
  EXPECT_LE(run.outcome.turns, 4U);  // its start, and each of both links
}

TEST(World, who_starts_again_has_no_links_left) {
  const Plan plan = without_failures(
      {step(10s, Verb::CrashEngine, {{"for", "5s"}}), node_step(12s, Verb::StopKubelet)});
  EXPECT_EQ(heard_of_n1(live(plan, 1, make<Linker>())).at(1), "refused");
}

TEST(World, links_go_by_the_seed) {
  const auto hash = [](std::uint64_t seed) {
    return live(without_failures({node_step(10s, Verb::StopKubelet)}), seed, make<Linker>())
        .outcome.audit_hash;
  };
  EXPECT_EQ(hash(1), hash(1));
  EXPECT_NE(hash(1), hash(2));
}

TEST(World, a_step_can_be_added_while_it_lives) {
  Story story;
  World world(quiet(), 1, make<Probe>(), story);
  while (world.step() && world.elapsed() < 5s) {
  }
  world.perform(step({}, Verb::CrashEngine, {{"for", "60s"}}));
  (void)world.run();
  EXPECT_LT(count(world.audit_lines(), "asks"), 8U);
}

}  // namespace
}  // namespace moonfence::sim
