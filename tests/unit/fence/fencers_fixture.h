#pragma once

// Fencers that ask one endpoint, GET /NAME/NODE, and what it answers about each.

#include "fence/fencers/power_question.h"
#include "unit/fence/fence_fixture.h"

namespace moonfence::fence {

struct FencersTest : FenceTest {
  StoppedCpuClock cpu;
  Lines asked;                                    // "bmc/n1", in order
  std::map<std::string, test::FakeAnswer> given;  // by such a line, or by the fencer; else it is on

  FencersTest() {
    http.on(port::Method::Get, "/vendor/*", [this](const test::FakeRequest& request) {
      const std::string what = request.path.substr(std::string_view("/vendor/").size());
      asked.push_back(what);
      const auto of_node = given.find(what);
      const auto of_fencer = given.find(what.substr(0, what.find('/')));
      return of_node != given.end()     ? of_node->second
             : of_fencer != given.end() ? of_fencer->second
                                        : power("on");
    });
  }
  static test::FakeAnswer power(const std::string& state) {
    return {.body = nlohmann::json{{"state", state}}.dump()};
  }
  static test::FakeAnswer refused() { return {.status = 401, .body = "no"}; }

  // One that can also switch machines off.
  [[nodiscard]] BoundFencer bound(const std::string& name, const std::string& selector = "") {
    return bound_text(name,
                      R"(
      plan = function(node, s, got)
        if not got.power then return { power = fence.http("vendor", ")" +
                          ("/" + name) +
                          R"(", node.name) } end
      end,
      state = function(node, s, got) return got.power.body.state, "it says so" end,
      off = function(node, s, got) return fence.post("vendor", "/switch", {}) end)",
                      selector);
  }
  [[nodiscard]] BoundFencer bound_text(const std::string& name, const std::string& functions,
                                       const std::string& selector = "") {
    auto loaded =
        policy::Policy::load("return fencer { api = 1, name = \"" + name +
                                 "\", version = \"1.0.0\", summary = \"asks\"," + functions + " }",
                             name + ".lua", cpu);
    EXPECT_TRUE(loaded) << loaded.error().message();
    return {.fencer = std::make_shared<const policy::Policy>(*std::move(loaded)),
            .nodes = *policy::LabelSelector::parse(selector),
            .may_act = true};
  }
  [[nodiscard]] std::size_t orders() const {
    return static_cast<std::size_t>(
        std::count_if(http.requests.begin(), http.requests.end(),
                      [](const auto& request) { return request.method == port::Method::Post; }));
  }
};

}  // namespace moonfence::fence
