#include "kube/wire/caller.h"

#include <algorithm>

#include "unit/kube/wire_fixture.h"

namespace moonfence::kube {
namespace {

using namespace std::chrono_literals;
using port::Method;
using test::FakeAnswer;
using Kind = Error::Kind;

using CallerTest = WireTest;

struct Sink final : StreamSink {
  void on_open() override {
    ++opened;
    at_open();
  }
  void on_bytes(std::string_view bytes) override {
    text += bytes;
    at_bytes();
  }
  void on_close(const Result<void>& outcome) override {
    ++closed;
    if (!outcome) {
      error = outcome.error();
    }
    at_close();
  }
  int opened = 0;
  int closed = 0;
  std::string text;
  std::optional<Error> error;
  std::function<void()> at_open = [] {};
  std::function<void()> at_bytes = [] {};
  std::function<void()> at_close = [] {};
};

TEST_F(CallerTest, a_request_carries_the_standard_headers_and_no_expect) {
  http.on(Method::Put, "/prefix/x", FakeAnswer{.body = "{}"});
  ApiRequest request = write("/x", Method::Put);
  request.query = {{"a", "b c"}};
  ASSERT_TRUE(call(request));
  const test::FakeRequest& seen = http.requests.at(0);
  EXPECT_EQ(seen.line(), "PUT /prefix/x?a=b%20c");
  EXPECT_EQ(seen.header("Accept"), "application/json");
  EXPECT_EQ(seen.header("User-Agent"), "moonfence/0.1");
  EXPECT_EQ(seen.header("Authorization"), "Bearer first");
  EXPECT_EQ(seen.header("Content-Type"), "application/json");
  EXPECT_EQ(seen.header("Expect"), "");
  EXPECT_EQ(seen.timeout, 5s);
}

TEST_F(CallerTest, a_reply_arrives_with_audit_id_and_date) {
  http.on(Method::Get, "/prefix/x",
          FakeAnswer{.body = R"({"a":1})",
                     .headers = {{"content-type", "application/json; charset=utf-8"},
                                 {"audit-id", "abc"},
                                 {"date", "Sun, 06 Nov 1994 08:49:37 GMT"}},
                     .chunk = 1});
  const auto reply = call(get("/x"));
  ASSERT_TRUE(reply) << reply.error().text;
  EXPECT_EQ(reply->body["a"], 1);
  EXPECT_EQ(reply->audit_id, "abc");
  EXPECT_TRUE(reply->date);
}

TEST_F(CallerTest, what_is_no_json_is_not_parsed) {
  http.on(Method::Get, "/prefix/x",
          FakeAnswer{.body = "<html>", .headers = {{"content-type", "text/html"}}});
  EXPECT_EQ(call(get("/x")).error().kind, Kind::Malformed);
  http.on(Method::Get, "/prefix/x", FakeAnswer{.body = "{}", .headers = {}});
  EXPECT_EQ(call(get("/x")).error().kind, Kind::Malformed);
  http.on(Method::Get, "/prefix/x", FakeAnswer{.body = "hello"});
  EXPECT_EQ(call(get("/x")).error().kind, Kind::Malformed);
}

TEST_F(CallerTest, a_body_is_complete_when_its_json_is) {
  http.on(Method::Get, "/prefix/x", FakeAnswer{.body = R"({"a":)"});
  EXPECT_EQ(call(get("/x")).error().kind, Kind::Retryable);
  http.on(Method::Delete, "/prefix/x", FakeAnswer{.body = R"({"a":)"});
  EXPECT_EQ(call(write("/x")).error().kind, Kind::Unknown);
}

TEST_F(CallerTest, a_failure_dressed_as_success_stays_a_failure) {
  FakeAnswer answer = status(410, "Expired");
  answer.status = 200;
  http.on(Method::Get, "/prefix/x", answer);
  EXPECT_EQ(call(get("/x")).error().kind, Kind::Gone);
}

TEST_F(CallerTest, a_body_beyond_its_limit_is_refused) {
  http.on(Method::Get, "/prefix/x", FakeAnswer{.body = std::string(200, ' '), .chunk = 30});
  ApiRequest request = get("/x");
  request.body_limit = 100;
  EXPECT_EQ(call(request).error().kind, Kind::Limit);
}

TEST_F(CallerTest, a_401_is_repeated_once_with_new_credentials) {
  http.on(Method::Delete, "/prefix/x", [](const test::FakeRequest& request) {
    return request.header("Authorization") == "Bearer second" ? FakeAnswer{.body = "{}"}
                                                              : status(401, "Unauthorized");
  });
  credentials.next_token = "second";
  EXPECT_TRUE(call(write("/x")));
  EXPECT_EQ(http.requests.size(), 2U);
  EXPECT_EQ(credentials.refusals, 1);
}

TEST_F(CallerTest, a_401_without_new_credentials_is_not_repeated) {
  http.on(Method::Get, "/prefix/x", status(401, "Unauthorized"));
  EXPECT_EQ(call(get("/x")).error().kind, Kind::Unauthorized);
  EXPECT_EQ(http.requests.size(), 1U);
  credentials.next_token = "as bad";
  EXPECT_EQ(call(get("/x")).error().kind, Kind::Unauthorized);
  EXPECT_EQ(http.requests.size(), 3U);
}

TEST_F(CallerTest, a_lost_reply_to_a_write_is_unknown_and_to_a_read_retryable) {
  http.on(Method::Delete, "/prefix/x", FakeAnswer::lost());
  http.on(Method::Get, "/prefix/x", FakeAnswer::lost());
  EXPECT_EQ(call(write("/x")).error().kind, Kind::Unknown);
  EXPECT_EQ(call(get("/x")).error().kind, Kind::Retryable);
  http.on(Method::Delete, "/prefix/x", FakeAnswer{.status = 0});
  EXPECT_EQ(call(write("/x")).error().kind, Kind::Unknown) << "closed without an answer";
  http.on(Method::Delete, "/prefix/x", FakeAnswer::silent());
  EXPECT_EQ(call(write("/x")).error().kind, Kind::Unknown) << "timed out";
}

TEST_F(CallerTest, a_write_that_never_left_is_not_unknown) {
  http.on(Method::Delete, "/prefix/x", FakeAnswer::refused());
  EXPECT_EQ(call(write("/x")).error().kind, Kind::Retryable);
  ApiRequest request = write("/x");
  request.may_send = [] { return false; };
  EXPECT_EQ(call(request).error().kind, Kind::Cancelled);
}

TEST_F(CallerTest, a_5xx_to_a_write_is_unknown_because_the_store_may_have_committed) {
  http.on(Method::Delete, "/prefix/x", status(504, "Timeout"));
  const auto reply = call(write("/x"));
  EXPECT_EQ(reply.error().kind, Kind::Unknown);
  EXPECT_EQ(reply.error().http_status, 504);
  http.on(Method::Delete, "/prefix/x", status(429, "TooManyRequests"));
  EXPECT_EQ(call(write("/x")).error().kind, Kind::Retryable);
}

TEST_F(CallerTest, an_endless_refusal_is_cut) {
  http.on(Method::Get, "/prefix/x",
          FakeAnswer{.status = 503, .body = std::string(4U << 20U, 'x'), .headers = {}});
  const auto reply = call(get("/x"));
  EXPECT_EQ(reply.error().http_status, 503);
  EXPECT_LT(reply.error().text.size(), 2300U);
}

TEST_F(CallerTest, a_warning_is_logged_once_per_text) {
  http.on(Method::Get, "/prefix/x",
          FakeAnswer{.body = "{}",
                     .headers = {{"content-type", "application/json"},
                                 {"warning", R"(299 - "old \"api\"")"},
                                 {"warning", R"(199 - "chatter")"}}});
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(call(get("/x")));
  }
  EXPECT_EQ(log.count("api_warning"), 1U);
}

TEST_F(CallerTest, late_credentials_delay_and_missing_ones_fail_the_request) {
  http.on(Method::Get, "/prefix/x", FakeAnswer{.body = "{}"});
  credentials.late = true;
  std::optional<Result<ApiReply>> slot;
  CallHandle handle = caller.call(get("/x"), [&slot](auto reply) { slot = std::move(reply); });
  test::run_for(loop, 4s);
  EXPECT_TRUE(http.requests.empty());
  credentials.answer(credentials.waiting);
  EXPECT_TRUE(wait_for(slot));
  EXPECT_EQ(http.requests.at(0).timeout, 1s) << "the wait counts";
  EXPECT_EQ(call(get("/x")).error().kind, Kind::Unauthorized) << "they never come";
  credentials.late = false;
  credentials.fault = Error{.kind = Kind::Retryable, .text = "plugin died"};
  EXPECT_EQ(call(get("/x")).error().kind, Kind::Unauthorized);
}

TEST_F(CallerTest, a_cancelled_request_is_never_heard_of) {
  http.on(Method::Get, "/prefix/x", FakeAnswer{.body = "{}", .delay = 1s});
  int calls = 0;
  const auto count = [&calls](const Result<ApiReply>&) { ++calls; };
  { const CallHandle gone = caller.call(get("/x"), count); }
  CallHandle sent = caller.call(get("/x"), count);
  test::run_for(loop, 500ms);
  sent.reset();
  credentials.late = true;
  CallHandle waiting = caller.call(get("/x"), count);
  waiting.reset();
  credentials.answer(credentials.waiting);
  {
    const CallHandle refused = caller.refuse(Error{}, [&calls](const Error&) { ++calls; });
  }
  test::run_for(loop, 10s);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(http.open_exchanges(), 0U);
}

TEST_F(CallerTest, a_handle_may_be_destroyed_inside_its_own_callback) {
  http.on(Method::Get, "/prefix/x", FakeAnswer{.body = "{}"});
  CallHandle handle;
  bool called = false;
  handle = caller.call(get("/x"), [&handle, &called](const Result<ApiReply>&) {
    handle.reset();
    called = true;
  });
  test::run_for(loop, 1s);
  EXPECT_TRUE(called);
  handle = caller.refuse(Error{}, [&handle](const Error&) { handle.reset(); });
  test::run_for(loop, 1s);
  EXPECT_EQ(handle, nullptr);
}

TEST_F(CallerTest, a_stream_may_be_destroyed_inside_any_of_its_callbacks) {
  http.on(Method::Get, "/prefix/x", FakeAnswer{.body = "abcdef", .chunk = 1});
  for (int where = 0; where < 3; ++where) {
    Sink sink;
    CallHandle handle;
    const auto destroy = [&handle] { handle.reset(); };
    (where == 0 ? sink.at_open : where == 1 ? sink.at_bytes : sink.at_close) = destroy;
    handle = caller.stream(get("/x"), sink);
    test::run_for(loop, 1s);
    EXPECT_EQ(handle, nullptr);
    EXPECT_EQ(sink.text, where == 0 ? "" : where == 1 ? "a" : "abcdef");
    EXPECT_EQ(sink.closed, where == 2 ? 1 : 0);
    EXPECT_EQ(http.open_exchanges(), 0U);
  }
}

TEST_F(CallerTest, a_stream_passes_success_on_and_decodes_a_refusal) {
  http.on(Method::Get, "/prefix/x", FakeAnswer{.body = "abc", .chunk = 2});
  Sink good;
  const CallHandle first = caller.stream(get("/x"), good);
  http.on(Method::Get, "/prefix/y", status(410, "Expired"));
  Sink bad;
  const CallHandle second = caller.stream(get("/y"), bad);
  http.on(Method::Get, "/prefix/z",
          FakeAnswer{.body = "x", .headers = {{"content-type", "text/html"}}});
  Sink page;
  const CallHandle third = caller.stream(get("/z"), page);
  test::run_for(loop, 1s);
  EXPECT_EQ(good.text, "abc");
  EXPECT_EQ(good.closed, 1);
  EXPECT_FALSE(good.error);
  EXPECT_EQ(bad.opened, 0);
  EXPECT_EQ(bad.error.value().kind, Kind::Gone);
  EXPECT_EQ(page.opened, 0);
  EXPECT_EQ(page.error.value().kind, Kind::Malformed);
}

TEST_F(CallerTest, every_attempt_is_observed_when_its_answer_begins) {
  struct Observer final : CallObserver {
    void on_exchange(Method, int status_seen, Duration took, std::optional<WallTime>) override {
      seen.emplace_back(status_seen, took);
    }
    std::vector<std::pair<int, Duration>> seen;
  } observer;
  caller.observe(&observer);
  http.sequence(Method::Get, "/prefix/x",
                {status(401, "Unauthorized"), FakeAnswer{.body = "{}", .delay = 2s}});
  credentials.next_token = "second";
  ASSERT_TRUE(call(get("/x")));
  http.on(Method::Get, "/prefix/x", FakeAnswer::refused());
  EXPECT_FALSE(call(get("/x")));
  EXPECT_EQ(observer.seen, (std::vector<std::pair<int, Duration>>{{401, 0s}, {200, 2s}, {0, 0s}}));
}

TEST_F(CallerTest, a_path_that_was_not_built_is_not_sent) {
  for (const char* path : {"/x?watch=1", "/x#y", "/x y", "/x%"}) {
    EXPECT_EQ(call(get(path)).error().kind, Kind::Invalid) << path;
  }
  EXPECT_TRUE(http.requests.empty());
}

TEST_F(CallerTest, a_request_that_breaks_a_rule_is_never_sent) {
  EXPECT_EQ(call(get("x")).error().kind, Kind::Invalid);
  ApiRequest untyped = get("/x");
  untyped.body = "{}";
  EXPECT_EQ(call(untyped).error().kind, Kind::Invalid);
  EXPECT_TRUE(http.requests.empty());
}

}  // namespace
}  // namespace moonfence::kube
