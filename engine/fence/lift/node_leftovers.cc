#include "fence/lift/node_leftovers.h"

#include <algorithm>
#include <utility>

#include "fence/rules/volume_release.h"
#include "kube/objects/decode.h"

namespace moonfence::fence {
namespace {

using nlohmann::json;
using Kind = Doubt::Kind;

// A machine's clock may be set back while nobody hears of it, and a process that was started since
// then looks older than it is. By how much a clock may be wrong without being found out: a Lease is
// renewed every ten seconds, and must bear a stamp of the last minute.
constexpr Duration kClocksDiffer = std::chrono::minutes(1);
// The last sign of life may be the stamp of a clock that was ahead by as much, and the start that
// of one that is behind by as much.
constexpr Duration kBefore = std::chrono::minutes(3);

std::string text_of(const kube::KubeletPod& pod) {
  return pod.ref.text() + " (UID " + pod.uid.text() + ")";
}

// By which UID the kubelet knows the pod. A mirror's own UID is known to the API server only.
Uid uid_at_kubelet(const kube::Pod& pod) {
  static const json::json_pointer mirrored("/metadata/annotations/kubernetes.io~1config.mirror");
  if (!pod.is_mirror) {
    return pod.uid;
  }
  const bool told =
      pod.raw != nullptr && pod.raw->contains(mirrored) && pod.raw->at(mirrored).is_string();
  return told ? Uid(pod.raw->at(mirrored).get<std::string>()) : Uid();
}

Doubt doubt_by_silence(const Error& error) {
  constexpr std::string_view kAsked = "its kubelet cannot be asked what still runs there: ";
  // A Status with a reason is the API server's; a kubelet refuses in plain text.
  if (error.http_status == 403 && !error.reason.empty()) {
    return {
        Kind::NotAllowed,
        std::string(kAsked) + error.message() +
            ". Grant the right with `kubectl apply -k deploy/rights/kubelet`, or reboot the node"};
  }
  if (error.kind == Error::Kind::Malformed || error.kind == Error::Kind::Limit) {
    return {Kind::KubeletUnclear, "its kubelet's answer cannot be used: " + error.message() +
                                      ". Reboot the node, or make sure that nothing of the old "
                                      "pods runs there and take the taint off"};
  }
  return {Kind::KubeletSilent, std::string(kAsked) + error.message()};
}

std::optional<Doubt> doubt_by_word(const NodeName& node, const kube::KubeletWord& word,
                                   const std::vector<kube::Pod>& pods) {
  if (word.process.node != node) {
    return Doubt{Kind::KubeletUnclear,
                 "at its address the kubelet of another node answers: " + word.process.node.text()};
  }
  std::set<Uid> wanted;
  std::set<Uid> may_run;
  for (const kube::Pod& pod : pods) {
    wanted.insert(uid_at_kubelet(pod));
    if (is_there_to_stay(pod)) {
      may_run.insert(uid_at_kubelet(pod));
    }
  }
  for (const kube::KubeletPod& pod : word.running) {
    if (!may_run.contains(pod.uid)) {
      return Doubt{Kind::StillRunning, "containers of pod " + text_of(pod) +
                                           " still run there, and the API server knows no such "
                                           "pod, or calls it ended"};
    }
  }
  for (const kube::KubeletPod& pod : word.wanted) {
    if (!pod.node.empty() && pod.node != node) {
      return Doubt{Kind::KubeletUnclear,
                   "at its address the kubelet of another node answers: " + pod.node.text()};
    }
    if (!wanted.contains(pod.uid)) {
      return Doubt{Kind::StillWanted,
                   "its kubelet has not heard yet that pod " + text_of(pod) + " is gone"};
    }
  }
  return std::nullopt;
}

template <class Each>
void for_each_item(const json& list, Each each) {
  const auto items = list.is_object() ? list.find("items") : list.end();
  if (list.is_object() && items != list.end() && items->is_array()) {
    std::for_each(items->begin(), items->end(), each);
  }
}

Result<kube::Attachment> attachment_of(json item) {
  item["kind"] = "VolumeAttachment";
  return kube::decode_attachment(item);
}

// A volume that stands in a pod itself has an attachment that names no PersistentVolume.
std::set<std::string> used_attachments(const NodeName& node, const NodeLeftovers& remains) {
  std::set<std::string> used = remains.used_attachments;
  for_each_item(remains.attachments, [&](const json& item) {
    const auto attachment = attachment_of(item);
    if (attachment && attachment->node == node && attachment->volume.empty() &&
        remains.inline_drivers.contains(attachment->attacher)) {
      used.insert(attachment->name);
    }
  });
  return used;
}

std::optional<Doubt> doubt_by_attachments(const kube::Node& node, const NodeLeftovers& remains,
                                          const std::set<std::string>& used) {
  std::optional<Doubt> doubt;
  for_each_item(remains.attachments, [&](const json& item) {
    const auto attachment = attachment_of(item);
    if (!attachment) {
      doubt = Doubt{Kind::Unread, attachment.error().message()};
    } else if (attachment->node == node.name &&
               (attachment->terminating || !used.contains(attachment->name))) {
      doubt = Doubt{Kind::StorageLeft, "volume attachment " + attachment->name +
                                           " is left, and no pod of the node needs it"};
    }
  });
  return doubt;
}

// Of a volume that Kubernetes translates to CSI nobody but it knows the name in the node's status;
// it leads to the attachment all the same.
bool is_used(const std::string& volume, const NodeLeftovers& remains, const NodeName& node,
             const std::set<std::string>& used) {
  return remains.used_volumes.contains(volume) || used.contains(attachment_behind(volume, node));
}

std::optional<Doubt> doubt_by_storage(const kube::Node& node, const NodeLeftovers& remains) {
  const std::set<std::string> used = used_attachments(node.name, remains);
  for (const std::string& volume : volumes_of(*node.raw)) {
    if (!is_used(volume, remains, node.name, used)) {
      return Doubt{Kind::StorageLeft,
                   "volume " + volume + " is in use or attached, and no pod of the node needs it"};
    }
  }
  return doubt_by_attachments(node, remains, used);
}

// Why the kubelet is not known to be the process that lived before the node was tainted; "" when it
// is. Both stamps are of the node's clock: the start of its process and the last sign of life that
// the API server had of it.
std::string doubt_by_start(const FenceMark& mark, const NodeLeftovers& remains, WallTime now) {
  if (!mark.heard) {
    return "the annotation does not say when its kubelet was last heard of, so that nobody knows "
           "whether it was restarted since";
  }
  if (!remains.lease_renewed || now - *remains.lease_renewed > kClocksDiffer ||
      *remains.lease_renewed - now > kClocksDiffer) {
    return "its Lease was not renewed within the last minute by the API server's clock, so that "
           "the start of its kubelet proves nothing";
  }
  return (*remains.word)->process.started + kBefore > *mark.heard
             ? "its kubelet was restarted, or was started in the minutes before it fell silent"
             : std::string();
}

std::optional<Doubt> doubt_by_mounts(const NodeName& node, const FenceMark& mark,
                                     const NodeLeftovers& remains, WallTime now) {
  const std::set<std::string> used = used_attachments(node, remains);
  for (const std::string& volume : mark.volumes) {
    if (!is_used(volume, remains, node, used)) {
      std::string why = doubt_by_start(mark, remains, now);
      if (why.empty()) {
        return std::nullopt;
      }
      why.append(": volume ")
          .append(volume)
          .append(
              " may still be mounted there. Reboot the node, or make sure that it is not mounted "
              "and "
              "take the taint off");
      return Doubt{Kind::MaybeMounted, std::move(why)};
    }
  }
  return std::nullopt;
}

}  // namespace

bool may_pass(Kind kind) {
  switch (kind) {
    case Kind::Unread:
    case Kind::KubeletSilent:
    case Kind::StillRunning:
    case Kind::StillWanted:
    case Kind::BeingDeleted:
    case Kind::StorageLeft:
      return true;
    case Kind::KubeletUnclear:
    case Kind::NotAllowed:
    case Kind::MaybeMounted:
    case Kind::MarkUnclear:
    case Kind::Held:
      return false;
  }
  return false;
}

bool awaits_an_end(Kind kind) {
  return kind == Kind::StillRunning || kind == Kind::StillWanted || kind == Kind::BeingDeleted ||
         kind == Kind::StorageLeft;
}

bool is_there_to_stay(const kube::Pod& pod) {
  return !pod.deletion_timestamp && pod.phase != "Succeeded" && pod.phase != "Failed";
}

std::optional<Doubt> doubt_by_pods(const NodeName& node, const NodeLeftovers& remains) {
  if (remains.word && !*remains.word) {
    return doubt_by_silence(remains.word->error());
  }
  if (!remains.unread.empty()) {
    return Doubt{Kind::Unread, remains.unread};
  }
  // What still runs is told before what the API server still waits for.
  if (remains.word) {
    if (auto doubt = doubt_by_word(node, **remains.word, remains.pods)) {
      return doubt;
    }
  }
  for (const kube::Pod& pod : remains.pods) {
    if (pod.deletion_timestamp) {
      return Doubt{Kind::BeingDeleted, "pod " + pod.ref.text() + " is still being deleted"};
    }
  }
  return std::nullopt;
}

std::optional<Doubt> doubt_about(const kube::Node& node, const FenceMark& mark,
                                 const NodeLeftovers& remains, WallTime now) {
  if (auto doubt = doubt_by_pods(node.name, remains)) {
    return doubt;
  }
  const bool rebooted = has_rebooted(node, mark);
  if (!rebooted && !remains.word) {
    return Doubt{Kind::KubeletSilent, "its kubelet was not asked what still runs there"};
  }
  if (auto doubt = doubt_by_storage(node, remains)) {
    return doubt;
  }
  return rebooted ? std::nullopt : doubt_by_mounts(node.name, mark, remains, now);
}

}  // namespace moonfence::fence
