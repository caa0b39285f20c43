#include "app/web/admin_server.h"

#include <charconv>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>

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

  // MHD copies the body; its interface wants it writable.
  static MHD_Result reply(MHD_Connection* connection, HttpAnswer answer) {
    MHD_Response* response = MHD_create_response_from_buffer(answer.body.size(), answer.body.data(),
                                                             MHD_RESPMEM_MUST_COPY);
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
    const auto& gate = static_cast<AdminServer*>(server)->gate_;
    auto& one_at_a_time = static_cast<AdminServer*>(server)->one_at_a_time_;
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
    request.host = header(connection, MHD_HTTP_HEADER_HOST);
    if (gate) {
      request.authorization = header(connection, MHD_HTTP_HEADER_AUTHORIZATION);
      if (auto refusal = gate(request)) {
        return reply(connection, *std::move(refusal));
      }
      request.authorization.clear();
    }
    HttpAnswer answer;
    {
      const std::scoped_lock lock(one_at_a_time);
      answer = found->second(request);
    }
    return reply(connection, std::move(answer));
  }

  static std::string header(MHD_Connection* connection, const char* name) {
    const char* value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
    return value == nullptr ? "" : value;
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

  // Without a listener: the front hands over connections. One that the client has left may still
  // count for a moment.
  static MHD_Daemon* wait_behind_front(AdminServer& server, unsigned connections,
                                       std::size_t stack) {
    return MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                                MHD_USE_POLL | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC,
                            0, nullptr, nullptr, &access, &server, MHD_OPTION_CONNECTION_LIMIT,
                            connections * 2, MHD_OPTION_CONNECTION_TIMEOUT, 30U,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, std::size_t{65536},
                            MHD_OPTION_THREAD_STACK_SIZE, stack, MHD_OPTION_END);
  }

  static bool take(MHD_Daemon* daemon, os::Descriptor socket) {
    sockaddr_un nobody{};
    nobody.sun_family = AF_UNIX;
    // It closes what it does not take.
    return MHD_add_connection(daemon, socket.release(), reinterpret_cast<const sockaddr*>(&nobody),
                              sizeof nobody) == MHD_YES;
  }
};

namespace {

// Of a connection's thread; the status page is written on it.
constexpr std::size_t kStack = std::size_t{512} << 10U;
constexpr int kQueue = 128;  // connections that the kernel holds for us

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
                                                        Handlers handlers, unsigned connections,
                                                        Security security) {
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

  std::unique_ptr<AdminServer> server(
      new AdminServer(std::move(handlers), std::move(security.gate)));
  const auto listens = [&](const addrinfo& where) {
    return security.identity == nullptr ? server->listen(where, connections)
                                        : server->listen(where, connections, security.identity);
  };
  bool listening = false;
  if (host == nullptr) {
    // The resolver puts 0.0.0.0 first. One IPv6 socket serves both families; where the kernel has
    // no IPv6 there is still the other.
    for (const addrinfo* each = found; each != nullptr && !listening; each = each->ai_next) {
      listening = each->ai_family == AF_INET6 && listens(*each);
    }
  }
  if (!listening && !listens(*found)) {
    if (server->broken_) {
      return failure(std::move(*server->broken_).within(flag));
    }
    return failure(Error::Kind::Limit, flag + ": cannot listen on '" + escaped(address) + "'",
                   "does this machine have the address, and is the port free? 0 turns it off");
  }
  return server;
}

bool AdminServer::listen(const addrinfo& where, unsigned connections) {
  daemon_ = AdminCallbacks::listen(*this, where, connections);
  return daemon_ != nullptr;
}

bool AdminServer::listen(const addrinfo& where, unsigned connections,
                         const std::shared_ptr<const os::TlsIdentity>& identity) {
  os::Descriptor listener(
      socket(where.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  const int yes = 1;
  const int no = 0;
  (void)setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (where.ai_family == AF_INET6) {
    (void)setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (!listener.open() || bind(listener.get(), where.ai_addr, where.ai_addrlen) != 0 ||
      ::listen(listener.get(), kQueue) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return false;
  }
  // Both families have the port in the same place.
  secure_port_ = ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
  daemon_ = AdminCallbacks::wait_behind_front(*this, connections, kStack);
  if (daemon_ == nullptr) {
    broken_ = Error{.kind = Error::Kind::Limit, .text = "the HTTP server cannot be started"};
    return false;
  }
  auto front = os::TlsFront::start(std::move(listener), identity,
                                   [daemon = daemon_](os::Descriptor socket) {
                                     return AdminCallbacks::take(daemon, std::move(socket));
                                   },
                                   {.connections = connections});
  if (!front) {
    MHD_stop_daemon(std::exchange(daemon_, nullptr));
    broken_ = std::move(front.error());
    return false;
  }
  front_ = std::move(*front);
  return true;
}

void AdminServer::use(std::shared_ptr<const os::TlsIdentity> identity) {
  if (front_ != nullptr) {
    front_->use(std::move(identity));
  }
}

AdminServer::~AdminServer() {
  front_.reset();  // hands over nothing more
  if (daemon_ != nullptr) {
    MHD_stop_daemon(daemon_);
  }
}

int AdminServer::port() const {
  if (front_ != nullptr) {
    return secure_port_;
  }
  const MHD_DaemonInfo* info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT);
  return info == nullptr ? 0 : info->port;
}

}  // namespace moonfence::app
