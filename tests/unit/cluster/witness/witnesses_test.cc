#include "cluster/witness/witnesses.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cluster/witness/testimony.h"
#include "support/fake_http.h"
#include "support/fake_links.h"
#include "support/fake_log.h"
#include "support/fake_poller.h"
#include "support/fake_random.h"

namespace moonfence::cluster {
namespace {

using namespace std::chrono_literals;
using test::FakeAnswer;
using test::FakeLinks;

struct WitnessesTest : testing::Test {
  test::FakePoller poller;
  loop::Loop loop{poller};
  FakeLinks links{loop};
  test::FakeRandom random;
  test::FakeLog log;
  test::FakeHttp http{loop};
  Detection detection{loop, links, random, [](const Detection::News& /*news*/) {}};
  Witnesses witnesses{loop, http, random, log, detection};
  const SigningKey key{{7}};
  // What the other replica says, and how it signs.
  std::map<NodeName, Testimony::Machine> said;
  bool is_well = true;
  SigningKey signs{{7}};
  std::string nonce;  // in place of that of the question
  loop::Timer tick;

  WitnessesTest() {
    for (int i = 1; i <= 6; ++i) {
      links.machines["10.0.0." + std::to_string(i)] = FakeLinks::Machine::Open;
      NodeView node;
      node.name = NodeName("n" + std::to_string(i));
      node.readiness = Readiness::True;
      node.kubelet.addresses = {"10.0.0." + std::to_string(i)};
      detection.saw(node);
    }
    http.on(port::Method::Get, "/witness", [this](const test::FakeRequest& request) {
      const std::string asked = request.query.substr(std::string("nonce=").size(), 32);
      return FakeAnswer{
          .body = to_answer(
              {.nonce = nonce.empty() ? asked : nonce, .is_well = is_well, .machines = said},
              signs)};
    });
    witnesses.know({other()});
    look();
    test::run_for(loop, 1s);
  }

  [[nodiscard]] Witnesses::Replica other() const {
    return {.name = "moonfence-1", .address = "10.1.0.1:8081", .public_key = key.public_key()};
  }
  void look() {
    witnesses.look();
    tick = loop.after(1s, [this] { look(); });
  }
  void run_for(Duration duration) { test::run_for(loop, duration); }
  void dies(const std::string& number) {
    links.machines["10.0.0." + number] = FakeLinks::Machine::Silent;
    links.end("10.0.0." + number, port::LinkEnd::Silent);
  }
  void says(const std::string& node, Testimony::Machine machine) { said[NodeName(node)] = machine; }
  void says_heard(const std::string& node) {
    says(node, {.kernel = Kernel::Answers, .quiet = 3s, .unanswered = 0});
  }
  [[nodiscard]] Kernel kernel() const { return witnesses.kernel_of(NodeName("n1")); }
  [[nodiscard]] bool is_confirmed() const { return witnesses.is_confirmed(NodeName("n1")); }
};

TEST_F(WitnessesTest, while_all_machines_answer_each_is_tried_once_a_minute) {
  run_for(10min);
  EXPECT_GE(http.requests.size(), 10U);
  EXPECT_LE(http.requests.size(), 11U);
  EXPECT_TRUE(http.requests.back().query.ends_with("&nodes="));
  EXPECT_EQ(witnesses.counts(), (Witnesses::Counts{.replicas = 1}));
  http.on(port::Method::Get, "/witness", FakeAnswer::refused());
  run_for(2min);
  EXPECT_EQ(witnesses.counts(), (Witnesses::Counts{.replicas = 1, .failing = 1}));
  EXPECT_EQ(log.count("warning witness_fails replica=moonfence-1"), 1U);
}

TEST_F(WitnessesTest, a_machine_that_another_replica_hears_is_alive) {
  says_heard("n1");
  dies("1");
  run_for(10s);
  EXPECT_EQ(detection.kernel_of(NodeName("n1")), Kernel::Silent);
  EXPECT_EQ(kernel(), Kernel::Answers);
  EXPECT_TRUE(witnesses.silent().empty());
  EXPECT_EQ(witnesses.silent_since(NodeName("n1")), std::nullopt);
  EXPECT_FALSE(is_confirmed());
  EXPECT_EQ(witnesses.counts(), (Witnesses::Counts{.replicas = 1, .heard = 1}));
  EXPECT_EQ(http.requests.back().path, "/witness");
  EXPECT_EQ(http.requests.back().lane, port::Lane::Endpoints);
}

TEST_F(WitnessesTest, a_machine_that_no_other_hears_either_is_confirmed) {
  says("n1", {.kernel = Kernel::Unsure, .quiet = 3100ms, .unanswered = 10});
  dies("1");
  run_for(6s);
  EXPECT_EQ(kernel(), Kernel::Silent);
  EXPECT_TRUE(is_confirmed());
  EXPECT_EQ(witnesses.counts(), (Witnesses::Counts{.replicas = 1, .confirmed = 1}));
}

TEST_F(WitnessesTest, a_witness_that_is_not_well_or_has_not_asked_enough_confirms_nothing) {
  dies("1");
  for (const Testimony::Machine& machine :
       {Testimony::Machine{.kernel = Kernel::Unsure, .quiet = 3s, .unanswered = 20},
        Testimony::Machine{.kernel = Kernel::Unsure, .quiet = 4s, .unanswered = 9},
        Testimony::Machine{.kernel = Kernel::NotObservable, .quiet = 4s, .unanswered = 20},
        Testimony::Machine{.kernel = Kernel::NotObservable, .quiet = {}, .unanswered = 0}}) {
    says("n1", machine);
    run_for(10s);
    EXPECT_EQ(kernel(), Kernel::Unsure);  // it was heard within the last minute
    EXPECT_FALSE(is_confirmed());
  }
  says("n1", {.kernel = Kernel::Silent, .quiet = 30s, .unanswered = 100});
  is_well = false;
  run_for(10s);
  EXPECT_FALSE(is_confirmed());
}

// It restarted behind the broken path.
TEST_F(WitnessesTest, a_machine_that_we_never_heard_and_another_hears_is_alive) {
  NodeView node;
  node.name = NodeName("n9");
  node.readiness = Readiness::Unknown;
  node.kubelet.addresses = {"10.0.0.9"};
  says_heard("n9");
  detection.saw(node);
  run_for(10s);
  EXPECT_EQ(detection.kernel_of(node.name), Kernel::NotObservable);
  EXPECT_EQ(witnesses.kernel_of(node.name), Kernel::Answers);
  says("n9", {.kernel = Kernel::Silent, .quiet = 5s, .unanswered = 30});
  run_for(10s);
  EXPECT_EQ(witnesses.kernel_of(node.name), Kernel::NotObservable);
}

TEST_F(WitnessesTest, one_answer_that_is_missed_frees_nothing) {
  says_heard("n1");
  dies("1");
  run_for(2min);
  http.on(port::Method::Get, "/witness", FakeAnswer::lost());
  for (int i = 0; i < 21; ++i) {
    run_for(100ms);
    ASSERT_EQ(kernel(), Kernel::Answers) << i;
  }
}

// Also of one that is not well: what it has heard, it has heard.
TEST_F(WitnessesTest, that_a_machine_was_heard_counts_whatever_ails_the_witness) {
  says_heard("n1");
  is_well = false;
  dies("1");
  run_for(10s);
  EXPECT_EQ(kernel(), Kernel::Answers);
}

// A restart of the other replica must not free what it held.
TEST_F(WitnessesTest, a_witness_that_falls_silent_is_believed_for_a_minute) {
  says_heard("n1");
  dies("1");
  run_for(10s);
  http.on(port::Method::Get, "/witness", FakeAnswer::silent());
  run_for(2s);
  EXPECT_EQ(kernel(), Kernel::Answers);
  run_for(4s);
  EXPECT_EQ(kernel(), Kernel::Unsure);
  EXPECT_TRUE(witnesses.silent().empty());
  run_for(60s);
  EXPECT_EQ(kernel(), Kernel::Silent);
  EXPECT_EQ(witnesses.counts().failing, 1U);
  EXPECT_EQ(log.count("warning witness_fails replica=moonfence-1"), 1U);
}

// The clock of lost begins with the last sign that anybody has heard.
TEST_F(WitnessesTest, a_machine_is_silent_since_another_replica_has_heard_it_last) {
  says_heard("n1");
  dies("1");
  run_for(20s);
  const Moment now = loop.now();
  says("n1", {.kernel = Kernel::Silent, .quiet = 4s, .unanswered = 30});
  run_for(1s);
  const auto since = witnesses.silent_since(NodeName("n1"));
  ASSERT_TRUE(since);
  EXPECT_GE(*since, now - 4s);
}

TEST_F(WitnessesTest, what_somebody_else_has_signed_is_worth_nothing) {
  says_heard("n1");
  signs = SigningKey({8});
  dies("1");
  run_for(10s);
  EXPECT_EQ(kernel(), Kernel::Silent);
  EXPECT_EQ(witnesses.counts().failing, 1U);
}

TEST_F(WitnessesTest, an_answer_to_another_question_is_worth_nothing) {
  says_heard("n1");
  nonce = std::string(32, '0');
  dies("1");
  run_for(10s);
  EXPECT_EQ(kernel(), Kernel::Silent);
  EXPECT_EQ(witnesses.counts().failing, 1U);
}

TEST_F(WitnessesTest, what_is_no_testimony_is_worth_nothing) {
  dies("1");
  for (const FakeAnswer& answer :
       {FakeAnswer{.body = "<html>"}, FakeAnswer{.body = std::string(1 << 20, 'x')},
        FakeAnswer{.status = 503, .body = "not now"}, FakeAnswer::refused()}) {
    http.on(port::Method::Get, "/witness", answer);
    run_for(5s);
    EXPECT_EQ(witnesses.counts().failing, 1U);
  }
  EXPECT_EQ(kernel(), Kernel::Silent);
}

TEST_F(WitnessesTest, one_exchange_is_under_way_and_the_pace_is_bounded) {
  says("n1", {.kernel = Kernel::Silent, .quiet = 4s, .unanswered = 30});
  dies("1");
  run_for(60s);
  EXPECT_LE(http.requests.size(), 120U);
  run_for(10s);
  const std::size_t before = http.requests.size();
  run_for(60s);
  EXPECT_LE(http.requests.size(), before + 31);
  EXPECT_GE(http.requests.size(), before + 29);
  http.on(port::Method::Get, "/witness", FakeAnswer::silent());
  run_for(5s);
  EXPECT_LE(http.open_exchanges(), 1U);
}

TEST_F(WitnessesTest, when_the_machine_answers_us_again_nobody_is_asked_any_more) {
  dies("1");
  run_for(10s);
  links.machines["10.0.0.1"] = FakeLinks::Machine::Open;
  run_for(3s);
  const std::size_t before = http.requests.size();
  run_for(60s);
  EXPECT_LE(http.requests.size(), before + 1);
  EXPECT_EQ(kernel(), Kernel::Answers);
}

TEST_F(WitnessesTest, a_replica_that_is_gone_is_asked_no_more_and_not_believed) {
  says_heard("n1");
  dies("1");
  run_for(10s);
  witnesses.know({});
  EXPECT_EQ(kernel(), Kernel::Unsure);
  const std::size_t before = http.requests.size();
  run_for(60s);
  EXPECT_EQ(http.requests.size(), before);
  EXPECT_EQ(kernel(), Kernel::Silent);
  EXPECT_EQ(witnesses.counts().replicas, 0U);
}

// The store of moonfence-status changes for other reasons, too.
TEST_F(WitnessesTest, what_a_replica_has_said_stays_when_the_others_are_told_anew) {
  says_heard("n1");
  dies("1");
  run_for(10s);
  witnesses.know(
      {other(), {.name = "moonfence-2", .address = "10.1.0.2:8081", .public_key = "00"}});
  EXPECT_EQ(kernel(), Kernel::Answers);
  EXPECT_EQ(witnesses.counts().replicas, 2U);
}

TEST_F(WitnessesTest, a_name_that_would_change_the_question_is_not_asked_about) {
  NodeView node;
  node.name = NodeName("n9&nonce=x\r\nHost: other");
  node.readiness = Readiness::True;
  node.kubelet.addresses = {"10.0.0.9"};
  links.machines["10.0.0.9"] = FakeLinks::Machine::Open;
  detection.saw(node);
  run_for(1s);
  dies("9");
  run_for(10s);
  for (const test::FakeRequest& request : http.requests) {
    EXPECT_EQ(request.query.find("n9"), std::string::npos);
  }
  EXPECT_EQ(witnesses.kernel_of(node.name), Kernel::Silent);
}

TEST_F(WitnessesTest, more_names_than_fit_are_asked_about_in_turns) {
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) {
    NodeView node;
    node.name = NodeName("a-node-with-a-long-name-" + std::string(120, 'x') + std::to_string(i));
    node.readiness = Readiness::True;
    const std::string address = "10.0.1." + std::to_string(i);
    node.kubelet.addresses = {address};
    links.machines[address] = FakeLinks::Machine::Open;
    detection.saw(node);
    names.push_back(node.name.text());
    says(names.back(), {.kernel = Kernel::Answers, .quiet = 3s, .unanswered = 0});
  }
  run_for(2s);
  for (int i = 0; i < 40; ++i) {
    const std::string address = "10.0.1." + std::to_string(i);
    links.machines[address] = FakeLinks::Machine::Silent;
    links.end(address, port::LinkEnd::Silent);
  }
  run_for(15s);
  for (const test::FakeRequest& request : http.requests) {
    EXPECT_LE(request.query.size(), kLongestNodes + 64);
  }
  for (int i = 0; i < 900; ++i) {
    run_for(200ms);
    for (const std::string& name : names) {
      ASSERT_NE(witnesses.kernel_of(NodeName(name)), Kernel::Silent) << name << ", " << i;
    }
  }
}

// Two thousand behind a firewall must not hold up the question about the one that has just died.
TEST_F(WitnessesTest, one_that_has_just_fallen_silent_is_asked_about_first_and_each_time) {
  for (int i = 0; i < 500; ++i) {
    NodeView node;
    node.name = NodeName("never-heard-" + std::to_string(i));
    node.readiness = Readiness::True;
    node.kubelet.addresses = {"10.0." + std::to_string(2 + i / 250) + "." +
                              std::to_string(i % 250)};
    detection.saw(node);
  }
  run_for(30s);
  dies("1");
  run_for(3s);
  const std::size_t before = http.requests.size();
  run_for(50s);
  ASSERT_GE(http.requests.size(), before + 90);
  for (std::size_t each = before; each < http.requests.size(); ++each) {
    ASSERT_NE(http.requests[each].query.find("&nodes=n1,"), std::string::npos) << each;
  }
  const auto names = [this](std::size_t each) {
    return http.requests[each].query.substr(http.requests[each].query.find("&nodes="));
  };
  EXPECT_NE(names(before), names(before + 1)) << "the others in turns";
}

TEST_F(WitnessesTest, no_two_questions_have_the_same_nonce) {
  random.fix(0.5);
  says("n1", {.kernel = Kernel::Silent, .quiet = 4s, .unanswered = 30});
  dies("1");
  run_for(60s);
  std::set<std::string> nonces;
  for (const test::FakeRequest& request : http.requests) {
    nonces.insert(request.query.substr(std::string("nonce=").size(), 32));
  }
  EXPECT_EQ(nonces.size(), http.requests.size());
}

}  // namespace
}  // namespace moonfence::cluster
