#include "kube/events.h"

#include "unit/kube/wire_fixture.h"

namespace moonfence::kube {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using port::Method;
using test::FakeAnswer;

struct StillClock final : port::WallClock {
  WallTime now() override { return *parse_rfc3339("2026-01-02T03:04:05.000006Z"); }
};

struct EventsTest : WireTest {
  StillClock clock;
  test::FakeRandom random;
  EventRecorder recorder{loop, caller, clock, random, log, "moonfence-0"};
  const std::string v1 = "/prefix/apis/events.k8s.io/v1/namespaces/default/events";
  const std::string core = "/prefix/api/v1/namespaces/default/events";

  static EventNews news(std::string reason = "NodeDown") {
    EventNews out;
    out.type = EventNews::Type::Warning;
    out.regarding = {
        .api_version = "v1", .kind = "Node", .space = {}, .name = "n1", .uid = Uid("u")};
    out.action = "Fence";
    out.reason = std::move(reason);
    out.note = "gone";
    return out;
  }
  [[nodiscard]] json body(std::size_t i) const { return json::parse(http.requests.at(i).body); }
};

TEST_F(EventsTest, an_event_has_every_field_the_server_checks) {
  http.on(Method::Post, v1, FakeAnswer{.status = 201, .body = "{}"});
  recorder.record(news());
  test::run_for(loop, 1s);
  ASSERT_EQ(http.requests.size(), 1U);
  EXPECT_EQ(http.requests[0].query, "fieldManager=moonfence&fieldValidation=Strict");
  const json sent = body(0);
  EXPECT_EQ(sent["eventTime"], "2026-01-02T03:04:05.000006Z");
  EXPECT_EQ(sent["reportingController"], "moonfence.io/engine");
  EXPECT_EQ(sent["reportingInstance"], "moonfence-0");
  EXPECT_EQ(sent["type"], "Warning");
  EXPECT_EQ(sent["regarding"]["uid"], "u");
  EXPECT_EQ(sent["metadata"]["namespace"], "default");
  EXPECT_TRUE(sent["metadata"]["name"].get<std::string>().starts_with("n1.1"));
  EXPECT_EQ(recorder.queued(), 0U);
}

TEST_F(EventsTest, notes_are_cut_between_characters_and_names_fit) {
  http.on(Method::Post, v1, FakeAnswer{.status = 201, .body = "{}"});
  EventNews long_one = news();
  long_one.note = std::string(1023, 'x') + "ü";
  long_one.regarding.name = std::string(235, 'n') + "." + std::string(17, 'm');
  recorder.record(long_one);
  test::run_for(loop, 1s);
  EXPECT_EQ(body(0)["note"], std::string(1023, 'x'));
  const std::string name = body(0)["metadata"]["name"];
  EXPECT_LE(name.size(), 253U);
  EXPECT_EQ(name.find(".."), std::string::npos);
}

TEST_F(EventsTest, a_pods_event_lives_in_its_namespace) {
  EventNews about_pod = news();
  about_pod.regarding.space = Namespace("ns");
  recorder.record(about_pod);
  test::run_for(loop, 1s);
  EXPECT_EQ(http.count("/namespaces/ns/events"), 2U) << "v1, then core: neither exists here";
  EXPECT_EQ(recorder.dropped(), 1U);
}

TEST_F(EventsTest, ten_thousand_repeats_are_two_requests) {
  http.on(Method::Post, v1, FakeAnswer{.status = 201, .body = "{}"});
  http.on(Method::Patch, v1 + "/*", FakeAnswer{.body = "{}"});
  for (int i = 0; i < 10'000; ++i) {
    recorder.record(news());
  }
  test::run_for(loop, 1s);
  ASSERT_EQ(http.requests.size(), 2U);
  EXPECT_EQ(http.requests[1].method, Method::Patch);
  EXPECT_EQ(http.requests[1].header("Content-Type"), "application/merge-patch+json");
  EXPECT_EQ(body(1)["series"]["count"], 2);
}

TEST_F(EventsTest, a_series_ends_after_six_silent_minutes) {
  http.on(Method::Post, v1, FakeAnswer{.status = 201, .body = "{}"});
  recorder.record(news());
  test::run_for(loop, 7min);
  recorder.record(news());
  test::run_for(loop, 1s);
  EXPECT_EQ(http.count("POST"), 2U);
}

TEST_F(EventsTest, a_server_with_the_old_rules_gets_core_events_without_an_event_time) {
  // Kubernetes 1.20: 'involvedObject.namespace: Invalid value: "": does not match event.namespace'.
  http.on(Method::Post, v1,
          FakeAnswer{.status = 422,
                     .body = R"({"kind":"Status","reason":"Invalid","code":422,"message":"no"})"});
  http.on(Method::Post, core, FakeAnswer{.status = 201, .body = "{}"});
  recorder.record(news());
  ASSERT_TRUE(test::run_until(loop, [&] { return recorder.queued() == 0; }));
  ASSERT_EQ(http.requests.size(), 2U);
  EXPECT_EQ(http.requests[1].path, core);
  EXPECT_EQ(http.requests[1].body.find("eventTime"), std::string::npos);
  EXPECT_EQ(recorder.dropped(), 0U);
}

TEST_F(EventsTest, a_server_without_the_group_gets_core_events) {
  http.on(Method::Post, core, FakeAnswer{.status = 201, .body = "{}"});
  recorder.record(news("A"));
  recorder.record(news("B"));
  test::run_for(loop, 1s);
  ASSERT_EQ(http.requests.size(), 3U);
  EXPECT_EQ(body(1)["message"], "gone");
  EXPECT_EQ(body(1)["involvedObject"]["name"], "n1");
  EXPECT_EQ(http.requests[2].path, core) << "and the group is not asked for again";
}

TEST_F(EventsTest, a_full_queue_drops_and_counts) {
  http.on(Method::Post, v1, FakeAnswer::silent());
  for (int i = 0; i < 1500; ++i) {
    recorder.record(news("R" + std::to_string(i)));
  }
  EXPECT_EQ(recorder.queued(), EventRecorder::kQueueLimit);
  EXPECT_EQ(recorder.dropped(), 500U);
}

TEST_F(EventsTest, a_permanent_refusal_is_dropped_and_a_passing_one_repeated_a_dozen_times) {
  http.on(Method::Post, v1, status(403, "Forbidden"));
  recorder.record(news("A"));
  test::run_for(loop, 10min);
  EXPECT_EQ(http.requests.size(), 1U);
  http.on(Method::Post, v1, FakeAnswer::refused());
  recorder.record(news("B"));
  test::run_for(loop, 10min);
  EXPECT_EQ(http.requests.size(), 13U);
  EXPECT_EQ(recorder.dropped(), 2U);
}

TEST_F(EventsTest, a_repeat_of_a_lost_create_finds_it_there) {
  http.sequence(Method::Post, v1, {FakeAnswer::lost(), status(409, "AlreadyExists")});
  recorder.record(news());
  test::run_for(loop, 1min);
  EXPECT_EQ(http.requests.size(), 2U);
  EXPECT_EQ(body(0)["metadata"]["name"], body(1)["metadata"]["name"]);
  EXPECT_EQ(recorder.dropped(), 0U);
}

}  // namespace
}  // namespace moonfence::kube
