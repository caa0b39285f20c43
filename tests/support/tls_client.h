#pragma once

// A TLS client on the loopback that gives up after ten seconds, and checks no certificate.

#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <string_view>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace moonfence::test {

// Connected, without TLS.
class TcpClient {
 public:
  explicit TcpClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    std::signal(SIGPIPE, SIG_IGN);  // as the engine does (os/system/signals.h)
    const timeval limit = {.tv_sec = 10, .tv_usec = 0};
    (void)setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    // A question that follows the handshake at once would wait for its acknowledgement, 40 ms.
    const int at_once = 1;
    (void)setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  ~TcpClient() { close(socket_); }
  TcpClient(const TcpClient&) = delete;
  TcpClient& operator=(const TcpClient&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] int fd() const { return socket_; }
  bool write(std::string_view bytes) const {
    return send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Until the other side ends it, or nothing comes for ten seconds: see gave_up().
  [[nodiscard]] std::string read_all() {
    std::string all;
    char piece[4096];
    ssize_t count = 0;
    while ((count = recv(socket_, piece, sizeof piece, 0)) > 0) {
      all.append(piece, static_cast<std::size_t>(count));
    }
    gave_up_ = count < 0 && errno == EAGAIN;
    return all;
  }
  // The last read_all() ended by its own limit, and not by the other side.
  [[nodiscard]] bool gave_up() const { return gave_up_; }
  void read_no_longer_than(std::chrono::milliseconds limit) const {
    const timeval most = {.tv_sec = limit.count() / 1000, .tv_usec = limit.count() % 1000 * 1000};
    (void)setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  }
  // An RST instead of a FIN.
  void reset_when_closed() const {
    const linger now{.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }

 private:
  int socket_;
  bool connected_ = false;
  bool gave_up_ = false;
};

class TlsClient {
 public:
  explicit TlsClient(int port, int version = TLS1_3_VERSION, const std::string& alpn = "")
      : tcp_(port), context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free) {
    SSL_CTX_set_min_proto_version(context_.get(), version);
    SSL_CTX_set_max_proto_version(context_.get(), version);
    SSL_CTX_set_security_level(context_.get(), 0);  // else the client itself refuses old versions
    ssl_.reset(SSL_new(context_.get()));
    if (!alpn.empty()) {
      const std::string word = static_cast<char>(alpn.size()) + alpn;
      SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(word.data()),
                          static_cast<unsigned>(word.size()));
    }
    SSL_set_fd(ssl_.get(), tcp_.fd());
    shaken_ = tcp_.connected() && SSL_connect(ssl_.get()) == 1;
    ERR_clear_error();
  }
  ~TlsClient() { ERR_clear_error(); }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  [[nodiscard]] bool shaken() const { return shaken_; }
  [[nodiscard]] const TcpClient& tcp() const { return tcp_; }
  bool write(std::string_view bytes) {
    const int count = SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
    note_end(count);
    return count == static_cast<int>(bytes.size());
  }
  // As many as there are at once, at most 4 KiB; "": the end.
  std::string read() {
    char piece[4096];
    const int count = SSL_read(ssl_.get(), piece, sizeof piece);
    note_end(count);
    return count <= 0 ? std::string() : std::string(piece, static_cast<std::size_t>(count));
  }
  std::string read_all() {
    std::string all;
    for (std::string piece = read(); !piece.empty(); piece = read()) {
      all += piece;
    }
    return all;
  }
  // The last write() or read() ended by our own limit of ten seconds, and not by the other side.
  [[nodiscard]] bool gave_up() const { return gave_up_; }
  // Says that it sends nothing more, and still reads.
  void end_sending() { (void)SSL_shutdown(ssl_.get()); }
  [[nodiscard]] std::string server_name() const {
    const std::unique_ptr<X509, decltype(&X509_free)> shown(SSL_get1_peer_certificate(ssl_.get()),
                                                            &X509_free);
    char name[256] = "";
    if (shown != nullptr) {
      X509_NAME_get_text_by_NID(X509_get_subject_name(shown.get()), NID_commonName, name,
                                sizeof name);
    }
    return name;
  }
  // Of a whole request that ends the connection.
  std::string ask(const std::string& path, const std::string& more_headers = "") {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + more_headers +
                                "Connection: close\r\n\r\n";
    return shaken_ && write(request) ? read_all() : "";
  }

 private:
  void note_end(int count) {
    const int why = SSL_get_error(ssl_.get(), count);
    gave_up_ = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
    ERR_clear_error();
  }

  TcpClient tcp_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  std::unique_ptr<SSL, Free> ssl_;
  bool shaken_ = false;
  bool gave_up_ = false;
};

}  // namespace moonfence::test
