#include <utility>

#include <nlohmann/json.hpp>

#include "app/simulate/simulate_view.h"

namespace moonfence::app {
namespace {

using nlohmann::ordered_json;
using Kind = sim::Happening::Kind;

std::string_view word_of(Kind kind) {
  switch (kind) {
    case Kind::Machine:
      return "machine";
    case Kind::Node:
      return "node";
    case Kind::Pod:
      return "pod";
    case Kind::Volume:
      return "volume";
    case Kind::Policies:
      return "policies";
    case Kind::Engine:
      return "engine";
    case Kind::Audit:
      return "audit";
    case Kind::Call:
      return "call";
    case Kind::Fault:
      return "fault";
    case Kind::Violation:
      return "violation";
  }
  return "";
}

// To the microsecond: what a program can compare.
double seconds(Duration duration) {
  return static_cast<double>(std::chrono::floor<std::chrono::microseconds>(duration).count()) / 1e6;
}

ordered_json since(const std::optional<Duration>& at, Duration lost) {
  return at ? ordered_json(seconds(*at - lost)) : ordered_json();
}

ordered_json fate(const PodFate& fate, Duration lost) {
  return {{"deleted", since(fate.deleted, lost)},
          {"running", since(fate.running, lost)},
          {"replacement", fate.replacement},
          {"node", fate.node},
          {"stays", fate.stays}};
}

ordered_json node_json(const NodeFacts& node) {
  ordered_json pods = ordered_json::array();
  for (const PodFacts& pod : node.pods) {
    pods.push_back({{"pod", pod.pod},
                    {"reason", pod.reason},
                    {"text", pod.text},
                    {"moonfence", fate(pod.fenced, node.lost)},
                    {"stock", fate(pod.stock, node.lost)}});
  }
  return {{"node", node.node},          {"how", node.how},
          {"lost", seconds(node.lost)}, {"noticed", since(node.noticed, node.lost)},
          {"ready", node.ready},        {"pods", std::move(pods)}};
}

class JsonLines final : public SimulateView {
 public:
  explicit JsonLines(Print print) : print_(std::move(print)) {}

  void begin(const sim::Scenario& scenario) override {
    line({{"scenario", {{"name", scenario.plan.name}, {"seed", scenario.seed}}}});
  }

  void show(const Told& told) override {
    const sim::Happening& happening = told.happening;
    ordered_json json = {{"at", seconds(happening.at)},
                         {"kind", word_of(happening.kind)},
                         {"subject", happening.subject},
                         {"what", happening.what}};
    if (happening.kind == Kind::Audit) {
      ordered_json record = ordered_json::parse(happening.detail, nullptr, false);
      json["record"] = record.is_discarded() ? ordered_json() : std::move(record);
    } else if (!happening.detail.empty()) {
      json["detail"] = happening.detail;
    }
    if (!told.stock.empty()) {
      json["stock"] = told.stock;
    }
    line(json);
  }

  void end(const SimulationFacts& facts) override {
    ordered_json nodes = ordered_json::array();
    for (const NodeFacts& node : facts.nodes) {
      nodes.push_back(node_json(node));
    }
    ordered_json violations = ordered_json::array();
    for (const sim::Violation& violation : facts.outcome.violations) {
      violations.push_back(
          {{"at", seconds(violation.at)}, {"rule", violation.rule}, {"text", violation.text}});
    }
    line({{"summary",
           {{"nodes", std::move(nodes)},
            {"deletions", facts.outcome.deletions},
            {"deletedByOthers", facts.deleted_by_others()},
            {"incidentsOpened", facts.outcome.incidents_opened},
            {"incidentsClosed", facts.outcome.incidents_closed},
            {"acceptedDoubleWriters", facts.outcome.accepted_double_writers},
            {"violations", std::move(violations)},
            {"failures", facts.failures},
            {"auditHash", facts.outcome.audit_hash},
            {"lived", seconds(facts.outcome.lived)},
            {"stockLived", seconds(facts.stock_lived)},
            {"interrupted", facts.interrupted}}}});
  }

 private:
  void line(const ordered_json& json) {
    print_(json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  }

  Print print_;
};

}  // namespace

std::unique_ptr<SimulateView> make_json_lines(Print print) {
  return std::make_unique<JsonLines>(std::move(print));
}

}  // namespace moonfence::app
