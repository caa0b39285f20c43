#include "app/simulate/simulate_facts.h"

#include <algorithm>

namespace moonfence::app {
namespace {

using sim::Failover;
using sim::PodLedger;
using sim::PodLife;

constexpr std::string_view kReady = "Ready=";

PodFate fate_of(const Failover& failover) {
  PodFate fate{.deleted = failover.pod->deleted};
  fate.stays = !failover.pod->deleted && failover.pod->ready;
  if (failover.replacement != nullptr) {
    fate.running = failover.replacement->running;
    fate.replacement = failover.replacement->path();
    fate.node = failover.replacement->node;
  }
  return fate;
}

// The last word of the audit about a pod.
void add_reason(PodFacts& facts, const std::string& uid,
                const std::vector<sim::AuditRecord>& records) {
  for (const sim::AuditRecord& record : records) {
    const std::string kind = record.json.value("kind", "");
    if (record.json.value("pod_uid", "") == uid && (kind == "verdict" || kind == "refusal")) {
      facts.reason = record.json.value("reason", "");
      facts.text = record.json.value("text", "");
    }
  }
}

const Failover* find_failover(const std::vector<Failover>& failovers, const std::string& pod) {
  const auto found = std::find_if(failovers.begin(), failovers.end(),
                                  [&pod](const Failover& each) { return each.pod->path() == pod; });
  return found == failovers.end() ? nullptr : &*found;
}

}  // namespace

void NodeNotices::see(const sim::Happening& happening) {
  if (happening.kind == sim::Happening::Kind::Node && happening.what.starts_with(kReady) &&
      happening.what != "Ready=True") {
    notices_[happening.subject].push_back(
        {.at = happening.at, .ready = happening.what.substr(kReady.size())});
  }
}

const NodeNotices::Notice* NodeNotices::after(const std::string& node, Duration since) const {
  const auto of_node = notices_.find(node);
  if (of_node == notices_.end()) {
    return nullptr;
  }
  for (const Notice& notice : of_node->second) {
    if (notice.at >= since) {
      return &notice;
    }
  }
  return nullptr;
}

bool is_loss(sim::Verb verb) {
  return verb == sim::Verb::PowerOff || verb == sim::Verb::PartitionNode ||
         verb == sim::Verb::StopKubelet || verb == sim::Verb::Freeze ||
         verb == sim::Verb::NotReady || verb == sim::Verb::RemoveReady ||
         verb == sim::Verb::MarkUnknown || verb == sim::Verb::DeleteNode;
}

std::vector<NodeFacts> node_facts(const sim::Plan& plan, const PodLedger& fenced,
                                  const PodLedger& stock, const NodeNotices& notices,
                                  const std::vector<sim::AuditRecord>& records) {
  std::vector<NodeFacts> nodes;
  for (const sim::Step& step : plan.steps) {
    const bool known = std::any_of(nodes.begin(), nodes.end(), [&step](const NodeFacts& node) {
      return node.node == step.target;
    });
    if (!is_loss(step.verb) || known) {
      continue;
    }
    NodeFacts node{
        .node = step.target, .how = std::string(sim::to_string(step.verb)), .lost = step.at};
    if (const NodeNotices::Notice* notice = notices.after(step.target, step.at)) {
      node.noticed = notice->at;
      node.ready = notice->ready;
    }
    const std::vector<Failover> without = stock.failovers(step.target);
    for (const Failover& failover : fenced.failovers(step.target)) {
      PodFacts pod{.pod = failover.pod->path(), .fenced = fate_of(failover)};
      if (const Failover* other = find_failover(without, pod.pod)) {
        pod.stock = fate_of(*other);
      }
      add_reason(pod, failover.pod->uid, records);
      node.pods.push_back(std::move(pod));
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

int SimulationFacts::deleted_by_others() const {
  int gone = 0;
  for (const NodeFacts& node : nodes) {
    gone +=
        static_cast<int>(std::count_if(node.pods.begin(), node.pods.end(), [](const PodFacts& pod) {
          return pod.fenced.deleted.has_value();
        }));
  }
  return std::max(0, gone - outcome.deletions);
}

std::string stock_beside(const PodLedger& fenced, const PodLedger& stock,
                         const std::string& replacement, Duration at) {
  for (const PodLife& pod : fenced.lives()) {
    if (!pod.at_start || pod.node.empty()) {
      continue;
    }
    const std::vector<Failover> with = fenced.failovers(pod.node);
    const auto ours = std::find_if(with.begin(), with.end(), [&](const Failover& each) {
      return each.replacement != nullptr && each.replacement->path() == replacement;
    });
    if (ours == with.end()) {
      continue;
    }
    const std::vector<Failover> without = stock.failovers(pod.node);
    const Failover* theirs = find_failover(without, ours->pod->path());
    if (theirs == nullptr) {
      return {};
    }
    if (theirs->replacement != nullptr && theirs->replacement->running <= at) {
      return "Running on " + theirs->replacement->node;
    }
    if (theirs->pod->deleted && *theirs->pod->deleted <= at) {
      return "deleted";
    }
    const bool marked = theirs->pod->marked && *theirs->pod->marked <= at;
    return (marked ? "Terminating on " : "still on ") + pod.node;
  }
  return {};
}

}  // namespace moonfence::app
