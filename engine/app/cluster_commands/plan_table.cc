#include "app/cluster_commands/plan_text.h"
#include "app/terminal/text_table.h"
#include "audit/reason.h"
#include "base/text.h"

namespace moonfence::app {
namespace {

std::string head_of(const Plan::Node& node, const Plan& plan) {
  std::string text = "node " + escaped(node.name, 256) + ": ";
  switch (node.state) {
    case Engine::Supposed::Unknown:
      return text + "the cluster has no such node\n";
    case Engine::Supposed::Up:
      if (node.opened_for.empty()) {
        return text +
               "is up, nothing would be done; --assume-down shows what if its machine died now\n";
      }
      break;
    case Engine::Supposed::Fallen:
    case Engine::Supposed::Deleted:
      break;
  }
  const bool by_source = node.opened_for == audit::code(audit::Reason::SourceFailed);
  text += node.although_up                          ? "is up, assumed to be down"
          : node.state == Engine::Supposed::Deleted ? "is deleted"
          : by_source                               ? "is called failed by a health source"
          : node.opened_for == audit::code(audit::Reason::NodeLost) ? "is lost"
                                                                    : "is down";
  if (node.opened_for.empty()) {
    return text + "; no policy in force applies to it, moonfence status shows them\n";
  }
  text += ", incident " + node.opened_for;
  if (plan.hold_down > Duration::zero()) {
    text += ", after holding down for " +
            format_duration(std::chrono::round<std::chrono::seconds>(plan.hold_down));
  }
  if (node.open) {
    text += ", holds: " + *node.open;
  }
  return text + "\n";
}

// How it stands now, beside what a pass would come to.
std::string engine_line(const Plan::Node& node) {
  if (!node.engine) {
    return {};
  }
  return "  the engine says: " + escaped(node.engine->state, 64) +
         (node.engine->reason.empty() ? "" : ", " + escaped(node.engine->reason, 64)) +
         (node.engine->text.empty() ? "" : ", " + escaped(node.engine->text)) + "\n";
}

std::string what_refuses(const Plan::Pod& pod) {
  std::string text;
  for (const Plan::Word& word : pod.refusals) {
    const std::string one =
        word.attachment.empty() ? word.reason : word.reason + " (" + word.attachment + ")";
    text += (text.empty() ? "" : ",") + one;
  }
  return text;
}

std::string pods_of(const Plan::Node& node, bool wide) {
  std::vector<std::string> header = {"POD", "VERDICT", "REASON", "POLICY", "REFUSED-BY", "WHY"};
  if (wide) {
    header.insert(header.end(), {"UID", "READ"});
  }
  TextTable table(std::move(header));
  for (const Plan::Pod& pod : node.pods) {
    std::vector<std::string> row = {pod.space + "/" + pod.name, std::string(to_string(pod.fate)),
                                    pod.because.reason,         pod.because.policy,
                                    what_refuses(pod),          pod.because.text};
    if (wide) {
      std::string reads;
      for (const Plan::Opinion& opinion : pod.opinions) {
        for (const policy::FieldRead& read : opinion.reads) {
          reads += (reads.empty() ? "" : " ") + read.path + "=" + read.value;
        }
      }
      row.insert(row.end(), {pod.uid, reads});
    }
    table.add(std::move(row));
  }
  return table.text("  ");
}

void add_calls(TextTable& table, const std::vector<Plan::Call>& calls) {
  for (const Plan::Call& call : calls) {
    table.add({std::string(port::to_string(call.method)), call.path,
               call.uid.empty() ? "" : "uid=" + call.uid});
  }
}

}  // namespace

std::string plan_table(const Plan& plan, bool wide) {
  std::string text;
  if (!plan.frozen.empty()) {
    text += "NOTHING IS DONE NOW. " + escaped(plan.frozen, 2048) + "\n";
  }
  for (const Plan::Node& node : plan.nodes) {
    text += head_of(node, plan) + engine_line(node);
    for (const Plan::Word& word : node.holds) {
      if (!word.policy.empty()) {
        text += "  policy " + escaped(word.policy, 64) + ": " + word.reason +
                (word.text.empty() ? "" : ", " + escaped(word.text)) + "\n";
      }
    }
    for (const Plan::Word& word : node.changes) {
      text += "  policy " + escaped(word.policy, 64) + ": " + word.reason + ", " +
              escaped(word.text) + "\n";
    }
    text += pods_of(node, wide);
    TextTable calls({"CALL", "PATH", "PRECONDITION"});
    add_calls(calls, node.calls);
    for (const Plan::Pod& pod : node.pods) {
      add_calls(calls, pod.calls);
    }
    text += calls.text("  ");
    if (!node.complete) {
      text += "  the rehearsal was cut short: more may follow\n";
    }
  }
  return text;
}

}  // namespace moonfence::app
