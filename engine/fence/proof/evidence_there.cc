#include "fence/proof/evidence_there.h"

namespace moonfence::fence {

using policy::Evidence;
using policy::EvidenceSet;

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
  if (sightings.power && sightings.power->state.power == policy::Power::Off &&
      !sightings.may_live) {
    there.insert(Evidence::Off);
  }
  if (sightings.attestation.counted && !sightings.may_live) {
    there.insert(Evidence::Attested);
  }
  return there;
}

std::string evidence_text(const Sightings& sightings) {
  const EvidenceSet there = evidence_there(sightings);
  std::string text = evidence_words(there, ", ");
  if (there.contains(Evidence::Off)) {
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
  if (demanded.contains(Evidence::Off)) {
    text.append("; ").append(sightings.fencers.empty()
                                 ? "no fencer is bound to it, or none has answered yet"
                                 : sightings.fencers);
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
