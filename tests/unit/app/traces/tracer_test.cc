#include "app/traces/tracer.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/traces/otlp_json.h"
#include "support/fake_files.h"
#include "support/fake_http.h"
#include "support/fake_log.h"
#include "support/fake_poller.h"
#include "support/fake_random.h"
#include "unit/app/records_fixture.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using audit::Reason;
using audit::Record;
using test::FakeAnswer;
using test::FakeRequest;
using Loss = Delivery::Loss;

constexpr WallTime kNow{1'700'000'000s};

struct TracerTest : testing::Test {
  TracerTest() {
    random.fix(0);
    http.on(port::Method::Post, "/otlp/v1/traces", [this](const FakeRequest&) { return answer; });
    setting.endpoint.url = "https://otel.example.com:4318/otlp";
    tracer.emplace(Tracer::Surroundings{.endpoints = {loop, http, files, log, "moonfence/1"},
                                        .random = random,
                                        .is_acting = [this] { return acts; }},
                   setting,
                   Tracer::Identity{
                       .space = "fencing", .instance = "pod-a", .version = "1", .run = "pod-a_1"});
  }
  void hear(Record::Kind kind, Reason reason, const std::string& incident = "i1") {
    Record record = record_of(kind, reason);
    record.incident = IncidentId(incident);
    tracer->hear(record, kNow, std::nullopt);
  }
  void pass(Duration time) { test::run_for(loop, time); }
  void recall(std::initializer_list<const char*> incidents) {
    std::vector<fence::Journal::Found> found;
    for (const char* incident : incidents) {
      found.emplace_back().record.id = IncidentId(incident);
      found.back().record.opened = kNow - 50s;
    }
    tracer->recall(found, 20s);
  }
  // The store went back in time, and there was a record.
  void lose_store(const std::string& incident) {
    Record closed = record_of(Record::Kind::IncidentClosed, Reason::StoreWentBack);
    closed.incident = IncidentId(incident);
    closed.goes_on = true;
    tracer->hear(closed, kNow, std::nullopt);
  }
  [[nodiscard]] std::vector<std::string> names(std::size_t request) const {
    std::vector<std::string> found;
    const auto body = nlohmann::json::parse(http.requests.at(request).body);
    for (const auto& span : body["resourceSpans"][0]["scopeSpans"][0]["spans"]) {
      found.push_back(span["name"]);
    }
    return found;
  }

  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeHttp http{loop};
  test::FakeFiles files;
  test::FakeLog log;
  test::FakeRandom random;
  TracesSetting setting;
  FakeAnswer answer{.status = 200};
  bool acts = false;
  std::optional<Tracer> tracer;
};

using Names = std::vector<std::string>;

TEST_F(TracerTest, spans_are_gathered_and_posted_below_the_receiver_s_base) {
  hear(Record::Kind::IncidentOpened, Reason::StartupSweep);
  hear(Record::Kind::Verdict, Reason::PolicySkips);
  hear(Record::Kind::IncidentClosed, Reason::Settled);
  pass(1s);
  EXPECT_TRUE(http.requests.empty());
  EXPECT_FALSE(tracer->is_idle());
  pass(2s);
  ASSERT_EQ(http.requests.size(), 1U);
  EXPECT_EQ(http.requests[0].line(), "POST /otlp/v1/traces");
  EXPECT_EQ(http.requests[0].header("Content-Type"), "application/json");
  EXPECT_EQ(http.requests[0].lane, port::Lane::Endpoints);
  EXPECT_EQ(names(0), (Names{"confirm", "verdict", "incident"}));
  EXPECT_TRUE(tracer->is_idle());
}

TEST_F(TracerTest, a_receiver_that_cannot_now_is_asked_again_and_one_that_refuses_is_not) {
  // row TR-02
  answer.status = 503;
  hear(Record::Kind::IncidentOpened, Reason::StartupSweep);
  hear(Record::Kind::IncidentClosed, Reason::Settled);
  pass(10s);
  EXPECT_GT(http.requests.size(), 1U);
  EXPECT_EQ(tracer->delivery().counts().waiting, 1U);
  answer.status = 400;
  pass(10min);
  const std::size_t asked = http.requests.size();
  pass(1h);
  EXPECT_EQ(http.requests.size(), asked);
  EXPECT_EQ(tracer->delivery().counts().lost.at(Loss::Refused), 1U);
}

TEST_F(TracerTest, spans_that_the_receiver_did_not_keep_are_counted_and_not_sent_again) {
  answer = {.status = 200,
            .body = R"({"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}})"};
  hear(Record::Kind::IncidentOpened, Reason::StartupSweep);
  hear(Record::Kind::IncidentClosed, Reason::Settled);
  pass(1h);
  EXPECT_EQ(http.requests.size(), 1U);
  EXPECT_EQ(tracer->rejected(), 2U);
  EXPECT_EQ(tracer->delivery().counts().delivered, 1U);
  for (const char* odd : {"<html>", "[]", R"({"partialSuccess": {"rejectedSpans": -1}})",
                          R"({"partialSuccess": []})", ""}) {
    answer.body = odd;
    hear(Record::Kind::IncidentOpened, Reason::StartupSweep);
    hear(Record::Kind::IncidentClosed, Reason::NoPolicy);
    pass(1h);
  }
  EXPECT_EQ(tracer->rejected(), 2U);
  EXPECT_EQ(tracer->delivery().counts().delivered, 6U);
}

TEST_F(TracerTest, only_what_otlp_calls_retryable_is_tried_again) {
  for (const int status : {429, 502, 503, 504}) {
    EXPECT_EQ(refusal_of_traces(status), Delivery::Refusal::ForNow) << status;
  }
  for (const int status : {301, 400, 401, 404, 410, 413, 500, 501}) {
    EXPECT_EQ(refusal_of_traces(status), Delivery::Refusal::OfMessage) << status;
  }
}

TEST_F(TracerTest, two_runs_through_one_incident_share_no_id) {
  for (const Reason why : {Reason::StartupSweep, Reason::TookOver}) {
    hear(Record::Kind::IncidentOpened, why);
    hear(Record::Kind::IncidentHeld, Reason::TooManyDown);
    Record closed = record_of(Record::Kind::IncidentClosed, Reason::SteppedDown);
    closed.goes_on = true;
    tracer->hear(closed, kNow, std::nullopt);
  }
  tracer->flush();
  pass(1s);
  const auto spans =
      nlohmann::json::parse(http.requests.at(0).body)["resourceSpans"][0]["scopeSpans"][0]["spans"];
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0]["traceId"], spans[1]["traceId"]);
  EXPECT_NE(spans[0]["spanId"], spans[1]["spanId"]);
}

TEST_F(TracerTest, an_incident_that_an_earlier_leader_opened_begins_there) {
  recall({"i1"});
  hear(Record::Kind::IncidentOpened, Reason::TookOver);
  hear(Record::Kind::IncidentClosed, Reason::Settled);
  tracer->flush();
  pass(1s);
  const auto root = nlohmann::json::parse(
      http.requests.at(0).body)["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(root["startTimeUnixNano"], std::to_string((kNow - 70s).time_since_epoch().count()));
}

TEST_F(TracerTest, what_belongs_to_no_open_incident_is_not_told) {
  hear(Record::Kind::Outcome, Reason::Done);
  hear(Record::Kind::Verdict, Reason::PolicySkips, "");
  pass(1min);
  hear(Record::Kind::IncidentClosed, Reason::Settled);
  pass(1min);
  EXPECT_TRUE(http.requests.empty());
  recall({"i1"});
  hear(Record::Kind::IncidentClosed, Reason::NoPolicy);  // one that an earlier leader left behind
  pass(1min);
  ASSERT_EQ(http.requests.size(), 1U);
  EXPECT_EQ(names(0), (Names{"incident"}));
}

TEST_F(TracerTest, what_has_no_room_has_no_trace_and_no_false_root_and_is_counted) {
  for (std::size_t i = 0; i < Tracer::kMostIncidents; ++i) {
    hear(Record::Kind::IncidentOpened, Reason::StartupSweep, "i" + std::to_string(i));
  }
  recall({"earlier"});
  hear(Record::Kind::IncidentOpened, Reason::StartupSweep, "new");
  hear(Record::Kind::IncidentOpened, Reason::TookOver, "earlier");
  EXPECT_EQ(tracer->untraced(), 2U);
  hear(Record::Kind::IncidentClosed, Reason::Settled, "i0");
  hear(Record::Kind::IncidentClosed, Reason::Settled, "new");
  hear(Record::Kind::IncidentClosed, Reason::Settled, "earlier");
  pass(1min);
  ASSERT_EQ(http.requests.size(), 1U);
  EXPECT_EQ(names(0), Names{"incident"});
  hear(Record::Kind::IncidentOpened, Reason::StartupSweep, "newest");
  EXPECT_EQ(tracer->untraced(), 2U);
}

TEST_F(TracerTest, one_whose_record_the_store_lost_has_its_root_and_one_that_stands_goes_on) {
  for (const char* incident : {"lost", "stands"}) {
    hear(Record::Kind::IncidentOpened, Reason::StartupSweep, incident);
    lose_store(incident);
  }
  pass(1min);
  EXPECT_TRUE(http.requests.empty()) << "nobody knows yet";
  recall({"stands"});
  pass(1min);
  ASSERT_EQ(http.requests.size(), 1U);
  EXPECT_EQ(names(0), Names{"incident"});
  EXPECT_NE(http.requests[0].body.find(trace_id_of(IncidentId("lost"))), std::string::npos);
  hear(Record::Kind::IncidentOpened, Reason::TookOver, "stands");
  hear(Record::Kind::IncidentClosed, Reason::Settled, "stands");
  recall({});
  pass(1min);
  ASSERT_EQ(http.requests.size(), 2U);
  EXPECT_EQ(names(1), Names{"incident"});
}

TEST_F(TracerTest, a_full_request_waits_for_nothing_but_calls_that_act) {
  hear(Record::Kind::IncidentOpened, Reason::StartupSweep);
  acts = true;
  for (int i = 0; i < 600; ++i) {
    hear(Record::Kind::Verdict, Reason::PolicySkips);
  }
  // Whoever tells of an intent has not sent its call yet: no request is made meanwhile.
  EXPECT_EQ(tracer->delivery().counts().waiting, 0U);
  pass(1s);
  EXPECT_GT(tracer->delivery().counts().waiting, 0U);
  EXPECT_TRUE(http.requests.empty());
  acts = false;
  pass(1min);
  std::size_t told = 0;
  for (std::size_t i = 0; i < http.requests.size(); ++i) {
    EXPECT_LE(http.requests[i].body.size(), OtlpLimits{}.bytes);
    told += names(i).size();
  }
  EXPECT_EQ(told, 601U);
  EXPECT_EQ(tracer->delivery().counts().delivered, http.requests.size());
}

}  // namespace
}  // namespace moonfence::app
