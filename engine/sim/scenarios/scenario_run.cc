#include "sim/scenarios/scenario_run.h"

#include <utility>

namespace moonfence::sim {

ScenarioRun::ScenarioRun(Scenario scenario, ReplicaFactory make_replica, Story& story)
    : scenario_(std::move(scenario)),
      wire_(scenario_,
            {.elapsed = [this] { return running_ == nullptr ? Duration{} : running_->elapsed(); },
             .perform =
                 [this](const Step& step) {
                   if (running_ != nullptr) {
                     running_->perform(step);
                   }
                 }}),
      world_(scenario_.plan, scenario_.seed, wire_.wrap(std::move(make_replica)), story),
      pods_(world_.cluster().store(), [this] { return world_.elapsed(); }),
      judge_(scenario_, world_.cluster().store()) {
  running_ = &world_;
}

bool ScenarioRun::step() {
  const bool more = world_.step();
  read_audit();
  judge_.look(world_.elapsed());
  return more;
}

void ScenarioRun::run() {
  while (step()) {
  }
}

void ScenarioRun::read_audit() {
  const std::vector<std::string>& lines = world_.audit_lines();
  while (evidence_.records.size() < lines.size()) {
    evidence_.records.push_back(
        {.at = world_.elapsed(),
         .json = Json::parse(lines[evidence_.records.size()], nullptr, false)});
  }
}

std::vector<std::string> ScenarioRun::failures() {
  evidence_.requests = wire_.seen();
  evidence_.outcome = world_.outcome();
  return judge_.failures(evidence_);
}

}  // namespace moonfence::sim
