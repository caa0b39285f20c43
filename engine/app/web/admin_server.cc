#include "app/web/admin_server.h"

#include <charconv>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>

#include "base/text.h"

namespace moonfence::app {

// The C callbacks of libmicrohttpd; a friend because they are handed the server as void*.
struct AdminCallbacks {
  static MHD_Result add_argument(void* query, MHD_ValueKind /*kind*/, const char* key,
                                 const char* value) {
    auto& arguments = *static_cast<std::map<std::string, std::string>*>(query);
    arguments[key] = value == nullptr ? "" : value;
    return MHD_YES;
  }

  static MHD_Result reply(MHD_Connection* connection, const HttpAnswer& answer) {
    // MHD copies the body; its interface wants it writable.
    std::string body = answer.body;
    MHD_Response* response =
        MHD_create_response_from_buffer(body.size(), body.data(), MHD_RESPMEM_MUST_COPY);
    if (response == nullptr) {
      return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.content_type.c_str());
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    for (const auto& [name, value] : answer.headers) {
      MHD_add_response_header(response, name.c_str(), value.c_str());
    }
    const MHD_Result queued =
        MHD_queue_response(connection, static_cast<unsigned>(answer.status), response);
    MHD_destroy_response(response);
    return queued;
  }

  static MHD_Result access(void* server, MHD_Connection* connection, const char* path,
                           const char* method, const char* /*version*/, const char* /*upload*/,
                           std::size_t* /*upload_size*/, void** /*state*/) {
    const auto& handlers = static_cast<AdminServer*>(server)->handlers_;
    if (std::strcmp(method, "GET") != 0 && std::strcmp(method, "HEAD") != 0) {
      return reply(connection, {.status = 405,
                                .body = "only GET is served here\n",
                                .headers = {{MHD_HTTP_HEADER_ALLOW, "GET, HEAD"}}});
    }
    auto found = handlers.find(path);
    found = found == handlers.end() ? handlers.find("") : found;
    if (found == handlers.end()) {
      return reply(connection, {.status = 404, .body = "not found\n"});
    }
    HttpRequest request = {.path = path, .query = {}};
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, &add_argument, &request.query);
    const char* host =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    request.host = host == nullptr ? "" : host;
    return reply(connection, found->second(request));
  }

  static MHD_Daemon* listen(AdminServer& server, const addrinfo& where, unsigned connections) {
    // By epoll: select() knows no descriptor from 1,024 on, and each machine that is watched has
    // one.
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD;
    if (where.ai_family == AF_INET6) {
      flags |= MHD_USE_DUAL_STACK;
    }
    return MHD_start_daemon(flags, 0, nullptr, nullptr, &access, &server, MHD_OPTION_SOCK_ADDR,
                            where.ai_addr, MHD_OPTION_CONNECTION_LIMIT, connections,
                            MHD_OPTION_CONNECTION_TIMEOUT, 30U, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            std::size_t{32768}, MHD_OPTION_END);
  }
};

namespace {

struct Address {
  std::string host;
  std::string port;
};

Result<Address> parse_address(const std::string& flag, const std::string& address) {
  const auto colon = address.rfind(':');
  const Failure bad =
      failure(Error::Kind::Invalid, flag + ": '" + escaped(address) + "' is no address",
              "write host:port or :port, for example 127.0.0.1:8080; 0 turns it off");
  if (colon == std::string::npos) {
    return bad;
  }
  Address parsed{.host = address.substr(0, colon), .port = address.substr(colon + 1)};
  int number = -1;
  const auto [end, fault] =
      std::from_chars(parsed.port.data(), parsed.port.data() + parsed.port.size(), number);
  if (fault != std::errc() || end != parsed.port.data() + parsed.port.size() || number < 0 ||
      number > 65535) {
    return bad;
  }
  if (parsed.host.starts_with('[') && parsed.host.ends_with(']')) {
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  }
  return parsed;
}

}  // namespace

Result<std::unique_ptr<AdminServer>> AdminServer::start(const std::string& flag,
                                                        const std::string& address,
                                                        Handlers handlers, unsigned connections) {
  const auto parsed = parse_address(flag, address);
  if (!parsed) {
    return failure(parsed.error());
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const char* host = parsed->host.empty() ? nullptr : parsed->host.c_str();
  if (const int code = getaddrinfo(host, parsed->port.c_str(), &hints, &found); code != 0) {
    return failure(Error::Kind::Invalid,
                   flag + ": cannot resolve '" + escaped(parsed->host) + "': " + gai_strerror(code),
                   "write an address of this machine, or :port for all of them");
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(found, &freeaddrinfo);

  std::unique_ptr<AdminServer> server(new AdminServer(std::move(handlers)));
  if (host == nullptr) {
    // The resolver puts 0.0.0.0 first. One IPv6 socket serves both families; where the kernel has
    // no IPv6 there is still the other.
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
      if (each->ai_family == AF_INET6 && server->daemon_ == nullptr) {
        server->daemon_ = AdminCallbacks::listen(*server, *each, connections);
      }
    }
  }
  if (server->daemon_ == nullptr) {
    server->daemon_ = AdminCallbacks::listen(*server, *found, connections);
  }
  if (server->daemon_ == nullptr) {
    return failure(Error::Kind::Limit, flag + ": cannot listen on '" + escaped(address) + "'",
                   "does this machine have the address, and is the port free? 0 turns it off");
  }
  return server;
}

AdminServer::~AdminServer() {
  if (daemon_ != nullptr) {
    MHD_stop_daemon(daemon_);
  }
}

int AdminServer::port() const {
  const MHD_DaemonInfo* info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT);
  return info == nullptr ? 0 : info->port;
}

}  // namespace moonfence::app
