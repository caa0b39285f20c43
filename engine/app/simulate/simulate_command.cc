#include "app/simulate/simulate_command.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "app/simulate/sim_replica.h"
#include "app/simulate/simulate_facts.h"
#include "app/simulate/simulate_policies.h"
#include "app/simulate/simulate_setup.h"
#include "app/simulate/simulate_view.h"
#include "sim/scenarios/scenario_run.h"

namespace moonfence::app {
namespace {

// Long enough for whatever Kubernetes does by itself: tolerations end after five minutes, volumes
// are detached after six more.
constexpr Duration kStockTime = std::chrono::minutes(20);

std::string error_text(const Error& error) {
  return "moonfence simulate: " + error.text + "\n" +
         (error.hint.empty() ? "" : "  next: " + error.hint + "\n");
}

// The same cluster, and nobody who fences.
sim::Scenario without_engine(const sim::Scenario& scenario) {
  sim::Scenario stock{.plan = scenario.plan, .file = scenario.file, .seed = scenario.seed};
  stock.plan.engines = 0;
  stock.plan.length = std::max(stock.plan.length, kStockTime);
  return stock;
}

// What the engine is started with.
Result<SimReplicaOptions> replica_options(const sim::Plan& plan) {
  auto settings = settings_of(plan);
  if (!settings) {
    return failure(std::move(settings.error()));
  }
  auto endpoints = EndpointScript::parse(plan.responses, "responses");
  if (!endpoints) {
    return failure(std::move(endpoints.error()));
  }
  // Several replicas contend for the Lease.
  return SimReplicaOptions{.settings = std::move(*settings),
                           .leader_elect = plan.engines > 1,
                           .mode = {},
                           .endpoints = std::move(*endpoints)};
}

std::string nobody_answered(const EndpointScript& endpoints) {
  std::string text;
  for (const std::string& request : endpoints.unanswered()) {
    text += (text.empty() ? "nobody answered '" : "', '") + request;
  }
  return text.empty() ? text
                      : text + "': name it under `responses` of the scenario or in --responses";
}

class Show {
 public:
  Show(const sim::Scenario& scenario, const SimReplicaOptions& options, SimulateView& view)
      : view_(view),
        stock_(without_engine(scenario), make_sim_replicas(options), silence_),
        run_(scenario, make_sim_replicas(options), story_) {
    story_.listen([this](const sim::Happening& happening) {
      notices_.see(happening);
      heard_.push_back(happening);
    });
    run_.world().cluster().store().listen([this](const sim::Change& change) {
      for (sim::Happening& news : policy_news(change, run_.elapsed())) {
        heard_.push_back(std::move(news));
      }
    });
  }

  // False: somebody asked to stop.
  bool play(port::Pace& pace, std::optional<double> speed) {
    while (pace.wait_until(Duration::zero()) && stock_.step()) {
    }
    view_.begin(run_.scenario());
    bool more = true;
    while (more) {
      more = run_.step();
      const Duration real =
          speed ? std::chrono::duration_cast<Duration>(run_.elapsed() / *speed) : Duration::zero();
      if (!heard_.empty() || speed) {
        interrupted_ = interrupted_ || !pace.wait_until(real);
      }
      tell();
      more = more && !interrupted_;
    }
    return !interrupted_;
  }

  SimulationFacts facts() {
    SimulationFacts facts{.nodes = node_facts(run_.scenario().plan, run_.pods(), stock_.pods(),
                                              notices_, run_.records()),
                          .outcome = run_.outcome(),
                          .stock_lived = stock_.elapsed(),
                          .interrupted = interrupted_};
    if (!interrupted_) {
      facts.failures = run_.failures();
    }
    return facts;
  }

 private:
  void tell() {
    for (sim::Happening& happening : std::exchange(heard_, {})) {
      Told told{.happening = std::move(happening)};
      const sim::Happening& now = told.happening;
      if (now.kind == sim::Happening::Kind::Pod && now.what.starts_with("Running")) {
        told.stock = stock_beside(run_.pods(), stock_.pods(), now.subject, now.at);
      }
      view_.show(told);
    }
  }

  SimulateView& view_;
  sim::Story silence_;
  sim::Story story_;
  std::vector<sim::Happening> heard_;
  NodeNotices notices_;
  sim::ScenarioRun stock_;
  sim::ScenarioRun run_;
  bool interrupted_ = false;
};

}  // namespace

SimulateExit run_simulate_command(const SimulateOptions& options, const SimulateGround& ground) {
  if (options.list) {
    ground.out(list_scenarios());
    return SimulateExit::Ok;
  }
  auto scenario = set_up_scenario(options, ground.files);
  if (!scenario) {
    ground.err(error_text(scenario.error()));
    return SimulateExit::Unusable;
  }
  const auto replica = replica_options(scenario->plan);
  if (!replica) {
    ground.err(error_text(replica.error()));
    return SimulateExit::Unusable;
  }
  const auto view =
      options.json ? make_json_lines(ground.out) : make_timeline(ground.out, ground.colours);
  Show show(*scenario, *replica, *view);
  const bool whole = show.play(ground.pace, speed_of(options, ground.on_terminal));
  const SimulationFacts facts = show.facts();
  view->end(facts);
  if (!whole) {
    return SimulateExit::Interrupted;
  }
  if (const std::string text = nobody_answered(*replica->endpoints); !text.empty()) {
    ground.err("moonfence simulate: " + text + "\n");
    return SimulateExit::Failed;
  }
  return facts.failures.empty() ? SimulateExit::Ok : SimulateExit::Failed;
}

SimulateExit run_scenario_file(const std::string& path, port::Files& files,
                               const std::function<void(std::string_view)>& out) {
  auto scenario = read_scenario(path, files);
  const auto replica = scenario ? replica_options(scenario->plan)
                                : Result<SimReplicaOptions>(failure(scenario.error()));
  if (!replica) {
    out(error_text(replica.error()));
    return SimulateExit::Unusable;
  }
  sim::Story silence;
  sim::ScenarioRun run(*scenario, make_sim_replicas(*replica), silence);
  run.run();
  std::vector<std::string> failures = run.failures();
  if (std::string text = nobody_answered(*replica->endpoints); !text.empty()) {
    failures.push_back(path + ": " + text);
  }
  for (const std::string& failure : failures) {
    out(failure + "\n");
  }
  if (failures.empty()) {
    out("ok  " + path + "  " + run.scenario().plan.name + "\n");
  }
  return failures.empty() ? SimulateExit::Ok : SimulateExit::Failed;
}

}  // namespace moonfence::app
