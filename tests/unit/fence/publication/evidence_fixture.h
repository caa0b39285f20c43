#pragma once

// One Node behind a scripted API server, an incident's authority over it, and what a fencer says.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "fence/publication/evidence_publisher.h"
#include "kube/objects/decode.h"
#include "support/fake_credentials.h"
#include "support/fake_http.h"
#include "support/fake_kernels.h"
#include "support/fake_log.h"
#include "support/fake_poller.h"
#include "support/leadership.h"
#include "support/policies.h"

namespace moonfence::fence::telling {

using namespace std::chrono_literals;
using nlohmann::json;
using policy::Power;
using test::FakeAnswer;
using test::FakeRequest;

constexpr const char* kAnnotation = "moonfence.io/fencing-evidence";

struct ReadPowers final : Powers {
  std::optional<PowerReading> reading;
  [[nodiscard]] bool may_act() const override { return false; }
  void look_at(const kube::Node& /*node*/) override {}
  [[nodiscard]] std::optional<PowerReading> reading_of(const NodeName& /*node*/,
                                                       const Uid& uid) const override {
    return reading && reading->node == uid ? reading : std::nullopt;
  }
  [[nodiscard]] std::string told_of(const NodeName& /*node*/) const override { return {}; }
  void order_begins(const NodeName& /*node*/, const PowerOrder& /*order*/) override {}
  void order_ended(const NodeName& /*node*/, const PowerOrder& /*order*/,
                   bool /*may_have_arrived*/) override {}
  [[nodiscard]] std::optional<LastOrder> last_order(const NodeName& /*node*/) const override {
    return std::nullopt;
  }
};

inline json make_node(const std::string& uid = "uid-1") {
  return {{"metadata",
           {{"name", "n1"},
            {"uid", uid},
            {"resourceVersion", "7"},
            {"annotations", {{"node.alpha.kubernetes.io/ttl", "0"}}}}},
          {"status",
           {{"nodeInfo", {{"bootID", "boot-1"}}},
            {"conditions",
             {{{"type", "Ready"},
               {"status", "Unknown"},
               {"lastHeartbeatTime", "2026-01-02T04:59:00Z"},
               {"lastTransitionTime", "2026-01-02T05:00:00Z"}}}}}}};
}

inline kube::Node decoded(const json& object) {
  auto node = kube::decode_node(object, /*keep_raw=*/true);
  EXPECT_TRUE(node) << node.error().message();
  return *std::move(node);
}

inline PowerReading power(Power power, Moment asked, std::set<std::string> drivers = {}) {
  return {.state = {.power = power, .why = "it says so", .drivers = std::move(drivers)},
          .fencer = "bmc",
          .node = Uid("uid-1"),
          .asked = asked};
}

inline json condition_of(const json& node, const std::string& type) {
  for (const json& each : node["status"]["conditions"]) {
    if (each["type"] == type) {
      return each;
    }
  }
  return {};
}

}  // namespace moonfence::fence::telling
