#include "kube/leader_election/elector.h"

#include <memory>

#include <nlohmann/json.hpp>

#include "unit/kube/wire_fixture.h"

namespace moonfence::kube {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using port::Method;
using test::FakeAnswer;
using test::FakeRequest;

constexpr const char* kCollection = "/prefix/apis/coordination.k8s.io/v1/namespaces/fence/leases";
constexpr const char* kPath =
    "/prefix/apis/coordination.k8s.io/v1/namespaces/fence/leases/moonfence";

struct StandingWallClock final : port::WallClock {
  WallTime now() override { return WallTime(1767330000s); }
};

// A server that keeps one Lease, by the rules of optimistic concurrency.
struct ElectorTest : WireTest {
  StandingWallClock wall_clock;
  test::FakeRandom random;
  ServerPace pace;
  json stored;
  int version = 0;
  int led = 0;
  int lost = 0;
  std::unique_ptr<Elector> elector;

  ElectorTest() {
    http.on(Method::Get, kPath, [this](const FakeRequest&) {
      return stored.is_null() ? status(404, "NotFound", R"({"name":"moonfence"})") : current();
    });
    http.on(Method::Post, kCollection, [this](const FakeRequest& request) {
      return stored.is_null() ? store(request) : status(409, "AlreadyExists");
    });
    http.on(Method::Put, kPath, [this](const FakeRequest& request) {
      const json body = json::parse(request.body);
      const bool newest = body["metadata"]["resourceVersion"] == std::to_string(version);
      return newest ? store(request) : status(409, "Conflict");
    });
    make("us_1");
  }

  void make(const std::string& identity) {
    elector = std::make_unique<Elector>(
        Elector::Surroundings{loop, caller, random, wall_clock, log, pace},
        ObjectRef{.space = Namespace("fence"), .name = "moonfence"}, identity, ElectionRules{},
        Elector::Receivers{.lead = [this] { ++led; },
                           .lose = [this](const std::string& /*why*/) { ++lost; }});
  }
  FakeAnswer current() const { return {.body = stored.dump()}; }
  FakeAnswer store(const FakeRequest& request) {
    stored = json::parse(request.body);
    stored["metadata"]["uid"] = "u1";
    stored["metadata"]["resourceVersion"] = std::to_string(++version);
    return current();
  }
  void give_to(const std::string& holder) {
    stored["metadata"] = {{"uid", "u1"}, {"resourceVersion", std::to_string(++version)}};
    stored["spec"]["holderIdentity"] = holder;
    stored["spec"]["leaseDurationSeconds"] = 15;
  }
};

TEST_F(ElectorTest, it_takes_a_free_lease_and_keeps_it) {
  elector->start();
  test::run_for(loop, 60s);
  EXPECT_EQ(led, 1);
  EXPECT_EQ(lost, 0);
  EXPECT_TRUE(elector->leads());
  EXPECT_EQ(stored["spec"]["holderIdentity"], "us_1");
  EXPECT_GE(version, 58);  // what it costs: a write a second
  EXPECT_LE(version, 61);
  ASSERT_TRUE(elector->leading_until().has_value());
  EXPECT_GE(*elector->leading_until(), loop.now() + 3s);
}

TEST_F(ElectorTest, a_renewal_is_given_up_by_both_sides_when_no_webhook_may_take_longer) {
  elector->start();
  test::run_for(loop, 3s);
  const FakeRequest& renewal = http.requests.back();
  EXPECT_EQ(renewal.method, Method::Put);
  EXPECT_EQ(renewal.query, "timeout=35s");
  EXPECT_EQ(renewal.timeout, 35s + 500ms);
  EXPECT_EQ(renewal.lane, port::Lane::Writes);
}

// A leader that dies has written the default term; it is renewed every second, and looked at twice.
TEST_F(ElectorTest, after_a_crash_it_is_taken_over_within_six_seconds) {
  elector->start();
  test::run_for(loop, 20s);
  elector.reset();
  make("them_1");
  elector->start();
  EXPECT_TRUE(test::run_until(
      loop, [this] { return led == 2; }, 6s));
}

TEST_F(ElectorTest, it_waits_for_the_holder_to_fall_silent) {
  give_to("them_1");
  elector->start();
  test::run_for(loop, 14s);
  EXPECT_EQ(led, 0);
  EXPECT_EQ(elector->holder(), "them_1");
  test::run_for(loop, 6s);
  EXPECT_EQ(led, 1);
  EXPECT_EQ(stored["spec"]["leaseTransitions"], 1);
}

TEST_F(ElectorTest, another_holder_ends_it_at_the_next_renewal) {
  elector->start();
  test::run_for(loop, 5s);
  give_to("them_1");
  test::run_for(loop, 3s);
  EXPECT_EQ(lost, 1);
  EXPECT_FALSE(elector->leading_until().has_value());
  EXPECT_EQ(stored["spec"]["holderIdentity"], "them_1");
}

TEST_F(ElectorTest, without_an_answer_it_steps_down_at_the_deadline) {
  elector->start();
  test::run_for(loop, 5s);
  const Moment deadline = *elector->leading_until() - 5s + 10s;
  http.on(Method::Put, kPath, FakeAnswer::silent());
  http.on(Method::Get, kPath, FakeAnswer::silent());
  EXPECT_TRUE(test::run_until(
      loop, [this] { return lost == 1; }, 60s));
  EXPECT_LE(loop.now(), deadline + 6s);  // a read that hangs is given up after five
}

// Writes of 10 s: the next terms are long enough for a call of such a server, and a renewal.
TEST_F(ElectorTest, terms_follow_the_pace_of_the_server) {
  elector->start();
  test::run_for(loop, 5s);
  EXPECT_EQ(stored["spec"]["leaseDurationSeconds"], 5);
  pace.call_ended(Method::Delete, true, 10s, loop.now());
  test::run_for(loop, 2s);
  EXPECT_EQ(stored["spec"]["leaseDurationSeconds"], 22);  // 20 s, 0.5 s and 1 s, in whole seconds
  EXPECT_GE(*elector->leading_until(), loop.now() + 20s);
  pace.call_ended(Method::Delete, true, 34s, loop.now());
  test::run_for(loop, 2s);
  EXPECT_EQ(stored["spec"]["leaseDurationSeconds"], 37);
  // It is remembered for five minutes, and a call may have been begun by it for one more.
  test::run_for(loop, 8min);
  EXPECT_EQ(stored["spec"]["leaseDurationSeconds"], 5);
}

// By its admission policy, which knows the newest Lease.
TEST_F(ElectorTest, a_write_that_the_server_leaves_to_another_leader_ends_it_at_once) {
  elector->start();
  test::run_for(loop, 5s);
  give_to("them_1");
  elector->deposed();
  EXPECT_EQ(lost, 1);
  EXPECT_FALSE(elector->leading_until().has_value());
  elector->deposed();  // of a second write
  EXPECT_EQ(lost, 1);
  test::run_for(loop, 10s);
  EXPECT_EQ(led, 1);
  EXPECT_EQ(elector->holder(), "them_1");
}

// A server that had not heard of our Lease yet.
TEST_F(ElectorTest, a_leader_that_was_mistakenly_refused_leads_again_when_it_has_read_its_lease) {
  elector->start();
  test::run_for(loop, 5s);
  elector->deposed();
  test::run_for(loop, 1s);
  EXPECT_FALSE(elector->leads());
  test::run_for(loop, 5s);
  EXPECT_EQ(led, 2);
  EXPECT_TRUE(elector->leads());
}

// It watches Leases no more (kubernetes/kubernetes#130887), and refuses whatever we send. To step
// down each time would begin every incident anew, and help nobody.
TEST_F(ElectorTest, a_leader_that_is_refused_by_an_old_copy_of_its_lease_leads_on) {
  elector->start();
  test::run_for(loop, 5s);
  elector->deposed();
  test::run_for(loop, 10s);
  for (int again = 0; again < 3; ++again) {
    elector->deposed();
    EXPECT_TRUE(elector->leads());
    test::run_for(loop, 10s);
  }
  EXPECT_EQ(led, 2);
  EXPECT_EQ(lost, 1);
  // Until another one has led: then it is right again.
  give_to("them_1");
  test::run_for(loop, 60s);
  EXPECT_EQ(lost, 2);
  ASSERT_TRUE(elector->leads());
  elector->deposed();
  EXPECT_EQ(lost, 3);
}

TEST_F(ElectorTest, a_lost_answer_is_survived) {
  elector->start();
  test::run_for(loop, 5s);
  bool once = true;
  http.on(Method::Put, kPath, [this, once](const FakeRequest& request) mutable {
    FakeAnswer answer = store(request);
    return std::exchange(once, false) ? FakeAnswer::lost() : answer;
  });
  test::run_for(loop, 30s);
  EXPECT_EQ(lost, 0);
  EXPECT_TRUE(elector->leads());
}

TEST_F(ElectorTest, without_rights_it_never_leads_and_does_not_hurry) {
  http.on(Method::Get, kPath, status(403, "Forbidden"));
  elector->start();
  test::run_for(loop, 60s);
  EXPECT_EQ(led, 0);
  EXPECT_LE(http.requests.size(), 31U);
}

TEST_F(ElectorTest, an_answer_that_is_no_lease_proves_nothing) {
  http.on(Method::Get, kPath, FakeAnswer{.body = R"({"kind":"Lease"})"});
  elector->start();
  test::run_for(loop, 30s);
  EXPECT_EQ(led, 0);
}

TEST_F(ElectorTest, release_frees_the_lease_for_the_next) {
  elector->start();
  test::run_for(loop, 5s);
  bool released = false;
  elector->release([&released] { released = true; });
  test::run_for(loop, 1s);
  EXPECT_TRUE(released);
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(stored["spec"]["holderIdentity"], "");
  make("us_2");
  elector->start();
  test::run_for(loop, 1s);
  EXPECT_EQ(led, 2);
}

TEST_F(ElectorTest, a_release_that_cannot_be_written_ends_all_the_same) {
  elector->start();
  test::run_for(loop, 5s);
  http.on(Method::Put, kPath, FakeAnswer::refused());
  bool released = false;
  elector->release([&released] { released = true; });
  test::run_for(loop, 6s);
  EXPECT_TRUE(released);
  EXPECT_FALSE(elector->leading_until().has_value());
}

}  // namespace
}  // namespace moonfence::kube
