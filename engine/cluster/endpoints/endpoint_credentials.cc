#include "cluster/endpoints/endpoint_credentials.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cluster/endpoints/secret_file.h"
#include "kube/text/base64.h"

namespace moonfence::cluster {
namespace {

using Why = EndpointFailure::Why;
constexpr std::array<std::pair<std::string_view, Why>, 5> kReasons = {
    {{"login_timeout", Why::Timeout},
     {"login_unreachable", Why::Unreachable},
     {"login_status", Why::Status},
     {"login_not_json", Why::NotJson},
     {"login_too_large", Why::TooLarge}}};

// "": it was refused, or never sent.
std::string reason_of(const Error& error, bool out_of_time) {
  using Kind = Error::Kind;
  const Why why = error.kind == Kind::Malformed   ? Why::NotJson
                  : error.kind == Kind::Limit     ? Why::TooLarge
                  : error.kind != Kind::Retryable ? Why::Unauthorized
                  : error.http_status != 0        ? Why::Status
                  : out_of_time                   ? Why::Timeout
                                                  : Why::Unreachable;
  const auto* found = std::find_if(kReasons.begin(), kReasons.end(),
                                   [why](const auto& each) { return each.second == why; });
  return found == kReasons.end() ? std::string() : std::string(found->first);
}

}  // namespace

EndpointCredentials::EndpointCredentials(loop::Loop& loop, port::Http& http, port::Files& files,
                                         port::Log& log, std::string name,
                                         const EndpointRules& rules, std::string user_agent)
    : loop_(loop),
      http_(http),
      files_(files),
      log_(log),
      name_(std::move(name)),
      rules_(rules),
      user_agent_(std::move(user_agent)) {}

void EndpointCredentials::headers(Ready ready) {
  if (rules_.auth != EndpointRules::Auth::Login) {
    auto headers = headers_from_files();
    if (headers) {
      shown_ = headers->empty() ? std::string() : headers->front().value;
    }
    ready(std::move(headers));
    return;
  }
  const Moment now = loop_.now();
  if (token_ && now >= token_->ends) {
    token_.reset();
  }
  const bool may_log_in = !login_ && now >= not_before_;
  if (token_) {
    const Headers headers = shown(token_->text);
    if (now >= token_->renew && may_log_in) {
      log_in();
    }
    ready(headers);
    return;
  }
  if (!login_ && !may_log_in) {
    ready(failure(login_fault("; not tried again yet")));
    return;
  }
  waiting_.push_back(std::move(ready));
  if (may_log_in) {
    log_in();
  }
}

bool EndpointCredentials::refused(Moment asked) {
  switch (rules_.auth) {
    case EndpointRules::Auth::None:
    case EndpointRules::Auth::Aws:  // signs each request by itself
      return false;
    case EndpointRules::Auth::Basic:
    case EndpointRules::Auth::Bearer: {
      const auto headers = headers_from_files();
      return headers && !headers->empty() && headers->front().value != shown_;
    }
    case EndpointRules::Auth::Login:
      break;
  }
  if (!token_ || token_->since > asked) {
    return true;  // another is here, or a login gives one
  }
  if (loop_.now() - token_->since < kYoung && !token_->refused) {
    token_->refused = true;
    refused_young_ = true;
    pause_from(token_->since);
  }
  if (token_->refused && !login_ && loop_.now() < not_before_) {
    return false;
  }
  token_.reset();
  return true;
}

Result<EndpointCredentials::Headers> EndpointCredentials::headers_from_files() const {
  if (rules_.auth == EndpointRules::Auth::Bearer) {
    auto token = read_secret(files_, rules_.token_file);
    if (!token) {
      return failure(std::move(token.error()));
    }
    return shown(*token);
  }
  if (rules_.auth == EndpointRules::Auth::Basic) {
    auto username = read_secret(files_, rules_.username_file);
    if (!username) {
      return failure(std::move(username.error()));
    }
    auto password = read_secret(files_, rules_.password_file);
    if (!password) {
      return failure(std::move(password.error()));
    }
    return Headers{{"Authorization", "Basic " + kube::base64_encoded(*username + ":" + *password)}};
  }
  return Headers{};
}

void EndpointCredentials::log_in() {
  // A login may need neither.
  const auto read = [this](const std::string& file) {
    return file.empty() ? Result<std::string>() : read_secret(files_, file);
  };
  auto username = read(rules_.username_file);
  auto password = username ? read(rules_.password_file) : username;
  begun_ = loop_.now();
  if (!password) {
    password.error().kind = Error::Kind::Unauthorized;
    logged_in(failure(std::move(password.error())));
    return;
  }
  const std::string& url = rules_.login.url.empty() ? rules_.url : rules_.login.url;
  login_ = std::make_unique<LoginCall>(
      http_, rules_.login,
      LoginCall::Order{.url = url + rules_.login.path,
                       .username = *std::move(username),
                       .password = *std::move(password),
                       .user_agent = user_agent_,
                       .timeout = rules_.timeout},
      [this](Result<Token> token) {
        ended_ = loop_.in_next_turn(
            [dead = std::shared_ptr<LoginCall>(std::move(login_))] { (void)dead; });
        logged_in(std::move(token));
      });
}

void EndpointCredentials::logged_in(Result<Token> token) {
  const Moment now = loop_.now();
  if (token) {
    const auto renew = std::chrono::duration_cast<Duration>(kRenewAt * token->lifetime);
    token_ = Held{.text = std::move(token->text),
                  .since = now,
                  .renew = now + renew,
                  .ends = now + token->lifetime};
    if (!std::exchange(refused_young_, false)) {
      pause_ = Duration::zero();
    }
    if (!fault_.empty()) {
      log_.info("endpoint_login_recovered", {{"endpoint", name_}});
    }
    fault_.clear();
  } else {
    pause_from(now);
    reason_ = reason_of(token.error(), now - begun_ >= rules_.timeout);
    const std::string fault = token.error().message();
    if (fault != fault_) {
      log_.warning("endpoint_login_failed", {{"endpoint", name_}, {"error", fault}});
      fault_ = fault;
    }
  }
  for (const Ready& ready : std::exchange(waiting_, {})) {
    if (token_) {
      ready(shown(token_->text));
    } else {
      ready(failure(login_fault("")));
    }
  }
}

void EndpointCredentials::pause_from(Moment when) {
  pause_ = std::clamp(2 * pause_, Duration(kFirstPause), Duration(kLongestPause));
  not_before_ = std::max(not_before_, when + pause_);
}

Error EndpointCredentials::login_fault(std::string_view more) const {
  if (fault_.empty()) {  // a token that was refused young has ended
    return {.kind = Error::Kind::Unauthorized,
            .text = "login: the token that it gave was refused" + std::string(more)};
  }
  return {.kind = Error::Kind::Unauthorized, .text = fault_ + std::string(more), .reason = reason_};
}

EndpointCredentials::Headers EndpointCredentials::shown(const std::string& token) const {
  return {{rules_.token_header, rules_.token_prefix + token}};
}

EndpointFailure::Why why_of_login(std::string_view reason) {
  const auto* found = std::find_if(kReasons.begin(), kReasons.end(),
                                   [reason](const auto& each) { return each.first == reason; });
  return found == kReasons.end() ? Why::Unauthorized : found->second;
}

}  // namespace moonfence::cluster
