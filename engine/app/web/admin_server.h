#pragma once

// AdminServer answers GET requests on one address from a thread of its own (libmicrohttpd):
// metrics, health, version, the status page. It reads what is thread-safe and changes nothing. It
// serves before the first sync, so that a slow start can be watched.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

struct MHD_Daemon;

namespace moonfence::app {

struct HttpRequest {
  std::string path;
  std::map<std::string, std::string> query;  // decoded
  std::string host = {};                     // as the client named us, with the port
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};
};

class AdminServer {
 public:
  // Called on the server's thread.
  using Handler = std::function<HttpAnswer(const HttpRequest& request)>;
  // By path. "" stands for all that no other names.
  using Handlers = std::map<std::string, Handler>;

  // `address` is "host:port" or ":port" (all interfaces), an IPv6 host in brackets. Invalid for
  // anything else, Limit when it cannot be bound; the text names the flag. `connections`: how many
  // at once; each may hold a whole answer.
  [[nodiscard]] static Result<std::unique_ptr<AdminServer>> start(const std::string& flag,
                                                                  const std::string& address,
                                                                  Handlers handlers,
                                                                  unsigned connections = 64);
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
