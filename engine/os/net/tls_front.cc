#include "os/net/tls_front.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/check.h"
#include "os/net/tls_relay.h"

namespace moonfence::os {
namespace {

using std::chrono::steady_clock;

// Where no descriptor is left, a connection stays in the queue, and poll() would tell of it at
// once.
constexpr Duration kPauseAfterFailure = std::chrono::milliseconds(200);
// In one turn; between turns others are served, and it is seen that all shall end.
constexpr int kAcceptedAtOnce = 16;

// The process's signals are the loop's, and a closed connection is an error and no signal.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all{};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

class TlsFront::Thread {
 public:
  Thread(Descriptor listener, std::shared_ptr<const TlsIdentity> identity, HandOver hand_over,
         Limits limits)
      : listener_(std::move(listener)),
        stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        identity_(std::move(identity)),
        hand_over_(std::move(hand_over)),
        limits_(limits) {
    MOONFENCE_CHECK(stop_.open());
    const SignalsBlocked blocked;  // inherited
    thread_ = std::thread([this] { run(); });
  }
  ~Thread() {
    (void)eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void use(std::shared_ptr<const TlsIdentity> identity) {
    const std::scoped_lock lock(mutex_);
    identity_.swap(identity);
  }

 private:
  void run() {
    while (wait()) {
      const auto now = steady_clock::now();
      for (auto each = relays_.begin(); each != relays_.end();) {
        TlsRelay& relay = **each;
        const bool goes_on =
            relay.advance(now, hand_over_) && now < relay.deadline(limits_, full());
        each = goes_on ? std::next(each) : relays_.erase(each);
      }
      accept_some(now);
    }
    relays_.clear();
  }

  [[nodiscard]] bool full() const { return relays_.size() >= limits_.connections; }

  // False: it is to end.
  bool wait() {
    std::vector<pollfd> polled = {{stop_.get(), POLLIN, 0}};
    const auto now = steady_clock::now();
    auto until = steady_clock::time_point::max();
    if (now < accepts_again_) {
      until = accepts_again_;
    } else if (!full()) {
      polled.push_back({listener_.get(), POLLIN, 0});
    }
    for (const auto& relay : relays_) {
      // poll() tells of an end also to whoever asked for nothing, at once and for ever.
      if (relay->client_events() != 0) {
        polled.push_back({relay->client(), relay->client_events(), 0});
      }
      if (relay->inner_events() != 0) {
        polled.push_back({relay->inner(), relay->inner_events(), 0});
      }
      until = relay->again() ? now : std::min(until, relay->deadline(limits_, full()));
    }
    int milliseconds = -1;
    if (until != steady_clock::time_point::max()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
      milliseconds = static_cast<int>(std::clamp<long long>(left, 0, 600'000));
    }
    (void)poll(polled.data(), polled.size(), milliseconds);
    return polled.front().revents == 0;
  }

  void accept_some(steady_clock::time_point now) {
    for (int i = 0; i < kAcceptedAtOnce && !full() && now >= accepts_again_; ++i) {
      Descriptor client(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!client.open()) {
        const bool nobody = errno == EAGAIN || errno == EWOULDBLOCK;
        if (!nobody && errno != ECONNABORTED && errno != EINTR) {
          accepts_again_ = now + kPauseAfterFailure;
        }
        return;
      }
      // The last piece of an answer would else wait until the client has acknowledged the others.
      const int at_once = 1;
      (void)setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
      // It may be ahead of the pace by a burst.
      paced_until_ = std::max(paced_until_, now) + limits_.pace;
      accepts_again_ = paced_until_ - limits_.pace * (limits_.burst - 1);
      auto relay = std::make_unique<TlsRelay>(std::move(client), *identity(), now);
      if (relay->advance(now, hand_over_)) {
        relays_.push_back(std::move(relay));
      }
    }
  }

  std::shared_ptr<const TlsIdentity> identity() {
    const std::scoped_lock lock(mutex_);
    return identity_;
  }

  const Descriptor listener_;
  const Descriptor stop_;
  std::mutex mutex_;
  std::shared_ptr<const TlsIdentity> identity_;
  const HandOver hand_over_;
  const Limits limits_;
  std::list<std::unique_ptr<TlsRelay>> relays_;
  steady_clock::time_point paced_until_{};
  steady_clock::time_point accepts_again_{};
  std::thread thread_;  // last: it uses all of the above
};

TlsFront::TlsFront(std::unique_ptr<Thread> thread) : thread_(std::move(thread)) {}
TlsFront::~TlsFront() = default;

Result<std::unique_ptr<TlsFront>> TlsFront::start(Descriptor listener,
                                                  std::shared_ptr<const TlsIdentity> identity,
                                                  HandOver hand_over, Limits limits) {
  try {
    return std::unique_ptr<TlsFront>(new TlsFront(std::make_unique<Thread>(
        std::move(listener), std::move(identity), std::move(hand_over), limits)));
  } catch (const std::system_error& error) {
    return failure(Error::Kind::Limit, std::string("no thread for TLS: ") + error.what());
  }
}

void TlsFront::use(std::shared_ptr<const TlsIdentity> identity) {
  thread_->use(std::move(identity));
}

}  // namespace moonfence::os
