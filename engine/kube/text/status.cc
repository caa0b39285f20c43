#include "kube/text/status.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "kube/text/json.h"

namespace moonfence::kube {
namespace {

using nlohmann::json;
using Kind = Error::Kind;

constexpr std::string_view kTooLarge = "ResourceVersionTooLarge";
constexpr std::size_t kBodyExcerpt = 2048;
constexpr std::size_t kMessageLimit = 1024;
// Nothing that a server sends may silence us for longer.
constexpr std::int64_t kLongestRetryAfterS = 300;

struct ReasonRow {
  std::string_view reason;
  Kind kind;
};

constexpr std::array<ReasonRow, 20> kReasons = {{
    {"Unauthorized", Kind::Unauthorized},
    {"Forbidden", Kind::Forbidden},
    {"NotFound", Kind::NotFound},
    {"AlreadyExists", Kind::Conflict},
    {"Conflict", Kind::Conflict},
    {"Gone", Kind::Gone},
    {"Expired", Kind::Gone},
    {"Invalid", Kind::Invalid},
    {"BadRequest", Kind::Invalid},
    {"MethodNotAllowed", Kind::Invalid},
    {"NotAcceptable", Kind::Invalid},
    {"UnsupportedMediaType", Kind::Invalid},
    {"RequestEntityTooLarge", Kind::Invalid},
    {"ServerTimeout", Kind::Retryable},
    {"Timeout", Kind::Retryable},
    {"TooManyRequests", Kind::Retryable},
    {"InternalError", Kind::Retryable},
    {"ServiceUnavailable", Kind::Retryable},
    {"StoreReadError", Kind::Retryable},
    {kTooLarge, Kind::Retryable},
}};

Kind kind_of_code(int code) {
  switch (code) {
    case 401:
      return Kind::Unauthorized;
    case 403:
      return Kind::Forbidden;
    case 409:
      return Kind::Conflict;
    case 410:
      return Kind::Gone;
    case 408:
    case 429:
      return Kind::Retryable;
    default:
      break;
  }
  if (code >= 400 && code < 500) {
    return Kind::Invalid;  // 404 too: without a Status nobody said which object is missing
  }
  return code >= 500 ? Kind::Retryable : Kind::Malformed;
}

Kind kind_of(std::string_view reason, int code) {
  for (const ReasonRow& row : kReasons) {
    if (row.reason == reason) {
      return row.kind;
    }
  }
  return kind_of_code(code);
}

std::optional<Duration> bounded_delay(std::int64_t delay_s) {
  if (delay_s <= 0) {
    return std::nullopt;
  }
  return std::chrono::seconds(std::min(delay_s, kLongestRetryAfterS));
}

std::optional<Duration> retry_after_header(const port::HttpHead& head) {
  const std::string_view text = trimmed(head.find("retry-after"));
  std::int64_t delay_s = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), delay_s);
  if (fault != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;  // the API server sends seconds; a date is somebody else's and vague
  }
  return bounded_delay(delay_s);
}

bool has_too_large_cause(const json* causes) {
  if (causes != nullptr) {
    for (const json& cause : *causes) {
      Fields fields(cause);
      if (fields.string({"reason"}) == kTooLarge) {
        return true;
      }
    }
  }
  return false;
}

std::string_view between(std::string_view text, std::string_view before, std::string_view after) {
  const auto start = text.find(before);
  if (start == std::string_view::npos) {
    return {};
  }
  text.remove_prefix(start + before.size());
  return text.substr(0, text.find(after));
}

// `User "u" cannot delete resource "pods" in API group "" in the namespace "x"`: read for the hint
// alone, nothing is decided by it.
std::string permission_hint(std::string_view message) {
  const std::string_view verb = between(message, "\" cannot ", " resource ");
  const std::string_view resource = between(message, " resource \"", "\"");
  if (verb.empty() || resource.empty() || verb.size() > 32) {
    return "give the daemon's service account the missing permission";
  }
  const std::string_view group = between(message, "in API group \"", "\"");
  return "give the daemon's service account the verb " + escaped(verb, 32) + " on " +
         escaped(resource, 128) + " in API group \"" + escaped(group, 128) + "\"";
}

// Kubernetes' own words, of policies and of webhooks.
bool is_by_policy(std::string_view text) {
  return text.find(" denied request: ") != std::string_view::npos;
}
bool is_by_webhook(std::string_view text) {
  return text.find("admission webhook ") != std::string_view::npos &&
         text.find(" denied the request") != std::string_view::npos;
}

std::string hint_for(Kind kind, int code, std::string_view reason, std::string_view message) {
  if (kind == Kind::Forbidden) {
    return is_by_policy(message)    ? "an admission policy refused it"
           : is_by_webhook(message) ? "an admission webhook refused it"
                                    : permission_hint(message);
  }
  if (kind == Kind::Unauthorized) {
    return "check the token or client certificate and that the server trusts it";
  }
  if (code == 404 && kind != Kind::NotFound) {
    return "the server does not serve this API, or something in front of it answered";
  }
  if (reason == "Invalid") {
    return "the server's validation or an admission policy refused the content";
  }
  return {};
}

std::string code_text(int code) {
  return code == 0 ? "the API server" : "HTTP " + std::to_string(code);
}

}  // namespace

Error error_from_status(const json& status, int http_status) {
  Fields fields(status);
  const std::string message = fields.string({"message"});
  std::string reason = fields.string({"reason"});
  const auto code = static_cast<int>(std::clamp<std::int64_t>(fields.integer({"code"}), 0, 599));
  const int answered = http_status != 0 ? http_status : code;
  const std::string object = fields.string({"details", "name"});
  if (has_too_large_cause(fields.array({"details", "causes"}))) {
    reason = kTooLarge;  // says more than Timeout
  }
  Error error;
  error.kind = kind_of(reason, answered);
  if (error.kind == Kind::NotFound && object.empty()) {
    error.kind = Kind::Invalid;
  }
  error.http_status = answered;
  error.retry_after = bounded_delay(fields.integer({"details", "retryAfterSeconds"}));
  error.text = code_text(answered) + (reason.empty() ? "" : " " + escaped(reason, 64)) +
               (message.empty() ? "" : ": " + escaped(message, kMessageLimit));
  error.hint = hint_for(error.kind, answered, reason, message);
  error.reason = escaped(reason, 64);
  return error;
}

Error error_from_reply(const port::HttpHead& head, std::string_view body) {
  Error error;
  const auto parsed = head.find("content-type").starts_with("application/json")
                          ? parse_json(body)
                          : Result<json>(failure(Kind::Malformed, "not JSON"));
  if (parsed && parsed->is_object() && Fields(*parsed).string({"kind"}) == "Status") {
    error = error_from_status(*parsed, head.status);
  } else {
    error.kind = kind_of_code(head.status);
    error.http_status = head.status;
    const std::string excerpt = escaped(trimmed(body.substr(0, kBodyExcerpt)), kBodyExcerpt);
    error.text = code_text(head.status) + (excerpt.empty() ? "" : ": " + excerpt);
    error.hint = hint_for(error.kind, head.status, {}, {});
  }
  if (const auto delay = retry_after_header(head)) {
    error.retry_after = delay;
  }
  return error;
}

bool is_too_large_version(const Error& error) {
  return error.reason == kTooLarge;
}

bool is_denied_by_admission(const Error& error) {
  return (error.kind == Kind::Forbidden || error.kind == Kind::Invalid ||
          error.kind == Kind::Conflict) &&  // a webhook chooses its code
         (is_by_policy(error.text) || is_by_webhook(error.text));
}

bool is_denied_as(std::string_view word, const Error& error) {
  if (error.kind != Kind::Forbidden && error.kind != Kind::Invalid) {
    return false;
  }
  // The colon is not in quotes: what a user gives a name like that is no word of ours.
  return error.text.find(" " + std::string(word) + ": ") != std::string::npos;
}

}  // namespace moonfence::kube
