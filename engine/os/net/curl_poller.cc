#include "os/net/curl_poller.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <utility>

#include <curl/curl.h>
#include <sys/epoll.h>

#include "base/check.h"

namespace moonfence::os {
namespace {

// A turn without a timer still ends now and then; nothing depends on it.
constexpr Duration kLongestWait = std::chrono::minutes(10);

// Rounded up: waking before a timer is due would mean a turn that does nothing but wait again.
int whole_milliseconds(Duration duration) {
  const Duration bounded = std::clamp(duration, Duration::zero(), kLongestWait);
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(bounded).count());
}

// What epoll hands back: the descriptor, and which of those that had its number; 0: libcurl's.
constexpr unsigned kSerialBits = 32;

void poll_for(int epoll, int fd, std::uint32_t events, std::uint32_t serial) {
  epoll_event wanted{};
  wanted.events = events;
  wanted.data.u64 = (std::uint64_t{serial} << kSerialBits) | static_cast<std::uint32_t>(fd);
  // Of a descriptor that was closed since epoll knows nothing any more.
  if (epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &wanted) != 0) {
    MOONFENCE_CHECK(errno == ENOENT && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &wanted) == 0);
  }
}

void poll_no_more(int epoll, int fd) {
  epoll_ctl(epoll, EPOLL_CTL_DEL, fd, nullptr);  // closed already, it is not in there
}

// 0: libcurl shall look itself. Told of an error it would end the transfer without saying which.
int how_ready(std::uint32_t events) {
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
    return 0;
  }
  return ((events & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0) |
         ((events & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0);
}

}  // namespace

struct CurlPoller::FromCurl {
  static int watch(CURL* /*easy*/, curl_socket_t fd, int what, void* client, void* /*socket*/) {
    const int epoll = static_cast<CurlPoller*>(client)->epoll_.get();
    const std::uint32_t events =
        ((what & CURL_POLL_IN) != 0 ? EPOLLIN : 0U) | ((what & CURL_POLL_OUT) != 0 ? EPOLLOUT : 0U);
    if (events != 0) {
      poll_for(epoll, fd, events, 0);
    } else {
      poll_no_more(epoll, fd);  // epoll would still tell of its end, each time anew
    }
    return 0;
  }

  static int set_timer(CURLM* /*multi*/, long milliseconds, void* client) {
    auto& poller = *static_cast<CurlPoller*>(client);
    poller.due_.reset();
    if (milliseconds >= 0) {
      poller.due_ = poller.now() + std::chrono::milliseconds(milliseconds);
    }
    return 0;
  }
};

CurlPoller::CurlPoller() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  MOONFENCE_CHECK(epoll_.open());
  MOONFENCE_CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
  multi_ = curl_multi_init();
  MOONFENCE_CHECK(multi_ != nullptr);
  // The pool keeps the connections of a burst of writes beside those of the watches.
  constexpr long kPooledConnections = 256;
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kPooledConnections);
  curl_multi_setopt(multi_, CURLMOPT_PIPELINING, long{CURLPIPE_NOTHING});
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, FromCurl::watch);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, FromCurl::set_timer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
}

CurlPoller::~CurlPoller() {
  curl_multi_cleanup(multi_);
  curl_global_cleanup();
}

Moment CurlPoller::now() {
  timespec time{};
  MOONFENCE_CHECK(clock_gettime(CLOCK_BOOTTIME, &time) == 0);
  return Moment(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

void CurlPoller::wait(std::optional<Duration> limit) {
  Duration longest = std::min(limit.value_or(kLongestWait), kLongestWait);
  if (client_ != nullptr) {
    longest = std::min(longest, client_->before_wait().value_or(kLongestWait));
  }
  if (due_) {
    longest = std::min(longest, *due_ - now());
  }
  constexpr int kMost = 128;  // what is left is found by the next wait
  std::array<epoll_event, kMost> events{};
  const int found = epoll_wait(epoll_.get(), events.data(), kMost, whole_milliseconds(longest));
  ready_.clear();
  ready_sockets_.clear();
  for (int i = 0; i < found; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const auto fd = static_cast<int>(event.data.u64 & 0xffffffffU);
    const auto serial = static_cast<std::uint32_t>(event.data.u64 >> kSerialBits);
    if (serial == 0) {
      ready_sockets_.push_back({fd, how_ready(event.events)});
    } else {
      ready_.push_back({fd, serial});
    }
  }
}

void CurlPoller::drive() {
  int running = 0;
  for (const ReadySocket& socket : std::exchange(ready_sockets_, {})) {
    curl_multi_socket_action(multi_, socket.fd, socket.how, &running);
  }
  if (due_ && *due_ <= now()) {
    drive_due();
  }
}

void CurlPoller::drive_due() {
  due_.reset();  // libcurl sets it again, but is silent where it has nothing to wait for
  int running = 0;
  curl_multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running);
}

void CurlPoller::perform() {
  if (client_ != nullptr) {
    client_->deliver();
  }
  for (const Ready& ready : std::exchange(ready_, {})) {
    const auto found = watched_.find(ready.fd);
    // Forgotten in this turn, perhaps with the same number watched anew for something else.
    if (found == watched_.end() || found->second.serial != ready.serial) {
      continue;
    }
    const std::function<void()> call = found->second.ready;  // it may forget itself
    call();
  }
}

void CurlPoller::drive_all() {
  ready_sockets_.clear();
  int running = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // there is nothing else that does it
  curl_multi_socket_all(multi_, &running);
#pragma GCC diagnostic pop
}

void CurlPoller::watch(int fd, std::function<void()> ready, Wait wait) {
  const std::uint32_t serial = next_serial_++;
  poll_for(epoll_.get(), fd, wait == Wait::Input ? EPOLLIN : EPOLLOUT, serial);
  watched_[fd] = {serial, std::move(ready)};
}

void CurlPoller::forget(int fd) {
  if (watched_.erase(fd) > 0) {
    poll_no_more(epoll_.get(), fd);
  }
}

}  // namespace moonfence::os
