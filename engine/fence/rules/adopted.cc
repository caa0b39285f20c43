#include "fence/rules/adopted.h"

#include <algorithm>
#include <string_view>

namespace moonfence::fence {

namespace {

using nlohmann::json;

const json* find(const json& object, std::string_view key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? &*found : nullptr;
}

std::string text_of(const json& object, std::string_view key) {
  const json* value = find(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

template <typename Take>
void for_each_running(const json& pod, const Take& take) {
  const json* status = find(pod, "status");
  for (const std::string_view list : {"initContainerStatuses", "containerStatuses"}) {
    const json* containers = status == nullptr ? nullptr : find(*status, list);
    if (containers == nullptr || !containers->is_array()) {
      continue;
    }
    for (const json& container : *containers) {
      const json* state = find(container, "state");
      const json* running = state == nullptr ? nullptr : find(*state, "running");
      if (running != nullptr) {
        take(container, text_of(*running, "startedAt"));
      }
    }
  }
}

}  // namespace

std::optional<WallTime> last_start(const json& pod) {
  std::optional<WallTime> last;
  for_each_running(pod, [&last](const json&, const std::string& started) {
    last = std::max(last, parse_rfc3339(started));
  });
  return last;
}

std::string starts_of(const json& pod) {
  std::string text;
  for_each_running(pod, [&text](const json& container, const std::string& started) {
    for (const std::string& part :
         {text_of(container, "name"), started, text_of(container, "containerID")}) {
      text += part;
      text += ' ';
    }
  });
  return text;
}

}  // namespace moonfence::fence
