#include "fence/incident/pass.h"

#include <algorithm>

#include "unit/fence/pass_fixture.h"

namespace moonfence::fence {
namespace {

using audit::Reason;
using audit::Record;
using cluster::Readiness;

struct PassTest : OnePassTest {
  std::unique_ptr<OnePass> run(const std::string& body = "return fence.delete_pod('dead')",
                               const std::string& more = "", Mode mode = Mode::Enforce) {
    return run_pass({binding_of(policy_of(body, more), mode)});
  }

  // The most requests that were under way at once, looked at each millisecond.
  void watch_parallel(std::size_t& most) {
    most = std::max(most, actions->in_flight());
    next_look = loop.after(1ms, [this, &most] { watch_parallel(most); });
  }

  loop::Timer next_look;
};

constexpr auto kAtOnce = kube::Destroyer::kMostAtOnce;

TEST_F(PassTest, the_node_is_read_beside_the_list) {
  add_pod("web-0");
  node_answer.delay = 40ms;
  list_answer.delay = 40ms;
  run();
  EXPECT_EQ(reads(), (Lines{"pods 0s", "n1 0s"}));
  EXPECT_EQ(deletes(), Lines{"web-0 40ms"});
}

// Most urgent first: each waits for the record, and goes in the order of its pod's priority.
TEST_F(PassTest, pods_of_a_higher_priority_are_deleted_first) {
  for (const auto& [name, priority] :
       {std::pair{"web-0", 0}, {"web-1", 100}, {"web-2", 1'000'000}, {"web-3", 100}}) {
    add_pod(name);
    pods.at(name)["spec"]["priority"] = priority;
  }
  run();
  EXPECT_EQ(deletes(), (Lines{"web-2 0s", "web-1 0s", "web-3 0s", "web-0 0s"}));
}

TEST_F(PassTest, the_lease_is_read_beside_the_node_and_the_list) {
  add_pod("web-0");
  node_answer.delay = 40ms;
  list_answer.delay = 40ms;
  lease_answer.delay = 40ms;
  run();
  EXPECT_EQ(lease_reads(), Lines{"n1 0s"});
  EXPECT_EQ(deletes(), Lines{"web-0 40ms"});
  EXPECT_EQ(http.count("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"), 1U);
}

// A watch of the policies that stood still was believed for minutes: `mode: off` went unheard.
TEST_F(PassTest, nothing_is_deleted_before_the_policies_were_proven_beside_the_first_reading) {
  add_pod("web-0");
  int asked = 0;
  loop::Timer answer;
  prove_policies = [&](const std::weak_ptr<const void>& alive,
                       const std::function<void(const Result<void>&)>& done) {
    ++asked;
    answer = loop.after(300ms, [alive, done] {
      if (!alive.expired()) {
        done({});
      }
    });
  };
  run();
  EXPECT_EQ(deletes(), Lines{"web-0 300ms"});
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(reads(), (Lines{"pods 0s", "n1 0s"}));
}

TEST_F(PassTest, policies_that_cannot_be_proven_delete_nothing) {
  add_pod("web-0");
  loop::Timer answer;
  prove_policies = [&](const std::weak_ptr<const void>&,
                       const std::function<void(const Result<void>&)>& done) {
    answer = loop.in_next_turn([done] { done(failure(Error::Kind::Retryable, "nobody answers")); });
  };
  const auto pass = run();
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(pass->unreadable, 1);
}

TEST_F(PassTest, nothing_is_deleted_before_the_lease_has_arrived) {
  add_pod("web-0");
  lease_answer.delay = 300ms;
  run();
  EXPECT_EQ(deletes(), Lines{"web-0 300ms"});
}

TEST_F(PassTest, a_lease_that_takes_too_long_is_unread_and_the_guard_refuses) {
  add_pod("web-0");
  lease_answer.delay = 3s;
  OnePass pass(*this, binding_of(deleting_policy()));
  run_for(1s + 1ms);
  EXPECT_EQ(pass.readings, 1);
  EXPECT_EQ(pass.authority->reading.kubelet_lease, KubeletLease::Unread);
  EXPECT_EQ(log.count("lease_unreadable"), 1U);
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(PassTest, a_lease_is_read_again_with_its_node_in_a_long_pass) {
  add_pods(static_cast<int>(kAtOnce) + 1);
  delete_delay = 1500ms;
  run();
  EXPECT_EQ(lease_reads(), (Lines{"n1 0s", "n1 1s500ms"}));
  EXPECT_EQ(deletes().back(), "web-" + std::to_string(1000 + kAtOnce) + " 1s500ms");
}

TEST_F(PassTest, a_renewal_in_the_middle_of_a_pass_is_seen_by_the_guard) {
  add_pods(static_cast<int>(kAtOnce) + 1);
  delete_delay = 1500ms;
  OnePass pass(*this, binding_of(deleting_policy()));
  run_for(1s);
  nodes["n1"].renewed = "2026-01-02T05:00:01Z";
  ASSERT_TRUE(run_until([&pass] { return pass.over(); }));
  EXPECT_EQ(deletes().size(), kAtOnce);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::LeaseAlive), 1U);
}

TEST_F(PassTest, who_acts_on_a_living_kubelet_does_not_wait_for_its_lease_twice) {
  add_pod("web-0");
  nodes["n1"].ready = "False";
  lease_answer = test::FakeAnswer::silent();
  const auto pass = run("return fence.delete_pod('dead')", "trigger = { live_kubelet = true },");
  ASSERT_EQ(deletes().size(), 1U);
  EXPECT_TRUE(deletes()[0] == "web-0 1s" || deletes()[0] == "web-0 1s1ms") << deletes()[0];
  EXPECT_EQ(pass->result->failed, 0U);
}

TEST_F(PassTest, the_record_leaves_with_the_later_read_and_the_deletion_when_it_stands) {
  add_pod("web-0");
  struct Turns final : kube::CallObserver {
    explicit Turns(loop::Loop& watched) : loop(watched) {}
    void on_exchange(port::Method method, int, Duration, std::optional<WallTime>) override {
      if (method == port::Method::Get) {
        read_before = last_read == loop.turns() ? read_before : last_read;
        last_read = loop.turns();
      } else if (method == port::Method::Post) {
        recorded = loop.turns();
      }
    }
    loop::Loop& loop;
    std::uint64_t read_before = 0;
    std::uint64_t last_read = 0;  // of the namespace, beside the record
    std::uint64_t recorded = 0;
  } observer(loop);
  caller.observe(&observer);
  std::uint64_t intended = 0;
  story.hook = [&](const Record& record) {
    if (record.kind == Record::Kind::Intent) {
      intended = loop.turns();
    }
  };
  node_answer.delay = 70ms;
  list_answer.delay = 30ms;
  run();
  EXPECT_EQ(deletes(), Lines{"web-0 70ms"});
  EXPECT_EQ(observer.recorded, observer.read_before + 2);  // a whole exchange, begun in that turn
  EXPECT_EQ(observer.recorded, observer.last_read);
  EXPECT_EQ(intended, observer.recorded);

  add_pod("web-1");
  records.maps.clear();
  std::swap(node_answer.delay, list_answer.delay);
  run();
  EXPECT_EQ(observer.recorded, observer.read_before + 2);
  EXPECT_EQ(observer.recorded, observer.last_read);
  EXPECT_EQ(intended, observer.recorded);
  caller.observe(nullptr);
}

TEST_F(PassTest, pods_are_handled_by_namespace_and_name) {
  for (const char* name : {"web-2", "a", "web-10", "z", "web-1"}) {
    add_pod(name);
  }
  run();
  EXPECT_EQ(deletes(), (Lines{"a 0s", "web-1 0s", "web-10 0s", "web-2 0s", "z 0s"}));
}

TEST_F(PassTest, one_pod_that_fails_does_not_stop_the_others) {  // row E-09
  add_pods(3);
  scripts["web-1000"] = {broken()};
  const auto pass = run();
  EXPECT_EQ(pass->result->failed, 1U);
  EXPECT_EQ(deletes().size(), 3U);
  EXPECT_EQ(pass->memory.handled, (std::set<Uid>{Uid("uid-web-1001"), Uid("uid-web-1002")}));
}

TEST_F(PassTest, gone_and_replaced_pods_are_settled) {  // rows E-10, E-11
  add_pods(2);
  http.on(port::Method::Delete, "/api/v1/namespaces/db/pods/web-1000",
          [this](const test::FakeRequest&) {
            pods.erase("web-1000");
            return status(404, "NotFound", "web-1000");
          });
  http.on(port::Method::Delete, "/api/v1/namespaces/db/pods/web-1001",
          [this](const test::FakeRequest&) {
            pods["web-1001"]["metadata"]["uid"] = "another";
            return status(409, "Conflict");
          });
  const auto pass = run();
  EXPECT_EQ(pass->result->failed, 0U);
  EXPECT_EQ(pass->memory.handled.size(), 2U);
}

TEST_F(PassTest, a_script_that_fails_leaves_its_pod_alone_and_the_others_are_processed) {
  add_pods(3);  // row E-23
  const auto pass =
      run("if pod.name == 'web-1001' then error('oh no') end return fence.delete_pod('dead')");
  EXPECT_EQ(deletes(), (Lines{"web-1000 0s", "web-1002 0s"}));
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicyFailed), 1U);
  EXPECT_EQ(pass->result->failed, 1U);
}

TEST_F(PassTest, every_verdict_is_recorded_and_only_a_deletion_acts) {
  add_pods(4);
  const auto pass = run(R"(
    if pod.name == 'web-1000' then return fence.skip('none of mine') end
    if pod.name == 'web-1001' then return fence.forbid('never') end
    if pod.name == 'web-1002' then return fence.wait('later', 40) end
    return fence.delete_pod('dead'))");
  EXPECT_EQ(story.told(true),
            (Lines{"verdict policy_skips db/web-1000", "verdict policy_forbids db/web-1001",
                   "verdict policy_waits db/web-1002", "verdict policy_deletes_pod db/web-1003",
                   "intent policy_deletes_pod db/web-1003", "outcome done db/web-1003"}));
  EXPECT_EQ(story.records[1].text, "never");
  EXPECT_EQ(pass->result->look_again, Duration(40s));
}

TEST_F(PassTest, the_shortest_wait_counts) {
  add_pods(3);
  const auto pass = run("return fence.wait('later', pod.name == 'web-1001' and 7 or 90)");
  EXPECT_EQ(pass->result->look_again, Duration(7s));
}

TEST_F(PassTest, pods_that_no_policy_is_asked_about_are_named_with_their_reason) {  // row E-25
  add_pods(4);
  pods["web-1000"]["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "x";
  pods["web-1001"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  pods["web-1002"]["status"]["phase"] = "Succeeded";
  pods["web-1003"]["metadata"].erase("ownerReferences");
  run();
  EXPECT_EQ(story.told(true),
            (Lines{"verdict mirror_pod db/web-1000", "verdict daemon_set_pod db/web-1001",
                   "verdict finished_pod db/web-1002", "verdict bare_pod db/web-1003"}));
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(PassTest, what_the_incident_has_settled_is_not_deleted_again) {
  add_pod("web-0");
  pods["web-0"]["metadata"]["finalizers"] = {"example.com/keep"};
  pods["web-0"]["metadata"]["deletionTimestamp"] = "2026-01-02T05:00:00Z";
  const auto pass = std::make_unique<OnePass>(*this, binding_of(deleting_policy()));
  pass->memory.handled.insert(Uid("uid-web-0"));
  ASSERT_TRUE(run_until([&pass] { return pass->over(); }));
  EXPECT_EQ(story.told(true), Lines{"verdict handled_before db/web-0"});
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(PassTest, more_leave_at_once_where_the_server_shares_out_its_seats) {
  http.of_every_answer = {{"x-kubernetes-pf-prioritylevel-uid", "7a6e593d"}};
  add_pods(300);
  delete_delay = 100ms;
  std::size_t most = 0;
  watch_parallel(most);
  run();
  EXPECT_EQ(deletes().size(), 300U);
  EXPECT_EQ(most, kube::Destroyer::kMostWithFairness);
}

// Another incident's would wait behind them for a place in the lane.
TEST_F(PassTest, no_connections_are_opened_while_deletions_are_under_way) {
  add_pod("web-0");
  delete_delay = 4s;
  OnePass other(*this, binding_of(deleting_policy()));
  ASSERT_TRUE(run_until([this] { return actions->in_flight() == 1; }));
  add_pods(static_cast<int>(RecordPace::kFew) + 1);
  OnePass pass(*this, binding_of(deleting_policy()));
  ASSERT_TRUE(run_until([this] { return actions->in_flight() > 1; }));
  EXPECT_EQ(
      std::count_if(http.requests.begin(), http.requests.end(),
                    [](const test::FakeRequest& request) { return request.path == "/livez"; }),
      0);
}

// Their handshakes are done by the server that is to delete: not while it could.
TEST_F(PassTest, connections_are_opened_while_the_record_of_many_is_written) {
  add_pods(static_cast<int>(RecordPace::kFew) + 1);
  run();
  std::size_t opened = 0;
  for (const test::FakeRequest& request : http.requests) {
    if (request.method == port::Method::Delete) {
      break;
    }
    opened += request.path == "/livez" ? 1U : 0U;
  }
  EXPECT_EQ(opened, kAtOnce);
}

TEST_F(PassTest, few_pods_do_not_wait_for_connections) {
  add_pods(static_cast<int>(RecordPace::kFew));
  run();
  EXPECT_EQ(deletes().size(), RecordPace::kFew);
  EXPECT_EQ(
      std::count_if(http.requests.begin(), http.requests.end(),
                    [](const test::FakeRequest& request) { return request.path == "/livez"; }),
      0);
}

TEST_F(PassTest, three_hundred_pods_a_bounded_number_at_once_and_in_slices) {
  add_pods(300);
  delete_delay = 100ms;
  std::size_t most = 0;
  watch_parallel(most);
  std::map<std::uint64_t, std::size_t> verdicts_in_turn;
  story.hook = [&](const Record& record) {
    if (record.kind == Record::Kind::Verdict) {
      ++verdicts_in_turn[loop.turns()];
    }
  };
  const auto pass = run();
  EXPECT_EQ(deletes().size(), 300U);
  EXPECT_TRUE(pods.empty());
  EXPECT_EQ(most, kube::Destroyer::kMostAtOnce);
  EXPECT_EQ(verdicts_in_turn.size(), 10U);  // 9 slices of 32 and one of 12
  for (const auto& [turn, verdicts] : verdicts_in_turn) {
    EXPECT_LE(verdicts, PodQueue::kPodsPerTurn) << turn;
  }
  EXPECT_EQ(pass->endings, 1);
}

TEST_F(PassTest, the_first_deletions_wait_for_few_verdicts_and_the_record_is_written_seldom) {
  add_pods(40);
  records.delay = 5ms;
  poller.look = 100us;  // each verdict takes time
  std::size_t recorded = 0;
  story.hook = [&](const Record& record) {
    if (record.kind == Record::Kind::Intent && recorded == 0) {
      recorded = records.record("i1").steps.size();
    }
  };
  run();
  EXPECT_EQ(deletes().size(), 40U);
  EXPECT_GE(recorded, 1U);
  EXPECT_LE(recorded, 5U);
  EXPECT_LE(records.writes, 4);
}

// Of ten pods three were recorded first and the others by another write: the last went later.
TEST_F(PassTest, few_pods_are_recorded_by_one_write) {
  add_pods(10);
  poller.look = 50us;
  std::size_t recorded = 0;
  story.hook = [&](const Record& record) {
    if (record.kind == Record::Kind::Intent && recorded == 0) {
      recorded = records.record("i1").steps.size();
    }
  };
  run();
  EXPECT_EQ(deletes().size(), 10U);
  EXPECT_EQ(recorded, 10U);
}

TEST_F(PassTest, a_reading_older_than_a_second_is_renewed_before_any_further_deletion) {
  add_pods(2 * kAtOnce + 12);
  delete_delay = 700ms;
  const auto pass = run();
  // A full width at 0 s and at 0.7 s; then the node is read again, and the rest goes on that
  // reading.
  EXPECT_EQ(reads(), (Lines{"pods 0s", "n1 0s", "n1 1s400ms"}));
  const Lines sent = deletes();
  EXPECT_EQ(std::count_if(sent.begin(), sent.end(),
                          [](const std::string& line) { return line.ends_with(" 700ms"); }),
            kAtOnce);
  EXPECT_EQ(std::count_if(sent.begin(), sent.end(),
                          [](const std::string& line) { return line.ends_with(" 1s400ms"); }),
            12);
  EXPECT_TRUE(pass->result.has_value());
}

TEST_F(PassTest, a_fresh_reading_that_says_ready_ends_the_deletions) {  // row E-08
  add_pods(kAtOnce + 12);
  delete_delay = 1100ms;
  OnePass pass(*this, binding_of(deleting_policy()));
  run_for(500ms);
  nodes["n1"].ready = "True";  // only the live read knows
  ASSERT_TRUE(run_until([&pass] { return pass.over(); }));
  run_for(1min);
  EXPECT_EQ(deletes().size(), kAtOnce);
  EXPECT_EQ(pass.readings, 2);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Done), kAtOnce);  // of those that had left
}

TEST_F(PassTest, a_slow_reading_never_acts) {
  add_pod("web-0");
  node_answer.delay = 1s + 1ms;
  const auto pass = run();
  EXPECT_EQ(pass->unreadable, 1);
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(PassTest, a_deletion_that_waits_too_long_goes_after_a_fresh_reading) {
  add_pod("web-0");

  story.hook = [this](const Record& record) {
    credentials.late = story.count(Record::Kind::Intent, Reason::PolicyDeletesPod) == 1 &&
                       record.kind == Record::Kind::Intent;
  };
  OnePass pass(*this, binding_of(deleting_policy()));
  ASSERT_TRUE(run_until([this] { return credentials.waiting != nullptr; }));
  credentials.late = false;
  run_for(1100ms);
  credentials.answer(std::exchange(credentials.waiting, nullptr));
  ASSERT_TRUE(run_until([&pass] { return pass.over(); }));
  EXPECT_EQ(story.told(),
            (Lines{"intent policy_deletes_pod db/web-0", "refusal reading_too_old db/web-0",
                   "intent policy_deletes_pod db/web-0", "outcome done db/web-0"}));
  EXPECT_EQ(pass.result->failed, 0U);
}

TEST_F(PassTest, deletions_that_always_come_too_late_end_the_pass_and_count_as_failed) {
  add_pod("web-0");
  story.hook = [this](const Record& record) {
    credentials.late = record.kind == Record::Kind::Intent;
  };
  OnePass pass(*this, binding_of(deleting_policy()));
  for (int i = 0; i < 20 && !pass.over(); ++i) {
    run_until([&] { return credentials.waiting != nullptr || pass.over(); });
    credentials.late = false;
    run_for(1100ms);
    if (const auto ready = std::exchange(credentials.waiting, nullptr)) {
      credentials.answer(ready);
    }
    run_for(1ms);
  }
  ASSERT_TRUE(pass.over());
  EXPECT_EQ(story.count(Record::Kind::Intent, Reason::PolicyDeletesPod), 1U + Pass::kLateAttempts);
  EXPECT_EQ(pass.result->failed, 1U);
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(PassTest, a_slow_script_holds_up_neither_the_loop_nor_the_deletions) {
  add_pods(100);
  // Each look at the CPU clock, of which an evaluation takes some, lets 15 ms pass.
  struct SlowCpu final : port::CpuClock {
    explicit SlowCpu(test::FakePoller& told) : poller(told) {}
    Duration thread_time() override {
      poller.advance(15ms);
      return {};
    }
    test::FakePoller& poller;
  } slow(poller);
  auto policy =
      policy::Policy::load(policy_text("return fence.delete_pod('dead')"), "test.lua", slow);
  ASSERT_TRUE(policy) << policy.error().text;
  Duration longest{};
  story.hook = [&](const Record&) { longest = std::max(longest, poller.now() - loop.now()); };
  OnePass pass(*this, binding_of(std::make_shared<const policy::Policy>(*std::move(policy))));
  ASSERT_TRUE(run_until([&pass] { return pass.over(); }));
  EXPECT_LE(longest, 100ms);
  EXPECT_EQ(deletes().size(), 100U);
}

TEST_F(PassTest, a_slow_list_makes_the_node_be_read_again) {
  add_pod("web-0");
  list_answer.delay = 3s;
  run();
  EXPECT_EQ(reads(), (Lines{"pods 0s", "n1 0s", "n1 3s"}));
  EXPECT_EQ(deletes(), Lines{"web-0 3s"});
}

TEST_F(PassTest, a_node_that_is_ready_ends_it_without_waiting_for_the_list) {
  add_pod("web-0");
  list_answer.delay = 20s;
  nodes["n1"].ready = "True";
  const auto pass = run();
  EXPECT_LT(loop.now() - Moment{}, 1s);
  EXPECT_TRUE(pass->ended);
  EXPECT_EQ(http.open_exchanges(), 0U);  // the list was given up
}

TEST_F(PassTest, a_pod_that_cannot_be_understood_is_tried_again_and_touches_nobody) {
  list_answer.body = R"({"kind":"PodList","items":[{"metadata":{"name":"web-0"}}]})";
  const auto pass = run();
  EXPECT_EQ(pass->result->failed, 1U);
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(PassTest, an_unreadable_list_decides_nothing) {
  add_pod("web-0");
  for (const test::FakeAnswer& answer :
       {broken(), test::FakeAnswer::refused(), test::FakeAnswer{.body = R"({"items":[{"meta)"}}) {
    list_answer = answer;
    list_answer.body = answer.body.empty() ? "{" : answer.body;
    const auto pass = run();
    EXPECT_EQ(pass->unreadable, 1);
  }
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(PassTest, an_unreadable_node_decides_nothing) {
  add_pod("web-0");
  for (const test::FakeAnswer& answer :
       {broken(), test::FakeAnswer::refused(), test::FakeAnswer{.body = R"({"metadata":{)"},
        test::FakeAnswer{.body = R"({"metadata":{"name":"n2","uid":"node-1"}})"}}) {
    node_answer = answer;
    node_answer.body = answer.body.empty() ? "{" : answer.body;
    const auto pass = run();
    EXPECT_EQ(pass->unreadable, 1);
  }
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(PassTest, a_pod_that_the_list_should_not_hold_is_refused_by_the_guard) {
  add_pod("web-0");
  nlohmann::json stray = pods["web-0"];
  stray["spec"]["nodeName"] = "n2";
  list_answer.body = nlohmann::json{
      {"kind", "PodList"},
      {"metadata", {{"resourceVersion", "9"}}},
      {"items", {stray}}}.dump();
  run();
  EXPECT_EQ(story.told(), Lines{"refusal wrong_node db/web-0"});
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(PassTest, observing_sends_nothing_however_long_it_takes) {  // row E-27
  add_pods(100);
  list_answer.delay = 2s;
  const auto pass = run("return fence.delete_pod('dead')", "", Mode::Observe);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::ModeObserves), 100U);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(pass->result->failed, 0U);
}

TEST_F(PassTest, the_label_selector_is_left_to_the_server) {
  run("return fence.delete_pod('dead')", "select = { labels = 'app=noobaa' },");
  EXPECT_EQ(http.count("labelSelector=app%3Dnoobaa"), 1U);
  EXPECT_EQ(http.count("/api/v1/namespaces/db/pods?"), 1U);
}

TEST_F(PassTest, a_retired_pass_starts_nothing_and_calls_nobody) {
  add_pods(kAtOnce + 12);
  delete_delay = 300ms;
  OnePass pass(*this, binding_of(deleting_policy()));
  run_for(100ms);
  pass.pass->retire();
  run_for(1min);
  EXPECT_EQ(deletes().size(), kAtOnce);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Done), kAtOnce);
  EXPECT_EQ(pass.endings, 0);
}

TEST_F(PassTest, what_a_cancelled_pass_deleted_is_verified_after_the_next) {
  add_pod("web-0");
  delete_delay = 300ms;
  OnePass pass(*this, binding_of(deleting_policy()));
  run_for(100ms);
  pass.pass->retire();
  run_for(10s);
  ASSERT_EQ(story.count(Record::Kind::Outcome, Reason::Done), 1U);
  EXPECT_FALSE(pass.memory.replacements.awaits());
  pass.begin();
  ASSERT_TRUE(run_until([&pass] { return pass.over(); }));
  EXPECT_TRUE(pass.memory.replacements.awaits());
  ASSERT_TRUE(pass.result->unreplaced);
  EXPECT_LT(*pass.result->unreplaced, Moment{} + 2s) << "when it was deleted";
  EXPECT_GT(*pass.result->unreplaced, Moment{} + 299ms);
  EXPECT_TRUE(pass.result->unverified);
  pass.begin();
  ASSERT_TRUE(run_until([&pass] { return pass.over(); }));
  EXPECT_EQ(pass.memory.replacements.deletions(), 1U) << "once";
}

TEST_F(PassTest, what_somebody_else_deleted_is_not_verified) {
  add_pod("web-0");
  http.on(port::Method::Delete, "/api/v1/namespaces/db/pods/web-0",
          [this](const test::FakeRequest&) {
            pods.clear();
            return status(404, "NotFound", "web-0");
          });
  const auto pass = run("return fence.delete_pod('dead')");
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::AlreadyGone), 1U);
  EXPECT_FALSE(pass->memory.replacements.awaits());
  EXPECT_FALSE(pass->result->unreplaced);
}

TEST_F(PassTest, it_can_be_destroyed_at_any_moment) {
  for (const Duration after : {0ms, 5ms, 15ms, 25ms, 400ms, 1100ms, 1600ms}) {
    pods.clear();
    add_pods(4 * kAtOnce);
    node_answer.delay = 10ms;
    list_answer.delay = 20ms;
    delete_delay = 500ms;
    OnePass pass(*this, binding_of(deleting_policy()));
    run_for(after);
    pass.pass.reset();
    run_for(10s);
    EXPECT_EQ(pass.endings, 0);
    EXPECT_EQ(http.open_exchanges(), 0U);
    EXPECT_EQ(actions->in_flight(), 0U);
  }
}

}  // namespace
}  // namespace moonfence::fence
