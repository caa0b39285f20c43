// A pod goes when the storage of all its volumes refuses its node, and not before.

#include "fence/fencers/power_watch.h"
#include "unit/fence/storage_fixture.h"

namespace moonfence::fence {
namespace {

// It says what the endpoint says: of which drivers the storage refuses the node.
constexpr const char* kFencer =
    R"(return fencer { api = 1, name = "storage", version = "1.0.0", summary = "asks",
    plan = function(node, s, got)
      if not got.says then return { says = fence.http("vendor", "/drivers", node.name) } end
    end,
    state = function(node, s, got)
      local drivers = {}
      for _, each in ipairs(got.says.body.drivers) do table.insert(drivers, each) end
      if #drivers == 0 then return "on", "nothing refuses it" end
      return "isolated", "it refuses it", { drivers = drivers }
    end })";
constexpr const char* kWants =
    "return fence.delete_pod_and_attachments('dead', { proof = { 'off', 'isolated' } })";

struct IsolationTest : StorageTest {
  StoppedCpuClock cpu;
  nlohmann::json drivers = {driver};
  std::optional<PowerWatch> watch;

  IsolationTest() {
    fencing_drivers.clear();
    http.on(port::Method::Get, "/vendor/drivers/*", [this](const test::FakeRequest&) {
      return test::FakeAnswer{.body = nlohmann::json{{"drivers", drivers}}.dump()};
    });
    add_pod_with_volume("web-0");
  }
  void open(
      const std::shared_ptr<const policy::Policy>& policy = on_every_signal_with_volumes(kWants)) {
    watch.emplace(
        PowerWatch::Surroundings{
            .loop = loop,
            .reader = reader,
            .allowed_reads = allowed_reads,
            .endpoints = &endpoints,
            .log = log,
            .found = [this](const NodeName& node) { incidents->evidence_found(node); }},
        std::vector{BoundFencer{.fencer = std::make_shared<const policy::Policy>(
                                    *policy::Policy::load(kFencer, "storage.lua", cpu)),
                                .nodes = *policy::LabelSelector::parse("")}});
    powers = &*watch;
    take_up_nodes(policy);
  }
  void fall(Duration time = 1min) {
    tell(Look::Fell);
    run_for(time);
  }
};

TEST_F(IsolationTest, a_pod_and_its_attachment_go_when_their_driver_refuses_the_node) {
  drivers = nlohmann::json::array();
  open();
  fall();
  EXPECT_EQ(deleted(), Lines{});
  drivers = {driver};
  run_for(20s);
  ASSERT_EQ(deleted().size(), 2U);
  EXPECT_EQ(deleted()[0], "pod web-0");
  EXPECT_TRUE(deleted()[1].starts_with("attachment csi-"));
}

TEST_F(IsolationTest, a_policy_that_asks_for_no_volumes_is_told_all_the_same) {
  open(on_every_signal("return fence.delete_pod('dead', { proof = { 'isolated' } })"));
  fall();
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
}

TEST_F(IsolationTest, of_another_driver_is_not_enough) {
  drivers = {"other.example.com"};
  open();
  fall();
  EXPECT_EQ(deleted(), Lines{});
}

TEST_F(IsolationTest, a_pod_without_volumes_or_with_others_is_not_isolated) {
  add_pod("bare-0");
  add_pod_with_volume("mixed-0");
  pods["mixed-0"]["spec"]["volumes"].push_back({{"name", "more"}, {"nfs", {{"server", "x"}}}});
  open(on_every_signal("return fence.delete_pod('dead', { proof = { 'isolated' } })"));
  fall();
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
}

TEST_F(IsolationTest, a_claim_or_a_volume_that_cannot_be_read_proves_nothing) {
  broken_volume = "pv-web-0";
  open(on_every_signal("return fence.delete_pod('dead', { proof = { 'isolated' } })"));
  fall();
  EXPECT_EQ(deleted(), Lines{});
  broken_volume.clear();
  claims_answer = {.status = 403, .body = "no"};
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{});
  claims_answer = {};
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
}

TEST_F(IsolationTest, where_no_proof_is_demanded_unread_claims_hold_nobody) {
  claims_answer = {.status = 403, .body = "no"};
  open(on_every_signal("return fence.delete_pod('dead')"));
  fall();
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
}

TEST_F(IsolationTest, a_policy_sees_of_each_pod_whether_it_is_isolated) {
  add_pod("bare-0");
  open(
      on_every_signal("if pod.name == 'web-0' and not node.evidence.isolated then "
                      "return fence.wait('x') end "
                      "if pod.name == 'bare-0' and node.evidence.isolated then error('x') end "
                      "return fence.delete_pod('dead')"));
  fall();
  EXPECT_EQ(deleted().size(), 2U);
}

}  // namespace
}  // namespace moonfence::fence
