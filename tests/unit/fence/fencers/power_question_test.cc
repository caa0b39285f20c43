#include "fence/fencers/power_question.h"

#include "unit/fence/fencers_fixture.h"

namespace moonfence::fence {
namespace {

using Until = PowerQuestion::Until;

constexpr const char* kStorage = R"(
    plan = function(node, s, got)
      if not got.x then return { x = fence.http("vendor", "/storage", node.name) } end
    end,
    state = function() return "isolated", "it refuses it", { drivers = { "a.example.com" } } end)";

struct PowerQuestionTest : FencersTest {
  std::vector<BoundFencer> fencers;
  std::shared_ptr<PowerQuestion> question;
  std::optional<std::string> told;

  void ask(Until until) {
    kube::Node node;
    node.name = NodeName("n1");
    node.raw = std::make_shared<const nlohmann::json>(
        nlohmann::json{{"metadata", {{"name", "n1"}, {"uid", "node-1"}}}});
    question = std::make_shared<PowerQuestion>(
        PowerQuestion::Surroundings{.loop = loop,
                                    .reader = reader,
                                    .allowed_reads = allowed_reads,
                                    .endpoints = &endpoints},
        node, fencers_of(node, fencers), until, [this](const PowerQuestion& done) {
          EXPECT_EQ(told, std::nullopt) << "it is told once";
          told = done.told();
          PowerQuestion::leave(loop, std::exchange(question, nullptr));
        });
  }
};

TEST_F(PowerQuestionTest, who_says_on_or_off_is_the_last) {
  fencers = {bound("bmc"), bound("cloud")};
  given["bmc"] = power("off");
  ask(Until::FirstAnswer);
  EXPECT_EQ(asked, Lines{}) << "not in the turn in which somebody asks";
  run_for(1s);
  EXPECT_EQ(told, "bmc: off, it says so");
  EXPECT_EQ(asked, Lines{"bmc/n1"});
}

TEST_F(PowerQuestionTest, every_one_is_asked_where_all_are_wanted) {
  fencers = {bound("bmc"), bound("pdu"), bound("cloud")};
  given["bmc"] = power("off");
  given["pdu"] = power("PoweringOff");
  ask(Until::All);
  run_for(1s);
  EXPECT_EQ(asked, (Lines{"bmc/n1", "pdu/n1", "cloud/n1"}));
  ASSERT_NE(told, std::nullopt);
  EXPECT_NE(told->find("bmc: off, it says so; pdu: unknown, "), std::string::npos) << *told;
  EXPECT_TRUE(told->ends_with("; cloud: on, it says so")) << *told;
}

TEST_F(PowerQuestionTest, what_is_on_is_switched_off_and_nothing_else_is) {
  BoundFencer bmc = bound("bmc");
  EXPECT_EQ(bmc.act_on(policy::Power::On), policy::FencerAct::SwitchOff);
  for (const policy::Power other :
       {policy::Power::Off, policy::Power::Isolated, policy::Power::Served, policy::Power::Unknown,
        policy::Power::Failed}) {
    EXPECT_EQ(bmc.act_on(other), policy::FencerAct::None);
  }
  bmc.may_act = false;
  EXPECT_EQ(bmc.act_on(policy::Power::On), policy::FencerAct::None);
}

TEST_F(PowerQuestionTest, who_says_on_and_may_do_nothing_leaves_it_to_the_next) {
  fencers = {bound("bmc"), bound_text("storage", kStorage)};
  fencers[0].may_act = false;
  ask(Until::FirstAnswer);
  run_for(3s);
  EXPECT_EQ(told, "bmc: on, it says so; storage: isolated, it refuses it");
  fencers[0].may_act = true;
  told.reset();
  ask(Until::FirstAnswer);
  run_for(1s);
  EXPECT_EQ(told, "bmc: on, it says so");
}

TEST_F(PowerQuestionTest, who_says_isolated_is_the_last) {
  fencers = {bound_text("storage", kStorage), bound("bmc")};
  ask(Until::FirstAnswer);
  run_for(3s);
  EXPECT_EQ(told, "storage: isolated, it refuses it");
}

// They look at two machines, or one of them lies.
TEST_F(PowerQuestionTest, off_is_not_believed_behind_one_who_says_on) {
  fencers = {bound("bmc"), bound("cloud"), bound_text("storage", kStorage)};
  fencers[0].may_act = false;
  given["cloud"] = power("off");
  ask(Until::FirstAnswer);
  run_for(3s);
  EXPECT_EQ(told,
            "bmc: on, it says so; cloud: unknown, off, it says so; but bmc says on; "
            "storage: isolated, it refuses it");
}

// Its word may come before the last server of the storage has heard of it.
TEST_F(PowerQuestionTest, who_says_isolated_says_it_again_after_a_pause) {
  const auto fencer_of = [this](const std::string& second) {
    return bound_text("storage", R"(
        plan = function(node, s, got)
          if not got.x then return { x = fence.http("vendor", "/storage", node.name) } end
        end,
        state = function(node, s, got)
          if got.x.body.state == "on" then return "isolated", "x", { drivers = { "a" } } end
          )" + second + " end");
  };
  for (const auto& [second, text] : std::map<std::string, std::string>{
           {R"(return "isolated", "y", { drivers = { "a" } })", "isolated, y"},
           {R"(return "unknown", "y")", "unknown, y"},
           {R"(return "isolated", "y", { drivers = { "a", "b" } })",
            "unknown, y; but of other drivers than just before"}}) {
    fencers = {fencer_of(second)};
    given["storage"] = power("on");
    asked.clear();
    told.reset();
    ask(Until::FirstAnswer);
    run_for(PowerQuestion::kPause - 100ms);
    EXPECT_EQ(asked.size(), 1U);
    EXPECT_EQ(told, std::nullopt);
    given["storage"] = power("later");
    run_for(1s);
    EXPECT_EQ(asked.size(), 2U);
    EXPECT_EQ(told, "storage: " + text);
  }
}

TEST_F(PowerQuestionTest, nobody_is_asked_again_for_one_who_has_left) {
  fencers = {bound_text("storage", kStorage)};
  ask(Until::FirstAnswer);
  run_for(500ms);
  PowerQuestion::leave(loop, std::move(question));
  run_for(5s);
  EXPECT_EQ(asked.size(), 1U);
  EXPECT_EQ(told, std::nullopt);
}

struct ListQuestionTest : PowerQuestionTest {
  nlohmann::json list = {{"metadata", {{"resourceVersion", "9"}}},
                         {"items", {{{"metadata", {{"name", "a"}}}}}}};
  std::string path;
  bool is_there = true;

  ListQuestionTest() {
    for (const char* each :
         {"/apis/longhorn.io/v1beta2/volumes", "/apis/longhorn.io/v1beta2/namespaces/db/volumes"}) {
      http.on(port::Method::Get, each, [this](const test::FakeRequest& request) {
        path = request.path + "?" + request.query;
        return is_there ? test::FakeAnswer{.body = list.dump()}
                        : status(404, "NotFound", "volumes");
      });
    }
  }
  std::string asks(const std::string& request) {
    fencers = {bound_text(
        "lists", "plan = function(node, s, got) if not got.all then return { all = " + request +
                     R"( } end end,
        state = function(node, s, got)
          if got.all.status ~= 200 then return "failed", "no such kind" end
          return "off", tostring(#(got.all.body.items or {}))
        end)")};
    told.reset();
    ask(Until::FirstAnswer);
    run_for(1s);
    return told.value_or("nothing");
  }
};

TEST_F(ListQuestionTest, a_fencer_may_read_all_objects_of_a_kind_that_is_allowed) {
  EXPECT_EQ(asks(R"(fence.list("longhorn.io/v1beta2", "volumes"))"), "lists: off, 1");
  EXPECT_EQ(path, "/apis/longhorn.io/v1beta2/volumes?limit=1000")
      << "never from a cache of the server";
  EXPECT_EQ(asks(R"(fence.list("longhorn.io/v1beta2", "volumes", "db"))"), "lists: off, 1");
  EXPECT_EQ(path, "/apis/longhorn.io/v1beta2/namespaces/db/volumes?limit=1000");
  path.clear();
  EXPECT_NE(asks(R"(fence.list("longhorn.io/v1beta2", "nodes"))").find("not among allowedReads"),
            std::string::npos);
  EXPECT_EQ(path, "");
  is_there = false;
  EXPECT_EQ(asks(R"(fence.list("longhorn.io/v1beta2", "volumes"))"), "lists: failed, no such kind");
}

// What it does not see it would take for absent.
TEST_F(ListQuestionTest, a_list_that_is_not_whole_says_nothing) {
  const std::string request = R"(fence.list("longhorn.io/v1beta2", "volumes"))";
  const nlohmann::json whole = list;
  list["metadata"]["continue"] = "more";
  EXPECT_TRUE(asks(request).starts_with("lists: unknown, list longhorn.io"));
  list["metadata"]["continue"] = 5;
  EXPECT_TRUE(asks(request).starts_with("lists: unknown, "));
  for (const nlohmann::json& none : {nlohmann::json(5), nlohmann::json::array(),
                                     nlohmann::json{{"items", 5}}, nlohmann::json::object()}) {
    list = none;
    EXPECT_TRUE(asks(request).starts_with("lists: unknown, ")) << none;
  }
  list = whole;
  list["items"][0]["data"] = std::string(PolicyFetch::kListLimit, 'x');
  EXPECT_TRUE(asks(request).starts_with("lists: unknown, ")) << "too long";
  list["items"] = nullptr;  // as Go writes an empty one
  EXPECT_EQ(asks(request), "lists: off, 0");
}

TEST_F(PowerQuestionTest, each_has_a_time_of_its_own_and_says_nothing_after_it) {
  fencers = {bound_text("slow", R"(
      plan = function(node, s, got)
        if not got.one then return { one = fence.http("vendor", "/slow", node.name) } end
        if not got.two then return { two = fence.http("vendor", "/slow", node.name, "more") } end
      end,
      state = function(node, s, got) return "off", "it says so" end)"),
             bound("cloud")};
  given["slow"] = power("off");
  given["slow"].delay = 4s;  // twice that is the time of both
  given["cloud"] = power("on");
  given["cloud"].delay = 4s;
  ask(Until::All);
  run_for(7s);
  EXPECT_EQ(told, std::nullopt);
  run_for(10s);
  EXPECT_EQ(told, "slow: unknown, no answer within 8s; cloud: on, it says so");
}

TEST_F(PowerQuestionTest, who_asks_nobody_is_not_believed_and_says_why) {
  fencers = {bound_text("shy", R"(plan = function() end,
                                  state = function() return "failed", "the node has no label" end)"),
             bound_text("sure", R"(plan = function() end,
                                   state = function() return "off", "I think" end)")};
  ask(Until::FirstAnswer);
  run_for(1s);
  EXPECT_EQ(told,
            "shy: failed, it has asked nobody: the node has no label; "
            "sure: failed, it has asked nobody");
}

TEST_F(PowerQuestionTest, it_only_asks) {
  fencers = {bound("bmc"), bound("cloud")};
  ask(Until::All);
  run_for(1s);
  EXPECT_EQ(told, "bmc: on, it says so; cloud: on, it says so");
  EXPECT_EQ(orders(), 0U);
}

TEST_F(PowerQuestionTest, nobody_is_told_who_has_left) {
  fencers = {bound("bmc"), bound("cloud")};
  given["bmc"] = power("on");
  given["bmc"].delay = 1s;
  ask(Until::All);
  // In the turn in which the answer comes.
  const loop::Timer same_turn =
      loop.after(1s + Duration(1), [this] { PowerQuestion::leave(loop, std::move(question)); });
  run_for(10s);
  EXPECT_EQ(told, std::nullopt);
  EXPECT_EQ(asked, Lines{"bmc/n1"});
}

}  // namespace
}  // namespace moonfence::fence
