#include "app/settings/proof_settings.h"

#include <array>
#include <string_view>

#include "app/settings/settings_values.h"
#include "base/text.h"

namespace moonfence::app {
namespace {

using policy::EvidenceSet;

constexpr std::array<std::string_view, 3> kKeys = {"drivers", "everywhere", "namespaces"};

Result<EvidenceSet> read_demand(const std::string& file, const YAML::Node& name,
                                const YAML::Node& value) {
  const std::string known = policy::evidence_words(policy::all_evidence(), ", ");
  EvidenceSet demand;
  for (std::size_t i = 0; value.IsSequence() && i < value.size(); ++i) {
    const std::string word = value[i].IsScalar() ? value[i].Scalar() : "";
    const auto evidence = policy::find_evidence(word);
    if (!evidence) {
      return bad(file, value[i], name.Scalar() + ": '" + escaped(word, 64) + "' is no evidence",
                 "write one or more of: " + known);
    }
    demand.insert(*evidence);
  }
  if (demand.empty()) {
    return bad(file, name, name.Scalar() + ": no list that names evidence",
               "write one or more of: " + known + "; for example [attested]");
  }
  return demand;
}

// `Key` is what the file's names become.
template <class Key>
Result<void> read_demands(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                          bool (*fits)(const std::string&), std::map<Key, EvidenceSet>& into) {
  if (!value.IsMap()) {
    return bad(file, name, name.Scalar() + ": not a mapping",
               "write {NAME: [EVIDENCE]}, for example {db: [attested]}");
  }
  for (const auto& entry : value) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (!fits(key)) {
      return bad(file, entry.first,
                 name.Scalar() + ": '" + escaped(key, 128) + "' is no valid name",
                 "`kubectl get namespaces,csidrivers` shows them");
    }
    if (into.contains(Key(key))) {
      return bad(file, entry.first, name.Scalar() + ": '" + escaped(key, 128) + "' stands twice",
                 "write it once, with all that is enough");
    }
    auto demand = read_demand(file, entry.first, entry.second);
    if (!demand) {
      return failure(std::move(demand.error()));
    }
    into.insert_or_assign(Key(key), *demand);
  }
  return {};
}

bool asks_for_silence_alone(EvidenceSet demand) {
  EvidenceSet silent;
  silent.insert(policy::Evidence::Silent);
  return demand == silent;
}

}  // namespace

Result<void> read_proof(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                        fence::DemandedProof& into) {
  return each_entry(
      file, name, value, kKeys,
      [&](const std::string& key, const YAML::Node& at,
          const YAML::Node& demanded) -> Result<void> {
        if (key == "namespaces") {
          return read_demands(
              file, at, demanded, [](const std::string& text) { return is_dns_label(text); },
              into.namespaces);
        }
        if (key == "drivers") {
          return read_demands(file, at, demanded, is_driver_name, into.drivers);
        }
        auto demand = read_demand(file, at, demanded);
        if (!demand) {
          return failure(std::move(demand.error()));
        }
        if (!into.everywhere.empty()) {
          return bad(file, at, "everywhere stands twice", "write it once, with all that is enough");
        }
        into.everywhere = *demand;
        return {};
      });
}

Result<void> check_proof(const std::string& file, const fence::DemandedProof& proof,
                         bool detection) {
  bool silence = asks_for_silence_alone(proof.everywhere);
  for (const auto& [space, demand] : proof.namespaces) {
    silence = silence || asks_for_silence_alone(demand);
  }
  for (const auto& [driver, demand] : proof.drivers) {
    silence = silence || asks_for_silence_alone(demand);
  }
  if (silence && !detection) {
    return failure(Error::Kind::Invalid,
                   file +
                       ": proof: where silent alone is demanded nothing is ever deleted, because "
                       "detection is off",
                   "set detection: on, or name other evidence beside silent");
  }
  return {};
}

}  // namespace moonfence::app
