#include "app/cluster_commands/incident_text.h"

#include <algorithm>
#include <set>

#include "app/terminal/text_table.h"
#include "base/text.h"

namespace moonfence::app {

using fence::IncidentRecord;

namespace {

std::string span(WallTime from, WallTime to) {
  return format_duration(std::chrono::round<std::chrono::milliseconds>(to - from));
}

std::string after(const IncidentRecord& record, const std::optional<WallTime>& at) {
  return at ? "+" + span(record.opened, *at) : std::string();
}

// When the last answer came, or the incident ended.
std::optional<WallTime> last_of(const IncidentRecord& record) {
  std::optional<WallTime> last;
  for (const IncidentRecord::Step& step : record.steps) {
    for (const auto& at : {step.ended, step.gone}) {
      last = at && (!last || *last < *at) ? at : last;
    }
  }
  return last;
}

std::string settled_of(const IncidentRecord& record) {
  const auto settled = std::count_if(record.steps.begin(), record.steps.end(),
                                     [](const auto& step) { return step.settled(); });
  const auto all = static_cast<std::uint64_t>(record.steps.size()) + record.steps_cut;
  return std::to_string(static_cast<std::uint64_t>(settled) + record.steps_cut) + "/" +
         std::to_string(all);
}

std::string state_of(const IncidentRecord& record) {
  return record.closed ? std::string(audit::code(record.closed->reason)) : "open";
}

std::string object_of(const IncidentRecord& record, const IncidentRecord::Step& step) {
  switch (step.kind) {
    case IncidentRecord::Step::Kind::DeletePod:
      return "pod " + step.pod.text();
    case IncidentRecord::Step::Kind::DeleteAttachment:
      return "attachment " + step.attachment + " of pod " + step.pod.text();
    case IncidentRecord::Step::Kind::TaintNode:
      return "node " + record.node.text() + " out of service";
  }
  return {};
}

}  // namespace

std::string incidents_table(std::vector<IncidentRecord> records, const std::string& indent) {
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) {
    return std::pair(b.opened, b.id) < std::pair(a.opened, a.id);
  });
  TextTable table({"ID", "NODE", "OPENED", "FOR", "STATE", "STEPS", "LAST", "LEADERS"});
  for (const IncidentRecord& record : records) {
    table.add({record.id.text(), record.node.text(), format_rfc3339(record.opened),
               std::string(audit::code(record.opened_for)), state_of(record), settled_of(record),
               after(record, last_of(record)), std::to_string(record.leaders.size())});
  }
  return table.text(indent);
}

std::string incident_text(const IncidentRecord& record) {
  std::string text = "incident " + record.id.text() + ", " + state_of(record) + "\n";
  const auto add = [&text](const std::string& key, const std::string& value) {
    if (!value.empty()) {
      text += "  " + key + std::string(key.size() < 10 ? 10 - key.size() : 1, ' ') +
              escaped(value) + "\n";
    }
  };
  add("node", record.node.text() + " (" + record.node_uid.text() + ")");
  add("zone", record.zone);
  add("source", record.source);
  add("last sign", record.last_sign ? format_rfc3339(*record.last_sign) : "");
  add("opened", format_rfc3339(record.opened) + ", " + std::string(audit::code(record.opened_for)));
  for (const IncidentRecord::Leader& leader : record.leaders) {
    add("leader", leader.identity + " since " + format_rfc3339(leader.since));
  }
  if (record.closed) {
    add("closed", format_rfc3339(record.closed->at) + ", " + state_of(record) + ", after " +
                      span(record.opened, record.closed->at));
  }
  std::set<std::string> evidence;
  for (const IncidentRecord::Step& step : record.steps) {
    if (evidence.insert(step.evidence).second) {
      add("evidence", step.evidence);
    }
  }
  add("steps", settled_of(record) + " settled" +
                   (record.steps_cut == 0
                        ? ""
                        : ", the oldest " + std::to_string(record.steps_cut) + " are not shown"));
  TextTable table(
      {"STEP", "POLICY", "PLANNED", "SENT", "ENDED", "GONE", "CALLS", "OUTCOME", "WHY"});
  for (const IncidentRecord::Step& step : record.steps) {
    table.add({object_of(record, step), step.policy, after(record, step.planned),
               after(record, step.sent), after(record, step.ended), after(record, step.gone),
               std::to_string(step.calls),
               step.outcome ? std::string(audit::code(*step.outcome)) : "", step.why});
  }
  return text + table.text("  ");
}

}  // namespace moonfence::app
