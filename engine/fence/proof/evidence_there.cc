#include "fence/proof/evidence_there.h"

#include <algorithm>

namespace moonfence::fence {

using policy::Evidence;
using policy::EvidenceSet;

namespace {

bool is_isolated(const Sightings& sightings) {
  return sightings.power &&
         evidence_by(sightings.power->state, sightings.storage).contains(Evidence::Isolated);
}

// A pod that may write elsewhere too, or of which nobody could read where.
std::string uncovered_text(EvidenceSet demanded, const Sightings& sightings) {
  if (!demanded.contains(Evidence::Isolated) || !sightings.power ||
      sightings.power->state.power != policy::Power::Isolated || is_isolated(sightings)) {
    return {};
  }
  return "; that is not enough for this pod: every volume of it that lasts must be a claim whose "
         "PersistentVolume is of an isolated CSI driver";
}

}  // namespace

EvidenceSet evidence_by(const policy::PowerState& said, const std::set<std::string>& storage) {
  EvidenceSet evidence;
  if (said.power == policy::Power::Off) {
    evidence.insert(Evidence::Off);
  } else if (said.power == policy::Power::Isolated && !storage.empty() &&
             std::includes(said.drivers.begin(), said.drivers.end(), storage.begin(),
                           storage.end())) {
    evidence.insert(Evidence::Isolated);
  }
  return evidence;
}

bool is_stopped_by(EvidenceSet there) {
  return there.contains(Evidence::Off) || there.contains(Evidence::Isolated);
}

EvidenceSet evidence_there(const Sightings& sightings) {
  EvidenceSet there;
  if (!sightings.exists) {
    return there;
  }
  if (sightings.silent) {
    there.insert(Evidence::Silent);
  }
  if (sightings.unreachable) {
    there.insert(Evidence::Unreachable);
  }
  if (sightings.power && !sightings.may_live) {
    there.insert(evidence_by(sightings.power->state, sightings.storage));
  }
  if (sightings.attestation.counted && !sightings.may_live) {
    there.insert(Evidence::Attested);
  }
  return there;
}

std::string evidence_text(const Sightings& sightings) {
  const EvidenceSet there = evidence_there(sightings);
  std::string text = evidence_words(there, ", ");
  if (there.contains(Evidence::Off) || there.contains(Evidence::Isolated)) {
    text.append(" (").append(sightings.power->fencer).append(": ");
    text.append(sightings.power->state.why).append(")");
  }
  if (there.contains(Evidence::Attested)) {
    const Attestation& word = *sightings.attestation.counted;
    text.append(": off by ").append(word.by).append(", ").append(format_rfc3339(word.at));
    text.append(", ").append(word.reason);
  }
  return text;
}

std::string missing_text(const NodeName& node, std::string_view by, EvidenceSet demanded,
                         const Sightings& sightings) {
  const std::string there = evidence_words(evidence_there(sightings), ", ");
  std::string text(by);
  text.append(" demands proof: ").append(evidence_words(demanded, " or ")).append("; present: ");
  text.append(there.empty() ? "none" : there);
  if (!sightings.exists) {
    return text +
           "; the Node object is gone, so there can be none: see docs/runbook.md, Deleting "
           "by hand";
  }
  if (demanded.contains(Evidence::Off) || demanded.contains(Evidence::Isolated)) {
    text.append("; ").append(sightings.fencers.empty()
                                 ? "no fencer is bound to it, or none has answered yet"
                                 : sightings.fencers);
    text.append(uncovered_text(demanded, sightings));
  }
  if (!demanded.contains(Evidence::Attested)) {
    return text + "; it is looked at again, and its pods can be deleted by hand: docs/runbook.md";
  }
  const AttestationCheck& attestation = sightings.attestation;
  if (attestation.counted) {
    return text +
           "; it is attested to be off, but its machine may live: it answers, or nobody "
           "knows yet";
  }
  if (!attestation.why_not.empty()) {
    text.append("; an attestation does not count: ").append(attestation.why_not);
  }
  if (attestation.is_futile) {
    return text;
  }
  return text + "; if the machine has no power, run: moonfence attest " + node.text() +
         " --off --reason TEXT";
}

}  // namespace moonfence::fence
