#include "os/curl_poller.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include <curl/curl.h>

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

}  // namespace

CurlPoller::CurlPoller() {
  MOONFENCE_CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
  multi_ = curl_multi_init();
  MOONFENCE_CHECK(multi_ != nullptr);
  // The pool keeps the connections of a burst of writes beside those of the watches.
  constexpr long kPooledConnections = 128;
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kPooledConnections);
  curl_multi_setopt(multi_, CURLMOPT_PIPELINING, long{CURLPIPE_NOTHING});
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
  std::vector<curl_waitfd> descriptors;
  descriptors.reserve(watched_.size());
  for (const auto& [fd, watched] : watched_) {
    descriptors.push_back({.fd = fd, .events = CURL_WAIT_POLLIN, .revents = 0});
  }
  curl_multi_poll(multi_, descriptors.data(), static_cast<unsigned>(descriptors.size()),
                  whole_milliseconds(longest), nullptr);
  ready_.clear();
  for (const curl_waitfd& descriptor : descriptors) {
    if (descriptor.revents != 0) {
      ready_.push_back({descriptor.fd, watched_.at(descriptor.fd).serial});
    }
  }
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
    const std::function<void()> readable = found->second.readable;  // it may forget itself
    readable();
  }
}

void CurlPoller::watch(int fd, std::function<void()> readable) {
  watched_[fd] = {next_serial_++, std::move(readable)};
}

void CurlPoller::forget(int fd) {
  watched_.erase(fd);
}

}  // namespace moonfence::os
