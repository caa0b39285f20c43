#include "sim/scenario_writer.h"

#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "sim/scenarios/scenario.h"
#include "sim/scenarios/scenario_words.h"

namespace moonfence::sim {
namespace {

std::string duration_text(Duration duration) {
  return duration < Duration::zero() ? "-" + format_duration(-duration) : format_duration(duration);
}

// The shortest decimal that reads back as the same number.
std::string share_text(double share) {
  std::string text;
  for (int digits = 1; digits <= 17; ++digits) {
    char buffer[32];
    const int length = std::snprintf(buffer, sizeof buffer, "%.*g", digits, share);
    text.assign(buffer, static_cast<std::size_t>(length));
    if (std::strtod(text.c_str(), nullptr) == share) {
      break;
    }
  }
  return text;
}

void statement(std::string& out, std::string_view word, std::string_view rest) {
  constexpr std::size_t kColumn = 10;
  out += word;
  out.append(word.size() < kColumn ? kColumn - word.size() : 1, ' ');
  out += rest;
  out += '\n';
}

std::string phrase(std::string_view name, std::string_view between, std::string_view value) {
  std::string text(name);
  text.append(between).append(value);
  return text;
}

void write_block(std::string& out, std::string_view text) {
  text.remove_suffix(text.ends_with('\n') ? 1 : 0);
  for (const std::string_view line : split(text, '\n')) {
    out += line.empty() ? "|" : "| ";
    out += line;
    out += '\n';
  }
}

void write_files(std::string& out, const std::map<std::string, std::string>& files, bool edit) {
  for (const auto& [name, text] : files) {
    if (text.empty() && edit) {
      statement(out, "file", name + " deleted");
      continue;
    }
    if (!text.empty() && text.find('\n') == std::string::npos) {
      statement(out, "file", phrase(name, " = ", text));
      continue;
    }
    statement(out, "file", name);
    write_block(out, text);
  }
}

void write_node(std::string& out, const NodePlan& node) {
  std::string options;
  options += node.zone.empty() ? "" : " zone=" + node.zone;
  options +=
      node.capacity == NodePlan{}.capacity ? "" : " capacity=" + std::to_string(node.capacity);
  options += node.control_plane ? " control-plane" : "";
  options += node.dedicated ? " dedicated" : "";
  options += node.cordoned ? " cordoned" : "";
  options += node.never_joined ? " never-joined" : "";
  options += node.absent ? " absent" : "";
  options += node.dead > Duration::zero() ? " dead=" + duration_text(node.dead) : "";
  if (!options.empty()) {
    statement(out, "node", node.name + options);
  }
}

void write_bmc(std::string& out, const BmcPlan& bmc) {
  std::string text = bmc.node;
  for (const BmcWord& word : bmc_words()) {
    text += word.kind == bmc.kind ? " " + std::string(word.name) : "";
  }
  text += bmc.of.empty() ? "" : " of=" + bmc.of;
  for (const auto& [key, value] :
       {std::pair("takes", bmc.takes), {"off-takes", bmc.off_takes}, {"on-again", bmc.on_again}}) {
    text += value == Duration() ? "" : " " + phrase(key, "=", duration_text(value));
  }
  statement(out, "bmc", text);
}

void write_isolation(std::string& out, const Plan& plan) {
  for (const FenceClassPlan& each : plan.fence_classes) {
    std::string text = each.name;
    for (const FenceWord& word : fence_words()) {
      text += word.kind == each.kind ? " " + std::string(word.name) : "";
    }
    text += " " + phrase("takes", "=", duration_text(each.takes));
    text += each.lags == Duration() ? "" : " " + phrase("lags", "=", duration_text(each.lags));
    statement(out, "fence-class", text);
  }
  for (const LiftingWord& word : lifting_words()) {
    if (word.lifting == plan.lifting && plan.lifting != Lifting::Nobody) {
      statement(out, "world", phrase("lifting", " ", word.name));
    }
  }
}

void write_workload(std::string& out, const WorkloadPlan& workload) {
  const WorkloadPlan usual;
  std::string text = workload.space + "/" + workload.name;
  const auto add = [&text](const char* key, const std::string& value) {
    text += " ";
    text += key;
    text += "=" + value;
  };
  add("replicas", std::to_string(workload.replicas));
  if (workload.volumes != usual.volumes) {
    add("volumes", std::to_string(workload.volumes));
  }
  if (!workload.labels.empty()) {
    std::vector<std::string> labels;
    labels.reserve(workload.labels.size());
    for (const auto& [key, value] : workload.labels) {
      labels.push_back(key);
      labels.back() += "=" + value;
    }
    add("labels", joined(labels, ","));
  }
  if (!workload.start.empty()) {
    add("on", workload.start);
  }
  if (!workload.node.empty()) {
    add("node", workload.node);
  }
  if (workload.driver != usual.driver) {
    add("driver", workload.driver);
  }
  if (workload.toleration != usual.toleration) {
    add("toleration", duration_text(workload.toleration));
  }
  if (workload.stop_time != usual.stop_time) {
    add("stop-time", duration_text(workload.stop_time));
  }
  if (workload.grace != usual.grace) {
    add("grace", duration_text(workload.grace));
  }
  if (workload.inline_volume) {
    add("inline-volume", "yes");
  }
  if (!workload.owner.empty()) {
    add("owner", (workload.owner_controls ? "" : "no-controller:") + workload.owner);
  }
  if (!workload.finalizers.empty()) {
    add("finalizers", joined(workload.finalizers, ","));
  }
  for (const WorkloadWord& word : workload_words()) {
    if (word.kind == workload.kind) {
      statement(out, word.name, text);
    }
  }
}

void write_timings(std::string& out, const Timings& timings) {
  const Timings usual;
  for (const TimingWord& word : timing_words()) {
    if (timings.*(word.member) != usual.*(word.member)) {
      statement(out, "timing",
                std::string(word.name) + " " + duration_text(timings.*(word.member)));
    }
  }
}

void write_faults(std::string& out, const Faults& faults) {
  const Faults usual;
  for (const ShareWord& word : share_words()) {
    if (faults.*(word.member) > 0) {
      statement(out, "fault", std::string(word.name) + " " + share_text(faults.*(word.member)));
    }
  }
  for (const RangeWord& word : range_words()) {
    const Range& range = faults.*(word.member);
    const Range& plain = usual.*(word.member);
    if (range.from != plain.from || range.to != plain.to) {
      statement(out, "fault",
                std::string(word.name) + " " + duration_text(range.from) + ".." +
                    duration_text(range.to));
    }
  }
  if (faults.piece_limit != usual.piece_limit) {
    statement(out, "fault", "piece-limit " + std::to_string(faults.piece_limit));
  }
}

void write_step(std::string& out, const Step& step) {
  std::string text = duration_text(step.at) + " ";
  text += to_string(step.verb);
  if (!step.target.empty()) {
    text += " " + step.target;
  }
  const bool edit = step.verb == Verb::EditPolicies;
  for (const auto& [key, value] : step.arguments) {
    if (!edit) {
      text += " ";
      text += key;
      text += "=" + value;
    }
  }
  statement(out, "at", text);
  if (edit) {
    write_files(out, step.arguments, true);
  }
}

}  // namespace

std::string write_scenario(const Plan& plan) {
  std::string out;
  if (!plan.name.empty()) {
    statement(out, "name", plan.name);
  }
  std::string nodes = "nodes";
  for (const NodePlan& node : plan.nodes) {
    nodes += " " + node.name;
  }
  statement(out, "world", nodes);
  const Plan usual;
  if (plan.engines != usual.engines) {
    statement(out, "world", "engines " + std::to_string(plan.engines));
  }
  if (!plan.seats.empty()) {
    std::string seats = "seats";
    for (const std::string& seat : plan.seats) {
      seats += " " + seat;
    }
    statement(out, "world", seats);
  }
  if (plan.servers != usual.servers) {
    statement(out, "world", "servers " + std::to_string(plan.servers));
  }
  if (plan.kubernetes != usual.kubernetes) {
    statement(out, "world", "kubernetes 1." + std::to_string(plan.kubernetes));
  }
  for (const NodePlan& node : plan.nodes) {
    write_node(out, node);
  }
  for (const BmcPlan& bmc : plan.bmcs) {
    write_bmc(out, bmc);
  }
  write_isolation(out, plan);
  for (const WorkloadPlan& workload : plan.workloads) {
    write_workload(out, workload);
  }
  for (const auto& [name, value] : plan.settings) {
    statement(out, "set", phrase(name, " ", value));
  }
  write_timings(out, plan.timings);
  write_faults(out, plan.faults);
  write_files(out, plan.policies, false);
  for (const auto& [name, text] :
       {std::pair("config", &plan.config), {"responses", &plan.responses}}) {
    if (!text->empty()) {
      statement(out, name, "");
      write_block(out, *text);
    }
  }
  for (const Step& step : plan.steps) {
    write_step(out, step);
  }
  if (plan.length != usual.length) {
    statement(out, "length", duration_text(plan.length));
  }
  return out;
}

}  // namespace moonfence::sim
