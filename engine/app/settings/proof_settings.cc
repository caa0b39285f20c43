#include "app/settings/proof_settings.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "app/settings/fencer_settings.h"
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

// Of what is demanded the first for which nothing could ever be enough.
std::optional<EvidenceSet> first_hopeless(const Settings& settings) {
  EvidenceSet possible = policy::all_evidence();
  if (!settings.detection.on) {
    possible.remove(policy::Evidence::Silent);
  }
  const auto may = [&settings](bool isolate) {
    return std::any_of(settings.fencers.begin(), settings.fencers.end(),
                       [isolate](const FencerSetting& each) {
                         return !each.file.empty() || (each.name == kIsolatesOnly) == isolate;
                       });
  };
  if (!may(false)) {
    possible.remove(policy::Evidence::Off);
  }
  if (!may(true)) {
    possible.remove(policy::Evidence::Isolated);
  }
  policy::ProofDemands demands = {settings.proof.everywhere};
  for (const auto& [space, demand] : settings.proof.namespaces) {
    demands.push_back(demand);
  }
  for (const auto& [driver, demand] : settings.proof.drivers) {
    demands.push_back(demand);
  }
  return fence::unmet(demands, possible);
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

Result<void> check_proof(const std::string& file, const Settings& settings) {
  const auto hopeless = first_hopeless(settings);
  if (!hopeless) {
    return {};
  }
  return failure(Error::Kind::Invalid,
                 file + ": proof: where only " + policy::evidence_words(*hopeless, " or ") +
                     " is demanded nothing is ever deleted: silent needs detection: on; off "
                     "needs fencers other than network-fence; isolated needs network-fence or a "
                     "fencer of your own",
                 "set them, or name other evidence beside it");
}

}  // namespace moonfence::app
