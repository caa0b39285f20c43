#include "os/net/socket_links.h"

#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "loop/loop.h"
#include "os/net/curl_poller.h"
#include "os/system/descriptor.h"

namespace moonfence::os {
namespace {

using namespace std::chrono_literals;
using port::LinkEnd;

struct Sink final : port::LinkSink {
  void on_open() override {
    EXPECT_FALSE(opened || ended);
    opened = true;
    if (then) {
      then();
    }
  }
  void on_end(LinkEnd how) override {
    EXPECT_FALSE(ended);
    ended = how;
    if (then) {
      then();
    }
  }
  [[nodiscard]] bool heard() const { return opened || ended; }

  bool opened = false;
  std::optional<LinkEnd> ended;
  std::function<void()> then;
};

// Whether the kernel has something to tell of it; waits for it.
bool is_ready(int fd, short events) {
  pollfd one = {.fd = fd, .events = events, .revents = 0};
  constexpr int kLongest = 20'000;
  return poll(&one, 1, kLongest) == 1;
}

// From now on it gets no packet, and so answers none: a machine that has lost its power.
void deafen(int fd) {
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program = {.len = 1, .filter = &drop};
  EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
}

void reset(Descriptor socket) {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  EXPECT_EQ(setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
}

// A port of this machine. With `backlog` 0 it has room for one that nobody takes, and as it is full
// the kernel answers no more.
struct Listener {
  Descriptor fd;
  port::Peer peer;
  bool there = false;  // a machine may be without IPv6

  explicit Listener(int backlog = 8, int family = AF_INET)
      : fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        peer({.address = family == AF_INET ? "127.0.0.1" : "::1", .port = 1}) {
    sockaddr_in6 address{};  // the larger one; both have their port in the same place
    address.sin6_family = static_cast<sa_family_t>(family);
    address.sin6_addr = in6addr_loopback;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (family == AF_INET) {
      reinterpret_cast<sockaddr_in*>(&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      size = sizeof(sockaddr_in);
    }
    there = bind(fd.get(), plain, size) == 0 && listen(fd.get(), backlog) == 0 &&
            getsockname(fd.get(), plain, &size) == 0;
    if (there) {
      peer.port = ntohs(address.sin6_port);
    }
  }
  // Waits; once it is here, the other end is open.
  [[nodiscard]] Descriptor accept() const {
    EXPECT_TRUE(is_ready(fd.get(), POLLIN));
    return Descriptor(::accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  void accept_and_close() const { const Descriptor at_once = accept(); }
};

port::Peer nobody() {
  return Listener().peer;  // gone already
}

// Until it is destroyed this process gets no descriptor, and poll(2) fails.
struct NoDescriptors {
  NoDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0); }
  rlimit before{};
};

struct SocketLinksTest : testing::Test {
  CurlPoller poller;
  loop::Loop loop{poller};
  SocketLinks links{loop, poller};

  [[nodiscard]] bool turn_until(const std::function<bool()>& done) {
    bool late = false;
    const loop::Timer limit = loop.after(20s, [&late] { late = true; });
    while (!done() && !late) {
      loop.turn();
    }
    return done();
  }
  [[nodiscard]] std::optional<LinkEnd> end_of(const port::Peer& peer, Duration limit = 10s) {
    Sink sink;
    const auto link = links.open(peer, limit, sink);
    EXPECT_FALSE(sink.heard()) << "told inside open()";
    EXPECT_TRUE(turn_until([&] { return sink.heard(); }));
    EXPECT_FALSE(sink.opened);
    return sink.ended;
  }
  std::unique_ptr<port::Link> opened(const port::Peer& peer, Sink& sink) {
    auto link = links.open(peer, 10s, sink);
    EXPECT_FALSE(sink.heard()) << "told inside open()";
    EXPECT_TRUE(turn_until([&] { return sink.heard(); }));
    EXPECT_TRUE(sink.opened);
    EXPECT_FALSE(sink.ended);
    return link;
  }
};

TEST_F(SocketLinksTest, it_opens_and_hears_of_the_end) {
  const Listener listener;
  ASSERT_TRUE(listener.there);
  Sink sink;
  const auto link = opened(listener.peer, sink);
  listener.accept_and_close();
  ASSERT_TRUE(turn_until([&] { return sink.ended.has_value(); }));
  EXPECT_EQ(sink.ended, LinkEnd::Closed);
}

// On a machine without IPv6 nothing can be sent there; that is no word about the peer.
TEST_F(SocketLinksTest, it_opens_over_ipv6_where_there_is_one) {
  const Listener listener(8, AF_INET6);
  if (!listener.there) {
    EXPECT_EQ(end_of(listener.peer), LinkEnd::NotSent);
    return;
  }
  Sink sink;
  const auto link = opened(listener.peer, sink);
  listener.accept_and_close();
  ASSERT_TRUE(turn_until([&] { return sink.ended.has_value(); }));
  EXPECT_EQ(sink.ended, LinkEnd::Closed);
}

TEST_F(SocketLinksTest, a_reset_is_an_end_like_any_other) {
  const Listener listener;
  Sink sink;
  const auto link = opened(listener.peer, sink);
  reset(listener.accept());
  ASSERT_TRUE(turn_until([&] { return sink.ended.has_value(); }));
  EXPECT_EQ(sink.ended, LinkEnd::Closed);
}

TEST_F(SocketLinksTest, where_nobody_listens_the_kernel_refuses) {
  EXPECT_EQ(end_of(nobody()), LinkEnd::Refused);
}

TEST_F(SocketLinksTest, no_answer_within_the_limit_is_silence) {
  const Listener full(0);
  Sink first;
  const auto taken = opened(full.peer, first);
  EXPECT_EQ(end_of(full.peer, 100ms), LinkEnd::Silent);
}

// Both at once: the kernel takes its time.
TEST_F(SocketLinksTest, the_kernel_finds_out_that_a_peer_has_fallen_silent) {
  const Listener listener;
  Sink open_one;
  const auto idle = opened(listener.peer, open_one);
  const Descriptor accepted = listener.accept();
  deafen(accepted.get());
  deafen(listener.fd.get());
  Sink opening;
  const auto attempt = links.open(listener.peer, 1h, opening);
  ASSERT_TRUE(turn_until([&] { return open_one.ended && opening.ended; }));
  EXPECT_EQ(open_one.ended, LinkEnd::Silent);
  EXPECT_EQ(opening.ended, LinkEnd::Silent);
  EXPECT_FALSE(opening.opened);
}

TEST_F(SocketLinksTest, what_is_no_address_is_not_sent) {
  for (const char* text :
       {"", "localhost", "127.0.0.1:10250", "[::1]", "10.0.0.256", "127.1", "fe80::1%lo"}) {
    EXPECT_EQ(end_of({.address = text, .port = 1}), LinkEnd::NotSent) << text;
  }
}

TEST_F(SocketLinksTest, where_the_kernel_does_not_connect_to_nothing_is_sent) {
  EXPECT_EQ(end_of({.address = "255.255.255.255", .port = 1}), LinkEnd::NotSent);
}

TEST_F(SocketLinksTest, without_a_descriptor_nothing_is_sent) {
  const Listener listener;
  // Once before: the sanitizer wants a pipe of its own when it meets a class for the first time.
  Sink before;
  auto link = opened(listener.peer, before);
  Sink sink;
  const auto open = [&links = links, &listener, &sink] {
    return links.open(listener.peer, 10s, sink);
  };
  {
    const NoDescriptors none;
    link = open();
  }
  EXPECT_FALSE(sink.heard());
  ASSERT_TRUE(turn_until([&] { return sink.heard(); }));
  EXPECT_EQ(sink.ended, LinkEnd::NotSent);
  EXPECT_FALSE(sink.opened);
}

// So it does not stay in TIME_WAIT either.
TEST_F(SocketLinksTest, what_we_close_is_reset) {
  const Listener listener;
  Sink sink;
  auto link = opened(listener.peer, sink);
  const Descriptor accepted = listener.accept();
  link.reset();
  ASSERT_TRUE(is_ready(accepted.get(), POLLIN));
  char byte = 0;
  EXPECT_EQ(recv(accepted.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
}

TEST_F(SocketLinksTest, who_gives_a_link_up_hears_no_more) {
  const Listener listener;
  const Listener deaf;
  deafen(deaf.fd.get());
  std::array<Sink, 5> sinks;
  auto not_sent = links.open({.address = "none", .port = 1}, 1ms, sinks[0]);
  auto refused = links.open(nobody(), 1ms, sinks[1]);
  auto silent = links.open(deaf.peer, 1ms, sinks[2]);
  auto connected = links.open(listener.peer, 1ms, sinks[3]);
  const Descriptor accepted = listener.accept();
  for (auto* link : {&not_sent, &refused, &silent, &connected}) {
    link->reset();
  }
  EXPECT_EQ(loop.timers(), 0U);
  // Another one gets the number of a descriptor that was watched.
  const auto next = opened(listener.peer, sinks[4]);
  bool passed = false;
  const loop::Timer timer = loop.after(10ms, [&passed] { passed = true; });
  ASSERT_TRUE(turn_until([&] { return passed; }));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_FALSE(sinks[i].heard()) << i;
  }
}

TEST_F(SocketLinksTest, a_link_may_be_given_up_as_it_opens_with_another_that_has_opened_too) {
  const Listener listener;
  Sink first;
  Sink second;
  auto one = links.open(listener.peer, 10s, first);
  auto other = links.open(listener.peer, 10s, second);
  first.then = [&] {
    one.reset();
    other.reset();
  };
  second.then = first.then;
  const Descriptor accepted = listener.accept();
  const Descriptor accepted_too = listener.accept();
  ASSERT_TRUE(turn_until([&] { return first.heard() || second.heard(); }));
  const loop::Timer timer = loop.after(1ms, [] {});
  loop.turn();
  EXPECT_NE(first.opened, second.opened) << "one of them was given up before it heard";
  EXPECT_FALSE(first.ended || second.ended);
}

TEST_F(SocketLinksTest, a_link_may_be_given_up_as_it_ends_with_another_that_has_ended_too) {
  const Listener listener;
  const auto closed_and_given_up = [&] {
    Sink first;
    Sink second;
    auto one = opened(listener.peer, first);
    auto other = opened(listener.peer, second);
    first.then = [&] {
      one.reset();
      other.reset();
    };
    second.then = first.then;
    listener.accept_and_close();
    listener.accept_and_close();
    ASSERT_TRUE(turn_until([&] { return first.ended || second.ended; }));
    const loop::Timer timer = loop.after(1ms, [] {});
    loop.turn();
    EXPECT_NE(first.ended.has_value(), second.ended.has_value());
  };
  closed_and_given_up();
  // The same of one that was never sent, and of one that nobody answers.
  const Listener deaf;
  deafen(deaf.fd.get());
  for (const port::Peer& peer : {port::Peer{.address = "none", .port = 1}, deaf.peer}) {
    Sink sink;
    auto link = links.open(peer, 1ms, sink);
    sink.then = [&] { link.reset(); };
    ASSERT_TRUE(turn_until([&] { return sink.ended.has_value(); }));
  }
}

// Its time is not real, and it tells of a descriptor only when the test wants it: so a loop is late
// for as long as it takes the kernel to have the answer.
struct ByHand final : loop::Poller, Descriptors {
  Moment now() override { return time; }
  void wait(std::optional<Duration> limit) override { time += limit.value_or(Duration::zero()); }
  void perform() override {}
  using Descriptors::watch;
  void watch(int number, std::function<void()> call, Wait wait) override {
    fd = number;
    ready = std::move(call);
    waits_for = wait;
  }
  void forget(int number) override {
    EXPECT_EQ(number, fd);
    fd = -1;
    ready = nullptr;
  }

  Moment time = Moment(1h);
  int fd = -1;
  std::function<void()> ready;
  Wait waits_for = Wait::Input;
};

struct SocketLinksByHandTest : testing::Test {
  ByHand world;
  loop::Loop loop{world};
  SocketLinks links{loop, world};
  Sink sink;

  // The next turn is that of the limit.
  std::unique_ptr<port::Link> begin(const port::Peer& peer) {
    auto link = links.open(peer, 1s, sink);
    EXPECT_EQ(world.waits_for, Descriptors::Wait::Output);
    EXPECT_EQ(loop.next_due(), world.time + 1s);
    return link;
  }
};

TEST_F(SocketLinksByHandTest, an_answer_that_came_in_time_counts_however_late_we_look) {
  const Listener listener;
  const auto link = begin(listener.peer);
  ASSERT_TRUE(is_ready(world.fd, POLLOUT));
  world.time += 1min;
  loop.turn();
  EXPECT_TRUE(sink.opened);
  EXPECT_FALSE(sink.ended);
  EXPECT_EQ(loop.timers(), 0U);
  EXPECT_EQ(world.waits_for, Descriptors::Wait::Input);
}

TEST_F(SocketLinksByHandTest, a_refusal_that_came_in_time_counts_however_late_we_look) {
  const auto link = begin(nobody());
  ASSERT_TRUE(is_ready(world.fd, POLLOUT));
  world.time += 1min;
  loop.turn();
  EXPECT_EQ(sink.ended, LinkEnd::Refused);
}

TEST_F(SocketLinksByHandTest, who_opens_and_resets_before_we_look_has_refused) {
  const Listener listener;
  const auto link = begin(listener.peer);
  reset(listener.accept());
  ASSERT_TRUE(is_ready(world.fd, 0)) << "an error needs no event";
  loop.turn();
  EXPECT_EQ(sink.ended, LinkEnd::Refused);
  EXPECT_FALSE(sink.opened);
}

TEST_F(SocketLinksByHandTest, nothing_at_the_last_look_is_silence) {
  const Listener deaf;
  deafen(deaf.fd.get());
  const auto link = begin(deaf.peer);
  loop.turn();
  EXPECT_EQ(sink.ended, LinkEnd::Silent);
  EXPECT_EQ(world.fd, -1) << "forgotten";
}

TEST_F(SocketLinksByHandTest, a_last_look_that_fails_accuses_nobody) {
  const Listener deaf;
  deafen(deaf.fd.get());
  // Once before, for the sanitizer's sake.
  Sink before;
  auto link = links.open(deaf.peer, 1s, before);
  loop.turn();
  ASSERT_EQ(before.ended, LinkEnd::Silent);
  link = begin(deaf.peer);
  const auto turn = [&loop = loop] { loop.turn(); };
  {
    const NoDescriptors none;
    turn();
  }
  EXPECT_EQ(sink.ended, LinkEnd::NotSent);
}

// A limit from its beginning would be over before the question has reached the peer.
TEST_F(SocketLinksByHandTest, the_limit_is_not_shorter_in_a_long_turn) {
  const Listener deaf;
  deafen(deaf.fd.get());
  std::unique_ptr<port::Link> link;
  const loop::Timer work = loop.after(0s, [&] {
    world.time += 5s;
    link = begin(deaf.peer);
  });
  loop.turn();
  ASSERT_TRUE(link);
  EXPECT_FALSE(sink.heard());
}

TEST_F(SocketLinksByHandTest, what_a_peer_sends_is_thrown_away_a_little_a_turn) {
  const Listener listener;
  const auto link = begin(listener.peer);
  Descriptor accepted = listener.accept();
  world.ready();
  ASSERT_TRUE(sink.opened);
  world.ready();
  EXPECT_FALSE(sink.ended) << "nothing is there, and that is no end";
  constexpr int kSent = 10'000;
  const std::string bytes(kSent, 'x');
  ASSERT_EQ(send(accepted.get(), bytes.data(), bytes.size(), 0), kSent);
  int left = 0;
  while (left < kSent) {
    ASSERT_TRUE(is_ready(world.fd, POLLIN));
    ASSERT_EQ(ioctl(world.fd, FIONREAD, &left), 0);
  }
  for (const int after : {kSent - 4096, kSent - 2 * 4096, 0, 0}) {
    world.ready();
    EXPECT_FALSE(sink.ended);
    ASSERT_EQ(ioctl(world.fd, FIONREAD, &left), 0);
    EXPECT_EQ(left, after);
  }
  accepted = Descriptor();
  ASSERT_TRUE(is_ready(world.fd, POLLIN));
  const std::function<void()> last = world.ready;  // it forgets itself
  last();
  EXPECT_EQ(sink.ended, LinkEnd::Closed);
}

}  // namespace
}  // namespace moonfence::os
