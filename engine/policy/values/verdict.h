#pragma once

// What policies decide: about a pod, about a node, and what a health source says of nodes.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "base/time.h"
#include "policy/values/evidence.h"
#include "policy/values/facts.h"

namespace moonfence::policy {

struct Verdict {
  enum class Kind {
    Skip,                     // no reason to act on this pod
    Forbid,                   // nobody may act on this pod
    Hold,                     // nobody may act on this pod for now
    Wait,                     // look again later
    DeletePod,                // with grace period 0
    DeletePodAndAttachments,  // the pod, and once it is gone the attachments of `volumes`
    DeleteAttachments,        // the attachments of `volumes` before the pod
  };
  enum class OnTimeout { Hold, Delete };

  Kind kind = Kind::Skip;
  std::string reason;  // never empty, at most 512 bytes, control characters escaped
  // Of Wait and Hold: when to look again. Of DeleteAttachments: how long they may take before
  // `on_timeout`. 1 s to 1 h.
  Duration wait{};
  // Whose attachments; of this pod, each once, all with a PersistentVolume. May be empty for
  // DeletePodAndAttachments, never for DeleteAttachments.
  std::vector<VolumeFacts> volumes = {};
  // Of DeletePodAndAttachments: release the volumes once each attachment is absent.
  bool release = false;
  // Of DeletePod and DeletePodAndAttachments: the pod's status says Failed before it is deleted, so
  // that a Job with podReplacementPolicy Failed replaces it.
  bool fail = false;
  // Of DeleteAttachments: whether the pod is deleted when the attachments do not go in time.
  OnTimeout on_timeout = OnTimeout::Hold;
  // Of those that delete: one of these has to be known of the node before. Empty: none.
  EvidenceSet proof = {};
};

struct NodeVerdict {
  enum class Kind {
    Proceed,            // its pods may be looked at
    Hold,               // ask again later; nothing happens to any of its pods
    TaintOutOfService,  // mark it; Kubernetes then evicts every pod of it
  };
  Kind kind = Kind::Proceed;
  std::string reason;      // as a Verdict's
  Duration wait{};         // of Hold: when to ask again, 1 s to 1 h
  EvidenceSet proof = {};  // of TaintOutOfService: as a Verdict's
};

enum class NodeHealth { Healthy, Failed, Unknown };

using NodeStates = std::map<NodeName, NodeHealth>;

// As scripts write them: "delete_pod_and_attachments", "taint_out_of_service", "healthy".
[[nodiscard]] std::string_view to_string(Verdict::Kind kind);
[[nodiscard]] std::string_view to_string(NodeVerdict::Kind kind);
[[nodiscard]] std::string_view to_string(NodeHealth health);

}  // namespace moonfence::policy
