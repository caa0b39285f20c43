// Names that are not, or not only, resolved to the address of a server.

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/net/curl_http.h"
#include "support/http_client.h"
#include "support/tls_server.h"

namespace {

constexpr const char* kTwoAddresses = "two-addresses.test";

using Lookup = int (*)(const char*, const char*, const addrinfo*, addrinfo**);

}  // namespace

// In front of the C library's, and so libcurl's too: one name has an address at which nobody is,
// and then one at which the tests' servers are.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  // dlsym() hands out every kind of symbol as one.
  static const auto lookup = reinterpret_cast<Lookup>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (name == nullptr || std::strcmp(name, kTwoAddresses) != 0) {
    return lookup(name, service, hints, found);
  }
  addrinfo* second = nullptr;
  if (const int failed = lookup("127.0.0.2", service, hints, found); failed != 0) {
    return failed;
  }
  if (const int failed = lookup("127.0.0.1", service, hints, &second); failed != 0) {
    freeaddrinfo(*found);
    return failed;
  }
  addrinfo* last = *found;
  while (last->ai_next != nullptr) {
    last = last->ai_next;
  }
  last->ai_next = second;
  return 0;
}

namespace moonfence::os {
namespace {

using namespace std::chrono_literals;
using test::Peer;
using test::RecordingSink;
using test::TestServer;
using testing::HasSubstr;

struct CurlHttpNamesTest : testing::Test, test::HttpClient {
  RecordingSink sink;
};

// libcurl 7.88 keeps the receive buffer of a handle whose name was not resolved, and then refuses
// every further CURLOPT_BUFFERSIZE.
TEST_F(CurlHttpNamesTest, a_name_that_is_not_resolved_spoils_nothing_for_the_next_request) {
  const std::string unresolved = "http://" + std::string(70, 'x') + ".invalid/";  // by no server
  for (int i = 0; i < 2; ++i) {
    RecordingSink failed;
    const auto transfer = http.start({.url = unresolved}, failed);
    ASSERT_TRUE(run_until_ended(failed));
    ASSERT_TRUE(failed.end->error);
    EXPECT_EQ(failed.end->error->kind, Error::Kind::Retryable);
    EXPECT_THAT(failed.end->error->text, HasSubstr("name not resolved"));
  }
  const TestServer server({}, [&](Peer& peer) {
    (void)peer.read_request();
    peer.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    peer.wait_closed();
  });
  {
    const auto transfer = http.start({.url = server.url("/")}, sink);
    ASSERT_TRUE(run_until_ended(sink));
  }
  EXPECT_FALSE(sink.end->error);
}

// Takes connections at 127.0.0.2 and accepts none: with its queue full the kernel does not answer.
class SilentAddress {
 public:
  explicit SilentAddress(int port) : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    // The socket interface takes every kind of address through one pointer type.
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, generic, sizeof address), 0);
    EXPECT_EQ(listen(listener_, 0), 0);
    for (int& waiting : queue_) {
      waiting = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      (void)connect(waiting, generic, sizeof address);
    }
  }
  SilentAddress(const SilentAddress&) = delete;
  SilentAddress& operator=(const SilentAddress&) = delete;
  ~SilentAddress() {
    for (const int waiting : queue_) {
      close(waiting);
    }
    close(listener_);
  }

 private:
  int listener_;
  std::array<int, 4> queue_{};
};

std::string by_name(const TestServer& server) {
  return "http://" + std::string(kTwoAddresses) + ":" + std::to_string(server.port()) + "/";
}

TEST_F(CurlHttpNamesTest, the_second_address_is_tried_when_the_first_refuses) {
  const TestServer server({}, test::answer_ok);
  ASSERT_TRUE(get(by_name(server), sink));
  EXPECT_FALSE(sink.end->error) << sink.error();
  EXPECT_EQ(sink.body, "ok");
}

// libcurl gives each address its share of the time, and 7.88 sets itself no timer for when the
// share of the first is over: run for its sockets and timers alone, it came to the second too late.
TEST(CurlHttpSilentAddressTest, the_second_address_is_tried_while_the_first_is_silent) {
  HttpLimits limits;
  limits.connect_timeout = 1s;
  test::HttpClient client(limits);
  RecordingSink sink;
  const TestServer server({}, test::answer_ok);
  const SilentAddress silent(server.port());
  const auto transfer = client.http.start({.url = by_name(server)}, sink);
  while (!sink.end) {
    client.loop.turn();
  }
  EXPECT_FALSE(sink.end->error) << sink.error();
  EXPECT_EQ(sink.body, "ok");
}

}  // namespace
}  // namespace moonfence::os
