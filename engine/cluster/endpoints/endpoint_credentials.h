#pragma once

// Who we are to an endpoint: nobody, a user and password, a token from a file, or a token that a
// login gives. One login at a time; whoever needs its token waits for it. A token is renewed when
// kRenewAt of its life is over, and the old one serves until the new one is there. After a login
// that failed there is a pause, or a wrong password would lock the account; likewise after one
// whose token is refused before it is kYoung, or each request would log in.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
  static constexpr Duration kYoung = std::chrono::minutes(1);

  // All outlive the credentials.
  EndpointCredentials(loop::Loop& loop, port::Http& http, port::Files& files, port::Log& log,
                      std::string name, const EndpointRules& rules, std::string user_agent);
  EndpointCredentials(const EndpointCredentials&) = delete;
  EndpointCredentials& operator=(const EndpointCredentials&) = delete;

  // A caller makes Unauthorized of whatever fails here. `reason` keeps what a login failed for that
  // was not refused; why_of_login() reads it.
  void headers(Ready ready) override;
  bool refused(Moment asked) override;

 private:
  struct Held {
    std::string text;
    Moment since{};
    Moment renew{};
    Moment ends{};
    bool refused = false;  // a 401 was the answer to it, and no other can be had yet
  };
  using Headers = std::vector<port::Header>;

  [[nodiscard]] Result<Headers> headers_from_files() const;
  void log_in();
  void logged_in(Result<Token> token);
  void pause_from(Moment when);
  [[nodiscard]] Error login_fault(std::string_view more) const;
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
  Duration pause_{};  // zero: the last login went well, and its token was taken
  bool refused_young_ = false;
  Moment begun_{};  // the last login
  std::string fault_;
  std::string reason_;  // of the fault, as in headers()
};

// What the login failed for whose error has this reason; Unauthorized when it has none.
[[nodiscard]] EndpointFailure::Why why_of_login(std::string_view reason);

}  // namespace moonfence::cluster
