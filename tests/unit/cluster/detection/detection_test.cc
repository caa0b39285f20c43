#include "cluster/detection/detection.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/fake_links.h"
#include "support/fake_poller.h"
#include "support/fake_random.h"

namespace moonfence::cluster {
namespace {

using namespace std::chrono_literals;
using port::LinkEnd;

using test::FakeLinks;
using Machine = FakeLinks::Machine;

struct DetectionTest : testing::Test {
  test::FakePoller poller;
  loop::Loop loop{poller};
  FakeLinks links{loop};
  test::FakeRandom random;
  std::vector<std::string> told;
  Detection detection{
      loop, links, random, [this](const Detection::News& news) {
        told.push_back(news.node.text() + (news.is_silent ? " silent " : " answers ") +
                       format_duration(std::chrono::round<std::chrono::seconds>(news.quiet)));
      }};

  static NodeView node(const std::string& name, std::vector<std::string> addresses) {
    NodeView view;
    view.name = NodeName(name);
    view.readiness = Readiness::True;
    view.kubelet.addresses = std::move(addresses);
    return view;
  }
  [[nodiscard]] Kernel kernel(const std::string& name = "n1") const {
    return detection.kernel_of(NodeName(name));
  }
  void run_for(Duration duration) { test::run_for(loop, duration); }
  void dies(const std::string& address) {
    links.machines[address] = Machine::Silent;
    links.end(address, LinkEnd::Silent);
  }

  DetectionTest() {
    links.machines["10.0.0.1"] = Machine::Open;
    detection.saw(node("n1", {"10.0.0.1"}));
    run_for(1s);
  }
};

TEST_F(DetectionTest, in_the_quiet_one_link_is_open_and_nothing_is_asked) {
  EXPECT_EQ(kernel(), Kernel::Answers);
  EXPECT_EQ(links.asked, std::vector<std::string>{"10.0.0.1:10250"});
  const std::uint64_t turns = loop.turns();
  run_for(29min);
  EXPECT_EQ(links.asked.size(), 1U);
  EXPECT_LE(loop.turns(), turns + 2);
}

TEST_F(DetectionTest, the_link_is_opened_anew_within_the_hour_and_the_old_one_is_closed) {
  run_for(61min);
  EXPECT_EQ(links.asked.size(), 2U);
  EXPECT_EQ(links.open_count(), 1U);
  EXPECT_EQ(kernel(), Kernel::Answers);
}

TEST_F(DetectionTest, the_kubelets_own_port_is_asked) {
  NodeView other = node("n2", {"fd00::2"});
  other.kubelet.port = 12345;
  detection.saw(other);
  run_for(10ms);
  EXPECT_EQ(links.asked.back(), "fd00::2:12345");
}

TEST_F(DetectionTest, a_machine_that_dies_is_silent_within_five_seconds) {
  dies("10.0.0.1");
  run_for(2s);
  EXPECT_NE(kernel(), Kernel::Silent);
  run_for(3s);
  EXPECT_EQ(kernel(), Kernel::Silent);
  const std::size_t asked = links.asked.size();
  run_for(10min);
  EXPECT_EQ(kernel(), Kernel::Silent);  // it goes on being asked, and its proof stays young
  EXPECT_GE(links.asked.size(), asked + 540 + 4 * 50);
  EXPECT_LE(links.asked.size(), asked + 545 + 4 * 60);
  links.machines["10.0.0.1"] = Machine::Open;
  run_for(2s);
  EXPECT_EQ(kernel(), Kernel::Answers);
  EXPECT_EQ(links.open_count(), 1U);
}

TEST_F(DetectionTest, a_dead_kubelet_is_an_answer_for_as_long_as_its_machine_refuses) {
  links.machines["10.0.0.1"] = Machine::Refuses;
  links.end("10.0.0.1", LinkEnd::Closed);
  for (int i = 0; i < 600; ++i) {
    run_for(1s);
    ASSERT_EQ(kernel(), Kernel::Answers) << i;
  }
  EXPECT_LE(links.asked.size(), 130U);  // once a second, and after a minute every ten
  links.machines["10.0.0.1"] = Machine::Silent;
  run_for(20s);
  EXPECT_EQ(kernel(), Kernel::Silent);
}

TEST_F(DetectionTest, when_our_own_loop_was_late_nobody_is_silent_by_what_was_asked_before) {
  dies("10.0.0.1");
  run_for(5s);
  EXPECT_EQ(kernel(), Kernel::Silent);
  poller.advance(2s);  // stopped, in the middle
  loop.turn();
  EXPECT_NE(kernel(), Kernel::Silent);
  run_for(5s);
  EXPECT_EQ(kernel(), Kernel::Silent);
}

TEST_F(DetectionTest, what_our_own_machine_does_not_send_accuses_nobody) {
  links.machines["10.0.0.1"] = Machine::Unsendable;
  links.end("10.0.0.1", LinkEnd::Silent);
  run_for(30s);
  EXPECT_EQ(kernel(), Kernel::Unsure);
  run_for(60s);
  EXPECT_EQ(kernel(), Kernel::NotObservable);
}

TEST_F(DetectionTest, of_two_addresses_each_is_asked) {
  links.machines["fd00::2"] = Machine::Open;
  detection.saw(node("n2", {"10.0.0.2", "fd00::2"}));
  run_for(3s);
  EXPECT_EQ(kernel("n2"), Kernel::Answers);
}

TEST_F(DetectionTest, another_address_is_another_machine) {
  detection.saw(node("n1", {"10.0.0.9"}));
  run_for(10s);
  EXPECT_EQ(kernel(), Kernel::NotObservable);
  EXPECT_EQ(links.open_count(), 0U);
  links.machines["10.0.0.9"] = Machine::Open;
  run_for(60s);
  EXPECT_EQ(kernel(), Kernel::Answers);
}

TEST_F(DetectionTest, a_node_that_is_gone_or_has_no_address_is_not_watched) {
  detection.saw(node("n3", {}));  // nothing will ever be known of it
  EXPECT_EQ(kernel("n3"), Kernel::NotObservable);
  NodeView gone = node("n1", {"10.0.0.1"});
  gone.readiness = Readiness::Gone;
  detection.saw(gone);
  EXPECT_EQ(links.open_count(), 0U);
  const std::size_t asked = links.asked.size();
  run_for(10min);
  EXPECT_EQ(links.asked.size(), asked);
  EXPECT_EQ(kernel("n1"), Kernel::NotObservable);
  EXPECT_EQ(kernel("n3"), Kernel::NotObservable);
}

// After a start three questions were asked in 5 s. Where packets are lost all three may be, and
// then the node is fenced by Kubernetes' word although its machine lives.
TEST_F(DetectionTest, where_packets_are_lost_nobody_is_taken_for_not_observable_at_once) {
  detection.saw(node("n2", {"10.0.0.2"}));
  run_for(4s);
  EXPECT_GE(links.asked.size(), 17U);
  run_for(400ms);
  links.machines["10.0.0.2"] = Machine::Open;  // the first one that comes through
  run_for(800ms);
  EXPECT_EQ(kernel("n2"), Kernel::Answers);
}

TEST_F(DetectionTest, nodes_behind_a_firewall_are_asked_once_a_minute) {
  for (int i = 0; i < 200; ++i) {
    detection.saw(node("f" + std::to_string(i), {"10.1.0." + std::to_string(i)}));
  }
  run_for(5min);
  EXPECT_EQ(detection.counts().not_observable, 200U);
  const std::size_t asked = links.asked.size();
  run_for(10min);
  EXPECT_LE(links.asked.size(), asked + 11 * 200);
  EXPECT_EQ(kernel(), Kernel::Answers);
}

// A storm: what was asked for is spread over the time, and each of them is known for what it is.
TEST_F(DetectionTest, two_hundred_that_fall_at_once_are_asked_one_after_the_other) {
  for (int i = 0; i < 200; ++i) {
    const std::string address = "10.1.0." + std::to_string(i);
    links.machines[address] = Machine::Open;
    detection.saw(node("s" + std::to_string(i), {address}));
  }
  run_for(2s);
  ASSERT_EQ(detection.counts().answers, 201U);
  for (int i = 0; i < 200; ++i) {
    dies("10.1.0." + std::to_string(i));
  }
  run_for(1ms);
  const std::size_t asked = links.asked.size();
  run_for(Detection::kThen);
  EXPECT_LE(links.asked.size(), asked + 2 * Detection::kAtOnce);
  run_for(10s);
  EXPECT_EQ(detection.counts().unsure, 200U) << "so many speak for a fault of our own";
  EXPECT_EQ(detection.counts().answers, 1U);
  run_for(50s);
  EXPECT_EQ(detection.counts().silent, 200U);
  EXPECT_EQ(told.size(), 200U);
}

// What may speak for a fault of our own keeps a machine from being called silent for good.
TEST_F(DetectionTest, silent_for_good_is_one_of_few_and_only_while_the_api_server_answers) {
  for (int i = 2; i <= 10; ++i) {
    const std::string address = "10.0.0." + std::to_string(i);
    links.machines[address] = Machine::Open;
    detection.saw(node("n" + std::to_string(i), {address}));
  }
  run_for(1min);
  EXPECT_EQ(detection.silent_since(NodeName("n1")), std::nullopt);
  const Moment died = loop.now();
  dies("10.0.0.1");
  run_for(5s);
  const auto since = detection.silent_since(NodeName("n1"));
  ASSERT_TRUE(since);
  EXPECT_LE(*since, died);
  EXPECT_GE(*since, died - 2s);
  EXPECT_EQ(detection.silent(), std::vector<NodeName>{NodeName("n1")});
  dies("10.0.0.2");
  run_for(5s);
  EXPECT_TRUE(detection.silent_since(NodeName("n1"))) << "two in ten";
  dies("10.0.0.3");
  run_for(5s);
  EXPECT_EQ(detection.silent_since(NodeName("n1")), std::nullopt);
  EXPECT_EQ(kernel("n1"), Kernel::Unsure);
  for (const char* address : {"10.0.0.2", "10.0.0.3"}) {
    links.machines[address] = Machine::Open;
  }
  const Moment over = loop.now();
  EXPECT_EQ(detection.silent_since(NodeName("n1")), std::nullopt);
  run_for(5s);
  // What was not heard before that says nothing: we may not have been able to hear it.
  EXPECT_GE(detection.silent_since(NodeName("n1")), over);
  run_for(5s);
  EXPECT_EQ(kernel("n1"), Kernel::Silent);
  detection.call_failed();
  EXPECT_EQ(detection.silent_since(NodeName("n1")), loop.now());
  EXPECT_EQ(kernel("n1"), Kernel::Unsure);
  run_for(4s);
  EXPECT_EQ(kernel("n1"), Kernel::Silent);
}

// Seen on real kubelets: the replica whose own cable was cut called the machine silent that it
// heard first, for half a second, until the other one was silent too.
TEST_F(DetectionTest, when_our_own_link_is_cut_nobody_is_silent_not_even_the_first) {
  for (int i = 2; i <= 3; ++i) {
    const std::string address = "10.0.0." + std::to_string(i);
    links.machines[address] = Machine::Open;
    detection.saw(node("n" + std::to_string(i), {address}));
  }
  run_for(1min);
  for (const char* address : {"10.0.0.1", "10.0.0.2"}) {
    links.machines[address] = Machine::Silent;
  }
  links.end("10.0.0.1", LinkEnd::Silent);  // the kernel gives up one link after the other
  run_for(1s);
  links.end("10.0.0.2", LinkEnd::Silent);
  for (int i = 0; i < 200; ++i) {
    run_for(50ms);
    ASSERT_EQ(detection.counts().silent, 0U) << i;
  }
  EXPECT_EQ(told, std::vector<std::string>{});
  // It is back, and one is heard before the other.
  links.machines["10.0.0.2"] = Machine::Open;
  for (int i = 0; i < 60; ++i) {
    run_for(50ms);
    ASSERT_EQ(detection.counts().silent, 0U) << i;
  }
  EXPECT_EQ(detection.counts().answers, 2U);
  links.machines["10.0.0.1"] = Machine::Open;
  run_for(10s);
  EXPECT_EQ(told, std::vector<std::string>{});
}

// Whoever has been silent for a minute says nothing about us, and is fenced as Kubernetes says.
TEST_F(DetectionTest, a_crowd_that_stays_silent_is_silent_after_a_minute) {
  links.machines["10.0.0.2"] = Machine::Open;
  detection.saw(node("n2", {"10.0.0.2"}));
  run_for(1min);
  dies("10.0.0.1");
  dies("10.0.0.2");
  run_for(50s);
  EXPECT_EQ(kernel("n1"), Kernel::Unsure);
  run_for(15s);
  EXPECT_EQ(kernel("n1"), Kernel::Silent);
  EXPECT_EQ(kernel("n2"), Kernel::Silent);
}

TEST_F(DetectionTest, a_silence_is_told_when_it_is_proven_and_when_it_is_over) {
  dies("10.0.0.1");
  run_for(1min);
  EXPECT_EQ(told, std::vector<std::string>{"n1 silent 4s"});
  poller.advance(2s);  // we are late, and it is proven a second time
  run_for(10s);
  links.machines["10.0.0.1"] = Machine::Open;
  run_for(2s);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_TRUE(told.back().starts_with("n1 answers ")) << told.back();
}

TEST_F(DetectionTest, silences_are_counted_when_the_machine_was_not_restarted) {
  NodeView view = node("n1", {"10.0.0.1"});
  const auto be_silent_for = [&](Duration length) {
    dies("10.0.0.1");
    run_for(length);
    links.machines["10.0.0.1"] = Machine::Open;
    run_for(1s);
  };
  const auto with_boot = [&](const char* boot_id) {
    view.boot_id = boot_id;
    detection.saw(view);
  };
  with_boot("a");
  be_silent_for(9s);
  be_silent_for(1s);  // too short to be one
  EXPECT_EQ(detection.silences(), Silences::Lasted{})
      << "nobody knows yet whether it was restarted";
  with_boot("a");
  run_for(11min);
  EXPECT_EQ(detection.silences(), (Silences::Lasted{1, 1, 1, 0, 0, 0}));
  be_silent_for(50s);
  with_boot("b");  // it was restarted
  run_for(11min);
  EXPECT_EQ(detection.silences(), (Silences::Lasted{1, 1, 1, 0, 0, 0}));
}

TEST_F(DetectionTest,
       what_we_did_not_listen_for_and_a_kubelet_that_is_asked_seldom_are_no_silences) {
  poller.advance(30s);  // we were stopped
  loop.turn();
  dies("10.0.0.1");
  run_for(1s);
  poller.advance(30s);
  links.machines["10.0.0.1"] = Machine::Refuses;
  run_for(5min);  // its kubelet is gone, and it is asked every ten seconds
  links.machines["10.0.0.1"] = Machine::Open;
  run_for(11min);
  EXPECT_EQ(detection.silences(), Silences::Lasted{});
  EXPECT_EQ(told, std::vector<std::string>{});
}

TEST(MostQuiet, a_fifth_of_few_and_a_fiftieth_of_many) {
  for (const auto& [heard, most] : std::vector<std::pair<std::size_t, std::size_t>>{
           {1, 1}, {3, 1}, {10, 2}, {99, 19}, {100, 2}, {150, 3}, {5000, 100}}) {
    EXPECT_EQ(Detection::most_quiet(heard), most) << heard;
  }
}

}  // namespace
}  // namespace moonfence::cluster
