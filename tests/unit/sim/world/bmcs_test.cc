#include "sim/world/bmcs.h"

#include <optional>
#include <string>

#include "unit/sim/cluster_fixture.h"

namespace moonfence::sim {
namespace {

constexpr const char* kSystem = "/redfish/v1/Systems/1";
constexpr const char* kReset = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";

struct BmcsTest : ClusterTest {
  BmcPlan& bmc(BmcKind kind) {
    plan.timings.boot = 20s;
    return plan.bmcs.emplace_back(BmcPlan{.node = "n1", .kind = kind});
  }
  BmcAnswer ask(port::Method method, const std::string& path, const std::string& body = {}) {
    std::optional<BmcAnswer> heard;
    cluster->bmcs().send(1ms, {.bmc = "bmc-n1", .method = method, .path = path, .body = body},
                         [&heard](const BmcAnswer& answer) { heard = answer; });
    run_for(2ms);
    return heard.value_or(BmcAnswer{.status = -1});
  }
  BmcAnswer order() { return ask(port::Method::Post, kReset, R"({"ResetType":"ForceOff"})"); }
  Json system() { return Json::parse(ask(port::Method::Get, kSystem).body, nullptr, false); }
  std::string state() { return text_field(system(), {"PowerState"}); }
  [[nodiscard]] const Machine& machine(const std::string& name = "n1") const {
    return cluster->machines().by_name.at(name);
  }
};

TEST_F(BmcsTest, it_says_whose_machine_it_is_and_whether_that_has_power) {
  bmc(BmcKind::Honest);
  start();
  EXPECT_EQ(text_field(system(), {"UUID"}),
            text_field(*node("n1"), {"status", "nodeInfo", "systemUUID"}));
  EXPECT_EQ(state(), "On");
  perform(Verb::PowerOff, "n1");
  EXPECT_EQ(state(), "Off");
}

TEST_F(BmcsTest, a_machine_that_is_ordered_off_loses_its_power_and_whatever_runs_on_it) {
  bmc(BmcKind::Honest).off_takes = 5s;
  add(WorkloadKind::StatefulSet, "core").node = "n1";
  start();
  perform(Verb::PartitionNode, "n1");
  EXPECT_EQ(order().status, 204);
  EXPECT_EQ(state(), "PoweringOff");
  EXPECT_TRUE(contains_container("n1", uid_of(*pod("core-0"))));
  run_for(5s);
  EXPECT_FALSE(machine().powered);
  EXPECT_TRUE(machine().containers.empty());
  EXPECT_EQ(state(), "Off");
}

TEST_F(BmcsTest, somebody_switches_it_on_again_once) {
  bmc(BmcKind::Honest).on_again = 10s;
  start();
  order();
  run_for(5s);
  EXPECT_FALSE(machine().powered);
  run_for(6s);
  EXPECT_TRUE(machine().powered && !machine().answers());
  EXPECT_EQ(state(), "On");
  run_for(20s);
  EXPECT_TRUE(machine().sound());
  order();
  run_for(1min);
  EXPECT_FALSE(machine().powered);
}

TEST_F(BmcsTest, a_button_mends_no_cable) {
  bmc(BmcKind::Honest).on_again = 10s;
  start();
  perform(Verb::PartitionNode, "n1");
  order();
  run_for(1min);
  EXPECT_TRUE(machine().runs());
  EXPECT_FALSE(machine().answers());
  perform(Verb::Heal, "n1");
  EXPECT_TRUE(machine().sound());
}

TEST_F(BmcsTest, cables_that_were_changed_lead_to_another_machine) {
  bmc(BmcKind::Honest).of = "n2";
  start();
  EXPECT_EQ(text_field(system(), {"UUID"}),
            text_field(*node("n2"), {"status", "nodeInfo", "systemUUID"}));
  order();
  run_for(1s);
  EXPECT_TRUE(machine("n1").powered);
  EXPECT_FALSE(machine("n2").powered);
}

TEST_F(BmcsTest, who_accepts_and_does_nothing) {
  for (const BmcKind kind : {BmcKind::Stubborn, BmcKind::Hanging, BmcKind::Lying}) {
    plan.bmcs.clear();
    bmc(kind);
    start();
    EXPECT_EQ(order().status, 204);
    run_for(1min);
    EXPECT_TRUE(machine().powered);
    EXPECT_EQ(state(), kind == BmcKind::Stubborn  ? "On"
                       : kind == BmcKind::Hanging ? "PoweringOff"
                                                  : "Off");
  }
}

TEST_F(BmcsTest, who_does_it_and_does_not_say_so) {
  for (const BmcKind kind : {BmcKind::Stuck, BmcKind::Late}) {
    plan.bmcs.clear();
    bmc(kind);
    start();
    order();
    run_for(50s);
    EXPECT_FALSE(machine().powered);
    EXPECT_EQ(state(), "On");
    run_for(11s);
    EXPECT_EQ(state(), kind == BmcKind::Late ? "Off" : "On");
  }
}

TEST_F(BmcsTest, who_answers_nothing_that_helps) {
  const auto answer = [this](BmcKind kind) {
    plan.bmcs.clear();
    bmc(kind).takes = 7s;
    start();
    return ask(port::Method::Get, kSystem);
  };
  EXPECT_EQ(answer(BmcKind::Dead).status, 0);
  EXPECT_EQ(answer(BmcKind::Busy).status, 503);
  EXPECT_EQ(answer(BmcKind::Locked).status, 401);
  EXPECT_TRUE(Json::parse(answer(BmcKind::Broken).body, nullptr, false).is_discarded());
  EXPECT_EQ(answer(BmcKind::Honest).takes, 7s);
  (void)answer(BmcKind::Refusing);
  EXPECT_EQ(order().status, 409);
  run_for(1s);
  EXPECT_TRUE(machine().powered);
}

}  // namespace
}  // namespace moonfence::sim
