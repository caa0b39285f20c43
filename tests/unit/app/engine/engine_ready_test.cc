// Whether a replica calls itself ready (/readyz) that does not know any more what it acts on,
// although everything looks as if nothing had happened: streams are open, and calls are answered.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/simulate/sim_replica.h"
#include "app/simulate/simulate_setup.h"
#include "sim/scenarios/scenario_run.h"
#include "support/fake_files.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

using Unheard = std::function<bool(const port::HttpRequest&)>;

// A proxy that keeps some requests to itself until whoever asked gives up.
class DeafHttp final : public port::Http {
 public:
  DeafHttp(port::Http& inner, loop::Loop& loop, const Unheard& unheard)
      : inner_(inner), loop_(loop), unheard_(unheard) {}

  [[nodiscard]] std::unique_ptr<port::Transfer> start(port::HttpRequest request,
                                                      port::HttpSink& sink) override {
    return unheard_ && unheard_(request) ? std::make_unique<Kept>(loop_, request.timeout, sink)
                                         : inner_.start(std::move(request), sink);
  }
  void use_tls(port::TlsSettings settings) override { inner_.use_tls(std::move(settings)); }
  void drop_connections() override { inner_.drop_connections(); }

 private:
  struct Kept final : port::Transfer {
    Kept(loop::Loop& loop, Duration limit, port::HttpSink& sink)
        : timer(loop.after(limit, [&sink] {
            sink.on_end({.error = Error{.kind = Error::Kind::Retryable, .text = "no answer"}});
          })) {}
    loop::Timer timer;
  };

  port::Http& inner_;
  loop::Loop& loop_;
  const Unheard& unheard_;
};

class EngineReady : public testing::Test {
 protected:
  void start(const std::string& lines) {
    test::FakeFiles files;
    files.write("a.txt",
                "name a\nworld nodes n1 n2 n3\npolicies builtin noobaa\nlength 1h\n" + lines);
    auto scenario = read_scenario("a.txt", files);
    ASSERT_TRUE(scenario) << scenario.error().message();
    run_.emplace(
        *scenario,
        [this](const sim::ReplicaSurroundings& around) {
          return std::make_unique<Replica>(around, unheard_, engine_, before_start_);
        },
        story_);
  }
  void run_until(Duration end) {
    while (run_->elapsed() < end && run_->step()) {
    }
  }
  [[nodiscard]] Health::Answer answer() { return engine_->health().ready(/*verbose=*/true); }

  Unheard unheard_;
  Health::Answer before_start_;

 private:
  class Replica final : public sim::Replica {
   public:
    Replica(const sim::ReplicaSurroundings& around, const Unheard& unheard, Engine*& made,
            Health::Answer& before_start)
        : http_(around.http, around.loop, unheard),
          engine_(sim_assignment({}, around.name, around.server, around.node),
                  {around.loop, http_, around.files, around.processes, around.wall_clock,
                   around.cpu_clock, around.random, around.log, around.append_audit}),
          before_start_(before_start) {
      made = &engine_;
    }
    void start() override {
      before_start_ = engine_.health().ready(/*verbose=*/false);
      engine_.start();
    }
    void drain(std::function<void()> left) override { engine_.drain(std::move(left)); }

   private:
    DeafHttp http_;
    Engine engine_;
    Health::Answer& before_start_;
  };

  Engine* engine_ = nullptr;
  sim::Story story_;
  std::optional<sim::ScenarioRun> run_;
};

bool lists_nodes(const port::HttpRequest& request) {
  return request.url.find("/api/v1/nodes?") != std::string::npos &&
         request.url.find("watch=") == std::string::npos;
}

bool reads_policies_live(const port::HttpRequest& request) {
  return request.method == port::Method::Get &&
         request.url.find("moonfence-policies") != std::string::npos &&
         request.url.find("watch=") == std::string::npos;
}

// The daemon serves /readyz before the engine starts. It said "failed" then, and not what.
TEST_F(EngineReady, says_what_is_missing_before_it_starts) {
  start("");
  run_until(1s);
  EXPECT_FALSE(before_start_.ok);
  EXPECT_THAT(before_start_.text, HasSubstr("[-]nodes-synced failed: the nodes were not listed"));
  EXPECT_THAT(before_start_.text, HasSubstr("[-]policies failed: "));
}

// The stream is open and says nothing, and what would find that out is not answered.
TEST_F(EngineReady, not_while_nothing_was_heard_of_the_nodes) {
  start("at 3s hush-watches nodes for=150s\n");
  run_until(3s);
  EXPECT_TRUE(answer().ok) << answer().text;
  unheard_ = lists_nodes;
  run_until(150s);
  EXPECT_FALSE(answer().ok);
  EXPECT_THAT(answer().text, HasSubstr("[-]nodes-watch failed: "));
  unheard_ = nullptr;
  run_until(5min);
  EXPECT_TRUE(answer().ok) << answer().text;
}

// Somebody may have written `mode: off`, and waits for it.
TEST_F(EngineReady, not_while_mode_and_policies_cannot_be_read_live) {
  start("");
  run_until(10s);
  EXPECT_TRUE(answer().ok) << answer().text;
  unheard_ = reads_policies_live;
  run_until(28s);
  EXPECT_TRUE(answer().ok) << answer().text;
  run_until(50s);
  EXPECT_FALSE(answer().ok);
  EXPECT_THAT(answer().text,
              HasSubstr("[-]policies failed: mode and policies were last read live "));
  unheard_ = nullptr;
  run_until(2min);
  EXPECT_TRUE(answer().ok) << answer().text;
}

}  // namespace
}  // namespace moonfence::app
