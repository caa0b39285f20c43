#pragma once

// A fencer that comes with the engine, and what it makes of answers. Requests are looked up by
// their text, such as "http cloud /servers/42"; one that nobody has an answer for fails.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "policy/bundle/builtin.h"
#include "policy/host/policy.h"
#include "policy/values/failed_answer.h"
#include "support/policies.h"

namespace moonfence::policy {

struct CloudAnswer {
  int status = 200;
  nlohmann::json body = {};
  std::string error = {};  // not empty: it fails so, with the status if it is not 0
  std::string code = {};   // with the error: the service's own word
};
using Cloud = std::map<std::string, CloudAnswer>;

inline CloudAnswer refused(int status) {
  return {.status = status, .error = "status"};
}

inline kube::Node machine(const std::string& provider_id, const std::string& uuid = "",
                          const nlohmann::json& metadata = nlohmann::json::object()) {
  nlohmann::json node = {{"metadata", metadata},
                         {"spec", {{"providerID", provider_id}}},
                         {"status", {{"nodeInfo", {{"systemUUID", uuid}}}}}};
  node["metadata"]["name"] = "n1";
  return node_of(node);
}

class ShippedFencer {
 public:
  explicit ShippedFencer(const std::string& name,
                         const nlohmann::json& settings = nlohmann::json::object())
      : fencer_(load(name, settings)) {}

  // "off: status off", as the engine would hear it; an error of the script is "unknown: …".
  std::string says(const kube::Node& node, const Cloud& cloud) {
    constexpr int kMostRounds = 8;
    got_ = nlohmann::json::object();
    asked.clear();
    for (int round = 0; round < kMostRounds; ++round) {
      const auto planned = fencer_.plan_power(node, got_).result;
      if (!planned) {
        return "unknown: " + planned.error().text;
      }
      if (planned->empty()) {
        return judged(node);
      }
      for (const auto& [key, request] : *planned) {
        if (const std::string missing = answer(key, request, cloud); !missing.empty()) {
          return "unknown: " + missing;
        }
      }
    }
    return "unknown: it still asks";
  }
  // The word alone.
  std::string word(const kube::Node& node, const Cloud& cloud) {
    const std::string said = says(node, cloud);
    return said.substr(0, said.find(':'));
  }
  // The order, after says().
  std::string order(const kube::Node& node) {
    const auto run = fencer_.order(node, got_);
    return !run.result           ? "error " + run.result.error().text
           : run.result->request ? run.result->request->text()
                                 : "not: " + run.result->why_not;
  }

  std::vector<std::string> asked;

 private:
  static Policy load(const std::string& name, const nlohmann::json& settings) {
    static StoppedCpuClock clock;
    for (const BuiltinPolicy& builtin : builtin_fencers()) {
      if (builtin.name == name) {
        auto fencer = Policy::load(std::string(builtin.source), name + "/fencer.lua", clock);
        EXPECT_TRUE(fencer) << (fencer ? "" : fencer.error().message());
        auto bound = fencer->with_settings(settings);
        EXPECT_TRUE(bound) << (bound ? "" : bound.error().message());
        return *std::move(bound);
      }
    }
    throw std::runtime_error("no fencer " + name);
  }

  // "" or why nothing is judged.
  std::string answer(const std::string& key, const Request& request, const Cloud& cloud) {
    asked.push_back(request.text());
    const auto found = cloud.find(request.text());
    const CloudAnswer told =
        found == cloud.end() ? CloudAnswer{.status = 0, .error = "unreachable"} : found->second;
    if (request.kind == Request::Kind::List && told.status == 404) {
      return request.text() + ": HTTP 404";  // of an unknown kind: no list is told to be missing
    }
    if (told.error.empty()) {
      const nlohmann::json* body = told.status == 404 ? nullptr : &told.body;
      got_[key] = request.tries ? tried_json(told.status, body) : answer_json(told.status, body);
      return {};
    }
    const std::string message = "endpoint x: HTTP " + std::to_string(told.status);
    if (request.tries) {
      got_[key] =
          failed_json({.error = told.error,
                       .message = message,
                       .status = told.status == 0 ? std::nullopt : std::optional(told.status),
                       .code = told.code});
    }
    return request.tries ? std::string() : message;
  }

  std::string judged(const kube::Node& node) {
    const auto run = fencer_.power_of(node, got_);
    if (!run.result) {
      return "unknown: script: " + run.result.error().text;
    }
    const bool asked_nobody = got_.empty();
    return std::string(to_string(asked_nobody ? Power::Failed : run.result->power)) + ": " +
           run.result->why;
  }

  Policy fencer_;
  nlohmann::json got_;
};

// Values that are none that an API documents, in place of what it answers or of a part of it.
inline const std::vector<nlohmann::json>& strange_values() {
  static const std::vector<nlohmann::json> values = {nullptr,
                                                     true,
                                                     0,
                                                     42,
                                                     -1,
                                                     1.5,
                                                     "",
                                                     "off",
                                                     "stopped",
                                                     nlohmann::json::array(),
                                                     nlohmann::json::object(),
                                                     {"off"},
                                                     {{"status", "off"}},
                                                     std::string(5000, 'x')};
  return values;
}

// Each value in the JSON, however deep, replaced by each strange one in turn. None may be taken
// for off, nor end in anything but a word.
template <class Says>
void expect_never_off(const nlohmann::json& body, const Says& says) {
  const nlohmann::json flat = body.flatten();
  std::vector<nlohmann::json::json_pointer> places = {nlohmann::json::json_pointer()};
  for (const auto& [path, unused] : flat.items()) {
    nlohmann::json::json_pointer at(path);
    for (; !at.empty(); at = at.parent_pointer()) {
      if (std::find(places.begin(), places.end(), at) == places.end()) {
        places.push_back(at);
      }
    }
  }
  for (const auto& place : places) {
    for (const nlohmann::json& strange : strange_values()) {
      nlohmann::json changed = body;
      if (changed[place] == strange) {
        continue;
      }
      changed[place] = strange;
      says(place.to_string(), changed);
    }
  }
}

// `good` is read as off. Each of these fields of it, and what it lies in, matters: removed, or
// replaced by a strange value, it leaves nothing that is off.
template <class Says>
void expect_each_matters(const nlohmann::json& good, const std::vector<std::string>& fields,
                         const Says& says) {
  ASSERT_TRUE(says(good).starts_with("off")) << says(good);
  const auto expect_not_off = [&says](const std::string& place, const nlohmann::json& changed) {
    const std::string said = says(changed);
    EXPECT_FALSE(said.starts_with("off")) << place << ": " << said << " of " << changed;
  };
  for (const std::string& field : fields) {
    const nlohmann::json::json_pointer leaf(field);
    nlohmann::json without = good;
    without.at(leaf.parent_pointer()).erase(leaf.back());
    expect_not_off("without " + field, without);
    for (auto at = leaf;; at = at.parent_pointer()) {
      for (const nlohmann::json& strange : strange_values()) {
        nlohmann::json changed = good;
        changed.at(at) = strange;
        if (changed != good) {
          expect_not_off(at.to_string(), changed);
        }
      }
      if (at.empty()) {
        break;
      }
    }
  }
}

}  // namespace moonfence::policy
