#include "app/simulate_command.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "app/sim_replica.h"
#include "app/simulate_facts.h"
#include "app/simulate_policies.h"
#include "app/simulate_setup.h"
#include "app/simulate_view.h"
#include "sim/scenario_run.h"

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

// Several replicas contend for the Lease.
sim::ReplicaFactory replicas_of(const sim::Scenario& scenario, const Settings& settings) {
  return make_sim_replicas(
      {.settings = settings, .leader_elect = scenario.plan.engines > 1, .mode = {}});
}

class Show {
 public:
  Show(const sim::Scenario& scenario, const Settings& settings, SimulateView& view)
      : view_(view),
        stock_(without_engine(scenario), make_sim_replicas({.settings = settings, .mode = {}}),
               silence_),
        run_(scenario, replicas_of(scenario, settings), story_) {
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
  const auto settings = settings_of(scenario->plan);
  if (!settings) {
    ground.err(error_text(settings.error()));
    return SimulateExit::Unusable;
  }
  const auto view =
      options.json ? make_json_lines(ground.out) : make_timeline(ground.out, ground.colours);
  Show show(*scenario, *settings, *view);
  const bool whole = show.play(ground.pace, speed_of(options, ground.on_terminal));
  const SimulationFacts facts = show.facts();
  view->end(facts);
  if (!whole) {
    return SimulateExit::Interrupted;
  }
  return facts.failures.empty() ? SimulateExit::Ok : SimulateExit::Failed;
}

SimulateExit run_scenario_file(const std::string& path, port::Files& files,
                               const std::function<void(std::string_view)>& out) {
  auto scenario = read_scenario(path, files);
  const auto settings =
      scenario ? settings_of(scenario->plan) : Result<Settings>(failure(scenario.error()));
  if (!settings) {
    out(error_text(settings.error()));
    return SimulateExit::Unusable;
  }
  sim::Story silence;
  sim::ScenarioRun run(*scenario, replicas_of(*scenario, *settings), silence);
  run.run();
  const std::vector<std::string> failures = run.failures();
  for (const std::string& failure : failures) {
    out(failure + "\n");
  }
  if (failures.empty()) {
    out("ok  " + path + "  " + run.scenario().plan.name + "\n");
  }
  return failures.empty() ? SimulateExit::Ok : SimulateExit::Failed;
}

}  // namespace moonfence::app
