#include "cluster/endpoints/endpoint_login.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "kube/text/json.h"

namespace moonfence::cluster {
namespace {

using nlohmann::json;

constexpr std::size_t kBodyLimit = 1U << 20U;
constexpr std::size_t kLongestToken = 16U << 10U;
constexpr std::int64_t kLongestLife = 86'400;  // a day

// "session.token" in {"session": {"token": …}}; null when it is not there.
const json* at_path(const json& object, std::string_view path) {
  const json* at = &object;
  for (const std::string_view key : split(path, '.')) {
    const auto found = at->is_object() ? at->find(key) : at->end();
    if (!at->is_object() || found == at->end()) {
      return nullptr;
    }
    at = &*found;
  }
  return at;
}

std::optional<std::int64_t> seconds_in(std::string_view text) {
  std::int64_t seconds = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return fault == std::errc() && end == text.data() + text.size() ? std::optional(seconds)
                                                                  : std::nullopt;
}

std::optional<std::int64_t> seconds_of(const LoginRules& rules, const port::HttpHead& head,
                                       const json& body) {
  if (!rules.expires_header.empty()) {
    return seconds_in(trimmed(head.find(lower_cased(rules.expires_header))));
  }
  const json* field = rules.expires_field.empty() ? nullptr : at_path(body, rules.expires_field);
  return field != nullptr && field->is_number_integer() ? std::optional(field->get<std::int64_t>())
                                                        : std::nullopt;
}

bool is_token(std::string_view text) {
  return !text.empty() && text.size() <= kLongestToken &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

// "Bearer xyz" is how an Authorization header carries it.
std::string_view without_scheme(std::string_view text) {
  constexpr std::string_view kScheme = "bearer ";
  return lower_cased(text.substr(0, kScheme.size())) == kScheme
             ? trimmed(text.substr(kScheme.size()))
             : text;
}

}  // namespace

Result<Token> token_of(const LoginRules& rules, const port::HttpHead& head, std::string_view body) {
  json parsed;
  if (!rules.token_field.empty() || !rules.expires_field.empty()) {
    auto read = kube::parse_json(body);
    if (!read) {
      return failure(Error::Kind::Malformed, "login: the answer is no JSON");
    }
    parsed = *std::move(read);
  }
  std::string text;
  if (!rules.token_header.empty()) {
    text = without_scheme(trimmed(head.find(lower_cased(rules.token_header))));
  } else if (const json* field = at_path(parsed, rules.token_field);
             field != nullptr && field->is_string()) {
    text = without_scheme(trimmed(field->get_ref<const std::string&>()));
  }
  if (!is_token(text)) {
    const bool by_header = !rules.token_header.empty();
    return failure(Error::Kind::Malformed,
                   "login: the answer has no token in its " +
                       (by_header ? "header " + rules.token_header : "field " + rules.token_field));
  }
  Token token{.text = std::move(text), .lifetime = rules.lifetime};
  if (const auto seconds = seconds_of(rules, head, parsed); seconds && *seconds > 0) {
    token.lifetime = std::chrono::seconds(std::min(*seconds, kLongestLife));
  }
  return token;
}

LoginCall::LoginCall(port::Http& http, const LoginRules& rules, const Order& order,
                     std::function<void(Result<Token>)> done)
    : rules_(rules), done_(std::move(done)) {
  port::HttpRequest request;
  request.method = port::Method::Post;
  request.url = order.url;
  request.headers = {{"Accept", "application/json"},
                     {"Content-Type", "application/json"},
                     {"User-Agent", order.user_agent}};
  request.body = kube::to_text(
      {{rules.username_field, order.username}, {rules.password_field, order.password}});
  request.timeout = order.timeout;
  transfer_ = http.start(std::move(request), *this);
}

void LoginCall::on_head(const port::HttpHead& head) {
  head_ = head;
}

void LoginCall::on_body(std::string_view bytes) {
  too_large_ = too_large_ || body_.size() + bytes.size() > kBodyLimit;
  if (!too_large_) {
    body_ += bytes;
  }
}

void LoginCall::on_end(const port::HttpEnd& end) {
  finish(read(end));
}

Result<Token> LoginCall::read(const port::HttpEnd& end) const {
  if (head_.status == 0 || end.error) {
    return failure(
        Error::Kind::Retryable,
        "login: " + (end.error ? end.error->text : std::string("closed without an answer")));
  }
  if (head_.status < 200 || head_.status > 299) {
    const bool refused = head_.status == 400 || head_.status == 401 || head_.status == 403;
    return failure(refused ? Error::Kind::Unauthorized : Error::Kind::Retryable,
                   "login: HTTP " + std::to_string(head_.status),
                   refused ? "check the user and the password in the endpoint's files" : "");
  }
  if (too_large_) {
    return failure(Error::Kind::Limit, "login: the answer is larger than 1 MiB");
  }
  return token_of(rules_, head_, body_);
}

void LoginCall::finish(const Result<Token>& token) {
  const auto done = std::move(done_);  // it may destroy this call, and its own captures with it
  done(token);
}

}  // namespace moonfence::cluster
