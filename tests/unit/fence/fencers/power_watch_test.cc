#include "fence/fencers/power_watch.h"

#include "unit/fence/fence_fixture.h"

namespace moonfence::fence {
namespace {

using policy::Power;

// Asks GET /power of the endpoint, whose body is the state, or none that is known.
std::string fencer_text(const std::string& name, const std::string& path = "/power") {
  return R"(local function list(given)
      local copied = {}
      for _, each in ipairs(given or {}) do table.insert(copied, each) end
      return copied
    end
    return fencer { api = 1, name = ")" +
         name +
         R"(", version = "1.0.0", summary = "asks",
    plan = function(node, s, got)
      if not got.power then return { power = fence.http("vendor", ")" +
         path + R"(", node.name) } end
    end,
    state = function(node, s, got)
      if got.power.status ~= 200 then return "failed", "no such machine" end
      return got.power.body.state, "it says so", { drivers = list(got.power.body.drivers) }
    end,
    off = function(node) return fence.post("vendor", "/switch", { of = node.name }) end })";
}

struct PowerWatchTest : FenceTest {
  StoppedCpuClock cpu;
  nlohmann::json said = {{"state", "on"}};
  test::FakeAnswer answer;
  int asked = 0;
  std::optional<PowerWatch> power;
  const PowerOrder order = {.request = {.kind = policy::Request::Kind::Post, .endpoint = "vendor"},
                            .aim = {.power = policy::Power::Off}};

  PowerWatchTest() {
    for (const char* path : {"/vendor/power/*", "/vendor/other/*"}) {
      http.on(port::Method::Get, path, [this, path](const test::FakeRequest&) {
        ++asked;
        test::FakeAnswer given = answer;
        if (std::string_view(path) == "/vendor/other/*") {
          given = {};
        }
        given.body = given.body.empty() ? said.dump() : given.body;
        return given;
      });
    }
  }
  [[nodiscard]] BoundFencer bound(const std::string& name, const std::string& path = "/power",
                                  const std::string& selector = "") {
    return {.fencer = std::make_shared<const policy::Policy>(
                *policy::Policy::load(fencer_text(name, path), name + ".lua", cpu)),
            .nodes = *policy::LabelSelector::parse(selector)};
  }
  void open(std::vector<BoundFencer> fencers) {
    power.emplace(PowerWatch::Surroundings{.loop = loop,
                                           .reader = reader,
                                           .allowed_reads = allowed_reads,
                                           .endpoints = &endpoints,
                                           .log = log},
                  std::move(fencers));
  }
  static kube::Node node(const std::string& uid = "node-1") {
    kube::Node made;
    made.name = NodeName("n1");
    made.uid = Uid(uid);
    made.labels = {{"rack", "4"}};
    made.raw = std::make_shared<const nlohmann::json>(
        nlohmann::json{{"metadata", {{"name", "n1"}, {"uid", uid}}}});
    return made;
  }
  // Looks, and waits for what comes of it.
  std::string look(const std::string& uid = "node-1", Duration time = 100ms) {
    power->look_at(node(uid));
    run_for(time);
    const auto reading = power->reading_of(NodeName("n1"), Uid(uid));
    return reading ? reading->fencer + " " + std::string(to_string(reading->state.power)) : "none";
  }
};

TEST_F(PowerWatchTest, a_machine_is_asked_when_somebody_looks_at_its_node) {
  open({bound("bmc")});
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(look(), "bmc on");
  said["state"] = "off";
  run_for(PowerWatch::kEvery);
  EXPECT_EQ(look(), "bmc off");
  EXPECT_EQ(power->told_of(NodeName("n1")), "bmc: off, it says so");
}

TEST_F(PowerWatchTest, it_is_not_asked_more_often_than_that) {
  open({bound("bmc")});
  for (int i = 0; i < 10; ++i) {
    look();
  }
  EXPECT_EQ(asked, 1);
}

// Most controllers cut the power at once.
TEST_F(PowerWatchTest, after_an_order_it_is_read_again_soon_by_itself) {
  open({bound("bmc")});
  look();
  power->order_begins(NodeName("n1"), order);
  power->order_ended(NodeName("n1"), order, true);
  run_for(50ms);
  for (const int seconds : {1, 2, 3, 4, 5}) {
    run_for(1s);
    EXPECT_EQ(asked, 1 + std::min(seconds, 3) + seconds / 5) << seconds;
  }
  run_for(1min);
  EXPECT_EQ(asked, 5);
  EXPECT_EQ(power->last_order(NodeName("n1"))->at, Moment{} + 100ms);
}

// Its kubelet does not speak before it has booted.
TEST_F(PowerWatchTest, whoever_was_switched_on_by_somebody_is_left_on_for_a_while) {
  const auto has_order = [this] {
    look();
    return power->reading_of(NodeName("n1"), Uid("node-1"))->order.has_value();
  };
  BoundFencer fencer = bound("bmc");
  fencer.may_act = true;
  open({fencer});
  EXPECT_TRUE(has_order());
  said["state"] = "off";
  run_for(PowerWatch::kEvery);
  look();
  said["state"] = "on";
  run_for(PowerWatch::kEvery);
  EXPECT_FALSE(has_order());
  EXPECT_NE(power->told_of(NodeName("n1")).find("somebody has switched it on"), std::string::npos);
  run_for(PowerWatch::kSwitchedOn);
  EXPECT_TRUE(has_order());
}

TEST_F(PowerWatchTest, whose_kubelet_has_spoken_since_it_was_switched_on_is_in_another_outage) {
  BoundFencer fencer = bound("bmc");
  fencer.may_act = true;
  open({fencer});
  said["state"] = "off";
  look();
  said["state"] = "on";
  run_for(PowerWatch::kEvery);
  kube::Node booted = node();
  booted.boot_id = "another";
  power->look_at(booted);
  run_for(100ms);
  EXPECT_TRUE(power->reading_of(NodeName("n1"), Uid("node-1"))->order);
}

// Two incidents may be open of one node: the other one gives no order beside it.
TEST_F(PowerWatchTest, an_order_is_known_while_it_is_under_way_and_not_when_it_has_not_left) {
  open({bound("bmc")});
  look();
  const Moment before = loop.now();
  power->order_begins(NodeName("n1"), order);
  EXPECT_EQ(power->last_order(NodeName("n1"))->at, before);
  power->order_ended(NodeName("n1"), order, false);
  EXPECT_FALSE(power->last_order(NodeName("n1")));
}

TEST_F(PowerWatchTest, the_end_of_an_order_is_none_of_another) {
  open({bound("bmc")});
  look();
  PowerOrder other = order;
  other.request.path = "/other";
  power->order_begins(NodeName("n1"), other);
  power->order_ended(NodeName("n1"), order, false);
  EXPECT_TRUE(power->last_order(NodeName("n1")));
}

TEST_F(PowerWatchTest, and_no_more_once_it_is_off) {
  open({bound("bmc")});
  look();
  power->order_begins(NodeName("n1"), order);
  power->order_ended(NodeName("n1"), order, true);
  said["state"] = "off";
  run_for(1min);
  EXPECT_EQ(asked, 2);
}

TEST_F(PowerWatchTest, a_reading_grows_old) {
  said["state"] = "off";
  open({bound("bmc")});
  EXPECT_EQ(look(), "bmc off");
  run_for(PowerWatch::kLifetime);
  EXPECT_EQ(power->reading_of(NodeName("n1"), Uid("node-1")), std::nullopt);
}

// What was asked a while ago is as old as that, however late it is answered.
TEST_F(PowerWatchTest, an_answer_is_as_old_as_its_question) {
  said["state"] = "off";
  answer.delay = 4s;
  open({bound("bmc")});
  EXPECT_EQ(look("node-1", 4500ms), "bmc off");
  run_for(PowerWatch::kLifetime - 4s);
  EXPECT_EQ(power->reading_of(NodeName("n1"), Uid("node-1")), std::nullopt);
}

TEST_F(PowerWatchTest, who_cannot_say_leaves_it_to_the_next) {
  said["state"] = "off";
  answer = {.status = 503, .body = "busy"};
  open({bound("bmc"), bound("cloud", "/other")});
  EXPECT_EQ(look("node-1", 10s), "cloud off");
  EXPECT_NE(power->told_of(NodeName("n1")).find("bmc: unknown, "), std::string::npos);
}

TEST_F(PowerWatchTest, who_says_on_and_may_switch_off_is_the_last) {
  BoundFencer bmc = bound("bmc");
  bmc.may_act = true;
  open({bmc, bound("cloud", "/other")});
  EXPECT_EQ(look(), "bmc on");
  EXPECT_EQ(asked, 1);
}

TEST_F(PowerWatchTest, of_an_isolated_machine_the_drivers_are_read_and_others_are_news) {
  std::vector<NodeName> found;
  power.emplace(
      PowerWatch::Surroundings{.loop = loop,
                               .reader = reader,
                               .allowed_reads = allowed_reads,
                               .endpoints = &endpoints,
                               .log = log,
                               .found = [&](const NodeName& node) { found.push_back(node); }},
      std::vector{bound("bmc")});
  said = {{"state", "isolated"}, {"drivers", {"a.example.com"}}};
  EXPECT_EQ(look("node-1", 2s), "bmc isolated");
  const auto drivers = [this] {
    return power->reading_of(NodeName("n1"), Uid("node-1"))->state.drivers;
  };
  EXPECT_EQ(drivers(), std::set<std::string>{"a.example.com"});
  EXPECT_EQ(found.size(), 1U);
  run_for(PowerWatch::kEvery);
  look("node-1", 2s);
  EXPECT_EQ(found.size(), 1U);
  said["drivers"] = {"a.example.com", "b.example.com"};
  run_for(PowerWatch::kEvery);
  look("node-1", 2s);
  EXPECT_EQ(drivers().size(), 2U);
  EXPECT_EQ(found.size(), 2U);
  run_for(PowerWatch::kLifetime);
  EXPECT_EQ(power->reading_of(NodeName("n1"), Uid("node-1")), std::nullopt) << "it may be lifted";
}

TEST_F(PowerWatchTest, only_fencers_that_are_bound_to_the_node_are_asked) {
  said["state"] = "off";
  open({bound("bmc", "/power", "rack=5"), bound("cloud", "/other", "rack=4")});
  EXPECT_EQ(look(), "cloud off");
}

TEST_F(PowerWatchTest, where_none_is_bound_there_is_no_reading) {
  open({bound("bmc", "/power", "rack=5")});
  EXPECT_EQ(look(), "none");
  EXPECT_EQ(power->told_of(NodeName("n1")), "");
}

TEST_F(PowerWatchTest, a_node_made_anew_has_no_reading_of_the_old_one) {
  said["state"] = "off";
  open({bound("bmc")});
  EXPECT_EQ(look(), "bmc off");
  answer.delay = 1s;
  EXPECT_EQ(look("node-2"), "none");
}

// Both in one turn: the node is looked at, and the answer about the one before it comes.
TEST_F(PowerWatchTest, an_answer_about_the_node_before_it_counts_for_nobody) {
  said["state"] = "off";
  answer.delay = 1s;
  open({bound("bmc")});
  power->look_at(node());
  const loop::Timer same_turn =
      loop.after(1s + Duration(1), [this] { power->look_at(node("node-2")); });
  run_for(1500ms);
  EXPECT_EQ(power->reading_of(NodeName("n1"), Uid("node-2")), std::nullopt);
  EXPECT_EQ(power->reading_of(NodeName("n1"), Uid("node-1")), std::nullopt);
  run_for(1s);
  EXPECT_NE(power->reading_of(NodeName("n1"), Uid("node-2")), std::nullopt);
}

TEST_F(PowerWatchTest, who_asks_nobody_proves_nothing) {
  BoundFencer sure = {
      .fencer = std::make_shared<const policy::Policy>(*policy::Policy::load(
          R"(return fencer { api = 1, name = "sure", version = "1.0.0", summary = "asks nobody",
             plan = function() end, state = function() return "off", "I think" end })",
          "sure.lua", cpu)),
      .nodes = *policy::LabelSelector::parse("")};
  open({sure});
  EXPECT_EQ(look(), "sure failed");
}

// A rack without power: most BMCs do not answer. Who has waited longest comes first.
TEST_F(PowerWatchTest, machines_whose_bmc_is_dead_keep_no_other_from_its_turn) {
  open({bound("bmc")});
  answer.delay = 4s;
  for (int i = 0; i < 40; ++i) {
    kube::Node dead = node("uid-" + std::to_string(i));
    dead.name = NodeName("dead-" + std::to_string(i));
    power->look_at(dead);
  }
  power->look_at(node());
  run_for(30s);
  EXPECT_EQ(asked, 41);
}

TEST_F(PowerWatchTest, what_is_none_of_the_four_words_is_no_answer) {
  for (const char* word : {"Off", "off ", "", "dead"}) {
    said["state"] = word;
    open({bound("bmc")});
    EXPECT_EQ(look(), "bmc unknown") << word;
  }
  said["state"] = nlohmann::json(7);
  open({bound("bmc")});
  EXPECT_EQ(look(), "bmc unknown");
  said["state"] = nullptr;
  open({bound("bmc")});
  EXPECT_EQ(look(), "bmc unknown");
}

TEST_F(PowerWatchTest, a_fencer_that_fails_says_nothing) {
  BoundFencer failing = {
      .fencer = std::make_shared<const policy::Policy>(*policy::Policy::load(
          R"(return fencer { api = 1, name = "bad", version = "1.0.0", summary = "fails",
             plan = function() while true do end end, state = function() return "off", "x" end })",
          "bad.lua", cpu)),
      .nodes = *policy::LabelSelector::parse("")};
  open({failing});
  EXPECT_EQ(look(), "bad unknown");
}

TEST_F(PowerWatchTest, it_may_go_while_it_is_asked) {
  answer.delay = 1s;
  open({bound("bmc")});
  look();
  power.reset();
  run_for(5s);
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace moonfence::fence
