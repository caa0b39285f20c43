#include "fence/act/fencer_orders.h"

#include "fence/fencers/power_watch.h"
#include "unit/fence/incidents_fixture.h"

namespace moonfence::fence {
namespace {

// Asks GET /power, and switches off by POST /switch.
constexpr const char* kFencer =
    R"(return fencer { api = 1, name = "bmc", version = "1.0.0", summary = "asks",
    plan = function(node, s, got)
      if not got.power then return { power = fence.http("vendor", "/power", node.name) } end
    end,
    state = function(node, s, got) return got.power.body.state, "it says so" end,
    off = function(node, s, got)
      if got.power.body.fixed then return nil, "its button is stuck" end
      return fence.post("vendor", "/switch", { to = "off", of = node.name })
    end })";
constexpr const char* kWantsOff = "return fence.delete_pod('dead', { proof = { 'off' } })";

// What the machine does about an order is for a test to say.
struct FencerOrdersTest : IncidentsTest {
  StoppedCpuClock cpu;
  nlohmann::json said = {{"state", "on"}};
  std::vector<std::string> orders;
  test::FakeAnswer order_answer = {.status = 204, .body = ""};
  std::function<void()> obey = [] {};
  std::optional<PowerWatch> watch;

  FencerOrdersTest() {
    http.on(port::Method::Get, "/vendor/power/*",
            [this](const test::FakeRequest&) { return test::FakeAnswer{.body = said.dump()}; });
    http.on(port::Method::Post, "/vendor/switch", [this](const test::FakeRequest& request) {
      orders.push_back(request.body);
      obey();
      return order_answer;
    });
    add_pod("web-0");
  }
  void open(const std::string& body = kWantsOff, Mode mode = Mode::Enforce, bool may = true) {
    watch.emplace(
        PowerWatch::Surroundings{
            .loop = loop,
            .reader = reader,
            .allowed_reads = allowed_reads,
            .endpoints = &endpoints,
            .log = log,
            .found = [this](const NodeName& node) { incidents->evidence_found(node); }},
        std::vector{BoundFencer{.fencer = std::make_shared<const policy::Policy>(
                                    *policy::Policy::load(kFencer, "bmc.lua", cpu)),
                                .nodes = *policy::LabelSelector::parse(""),
                                .may_act = may}});
    powers = &*watch;
    take_up_nodes(on_every_signal(body), mode);
  }
  void bind(std::vector<Binding> bindings) {
    activate(std::move(bindings));
    incidents->policies_changed();
  }
  void fall(Duration time = 1min) {
    tell(Look::Fell);
    run_for(time);
  }
  // Of switching it off: "intent switches_off".
  [[nodiscard]] Lines told() const {
    Lines lines;
    for (const Record& record : story.records) {
      if (record.action == "switch_off") {
        lines.push_back(std::string(to_string(record.kind)) + " " +
                        std::string(code(record.reason)));
      }
    }
    return lines;
  }
};

TEST_F(FencerOrdersTest, a_machine_that_is_on_is_switched_off_and_its_pods_go_when_that_is_read) {
  obey = [this] {
    EXPECT_EQ(deletes(), Lines{});
    said["state"] = "off";
  };
  open();
  fall(15s);
  EXPECT_EQ(orders, Lines{R"({"of":"n1","to":"off"})"});
  EXPECT_EQ(told(), (Lines{"intent switches_off", "outcome done"}));
  EXPECT_TRUE(pods.empty());
}

TEST_F(FencerOrdersTest,
       that_it_was_accepted_proves_nothing_and_it_is_told_again_every_half_minute) {
  open();
  fall(20s);
  EXPECT_EQ(orders.size(), 1U);
  run_for(1min);
  EXPECT_EQ(orders.size(), 3U);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(incidents->open_incidents(), 1U);
}

// Two incidents may be open of one node, by two signals: one order is enough.
TEST_F(FencerOrdersTest, that_it_is_being_told_is_known_before_it_has_answered) {
  std::optional<LastOrder> known;
  obey = [this, &known] { known = watch->last_order(NodeName("n1")); };
  open();
  fall(20s);
  EXPECT_NE(known, std::nullopt);
  EXPECT_EQ(orders.size(), 1U);
}

// Some controllers do it although their answer is lost: it is read before it is repeated.
TEST_F(FencerOrdersTest, an_answer_that_was_lost_is_not_repeated_blindly) {
  order_answer = test::FakeAnswer::lost();
  open();
  fall(20s);
  EXPECT_EQ(orders.size(), 1U);
  EXPECT_EQ(told(), (Lines{"intent switches_off", "outcome outcome_lost"}));
  said["state"] = "off";
  run_for(10s);
  EXPECT_TRUE(pods.empty());
  EXPECT_EQ(orders.size(), 1U);
}

TEST_F(FencerOrdersTest,
       a_refusal_is_tried_again_at_the_pace_of_failures_for_as_long_as_it_is_down) {
  order_answer = {.status = 400, .body = "no"};
  open();
  fall(5min);
  EXPECT_GE(orders.size(), 5U);
  EXPECT_LE(orders.size(), 12U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Refused), orders.size());
  order_answer = {.status = 204, .body = ""};
  obey = [this] { said["state"] = "off"; };
  run_for(3min);
  EXPECT_TRUE(pods.empty());
}

TEST_F(FencerOrdersTest, without_the_word_of_the_configuration_or_a_way_it_only_asks) {
  open(kWantsOff, Mode::Enforce, false);
  fall();
  EXPECT_EQ(orders, Lines{});
  said["fixed"] = true;
  open();
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(orders, Lines{});
  EXPECT_NE(watch->told_of(NodeName("n1")).find("its button is stuck"), std::string::npos);
}

TEST_F(FencerOrdersTest, it_is_for_a_pod_that_lacks_this_proof_and_nothing_else) {
  for (const char* body : {"return fence.delete_pod('dead')", "return fence.skip('not mine')",
                           "return fence.delete_pod('dead', { proof = { 'attested' } })",
                           "return fence.wait('for ever', 5)"}) {
    add_pod("web-0");
    open(body);
    fall();
    EXPECT_EQ(orders, Lines{}) << body;
    incidents.reset();
  }
  // The configuration demands another proof beside it.
  policy::EvidenceSet attested;
  attested.insert(policy::Evidence::Attested);
  protections.proof.everywhere = attested;
  open();
  fall();
  EXPECT_EQ(orders, Lines{});
}

TEST_F(FencerOrdersTest, the_configuration_s_demand_counts_like_a_policy_s) {
  policy::EvidenceSet either;
  either.insert(policy::Evidence::Attested);
  either.insert(policy::Evidence::Off);
  protections.proof.everywhere = either;
  open("return fence.delete_pod('dead')");
  fall(5s);
  EXPECT_EQ(orders.size(), 1U);
}

// Ending all that runs there for a pod that stays all the same helps nobody.
TEST_F(FencerOrdersTest, it_must_be_enough_for_every_policy_of_the_pod) {
  const auto wants = [](const std::string& name, const std::string& proof) {
    return binding_of(named_policy(name,
                                   "return fence.delete_pod('dead', { proof = { " + proof + " } })",
                                   "trigger = { live_kubelet = true },"));
  };
  open();
  bind({wants("one", "'off'"), wants("two", "'attested'")});
  fall();
  EXPECT_EQ(orders, Lines{});
  bind({wants("one", "'off'"), wants("two", "'attested', 'off'")});
  run_for(10s);
  EXPECT_EQ(orders.size(), 1U);
}

TEST_F(FencerOrdersTest, what_a_policy_demands_of_the_node_counts_too) {
  open();
  bind({binding_of(on_every_signal(kWantsOff)),
        binding_of(named_policy("whole", "return fence.delete_pod('dead')", R"(
            trigger = { live_kubelet = true },
            node = function() return fence.taint_out_of_service('dead', { proof = { 'attested' } }) end,)"))});
  fall();
  EXPECT_EQ(orders, Lines{});
}

TEST_F(FencerOrdersTest, a_policy_that_holds_the_node_keeps_it_on) {
  add_pod("other-0", "n1", "shop");
  open();
  bind({binding_of(named_policy("holder", kWantsOff, R"(
            trigger = { live_kubelet = true },
            node = function() return fence.hold('a person looks', 5) end,)")),
        binding_of(on_every_signal("return fence.delete_pod('dead')")),
        binding_of(named_policy("other", kWantsOff, "trigger = { live_kubelet = true },"),
                   Mode::Enforce, {Namespace("shop")})});
  fall();
  EXPECT_EQ(orders, Lines{});
}

// It takes its time to connect, and keeps no connection.
TEST_F(FencerOrdersTest, a_controller_that_connects_slowly_is_told) {
  obey = [this] { said["state"] = "off"; };
  http.connecting["/vendor/switch"] = 3s;
  open();
  fall(40s);
  EXPECT_EQ(orders.size(), 1U);
  EXPECT_TRUE(pods.empty());
}

TEST_F(FencerOrdersTest, who_observes_switches_nothing_off) {
  open(kWantsOff, Mode::Observe);
  fall();
  EXPECT_EQ(orders, Lines{});
}

// Whoever switches a machine off ends all of its pods.
TEST_F(FencerOrdersTest, whoever_speaks_against_any_pod_of_the_node_keeps_it_on) {
  for (const char* body :
       {"return fence.forbid('the last copy')", "return fence.wait('for a copy', 5)",
        "return fence.hold('a person looks', 5)", "error('broken')"}) {
    story.records.clear();
    add_pod("other-0", "n1", "shop");
    open();
    bind({binding_of(on_every_signal(kWantsOff)),
          binding_of(named_policy("other", body, "trigger = { live_kubelet = true },"),
                     Mode::Enforce, {Namespace("shop")})});
    fall();
    EXPECT_EQ(orders, Lines{}) << body;
    EXPECT_EQ(told().size(), 1U) << body;  // once in an incident
    EXPECT_EQ(deletes(), Lines{}) << body;
    incidents.reset();
  }
}

TEST_F(FencerOrdersTest, a_guard_that_could_not_be_loaded_keeps_it_on) {
  add_pod("other-0", "n1", "shop");
  open();
  bind({binding_of(on_every_signal(kWantsOff)), broken_guard({Namespace("shop")})});
  fall();
  EXPECT_EQ(orders, Lines{});
}

TEST_F(FencerOrdersTest, what_only_observes_or_skips_does_not_keep_it_on) {
  add_pod("other-0", "n1", "shop");
  open();
  bind({binding_of(on_every_signal(kWantsOff)),
        binding_of(named_policy("other", "return fence.forbid('no')"), Mode::Observe,
                   {Namespace("shop")}),
        binding_of(named_policy("third", "return fence.skip('no')"), Mode::Enforce,
                   {Namespace("shop")})});
  fall(5s);
  EXPECT_EQ(orders.size(), 1U);
}

// A guard is asked beside others, but has nothing done before it may act itself.
TEST_F(FencerOrdersTest, a_policy_that_may_not_act_yet_switches_nothing_off) {
  add_pod("other-0", "n1", "shop");
  const Binding late =
      binding_of(named_policy("late", kWantsOff, "trigger = { failures = 2, interval = '10m' },"));
  const Binding soon = binding_of(
      named_policy("soon", "return fence.skip('no')", "trigger = { live_kubelet = true },"),
      Mode::Enforce, {Namespace("db"), Namespace("shop")});
  open();
  bind({soon, late});
  fall(5min);
  EXPECT_EQ(orders, Lines{});
  run_for(16min);
  EXPECT_GE(orders.size(), 1U);
}

TEST_F(FencerOrdersTest,
       a_policy_that_leaves_out_nodes_that_it_did_not_see_fall_switches_none_off) {
  add_pod("other-0", "n1", "shop");
  open();
  bind({binding_of(
            named_policy("soon", "return fence.skip('no')", "trigger = { live_kubelet = true },"),
            Mode::Enforce, {Namespace("db"), Namespace("shop")}),
        binding_of(named_policy("fresh", kWantsOff,
                                "trigger = { live_kubelet = true, sweep = false },"))});
  tell(Look::Swept);
  run_for(2min);
  EXPECT_EQ(orders, Lines{});
}

// What no policy selects is listed too: whoever holds it is heard.
TEST_F(FencerOrdersTest, a_hold_on_a_pod_or_namespace_that_no_policy_knows_keeps_it_on) {
  add_pod("other-0", "n1", "shop", "unknown");
  pods.at("other-0")["metadata"]["annotations"] = {{"moonfence.io/hold", "a person looks"}};
  open();
  fall();
  EXPECT_EQ(orders, Lines{});
  const auto refusal =
      std::find_if(story.records.begin(), story.records.end(),
                   [](const Record& record) { return record.action == "switch_off"; });
  ASSERT_NE(refusal, story.records.end());
  EXPECT_EQ(refusal->reason, Reason::OnHold);
  EXPECT_NE(refusal->text.find("pod shop/other-0: a person looks"), std::string::npos)
      << refusal->text;
  pods.at("other-0")["metadata"].erase("annotations");
  namespaces["shop"] = {{"moonfence.io/hold", "audit"}};
  run_for(1min);
  EXPECT_EQ(orders, Lines{});
  // And goes on when nobody holds anything, also because what was held is gone.
  pods.at("other-0")["metadata"]["annotations"] = {{"moonfence.io/hold", "again"}};
  namespaces.clear();
  run_for(1min);
  EXPECT_EQ(orders, Lines{});
  pods.erase("other-0");
  run_for(1min);
  EXPECT_GE(orders.size(), 1U);
}

TEST_F(FencerOrdersTest, pods_that_can_never_go_do_not_stand_in_the_way_of_those_that_wait) {
  add_pod("agent", "n1", "db");
  pods.at("agent")["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  add_pod("bare", "n1", "db");
  pods.at("bare")["metadata"].erase("ownerReferences");
  protections.namespaces = {Namespace("a")};
  add_pod("aaa", "n1", "a");
  open();
  bind({everywhere(on_every_signal(kWantsOff))});
  fall(5s);
  EXPECT_EQ(orders.size(), 1U);
}

// It answers when its last word has just grown too old.
TEST_F(FencerOrdersTest, a_slow_controller_is_heard) {
  http.on(port::Method::Get, "/vendor/power/*", [this](const test::FakeRequest&) {
    return test::FakeAnswer{.body = said.dump(), .delay = 4900ms};
  });
  obey = [this] { said["state"] = "off"; };
  open();
  fall(40s);
  EXPECT_EQ(orders.size(), 1U);
  EXPECT_TRUE(pods.empty());
}

TEST_F(FencerOrdersTest, a_machine_that_answers_stays_on_whatever_a_trigger_says) {
  open();
  activate({binding_of(policy_of(kWantsOff, "trigger = { live_kernel = true },"))});
  incidents->policies_changed();
  kernels.kernel = cluster::Kernel::Answers;
  fall();
  EXPECT_EQ(orders, Lines{});
  kernels.kernel = cluster::Kernel::Silent;
  run_for(30s);
  EXPECT_EQ(orders.size(), 1U);
}

TEST_F(FencerOrdersTest, while_its_pods_are_not_all_known_it_stays_on) {
  list_answer = broken();
  open();
  fall();
  EXPECT_EQ(orders, Lines{});
  list_answer = {};
  run_for(1min);
  EXPECT_GE(orders.size(), 1U);
}

}  // namespace
}  // namespace moonfence::fence
