#include "kube/calls/events.h"

#include <set>

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
  static EventNews about(const std::string& node) {
    EventNews out = news();
    out.regarding.name = node;
    return out;
  }
  static EventNews normal(const std::string& node) {
    EventNews out = about(node);
    out.type = EventNews::Type::Normal;
    return out;
  }
  static EventNews deed(const std::string& node) {
    EventNews out = normal(node);
    out.is_deed = true;
    out.reason = "PodForceDeleted";
    return out;
  }
  [[nodiscard]] std::set<std::string> names_told() const {
    std::set<std::string> names;
    for (std::size_t i = 0; i < http.requests.size(); ++i) {
      names.insert(body(i)["regarding"]["name"].get<std::string>());
    }
    return names;
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
  EXPECT_EQ(http.count("/namespaces/ns/events"), 1U);
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

TEST_F(EventsTest, a_series_is_told_again_every_half_hour_and_at_its_end) {
  http.on(Method::Post, v1, FakeAnswer{.status = 201, .body = "{}"});
  http.on(Method::Patch, v1 + "/*", FakeAnswer{.body = "{}"});
  for (int minute = 0; minute < 45; ++minute) {
    recorder.record(news());
    test::run_for(loop, 1min);
  }
  ASSERT_EQ(http.requests.size(), 3U);
  EXPECT_EQ(body(2)["series"]["count"], 32);
  test::run_for(loop, 8min);
  ASSERT_EQ(http.requests.size(), 4U);
  EXPECT_EQ(body(3)["series"]["count"], 45);
  test::run_for(loop, 2h);
  EXPECT_EQ(http.requests.size(), 4U);
}

TEST_F(EventsTest, the_end_of_a_series_whose_event_has_expired_is_no_news) {
  http.on(Method::Post, v1, FakeAnswer{.status = 201, .body = "{}"});
  http.sequence(Method::Patch, v1 + "/*",
                {FakeAnswer{.body = "{}"}, status(404, "NotFound", R"({"name":"x"})")});
  for (int i = 0; i < 5; ++i) {
    recorder.record(news());
  }
  test::run_for(loop, 10min);
  EXPECT_EQ(http.count("POST"), 1U);
  EXPECT_EQ(http.requests.size(), 3U);
  EXPECT_EQ(recorder.dropped(), 0U);
}

TEST_F(EventsTest, what_has_another_subject_is_no_repeat) {
  http.on(Method::Post, v1, FakeAnswer{.status = 201, .body = "{}"});
  for (const char* policy : {"a", "b"}) {
    EventNews activated = news("PolicyActivated");
    activated.subject = policy;
    recorder.record(activated);
  }
  test::run_for(loop, 1s);
  EXPECT_EQ(http.count("POST"), 2U);
}

TEST_F(EventsTest, of_one_object_a_burst_is_told_and_then_one_in_five_minutes) {
  http.on(Method::Post, v1, FakeAnswer{.status = 201, .body = "{}"});
  int reason = 0;
  const auto tell = [&](int count) {
    for (int i = 0; i < count; ++i) {
      recorder.record(news("R" + std::to_string(reason++)));
    }
    test::run_for(loop, 10s);
  };
  tell(100);
  EXPECT_EQ(http.requests.size(), 25U);
  EXPECT_EQ(recorder.dropped(), 75U);
  test::run_for(loop, 5min);
  tell(100);
  EXPECT_EQ(http.requests.size(), 26U);
  recorder.record(about("n2"));
  test::run_for(loop, 1s);
  EXPECT_EQ(http.requests.size(), 27U) << "another object has a limit of its own";
}

TEST_F(EventsTest, of_all_objects_a_burst_is_told_at_once_and_then_ten_a_second) {
  http.on(Method::Post, v1, FakeAnswer{.status = 201, .body = "{}"});
  for (int i = 0; i < 300; ++i) {
    recorder.record(about("n" + std::to_string(i)));
  }
  test::run_for(loop, 5s);
  EXPECT_GE(http.requests.size(), 200U);
  EXPECT_LE(http.requests.size(), 250U);
  test::run_for(loop, 10s);
  EXPECT_EQ(http.requests.size(), 300U);
  EXPECT_EQ(recorder.dropped(), 0U);
}

TEST_F(EventsTest, a_full_queue_drops_and_counts) {
  http.on(Method::Post, v1, FakeAnswer::silent());
  for (int i = 0; i < 1500; ++i) {
    recorder.record(about("n" + std::to_string(i)));
  }
  EXPECT_EQ(recorder.queued(), EventRecorder::kQueueLimit);
  EXPECT_EQ(recorder.dropped(), 500U);
}

TEST_F(EventsTest, a_full_queue_makes_room_for_warnings_and_deeds_and_drops_the_newest_others) {
  http.on(Method::Post, v1, FakeAnswer{.status = 201, .body = "{}"});
  for (std::size_t i = 0; i < EventRecorder::kQueueLimit; ++i) {
    recorder.record(normal("n" + std::to_string(i)));
  }
  recorder.record(about("warning"));
  recorder.record(deed("deed"));
  recorder.record(normal("late"));
  EXPECT_EQ(recorder.queued(), EventRecorder::kQueueLimit);
  EXPECT_EQ(recorder.dropped(), 3U);
  test::run_for(loop, 5min);
  EXPECT_EQ(http.requests.size(), EventRecorder::kQueueLimit);
  const std::set<std::string> told = names_told();
  EXPECT_TRUE(told.contains("warning") && told.contains("deed") && told.contains("n997"));
  EXPECT_FALSE(told.contains("n998") || told.contains("n999") || told.contains("late"));
}

TEST_F(EventsTest, a_queue_that_is_full_of_warnings_stays_as_long_as_it_is) {
  http.on(Method::Post, v1, FakeAnswer{.status = 201, .body = "{}"});
  recorder.record(normal("first"));
  http.on(Method::Post, v1, FakeAnswer::silent());
  test::run_for(loop, 1s);  // it is on its way, and keeps its place
  for (std::size_t i = 0; i < EventRecorder::kQueueLimit; ++i) {
    recorder.record(about("n" + std::to_string(i)));
  }
  EXPECT_EQ(recorder.queued(), EventRecorder::kQueueLimit);
  EXPECT_EQ(recorder.dropped(), 1U);
}

TEST_F(EventsTest, what_is_normal_takes_no_warnings_place_among_those_of_one_object) {
  http.on(Method::Post, v1, FakeAnswer{.status = 201, .body = "{}"});
  for (int i = 0; i < 100; ++i) {
    EventNews each = normal("n1");
    each.subject = std::to_string(i);
    recorder.record(each);
  }
  recorder.record(about("n1"));
  recorder.record(deed("n1"));
  test::run_for(loop, 10s);
  EXPECT_EQ(http.requests.size(), 27U);
  EXPECT_EQ(recorder.dropped(), 75U);
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
