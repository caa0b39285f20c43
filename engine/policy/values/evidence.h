#pragma once

// Evidence is what can be known of a node that seems to be dead, one closed list. A policy demands
// it with a verdict (`proof`), and so does the engine's own configuration. docs/proof.md says which
// one stops what.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moonfence::policy {

enum class Evidence : unsigned char {
  Silent,       // its machine does not answer, and another replica has not heard it either
  Unreachable,  // Kubernetes calls it Unknown, and its Lease is dead: the kubelet is silent
  Isolated,     // a fencer has read that its storage refuses it (fence/proof/evidence_there.h)
  Off,          // a fencer has read that the machine has no power (fence/fencers/power_watch.h)
  Attested,     // a person says that the machine is off (fence/proof/attestation.h)
};
inline constexpr std::array<Evidence, 5> kAllEvidence = {
    Evidence::Silent, Evidence::Unreachable, Evidence::Isolated, Evidence::Off, Evidence::Attested};

// As scripts and files write it: "silent".
[[nodiscard]] std::string_view to_string(Evidence evidence);
[[nodiscard]] std::optional<Evidence> find_evidence(std::string_view word);

class EvidenceSet {
 public:
  void insert(Evidence evidence) { bits_ |= bit(evidence); }
  void insert(EvidenceSet others) { bits_ |= others.bits_; }
  void remove(Evidence evidence) { bits_ &= static_cast<unsigned char>(~bit(evidence)); }
  [[nodiscard]] bool contains(Evidence evidence) const { return (bits_ & bit(evidence)) != 0; }
  [[nodiscard]] bool empty() const { return bits_ == 0; }
  [[nodiscard]] bool shares_one_with(EvidenceSet other) const { return (bits_ & other.bits_) != 0; }

  friend bool operator==(const EvidenceSet&, const EvidenceSet&) = default;

 private:
  [[nodiscard]] static constexpr unsigned char bit(Evidence evidence) {
    return static_cast<unsigned char>(1U << static_cast<unsigned char>(evidence));
  }
  unsigned char bits_ = 0;
};

[[nodiscard]] EvidenceSet all_evidence();

// The words of a set, in the order of the list: "unreachable or attested" with " or ".
[[nodiscard]] std::string evidence_words(EvidenceSet evidence, std::string_view between);

// Each of them demands one of its own. Sets that are empty demand nothing.
using ProofDemands = std::vector<EvidenceSet>;

// "unreachable,attested;silent", and back; nullopt: the text is none.
[[nodiscard]] std::string to_text(const ProofDemands& demands);
[[nodiscard]] std::optional<ProofDemands> parse_demands(std::string_view text);

}  // namespace moonfence::policy
