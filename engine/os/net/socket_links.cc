#include "os/net/socket_links.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "os/system/descriptor.h"

namespace moonfence::os {
namespace {

using port::LinkEnd;

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&bytes);  // NOLINT: what the call wants
  }
};

std::optional<Address> address_of(const port::Peer& peer) {
  Address address;
  sockaddr_in four{};
  if (inet_pton(AF_INET, peer.address.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(peer.port);
    address.size = sizeof four;
    *reinterpret_cast<sockaddr_in*>(&address.bytes) = four;  // NOLINT
    return address;
  }
  sockaddr_in6 six{};
  if (inet_pton(AF_INET6, peer.address.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(peer.port);
    address.size = sizeof six;
    *reinterpret_cast<sockaddr_in6*>(&address.bytes) = six;  // NOLINT
    return address;
  }
  return std::nullopt;
}

bool set(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

// When we close one it goes at once, with an RST. Closed in the usual way it would stay in
// TIME_WAIT for a minute: 500 machines that are asked ten times a second would leave 300,000 there,
// more than the kernel keeps for all programs together.
bool prepare(int fd) {
  using std::chrono::duration_cast;
  constexpr int kQuestions = 2;
  const auto idle = static_cast<int>(duration_cast<std::chrono::seconds>(port::kLinkIdle).count());
  const auto patience =
      static_cast<int>(duration_cast<std::chrono::milliseconds>(port::kLinkPatience).count());
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  return set(fd, SOL_SOCKET, SO_KEEPALIVE, 1) && set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle) &&
         set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1) && set(fd, IPPROTO_TCP, TCP_KEEPCNT, kQuestions) &&
         set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, patience) &&
         setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0;
}

bool is_silence(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH || error == EHOSTDOWN;
}

int error_of(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

// More than 0: yes; 0: not yet; less: we cannot tell.
int is_decided(int fd) {
  pollfd one = {.fd = fd, .events = POLLOUT, .revents = 0};
  return poll(&one, 1, 0);
}

}  // namespace

class SocketLinks::Socket final : public port::Link {
 public:
  Socket(loop::Loop& loop, Descriptors& descriptors, port::LinkSink& sink)
      : loop_(loop), descriptors_(descriptors), sink_(sink) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() override { close(); }

  void begin(const port::Peer& peer, Duration limit) {
    const auto address = address_of(peer);
    if (!address) {
      end_later(LinkEnd::NotSent);
      return;
    }
    fd_ =
        Descriptor(socket(address->bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd_.open() || !prepare(fd_.get())) {
      end_later(LinkEnd::NotSent);
      return;
    }
    if (connect(fd_.get(), address->get(), address->size) != 0 && errno != EINPROGRESS) {
      end_later(errno == ECONNREFUSED ? LinkEnd::Refused : LinkEnd::NotSent);
      return;
    }
    watch([this] { decided(); }, Descriptors::Wait::Output);
    // From now, not from the beginning of this turn: a long one is no fault of the peer.
    timer_ = loop_.after(limit + (loop_.live_now() - loop_.now()), [this] { limit_passed(); });
  }

 private:
  void watch(std::function<void()> ready, Descriptors::Wait wait) {
    descriptors_.watch(fd_.get(), std::move(ready), wait);
    watched_ = true;
  }

  void close() {
    if (watched_) {
      descriptors_.forget(fd_.get());
      watched_ = false;
    }
    fd_ = Descriptor();
  }

  void end_later(LinkEnd how) {
    timer_ = loop_.in_next_turn([this, how] { end(how); });
  }

  // The last that is heard of it; may destroy this.
  void end(LinkEnd how) {
    timer_.cancel();
    close();
    sink_.on_end(how);
  }

  // We may be late, and the answer may have come in time.
  void limit_passed() {
    const int decision = is_decided(fd_.get());
    if (decision > 0) {
      decided();
    } else {
      end(decision == 0 ? LinkEnd::Silent : LinkEnd::NotSent);
    }
  }

  void decided() {
    timer_.cancel();
    const int error = error_of(fd_.get());
    if (error == 0) {
      watch([this] { readable(); }, Descriptors::Wait::Input);
      sink_.on_open();
    } else if (error == ECONNREFUSED || error == ECONNRESET) {
      end(LinkEnd::Refused);
    } else {
      end(is_silence(error) ? LinkEnd::Silent : LinkEnd::NotSent);
    }
  }

  // Whoever sends lives; what does not interest us.
  void readable() {
    std::array<char, 4096> bytes{};
    const ssize_t got = recv(fd_.get(), bytes.data(), bytes.size(), 0);
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) {
      return;
    }
    if (got == 0 || errno == ECONNRESET || errno == EPIPE) {
      end(LinkEnd::Closed);
    } else {
      end(is_silence(errno) ? LinkEnd::Silent : LinkEnd::NotSent);
    }
  }

  loop::Loop& loop_;
  Descriptors& descriptors_;
  port::LinkSink& sink_;
  Descriptor fd_;
  bool watched_ = false;
  loop::Timer timer_;
};

std::unique_ptr<port::Link> SocketLinks::open(const port::Peer& peer, Duration limit,
                                              port::LinkSink& sink) {
  auto socket = std::make_unique<Socket>(loop_, descriptors_, sink);
  socket->begin(peer, limit);
  return socket;
}

}  // namespace moonfence::os
