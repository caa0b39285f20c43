#include "fence/record/takeover.h"

#include <algorithm>
#include <utility>

namespace moonfence::fence {

using audit::Reason;
using cluster::NodeView;

void Takeover::add(const Journal::Found& found) {
  const auto [entry, is_new] = left_.try_emplace(found.record.node, found);
  if (is_new) {
    return;
  }
  Journal::Found older = found;
  if (entry->second.record.opened < older.record.opened) {
    std::swap(entry->second, older);
  }
  if (entry->second.record.node_uid == older.record.node_uid) {
    IncidentRecord& newest = entry->second.record;
    newest.silent = std::max(newest.silent, older.record.silent);
    newest.hold = newest.hold.empty() ? older.record.hold : newest.hold;
    for (const IncidentRecord::Step& step : older.record.steps) {
      if (newest.find(step.uid()) == nullptr) {
        newest.steps.push_back(step);
      }
    }
  }
  journal_.close(older, Reason::SteppedDown);
}

const IncidentRecord* Takeover::find(const NodeName& name) const {
  const auto found = left_.find(name);
  return found == left_.end() ? nullptr : &found->second.record;
}

std::optional<Journal::Found> Takeover::take(const NodeName& name) {
  auto left = left_.extract(name);
  return left ? std::optional(std::move(left.mapped())) : std::nullopt;
}

void Takeover::drop(const NodeView& node, bool is_down, const IsLeft& is_left) {
  const IncidentRecord* record = find(node.name);
  if (record != nullptr && node.uid != record->node_uid && is_left(node.name)) {
    return;
  }
  if (record != nullptr && (!is_down || node.uid != record->node_uid)) {
    close(node.name, node.readiness == cluster::Readiness::Gone ? Reason::NodeGone
                     : is_down                                  ? Reason::NodeReplaced
                                                                : Reason::NodeReady);
  }
}

void Takeover::review(const Find& find, bool keeps_absent, const IsLeft& is_left) {
  std::map<NodeName, Reason> over;
  for (const auto& [name, found] : left_) {
    const NodeView* node = find(name);
    if (node == nullptr) {
      if (!keeps_absent) {
        over.emplace(name, Reason::NodeGone);
      }
    } else if (node->uid != found.record.node_uid && is_left(name)) {
      continue;
    } else if (node->uid != found.record.node_uid) {
      over.emplace(name, Reason::NodeReplaced);
    } else if (!cluster::is_down(node->readiness)) {
      over.emplace(name, Reason::NodeReady);
    }
  }
  for (const auto& [name, reason] : over) {
    close(name, reason);
  }
}

std::vector<NodeView> Takeover::absent(const Find& find) const {
  std::vector<NodeView> nodes;
  for (const auto& [name, found] : left_) {
    if (find(name) == nullptr) {
      nodes.push_back({.name = name,
                       .uid = found.record.node_uid,
                       .readiness = cluster::Readiness::Gone,
                       .keeps_replacements_off = true,
                       .zone = found.record.zone,
                       .hold = hold_of(found.record)});
    }
  }
  return nodes;
}

void Takeover::close(const NodeName& name, Reason reason) {
  if (const auto left = take(name)) {
    journal_.close(*left, reason);
  }
}

}  // namespace moonfence::fence
