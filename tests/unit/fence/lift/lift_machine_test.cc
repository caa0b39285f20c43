#include "fence/lift/lift_machine.h"

#include <gtest/gtest.h>

#include "kube/objects/decode.h"

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

struct LiftMachineTest : testing::Test {
  LiftMachine lift_machine;
  Moment now{};
  FenceMark mark = {.incident = IncidentId("i1"), .boot_id = "b1", .since = WallTime(1767330000s)};
  std::string boot = "b1";
  std::string ready = "True";
  std::string ready_since = "2026-01-02T05:01:00Z";
  bool tainted = true;
  std::string annotated = "moonfence.io/fenced";
  std::optional<std::string> annotation;

  [[nodiscard]] kube::Node node() const {
    json node = {
        {"metadata",
         {{"name", "n1"},
          {"uid", "u1"},
          {"annotations", {{annotated, annotation.value_or(to_text(mark))}}}}},
        {"spec", json::object()},
        {"status",
         {{"nodeInfo", {{"bootID", boot}}},
          {"conditions",
           {{{"type", "Ready"}, {"status", ready}, {"lastTransitionTime", ready_since}}}}}}};
    if (tainted) {
      node["spec"]["taints"] = {{{"key", "moonfence.io/fenced"}, {"effect", "NoSchedule"}}};
    }
    return *kube::decode_node(node, /*keep_raw=*/true);
  }
  // "Read", "timer 30s", "lift why".
  static std::vector<std::string> told(const LiftMachine::Effects& effects) {
    std::vector<std::string> lines;
    for (const auto& effect : effects) {
      if (const auto* timer = std::get_if<LiftMachine::SetTimer>(&effect)) {
        lines.push_back("timer " + format_duration(timer->delay));
      } else if (const auto* lift = std::get_if<LiftMachine::Lift>(&effect)) {
        lines.push_back("lift: " + lift->why);
      } else if (const auto* keep = std::get_if<LiftMachine::Keep>(&effect)) {
        lines.push_back("doubt: " + keep->doubt.why);
      } else if (const auto* search = std::get_if<LiftMachine::Search>(&effect)) {
        lines.push_back(std::string("search") + (search->scope.kubelet ? " kubelet" : "") +
                        (search->scope.storage ? " storage" : ""));
      } else {
        constexpr std::array kNames = {"queue", "read", "", "", "", "", "stop"};
        lines.emplace_back(kNames.at(effect.index()));
      }
    }
    return lines;
  }
  using Lines = std::vector<std::string>;

  // What the search came to.
  WallTime kubelet_started = WallTime(1767320000s);
  Lines clean() {
    return told(lift_machine.searched({.doubt = {}, .kubelet_started = kubelet_started}, now));
  }
  Lines found(Doubt::Kind kind, const std::string& why) {
    return told(lift_machine.searched(
        {.doubt = Doubt{kind, why}, .kubelet_started = kubelet_started}, now));
  }
  // The first look, at a node that is Ready by the watch.
  Lines look() {
    EXPECT_EQ(told(lift_machine.wake()), Lines{"queue"});
    EXPECT_EQ(told(lift_machine.admitted()), Lines{"read"});
    return told(lift_machine.read(node(), now));
  }
  // After a pause.
  Lines look_again(Duration later) {
    now += later;
    EXPECT_EQ(told(lift_machine.timer_fired()), Lines{"queue"});
    EXPECT_EQ(told(lift_machine.admitted()), Lines{"read"});
    return told(lift_machine.read(node(), now));
  }
};

TEST_F(LiftMachineTest, a_node_that_was_booted_again_is_clean_at_once) {
  boot = "b2";
  EXPECT_EQ(look(), Lines{"lift: the node was booted again"});
  EXPECT_EQ(told(lift_machine.lifted(true, false)), Lines{"stop"});
  EXPECT_EQ(lift_machine.state(), LiftMachine::State::Asleep);
}

TEST_F(LiftMachineTest, a_boot_id_that_is_not_told_proves_nothing) {
  boot = "";
  EXPECT_EQ(look(), Lines{"timer 30s"});
  boot = "b2";
  mark.boot_id = "";
  EXPECT_EQ(look_again(30s), Lines{"timer 30s"});
}

TEST_F(LiftMachineTest, the_same_boot_is_watched_for_thirty_seconds_asked_twice_and_read_again) {
  EXPECT_EQ(look(), Lines{"timer 30s"});
  EXPECT_EQ(look_again(30s), Lines{"search kubelet"});
  EXPECT_EQ(clean(), Lines{"timer 5s"});
  EXPECT_EQ(look_again(5s), Lines{"search kubelet storage"});
  EXPECT_EQ(clean(), Lines{"read"});
  EXPECT_EQ(told(lift_machine.read(node(), now)),
            Lines{"lift: the kubelet is back, and nothing of what was there before is left"});
}

// What runs comes from a cache: an old pod that was about to be started is not in it yet.
TEST_F(LiftMachineTest, the_second_answer_is_of_the_same_process_and_five_seconds_younger) {
  look();
  EXPECT_EQ(look_again(30s), Lines{"search kubelet"});
  EXPECT_EQ(clean(), Lines{"timer 5s"});
  EXPECT_EQ(look_again(3s), Lines{"timer 2s"});
  kubelet_started += 60s;
  EXPECT_EQ(look_again(2s), Lines{"search kubelet storage"});
  EXPECT_EQ(clean(), Lines{"timer 5s"});
  kubelet_started += 1s;  // the same: it is computed anew from the time of the boot
  EXPECT_EQ(look_again(5s), Lines{"search kubelet storage"});
  EXPECT_EQ(clean(), Lines{"read"});
}

TEST_F(LiftMachineTest, a_doubt_in_between_begins_anew) {
  look();
  look_again(30s);
  clean();
  look_again(5s);
  EXPECT_EQ(found(Doubt::Kind::StorageLeft, "a volume is left"),
            (Lines{"doubt: a volume is left", "timer 10s"}));
  EXPECT_EQ(look_again(10s), Lines{"search kubelet"});
}

TEST_F(LiftMachineTest, a_search_without_the_kubelet_s_word_proves_nothing) {
  look();
  look_again(30s);
  EXPECT_EQ(told(lift_machine.searched({}, now)),
            (Lines{"doubt: its kubelet was not asked what still runs there", "timer 30s"}));
}

TEST_F(LiftMachineTest, a_doubt_leaves_it_and_is_looked_at_again_with_growing_pauses) {
  look();
  EXPECT_EQ(look_again(30s), Lines{"search kubelet"});
  EXPECT_EQ(found(Doubt::Kind::KubeletSilent, "silent"), (Lines{"doubt: silent", "timer 30s"}));
  for (const char* pause : {"1m", "2m", "4m", "5m", "5m"}) {
    EXPECT_EQ(look_again(5min), Lines{"search kubelet"});
    EXPECT_EQ(found(Doubt::Kind::KubeletSilent, "silent"),
              (Lines{"doubt: silent", std::string("timer ") + pause}));
  }
}

// It ended within a minute, and the taint stayed for five.
TEST_F(LiftMachineTest, what_has_to_end_is_looked_at_often) {
  look();
  EXPECT_EQ(look_again(30s), Lines{"search kubelet"});
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(found(Doubt::Kind::StillRunning, "it runs"), (Lines{"doubt: it runs", "timer 10s"}));
    EXPECT_EQ(look_again(10s), Lines{"search kubelet"});
  }
  now += 2min;
  EXPECT_EQ(found(Doubt::Kind::BeingDeleted, "it goes"), (Lines{"doubt: it goes", "timer 30s"}));
  EXPECT_EQ(look_again(30s), Lines{"search kubelet"});
  EXPECT_EQ(found(Doubt::Kind::KubeletSilent, "silent"), (Lines{"doubt: silent", "timer 30s"}));
}

TEST_F(LiftMachineTest, a_fall_that_only_the_live_reading_shows_begins_the_count_anew) {
  look();
  ready_since = "2026-01-02T05:02:00Z";
  EXPECT_EQ(look_again(30s), Lines{"timer 30s"});
  EXPECT_EQ(look_again(30s), Lines{"search kubelet"});
  EXPECT_EQ(clean(), Lines{"timer 5s"});
  EXPECT_EQ(look_again(5s), Lines{"search kubelet storage"});
  EXPECT_EQ(clean(), Lines{"read"});
  ready_since = "2026-01-02T05:03:00Z";
  EXPECT_EQ(told(lift_machine.read(node(), now)), Lines{"timer 30s"});
  EXPECT_EQ(look_again(30s), Lines{"search kubelet"});  // and with it what the kubelet has said
}

TEST_F(LiftMachineTest, a_node_that_is_not_ready_or_cannot_be_read_is_left_alone) {
  ready = "Unknown";
  EXPECT_EQ(look(), Lines{"timer 30s"});
  EXPECT_EQ(told(lift_machine.timer_fired()), Lines{"queue"});
  EXPECT_EQ(told(lift_machine.admitted()), Lines{"read"});
  EXPECT_EQ(told(lift_machine.read(std::nullopt, now)), Lines{"timer 1m"});
}

TEST_F(LiftMachineTest, what_falls_asleep_forgets_how_long_it_was_ready) {
  look();
  now += 29s;
  EXPECT_EQ(told(lift_machine.sleep()), Lines{"stop"});
  EXPECT_EQ(told(lift_machine.sleep()), Lines{});
  EXPECT_EQ(look(), Lines{"timer 30s"});
}

TEST_F(LiftMachineTest, a_mark_without_its_taint_demands_the_same_proof) {
  tainted = false;
  EXPECT_EQ(look(), Lines{"timer 30s"});
  EXPECT_EQ(look_again(30s), Lines{"search kubelet"});
  EXPECT_EQ(found(Doubt::Kind::StorageLeft, "it is left"),
            (Lines{"doubt: it is left", "timer 10s"}));
  (void)lift_machine.sleep();
  boot = "b2";
  EXPECT_EQ(look(), Lines{"lift: the node was booted again"});
}

TEST_F(LiftMachineTest, out_of_service_a_node_that_was_booted_again_is_searched_as_well) {
  annotated = "moonfence.io/out-of-service";
  boot = "b2";
  EXPECT_EQ(look(), Lines{"search storage"});
  EXPECT_EQ(found(Doubt::Kind::StorageLeft, "it is left"),
            (Lines{"doubt: it is left", "timer 10s"}));
  EXPECT_EQ(look_again(10s), Lines{"search storage"});
  EXPECT_EQ(told(lift_machine.searched({}, now)), Lines{"read"});
  EXPECT_EQ(told(lift_machine.read(node(), now)), Lines{"lift: the node was booted again"});
}

TEST_F(LiftMachineTest, out_of_service_the_same_boot_is_watched_like_any_other) {
  annotated = "moonfence.io/out-of-service";
  EXPECT_EQ(look(), Lines{"timer 30s"});
  EXPECT_EQ(look_again(30s), Lines{"search kubelet"});
}

// Its storage was searched for one boot, and it is tainted for another by the time of the second
// reading: what runs there nobody has asked.
TEST_F(LiftMachineTest, a_mark_that_is_set_anew_meanwhile_is_not_lifted_by_the_older_one_s_proof) {
  look();
  now += 30s;
  annotated = "moonfence.io/out-of-service";
  mark.boot_id = "b0";
  EXPECT_EQ(look_again(0s), Lines{"search storage"});
  EXPECT_EQ(told(lift_machine.searched({}, now)), Lines{"read"});
  mark.boot_id = "b1";
  EXPECT_EQ(told(lift_machine.read(node(), now)), Lines{"search kubelet"});
}

TEST_F(LiftMachineTest, a_mark_that_is_unreadable_stays) {
  annotation = "by hand";
  EXPECT_EQ(
      look(),
      (Lines{"doubt: its annotation moonfence.io/fenced cannot be read. Make sure that nothing "
             "of the old pods runs there and take the annotation and the taint off",
             "timer 30s"}));
}

TEST_F(LiftMachineTest, what_was_overtaken_is_tried_again_three_times) {
  boot = "b2";
  look();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(told(lift_machine.lifted(false, true)), Lines{"timer 1s"});
    EXPECT_EQ(look_again(1s), Lines{"lift: the node was booted again"});
  }
  EXPECT_EQ(told(lift_machine.lifted(false, true)), Lines{"timer 30s"});
  EXPECT_EQ(look_again(30s), Lines{"lift: the node was booted again"});
  EXPECT_EQ(told(lift_machine.lifted(false, false)), Lines{"timer 1m"});  // refused for good
}

}  // namespace
}  // namespace moonfence::fence
