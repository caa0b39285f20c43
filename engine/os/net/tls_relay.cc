#include "os/net/tls_relay.h"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

namespace moonfence::os {
namespace {

// So that one connection cannot keep the others waiting; what is left is done in the next turn.
constexpr int kSteps = 8;
// After the last word: closed with bytes unread, the kernel would take back what it has not sent.
constexpr Duration kLinger = std::chrono::seconds(2);

constexpr std::string_view kSpeakHttps =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
    "Content-Length: 51\r\nConnection: close\r\n\r\n"
    "this port speaks HTTPS: write https:// in the URL.\n";

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

TlsRelay::TlsRelay(Descriptor client, const TlsIdentity& identity, Time now)
    : client_(std::move(client)),
      ssl_(SSL_new(identity.context())),
      began_(now),
      now_(now),
      moved_(now) {
  if (ssl_ == nullptr || SSL_set_fd(ssl_, client_.get()) != 1) {
    phase_ = Phase::Over;
  }
}

TlsRelay::~TlsRelay() {
  SSL_free(ssl_);
}

TlsRelay::Time TlsRelay::deadline(const TlsFront::Limits& limits, bool full) const {
  switch (phase_) {
    case Phase::Handshake:
      return began_ + (full ? std::min(limits.handshake, limits.idle_when_full) : limits.handshake);
    case Phase::Relaying:
      // Who waits for an answer is not idle, but whoever never ends a request is no better.
      if (owed_) {
        return moved_ + limits.answer;
      }
      return moved_ + (full ? limits.idle_when_full : limits.idle);
    case Phase::Lingering:
      return moved_ + kLinger;
    case Phase::Over:
      return began_;
  }
  return began_;
}

bool TlsRelay::advance(Time now, const TlsFront::HandOver& hand_over) {
  now_ = now;
  for (int step = 0; step < kSteps; ++step) {
    client_events_ = 0;
    inner_events_ = 0;
    bool moved = false;
    switch (phase_) {
      case Phase::Handshake:
        moved = shake_hands(hand_over);
        break;
      case Phase::Relaying:
        moved = relay();
        break;
      case Phase::Lingering:
        moved = linger();
        break;
      case Phase::Over:
        return false;
    }
    again_ = moved;
    if (!moved) {
      break;
    }
  }
  return phase_ != Phase::Over;
}

// Asks for what OpenSSL waits for; ends where it waits for nothing.
void TlsRelay::wait_for_client(int result) {
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ:
      client_events_ |= POLLIN;
      return;
    case SSL_ERROR_WANT_WRITE:
      client_events_ |= POLLOUT;
      return;
    case SSL_ERROR_ZERO_RETURN:
      client_ended_ = true;
      return;
    default:
      phase_ = Phase::Over;
  }
}

bool TlsRelay::shake_hands(const TlsFront::HandOver& hand_over) {
  ERR_clear_error();
  const int result = SSL_accept(ssl_);
  if (result != 1) {
    const bool is_http = ERR_GET_REASON(ERR_peek_error()) == SSL_R_HTTP_REQUEST;
    wait_for_client(result);
    if (is_http) {
      refuse_plain_http();
    }
    return is_http;
  }
  std::array<int, 2> ends = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    phase_ = Phase::Over;
    return false;
  }
  inner_ = Descriptor(ends[0]);
  moved_ = now_;
  phase_ = hand_over(Descriptor(ends[1])) ? Phase::Relaying : Phase::Over;
  return true;
}

void TlsRelay::refuse_plain_http() {
  (void)send(client_.get(), kSpeakHttps.data(), kSpeakHttps.size(), MSG_NOSIGNAL);
  begin_lingering();
}

void TlsRelay::begin_lingering() {
  phase_ = Phase::Lingering;
  moved_ = now_;  // and not again: the client must not keep it by sending more
  (void)::shutdown(client_.get(), SHUT_WR);
}

bool TlsRelay::linger() {
  const ssize_t count = recv(client_.get(), to_inner_.bytes.data(), to_inner_.bytes.size(), 0);
  if (count > 0) {
    return true;
  }
  if (count == 0 || !would_block()) {
    phase_ = Phase::Over;
    return false;
  }
  client_events_ = POLLIN;
  return false;
}

bool TlsRelay::relay() {
  // All four, each step.
  const bool in = read_client();
  const bool onward = write_inner();
  const bool back = phase_ == Phase::Relaying && read_inner();
  const bool out = phase_ == Phase::Relaying && write_client();
  if (phase_ == Phase::Relaying && inner_ended_ && to_client_.empty()) {
    ERR_clear_error();
    (void)SSL_shutdown(ssl_);
    begin_lingering();
    return true;
  }
  return in || onward || back || out;
}

bool TlsRelay::read_client() {
  if (client_ended_ || !to_inner_.empty()) {
    return false;
  }
  ERR_clear_error();
  const int count =
      SSL_read(ssl_, to_inner_.bytes.data(), static_cast<int>(to_inner_.bytes.size()));
  if (count <= 0) {
    wait_for_client(count);
    return false;
  }
  to_inner_.fill(static_cast<std::size_t>(count));
  return true;
}

bool TlsRelay::write_inner() {
  if (to_inner_.empty()) {
    if (client_ended_ && !inner_shut_) {
      inner_shut_ = true;
      (void)::shutdown(inner_.get(), SHUT_WR);
    }
    return false;
  }
  const ssize_t count =
      send(inner_.get(), to_inner_.bytes.data() + to_inner_.begin, to_inner_.size(), MSG_NOSIGNAL);
  if (count < 0 && would_block()) {
    inner_events_ |= POLLOUT;
    return false;
  }
  if (count < 0) {  // the server reads no more: it may have answered
    to_inner_.fill(0);
    client_ended_ = inner_shut_ = true;
    return false;
  }
  to_inner_.begin += static_cast<std::size_t>(count);
  if (!owed_) {
    owed_ = true;
    moved_ = now_;
  }
  return true;
}

bool TlsRelay::read_inner() {
  if (inner_ended_ || !to_client_.empty()) {
    return false;
  }
  const ssize_t count = recv(inner_.get(), to_client_.bytes.data(), to_client_.bytes.size(), 0);
  if (count < 0 && would_block()) {
    inner_events_ |= POLLIN;
    return false;
  }
  if (count <= 0) {
    inner_ended_ = true;
    return true;
  }
  to_client_.fill(static_cast<std::size_t>(count));
  owed_ = false;
  moved_ = now_;
  return true;
}

bool TlsRelay::write_client() {
  if (to_client_.empty()) {
    return false;
  }
  ERR_clear_error();
  const int count = SSL_write(ssl_, to_client_.bytes.data() + to_client_.begin,
                              static_cast<int>(to_client_.size()));
  if (count <= 0) {
    wait_for_client(count);
    return false;
  }
  to_client_.begin += static_cast<std::size_t>(count);
  moved_ = now_;
  return true;
}

}  // namespace moonfence::os
