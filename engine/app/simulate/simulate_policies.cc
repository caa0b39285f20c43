#include "app/simulate/simulate_policies.h"

#include <map>
#include <utility>

#include "base/text.h"

namespace moonfence::app {
namespace {

using sim::Happening;
using sim::Json;

struct State {
  std::string what;
  std::string detail;

  friend bool operator==(const State&, const State&) = default;
};

// By replica and policy.
std::map<std::pair<std::string, std::string>, State> states_of(const sim::Object& map) {
  std::map<std::pair<std::string, std::string>, State> states;
  if (map == nullptr || !map->contains("data")) {
    return states;
  }
  for (const auto& [replica, text] : (*map)["data"].items()) {
    const Json report =
        Json::parse(text.is_string() ? text.get<std::string>() : "", nullptr, false);
    if (!report.is_object()) {
      continue;
    }
    for (const Json& policy : report.value("policies", Json::array())) {
      State& state = states[{replica, policy.value("name", "")}];
      state.what = policy.value("state", "") + " in namespaces " + policy.value("namespaces", "");
      if (policy.contains("error")) {
        state.detail = escaped(policy["error"].value("message", ""));
      }
    }
    for (const Json& fault : report.value("faults", Json::array())) {
      states[{replica, "moonfence.yaml"}] = {
          .what = "faulty",
          .detail = escaped(fault.is_object() ? fault.value("message", "") : fault.dump())};
    }
  }
  return states;
}

}  // namespace

std::vector<Happening> policy_news(const sim::Change& change, Duration at) {
  std::vector<Happening> news;
  if (change.key.resource != "configmaps" || change.key.space != "moonfence") {
    return news;
  }
  if (change.key.name == "moonfence-policies") {
    news.push_back({.at = at,
                    .kind = Happening::Kind::Policies,
                    .subject = "moonfence-policies",
                    .what = change.type == sim::ChangeType::Deleted ? "deleted" : "edited"});
    return news;
  }
  if (change.key.name != "moonfence-status") {
    return news;
  }
  const auto before = states_of(change.before);
  for (auto& [whose, state] : states_of(change.after)) {
    const auto known = before.find(whose);
    if (known == before.end() || !(known->second == state)) {
      news.push_back({.at = at,
                      .kind = Happening::Kind::Policies,
                      .subject = whose.second,
                      .what = state.what,
                      .detail = state.detail});
    }
  }
  return news;
}

}  // namespace moonfence::app
