#pragma once

// An Endpoint is a service beside the API server that policies may ask: a URL, how we recognise it
// and how we show who we are, all from the engine's own configuration, which no policy reaches. It
// is read: GET below its URL, JSON answers of at most 16 MiB, no redirects. An answer is 2xx
// or 404; whatever else happens is a failure, quotes nothing that the endpoint said, and changes
// nothing. The one that is told something is a machine's, to be switched off
// (fence/act/guarded_call). A service of AWS is asked by POST and answers in XML, which is read as
// if it were JSON; what may be asked of it and told to it is in cluster/endpoints/aws.h.
//
// A login happens once for all requests that wait for it, anew in good time before its token runs
// out, and after a 401, which each request survives once. Files with secrets are read for each
// login, or each request when there is none, so that a rotated secret needs no restart.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/time.h"
#include "cluster/endpoints/aws.h"
#include "cluster/endpoints/endpoint_login.h"
#include "cluster/endpoints/failure_rows.h"
#include "kube/wire/caller.h"
#include "loop/loop.h"
#include "port/files.h"
#include "port/http.h"
#include "port/log.h"

namespace moonfence::cluster {

struct EndpointRules {
  enum class Auth { None, Basic, Bearer, Login, Aws };

  std::string url;  // without a trailing slash
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  Duration timeout = std::chrono::seconds(5);  // of a request, with the login that it waits for
  Auth auth = Auth::None;
  std::string username_file;  // of Basic and Login
  std::string password_file;
  std::string token_file;  // of Bearer
  // How a token is shown, of Bearer and Login.
  std::string token_header = "Authorization";
  std::string token_prefix = "Bearer ";
  LoginRules login;
  AwsRules aws;
  std::vector<port::Header> headers;  // with every request beside a login
};

// By name.
using EndpointTable = std::map<std::string, EndpointRules>;

struct EndpointAnswer {
  int status = 0;
  std::shared_ptr<const nlohmann::json> body;  // null: there is nothing of that name (404)
};

struct EndpointFailure {
  enum class Why {
    Unconfigured,  // there is no endpoint of that name
    Unauthorized,  // we cannot show who we are, or recognise it
    Timeout,
    Unreachable,
    Status,  // neither 2xx nor 404: error.http_status
    NotJson,
    TooLarge,
    Refused,  // it is none that may be asked of this endpoint, and was not sent
  };
  Why why = Why::Unreachable;
  Error error;
  std::string code = {};  // the service's own word for a Status, of AWS: UnauthorizedOperation
  Duration since{};       // the first failure of the same request in a row
};

[[nodiscard]] EndpointFailure unconfigured(const std::string& name);

using EndpointResult = tl::expected<EndpointAnswer, EndpointFailure>;

class Endpoints {
 public:
  static constexpr std::size_t kBodyLimit = 16U << 20U;

  using Done = std::function<void(const EndpointResult&)>;

  struct Surroundings {
    loop::Loop& loop;
    port::Http& http;
    port::Files& files;
    port::Log& log;
    std::string user_agent;
  };

  Endpoints(const Surroundings& surroundings, const EndpointTable& table);
  ~Endpoints();
  Endpoints(const Endpoints&) = delete;
  Endpoints& operator=(const Endpoints&) = delete;

  // `path` begins with "/" and may have a query. `done` is called once, in a later turn, and never
  // after the handle has died; the handle may die in it, and not after the Endpoints. An answer of
  // more than `body_limit` bytes is none.
  [[nodiscard]] kube::CallHandle get(const std::string& name, const std::string& path, Done done,
                                     std::size_t body_limit = kBodyLimit);

  // Sends `body`, JSON, once. A 2xx says that it was accepted, and no more; Unknown: it left, and
  // nobody heard what came of it.
  struct Order {
    std::string path;
    std::string body;
    Duration limit{};                // or the endpoint's own time-out, if that is shorter
    std::function<bool()> may_send;  // see port::HttpRequest
  };
  using Accepted = std::function<void(const Result<void>&)>;
  [[nodiscard]] kube::CallHandle post(const std::string& name, const Order& order,
                                      const Accepted& done);

 private:
  class One;
  loop::Loop& loop_;
  std::map<std::string, std::unique_ptr<One>> all_;
};

}  // namespace moonfence::cluster
