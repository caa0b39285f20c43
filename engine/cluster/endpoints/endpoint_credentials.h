#pragma once

// Who we are to an endpoint: nobody, a user and password, a token from a file, or a token that a
// login gives. One login at a time; whoever needs its token waits for it. A token is renewed when
// kRenewAt of its life is over, and the old one serves until the new one is there. After a login
// that failed there is a pause, or a wrong password would lock the account.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "cluster/endpoints/endpoint.h"
#include "cluster/endpoints/endpoint_login.h"
#include "kube/auth/credentials.h"
#include "loop/loop.h"
#include "port/files.h"
#include "port/http.h"
#include "port/log.h"

namespace moonfence::cluster {

class EndpointCredentials final : public kube::Credentials {
 public:
  static constexpr double kRenewAt = 0.8;
  static constexpr Duration kFirstPause = std::chrono::seconds(1);
  static constexpr Duration kLongestPause = std::chrono::seconds(30);

  // All outlive the credentials.
  EndpointCredentials(loop::Loop& loop, port::Http& http, port::Files& files, port::Log& log,
                      std::string name, const EndpointRules& rules, std::string user_agent);
  EndpointCredentials(const EndpointCredentials&) = delete;
  EndpointCredentials& operator=(const EndpointCredentials&) = delete;

  void headers(Ready ready) override;
  bool refused(Moment asked) override;

 private:
  struct Held {
    std::string text;
    Moment since{};
    Moment renew{};
    Moment ends{};
  };
  using Headers = std::vector<port::Header>;

  [[nodiscard]] Result<Headers> headers_from_files() const;
  void log_in();
  void logged_in(Result<Token> token);
  [[nodiscard]] Headers shown(const std::string& token) const;

  loop::Loop& loop_;
  port::Http& http_;
  port::Files& files_;
  port::Log& log_;
  const std::string name_;
  const EndpointRules& rules_;
  const std::string user_agent_;
  std::string shown_;  // the header's value that was handed out last, of Basic and Bearer
  std::optional<Held> token_;
  std::unique_ptr<LoginCall> login_;
  loop::Timer ended_;  // the login that has ended dies in a later turn
  std::vector<Ready> waiting_;
  Moment not_before_{};
  Duration pause_{};  // zero: the last login went well
  std::string fault_;
};

}  // namespace moonfence::cluster
