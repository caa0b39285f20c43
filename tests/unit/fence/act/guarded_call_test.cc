#include "fence/act/guarded_call.h"

#include <algorithm>
#include <iterator>

#include "fence/act/steps.h"
#include "fence/incident/restore.h"
#include "unit/fence/fence_fixture.h"

namespace moonfence::fence {
namespace {

using audit::Reason;
using audit::Record;

struct GuardedCallTest : FenceTest {
  std::shared_ptr<Authority> authority = std::make_shared<Authority>(
      Authority{.incident_open = true,
                .node = NodeName("n1"),
                .node_uid = Uid("node-1"),
                .reading = {.readiness = cluster::Readiness::Unknown,
                            .uid = Uid("node-1"),
                            .keeps_replacements_off = true,
                            .kubelet_lease = KubeletLease::Dead,
                            .sent = Moment{}},
                .zone = {},
                .ledger = new_ledger(),
                .brake = &brake,
                .doubt = &doubt,
                .protections = &protections,
                .active = &active,
                .leadership = &leadership,
                // For as long as any of these tests lasts.
                .namespaces = {{Namespace("db"), {.known = true, .sent = Moment{} + 24h}}}});
  std::shared_ptr<const void> listener = std::make_shared<int>(0);
  std::vector<ActionOutcome> outcomes;

  GuardedCallTest() {
    add_pod("web-0");
    enforce(Mode::Enforce);
    record(deletion());
  }

  void enforce(Mode mode, const std::string& digest = "d1") {
    Binding binding = binding_of(deleting_policy(), mode);
    binding.digest = digest;
    activate({binding});
  }

  void record(const DeletePod& made) {
    authority->ledger->plan(step_of(made));
    authority->ledger->stands(authority->ledger->revision());
  }

  // As the set that is in force now would want it.
  [[nodiscard]] DeletePod deletion(const std::string& name = "web-0") const {
    DeletePod made;
    made.pod.ref = {.space = Namespace("db"), .name = name};
    made.pod.uid = Uid("uid-" + name);
    made.pod.node = NodeName("n1");
    made.pod.owners = {{.api_version = "apps/v1",
                        .kind = "StatefulSet",
                        .name = "web",
                        .uid = Uid("set-1"),
                        .controller = true}};
    made.incident = IncidentId("i1");
    made.policy = "test";
    made.policy_digest = "d1";
    made.set_digest = active.current()->digest;
    made.why = "its node is dead";
    return made;
  }

  void start(const DeletePod& made) {
    actions->perform(made, authority, listener,
                     [this](const ActionOutcome& outcome) { outcomes.push_back(outcome); });
  }
  void set_fenced_taint() {
    actions->perform(SetFencedTaint{.waiting = deletion(), .operations = nlohmann::json::array()},
                     authority, listener,
                     [this](const ActionOutcome& outcome) { outcomes.push_back(outcome); });
  }
  // The reason of the outcome of one deletion that the server answers so.
  Reason answered(const test::FakeAnswer& answer) {
    scripts["web-0"] = {answer};
    outcomes.clear();
    start(deletion());
    EXPECT_TRUE(run_until([this] { return !outcomes.empty(); }));
    authority->reading.sent = loop.now();
    EXPECT_EQ(story.records.back().reason, outcomes.at(0).reason);
    return outcomes.at(0).reason;
  }
};

TEST_F(GuardedCallTest, the_intent_is_recorded_before_the_request_leaves_and_the_outcome_after) {
  std::vector<std::size_t> sent;
  story.hook = [&](const Record&) { sent.push_back(http.requests.size()); };
  start(deletion());
  EXPECT_EQ(story.told(), Lines{"intent policy_deletes_pod db/web-0"});
  run_for(1s);
  EXPECT_EQ(story.told(), (Lines{"intent policy_deletes_pod db/web-0", "outcome done db/web-0"}));
  EXPECT_EQ(sent, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(outcomes.at(0).reason, Reason::Done);
  EXPECT_EQ(actions->in_flight(), 0U);
}

TEST_F(GuardedCallTest, the_records_say_who_decided_what_about_which_object) {
  delete_delay = 40ms;
  DeletePod made = deletion();
  made.attempt = 3;
  start(made);
  run_for(1s);
  ASSERT_EQ(story.records.size(), 2U);
  for (const Record& record : story.records) {
    EXPECT_EQ(record.incident, IncidentId("i1"));
    EXPECT_EQ(record.node, NodeName("n1"));
    EXPECT_EQ(record.node_uid, Uid("node-1"));
    EXPECT_EQ(record.pod_uid, Uid("uid-web-0"));
    EXPECT_EQ(record.policy, "test");
    EXPECT_EQ(record.policy_digest, "d1");
    EXPECT_EQ(record.action, "delete_pod");
    EXPECT_EQ(record.attempt, 3U);
  }
  EXPECT_EQ(story.records[0].text, "its node is dead");
  EXPECT_EQ(story.records[1].took, 40ms);
}

TEST_F(GuardedCallTest, an_outcome_has_what_the_server_answered_and_a_lost_one_nothing) {
  const auto told = [this](const test::FakeAnswer& answer) {
    (void)answered(answer);
    return story.records.back().http_status;
  };
  EXPECT_EQ(told({.status = 200}), 200);
  EXPECT_EQ(told({.status = 403}), 403);
  EXPECT_EQ(story.records.at(story.records.size() - 2).http_status, 0) << "an intent";
  EXPECT_EQ(told(test::FakeAnswer::lost()), 0);
}

TEST_F(GuardedCallTest, the_request_carries_the_uid_no_grace_and_a_limit_for_the_server) {
  start(deletion());
  run_for(1s);
  ASSERT_EQ(http.requests.size(), 1U);
  EXPECT_EQ(http.requests[0].line(), "DELETE /api/v1/namespaces/db/pods/web-0?timeout=5s");
  const auto body = nlohmann::json::parse(http.requests[0].body);
  EXPECT_EQ(body["preconditions"]["uid"], "uid-web-0");
  EXPECT_EQ(body["gracePeriodSeconds"], 0);
}

TEST_F(GuardedCallTest, what_the_guard_refuses_is_recorded_and_never_leaves) {
  enforce(Mode::Observe);
  start(deletion());
  EXPECT_EQ(outcomes.at(0).reason, Reason::ModeObserves);
  run_for(10s);
  EXPECT_EQ(story.told(), Lines{"refusal mode_observes db/web-0"});
  EXPECT_FALSE(story.records.at(0).stopped_at_the_wire) << "nothing was begun";
  EXPECT_EQ(http.requests.size(), 0U);
}

TEST_F(GuardedCallTest, an_intent_that_cannot_be_recorded_forbids_the_deletion) {
  story.full = true;
  start(deletion());
  EXPECT_EQ(outcomes.at(0).reason, Reason::AuditUnwritable);
  EXPECT_FALSE(outcomes.at(0).settled());
  run_for(10s);
  EXPECT_EQ(http.requests.size(), 0U);
  EXPECT_EQ(trail.failures(), 2U);  // the intent and its refusal
}

TEST_F(GuardedCallTest, a_request_that_waits_is_refused_when_its_incident_is_closed_meanwhile) {
  credentials.late = true;
  start(deletion());
  run_for(100ms);
  authority->incident_open = false;
  credentials.answer(credentials.waiting);
  run_for(1s);
  EXPECT_EQ(story.told(),
            (Lines{"intent policy_deletes_pod db/web-0", "refusal incident_closed db/web-0"}));
  EXPECT_TRUE(story.records.at(1).stopped_at_the_wire) << "it ends what the intent began";
  EXPECT_EQ(http.requests.size(), 0U);
  EXPECT_EQ(outcomes.at(0).reason, Reason::IncidentClosed);
}

TEST_F(GuardedCallTest, a_request_that_waits_is_refused_when_its_policy_changes_meanwhile) {
  const auto refused_after = [this](const std::function<void()>& reload) {
    enforce(Mode::Enforce);
    authority->reading.sent = loop.now();
    credentials.late = true;
    outcomes.clear();
    start(deletion());
    run_for(100ms);
    reload();
    credentials.answer(std::exchange(credentials.waiting, nullptr));
    run_for(1s);
    return outcomes.at(0).reason;
  };
  EXPECT_EQ(refused_after([this] { enforce(Mode::Enforce, "d2"); }), Reason::PolicyChanged);
  EXPECT_EQ(story.told().back(), "refusal policy_changed db/web-0");
  EXPECT_EQ(refused_after([this] { enforce(Mode::Observe); }), Reason::PolicyChanged);
  EXPECT_EQ(refused_after([this] { activate({}); }), Reason::PolicyChanged);
  EXPECT_EQ(http.requests.size(), 0U);
}

TEST_F(GuardedCallTest, a_request_that_waits_is_refused_when_its_reading_grew_old) {
  credentials.late = true;
  start(deletion());
  run_for(1s + 1ms);
  credentials.answer(credentials.waiting);
  run_for(1s);
  EXPECT_EQ(story.told().back(), "refusal reading_too_old db/web-0");
  EXPECT_EQ(http.requests.size(), 0U);
}

TEST_F(GuardedCallTest, the_wire_asks_by_the_clock_as_it_is_not_by_the_turn_s) {
  start(deletion());
  // A turn that takes long: the time moves on after the turn began.
  poller.deliver([this] { poller.advance(2s); });
  loop.turn();
  run_for(1s);
  EXPECT_EQ(story.told().back(), "refusal reading_too_old db/web-0");
  EXPECT_EQ(http.requests.size(), 0U);
}

TEST_F(GuardedCallTest, a_repeat_after_a_401_passes_the_guard_again) {
  credentials.next_token = "second";
  http.on(port::Method::Delete, "/api/v1/namespaces/db/pods/web-0",
          [this](const test::FakeRequest&) {
            authority->incident_open = false;
            return status(401, "Unauthorized");
          });
  start(deletion());
  run_for(1s);
  EXPECT_EQ(http.requests.size(), 1U);
  EXPECT_EQ(story.told().back(), "refusal incident_closed db/web-0");
}

TEST_F(GuardedCallTest, every_answer_of_the_server_has_its_reason) {
  // A 404 or 409 may be anybody's: the pod is there.
  EXPECT_EQ(answered(status(404, "NotFound", "web-0")), Reason::Refused);
  EXPECT_EQ(answered(status(409, "Conflict")), Reason::Refused);
  EXPECT_EQ(answered(status(409, "Denied")), Reason::Refused);
  EXPECT_EQ(answered(status(403, "Forbidden")), Reason::Refused);  // row E-24
  EXPECT_EQ(answered(status(422, "Invalid")), Reason::Refused);
  EXPECT_EQ(answered(status(401, "Unauthorized")), Reason::Retryable);
  EXPECT_EQ(answered(status(429, "TooManyRequests")), Reason::Retryable);
  EXPECT_EQ(answered(test::FakeAnswer::refused()), Reason::Retryable);
  // It may have happened.
  EXPECT_EQ(answered(broken()), Reason::OutcomeLost);
  EXPECT_EQ(answered(test::FakeAnswer::lost()), Reason::OutcomeLost);
  EXPECT_EQ(answered(test::FakeAnswer::silent()), Reason::OutcomeLost);
  EXPECT_EQ(answered({.body = R"({"kind":"Po)"}), Reason::OutcomeLost);
  // Marked: a finalizer keeps it.
  nlohmann::json marked = pods["web-0"];
  marked["metadata"]["finalizers"] = {"example.com/keep"};
  EXPECT_EQ(answered({.body = marked.dump()}), Reason::MarkedOnly);
  EXPECT_EQ(answered({.body = pods["web-0"].dump()}), Reason::Done);
  pods["web-0"]["metadata"]["uid"] = "another";
  EXPECT_EQ(answered(status(409, "Conflict")), Reason::Replaced);  // row E-11
  look_answer = broken();
  EXPECT_EQ(answered(status(409, "Conflict")), Reason::Refused) << "nobody could look";
  look_answer = {};
  pods.clear();
  EXPECT_EQ(answered(status(404, "NotFound", "web-0")), Reason::AlreadyGone);  // row E-10
}

TEST_F(GuardedCallTest, only_what_needs_no_repetition_is_settled) {
  for (const Reason reason : audit::all_reasons()) {
    const bool settled = reason == Reason::Done || reason == Reason::MarkedOnly ||
                         reason == Reason::AlreadyGone || reason == Reason::Replaced;
    EXPECT_EQ((ActionOutcome{.reason = reason, .retry_after = {}}).settled(), settled)
        << audit::code(reason);
  }
}

TEST_F(GuardedCallTest, the_server_s_retry_after_reaches_the_listener) {
  EXPECT_EQ(answered(status(429, "TooManyRequests", "web-0", {{"retry-after", "7"}})),
            Reason::Retryable);
  EXPECT_EQ(outcomes.at(0).retry_after, Duration(7s));
}

TEST_F(GuardedCallTest, what_has_left_is_recorded_also_when_nobody_listens_any_more) {
  delete_delay = 500ms;
  start(deletion());
  run_for(100ms);
  listener.reset();
  authority->incident_open = false;
  run_for(1s);
  EXPECT_EQ(story.told().back(), "outcome done db/web-0");
  EXPECT_TRUE(outcomes.empty());
}

// Seed 954304571: a pass was cancelled while its deletion hung, and the next one sent it again.
TEST_F(GuardedCallTest, what_is_under_way_is_not_sent_again_and_both_hear_of_it) {
  delete_delay = 3s;
  start(deletion());
  run_for(2s);
  authority->reading.sent = loop.now();
  start(deletion());
  EXPECT_TRUE(outcomes.empty());
  EXPECT_TRUE(run_until([this] { return !outcomes.empty(); }));
  EXPECT_EQ(http.requests.size(), 1U);
  EXPECT_EQ(story.told(), (Lines{"intent policy_deletes_pod db/web-0", "outcome done db/web-0"}));
  ASSERT_EQ(outcomes.size(), 2U);
  EXPECT_EQ(outcomes[1].reason, Reason::Done);
  EXPECT_FALSE(authority->ledger->is_busy());
}

TEST_F(GuardedCallTest, a_pass_that_was_cancelled_does_not_hear_of_what_the_next_one_joined) {
  delete_delay = 3s;
  start(deletion());
  run_for(2s);
  listener = std::make_shared<int>(0);
  start(deletion());
  run_for(10s);
  EXPECT_EQ(outcomes.size(), 1U);
}

TEST_F(GuardedCallTest, another_incident_of_the_node_does_not_rest_on_a_call_of_the_first) {
  delete_delay = 3s;
  start(deletion());
  run_for(500ms);
  authority->incident_open = false;
  authority = std::make_shared<Authority>(*authority);
  authority->incident_open = true;
  authority->ledger = new_ledger();
  authority->reading.sent = loop.now();
  record(deletion());
  start(deletion());
  run_for(10s);
  EXPECT_EQ(http.count("DELETE "), 2U);
  EXPECT_EQ(outcomes.size(), 2U);
}

TEST_F(GuardedCallTest, a_taint_that_is_under_way_is_not_set_again) {
  patch_answers = {{.body = node_json("n1").dump(), .delay = 3s}};
  authority->quarantine = Quarantine::Always;
  for (int pass = 0; pass < 2; ++pass) {
    authority->reading.sent = loop.now();
    set_fenced_taint();
    run_for(1s);
  }
  run_for(5s);
  EXPECT_EQ(http.requests.size(), 1U);
  EXPECT_EQ(outcomes.size(), 2U);
  EXPECT_EQ(story.told().size(), 2U);
}

TEST_F(GuardedCallTest,
       a_taint_counts_as_an_act_on_its_node_when_its_intent_stands_and_not_before) {
  authority->quarantine = Quarantine::Always;
  story.full = true;
  set_fenced_taint();
  EXPECT_EQ(outcomes.at(0).reason, Reason::AuditUnwritable);
  EXPECT_FALSE(brake.dealt_with(NodeName("n1"), loop.now()));
  EXPECT_EQ(brake.being_fenced(), 0U);
  story.full = false;
  story.hook = [this](const Record& record) {
    EXPECT_EQ(brake.dealt_with(NodeName("n1"), loop.now()), record.kind == Record::Kind::Outcome);
  };
  set_fenced_taint();
  EXPECT_TRUE(brake.dealt_with(NodeName("n1"), loop.now()));
  EXPECT_EQ(brake.being_fenced(), 1U);
  run_for(1s);
  EXPECT_EQ(story.told(), (Lines{"intent sets_quarantine", "outcome done"}));
  EXPECT_EQ(brake.being_fenced(), 0U);
}

TEST_F(GuardedCallTest, a_release_that_is_under_way_is_not_sent_again) {
  const std::set<std::string> drivers = {"csi.example.com"};
  release.on = true;
  const auto storage =
      std::make_shared<kube::NodeStorage>(kube::NodeStorage{.boot_id = "boot-1",
                                                            .attach_managed = true,
                                                            .ready_index = 0,
                                                            .ready_status = "Unknown",
                                                            .ready_heartbeat = "t"});
  authority->fencing_drivers = &drivers;
  authority->release = &release;
  authority->boot_id = "boot-1";
  authority->reading.storage = storage;
  patch_answers = {{.body = node_json("n1").dump(), .delay = 3s}, {.body = node_json("n1").dump()}};
  const auto order = [&](const std::string& volume) {
    ReleaseVolume made = {.verdict = deletion(), .target = {}};
    made.target = {.attachment = {.attachment = {.name = "csi-" + volume,
                                                 .uid = Uid("va-" + volume),
                                                 .attacher = "csi.example.com",
                                                 .node = NodeName("n1"),
                                                 .volume = "pv-" + volume,
                                                 .held_by_attacher = true},
                                  .driver = "csi.example.com",
                                  .volume = "pv-" + volume,
                                  .used_by_others = false},
                   .name = "kubernetes.io/csi/csi.example.com^" + volume,
                   .attachment_is_gone = true,
                   .controller_is_alive = true,
                   .attacher_is_alive = true,
                   .checked = loop.now(),
                   .seen = storage};
    IncidentRecord::Step step;
    step.kind = IncidentRecord::Step::Kind::DeleteAttachment;
    step.attachment_uid = made.target.attachment.attachment.uid;
    authority->ledger->plan(std::move(step));
    authority->ledger->stands(authority->ledger->revision());
    return made;
  };
  Lines heard;
  const auto send = [&](const Lines& volumes) {
    authority->reading.sent = loop.now();
    std::vector<ReleaseVolume> orders;
    std::transform(volumes.begin(), volumes.end(), std::back_inserter(orders), order);
    actions->perform(orders, authority, listener,
                     [&heard](const ReleaseVolume& volume, const ActionOutcome& outcome) {
                       heard.push_back(volume.target.name.substr(volume.target.name.size() - 1) +
                                       " " + std::string(audit::code(outcome.reason)));
                     });
    run_for(1s);
  };
  send({"a", "b"});
  send({"b", "c"});  // what is new of it goes
  EXPECT_EQ(http.requests.size(), 2U);
  EXPECT_EQ(heard, Lines{"c done"});
  run_for(5s);
  EXPECT_EQ(http.requests.size(), 2U);
  EXPECT_EQ(heard, (Lines{"c done", "a done", "b done", "b done"}));
  EXPECT_EQ(story.count(Record::Kind::Intent, Reason::PolicyReleases), 3U);
}

TEST_F(GuardedCallTest, nothing_calls_back_into_actions_that_are_gone) {
  delete_delay = 500ms;
  start(deletion());
  run_for(100ms);
  EXPECT_EQ(actions->in_flight(), 1U);
  actions.reset();
  run_for(10s);
  EXPECT_TRUE(outcomes.empty());
}

}  // namespace
}  // namespace moonfence::fence
