#pragma once

// A server on 127.0.0.1 that does exactly what a test tells it to, down to the reset of a
// connection. One thread accepts, one serves each connection; the destructor joins them all.

#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "support/certificates.h"

namespace moonfence::test {

// Lets a server thread wait for the test, and the other way round.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [this] { return open_; });
  }
  [[nodiscard]] bool is_open() {
    const std::lock_guard lock(mutex_);
    return open_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

struct SslFree {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

// One accepted connection, in its own thread.
class Peer {
 public:
  Peer(int fd, int number) : fd_(fd), number_(number) {}
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() { close(); }

  bool handshake(SSL_CTX* context) {
    ssl_.reset(SSL_new(context));
    SSL_set_fd(ssl_.get(), fd_);
    if (SSL_accept(ssl_.get()) != 1) {
      ERR_clear_error();
      hang_up_politely();
      return false;
    }
    return true;
  }

  // A TLS 1.3 client has sent its request before it hears that its certificate was refused. Closed
  // with that unread, the connection ends with a reset that can overtake the alert.
  void hang_up_politely() {
    shutdown(fd_, SHUT_WR);
    const timeval limit{.tv_sec = 2, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    std::array<char, 4096> unread{};
    while (recv(fd_, unread.data(), unread.size(), 0) > 0) {
    }
  }

  // Head and body (by Content-Length); nullopt when the client went away.
  std::optional<std::string> read_request() {
    while (true) {
      const auto head_end = pending_.find("\r\n\r\n");
      if (head_end != std::string::npos) {
        const std::size_t size = head_end + 4 + body_size(pending_.substr(0, head_end));
        if (pending_.size() >= size) {
          std::string request = pending_.substr(0, size);
          pending_.erase(0, size);
          return request;
        }
      }
      if (!read_some()) {
        return std::nullopt;
      }
    }
  }

  bool write(std::string_view bytes) {
    if (ssl_ != nullptr) {
      const bool ok = SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
      ERR_clear_error();
      return ok;
    }
    while (!bytes.empty()) {
      const ssize_t count = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) {
        return false;
      }
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }
  bool answer(std::string_view body, std::string_view status = "200 OK") {
    return write("HTTP/1.1 " + std::string(status) + "\r\nContent-Length: " +
                 std::to_string(body.size()) + "\r\n\r\n" + std::string(body));
  }

  void wait_closed() {
    while (read_some()) {
    }
  }
  // RST instead of FIN.
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    if (fd_ >= 0) {
      ::close(fd_);
      fd_ = -1;
    }
  }
  // From another thread: wakes whatever this one waits for.
  void interrupt() {
    const std::lock_guard lock(mutex_);
    if (fd_ >= 0) {
      shutdown(fd_, SHUT_RDWR);
    }
  }

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] std::string server_name() const {
    const char* name = SSL_get_servername(ssl_.get(), TLSEXT_NAMETYPE_host_name);
    return name == nullptr ? "" : name;
  }
  [[nodiscard]] std::string client_name() const {
    X509* certificate = SSL_get1_peer_certificate(ssl_.get());
    if (certificate == nullptr) {
      return "";
    }
    std::string name(256, '\0');
    const int size = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                               name.data(), static_cast<int>(name.size()));
    X509_free(certificate);
    name.resize(static_cast<std::size_t>(std::max(size, 0)));
    return name;
  }

 private:
  static std::size_t body_size(const std::string& head) {
    constexpr std::string_view kName = "Content-Length: ";
    const auto at = head.find(kName);
    return at == std::string::npos ? 0 : std::stoul(head.substr(at + kName.size()));
  }

  bool read_some() {
    std::string bytes(16384, '\0');
    ssize_t count = 0;
    if (ssl_ != nullptr) {
      count = SSL_read(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
      ERR_clear_error();
    } else {
      count = recv(fd_, bytes.data(), bytes.size(), 0);
    }
    if (count <= 0) {
      return false;
    }
    pending_.append(bytes, 0, static_cast<std::size_t>(count));
    return true;
  }

  std::mutex mutex_;
  int fd_;
  int number_;
  std::unique_ptr<SSL, SslFree> ssl_;
  std::string pending_;
};

class TestServer {
 public:
  struct Options {
    std::optional<KeyPair> tls = std::nullopt;  // nothing: plain TCP
    std::string client_ca_pem = {};             // set: clients must show a certificate
  };
  using Handler = std::function<void(Peer&)>;

  TestServer(Options options, Handler handler)
      : options_(std::move(options)), handler_(std::move(handler)) {
    // As the engine does (os/system/signals.h): OpenSSL writes to a socket whether it is closed or
    // not.
    std::signal(SIGPIPE, SIG_IGN);
    if (options_.tls) {
      use_certificate(*options_.tls);
    }
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    // The socket interface takes every kind of address through one pointer type.
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener_, generic, size) != 0 || listen(listener_, 512) != 0 ||
        getsockname(listener_, generic, &size) != 0) {
      throw std::runtime_error("cannot listen on 127.0.0.1");
    }
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;
  ~TestServer() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    for (Served& served : served_) {
      served.peer->interrupt();
    }
    for (Served& served : served_) {
      served.thread.join();
    }
  }

  // For connections accepted from now on.
  void use_certificate(const KeyPair& pair) {
    std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SslFree());
    const auto bio = [](const std::string& text) {
      return std::unique_ptr<BIO, decltype(&BIO_free)>(
          BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free);
    };
    X509* certificate =
        PEM_read_bio_X509(bio(pair.certificate_pem).get(), nullptr, nullptr, nullptr);
    EVP_PKEY* key = PEM_read_bio_PrivateKey(bio(pair.key_pem).get(), nullptr, nullptr, nullptr);
    SSL_CTX_use_certificate(context.get(), certificate);
    SSL_CTX_use_PrivateKey(context.get(), key);
    X509_free(certificate);
    EVP_PKEY_free(key);
    if (!options_.client_ca_pem.empty()) {
      X509* ca = PEM_read_bio_X509(bio(options_.client_ca_pem).get(), nullptr, nullptr, nullptr);
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), ca);
      X509_free(ca);
      SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
      constexpr unsigned char kSession[] = "test";
      SSL_CTX_set_session_id_context(context.get(), kSession, sizeof kSession - 1);
    }
    const std::lock_guard lock(mutex_);
    context_ = std::move(context);
  }

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string place() const { return "127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] std::string url(const std::string& path = "/") const {
    return (options_.tls ? "https://" : "http://") + place() + path;
  }
  [[nodiscard]] int connections() const { return connections_; }

 private:
  struct Served {
    std::unique_ptr<Peer> peer;
    std::thread thread;
  };

  void accept_all() {
    while (true) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) {
        return;
      }
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      std::shared_ptr<SSL_CTX> context;
      {
        const std::lock_guard lock(mutex_);
        context = context_;
      }
      auto peer = std::make_unique<Peer>(fd, connections_++);
      Peer& served = *peer;
      served_.push_back({std::move(peer), std::thread([this, &served, context] {
                           if (context == nullptr || served.handshake(context.get())) {
                             handler_(served);
                           }
                           served.close();
                         })});
    }
  }

  Options options_;
  Handler handler_;
  std::mutex mutex_;
  std::shared_ptr<SSL_CTX> context_;  // shared: a connection keeps the one it began with
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> connections_ = 0;
  std::list<Served> served_;
  std::thread acceptor_;
};

// Answers every request with "ok" until the client goes away.
inline void answer_ok(Peer& peer) {
  while (peer.read_request() && peer.answer("ok")) {
  }
}

}  // namespace moonfence::test
