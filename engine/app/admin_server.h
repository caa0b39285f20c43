#pragma once

// AdminServer answers GET requests on one address from a thread of its own (libmicrohttpd):
// metrics, health, version. It reads what is thread-safe and changes nothing. It serves before the
// first sync, so that a slow start can be watched.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"

struct MHD_Daemon;

namespace moonfence::app {

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

class AdminServer {
 public:
  // Called on the server's thread. `query` holds the decoded arguments.
  using Handler = std::function<HttpAnswer(const std::map<std::string, std::string>& query)>;
  using Handlers = std::map<std::string, Handler>;  // by path

  // `address` is "host:port" or ":port" (all interfaces), an IPv6 host in brackets. Invalid for
  // anything else, Limit when it cannot be bound; the text names the flag.
  [[nodiscard]] static Result<std::unique_ptr<AdminServer>> start(const std::string& flag,
                                                                  const std::string& address,
                                                                  Handlers handlers);
  ~AdminServer();
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  // The bound port, of interest when the address said 0.
  [[nodiscard]] int port() const;

 private:
  explicit AdminServer(Handlers handlers) : handlers_(std::move(handlers)) {}
  friend struct AdminCallbacks;

  Handlers handlers_;
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace moonfence::app
