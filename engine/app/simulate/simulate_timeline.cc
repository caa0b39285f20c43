#include <algorithm>
#include <cstdio>
#include <utility>

#include <nlohmann/json.hpp>

#include "app/simulate/simulate_view.h"
#include "base/text.h"

namespace moonfence::app {
namespace {

using Kind = sim::Happening::Kind;

constexpr std::size_t kStockColumn = 78;

enum class Colour { Plain, Faint, Red, Green, Yellow, Blue, Bold };

std::string_view code_of(Colour colour) {
  switch (colour) {
    case Colour::Plain:
      return "";
    case Colour::Faint:
      return "\x1b[2m";
    case Colour::Red:
      return "\x1b[1;31m";
    case Colour::Green:
      return "\x1b[32m";
    case Colour::Yellow:
      return "\x1b[33m";
    case Colour::Blue:
      return "\x1b[36m";
    case Colour::Bold:
      return "\x1b[1m";
  }
  return "";
}

std::string seconds_text(Duration duration, int digits) {
  char buffer[48];
  const int length = std::snprintf(buffer, sizeof buffer, "%.*f s", digits,
                                   std::chrono::duration<double>(duration).count());
  return {buffer, static_cast<std::size_t>(length)};
}

// Before it is deleted.
std::string failing_text(const std::string& kind, bool done, const std::string& pod,
                         const std::string& why) {
  return kind == "intent"    ? std::string()
         : kind == "refusal" ? "moonfence  does not let " + pod + " fail: " + why
         : done              ? "moonfence  lets " + pod + " fail"
                             : "moonfence  tried to let " + pod + " fail: " + why;
}

// Our taint: "taints n1", "keeps the taint of n1: …".
std::string taint_text(const std::string& kind, const std::string& action, const std::string& node,
                       const std::string& reason, const std::string& why) {
  const bool sets = !action.starts_with("lift_");
  if (kind == "outcome" && reason == "done") {
    return sets            ? "moonfence  taints " + node
           : why != reason ? "moonfence  takes its mark off " + node + ": " + why
                           : "moonfence  takes its taint off " + node;
  }
  return kind == "intent"
             ? ""
             : (sets ? "moonfence  did not taint " : "moonfence  keeps the taint of ") + node +
                   ": " + why;
}

std::string audit_text(const std::string& detail) {
  const nlohmann::json record = nlohmann::json::parse(detail, nullptr, false);
  if (!record.is_object()) {
    return {};
  }
  const std::string kind = record.value("kind", "");
  const std::string reason = record.value("reason", "");
  const std::string text = escaped(record.value("text", ""), 96);
  const std::string node = record.value("node", "");
  const std::string pod = record.value("namespace", "") + "/" + record.value("pod", "");
  const std::string why = reason + (text.empty() ? "" : ": " + text);
  if (kind == "incident_opened") {
    return "moonfence  looks at " + node + ": " + why;
  }
  if (kind == "incident_held") {
    return "moonfence  waits before it acts on " + node + ": " + why;
  }
  if (kind == "incident_closed") {
    return "moonfence  is done with " + node + ": " + why;
  }
  if (kind == "verdict") {
    return "moonfence  judges " + pod + ": " + why;
  }
  if (kind == "replacement") {
    return "moonfence  replacement of " + pod + ": " + why;
  }
  if (record.value("action", "") == "release_volume") {
    return kind == "intent"   ? std::string()
           : reason == "done" ? "moonfence  released the volume of " + pod
           : reason == "release_acknowledged"
               ? "Kubernetes took the volume of " + pod + " off " + node
               : "moonfence  did not release the volume of " + pod + ": " + why;
  }
  if (const std::string action = record.value("action", ""); action.ends_with("_quarantine") ||
                                                             action.starts_with("taint_") ||
                                                             action == "lift_silent_taint") {
    return taint_text(kind, action, node, reason, why);
  }
  if (record.value("action", "") == "switch_off") {
    return kind == "intent"    ? "moonfence  has the machine of " + node + " switched off"
           : kind == "refusal" ? "moonfence  leaves the machine of " + node + " on: " + why
           : reason == "done"  ? "machine    " + node + ": its BMC accepted that it is switched off"
                               : "machine    " + node + ": not known to be accepted: " + why;
  }
  if (record.value("action", "") == "isolate") {
    return kind == "intent"    ? "moonfence  has the storage of " + node + " told to refuse it"
           : kind == "refusal" ? "moonfence  does not isolate " + node + ": " + why
           : reason == "done"  ? "moonfence  isolates " + node + ": the object is made"
                               : "moonfence  isolates " + node + ": not known to be made: " + why;
  }
  if (record.value("action", "") == "fail_pod") {
    return failing_text(kind, reason == "done", pod, why);
  }
  const std::string attachment = record.value("attachment", "");
  if (!attachment.empty() && (kind == "outcome" || kind == "refusal")) {
    const bool done = reason == "done" || reason == "marked_only";
    return (kind == "refusal" ? "moonfence  keeps the attachment of " + pod
            : done            ? "moonfence  deleted the attachment of " + pod
                              : "moonfence  tried to delete the attachment of " + pod) +
           (done ? "" : ": " + why);
  }
  if (kind == "refusal") {
    return "moonfence  does not touch " + pod + ": " + why;
  }
  if (kind == "outcome") {
    return (reason == "done" ? "moonfence  deleted " : "moonfence  tried to delete ") + pod +
           (reason == "done" ? "" : ": " + why);
  }
  return {};  // an intent is followed by its outcome
}

Colour colour_of(const sim::Happening& happening) {
  switch (happening.kind) {
    case Kind::Machine:
    case Kind::Fault:
      return Colour::Yellow;
    case Kind::Violation:
      return Colour::Red;
    case Kind::Pod:
      return happening.what.starts_with("Running") ? Colour::Green : Colour::Plain;
    case Kind::Policies:
    case Kind::Audit:
      return Colour::Blue;
    case Kind::Node:
    case Kind::Volume:
    case Kind::Engine:
    case Kind::Call:
      return Colour::Plain;
  }
  return Colour::Plain;
}

std::string_view word_of(sim::WorkloadKind kind) {
  switch (kind) {
    case sim::WorkloadKind::StatefulSet:
      return "StatefulSet";
    case sim::WorkloadKind::Deployment:
      return "Deployment";
    case sim::WorkloadKind::DaemonSet:
      return "DaemonSet";
    case sim::WorkloadKind::Bare:
      return "bare pods";
    case sim::WorkloadKind::Mirror:
      return "static pods";
    case sim::WorkloadKind::Finished:
      return "finished pods";
  }
  return "";
}

std::string describe(const sim::WorkloadPlan& workload) {
  std::string text(word_of(workload.kind));
  text += " " + workload.space + "/" + workload.name;
  if (workload.kind != sim::WorkloadKind::DaemonSet) {
    text += ", " + std::to_string(workload.replicas) + (workload.replicas == 1 ? " pod" : " pods");
  }
  text += workload.volumes == 0   ? ""
          : workload.volumes == 1 ? " with a volume"
                                  : " with " + std::to_string(workload.volumes) + " volumes";
  return text + (workload.start.empty() ? "" : " on " + workload.start);
}

// A pod's line of the table.
struct Row {
  std::string pod;
  std::string fenced;
  std::string stock;
};

std::string fate_text(const PodFate& fate, const PodFacts& facts, Duration lost) {
  if (fate.running) {
    return seconds_text(*fate.running - lost, 1) + ", on " + fate.node;
  }
  if (fate.stays) {
    return "stayed where it was" + (facts.reason.empty() ? "" : " (" + facts.reason + ")");
  }
  if (fate.deleted) {
    return "deleted, not running again";
  }
  return facts.reason.empty() ? "not judged" : "left alone: " + facts.reason;
}

std::string stock_text(const PodFate& fate, Duration lost, Duration lived) {
  if (fate.running) {
    return seconds_text(*fate.running - lost, 1) + ", on " + fate.node;
  }
  if (fate.stays) {
    return "stayed where it was";
  }
  return "not within " + std::to_string(std::chrono::floor<std::chrono::minutes>(lived).count()) +
         " min";
}

class Timeline final : public SimulateView {
 public:
  Timeline(Print print, bool colours) : print_(std::move(print)), colours_(colours) {}

  void begin(const sim::Scenario& scenario) override {
    const sim::Plan& plan = scenario.plan;
    std::string nodes;
    for (const sim::NodePlan& node : plan.nodes) {
      nodes += nodes.empty() ? "" : ", ";
      nodes += node.name;
    }
    print_("\n" + painted(Colour::Bold, plan.name) + "\n\n");
    fact("Cluster",
         "in memory, in virtual time: nodes " + nodes + "; seed " + std::to_string(scenario.seed));
    for (const sim::WorkloadPlan& workload : plan.workloads) {
      fact(&workload == plan.workloads.data() ? "Workload" : "", describe(workload));
    }
    fact("Compare", "the same cluster without moonfence, shown after '|'");
    print_("\n");
  }

  void show(const Told& told) override {
    const std::string text = timeline_text(told.happening);
    if (text.empty()) {
      return;
    }
    std::string line = time_column(told.happening.at);
    line += painted(colour_of(told.happening), text);
    if (!told.stock.empty()) {
      const std::size_t width = 13 + text.size();
      line.append(width < kStockColumn ? kStockColumn - width : 1, ' ');
      line += painted(Colour::Faint, "| " + told.stock);
    }
    print_(line + "\n");
  }

  void end(const SimulationFacts& facts) override {
    if (facts.interrupted) {
      print_("\ninterrupted; what follows is how far it came\n");
    }
    for (const NodeFacts& node : facts.nodes) {
      table(node, facts.stock_lived);
    }
    const sim::Outcome& outcome = facts.outcome;
    print_("\nmoonfence deleted " + counted(outcome.deletions, "pod") + " in " +
           counted(outcome.incidents_opened, "incident") +
           (facts.deleted_by_others() == 0
                ? ""
                : "; others deleted " + counted(facts.deleted_by_others(), "pod") +
                      " of the lost nodes") +
           ". Safety rules violated: " + std::to_string(outcome.violations.size()) + ".\n");
    if (outcome.accepted_double_writers > 0) {
      print_("Two pods wrote one volume " + counted(outcome.accepted_double_writers, "time") +
             ": the policy goes by Ready alone, and the old machine was alive.\n");
    }
    for (const std::string& failure : facts.failures) {
      print_(painted(Colour::Red, "not as expected: ") + failure + "\n");
    }
  }

 private:
  static std::string counted(int count, const std::string& what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  }

  static std::string time_column(Duration at) {
    std::string text = "+" + seconds_text(at, 2);
    text.insert(0, text.size() < 11 ? 11 - text.size() : 0, ' ');
    return text + "  ";
  }

  [[nodiscard]] std::string painted(Colour colour, const std::string& text) const {
    return colours_ && colour != Colour::Plain ? std::string(code_of(colour)) + text + "\x1b[0m"
                                               : text;
  }

  void fact(std::string name, const std::string& text) {
    name.resize(std::max<std::size_t>(name.size(), 11), ' ');
    print_("  " + name + " " + text + "\n");
  }

  void table(const NodeFacts& node, Duration stock_lived) {
    std::string head =
        "\n" + node.node + " failed at " + seconds_text(node.lost, 1) + " (" + node.how + "). ";
    head += node.noticed ? "Kubernetes set Ready=" + node.ready + " " +
                               seconds_text(*node.noticed - node.lost, 1) + " later."
                         : "Kubernetes has not noticed.";
    print_(head + " Time from the failure until the pod runs again:\n\n");
    std::vector<Row> rows = {{"pod", "with moonfence", "stock Kubernetes"}};
    rows.reserve(node.pods.size() + 1);
    for (const PodFacts& pod : node.pods) {
      rows.push_back({pod.pod, fate_text(pod.fenced, pod, node.lost),
                      stock_text(pod.stock, node.lost, stock_lived)});
    }
    std::size_t pod_width = 0;
    std::size_t fenced_width = 0;
    for (const Row& row : rows) {
      pod_width = std::max(pod_width, row.pod.size());
      fenced_width = std::max(fenced_width, row.fenced.size());
    }
    for (Row& row : rows) {
      const bool head_row = &row == rows.data();
      row.pod.resize(pod_width, ' ');
      row.fenced.resize(fenced_width, ' ');
      const std::string text = row.pod + "   " + row.fenced + "   " + row.stock;
      print_("  " + painted(head_row ? Colour::Faint : Colour::Plain, text) + "\n");
    }
  }

  Print print_;
  bool colours_;
};

}  // namespace

std::string timeline_text(const sim::Happening& happening) {
  const std::string& what = happening.what;
  switch (happening.kind) {
    case Kind::Machine:
      return "machine    " + happening.subject + ": " + what;
    case Kind::Node:
      return "Kubernetes " + happening.subject + ": " + what;
    case Kind::Pod: {
      // A pod's "not Ready", "created" and "gone" follow from what is told anyway.
      const bool told = what.starts_with("Running") || what == "Terminating";
      return told ? "pod        " + happening.subject + " is " + what : "";
    }
    case Kind::Volume:
      return "volume     " + happening.subject + ": " + what +
             (happening.detail.empty() || !what.starts_with("Multi") ? ""
                                                                     : ", " + happening.detail);
    case Kind::Policies:
      return "policies   " + happening.subject + (happening.subject.empty() ? "" : ": ") + what +
             (happening.detail.empty() ? "" : " (" + escaped(happening.detail, 160) + ")");
    case Kind::Engine:
      // With a detail it is a line of the log; the audit tells the same.
      return happening.detail.empty() ? "moonfence  " + happening.subject + ": " + what : "";
    case Kind::Audit:
      return audit_text(happening.detail);
    case Kind::Fault:
      return "simulation " + happening.subject + ": " + what;
    case Kind::Violation:
      return "VIOLATION  " + happening.subject + ": " + what +
             (happening.detail.empty() ? "" : ": " + happening.detail);
    case Kind::Call:
      return {};
  }
  return {};
}

std::unique_ptr<SimulateView> make_timeline(Print print, bool colours) {
  return std::make_unique<Timeline>(std::move(print), colours);
}

}  // namespace moonfence::app
