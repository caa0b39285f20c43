#include "app/web/admin_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/system/descriptor.h"
#include "os/system/process.h"
#include "support/tls_client.h"

namespace moonfence::app {
namespace {

// A client on the loopback that gives up after five seconds.
class Client {
 public:
  Client(int family, int port) : socket_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit = {.tv_sec = 5, .tv_usec = 0};
    (void)setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    sockaddr_storage to{};
    socklen_t size = 0;
    if (family == AF_INET) {
      auto* address = reinterpret_cast<sockaddr_in*>(&to);
      *address = {.sin_family = AF_INET,
                  .sin_port = htons(static_cast<std::uint16_t>(port)),
                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
                  .sin_zero = {}};
      size = sizeof(sockaddr_in);
    } else {
      auto* address = reinterpret_cast<sockaddr_in6*>(&to);
      address->sin6_family = AF_INET6;
      address->sin6_port = htons(static_cast<std::uint16_t>(port));
      address->sin6_addr = in6addr_loopback;
      size = sizeof(sockaddr_in6);
    }
    connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&to), size) == 0;
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }

  // The whole answer to "GET /path".
  std::string ask(const std::string& what) {
    const std::string request =
        what + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    if (!connected_ || send(socket_, request.data(), request.size(), MSG_NOSIGNAL) < 0) {
      return "";
    }
    std::string answer;
    char piece[4096];
    for (ssize_t count = 0; (count = recv(socket_, piece, sizeof piece, 0)) > 0;) {
      answer.append(piece, static_cast<std::size_t>(count));
    }
    return answer;
  }

 private:
  int socket_;
  bool connected_ = false;
};

struct AdminServerTest : testing::Test {
  static AdminServer::Handlers handlers() {
    return {{"/metrics",
             [](const auto&) {
               return HttpAnswer{.status = 200, .content_type = "text/x-test", .body = "hello\n"};
             }},
            {"/readyz", [](const HttpRequest& request) {
               const auto& query = request.query;
               return HttpAnswer{.status = query.contains("verbose") ? 200 : 500,
                                 .body = query.contains("name") ? query.at("name") : "-"};
             }}};
  }
  static std::unique_ptr<AdminServer> serve(const std::string& address = "127.0.0.1:0") {
    auto server = AdminServer::start("--flag", address, handlers());
    EXPECT_TRUE(server) << server.error().text;
    return server ? *std::move(server) : nullptr;
  }
  static std::string ask(const AdminServer& server, const std::string& what) {
    return Client(AF_INET, server.port()).ask(what);
  }
  static bool has_ipv6() { return AdminServer::start("--flag", "[::1]:0", {}).has_value(); }
};

TEST_F(AdminServerTest, a_known_path_is_answered_with_its_type_and_body) {
  const auto server = serve();
  const std::string answer = ask(*server, "GET /metrics");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_NE(answer.find("Content-Type: text/x-test\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\nhello\n")) << answer;
}

TEST_F(AdminServerTest, the_handler_decides_the_status_by_the_decoded_query) {
  const auto server = serve();
  EXPECT_TRUE(ask(*server, "GET /readyz").starts_with("HTTP/1.1 500 "));
  const std::string answer = ask(*server, "GET /readyz?verbose&name=a%20b");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\na b")) << answer;
}

TEST_F(AdminServerTest, an_unknown_path_is_not_found) {
  const auto server = serve();
  for (const char* path : {"/", "/metrics/", "/metricsx", "//metrics", "/../metrics"}) {
    const std::string answer = ask(*server, std::string("GET ") + path);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 404 ")) << path << ": " << answer;
  }
}

TEST_F(AdminServerTest, only_reading_is_allowed) {
  const auto server = serve();
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    const std::string answer = ask(*server, std::string(method) + " /metrics");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 405 ")) << method << ": " << answer;
  }
}

TEST_F(AdminServerTest, what_may_be_asked_is_told_with_a_refusal) {
  const auto server = serve();
  EXPECT_NE(ask(*server, "POST /metrics").find("\r\nAllow: GET, HEAD\r\n"), std::string::npos);
}

TEST_F(AdminServerTest, one_handler_may_answer_all_other_paths_and_add_headers) {
  auto server =
      AdminServer::start("--flag", "127.0.0.1:0",
                         {{"/known", [](const auto&) { return HttpAnswer{.body = "known"}; }},
                          {"", [](const HttpRequest& request) {
                             return HttpAnswer{.body = request.path + " at " + request.host,
                                               .headers = {{"X-Test", "yes"}}};
                           }}});
  ASSERT_TRUE(server);
  EXPECT_TRUE(ask(**server, "GET /known").ends_with("\r\n\r\nknown"));
  const std::string answer = ask(**server, "GET /any/where?x=1");
  EXPECT_TRUE(answer.ends_with("\r\n\r\n/any/where at localhost")) << answer;
  EXPECT_NE(answer.find("\r\nX-Test: yes\r\n"), std::string::npos) << answer;
}

TEST_F(AdminServerTest, head_is_get_without_the_body) {
  const auto server = serve();
  const std::string answer = ask(*server, "HEAD /metrics");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
}

TEST_F(AdminServerTest, port_0_is_any_free_one) {
  const auto first = serve();
  const auto second = serve();
  EXPECT_GT(first->port(), 0);
  EXPECT_GT(second->port(), 0);
  EXPECT_NE(first->port(), second->port());
}

TEST_F(AdminServerTest, without_a_host_every_address_is_served) {
  const auto server = serve(":0");
  EXPECT_TRUE(ask(*server, "GET /metrics").starts_with("HTTP/1.1 200 "));
  if (has_ipv6()) {
    EXPECT_TRUE(Client(AF_INET6, server->port()).ask("GET /metrics").starts_with("HTTP/1.1 200 "));
  }
}

TEST_F(AdminServerTest, an_ipv6_address_stands_in_brackets) {
  const auto server = AdminServer::start("--flag", "[::1]:0", handlers());
  if (server) {
    EXPECT_TRUE(
        Client(AF_INET6, (*server)->port()).ask("GET /metrics").starts_with("HTTP/1.1 200 "));
  } else {  // a machine without IPv6
    EXPECT_EQ(server.error().kind, Error::Kind::Limit);
  }
}

TEST_F(AdminServerTest, what_is_no_address_is_refused_and_the_flag_named) {
  for (const char* address :
       {"", "8080", "localhost", ":", "host:", ":http", ":65536", ":-1", ":80x", ":+80",
        "127.0.0.1:8080 ", "[::1]", "[::1:0", "256.1.1.1:0", "no such host:0", "::"}) {
    const auto server = AdminServer::start("--flag", address, handlers());
    ASSERT_FALSE(server) << address;
    EXPECT_EQ(server.error().kind, Error::Kind::Invalid) << address;
    EXPECT_TRUE(server.error().text.starts_with("--flag: ")) << server.error().text;
  }
}

TEST_F(AdminServerTest, two_servers_on_one_port_are_an_error) {
  for (const char* host : {"127.0.0.1", ""}) {
    const auto first = serve(std::string(host) + ":0");
    const auto second = AdminServer::start(
        "--flag", std::string(host) + ":" + std::to_string(first->port()), handlers());
    ASSERT_FALSE(second) << host;
    EXPECT_EQ(second.error().kind, Error::Kind::Limit);
    EXPECT_TRUE(second.error().text.starts_with("--flag: ")) << second.error().text;
  }
}

TEST_F(AdminServerTest, a_port_is_free_again_when_its_server_is_gone) {
  auto server = serve();
  const int port = server->port();
  (void)ask(*server, "GET /metrics");
  server.reset();
  server = serve("127.0.0.1:" + std::to_string(port));
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(server->port(), port);
}

TEST_F(AdminServerTest, it_ends_although_a_client_stays_connected) {
  auto server = serve();
  const Client idle(AF_INET, server->port());
  EXPECT_TRUE(idle.connected());
  server.reset();
}

// A replica that watches a thousand machines has so many connections. Whoever waits by select()
// cannot be asked any more then, and the kubelet restarted it.
TEST_F(AdminServerTest, it_answers_whatever_number_its_descriptors_have) {
  ASSERT_TRUE(os::allow_all_descriptors());
  constexpr int kBeyondSelect = 1100;
  std::vector<os::Descriptor> others;
  do {
    others.emplace_back(dup(STDERR_FILENO));
    ASSERT_TRUE(others.back().open());
  } while (others.back().get() < kBeyondSelect);
  const auto server = serve();
  EXPECT_NE(Client(AF_INET, server->port()).ask("GET /metrics").find("hello"), std::string::npos);
}

struct SecureServerTest : AdminServerTest {
  std::atomic<bool> open = true;
  std::mutex mutex;
  std::string authorization;

  std::unique_ptr<AdminServer> serve_secure(unsigned connections = 64) {
    auto server = AdminServer::start(
        "--flag", "127.0.0.1:0", handlers(), connections,
        {.identity = *os::TlsIdentity::self_signed({"localhost"}, std::chrono::system_clock::now()),
         .gate = [this](const HttpRequest& request) -> std::optional<HttpAnswer> {
           const std::scoped_lock lock(mutex);
           authorization = request.authorization;
           return open ? std::nullopt
                       : std::optional(HttpAnswer{.status = 403, .body = "not you\n"});
         }});
    EXPECT_TRUE(server) << server.error().message();
    return std::move(*server);
  }
};

TEST_F(SecureServerTest, it_answers_by_tls_whoever_the_gate_lets_in) {
  const auto server = serve_secure();
  const std::string answer =
      test::TlsClient(server->port()).ask("/metrics", "Authorization: Bearer abc\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_TRUE(answer.ends_with("hello\n")) << answer;
  EXPECT_EQ(authorization, "Bearer abc");
}

TEST_F(SecureServerTest, whoever_is_not_let_in_gets_nothing_of_the_answer) {
  open = false;
  const auto server = serve_secure();
  for (const char* path : {"/metrics", "/readyz", "/readyz?verbose"}) {
    const std::string answer = test::TlsClient(server->port()).ask(path);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 403 ")) << answer;
    EXPECT_EQ(answer.find("hello"), std::string::npos);
  }
}

TEST_F(SecureServerTest, it_speaks_no_http) {
  const auto server = serve_secure();
  EXPECT_TRUE(ask(*server, "GET /metrics").starts_with("HTTP/1.1 400 "));
}

TEST_F(SecureServerTest, many_requests_on_many_connections_are_all_answered) {
  const auto server = serve_secure(4);
  std::atomic<int> answered = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {  // twice as many as may be connected at once
    threads.emplace_back([&] {
      for (int j = 0; j < 5; ++j) {
        answered += test::TlsClient(server->port()).ask("/metrics").ends_with("hello\n") ? 1 : 0;
      }
    });
  }
  for (std::thread& each : threads) {
    each.join();
  }
  EXPECT_EQ(answered, 40);
}

// Each in a thread: what one of them waits for keeps no other waiting. A handler is alone.
TEST_F(SecureServerTest, gates_wait_side_by_side_and_handlers_run_one_at_a_time) {
  constexpr int kClients = 4;
  std::mutex lock;
  std::condition_variable changed;
  int in_gate = 0;
  std::atomic<int> in_handler = 0;
  std::atomic<int> most_in_handler = 0;
  std::atomic<bool> all_met = true;
  const auto started = AdminServer::start(
      "--flag", "127.0.0.1:0",
      {{"",
        [&](const HttpRequest&) {
          most_in_handler = std::max(most_in_handler.load(), ++in_handler);
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          --in_handler;
          return HttpAnswer{.body = "done"};
        }}},
      kClients,
      {.identity = *os::TlsIdentity::self_signed({"localhost"}, std::chrono::system_clock::now()),
       .gate = [&](const HttpRequest&) -> std::optional<HttpAnswer> {
         std::unique_lock held(lock);
         ++in_gate;
         changed.notify_all();
         const bool met =
             changed.wait_for(held, std::chrono::seconds(10), [&] { return in_gate == kClients; });
         all_met = all_met && met;
         return std::nullopt;
       }});
  ASSERT_TRUE(started) << started.error().message();
  std::atomic<int> answered = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&] {
      answered += test::TlsClient((*started)->port()).ask("/x").ends_with("done") ? 1 : 0;
    });
  }
  for (std::thread& each : threads) {
    each.join();
  }
  EXPECT_EQ(answered, kClients);
  EXPECT_TRUE(all_met);
  EXPECT_EQ(most_in_handler, 1);
}

TEST_F(SecureServerTest, it_ends_with_clients_connected_and_its_port_is_free_again) {
  auto server = serve_secure();
  const int port = server->port();
  test::TlsClient idle(port);
  ASSERT_TRUE(idle.shaken());
  server.reset();
  EXPECT_EQ(idle.read(), "");
  EXPECT_NE(serve("127.0.0.1:" + std::to_string(port)), nullptr);
}

}  // namespace
}  // namespace moonfence::app
