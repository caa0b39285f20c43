#include "app/webhook/webhook.h"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/telling/metrics.h"
#include "app/webhook/signature.h"
#include "kube/text/base64.h"
#include "support/fake_files.h"
#include "support/fake_http.h"
#include "support/fake_log.h"
#include "support/fake_poller.h"
#include "support/fake_random.h"
#include "unit/app/records_fixture.h"
#include "unit/app/status_fixture.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using audit::Reason;
using audit::Record;
using test::FakeAnswer;
using test::FakeRequest;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Keys, and the lines of the file that have them.
const std::string kFirst(32, 'k');
const std::string kNext(32, 'n');
const std::string kFirstLine = "whsec_" + kube::base64_encoded(kFirst) + "\n";
const std::string kNextLine = "whsec_" + kube::base64_encoded(kNext) + "\n";

struct WebhookTest : testing::Test {
  WebhookTest() {
    files.write("/s", kFirstLine);
    http.on(port::Method::Post, "/hook", [this](const FakeRequest&) { return answer; });
    setting.endpoint.url = "https://hooks.example.com/hook";
    setting.secret_file = "/s";
  }
  void use() {
    webhook.emplace(Webhook::Surroundings{.endpoints = {loop, http, files, log, "moonfence/1"},
                                          .random = random,
                                          .now = [this] { return wall(); },
                                          .may_send = [] { return true; },
                                          .is_acting = [] { return false; }},
                    setting, "/moonfence/fences");
    webhook->lead();
  }
  [[nodiscard]] WallTime wall() const { return kTestNow + loop.now().time_since_epoch(); }
  void hear(Record::Kind kind, Reason reason) { webhook->hear(record_of(kind, reason)); }
  // A whole incident.
  void live_through() {
    hear(Record::Kind::IncidentOpened, Reason::NodeUnknown);
    hear(Record::Kind::Intent, Reason::PolicyDeletesPod);
    hear(Record::Kind::IncidentClosed, Reason::Settled);
    look();
  }
  void look() {
    snapshot.taken += 1s;
    webhook->look(snapshot, policies);
  }
  [[nodiscard]] std::vector<std::string> ids() const {
    std::vector<std::string> all;
    for (const FakeRequest& request : http.requests) {
      all.push_back(request.header("webhook-id"));
    }
    return all;
  }
  // By which of the two secrets it is signed.
  [[nodiscard]] std::string signers(const FakeRequest& request) const {
    const std::string given = request.header("webhook-signature");
    std::string found;
    for (const auto& [name, secret] : {std::pair("first ", kFirst), std::pair("next ", kNext)}) {
      const std::string signature =
          webhook_signature({secret}, request.header("webhook-id"),
                            std::stoll(request.header("webhook-timestamp")), request.body);
      found += given.find(signature) == std::string::npos ? "" : name;
    }
    return found;
  }

  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeHttp http{loop};
  test::FakeFiles files;
  test::FakeLog log;
  test::FakeRandom random;
  WebhookSetting setting;
  FakeAnswer answer{.status = 204};
  StatusSnapshot snapshot = quiet_snapshot();
  policy::PolicySet policies;
  std::optional<Webhook> webhook;
};

TEST_F(WebhookTest, an_incident_arrives_signed_and_in_order) {
  use();
  live_through();
  test::run_for(loop, 1min);
  EXPECT_THAT(ids(), ElementsAre("i1-opened", "i1-acting", "i1-settled"));
  for (const FakeRequest& request : http.requests) {
    EXPECT_EQ(signers(request), "first ");
    EXPECT_EQ(request.header("Content-Type"), kEventType);
    EXPECT_THAT(request.body, HasSubstr(R"("source":"/moonfence/fences")"));
    EXPECT_THAT(request.body, HasSubstr(R"("mode":"observe")"));
    EXPECT_THAT(request.body, Not(HasSubstr("web-0"))) << "no pod is named";
    EXPECT_THAT(request.body, Not(HasSubstr("noobaa"))) << "and no policy";
    EXPECT_THAT(request.body, Not(HasSubstr("because"))) << "nor repeated what it says";
  }
}

TEST_F(WebhookTest, only_what_is_asked_for_is_told_and_the_cluster_has_its_name) {
  setting.events = {IncidentPhase::Settled};
  setting.source = "/clusters/berlin-1";
  policies.bindings.push_back({.name = "a", .mode = policy::Mode::Observe});
  policies.bindings.push_back({.name = "b", .mode = policy::Mode::Enforce});
  use();
  live_through();
  test::run_for(loop, 1min);
  EXPECT_THAT(ids(), ElementsAre("i1-settled"));
  EXPECT_THAT(http.requests[0].body, HasSubstr(R"("source":"/clusters/berlin-1")"));
  EXPECT_THAT(http.requests[0].body, HasSubstr(R"("mode":"enforce")"));
}

TEST_F(WebhookTest, the_secret_is_read_for_each_try_so_that_it_can_be_rotated) {
  answer = {.status = 401};
  use();
  hear(Record::Kind::IncidentOpened, Reason::NodeUnknown);
  look();
  test::run_for(loop, 100ms);
  files.write("/s", kNextLine + kFirstLine);
  test::run_for(loop, 2s);
  files.write("/s", kNextLine);
  test::run_for(loop, 3s);
  ASSERT_EQ(http.requests.size(), 3U);
  EXPECT_EQ(signers(http.requests[0]), "first ");
  EXPECT_EQ(signers(http.requests[1]), "first next ");
  EXPECT_EQ(signers(http.requests[2]), "next ");
  EXPECT_NE(http.requests[0].header("webhook-timestamp"),
            http.requests[2].header("webhook-timestamp"))
      << "an old one would be refused";
  EXPECT_EQ(log.count(kFirstLine.substr(6, 32)) + log.count(kNextLine.substr(6, 32)), 0U);
}

TEST_F(WebhookTest, a_secret_that_is_none_is_told_and_nothing_is_sent_unsigned) {
  files.write("/s", "whsec_c2hvcnQ=\n");
  use();
  live_through();
  test::run_for(loop, 1min);
  EXPECT_EQ(http.requests.size(), 0U);
  EXPECT_THAT(webhook->delivery().problem(), HasSubstr("webhook: secretFile /s has a secret of 5"));
  files.write("/s", kFirstLine);
  test::run_for(loop, 5min);
  EXPECT_EQ(http.requests.size(), 3U);
}

TEST_F(WebhookTest, a_secret_that_is_none_is_told_before_the_first_incident) {
  files.write("/s", "not a secret\n");
  use();
  EXPECT_THAT(webhook->problem(), HasSubstr("webhook: secretFile /s has a line"));
  EXPECT_EQ(log.count("webhook_unfit"), 1U);
  files.write("/s", kFirstLine);
  test::run_for(loop, 61s);
  look();
  EXPECT_EQ(webhook->problem(), "");
  files.remove("/s");
  test::run_for(loop, 30s);
  look();
  EXPECT_EQ(webhook->problem(), "") << "it is read once a minute";
  for (int i = 0; i < 3; ++i) {
    test::run_for(loop, 61s);
    look();
  }
  EXPECT_THAT(webhook->problem(), HasSubstr("webhook: secretFile"));
  EXPECT_EQ(log.count("webhook_unfit"), 2U) << "once as it begins";
  webhook->step_down();
  EXPECT_EQ(webhook->problem(), "");
}

TEST_F(WebhookTest, one_message_that_is_refused_stops_no_other) {
  for (const int status : {400, 404, 405, 409}) {
    http.requests.clear();
    http.on(port::Method::Post, "/hook", [status](const FakeRequest& request) {
      return FakeAnswer{.status = request.header("webhook-id") == "i1-opened" ? status : 204};
    });
    use();
    live_through();
    test::run_for(loop, 2min);
    EXPECT_EQ(webhook->delivery().counts().delivered, 2U) << status;
    EXPECT_EQ(webhook->delivery().counts().waiting, 1U) << "and it waits all the same";
  }
}

TEST_F(WebhookTest, a_signature_that_is_refused_loses_no_message) {
  answer = {.status = 400};
  use();
  live_through();
  test::run_for(loop, 2h);
  EXPECT_EQ(webhook->delivery().counts().waiting, 3U);
  answer = {.status = 410};
  test::run_for(loop, 10min);
  EXPECT_EQ(webhook->delivery().counts().waiting, 0U);
  EXPECT_EQ(webhook->delivery().counts().lost.at(Delivery::Loss::Unwanted), 3U);
}

TEST_F(WebhookTest, what_becomes_of_messages_is_counted) {
  use();
  live_through();
  test::run_for(loop, 1min);
  answer = {.status = 500};
  live_through();
  test::run_for(loop, 10ms);
  Metrics metrics;
  metrics.set_delivery(webhook->delivery());
  metrics.set_delivery(webhook->delivery());  // once a second
  for (const char* sample : {R"(moonfence_delivery_delivered_total{to="webhook"} 3)",
                             R"(moonfence_delivery_failed_attempts_total{to="webhook"} 1)",
                             R"(moonfence_delivery_lost_total{reason="full",to="webhook"} 0)",
                             R"(moonfence_delivery_waiting{to="webhook"} 3)"}) {
    EXPECT_THAT(metrics.exposition(), HasSubstr(sample));
  }
}

TEST_F(WebhookTest, a_snapshot_that_was_seen_tells_nothing_of_what_came_after_it) {
  use();
  look();
  hear(Record::Kind::IncidentOpened, Reason::NodeUnknown);
  webhook->look(snapshot, policies);
  test::run_for(loop, 10s);
  EXPECT_THAT(ids(), ElementsAre());
  look();
  test::run_for(loop, 10s);
  EXPECT_THAT(ids(), ElementsAre("i1-opened"));
}

TEST_F(WebhookTest, who_does_not_lead_says_nothing) {
  use();
  webhook->step_down();
  live_through();
  test::run_for(loop, 10s);
  webhook->lead();
  look();
  test::run_for(loop, 10s);
  EXPECT_EQ(http.requests.size(), 0U);
}

}  // namespace
}  // namespace moonfence::app
