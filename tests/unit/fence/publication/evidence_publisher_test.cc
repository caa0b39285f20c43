#include "fence/publication/evidence_publisher.h"

#include <gmock/gmock.h>

#include "kube/wire/caller.h"
#include "unit/fence/publication/evidence_fixture.h"

namespace moonfence::fence::telling {
namespace {

using cluster::Kernel;
using cluster::Readiness;

constexpr const char* kPath = "/api/v1/nodes/n1";
const WallTime kBegin = WallTime(1767330000s);

FakeAnswer refusal(int code, const std::string& reason, const std::string& message = "no") {
  return {.status = code,
          .body = json{
              {"kind", "Status"},
              {"apiVersion", "v1"},
              {"status", "Failure"},
              {"reason", reason},
              {"message", message},
              {"details", {{"name", "n1"}}},
              {"code",
               code}}.dump()};
}

struct EvidencePublisherTest : testing::Test {
  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeHttp http{loop};
  test::FakeCredentials credentials;
  test::FakeLog log;
  kube::Caller caller{loop, http, credentials, log, "https://api:6443", "moonfence/0.1"};
  test::FakeLeadership leadership;
  policy::ActiveSet active;
  Protections protections = {.namespaces = {}, .own_node = NodeName("n9"), .hold_marks = {}};
  test::FakeKernels kernels;
  ReadPowers powers;
  std::shared_ptr<Authority> authority = std::make_shared<Authority>();

  std::optional<json> node = make_node();
  std::optional<FakeAnswer> patch_answer;
  Duration patch_delay{};
  std::function<void()> before_patch = [] {};
  std::vector<EvidencePublisher::News> news;
  std::optional<EvidencePublisher> publisher;

  EvidencePublisherTest() {
    http.on(port::Method::Get, kPath, [this](const FakeRequest&) {
      return node ? FakeAnswer{.body = node->dump()} : refusal(404, "NotFound");
    });
    http.on(port::Method::Patch, std::string(kPath) + "/status",
            [this](const FakeRequest& request) { return patch(request); });
    authority->node = NodeName("n1");
    authority->node_uid = Uid("uid-1");
    authority->kernels = &kernels;
    authority->powers = &powers;
    authority->reading = {
        .readiness = Readiness::Unknown, .uid = Uid("uid-1"), .kubelet_lease = KubeletLease::Dead};
    set_mode(policy::Mode::Enforce);
    start();
  }
  void set_mode(policy::Mode mode) {
    static StoppedCpuClock clock;
    auto loaded = policy::Policy::load(
        "return policy { api = 1, name = 'p', version = '1.0.0', summary = 's', "
        "pod = function() return fence.skip('no') end }",
        "p.lua", clock);
    ASSERT_TRUE(loaded) << loaded.error().message();
    policy::PolicySet set;
    set.bindings.push_back({.name = "p",
                            .policy = std::make_shared<const policy::Policy>(*std::move(loaded)),
                            .scope = policy::NamespaceScope::everywhere(),
                            .mode = mode,
                            .allow = {},
                            .digest = {},
                            .error = {}});
    active.activate(std::make_shared<const policy::PolicySet>(std::move(set)));
  }
  // Another life, or another replica.
  void start(bool on = true) {
    publisher.emplace(EvidencePublisher::Surroundings{
                          .loop = loop,
                          .caller = caller,
                          .log = log,
                          .leadership = leadership,
                          .active = active,
                          .protections = protections,
                          .kernels = &kernels,
                          .now = [this] { return kBegin + (loop.now() - Moment{}); },
                          .published = [this](const auto& each) { news.push_back(each); }},
                      on);
    publisher->lead();
  }
  FakeAnswer patch(const FakeRequest& request) {
    before_patch();
    if (patch_answer) {
      return *patch_answer;
    }
    if (!node) {
      return refusal(404, "NotFound");
    }
    const json change = json::parse(request.body);
    json& metadata = (*node)["metadata"];
    if (change["metadata"]["uid"] != metadata["uid"] ||
        change["metadata"]["resourceVersion"] != metadata["resourceVersion"]) {
      return refusal(409, "Conflict");
    }
    metadata["annotations"].merge_patch(change["metadata"]["annotations"]);
    for (const json& each : change.value("status", json::object()).value("conditions", json())) {
      json& conditions = (*node)["status"]["conditions"];
      const auto known = std::find_if(
          conditions.begin(), conditions.end(),
          [&each](const json& condition) { return condition["type"] == each["type"]; });
      known == conditions.end() ? conditions.push_back(each) : known->merge_patch(each);
    }
    touch();
    return {.body = node->dump(), .delay = patch_delay};
  }
  void touch() {
    json& version = (*node)["metadata"]["resourceVersion"];
    version = std::to_string(std::stoi(version.get<std::string>()) + 1);
  }
  // The kubelet reports its status.
  void speak(const std::string& status = "True", const std::string& boot = "boot-1") {
    json& ready = (*node)["status"]["conditions"][0];
    ready["status"] = status;
    ready["lastHeartbeatTime"] = "2026-01-02T05:10:00Z";
    (*node)["status"]["nodeInfo"]["bootID"] = boot;
    touch();
  }
  // An incident's reading of it.
  void look() {
    publisher->looked_at(
        {.node = decoded(*node), .incident = IncidentId("i1"), .authority = authority});
  }
  // The watch.
  void tell() { publisher->saw(cluster::view_of(decoded(*node))); }
  void is_off() { powers.reading = power(Power::Off, loop.now()); }
  void publish() {
    is_off();
    look();
    run_for(2s);
    ASSERT_TRUE(stands());
    tell();
  }
  void run_for(Duration duration) { test::run_for(loop, duration); }

  [[nodiscard]] bool stands() const {
    const json condition = condition_of(*node, "FencingEvidence");
    const bool is_true = !condition.is_null() && condition["status"] == "True";
    EXPECT_EQ(is_true, (*node)["metadata"]["annotations"].contains(kAnnotation))
        << "they come and go together";
    return is_true;
  }
  [[nodiscard]] std::string reason() const {
    return condition_of(*node, "FencingEvidence")["reason"];
  }
  [[nodiscard]] std::size_t patches() const {
    return static_cast<std::size_t>(
        std::count_if(http.requests.begin(), http.requests.end(),
                      [](const auto& request) { return request.method == port::Method::Patch; }));
  }
};

TEST_F(EvidencePublisherTest, what_is_proven_stands_on_the_node_and_is_told_once) {
  publish();
  EXPECT_EQ(reason(), "Off");
  ASSERT_EQ(news.size(), 1U);
  EXPECT_EQ(news[0].uid, Uid("uid-1"));
  EXPECT_EQ(news[0].incident, IncidentId("i1"));
  for (int i = 0; i < 100; ++i) {
    is_off();
    look();
    run_for(5s);
  }
  EXPECT_EQ(patches(), 1U);
  EXPECT_EQ(http.requests.size(), 2U);
  EXPECT_EQ(news.size(), 1U);
}

TEST_F(EvidencePublisherTest, in_the_quiet_and_where_nothing_is_proven_nobody_asks_for_anything) {
  run_for(10min);
  kernels.since[NodeName("n1")] = loop.now();  // silent, to both
  look();
  powers.reading = power(Power::On, loop.now());
  look();
  run_for(10min);
  EXPECT_EQ(http.requests.size(), 0U);
}

TEST_F(EvidencePublisherTest, it_is_published_where_that_is_wanted_and_something_is_enforced) {
  start(/*on=*/false);
  is_off();
  look();
  run_for(1min);
  start();
  set_mode(policy::Mode::Observe);
  look();
  run_for(1min);
  set_mode(policy::Mode::Enforce);
  (*node)["metadata"]["annotations"]["moonfence.io/hold"] = "we look at it";
  look();
  run_for(1min);
  protections.own_node = NodeName("n1");
  (*node)["metadata"]["annotations"].erase("moonfence.io/hold");
  look();
  run_for(1min);
  EXPECT_EQ(http.requests.size(), 0U);
}

TEST_F(EvidencePublisherTest, of_a_kubelet_that_is_not_dead_nothing_is_told) {
  is_off();
  for (const KubeletLease lease : {KubeletLease::Alive, KubeletLease::Unread}) {
    authority->reading.kubelet_lease = lease;
    look();
  }
  authority->reading.kubelet_lease = KubeletLease::Dead;
  authority->reading.readiness = Readiness::True;
  look();
  authority->reading.readiness = Readiness::Unknown;
  authority->node_uid = Uid("uid-2");  // it was made anew
  look();
  run_for(1min);
  EXPECT_EQ(http.requests.size(), 0U);
}

TEST_F(EvidencePublisherTest, a_fencer_that_answers_after_the_look_is_heard) {
  look();
  run_for(3s);
  is_off();
  publisher->power_read(NodeName("n1"));
  publisher->power_read(NodeName("n2"));
  run_for(1s);
  EXPECT_TRUE(stands());
}

TEST_F(EvidencePublisherTest, a_fencer_that_answers_long_after_the_look_is_not_heard) {
  look();
  run_for(EvidencePublisher::kLook + 1s);
  is_off();
  publisher->power_read(NodeName("n1"));
  run_for(1min);
  EXPECT_EQ(http.requests.size(), 0U);
}

TEST_F(EvidencePublisherTest, it_goes_when_the_node_is_heard_and_then_it_is_quiet) {
  publish();
  run_for(1h);
  EXPECT_EQ(http.requests.size(), 2U);
  speak("False");
  tell();
  run_for(2s);
  EXPECT_FALSE(stands());
  EXPECT_EQ(reason(), "Heard");
  tell();
  run_for(1h);
  EXPECT_EQ(http.requests.size(), 4U);
}

TEST_F(EvidencePublisherTest, it_goes_when_the_machine_answers) {
  publish();
  kernels.kernel = Kernel::Answers;
  run_for(2s);
  EXPECT_FALSE(stands());
  run_for(1h);
  EXPECT_EQ(patches(), 2U);
}

TEST_F(EvidencePublisherTest, it_goes_when_the_kubelet_renews_its_lease_and_says_no_more) {
  authority->reading.renewed = kBegin - 1min;
  publish();
  look();
  run_for(1min);
  EXPECT_TRUE(stands());
  authority->reading.renewed = kBegin;
  authority->reading.kubelet_lease = KubeletLease::Alive;
  set_mode(policy::Mode::Observe);
  look();
  run_for(2s);
  EXPECT_FALSE(stands());
  EXPECT_EQ(reason(), "Heard");
}

TEST_F(EvidencePublisherTest, it_goes_when_the_node_has_another_boot_whatever_ready_says) {
  publish();
  (*node)["status"]["nodeInfo"]["bootID"] = "boot-2";
  tell();
  run_for(2s);
  EXPECT_FALSE(stands());
}

// By a binding with actOn: off the node may be Ready for Kubernetes when that is known.
TEST_F(EvidencePublisherTest, that_kubernetes_still_calls_the_node_ready_is_no_sign_of_it) {
  (*node)["status"]["conditions"][0]["status"] = "True";
  publish();
  run_for(10min);
  EXPECT_TRUE(stands());
  EXPECT_EQ(patches(), 1U);
  EXPECT_LT(http.requests.size(), 12U);
  speak();
  tell();
  run_for(2s);
  EXPECT_FALSE(stands());
}

TEST_F(EvidencePublisherTest, a_kubelet_that_speaks_before_it_is_written_is_believed) {
  is_off();
  look();
  speak("Unknown");
  run_for(1min);
  EXPECT_FALSE(stands());
  EXPECT_EQ(patches(), 0U);
}

TEST_F(EvidencePublisherTest, a_kubelet_that_speaks_while_it_is_written_is_believed) {
  before_patch = [this] {
    before_patch = [] {};
    speak("Unknown");
  };
  is_off();
  look();
  run_for(1min);
  EXPECT_FALSE(stands());
  EXPECT_EQ(patches(), 1U);
}

TEST_F(EvidencePublisherTest, a_change_by_somebody_else_in_between_only_costs_another_try) {
  before_patch = [this] {
    before_patch = [] {};
    touch();
  };
  publish();
  EXPECT_EQ(patches(), 2U);
  EXPECT_EQ(news.size(), 1U);
}

TEST_F(EvidencePublisherTest, another_node_of_that_name_gets_nothing) {
  is_off();
  look();
  node = make_node("uid-2");
  run_for(1min);
  EXPECT_FALSE(stands());
  EXPECT_EQ(patches(), 0U);
}

TEST_F(EvidencePublisherTest, of_a_node_that_is_gone_nothing_is_asked_again) {
  is_off();
  look();
  node.reset();
  run_for(10min);
  EXPECT_EQ(patches(), 0U);
  EXPECT_LT(http.requests.size(), 3U);
}

TEST_F(EvidencePublisherTest, what_is_refused_is_told_once_and_tried_less_and_less) {
  patch_answer = refusal(403, "Forbidden");
  for (int i = 0; i < 360; ++i) {
    is_off();
    look();
    run_for(5s);
  }
  EXPECT_EQ(log.count("evidence_not_published"), 1U);
  EXPECT_NE(publisher->problem().find("deploy/rights/publish-evidence"), std::string::npos);
  EXPECT_LT(patches(), 14U);
  EXPECT_TRUE(news.empty());
  patch_answer.reset();
  run_for(EvidencePublisher::kLongest + 1s);
  EXPECT_TRUE(stands());
  EXPECT_EQ(publisher->problem(), "");
  EXPECT_EQ(news.size(), 1U);
}

TEST_F(EvidencePublisherTest, a_refused_withdrawal_is_not_tried_again_for_each_event_of_the_node) {
  publish();
  patch_answer = refusal(403, "Forbidden");
  speak();
  for (int i = 0; i < 1800; ++i) {
    touch();  // volumes, labels, images
    tell();
    run_for(1s);
  }
  EXPECT_GT(patches(), 5U);
  EXPECT_LT(patches(), 15U);
  patch_answer.reset();
  run_for(EvidencePublisher::kLongest + 1s);
  EXPECT_FALSE(stands());
}

TEST_F(EvidencePublisherTest, nor_where_it_is_the_machine_that_answers) {
  publish();
  patch_answer = refusal(403, "Forbidden");
  kernels.kernel = Kernel::Answers;
  for (int i = 0; i < 1800; ++i) {
    touch();
    tell();
    run_for(1s);
  }
  EXPECT_GT(patches(), 5U);
  EXPECT_LT(patches(), 15U);
}

TEST_F(EvidencePublisherTest, what_is_to_be_taken_off_waits_for_no_pause_of_what_was_to_be_added) {
  publish();
  patch_answer = refusal(403, "Forbidden");
  authority->reading.attestation.counted =
      Attestation{.at = kBegin, .by = "alice", .reason = "no light on it"};
  for (int i = 0; i < 60; ++i) {
    look();
    run_for(5s);
  }
  patch_answer.reset();
  speak();
  tell();
  run_for(3s);
  EXPECT_FALSE(stands());
}

// By a binding with actOn: off, where Ready says nothing of it.
TEST_F(EvidencePublisherTest, a_refused_addition_is_no_reason_to_hear_a_kubelet_late) {
  (*node)["status"]["conditions"][0]["status"] = "True";
  authority->reading.renewed = kBegin - 1min;
  publish();
  patch_answer = refusal(403, "Forbidden");
  authority->reading.attestation.counted =
      Attestation{.at = kBegin, .by = "alice", .reason = "no light on it"};
  for (int i = 0; i < 300; ++i) {
    look();
    touch();
    tell();
    run_for(1s);
  }
  EXPECT_LT(patches(), 12U);
  patch_answer.reset();
  authority->reading.renewed = kBegin;
  look();
  run_for(3s);
  EXPECT_FALSE(stands());
}

// Only what would be refused again waits: a server that was away, or a webhook that hung, is no
// reason that what is void stands there for minutes.
TEST_F(EvidencePublisherTest,
       after_a_failure_that_may_pass_events_of_the_node_still_bring_the_next_try) {
  const std::vector<FakeAnswer> failures = {refusal(500, "InternalError"), FakeAnswer::lost(),
                                            FakeAnswer::silent(), refusal(429, "TooManyRequests"),
                                            refusal(401, "Unauthorized")};
  for (const FakeAnswer& answer : failures) {
    node = make_node();
    start();
    publish();
    patch_answer = answer;
    speak();
    tell();
    run_for(10min);
    ASSERT_TRUE(stands());
    patch_answer.reset();
    touch();
    tell();
    run_for(EvidencePublisher::kTimeout + 3s);  // a try may be under way
    EXPECT_FALSE(stands()) << answer.body;
  }
}

TEST_F(EvidencePublisherTest, without_events_it_is_tried_less_and_less_whatever_the_failure) {
  publish();
  patch_answer = refusal(500, "InternalError");
  speak();
  tell();
  run_for(30min);
  EXPECT_GT(patches(), 5U);
  EXPECT_LT(patches(), 15U);
}

// The write that was under way then was for something else.
TEST_F(EvidencePublisherTest, who_is_heard_while_a_write_hangs_is_not_kept_waiting_by_its_refusal) {
  authority->reading.renewed = kBegin - 1min;
  publish();
  patch_answer = refusal(403, "Forbidden");
  patch_answer->delay = 5s;
  authority->reading.attestation.counted =
      Attestation{.at = kBegin, .by = "alice", .reason = "no light on it"};
  look();
  run_for(2s);
  ASSERT_EQ(patches(), 2U);
  authority->reading.renewed = kBegin;
  look();
  patch_answer.reset();
  run_for(5s);
  EXPECT_FALSE(stands());
  EXPECT_EQ(reason(), "Heard");
}

// Its incident is over, so nobody looks again; and Ready may say nothing of it for minutes.
TEST_F(EvidencePublisherTest, nor_forgotten_when_that_write_arrives) {
  authority->reading.renewed = kBegin - 1min;
  publish();
  patch_delay = 5s;
  authority->reading.attestation.counted =
      Attestation{.at = kBegin, .by = "alice", .reason = "no light on it"};
  look();
  run_for(2s);
  ASSERT_EQ(patches(), 2U);
  authority->reading.renewed = kBegin;
  look();
  patch_delay = {};
  run_for(5s);
  EXPECT_FALSE(stands());
}

TEST_F(EvidencePublisherTest, nor_is_a_machine_that_answers_then_or_a_node_that_speaks) {
  for (const bool speaks : {false, true}) {
    node = make_node();
    kernels.kernel = Kernel::NotObservable;
    start();
    publish();
    patch_answer = refusal(403, "Forbidden");
    patch_answer->delay = 5s;
    authority->reading.attestation.counted =
        Attestation{.at = kBegin, .by = "alice", .reason = "no light on it"};
    look();
    run_for(2s);
    if (speaks) {
      speak();
      tell();
    } else {
      kernels.kernel = Kernel::Answers;
    }
    patch_answer.reset();
    run_for(5s);
    EXPECT_FALSE(stands()) << speaks;
    authority->reading.attestation = {};
  }
}

// By a binding with actOn: off, where the node is Ready all the while and was looked at for that.
TEST_F(EvidencePublisherTest, a_machine_that_answers_waits_for_no_look_that_is_put_off) {
  (*node)["status"]["conditions"][0]["status"] = "True";
  publish();
  run_for(20min);
  ASSERT_TRUE(stands());
  kernels.kernel = Kernel::Answers;
  run_for(3s);
  EXPECT_FALSE(stands());
}

// A webhook may refuse with any code.
TEST_F(EvidencePublisherTest, a_refusal_that_looks_like_a_race_is_soon_told_and_put_off) {
  patch_answer = refusal(
      409, "", "admission webhook \"nodes.example.com\" denied the request: only kubelets write");
  is_off();
  look();
  run_for(1s);
  EXPECT_EQ(publisher->problem(), "") << "somebody was faster";
  for (int i = 0; i < 1800; ++i) {
    touch();
    tell();
    run_for(1s);
  }
  EXPECT_LT(patches(), 17U);
  EXPECT_EQ(log.count("evidence_not_published"), 1U);
  EXPECT_THAT(publisher->problem(), testing::HasSubstr("have it permit"));
  patch_answer.reset();
  run_for(EvidencePublisher::kLongest + 1s);
  EXPECT_TRUE(stands());
  EXPECT_EQ(publisher->problem(), "");
}

TEST_F(EvidencePublisherTest, it_does_not_keep_a_withdrawal_waiting_which_may_lose_races_too) {
  publish();
  patch_answer = refusal(409, "Conflict");
  authority->reading.attestation.counted =
      Attestation{.at = kBegin, .by = "alice", .reason = "no light on it"};
  for (int i = 0; i < 60; ++i) {
    look();
    run_for(5s);
  }
  patch_answer.reset();
  int races = EvidencePublisher::kConflicts - 1;
  before_patch = [this, &races] {
    if (races-- > 0) {
      touch();
    }
  };
  speak();
  tell();
  run_for(5s);
  EXPECT_FALSE(stands());
}

// A backup, or a hand, puts it there once more.
TEST_F(EvidencePublisherTest, what_was_refused_of_something_that_went_is_forgotten_with_it) {
  publish();
  patch_answer = refusal(403, "Forbidden");
  authority->reading.attestation.counted =
      Attestation{.at = kBegin, .by = "alice", .reason = "no light on it"};
  look();
  run_for(2s);
  speak();
  tell();
  run_for(10min);
  const json before = *node;
  (*node)["metadata"]["annotations"].erase(kAnnotation);
  (*node)["status"]["conditions"].erase(1);
  touch();
  tell();
  patch_answer.reset();
  node = before;
  tell();
  run_for(3s);
  EXPECT_FALSE(stands());
}

TEST_F(EvidencePublisherTest, something_else_that_stands_there_is_taken_off_soon) {
  publish();
  patch_answer = refusal(403, "Forbidden");
  speak();
  tell();
  run_for(10min);
  patch_answer.reset();
  (*node)["metadata"]["annotations"][kAnnotation] = "somebody's";
  touch();
  tell();
  run_for(3s);
  EXPECT_FALSE(stands());
}

TEST_F(EvidencePublisherTest, who_refuses_it_is_told_apart) {
  const auto told = [this](int code, const std::string& reason, const std::string& message) {
    patch_answer = refusal(code, reason, message);
    start();
    is_off();
    look();
    run_for(2s);
    return publisher->problem();
  };
  using testing::EndsWith;
  const std::string own =
      "; apply moonfence's admission policies again: kubectl apply -k "
      "deploy/rights/publish-evidence, and deploy/overlays/enforce where it is in use";
  const std::string others =
      "; have it permit moonfence's account the annotation moonfence.io/fencing-evidence and the "
      "condition FencingEvidence of nodes/status";
  EXPECT_THAT(told(403, "Forbidden",
                   "nodes \"n1\" is forbidden: User \"system:serviceaccount:moonfence:moonfence\" "
                   "cannot patch resource \"nodes/status\" in API group \"\" at the cluster scope"),
              EndsWith("; kubectl apply -k deploy/rights/publish-evidence"));
  EXPECT_THAT(told(422, "Invalid",
                   "nodes \"n1\" is forbidden: ValidatingAdmissionPolicy 'moonfence-nodes' with "
                   "binding 'moonfence-nodes' denied request: of the status of a node moonfence "
                   "changes volumesInUse only"),
              EndsWith(own));
  EXPECT_THAT(told(403, "Forbidden",
                   "nodes \"n1\" is forbidden: ValidatingAdmissionPolicy 'conditions' with binding "
                   "'conditions' denied request: only kubelets write conditions"),
              EndsWith(others));
  EXPECT_THAT(told(403, "Forbidden",
                   "nodes \"n1\" is forbidden: admission webhook \"nodes.example.com\" denied the "
                   "request: only kubelets write conditions"),
              EndsWith(others));
  EXPECT_THAT(told(403, "Forbidden",
                   "nodes \"n1\" is forbidden: ValidatingAdmissionPolicy 'moonfence-leader' with "
                   "binding 'moonfence-leader' denied request: moonfence-not-leader: by the Lease"),
              EndsWith("as-moonfence-not-leader"));
}

TEST_F(EvidencePublisherTest, another_kind_of_refusal_is_told_anew) {
  for (const char* message : {"User \"m\" cannot patch resource \"nodes/status\"",
                              "admission webhook \"a\" denied the request: no"}) {
    patch_answer = refusal(403, "Forbidden", message);
    is_off();
    look();
    run_for(EvidencePublisher::kLongest);
  }
  EXPECT_EQ(log.count("evidence_not_published"), 2U);
}

TEST_F(EvidencePublisherTest, a_problem_ends_with_the_outage) {
  patch_answer = refusal(403, "Forbidden");
  is_off();
  look();
  run_for(1s);
  EXPECT_NE(publisher->problem(), "");
  speak();
  run_for(EvidencePublisher::kLongest);
  EXPECT_EQ(publisher->problem(), "");
  EXPECT_EQ(patches(), 1U);
}

TEST_F(EvidencePublisherTest, nothing_that_the_engine_goes_by_hears_of_it) {
  patch_answer = refusal(500, "InternalError");
  is_off();
  look();
  run_for(1min);
  ASSERT_GT(http.requests.size(), 2U);
  for (const FakeRequest& request : http.requests) {
    EXPECT_EQ(request.lane, port::Lane::Bulk);  // others count for limits, and are waited for
  }
}

TEST_F(EvidencePublisherTest, who_does_not_lead_writes_nothing) {
  publisher->step_down();
  is_off();
  look();
  run_for(1min);
  EXPECT_EQ(http.requests.size(), 0U);
  publisher->lead();
  leadership.until.reset();  // lost, and not told yet
  look();
  run_for(1min);
  EXPECT_FALSE(stands());
  EXPECT_EQ(patches(), 0U);
}

TEST_F(EvidencePublisherTest, the_next_leader_leaves_what_holds_and_takes_off_what_is_void) {
  publish();
  start();
  tell();
  run_for(10min);
  EXPECT_EQ(http.requests.size(), 2U);
  speak();
  publisher->step_down();
  tell();
  run_for(10min);
  EXPECT_TRUE(stands());
  publisher->lead();
  run_for(2s);
  EXPECT_FALSE(stands());
  run_for(1h);
  EXPECT_EQ(patches(), 2U);
}

TEST_F(EvidencePublisherTest, what_was_published_is_taken_off_when_nobody_wants_it_any_more) {
  publish();
  start(/*on=*/false);
  set_mode(policy::Mode::Observe);
  speak();
  tell();
  run_for(2s);
  EXPECT_FALSE(stands());
}

TEST_F(EvidencePublisherTest, what_a_backup_has_brought_back_is_taken_off) {
  publish();
  (*node)["metadata"]["uid"] = "uid-2";
  tell();
  run_for(2s);
  EXPECT_FALSE(stands());
  EXPECT_EQ(reason(), "Withdrawn");
}

TEST_F(EvidencePublisherTest, an_attestation_that_is_taken_back_is_withdrawn) {
  authority->reading.attestation.counted =
      Attestation{.at = kBegin, .by = "alice", .reason = "no light on it"};
  look();
  run_for(1s);
  ASSERT_TRUE(stands());
  EXPECT_EQ(reason(), "Attested");
  authority->reading.attestation = {};
  look();
  run_for(1s);
  EXPECT_FALSE(stands());
  EXPECT_EQ(reason(), "Withdrawn");
  EXPECT_EQ(patches(), 2U);
}

}  // namespace
}  // namespace moonfence::fence::telling
