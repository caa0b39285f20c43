#include "cluster/endpoints/endpoint_login.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "kube/text/base64.h"
#include "kube/text/json.h"
#include "kube/wire/url.h"

namespace moonfence::cluster {
namespace {

using nlohmann::json;

constexpr std::size_t kBodyLimit = 1U << 20U;
constexpr std::size_t kLongestToken = 16U << 10U;
constexpr std::int64_t kLongestLife = 86'400;  // a day

// "session.token" in {"session": {"token": …}}; null when it is not there.
const json* at_path(const json& object, std::string_view path) {
  const json* at = &object;
  if (path == ".") {
    return at;
  }
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
  if (field != nullptr && field->is_string()) {
    return seconds_in(field->get_ref<const std::string&>());
  }
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

// The body with what it stands for: whole texts alone, so that nothing in a secret is anything but
// part of a text.
json filled(const json& body, const LoginCall::Order& order) {
  if (body.is_string()) {
    const auto& text = body.get_ref<const std::string&>();
    return text == LoginRules::kUsername   ? json(order.username)
           : text == LoginRules::kPassword ? json(order.password)
                                           : body;
  }
  json copy = body;
  if (copy.is_structured()) {
    for (json& each : copy) {
      each = filled(each, order);
    }
  }
  return copy;
}

std::string form_of(const json& body) {
  kube::Query pairs;
  for (const auto& [name, value] : body.items()) {
    pairs.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return kube::encoded_query(pairs);
}

void add_body(port::HttpRequest& request, const std::string& type, std::string body) {
  request.headers.push_back({"Content-Type", type});
  request.body = std::move(body);
}

port::HttpRequest request_of(const LoginRules& rules, const LoginCall::Order& order) {
  using Send = LoginRules::Send;
  port::HttpRequest request;
  request.method = rules.send == Send::Nothing ? port::Method::Get : port::Method::Post;
  request.url = order.url;
  request.headers = {{"Accept", "application/json"}, {"User-Agent", order.user_agent}};
  request.headers.insert(request.headers.end(), rules.headers.begin(), rules.headers.end());
  request.timeout = order.timeout;
  const json body = rules.body.is_null() ? json{{rules.username_field, order.username},
                                                {rules.password_field, order.password}}
                                         : filled(rules.body, order);
  switch (rules.send) {
    case Send::Json:
      add_body(request, "application/json", kube::to_text(body));
      break;
    case Send::Form:
      add_body(request, "application/x-www-form-urlencoded", form_of(body));
      break;
    case Send::Basic:
      request.headers.push_back(
          {"Authorization",
           "Basic " + kube::base64_encoded(order.username + ":" + order.password)});
      break;
    case Send::Nothing:
      break;
  }
  return request;
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
  transfer_ = http.start(request_of(rules, order), *this);
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
        "login: " + (end.error ? end.error->text : std::string("closed without an answer")),
        end.error ? end.error->hint : std::string());
  }
  if (head_.status < 200 || head_.status > 299) {
    const bool refused = head_.status == 400 || head_.status == 401 || head_.status == 403;
    return failure(Error{.kind = refused ? Error::Kind::Unauthorized : Error::Kind::Retryable,
                         .text = "login: HTTP " + std::to_string(head_.status),
                         .hint = !refused ? ""
                                 : rules_.send == LoginRules::Send::Nothing
                                     ? "who asks there may have no token"
                                     : "check the user and the password in the endpoint's files",
                         .http_status = head_.status});
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
