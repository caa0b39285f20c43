#include "policy/input/display_status.h"

#include <string_view>

#include "policy/lua/views.h"

// Follows printPod of kubernetes/pkg/printers/internalversion/printers.go.

namespace moonfence::policy {
namespace {

using nlohmann::json;

const json& items(const json& pod, std::string_view group, std::string_view key) {
  static const json none = json::array();
  const json* list = member(&pod, group, key);
  return list != nullptr && list->is_array() ? *list : none;
}

std::int64_t number_of(const json* value) {
  return value != nullptr && value->is_number_integer() ? value->get<std::int64_t>() : 0;
}

bool has_condition(const json& pod, std::string_view type, std::string_view status) {
  for (const json& condition : items(pod, "status", "conditions")) {
    if (text_of(member(&condition, "type")) == type) {
      return text_of(member(&condition, "status")) == status;
    }
  }
  return false;
}

std::string ending(const json* terminated) {
  const std::string_view reason = text_of(member(terminated, "reason"));
  if (!reason.empty()) {
    return std::string(reason);
  }
  const std::int64_t signal = number_of(member(terminated, "signal"));
  return signal != 0 ? "Signal:" + std::to_string(signal)
                     : "ExitCode:" + std::to_string(number_of(member(terminated, "exitCode")));
}

// An init container that restarts is a sidecar; once it has started it holds nothing up.
bool is_started_sidecar(const json& pod, const json& status) {
  const json* started = member(&status, "started");
  if (started == nullptr || !started->is_boolean() || !started->get<bool>()) {
    return false;
  }
  for (const json& container : items(pod, "spec", "initContainers")) {
    if (text_of(member(&container, "name")) == text_of(member(&status, "name"))) {
      return text_of(member(&container, "restartPolicy")) == "Always";
    }
  }
  return false;
}

// "" when initialization is over.
std::string initialization(const json& pod) {
  std::size_t done = 0;
  for (const json& status : items(pod, "status", "initContainerStatuses")) {
    const json* terminated = member(&status, "state", "terminated");
    const std::string_view waiting = text_of(member(member(&status, "state", "waiting"), "reason"));
    if ((terminated != nullptr && number_of(member(terminated, "exitCode")) == 0) ||
        is_started_sidecar(pod, status)) {
      ++done;
      continue;
    }
    if (terminated != nullptr) {
      return "Init:" + ending(terminated);
    }
    if (!waiting.empty() && waiting != "PodInitializing") {
      return "Init:" + std::string(waiting);
    }
    return "Init:" + std::to_string(done) + "/" +
           std::to_string(items(pod, "spec", "initContainers").size());
  }
  return {};
}

// The first container that is not well names the pod's state.
std::string of_containers(const json& pod, std::string status) {
  bool running = false;
  const json& containers = items(pod, "status", "containerStatuses");
  for (auto container = containers.rbegin(); container != containers.rend(); ++container) {
    const json* terminated = member(&*container, "state", "terminated");
    const std::string_view waiting =
        text_of(member(member(&*container, "state", "waiting"), "reason"));
    if (!waiting.empty()) {
      status = waiting;
    } else if (terminated != nullptr) {
      status = ending(terminated);
    } else if (const json* ready = member(&*container, "ready");
               ready != nullptr && ready->is_boolean() && ready->get<bool>() &&
               member(&*container, "state", "running") != nullptr) {
      running = true;
    }
  }
  if (status == "Completed" && running) {
    return has_condition(pod, "Ready", "True") ? "Running" : "NotReady";
  }
  return status;
}

}  // namespace

std::string display_status(const json& pod) {
  const std::string_view phase = text_of(member(&pod, "status", "phase"));
  const std::string_view reason = text_of(member(&pod, "status", "reason"));
  if (member(&pod, "metadata", "deletionTimestamp") != nullptr) {
    if (reason == "NodeLost") {
      return "Unknown";
    }
    if (phase != "Succeeded" && phase != "Failed") {
      return "Terminating";
    }
  }
  std::string status(reason.empty() ? phase : reason);
  for (const json& condition : items(pod, "status", "conditions")) {
    if (text_of(member(&condition, "type")) == "PodScheduled" &&
        text_of(member(&condition, "reason")) == "SchedulingGated") {
      status = "SchedulingGated";
    }
  }
  std::string initializing = initialization(pod);
  if (!initializing.empty() && !has_condition(pod, "Initialized", "True")) {
    return initializing;
  }
  return of_containers(pod, initializing.empty() ? status : initializing);
}

}  // namespace moonfence::policy
