#include "os/net/curl_http.h"

#include <atomic>
#include <list>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/http_client.h"
#include "support/tls_server.h"

namespace moonfence::os {
namespace {

using namespace std::chrono_literals;
using test::Gate;
using test::Peer;
using test::RecordingSink;
using test::TestServer;
using testing::ElementsAre;
using testing::HasSubstr;

struct CurlHttpTest : testing::Test, test::HttpClient {
  RecordingSink sink;
};

TEST_F(CurlHttpTest, exchange_is_heard_as_head_body_end) {
  std::string request;
  const TestServer server({}, [&](Peer& peer) {
    request = peer.read_request().value_or("");
    peer.write("HTTP/1.1 201 Created\r\nX-Two:  words here \r\nContent-Length: 5\r\n\r\nhello");
    peer.wait_closed();
  });
  {
    const auto transfer = http.start({.method = port::Method::Post,
                                      .url = server.url("/api/v1/x?a=b%20c"),
                                      .headers = {{"Accept", "application/json"}, {"X-Empty", ""}},
                                      .body = "{}"},
                                     sink);
    EXPECT_TRUE(sink.calls.empty()) << "called inside start()";
    ASSERT_TRUE(run_until_ended(sink));
  }
  EXPECT_THAT(sink.calls, ElementsAre("head", "body", "end"));
  EXPECT_EQ(sink.head.status, 201);
  EXPECT_EQ(sink.head.find("x-two"), "words here");
  EXPECT_EQ(sink.body, "hello");
  EXPECT_FALSE(sink.end->error);
  EXPECT_TRUE(sink.end->sent);
  EXPECT_THAT(request, testing::StartsWith("POST /api/v1/x?a=b%20c HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("Host: " + server.place() + "\r\n"));
  EXPECT_THAT(request, HasSubstr("Accept: application/json\r\n"));
  EXPECT_THAT(request, HasSubstr("X-Empty:\r\n"));
  EXPECT_THAT(request, HasSubstr("Content-Length: 2\r\n"));
  EXPECT_THAT(request, testing::EndsWith("\r\n\r\n{}"));
  for (const char* unwanted : {"Expect", "Accept-Encoding", "Content-Type", "User-Agent"}) {
    EXPECT_THAT(request, testing::Not(HasSubstr(unwanted)));
  }
}

TEST_F(CurlHttpTest, delete_carries_its_body) {
  std::string request;
  const TestServer server({}, [&](Peer& peer) {
    request = peer.read_request().value_or("");
    peer.answer("{}");
  });
  const auto transfer = http.start({.method = port::Method::Delete,
                                    .url = server.url("/p"),
                                    .headers = {{"Content-Type", "application/json"}},
                                    .body = R"({"preconditions":{"uid":"u"}})"},
                                   sink);
  ASSERT_TRUE(run_until_ended(sink));
  EXPECT_THAT(request, testing::StartsWith("DELETE /p HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(request, testing::EndsWith(R"({"preconditions":{"uid":"u"}})"));
}

TEST_F(CurlHttpTest, chunked_body_in_single_bytes_arrives_whole) {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  const TestServer server({}, [&](Peer& peer) {
    peer.read_request();
    peer.write(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (const char c : text) {
      peer.write("1\r\n" + std::string(1, c) + "\r\n");
    }
    peer.write("0\r\nX-Trailer: ignored\r\n\r\n");
    peer.wait_closed();
  });
  ASSERT_TRUE(get(server.url(), sink));
  EXPECT_FALSE(sink.end->error) << sink.error();
  EXPECT_EQ(sink.head.status, 200);
  EXPECT_EQ(sink.head.find("x-trailer"), "");
  EXPECT_EQ(sink.body, text);
  EXPECT_EQ(sink.calls.front(), "head");
  EXPECT_EQ(std::count(sink.calls.begin(), sink.calls.end(), "head"), 1);
}

TEST_F(CurlHttpTest, truncated_body_is_an_error_after_what_came) {
  const TestServer server({}, [](Peer& peer) {
    peer.read_request();
    peer.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
  });
  ASSERT_TRUE(get(server.url(), sink));
  EXPECT_EQ(sink.body, "abc");
  EXPECT_EQ(sink.kind(), Error::Kind::Retryable);
  EXPECT_THAT(sink.error(), HasSubstr(server.place() + ": the answer was cut off"));
  EXPECT_TRUE(sink.end->sent);
}

TEST_F(CurlHttpTest, reset_before_the_answer_leaves_the_outcome_open) {
  const TestServer server({}, [](Peer& peer) {
    peer.read_request();
    peer.reset();
  });
  ASSERT_TRUE(get(server.url(), sink));
  EXPECT_EQ(sink.kind(), Error::Kind::Retryable);
  EXPECT_THAT(sink.error(), HasSubstr(server.place() + ": "));
  EXPECT_TRUE(sink.end->sent);
}

TEST_F(CurlHttpTest, reset_inside_the_answer_ends_it) {
  Gate head_seen;
  const TestServer server({}, [&](Peer& peer) {
    peer.read_request();
    peer.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    head_seen.wait();
    peer.reset();
  });
  sink.hook = [&](const std::string& call) {
    if (call == "body") {
      head_seen.open();
    }
  };
  ASSERT_TRUE(get(server.url(), sink));
  EXPECT_EQ(sink.body, "abc");
  EXPECT_EQ(sink.kind(), Error::Kind::Retryable);
  EXPECT_THAT(sink.error(), HasSubstr("reset"));
}

TEST_F(CurlHttpTest, silent_server_runs_into_the_timeout) {
  const TestServer server({}, [](Peer& peer) { peer.wait_closed(); });
  const auto transfer = http.start({.url = server.url(), .timeout = 50ms}, sink);
  const Moment start = poller.now();
  ASSERT_TRUE(run_until_ended(sink));
  EXPECT_GE(poller.now() - start, 49ms);
  EXPECT_EQ(sink.kind(), Error::Kind::Retryable);
  EXPECT_EQ(sink.error(), server.place() + ": no answer within 50ms");
  EXPECT_TRUE(sink.end->sent);
}

TEST_F(CurlHttpTest, refused_port_is_named) {
  int port = 0;
  {
    const TestServer gone({}, test::answer_ok);
    port = gone.port();
  }
  const std::string place = "127.0.0.1:" + std::to_string(port);
  ASSERT_TRUE(get("http://" + place, sink));
  EXPECT_EQ(sink.kind(), Error::Kind::Retryable);
  EXPECT_EQ(sink.end->error->text, place + ": cannot connect: connection refused");
  EXPECT_NE(sink.end->error->hint.find("NetworkPolicy"), std::string::npos);
  EXPECT_FALSE(sink.end->sent);
}

TEST_F(CurlHttpTest, unusable_requests_end_unsent_and_later) {
  ASSERT_TRUE(get("ftp://127.0.0.1/x", sink));
  EXPECT_EQ(sink.kind(), Error::Kind::Invalid);
  EXPECT_FALSE(sink.end->sent);
  RecordingSink injected;
  const auto transfer = http.start(
      {.url = "http://127.0.0.1:1/", .headers = {{"Authorization", "Bearer x\r\nX-Evil: y"}}},
      injected);
  EXPECT_TRUE(injected.calls.empty());
  ASSERT_TRUE(run_until_ended(injected));
  EXPECT_EQ(injected.kind(), Error::Kind::Invalid);
  EXPECT_THAT(injected.error(), testing::Not(HasSubstr("Bearer"))) << "a token in a message";
}

TEST_F(CurlHttpTest, what_is_not_http_is_malformed) {
  const TestServer server({}, [](Peer& peer) {
    peer.read_request();
    peer.write("220 mail.example ESMTP ready\r\n");
  });
  ASSERT_TRUE(get(server.url(), sink));
  EXPECT_EQ(sink.kind(), Error::Kind::Malformed) << sink.error();
}

TEST_F(CurlHttpTest, endless_head_is_refused) {
  const TestServer server({}, [](Peer& peer) {
    peer.read_request();
    peer.write("HTTP/1.1 200 OK\r\n");
    while (peer.write("X-Padding: " + std::string(1000, 'x') + "\r\n")) {
    }
  });
  ASSERT_TRUE(get(server.url(), sink));
  EXPECT_EQ(sink.kind(), Error::Kind::Limit) << sink.error();
  EXPECT_THAT(sink.calls, ElementsAre("end"));
}

TEST_F(CurlHttpTest, redirect_is_an_answer_like_any_other) {
  std::atomic<int> requests = 0;
  const TestServer server({}, [&](Peer& peer) {
    while (peer.read_request()) {
      ++requests;
      peer.write("HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n");
    }
  });
  ASSERT_TRUE(get(server.url(), sink));
  EXPECT_FALSE(sink.end->error);
  EXPECT_EQ(sink.head.status, 302);
  EXPECT_EQ(requests, 1);
}

TEST_F(CurlHttpTest, connection_is_used_again) {
  const TestServer server({}, test::answer_ok);
  RecordingSink second;
  ASSERT_TRUE(get(server.url(), sink));
  ASSERT_TRUE(get(server.url(), second));
  EXPECT_EQ(second.body, "ok");
  EXPECT_EQ(server.connections(), 1);
  EXPECT_EQ(poller.sockets().count(), 1U);
}

TEST_F(CurlHttpTest, refused_permission_sends_nothing) {
  std::atomic<bool> requested = false;
  const TestServer server({}, [&](Peer& peer) { requested = peer.read_request().has_value(); });
  const auto transfer = http.start({.url = server.url(), .may_send = [] { return false; }}, sink);
  ASSERT_TRUE(run_until_ended(sink));
  EXPECT_EQ(sink.kind(), Error::Kind::Cancelled);
  EXPECT_FALSE(sink.end->sent);
  EXPECT_FALSE(requested);
}

// Serves one request a connection, then resets it when the next one has arrived.
struct ResettingServer {
  std::atomic<int> requests = 0;
  TestServer server{{}, [this](Peer& peer) {
                      if (!peer.read_request()) {
                        return;
                      }
                      ++requests;
                      peer.answer("ok");
                      if (peer.read_request()) {
                        ++requests;
                        peer.reset();
                      }
                    }};
};

TEST_F(CurlHttpTest, hidden_repetition_asks_again) {
  ResettingServer resetting;
  ASSERT_TRUE(get(resetting.server.url(), sink));
  RecordingSink second;
  int asked = 0;
  const auto transfer = http.start({.method = port::Method::Delete,
                                    .url = resetting.server.url(),
                                    .body = "{}",
                                    .may_send = [&] { return ++asked > 0; }},
                                   second);
  ASSERT_TRUE(run_until_ended(second));
  EXPECT_EQ(second.body, "ok") << second.error();
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(resetting.requests, 3);
}

TEST_F(CurlHttpTest, hidden_repetition_can_be_stopped_and_stays_sent) {
  ResettingServer resetting;
  ASSERT_TRUE(get(resetting.server.url(), sink));
  RecordingSink second;
  int asked = 0;
  const auto transfer = http.start({.method = port::Method::Delete,
                                    .url = resetting.server.url(),
                                    .may_send = [&] { return ++asked == 1; }},
                                   second);
  ASSERT_TRUE(run_until_ended(second));
  EXPECT_EQ(second.kind(), Error::Kind::Cancelled) << second.error();
  EXPECT_TRUE(second.end->sent) << "the first attempt may have reached the server";
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(resetting.requests, 2);
}

TEST_F(CurlHttpTest, dropping_connections_wakes_a_black_holed_exchange) {
  Gate asked;
  const TestServer server({}, [&](Peer& peer) {
    if (peer.number() > 0) {
      test::answer_ok(peer);
      return;
    }
    peer.read_request();
    peer.answer("ok");
    peer.read_request();  // on the pooled connection, where libcurl would repeat it by itself
    asked.open();
    peer.wait_closed();
  });
  ASSERT_TRUE(get(server.url(), sink));
  RecordingSink stuck;
  const auto transfer = http.start({.url = server.url(), .lane = port::Lane::Watches}, stuck);
  ASSERT_TRUE(run_until([&] { return asked.is_open(); }));
  http.drop_connections();
  EXPECT_EQ(stuck.calls.size(), 0U);
  loop.turn();
  if (!stuck.end) {
    loop.turn();
  }
  ASSERT_TRUE(stuck.end);
  EXPECT_EQ(stuck.kind(), Error::Kind::Retryable);
  EXPECT_TRUE(stuck.end->sent);
  RecordingSink after;
  ASSERT_TRUE(get(server.url(), after));
  EXPECT_EQ(after.body, "ok");
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(CurlHttpTest, dropped_idle_connection_is_not_used_again) {
  const TestServer server({}, test::answer_ok);
  ASSERT_TRUE(get(server.url(), sink));
  http.drop_connections();
  RecordingSink after;
  ASSERT_TRUE(get(server.url(), after));
  EXPECT_EQ(after.body, "ok");
  EXPECT_EQ(server.connections(), 2);
  EXPECT_EQ(poller.sockets().count(), 1U);
}

TEST_F(CurlHttpTest, burst_completes_within_the_bound_of_its_lane) {
  Gate counted;  // on a busy machine the first would be answered before the last is asked
  const TestServer server({}, [&](Peer& peer) {
    counted.wait();
    test::answer_ok(peer);
  });
  std::list<RecordingSink> sinks(HttpLimits{}.writes + 8);
  std::vector<std::unique_ptr<port::Transfer>> transfers;
  for (RecordingSink& each : sinks) {
    transfers.push_back(
        http.start({.method = port::Method::Delete, .url = server.url(), .body = "{}"}, each));
  }
  const std::size_t bound = HttpLimits{}.writes;
  EXPECT_EQ(http.running(port::Lane::Writes), bound);
  EXPECT_EQ(http.queued(port::Lane::Writes), sinks.size() - bound);
  counted.open();
  ASSERT_TRUE(run_until([&] {
    return std::all_of(sinks.begin(), sinks.end(), [](const auto& each) { return each.end; });
  }));
  for (const RecordingSink& each : sinks) {
    EXPECT_EQ(each.body, "ok") << each.error();
  }
  EXPECT_LE(server.connections(), static_cast<int>(bound));
  EXPECT_EQ(http.running(port::Lane::Writes), 0U);
}

TEST_F(CurlHttpTest, watches_are_not_bounded_and_block_nobody) {
  std::atomic<int> waiting = 0;
  const TestServer server({}, [&](Peer& peer) {
    const std::string request = peer.read_request().value_or("");
    if (request.starts_with("GET /watch")) {
      ++waiting;
      peer.wait_closed();
      return;
    }
    peer.answer("ok");
  });
  std::list<RecordingSink> sinks(80);
  std::vector<std::unique_ptr<port::Transfer>> transfers;
  for (RecordingSink& each : sinks) {
    transfers.push_back(
        http.start({.url = server.url("/watch"), .lane = port::Lane::Watches}, each));
  }
  ASSERT_TRUE(run_until([&] { return waiting == 80; }));
  ASSERT_TRUE(get(server.url(), sink));
  EXPECT_EQ(sink.body, "ok");
}

TEST_F(CurlHttpTest, silence_costs_no_turns) {
  const TestServer server({}, [](Peer& peer) { peer.wait_closed(); });
  const auto transfer =
      http.start({.url = server.url(), .lane = port::Lane::Watches, .timeout = 300ms}, sink);
  for (int turns = 0; turns < 30 && !sink.end; ++turns) {
    loop.turn();  // without timers of ours: only the exchange's own deadline wakes it
  }
  EXPECT_TRUE(sink.end) << "more than 30 turns for one silent exchange";
}

// libcurl's timers are answered once and not for ever: neither that of a connection that was made
// in time, nor the one of a request that was refused before it left.
TEST(CurlHttpTurnsTest, a_watch_silent_for_longer_than_connecting_may_take_costs_no_turns) {
  HttpLimits short_patience;
  short_patience.connect_timeout = 50ms;
  test::HttpClient client(short_patience);
  RecordingSink sink;
  const TestServer server({}, [](Peer& peer) { peer.wait_closed(); });
  const auto transfer =
      client.http.start({.url = server.url(), .lane = port::Lane::Watches, .timeout = 500ms}, sink);
  for (int turns = 0; turns < 30 && !sink.end; ++turns) {
    client.loop.turn();
  }
  EXPECT_TRUE(sink.end) << "more than 30 turns for one silent watch";
}

TEST_F(CurlHttpTest, a_refused_request_on_an_open_connection_costs_no_turns_after_it) {
  const TestServer server({}, test::answer_ok);
  ASSERT_TRUE(get(server.url(), sink));
  RecordingSink refused;
  const auto transfer =
      http.start({.url = server.url(), .may_send = [] { return false; }}, refused);
  ASSERT_TRUE(run_until_ended(refused));
  bool over = false;
  const loop::Timer end = loop.after(300ms, [&over] { over = true; });
  for (int turns = 0; turns < 30 && !over; ++turns) {
    loop.turn();
  }
  EXPECT_TRUE(over) << "more than 30 turns in which nothing was to be done";
}

struct CancelTest : CurlHttpTest, testing::WithParamInterface<const char*> {};

TEST_P(CancelTest, transfer_may_be_destroyed_by_its_sink) {
  const TestServer server({}, test::answer_ok);
  std::unique_ptr<port::Transfer> transfer;
  RecordingSink next;
  std::unique_ptr<port::Transfer> follower;
  sink.hook = [&](const std::string& call) {
    if (call == GetParam()) {
      transfer.reset();
      follower = http.start({.url = server.url()}, next);
    }
  };
  transfer = http.start({.url = server.url()}, sink);
  ASSERT_TRUE(run_until_ended(next));
  EXPECT_EQ(sink.calls.back(), GetParam()) << "heard something after its cancellation";
  EXPECT_EQ(next.body, "ok");
}

INSTANTIATE_TEST_SUITE_P(at_each_call, CancelTest, testing::Values("head", "body", "end"),
                         [](const auto& where) { return std::string("on_") + where.param; });

TEST(CurlHttpQueueTest, queue_is_first_in_first_out_and_forgets_the_cancelled) {
  test::HttpClient client({.writes = 1});
  std::vector<std::string> order;
  std::mutex mutex;
  const TestServer server({}, [&](Peer& peer) {
    while (const auto request = peer.read_request()) {
      {
        const std::lock_guard lock(mutex);
        order.push_back(request->substr(4, 2));
      }
      peer.answer("ok");
    }
  });
  std::list<RecordingSink> sinks(4);
  std::vector<std::unique_ptr<port::Transfer>> transfers;
  for (RecordingSink& each : sinks) {
    transfers.push_back(
        client.http.start({.url = server.url("/" + std::to_string(transfers.size()))}, each));
  }
  transfers[2].reset();
  ASSERT_TRUE(client.run_until_ended(sinks.back()));
  EXPECT_THAT(order, ElementsAre("/0", "/1", "/3"));
  EXPECT_TRUE(std::next(sinks.begin(), 2)->calls.empty());
}

TEST(CurlHttpQueueTest, timeout_counts_from_start_also_in_the_queue) {
  test::HttpClient client({.writes = 1});
  const TestServer server({}, [](Peer& peer) { peer.wait_closed(); });
  RecordingSink first;
  RecordingSink second;
  const auto running = client.http.start({.url = server.url()}, first);
  const auto waiting = client.http.start({.url = server.url(), .timeout = 20ms}, second);
  ASSERT_TRUE(client.run_until_ended(second));
  EXPECT_EQ(second.kind(), Error::Kind::Retryable);
  EXPECT_FALSE(second.end->sent);
  EXPECT_EQ(client.http.queued(port::Lane::Writes), 0U);
}

TEST_F(CurlHttpTest, permission_may_cancel_start_and_drop) {
  const TestServer server({}, test::answer_ok);
  std::unique_ptr<port::Transfer> transfer;
  std::unique_ptr<port::Transfer> other;
  RecordingSink next;
  const auto ask = [&] {
    transfer.reset();
    http.drop_connections();
    other = http.start({.url = server.url()}, next);
    return true;
  };
  transfer = http.start({.url = server.url(), .may_send = ask}, sink);
  ASSERT_TRUE(run_until_ended(next));
  EXPECT_TRUE(sink.calls.empty());
  EXPECT_EQ(next.body, "ok") << next.error();
}

TEST(CurlHttpEndTest, client_may_be_destroyed_while_exchanges_run) {
  Gate asked;
  const TestServer server({}, [&](Peer& peer) {
    peer.read_request();
    asked.open();
    peer.wait_closed();
  });
  RecordingSink sink;
  {
    test::HttpClient client;
    const auto transfer = client.http.start({.url = server.url()}, sink);
    ASSERT_TRUE(client.run_until([&] { return asked.is_open(); }));
  }
  EXPECT_TRUE(sink.calls.empty());
}

// Answers one request, and says when another one has come.
struct SecondRequest {
  Gate asked;
  TestServer server{{}, [this](Peer& peer) {
                      peer.read_request();
                      peer.answer("ok");
                      peer.read_request();
                      asked.open();
                      peer.wait_closed();
                    }};
};

TEST_F(CurlHttpTest, request_on_an_open_connection_leaves_at_once) {
  SecondRequest second_request;
  ASSERT_TRUE(get(second_request.server.url(), sink));
  RecordingSink second;
  bool permitted = false;
  const auto transfer = http.start(
      {.url = second_request.server.url(), .may_send = [&] { return permitted = true; }}, second);
  EXPECT_TRUE(permitted);
  EXPECT_TRUE(second_request.asked.wait());
}

// One that waited for room on its lane, and has it since this turn.
TEST(CurlHttpQueueTest, request_is_on_the_wire_before_the_loop_waits) {
  SecondRequest second_request;
  HttpLimits one_at_once;
  one_at_once.writes = 1;
  test::HttpClient client(one_at_once);
  RecordingSink first;
  RecordingSink second;
  const auto running = client.http.start({.url = second_request.server.url()}, first);
  const auto waiting = client.http.start({.url = second_request.server.url()}, second);
  ASSERT_TRUE(client.run_until_ended(first));
  client.poller.wait(Duration::zero());
  EXPECT_TRUE(second_request.asked.wait());
}

}  // namespace
}  // namespace moonfence::os
