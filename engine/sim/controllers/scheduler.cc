#include "sim/controllers/scheduler.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "sim/controllers/daemon_set.h"
#include "sim/ground/facts.h"

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;

constexpr const char* kActor = "default-scheduler";
// A pod that fitted nowhere is tried again when the cluster changes, and after that.
constexpr Duration kRetry = 10s;

bool tolerated(const Json& pod, const Json& node) {
  const Json& tolerations = list_field(pod, {"spec", "tolerations"});
  const Json& taints = list_field(node, {"spec", "taints"});
  return std::all_of(taints.begin(), taints.end(), [&tolerations](const Json& taint) {
    return text_field(taint, {"effect"}) == "PreferNoSchedule" ||
           std::any_of(tolerations.begin(), tolerations.end(),
                       [&taint](const Json& toleration) { return tolerates(toleration, taint); });
  });
}

bool selected(const Json& pod, const Json& node) {
  const Json* selector = find_field(pod, {"spec", "nodeSelector"});
  if (selector == nullptr || !selector->is_object()) {
    return true;
  }
  return std::all_of(selector->items().begin(), selector->items().end(), [&node](const auto& item) {
    const Json* label = find_field(node, {"metadata", "labels", item.key()});
    return label != nullptr && *label == item.value();
  });
}

std::size_t room_of(const Json& node) {
  const std::string& pods = text_field(node, {"status", "allocatable", "pods"});
  std::size_t room = 0;
  std::from_chars(pods.data(), pods.data() + pods.size(), room);
  return room;
}

const std::string& owner_uid(const Json& pod) {
  static const std::string none;
  const Json* owner = controller_of(pod);
  return owner == nullptr ? none : text_field(*owner, {"uid"});
}

bool is_unschedulable(const Json& node) {
  const Json* cordoned = find_field(node, {"spec", "unschedulable"});
  return cordoned != nullptr && *cordoned == true;
}

}  // namespace

bool fits(const Json& pod, const Json& node) {
  const std::string& pinned = pinned_node(pod);
  return (pinned.empty() || pinned == name_of(node)) && !is_unschedulable(node) &&
         tolerated(pod, node) && selected(pod, node);
}

Scheduler::Scheduler(const Ground& ground, Informer& nodes, Informer& pods)
    : ground_(ground),
      nodes_(nodes),
      pods_(pods),
      random_(ground.random.fork("scheduler")),
      queue_(ground, "scheduler/queue", [this](const std::string& uid) { place(uid); }) {
  pods_.on_change([this](const Object& before, const Object& after) {
    if (after == nullptr) {
      assumed_.erase(uid_of(*before));
      queue_.drop(uid_of(*before));
      retry_unbound();
      return;
    }
    if (!node_of(*after).empty()) {
      assumed_.erase(uid_of(*after));
    } else if (before == nullptr) {
      queue_.add(uid_of(*after));
    }
  });
  nodes_.on_change([this](const Object& before, const Object& after) {
    const bool same =
        before != nullptr && after != nullptr &&
        list_field(*before, {"spec", "taints"}) == list_field(*after, {"spec", "taints"}) &&
        is_unschedulable(*before) == is_unschedulable(*after);
    if (!same) {
      retry_unbound();
    }
  });
  retry_unbound();
}

void Scheduler::retry_unbound() {
  for (const auto& [key, pod] : pods_.all()) {
    if (node_of(*pod).empty()) {
      queue_.add(uid_of(*pod));
    }
  }
}

void Scheduler::place(const std::string& uid) {
  const Object pod = pods_.find_uid(uid);
  if (pod == nullptr || !node_of(*pod).empty() || is_terminating(*pod) || is_finished(*pod) ||
      assumed_.contains(uid)) {
    return;
  }
  if (const auto node = choose(*pod)) {
    bind(*pod, *node);
    return;
  }
  refuse(*pod);
  queue_.add_after(uid, kRetry);
}

std::optional<std::string> Scheduler::choose(const Json& pod) {
  struct Load {
    std::size_t pods = 0;
    std::size_t siblings = 0;
  };
  std::map<std::string, Load> loads;
  const std::string& owner = owner_uid(pod);
  for (const auto& [key, other] : pods_.all()) {
    const auto assumed = assumed_.find(uid_of(*other));
    const std::string& node = assumed == assumed_.end() ? node_of(*other) : assumed->second;
    if (node.empty() || is_finished(*other)) {
      continue;
    }
    Load& load = loads[node];
    ++load.pods;
    load.siblings += !owner.empty() && owner_uid(*other) == owner ? 1U : 0U;
  }
  using Rank = std::tuple<std::size_t, std::size_t, std::uint64_t>;
  std::optional<std::string> best;
  Rank best_rank;
  for (const auto& [key, node] : nodes_.all()) {
    const Load load = loads[name_of(*node)];
    if (!fits(pod, *node) || load.pods >= room_of(*node)) {
      continue;
    }
    const Rank rank{load.siblings, load.pods, random_->next()};
    if (!best || rank < best_rank) {
      best = name_of(*node);
      best_rank = rank;
    }
  }
  return best;
}

void Scheduler::bind(const Json& pod, const std::string& node) {
  const std::string stamp = ground_.stamp();
  const bool bound = update_same(
      ground_.store, key_of("pods", pod), uid_of(pod),
      [&node, &stamp](Json& edited) {
        if (is_terminating(edited) || !node_of(edited).empty()) {
          return;
        }
        edited["spec"]["nodeName"] = node;
        set_condition(
            edited, {.type = "PodScheduled", .status = "True", .reason = "", .message = ""}, stamp);
      },
      ObjectStore::Part::Whole, kActor);
  if (bound) {
    assumed_[uid_of(pod)] = node;
  }
}

void Scheduler::refuse(const Json& pod) {
  const std::string stamp = ground_.stamp();
  update_same(
      ground_.store, key_of("pods", pod), uid_of(pod),
      [&stamp](Json& edited) {
        set_condition(edited,
                      {.type = "PodScheduled",
                       .status = "False",
                       .reason = "Unschedulable",
                       .message = "no node fits"},
                      stamp);
      },
      ObjectStore::Part::Status, kActor);
}

}  // namespace moonfence::sim
