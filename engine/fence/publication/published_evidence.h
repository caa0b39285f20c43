#pragma once

// What is proven of a node, as it stands on the Node for others to read (setting publishEvidence):
//
//   annotation moonfence.io/fencing-evidence   all of it, as JSON
//   condition FencingEvidence                  True while something is proven, for people and
//                                              `kubectl wait`
//
// Both come and go by one patch. It names the Node's UID, the boot and the kubelet's last
// heartbeat, and is void when the Node has others: so it needs no memory of ours, and a leader that
// comes later takes off what is void. Only what stops something is told: off, attested, isolated;
// that nobody hears a node proves nothing. Nothing here is evidence for the engine itself, which
// never reads it as such. Pure.

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "base/time.h"
#include "fence/proof/evidence_there.h"
#include "kube/objects/objects.h"
#include "policy/values/evidence.h"

namespace moonfence::fence {

inline constexpr std::string_view kEvidenceKey = "moonfence.io/fencing-evidence";
inline constexpr std::string_view kEvidenceCondition = "FencingEvidence";

// One kind of what is proven.
struct Proven {
  policy::Evidence kind = policy::Evidence::Off;
  std::string source;                  // the fencer, or whose word it is
  WallTime at{};                       // of the reading or the word, by the API server's clock
  std::string text;                    // for people
  std::set<std::string> drivers = {};  // of Isolated: whose storage refuses the node

  friend bool operator==(const Proven&, const Proven&) = default;
};

struct PublishedEvidence {
  Uid node;
  std::string boot_id;
  IncidentId incident;
  std::string renewed;              // the Lease, as it was then; "": not known
  std::string heartbeat;            // of the condition Ready, likewise
  std::vector<Proven> proven = {};  // what says most comes first: off, attested, isolated

  friend bool operator==(const PublishedEvidence&, const PublishedEvidence&) = default;
};

// What is known of a node.
struct NodeFinding {
  const kube::Node& node;  // as it was read, with its JSON
  IncidentId incident = {};
  std::optional<WallTime> renewed = std::nullopt;  // its kubelet's Lease, by the kubelet's clock
  bool heeds_attestation = true;                   // false: nobody looked whether one counts
  Sightings sightings;
};

// The annotation, and back; nullopt: nobody can tell what it says.
[[nodiscard]] std::string to_text(const PublishedEvidence& evidence);
[[nodiscard]] std::optional<PublishedEvidence> parse_evidence(std::string_view text);

// It is about this very Node and boot.
[[nodiscard]] bool is_about(const PublishedEvidence& evidence, const Uid& node,
                            const std::string& boot_id);
// And the kubelet has not reported its status since. The node must carry its JSON.
[[nodiscard]] bool holds_of(const PublishedEvidence& evidence, const kube::Node& node);

// What is proven now, by the rules of evidence_there(). `clock`: the moment that is `now`.
[[nodiscard]] PublishedEvidence proven_by(const NodeFinding& finding, WallTime now, Moment clock);

// What is to stand on the node: what stands there and holds, with what was found. The same that is
// read again changes nothing, its time neither. Off is about what ran, and stays when the machine
// is switched on; an attestation goes when it does not count any more, an isolation when a fencer
// says something else.
[[nodiscard]] PublishedEvidence to_publish(const NodeFinding& finding, WallTime now, Moment clock);

// A change of the node as it was read.
struct EvidenceChange {
  std::string patch;              // a strategic merge of the subresource status
  std::vector<Proven> news = {};  // what did not stand there before
  bool withdraws = false;
};
// `wanted`: what to_publish() made of a finding; nullopt: only what is void is taken off.
// `answers`: its machine is heard. nullopt: nothing is to be changed.
[[nodiscard]] std::optional<EvidenceChange> change_of(
    const kube::Node& node, const std::optional<PublishedEvidence>& wanted, bool answers,
    WallTime now);

// "off: fencer redfish read at 2026-01-02T03:04:05Z: PowerState Off; …", for people.
[[nodiscard]] std::string told(const std::vector<Proven>& proven, const std::string& boot_id);

}  // namespace moonfence::fence
