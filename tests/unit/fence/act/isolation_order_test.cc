// Where no pod may go before its storage refuses the node, a fencer has that told to it.

#include "fence/fencers/power_watch.h"
#include "unit/fence/storage_fixture.h"

namespace moonfence::fence {
namespace {

using audit::Record;
using policy::Mode;

constexpr const char* kKind = "fences.example.com/v1/fences";
// The storage has two clusters; each refuses the node when an object says so.
constexpr const char* kFencer =
    R"(return fencer { api = 1, name = "storage", version = "1.0.0", summary = "asks",
    plan = function(node, s, got)
      if not got.says then return { says = fence.http("vendor", "/refused", node.name) } end
    end,
    state = function(node, s, got)
      if got.says.body.state then return got.says.body.state, "x" end
      if #got.says.body.by < 2 then return "served", "nothing refuses it" end
      return "isolated", "both refuse it", { drivers = { "csi.example.com" } }
    end,
    isolate = function(node, s, got)
      local cluster = table.contains(got.says.body.by, "a") and "b" or "a"
      return fence.create("fences.example.com/v1", "fences", "", {
        kind = "Fence", metadata = { name = cluster .. "-" .. node.name }, spec = { cidrs = { "10.0.0.1/32" } },
      }), { drivers = { "csi.example.com" } }
    end })";
constexpr const char* kWants = "return fence.delete_pod('dead', { proof = { 'off', 'isolated' } })";

struct IsolationOrderTest : StorageTest {
  StoppedCpuClock cpu;
  nlohmann::json says = {{"by", nlohmann::json::array()}};
  std::set<std::string> allowed = {kKind};
  std::optional<BoundFencer> before;  // in the list
  Lines made;
  test::FakeAnswer answer = {.status = 201, .body = "{}"};
  std::function<void()> obey = [] {};
  std::optional<PowerWatch> watch;

  IsolationOrderTest() {
    fencing_drivers.clear();
    http.on(port::Method::Get, "/vendor/refused/*",
            [this](const test::FakeRequest&) { return test::FakeAnswer{.body = says.dump()}; });
    http.on(port::Method::Post, "/apis/fences.example.com/v1/fences",
            [this](const test::FakeRequest& request) {
              made.push_back(nlohmann::json::parse(request.body)["metadata"]["name"]);
              obey();
              return answer;
            });
    add_pod_with_volume("web-0");
  }
  void open(const std::string& body = kWants, Mode mode = Mode::Enforce, bool may = true) {
    watch.emplace(
        PowerWatch::Surroundings{
            .loop = loop,
            .reader = reader,
            .allowed_reads = allowed_reads,
            .endpoints = &endpoints,
            .log = log,
            .found = [this](const NodeName& node) { incidents->evidence_found(node); }},
        fencers(may));
    powers = &*watch;
    take_up_nodes(on_every_signal(body), mode);
  }
  [[nodiscard]] BoundFencer loaded(const char* text, const char* file) {
    return {
        .fencer = std::make_shared<const policy::Policy>(*policy::Policy::load(text, file, cpu)),
        .nodes = *policy::LabelSelector::parse(""),
        .may_act = true,
        .may_write = allowed};
  }
  [[nodiscard]] std::vector<BoundFencer> fencers(bool may) {
    std::vector<BoundFencer> all;
    if (before) {
      all.push_back(*before);
    }
    all.push_back(loaded(kFencer, "storage.lua"));
    all.back().may_act = may;
    return all;
  }
  void fall(Duration time = 1min) {
    tell(Look::Fell);
    run_for(time);
  }
  // "intent isolates"
  [[nodiscard]] Lines told() const {
    Lines lines;
    for (const Record& record : story.records) {
      if (record.action == "isolate") {
        lines.push_back(std::string(to_string(record.kind)) + " " +
                        std::string(code(record.reason)));
      }
    }
    return lines;
  }
};

TEST_F(IsolationOrderTest, one_storage_after_the_other_is_told_and_the_pod_goes_when_all_refuse) {
  obey = [this] {
    EXPECT_EQ(deleted(), Lines{});
    says["by"].push_back(says["by"].empty() ? "a" : "b");
  };
  open();
  fall(20s);
  EXPECT_EQ(made, (Lines{"a-n1", "b-n1"})) << watch->told_of(NodeName("n1"));
  EXPECT_EQ(told(), (Lines{"intent isolates", "outcome done", "intent isolates", "outcome done"}));
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
}

constexpr const char* kBmc =
    R"(return fencer { api = 1, name = "bmc", version = "1.0.0", summary = "asks",
    plan = function(node, s, got)
      if not got.power then return { power = fence.http("vendor", "/power", node.name) } end
    end,
    state = function(node, s, got) return got.power.body.state, "it says so" end,
    off = function(node, s, got) return fence.post("vendor", "/switch", {}) end })";

struct IsolationBehindBmcTest : IsolationOrderTest {
  std::string power = "on";
  Lines orders;

  IsolationBehindBmcTest() {
    before = loaded(kBmc, "bmc.lua");
    http.on(port::Method::Get, "/vendor/power/*", [this](const test::FakeRequest&) {
      return test::FakeAnswer{.body = nlohmann::json{{"state", power}}.dump()};
    });
    http.on(port::Method::Post, "/vendor/switch", [this](const test::FakeRequest&) {
      orders.push_back("off");
      power = "unknown";
      return test::FakeAnswer{.body = "{}"};
    });
  }
};

// Between on and off a BMC may be unable to say anything.
TEST_F(IsolationBehindBmcTest, a_machine_that_is_being_switched_off_is_not_isolated_meanwhile) {
  open();
  fall(20s);
  EXPECT_EQ(orders, Lines{"off"});
  EXPECT_EQ(made, Lines{});
  power = "off";
  run_for(10s);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_EQ(made, Lines{});
}

TEST_F(IsolationBehindBmcTest, a_bmc_that_fails_to_answer_once_is_asked_again_first) {
  power = "unknown";
  int asked = 0;
  http.on(port::Method::Get, "/vendor/power/*", [&](const test::FakeRequest&) {
    power = ++asked == 1 ? "unknown" : "on";
    return test::FakeAnswer{.body = nlohmann::json{{"state", power}}.dump()};
  });
  open();
  fall(15s);
  EXPECT_EQ(made, Lines{});
  EXPECT_EQ(orders, Lines{"off"});
}

TEST_F(IsolationBehindBmcTest, whose_bmc_stays_silent_is_isolated) {
  power = "unknown";
  obey = [this] { says["by"].push_back(says["by"].empty() ? "a" : "b"); };
  open();
  fall(30s);
  EXPECT_EQ(made, (Lines{"a-n1", "b-n1"}));
  EXPECT_EQ(orders, Lines{});
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
}

// The same object again is the same order: the storage may be slow, or deaf.
TEST_F(IsolationOrderTest, that_it_was_made_proves_nothing_and_it_is_made_again_every_half_minute) {
  open();
  fall(25s);
  EXPECT_EQ(made, Lines{"a-n1"});
  answer = {.status = 409, .body = R"({"kind":"Status","reason":"AlreadyExists","code":409})"};
  run_for(1min);
  EXPECT_EQ(made, (Lines{"a-n1", "a-n1", "a-n1"}));
  EXPECT_EQ(deleted(), Lines{});
}

TEST_F(IsolationOrderTest, without_the_right_to_make_it_it_is_tried_on) {
  answer = {.status = 403,
            .body = R"({"kind":"Status","reason":"Forbidden","message":"no","code":403})"};
  open();
  fall(2min);
  EXPECT_GE(made.size(), 3U);
  EXPECT_EQ(told().at(1), "outcome refused");
  EXPECT_EQ(deleted(), Lines{});
}

TEST_F(IsolationOrderTest, only_what_the_configuration_allows_is_made) {
  allowed = {"fences.example.com/v2/fences"};
  open();
  fall();
  EXPECT_EQ(made, Lines{});
  EXPECT_NE(watch->told_of(NodeName("n1")).find("is not among allowedWrites"), std::string::npos);
}

TEST_F(IsolationOrderTest, who_may_only_ask_makes_nothing) {
  open(kWants, Mode::Enforce, false);
  fall();
  EXPECT_EQ(made, Lines{});
}

TEST_F(IsolationOrderTest, in_mode_observe_nothing_is_made) {
  open(kWants, Mode::Observe);
  fall();
  EXPECT_EQ(made, Lines{});
}

TEST_F(IsolationOrderTest, what_is_not_served_is_not_isolated) {
  for (const char* state : {"unknown", "failed", "on", "off"}) {
    says["state"] = state;
    open("return fence.delete_pod('dead', { proof = { 'isolated' } })");
    fall(20s);
    EXPECT_EQ(made, Lines{}) << state;
  }
}

// It would end what the pod writes, and the pod would stay all the same.
TEST_F(IsolationOrderTest, a_pod_for_which_it_is_not_enough_has_nobody_isolated) {
  pods["web-0"]["spec"]["volumes"].push_back({{"name", "more"}, {"nfs", {{"server", "x"}}}});
  open();
  fall(20s);
  EXPECT_EQ(made, Lines{});
}

TEST_F(IsolationOrderTest, off_alone_demanded_has_nobody_isolated) {
  open("return fence.delete_pod('dead', { proof = { 'off' } })");
  fall(20s);
  EXPECT_EQ(made, Lines{});
}

// Its pods would lose their volumes too.
TEST_F(IsolationOrderTest, who_forbids_it_of_another_pod_of_the_node_is_heard) {
  add_pod("calm-0");
  open(
      "if pod.name == 'calm-0' then return fence.forbid('x') end "
      "return fence.delete_pod('dead', { proof = { 'isolated' } })");
  fall(20s);
  EXPECT_EQ(made, Lines{});
  EXPECT_EQ(told(), Lines{"refusal policy_forbids"});
}

TEST_F(IsolationOrderTest, a_machine_that_answers_is_not_isolated) {
  kernels.kernel = cluster::Kernel::Answers;
  open();
  fall(20s);
  EXPECT_EQ(made, Lines{});
}

}  // namespace
}  // namespace moonfence::fence
