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

// Behind the front: sends back all that it gets, each connection in a thread; or nothing, and only
// reads.
class Echo {
 public:
  ~Echo() {
    for (std::thread& each : threads_) {
      each.join();
    }
  }
  bool take(Descriptor socket) {
    ++taken;
    threads_.emplace_back([this, socket = std::make_shared<Descriptor>(std::move(socket))] {
      // The end that it gets does not block (os/net/tls_relay.cc); here it may.
      (void)fcntl(socket->get(), F_SETFL, 0);
      std::string bytes(65536, '\0');
      ssize_t count = 0;
      while ((count = recv(socket->get(), bytes.data(), bytes.size(), 0)) > 0) {
        if (!mute &&
            send(socket->get(), bytes.data(), static_cast<std::size_t>(count), MSG_NOSIGNAL) < 0) {
          return;
        }
      }
    });
    return true;
  }
  std::atomic<int> taken = 0;
  std::atomic<bool> mute = false;

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

// Written by hand: not each OpenSSL of a client speaks these versions.
std::string client_hello(char minor) {
  const std::string version = {3, minor};
  // random, no session, one cipher suite (ECDHE-RSA-AES128-SHA), no compression
  const std::string body = version + std::string(32, 'r') + std::string("\0\0\2\xc0\x13\1\0", 7);
  const auto size = static_cast<char>(body.size());
  const std::string message = std::string("\1\0\0", 3) + size + body;
  return std::string("\x16\3\1\0", 4) + static_cast<char>(message.size()) + message;
}

TEST_F(TlsFrontTest, old_versions_and_other_protocols_are_refused) {
  serve();
  for (const char minor : {'\1', '\2'}) {  // TLS 1.0 and 1.1
    TcpClient client(port);
    ASSERT_TRUE(client.write(client_hello(minor)));
    const std::string answer = client.read_all();
    EXPECT_FALSE(client.gave_up());
    ASSERT_EQ(answer.size(), 7U);
    EXPECT_EQ(answer.front(), 0x15) << "an alert";
    EXPECT_EQ(answer.back(), 70) << "protocol_version";
  }
  EXPECT_FALSE(TlsClient(port, TLS1_3_VERSION, "h2").shaken());
  EXPECT_EQ(echo.taken, 0);
}

TEST_F(TlsFrontTest, whoever_speaks_http_is_told_to_speak_https) {
  serve();
  TcpClient client(port);
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
    TcpClient client(port);
    (void)client.write(garbage);
    (void)client.read_all();
    EXPECT_FALSE(client.gave_up());
  }
  ASSERT_TRUE(good.write("still here"));
  EXPECT_EQ(good.read(), "still here");
  EXPECT_EQ(echo.taken, 1);
}

TEST_F(TlsFrontTest, a_handshake_that_is_not_done_in_time_is_ended) {
  serve({.handshake = 50ms});
  TcpClient silent(port);
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_FALSE(silent.gave_up());
  TcpClient half(port);
  (void)half.write(std::string("\x16\x03\x01\x02", 4));
  EXPECT_EQ(half.read_all(), "");
  EXPECT_FALSE(half.gave_up());
  EXPECT_EQ(echo.taken, 0);
}

TEST_F(TlsFrontTest, a_connection_that_stands_still_is_ended) {
  serve({.idle = 50ms});
  TlsClient client(port);
  EXPECT_TRUE(client.shaken());
  EXPECT_EQ(client.read(), "");
  EXPECT_FALSE(client.gave_up());
}

TEST_F(TlsFrontTest, a_client_that_does_not_read_is_ended) {
  serve({.idle = 1s, .answer = 1s});
  TlsClient client(port);
  ASSERT_TRUE(client.shaken());
  const std::string piece(16'384, 'x');
  bool ended = false;
  for (int i = 0; i < 5'000 && !ended; ++i) {  // 80 MB: more than any kernel keeps
    ended = !client.write(piece);
  }
  EXPECT_TRUE(ended);
  EXPECT_FALSE(client.gave_up()) << "it would have waited longer";
}

TEST_F(TlsFrontTest, a_request_that_never_ends_is_ended_however_often_a_byte_comes) {
  echo.mute = true;
  serve({.answer = 200ms});
  TlsClient client(port);
  ASSERT_TRUE(client.shaken());
  bool ended = false;
  for (int i = 0; i < 1'000 && !ended; ++i) {
    ended = !client.write("x");
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_TRUE(ended);
  EXPECT_FALSE(client.gave_up());
}

TEST_F(TlsFrontTest, whoever_waits_for_an_answer_does_not_count_as_idle) {
  echo.mute = true;
  serve({.idle = 20ms, .answer = 60s});
  // On a slow machine the question may come too late: try again.
  for (int i = 0; i < 100; ++i) {
    TlsClient client(port);
    if (!client.shaken() || !client.write("a question")) {
      continue;
    }
    client.tcp().read_no_longer_than(500ms);
    (void)client.read();
    if (client.gave_up()) {
      return;  // still connected
    }
  }
  FAIL() << "it was ended each time";
}

TEST_F(TlsFrontTest, new_connections_are_taken_at_a_bounded_pace) {
  serve({.burst = 2, .pace = 1h});
  TlsClient first(port);
  TlsClient second(port);
  EXPECT_TRUE(first.shaken());
  EXPECT_TRUE(second.shaken());
  TcpClient third(port);  // the kernel connects it
  third.read_no_longer_than(200ms);
  ASSERT_TRUE(third.write("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_EQ(third.read_all(), "");
  EXPECT_TRUE(third.gave_up());
  ASSERT_TRUE(first.write("hello"));
  EXPECT_EQ(first.read(), "hello");
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
  // One of many, because its own handshake has the short limit too.
  bool served = false;
  for (int i = 0; i < 100 && !served; ++i) {
    TlsClient client(port);
    served = client.shaken() && client.write("hello") && client.read() == "hello";
  }
  EXPECT_TRUE(served);
}

TEST_F(TlsFrontTest, a_new_certificate_is_shown_to_new_connections_alone) {
  serve();
  TlsClient before(port);
  EXPECT_EQ(before.server_name(), "moonfence");
  const test::KeyPair pair = test::Authority("test CA").issue({.common_name = "renewed"});
  const auto renewed = TlsIdentity::from_pem(pair.certificate_pem, pair.key_pem);
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
