#include "os/net/tls_front.h"

#include <atomic>
#include <list>
#include <mutex>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "support/certificates.h"
#include "support/tls_client.h"

namespace moonfence::os {
namespace {

using namespace std::chrono_literals;
using test::TcpClient;
using test::TlsClient;

WallTime now() {
  return std::chrono::system_clock::now();
}

// Behind the front: sends back all that it gets, each connection in a thread.
class Echo {
 public:
  ~Echo() {
    for (std::thread& each : threads_) {
      each.join();
    }
  }
  bool take(Descriptor socket) {
    ++taken;
    threads_.emplace_back([socket = std::make_shared<Descriptor>(std::move(socket))] {
      // The end that it gets does not block (os/net/tls_relay.cc); here it may.
      (void)fcntl(socket->get(), F_SETFL, 0);
      std::string bytes(65536, '\0');
      ssize_t count = 0;
      while ((count = recv(socket->get(), bytes.data(), bytes.size(), 0)) > 0) {
        if (send(socket->get(), bytes.data(), static_cast<std::size_t>(count), MSG_NOSIGNAL) < 0) {
          return;
        }
      }
    });
    return true;
  }
  std::atomic<int> taken = 0;

 private:
  std::list<std::thread> threads_;
};

struct TlsFrontTest : testing::Test {
  Echo echo;  // ends after the front, which ends its connections
  std::unique_ptr<TlsFront> front;
  int port = 0;

  void serve(TlsFront::Limits limits = {}) {
    Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof where;
    auto* generic = reinterpret_cast<sockaddr*>(&where);
    ASSERT_EQ(bind(listener.get(), generic, size), 0);
    ASSERT_EQ(listen(listener.get(), 128), 0);
    ASSERT_EQ(getsockname(listener.get(), generic, &size), 0);
    port = ntohs(where.sin_port);
    auto started = TlsFront::start(
        std::move(listener), *TlsIdentity::self_signed({"localhost"}, now()),
        [this](Descriptor end) { return echo.take(std::move(end)); }, limits);
    ASSERT_TRUE(started);
    front = std::move(*started);
  }
};

TEST_F(TlsFrontTest, what_is_sent_arrives_and_comes_back) {
  serve();
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(port, version, "http/1.1");
    ASSERT_TRUE(client.shaken());
    ASSERT_TRUE(client.write("hello"));
    EXPECT_EQ(client.read(), "hello");
  }
}

TEST_F(TlsFrontTest, more_than_all_buffers_hold_comes_back_whole) {
  serve();
  TlsClient client(port);
  ASSERT_TRUE(client.shaken());
  std::string sent;
  std::string got;
  for (int i = 0; i < 200; ++i) {
    const std::string piece(10'000, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(client.write(piece));
    sent += piece;
    while (got.size() < sent.size()) {
      const std::string back = client.read();
      ASSERT_FALSE(back.empty());
      got += back;
    }
  }
  EXPECT_EQ(got, sent);
}

TEST_F(TlsFrontTest, a_client_that_sends_no_more_still_gets_its_answer) {
  serve();
  TlsClient client(port);
  ASSERT_TRUE(client.write("last words"));
  client.end_sending();
  EXPECT_EQ(client.read_all(), "last words");
}

TEST_F(TlsFrontTest, old_versions_and_other_protocols_are_refused) {
  serve();
  EXPECT_FALSE(TlsClient(port, TLS1_VERSION).shaken());
  EXPECT_FALSE(TlsClient(port, TLS1_1_VERSION).shaken());
  EXPECT_FALSE(TlsClient(port, TLS1_3_VERSION, "h2").shaken());
  EXPECT_EQ(echo.taken, 0);
}

TEST_F(TlsFrontTest, whoever_speaks_http_is_told_to_speak_https) {
  serve();
  const TcpClient client(port);
  ASSERT_TRUE(client.write("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  const std::string answer = client.read_all();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << answer;
  EXPECT_NE(answer.find("HTTPS"), std::string::npos) << answer;
  const auto head = answer.find("\r\n\r\n");
  ASSERT_NE(head, std::string::npos);
  EXPECT_NE(answer.find("Content-Length: " + std::to_string(answer.size() - head - 4) + "\r\n"),
            std::string::npos);
  EXPECT_EQ(echo.taken, 0);
}

TEST_F(TlsFrontTest, what_is_no_tls_is_ended_and_nobody_else_notices) {
  serve();
  TlsClient good(port);
  for (const std::string& garbage :
       {std::string("\0\0\0\0", 4) + std::string(40'000, '\xff'), std::string("SSH-2.0-x\r\n"),
        std::string("\x16\x03\x01\xff\xff", 5) + std::string(70'000, 'x')}) {
    const TcpClient client(port);
    (void)client.write(garbage);
    (void)client.read_all();
  }
  ASSERT_TRUE(good.write("still here"));
  EXPECT_EQ(good.read(), "still here");
  EXPECT_EQ(echo.taken, 1);
}

TEST_F(TlsFrontTest, a_handshake_that_is_not_done_in_time_is_ended) {
  serve({.handshake = 50ms});
  const TcpClient silent(port);
  EXPECT_EQ(silent.read_all(), "");
  const TcpClient half(port);
  ASSERT_TRUE(half.write(std::string("\x16\x03\x01\x02", 4)));
  EXPECT_EQ(half.read_all(), "");
  EXPECT_EQ(echo.taken, 0);
}

TEST_F(TlsFrontTest, a_connection_that_stands_still_is_ended) {
  serve({.idle = 50ms});
  TlsClient client(port);
  EXPECT_TRUE(client.shaken());
  EXPECT_EQ(client.read(), "");
}

TEST_F(TlsFrontTest, a_client_that_does_not_read_is_ended) {
  serve({.idle = 200ms});
  TlsClient client(port);
  const std::string piece(16'384, 'x');
  bool ended = false;
  for (int i = 0; i < 5'000 && !ended; ++i) {  // 80 MB: more than any kernel keeps
    ended = !client.write(piece);
  }
  EXPECT_TRUE(ended);
}

TEST_F(TlsFrontTest, clients_that_vanish_leave_room_for_others) {
  serve({.connections = 4});
  for (int i = 0; i < 40; ++i) {
    TlsClient client(port);
    ASSERT_TRUE(client.shaken()) << i;
    client.tcp().reset_when_closed();
    ASSERT_TRUE(client.write("half a requ"));
  }
  TlsClient client(port);
  ASSERT_TRUE(client.write("hello"));
  EXPECT_EQ(client.read(), "hello");
}

TEST_F(TlsFrontTest, whoever_holds_all_connections_loses_those_that_stand_still) {
  serve({.connections = 8, .handshake = 100ms, .idle_when_full = 100ms});
  std::list<TcpClient> silent;
  std::list<TlsClient> idle;
  for (int i = 0; i < 4; ++i) {
    idle.emplace_back(port);
    silent.emplace_back(port);
  }
  for (int i = 0; i < 100; ++i) {
    silent.emplace_back(port);
  }
  TlsClient client(port);
  ASSERT_TRUE(client.shaken());
  ASSERT_TRUE(client.write("hello"));
  EXPECT_EQ(client.read(), "hello");
}

TEST_F(TlsFrontTest, a_new_certificate_is_shown_to_new_connections_alone) {
  serve();
  TlsClient before(port);
  EXPECT_EQ(before.server_name(), "moonfence");
  const test::KeyPair pair = test::Authority("test CA").issue({.common_name = "renewed"});
  const auto renewed = TlsIdentity::from_pem(pair.certificate_pem, pair.key_pem, now());
  ASSERT_TRUE(renewed);
  front->use(*renewed);
  EXPECT_EQ(TlsClient(port).server_name(), "renewed");
  ASSERT_TRUE(before.write("hello"));
  EXPECT_EQ(before.read(), "hello");
}

TEST_F(TlsFrontTest, it_ends_with_connections_in_every_state) {
  serve();
  const TcpClient silent(port);
  TlsClient shaken(port);
  TlsClient busy(port);
  ASSERT_TRUE(busy.write(std::string(100'000, 'x')));
  front.reset();
  EXPECT_EQ(shaken.read(), "");
}

}  // namespace
}  // namespace moonfence::os
