#pragma once

// Attestation is a person's word that the machine of a node is off: the annotation
// moonfence.io/attested, which `moonfence attest` writes. It names what the API server knew of the
// kubelet when it was given: the Node's UID, the boot, the kubelet's Lease with the stamp in it,
// and the kubelet's last heartbeat in the condition Ready. It counts while each of them stands as
// it was. So it needs no memory of ours: a kubelet that renews its Lease or reports its status
// afterwards changes one of them, for a replica that leads only later, too. What the machine itself
// was heard to answer is known to the replica that watches it, for as long as it runs.

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/names.h"
#include "base/result.h"
#include "base/time.h"
#include "fence/leases/kubelet_lease.h"
#include "kube/objects/objects.h"

namespace moonfence::fence {

inline constexpr std::string_view kAttestedKey = "moonfence.io/attested";

// The last signs of one kubelet that the API server has. Two that are equal say that it has said
// nothing in between.
struct KubeletSigns {
  Uid node;
  std::string boot_id;
  Uid lease;
  std::string renewed;    // stamp in the Lease, in RFC 3339 with microseconds
  std::string heartbeat;  // of the condition Ready, as it was sent

  friend bool operator==(const KubeletSigns&, const KubeletSigns&) = default;
};
// `node` with its JSON. An error says what is missing: without it nobody could tell whether the
// kubelet has spoken since.
[[nodiscard]] Result<KubeletSigns> signs_of(const kube::Node& node, const kube::Lease& lease);

struct Attestation {
  KubeletSigns signs;  // as they stood
  WallTime at{};       // by the API server's clock
  std::string by;      // whose word it is, for people, as the next
  std::string reason;
};

// The annotation's value, and back. Malformed: it says which part is wrong.
[[nodiscard]] std::string to_text(const Attestation& word);
[[nodiscard]] Result<Attestation> parse_attestation(std::string_view text);

struct AttestationCheck {
  std::optional<Attestation> counted = std::nullopt;
  std::string why_not = {};  // of one that is there and does not count; else ""
  bool is_futile = false;    // to give another one now: it would not count either
};
// What else is known when the node was read.
struct KubeletFinding {
  const Result<kube::Lease>& lease;  // as it was read beside the node
  KubeletLease kubelet_lease = KubeletLease::Unread;
  WallTime now{};  // by the API server's clock, as the next
  // When its machine was last heard; nullopt: nobody watches it, or it was never heard.
  std::optional<WallTime> heard = std::nullopt;
};
[[nodiscard]] AttestationCheck check_attestation(const kube::Node& node,
                                                 const KubeletFinding& finding);

}  // namespace moonfence::fence
