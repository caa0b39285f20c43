#include "policy/values/evidence.h"

#include <algorithm>

namespace moonfence::policy {

std::string_view to_string(Evidence evidence) {
  switch (evidence) {
    case Evidence::Silent:
      return "silent";
    case Evidence::Unreachable:
      return "unreachable";
    case Evidence::Isolated:
      return "isolated";
    case Evidence::Off:
      return "off";
    case Evidence::Attested:
      return "attested";
  }
  return "silent";
}

std::optional<Evidence> find_evidence(std::string_view word) {
  const auto* found =
      std::find_if(kAllEvidence.begin(), kAllEvidence.end(),
                   [word](Evidence evidence) { return to_string(evidence) == word; });
  return found == kAllEvidence.end() ? std::nullopt : std::optional(*found);
}

EvidenceSet all_evidence() {
  EvidenceSet all;
  for (const Evidence each : kAllEvidence) {
    all.insert(each);
  }
  return all;
}

std::string evidence_words(EvidenceSet evidence, std::string_view between) {
  std::string text;
  for (const Evidence each : kAllEvidence) {
    if (evidence.contains(each)) {
      text.append(text.empty() ? "" : between).append(to_string(each));
    }
  }
  return text;
}

std::string to_text(const ProofDemands& demands) {
  std::string text;
  for (const EvidenceSet& demand : demands) {
    if (!demand.empty()) {
      text.append(text.empty() ? "" : ";").append(evidence_words(demand, ","));
    }
  }
  return text;
}

std::optional<ProofDemands> parse_demands(std::string_view text) {
  ProofDemands demands;
  if (text.ends_with(';')) {
    return std::nullopt;
  }
  while (!text.empty()) {
    std::string_view one = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    EvidenceSet demand;
    if (one.ends_with(',')) {
      return std::nullopt;
    }
    do {
      const std::string_view word = one.substr(0, one.find(','));
      const auto evidence = find_evidence(word);
      if (!evidence) {
        return std::nullopt;
      }
      demand.insert(*evidence);
      one.remove_prefix(std::min(word.size() + 1, one.size()));
    } while (!one.empty());
    demands.push_back(demand);
  }
  return demands;
}

}  // namespace moonfence::policy
