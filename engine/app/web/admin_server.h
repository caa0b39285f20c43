#pragma once

// AdminServer answers GET requests on one address from a thread of its own (libmicrohttpd):
// metrics, health, version, the status page. It reads what is thread-safe and changes nothing. It
// serves before the first sync, so that a slow start can be watched.
//
// With Security it serves HTTPS alone, and asks a gate about each request first. The gate may have
// to ask the API server, so each connection has a thread then, which may wait.

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "os/net/tls_front.h"
#include "os/net/tls_identity.h"

struct MHD_Daemon;
struct addrinfo;

namespace moonfence::app {

struct HttpRequest {
  std::string path;
  std::map<std::string, std::string> query;  // decoded
  std::string host = {};                     // as the client named us, with the port
  std::string authorization = {};            // a secret, as the client sent it
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};
};

class AdminServer {
 public:
  // Called on a thread of the server's, one at a time.
  using Handler = std::function<HttpAnswer(const HttpRequest& request)>;
  // By path. "" stands for all that no other names.
  using Handlers = std::map<std::string, Handler>;

  // Whether the client may read what it asks for: nothing, or the refusal. Called on a thread of
  // the connection, and may wait.
  using Gate = std::function<std::optional<HttpAnswer>(const HttpRequest& request)>;
  struct Security {
    std::shared_ptr<const os::TlsIdentity> identity;
    Gate gate;
  };

  // `address` is "host:port" or ":port" (all interfaces), an IPv6 host in brackets. Invalid for
  // anything else, Limit when it cannot be bound; the text names the flag. `connections`: how many
  // at once; each may hold a whole answer. No identity in `security`: HTTP, for whoever asks.
  [[nodiscard]] static Result<std::unique_ptr<AdminServer>> start(const std::string& flag,
                                                                  const std::string& address,
                                                                  Handlers handlers,
                                                                  unsigned connections = 64,
                                                                  Security security = {});
  ~AdminServer();
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  // The bound port, of interest when the address said 0.
  [[nodiscard]] int port() const;
  // Of a server with Security, for the connections from now on. From any thread.
  void use(std::shared_ptr<const os::TlsIdentity> identity);

 private:
  AdminServer(Handlers handlers, Gate gate)
      : handlers_(std::move(handlers)), gate_(std::move(gate)) {}
  friend struct AdminCallbacks;
  [[nodiscard]] bool listen(const addrinfo& where, unsigned connections);
  [[nodiscard]] bool listen(const addrinfo& where, unsigned connections,
                            const std::shared_ptr<const os::TlsIdentity>& identity);

  const Handlers handlers_;
  const Gate gate_;
  std::mutex one_at_a_time_;  // with Security there are several threads
  MHD_Daemon* daemon_ = nullptr;
  int secure_port_ = 0;
  std::optional<Error> broken_;          // why it does not serve although the address is free
  std::unique_ptr<os::TlsFront> front_;  // hands connections to daemon_
};

}  // namespace moonfence::app
