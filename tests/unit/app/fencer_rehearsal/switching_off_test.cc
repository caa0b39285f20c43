#include "app/fencer_rehearsal/switching_off.h"

#include <gmock/gmock.h>

#include "base/text.h"
#include "kube/objects/decode.h"
#include "unit/fence/fencers_fixture.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using fence::BoundFencer;
using test::FakeAnswer;
using testing::HasSubstr;
using Came = SwitchingOff::Came;

// Machine n1 with its BMC, told at /vendor/switch.
struct SwitchingOffTest : fence::FencersTest {
  std::vector<BoundFencer> fencers;
  std::vector<std::string> steps;
  std::optional<SwitchingOff> switching;
  std::optional<SwitchingOff::End> end;
  std::optional<Moment> switched;  // the order arrived
  Duration takes = 4s;             // from then on until it is off
  bool obeys = true;
  bool kubelet_lives = false;  // for ever
  FakeAnswer accepted = {.status = 204, .body = ""};

  SwitchingOffTest() {
    nodes["n1"] = {.ready = "True", .tainted = false};
    http.on(port::Method::Post, "/vendor/switch", [this](const test::FakeRequest&) {
      switched = loop.now();
      return accepted;
    });
    http.on(port::Method::Get, "/vendor/bmc/n1", [this](const test::FakeRequest& request) {
      asked.push_back(request.path);
      const auto own = given.find("bmc/n1");
      return own != given.end() ? own->second : power(is_off() ? "off" : "on");
    });
    http.on(port::Method::Get, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1",
            [this](const test::FakeRequest& request) {
              renew();
              return read_lease(request);
            });
  }
  [[nodiscard]] bool is_off() const { return switched && obeys && loop.now() - *switched >= takes; }
  // Every ten seconds, until the machine is off.
  void renew() {
    const Moment now = is_off() && !kubelet_lives ? *switched + takes : loop.now();
    nodes["n1"].renewed = format_rfc3339_micro(
        wall_clock.now() + std::chrono::floor<std::chrono::seconds>(now - Moment{}) / 10s * 10s);
  }
  void open(std::vector<BoundFencer> bound) {
    fencers = std::move(bound);
    switching.emplace(
        SwitchingOff::Surroundings{.ask = {.loop = loop,
                                           .reader = reader,
                                           .allowed_reads = allowed_reads,
                                           .endpoints = &endpoints},
                                   .tell = [this](const auto& text) { steps.push_back(text); }},
        fencers);
  }
  [[nodiscard]] kube::Node node() const {
    return *kube::decode_node(node_json("n1"), /*keep_raw=*/true);
  }
  [[nodiscard]] Result<void> wait(const std::function<void(SwitchingOff::Done)>& start) {
    std::optional<Result<void>> answer;
    start([&answer](const Result<void>& done) { answer = done; });
    EXPECT_TRUE(test::run_until(loop, [&] { return answer.has_value(); }));
    return answer.value_or(failure(Error::Kind::Unknown, "?"));
  }
  [[nodiscard]] Result<void> ask() {
    return wait([this](auto done) { switching->ask(node(), std::move(done)); });
  }
  SwitchingOff::End order() {
    switching->order([this](const auto& ended) { end = ended; });
    EXPECT_TRUE(test::run_until(loop, [this] { return end.has_value(); }));
    return end.value_or(SwitchingOff::End{.came = Came::Proven, .why = "it does not end"});
  }
  SwitchingOff::End play() {
    open({bound("bmc")});
    EXPECT_TRUE(ask());
    return order();
  }
  [[nodiscard]] std::string told() const { return joined(steps, "\n"); }
};

TEST_F(SwitchingOffTest, what_is_read_off_and_is_not_heard_any_more_is_proven) {
  const auto ended = play();
  EXPECT_EQ(ended.came, Came::Proven) << ended.why;
  EXPECT_EQ(ended.reader, "bmc");
  EXPECT_EQ(orders(), 1U);
  EXPECT_EQ(told(),
            "fencer bmc tells endpoint vendor to switch it off: POST /switch\n"
            "that was accepted, which proves nothing yet\n"
            "bmc: on, it says so\n"
            "bmc: on, it says so\n"
            "bmc: off, it says so\n"
            "its kubelet's Lease has stood still for 40s\n"
            "bmc: off, it says so");
}

TEST_F(SwitchingOffTest, its_kubelet_is_seen_to_renew_first) {
  open({bound("bmc")});
  EXPECT_TRUE(wait([this](auto done) { switching->await_renewal(NodeName("n1"), done); }));
  EXPECT_LE(loop.now() - Moment{}, 12s);
}

TEST_F(SwitchingOffTest, a_lease_that_does_not_move_shows_nothing) {
  open({bound("bmc")});
  switched = loop.now() - 1h;
  const auto done = wait([this](auto done) { switching->await_renewal(NodeName("n1"), done); });
  EXPECT_THAT(done.error().text, HasSubstr("was not seen to renew its Lease within 45s"));
  nodes["n1"].renewed.clear();
  lease_answer = status(403, "Forbidden");
  const auto refused = wait([this](auto done) { switching->await_renewal(NodeName("n1"), done); });
  EXPECT_FALSE(refused);
}

TEST_F(SwitchingOffTest, nobody_is_told_unless_a_fencer_that_may_says_that_it_is_on) {
  open({});
  EXPECT_THAT(ask().error().text, HasSubstr("no fencer is bound"));
  open({bound("bmc")});
  for (const FakeAnswer& answer : {power("off"), power("unknown"), power("failed"), refused(),
                                   FakeAnswer::silent(), FakeAnswer{.body = "{}"}}) {
    given["bmc/n1"] = answer;
    EXPECT_FALSE(ask());
  }
  given.clear();
  fencers[0].may_act = false;
  EXPECT_THAT(ask().error().message(),
              HasSubstr("bmc: on, it says so (give one of them switchOff: true"));
  open({bound_text("bmc", R"(
      plan = function(node, s, got)
        if not got.power then return { power = fence.http("vendor", "/bmc", node.name) } end
      end,
      state = function(node, s, got) return got.power.body.state, "it says so" end,
      off = function(node, s, got) return nil, "it has no switch" end)")});
  EXPECT_THAT(ask().error().text, HasSubstr("it cannot be switched off: it has no switch"));
  EXPECT_EQ(orders(), 0U);
}

// One that says on and may not leaves it to the next, as in the night.
TEST_F(SwitchingOffTest, the_first_that_says_on_and_may_is_the_one_that_is_told) {
  open({bound("cloud"), bound("bmc")});
  EXPECT_TRUE(ask());
  EXPECT_EQ(switching->fencer(), "cloud");
  fencers[0].may_act = false;
  EXPECT_TRUE(ask());
  EXPECT_EQ(switching->fencer(), "bmc");
  EXPECT_EQ(switching->endpoint() + switching->path(), "vendor/switch");
  given["bmc/n1"] = refused();
  EXPECT_THAT(ask().error().message(),
              HasSubstr("no fencer that may switch the machine off says that it is on: cloud: on"));
}

TEST_F(SwitchingOffTest, answers_that_have_grown_old_tell_nobody_anything) {
  open({bound("bmc")});
  EXPECT_TRUE(ask());
  poller.advance(SwitchingOff::kLifetime + 1s);
  const auto ended = order();
  EXPECT_EQ(ended.came, Came::Nowhere);
  EXPECT_THAT(ended.why, HasSubstr("too old"));
  EXPECT_EQ(orders(), 0U);
}

TEST_F(SwitchingOffTest, who_cannot_be_reached_was_not_told) {
  accepted = FakeAnswer::refused();
  EXPECT_EQ(play().came, Came::Nowhere);
  EXPECT_EQ(asked.size(), 1U);
}

// A connection broke, and what carries the order asked whether it may leave once more.
TEST_F(SwitchingOffTest, an_order_that_has_left_once_leaves_no_second_time) {
  accepted = {.status = 0,
              .error = Error{.kind = Error::Kind::Cancelled, .text = "not sent"},
              .sent = false};
  obeys = false;
  const auto ended = play();
  EXPECT_EQ(ended.came, Came::NotProven) << "it may have been told";
  EXPECT_EQ(orders(), 1U);
}

TEST_F(SwitchingOffTest, an_order_that_is_refused_proves_nothing) {
  accepted = {.status = 400, .body = "no"};
  obeys = false;
  const auto ended = play();
  EXPECT_EQ(ended.came, Came::NotProven);
  EXPECT_THAT(ended.why, HasSubstr("refused: endpoint vendor: POST /switch: HTTP 400"));
}

TEST_F(SwitchingOffTest, an_answer_that_was_lost_leaves_it_to_the_power) {
  accepted = FakeAnswer::lost();
  EXPECT_EQ(play().came, Came::Proven);
  EXPECT_THAT(told(), HasSubstr("nobody knows whether that was accepted"));
  EXPECT_EQ(orders(), 1U);
}

TEST_F(SwitchingOffTest, that_it_was_accepted_proves_nothing) {
  obeys = false;
  const auto ended = play();
  EXPECT_EQ(ended.came, Came::NotProven);
  EXPECT_THAT(ended.why, HasSubstr("nobody says that it is off, 1m after the order: bmc: on"));
  EXPECT_EQ(orders(), 1U) << "it is told once";
  EXPECT_GE(asked.size(), 12U);
  EXPECT_LE(asked.size(), 16U);
}

TEST_F(SwitchingOffTest, a_controller_that_dies_with_the_machine_proves_nothing) {
  open({bound("bmc")});
  EXPECT_TRUE(ask());
  given["bmc/n1"] = FakeAnswer::refused();
  const auto ended = order();
  EXPECT_EQ(ended.came, Came::NotProven);
  EXPECT_THAT(ended.why, HasSubstr("nobody says that it is off"));
}

// The wrong cable: its BMC is another machine's, which is off now.
TEST_F(SwitchingOffTest, off_of_a_machine_whose_kubelet_speaks_on_is_not_proven) {
  kubelet_lives = true;
  const auto ended = play();
  EXPECT_EQ(ended.came, Came::NotProven);
  EXPECT_THAT(ended.why, HasSubstr("has renewed its Lease since"));
}

TEST_F(SwitchingOffTest, a_kubelet_that_renews_seldom_is_watched_for_longer) {
  lease_answer.body =
      nlohmann::json{
          {"metadata", {{"name", "n1"}, {"uid", "l"}, {"resourceVersion", "7"}}},
          {"spec", {{"leaseDurationSeconds", 100}, {"renewTime", "2026-01-02T05:00:00.000000Z"}}}}
          .dump();
  EXPECT_EQ(play().came, Came::Proven);
  EXPECT_THAT(told(), HasSubstr("has stood still for 1m40s"));
}

TEST_F(SwitchingOffTest, a_lease_that_is_for_too_long_shows_nothing) {
  lease_answer.body =
      nlohmann::json{
          {"metadata", {{"name", "n1"}, {"uid", "l"}, {"resourceVersion", "7"}}},
          {"spec", {{"leaseDurationSeconds", 121}, {"renewTime", "2026-01-02T05:00:00.000000Z"}}}}
          .dump();
  const auto ended = play();
  EXPECT_EQ(ended.came, Came::NotProven);
  EXPECT_THAT(ended.why, HasSubstr("nodeLeaseDurationSeconds"));
}

// It may have been renewed meanwhile, and by another value again.
TEST_F(SwitchingOffTest, a_reading_that_fails_begins_the_silence_anew) {
  open({bound("bmc")});
  EXPECT_TRUE(ask());
  switching->order([this](const auto& ended) { end = ended; });
  run_for(takes + 30s);
  EXPECT_THAT(told(), testing::EndsWith("bmc: off, it says so"));
  lease_answer = status(403, "Forbidden");
  run_for(2s);
  lease_answer = {};
  run_for(30s);
  EXPECT_FALSE(end);
  EXPECT_TRUE(test::run_until(loop, [this] { return end.has_value(); }));
  EXPECT_EQ(end->came, Came::Proven) << end->why;
  EXPECT_GE(loop.now() - *switched, takes + 72s);
}

TEST_F(SwitchingOffTest, who_reads_it_off_is_named_where_another_one_was_told) {
  open({bound("bmc"), bound("cloud")});
  EXPECT_TRUE(ask());
  given["bmc/n1"] = refused();
  given["cloud"] = power("off");
  const auto ended = order();
  EXPECT_EQ(ended.came, Came::Proven) << ended.why;
  EXPECT_EQ(switching->fencer(), "bmc");
  EXPECT_EQ(ended.reader, "cloud");
}

TEST_F(SwitchingOffTest, a_lease_that_cannot_be_read_proves_nothing_and_ends) {
  open({bound("bmc")});
  EXPECT_TRUE(ask());
  lease_answer = status(403, "Forbidden");
  const auto ended = order();
  EXPECT_EQ(ended.came, Came::NotProven);
  EXPECT_THAT(ended.why, HasSubstr("was not seen to stand still for long enough within 4m"));
}

TEST_F(SwitchingOffTest, what_is_switched_on_by_itself_is_not_proven) {
  open({bound("bmc")});
  EXPECT_TRUE(ask());
  switching->order([this](const auto& ended) { end = ended; });
  run_for(takes + 6s);
  EXPECT_THAT(told(), testing::EndsWith("bmc: off, it says so"));
  given["bmc/n1"] = power("on");
  EXPECT_TRUE(test::run_until(loop, [this] { return end.has_value(); }));
  EXPECT_EQ(end->came, Came::NotProven);
  EXPECT_THAT(end->why, HasSubstr("Does something switch it on by itself?"));
}

}  // namespace
}  // namespace moonfence::app
