#include "sim/net/bmc_http.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/draw.h"
#include "sim/world/world.h"

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

enum class Manner {
  Waits,
  GivesUp,  // at once
  MayNot,   // by its own word, when the bytes would leave
};

// A replica that orders n1 off when it starts.
struct Orderer final : Replica, port::HttpSink {
  Orderer(const ReplicaSurroundings& given, Manner how, Lines& lines)
      : around(given), manner(how), heard(lines) {}
  void start() override {
    transfer = around.http.start(
        {.method = port::Method::Post,
         .url = bmc_url("bmc-n1") + "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
         .body = R"({"ResetType":"ForceOff"})",
         .timeout = 2s,
         .may_send = [this] { return manner != Manner::MayNot; }},
        *this);
    if (manner == Manner::GivesUp) {
      transfer.reset();
    }
  }
  void drain(std::function<void()> left) override { left(); }
  void on_head(const port::HttpHead& head) override {
    heard.push_back(std::to_string(head.status));
  }
  void on_body(std::string_view /*bytes*/) override {}
  void on_end(const port::HttpEnd& end) override {
    heard.emplace_back(end.error ? end.error->text : "end");
  }

  ReplicaSurroundings around;
  Manner manner;
  Lines& heard;
  std::unique_ptr<port::Transfer> transfer;
};

struct BmcHttpTest : testing::Test {
  BmcHttpTest() {
    plan.steps.clear();
    plan.length = 10s;
    plan.bmcs = {{.node = "n1"}};
  }
  void live(Manner manner) {
    Story story;
    World world(
        plan, 1,
        [this, manner](const ReplicaSurroundings& around) {
          return std::make_unique<Orderer>(around, manner, heard);
        },
        story);
    while (world.step()) {
    }
    powered = world.cluster().machines().by_name.at("n1").powered;
  }

  Plan plan = default_world();
  Lines heard;
  bool powered = true;
};

TEST_F(BmcHttpTest, an_order_is_carried_out_and_answered) {
  live(Manner::Waits);
  EXPECT_EQ(heard, (Lines{"204", "end"}));
  EXPECT_FALSE(powered);
}

TEST_F(BmcHttpTest, what_has_left_arrives_whatever_became_of_its_sender) {
  live(Manner::GivesUp);
  EXPECT_EQ(heard, Lines{});
  EXPECT_FALSE(powered);
}

TEST_F(BmcHttpTest, a_slow_answer_comes_too_late) {
  plan.bmcs.front().takes = 3s;
  live(Manner::Waits);
  EXPECT_EQ(heard, Lines{"no answer in time"});
  EXPECT_FALSE(powered);
}

TEST_F(BmcHttpTest, a_dead_one_refuses_the_connection) {
  plan.bmcs.front().kind = BmcKind::Dead;
  live(Manner::Waits);
  EXPECT_EQ(heard, Lines{"cannot connect"});
  EXPECT_TRUE(powered);
}

TEST_F(BmcHttpTest, what_may_not_leave_does_not) {
  live(Manner::MayNot);
  EXPECT_EQ(heard, Lines{"the request was not allowed to be sent"});
  EXPECT_TRUE(powered);
}

}  // namespace
}  // namespace moonfence::sim
