#include "cluster/endpoints/endpoint_credentials.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "kube/text/base64.h"

namespace moonfence::cluster {
namespace {

constexpr std::size_t kSecretLimit = 64U << 10U;

// What a mounted secret holds, without the line break that editors add.
Result<std::string> read_secret(port::Files& files, const std::string& path) {
  auto text = files.read(path, kSecretLimit);
  if (!text) {
    return text;
  }
  while (text->ends_with('\n') || text->ends_with('\r')) {
    text->pop_back();
  }
  const bool fits = std::none_of(text->begin(), text->end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == 0x7F;
  });
  if (text->empty() || !fits) {
    return failure(Error::Kind::Invalid,
                   escaped(path) + (text->empty() ? " is empty" : " holds a control character"));
  }
  return text;
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
    ready(failure(Error::Kind::Unauthorized, fault_ + "; not tried again yet"));
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
      return false;
    case EndpointRules::Auth::Basic:
    case EndpointRules::Auth::Bearer: {
      const auto headers = headers_from_files();
      return headers && !headers->empty() && headers->front().value != shown_;
    }
    case EndpointRules::Auth::Login:
      break;
  }
  if (token_ && token_->since <= asked) {
    token_.reset();
  }
  return true;  // another is here, or a login gives one
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
  if (!password) {
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
    pause_ = Duration::zero();
    if (!fault_.empty()) {
      log_.info("endpoint_login_recovered", {{"endpoint", name_}});
    }
    fault_.clear();
  } else {
    pause_ = std::clamp(2 * pause_, Duration(kFirstPause), Duration(kLongestPause));
    not_before_ = now + pause_;
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
      ready(failure(Error::Kind::Unauthorized, fault_));
    }
  }
}

EndpointCredentials::Headers EndpointCredentials::shown(const std::string& token) const {
  return {{rules_.token_header, rules_.token_prefix + token}};
}

}  // namespace moonfence::cluster
