#include "fence/remains.h"

#include <algorithm>

#include "kube/decode.h"
#include "kube/json.h"

namespace moonfence::fence {
namespace {

using nlohmann::json;

// Events are kept for an hour; a kubelet gives up telling of its start after two minutes without
// an answer (client-go, maxTriesPerEvent), and was silent for up to forty seconds before Ready
// said so.
constexpr Duration kEventsLast = std::chrono::minutes(50);
constexpr Duration kLongestAbsence = std::chrono::minutes(1);
// The start may have come before the taint, and is stamped by another clock.
constexpr Duration kBefore = std::chrono::minutes(10);

template <class Each>
void for_each_item(const json& list, Each each) {
  const auto items = list.is_object() ? list.find("items") : list.end();
  if (list.is_object() && items != list.end() && items->is_array()) {
    std::for_each(items->begin(), items->end(), each);
  }
}

std::string doubt_by_attachments(const kube::Node& node, const Remains& remains) {
  std::string doubt;
  for_each_item(remains.attachments, [&](json item) {
    item["kind"] = "VolumeAttachment";
    const auto attachment = kube::decode_attachment(item);
    if (!attachment) {
      doubt = attachment.error().message();
    } else if (attachment->node == node.name &&
               (attachment->terminating || !remains.used_attachments.contains(attachment->name))) {
      doubt = "volume attachment " + attachment->name + " is left, and no pod of the node needs it";
    }
  });
  return doubt;
}

bool is_of_kubelet(kube::Fields& event) {
  const std::string source = event.string({"source", "component"});
  const std::string reporter = event.string({"reportingComponent"});
  return source == "kubelet" || reporter == "kubelet" || (source.empty() && reporter.empty());
}

bool was_restarted(const Remains& remains, WallTime since) {
  bool restarted = false;
  for_each_item(remains.starts, [&](const json& item) {
    kube::Fields event(item);
    const auto last = event.time({"lastTimestamp"});
    const auto at = last ? last : event.time({"eventTime"});
    restarted = restarted || (is_of_kubelet(event) && (!at || *at >= since - kBefore));
  });
  return restarted;
}

// Why a volume that nobody uses any more may be mounted without being told.
std::string doubt_by_restart(const kube::Node& node, const FenceMark& mark, const Remains& remains,
                             WallTime now) {
  if (was_restarted(remains, mark.since)) {
    return "its kubelet was restarted";
  }
  const auto back = node.ready ? node.ready->last_transition_time : std::nullopt;
  if (!back || *back - mark.since > kLongestAbsence) {
    return "it was away for long enough to restart its kubelet without a trace";
  }
  return now - mark.since > kEventsLast ? "it is too long ago to know whether its kubelet restarted"
                                        : std::string();
}

}  // namespace

bool is_there_to_stay(const kube::Pod& pod) {
  return !pod.deletion_timestamp && pod.phase != "Succeeded" && pod.phase != "Failed";
}

std::string doubt_about(const kube::Node& node, const FenceMark& mark, const Remains& remains,
                        WallTime now) {
  if (!remains.unread.empty()) {
    return remains.unread;
  }
  for (const kube::Pod& pod : remains.pods) {
    if (pod.deletion_timestamp) {
      return "pod " + pod.ref.text() + " is still being deleted";
    }
  }
  for (const std::string& volume : volumes_of(*node.raw)) {
    if (!remains.used_volumes.contains(volume)) {
      return "volume " + volume + " is in use or attached, and no pod of the node needs it";
    }
  }
  if (std::string doubt = doubt_by_attachments(node, remains); !doubt.empty()) {
    return doubt;
  }
  if (has_rebooted(node, mark)) {
    return {};
  }
  for (const std::string& volume : mark.volumes) {
    if (!remains.used_volumes.contains(volume)) {
      std::string doubt = doubt_by_restart(node, mark, remains, now);
      if (!doubt.empty()) {
        doubt.append(": volume ").append(volume).append(" may still be mounted");
      }
      return doubt;
    }
  }
  return {};
}

}  // namespace moonfence::fence
