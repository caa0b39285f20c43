#include "app/serving/reader_gate.h"

#include <utility>

#include "base/text.h"
#include "kube/text/base64.h"

namespace moonfence::app {
namespace {

// Visible ASCII: what a token can be made of, and a header can carry.
bool is_token(std::string_view text) {
  return !text.empty() && text.size() <= ReaderGate::kLongestToken &&
         text.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
             "-._~+/=:!#$%&'()*,;<>?@[]^`{|}") == std::string_view::npos;
}

HttpAnswer text(int status, std::string body) {
  return {.status = status, .body = std::move(body), .headers = {{"Cache-Control", "no-store"}}};
}

HttpAnswer unauthorized(std::string body) {
  HttpAnswer answer = text(401, std::move(body));
  answer.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"moonfence\"");
  answer.headers.emplace_back("WWW-Authenticate",
                              "Basic realm=\"moonfence: the token is the password\"");
  return answer;
}

HttpAnswer try_later() {
  HttpAnswer answer = text(503,
                           "nobody is let in now: the API server could not be asked about the "
                           "token; moonfence's log says why\n");
  answer.headers.emplace_back("Retry-After", "5");
  return answer;
}

}  // namespace

std::optional<std::string> token_of(const std::string& authorization) {
  const auto space = authorization.find(' ');
  if (space == std::string::npos) {
    return std::nullopt;
  }
  const std::string scheme = lower_cased(authorization.substr(0, space));
  std::string token(trimmed(std::string_view(authorization).substr(space)));
  if (scheme == "basic") {
    // Twice as long as any, with a name before it.
    auto decoded =
        token.size() > 2 * ReaderGate::kLongestToken ? std::nullopt : kube::base64_decoded(token);
    const auto colon = decoded ? decoded->find(':') : std::string::npos;
    if (colon == std::string::npos) {
      return std::nullopt;
    }
    token = decoded->substr(colon + 1);
  } else if (scheme != "bearer") {
    return std::nullopt;
  }
  return is_token(token) ? std::optional(std::move(token)) : std::nullopt;
}

std::optional<HttpAnswer> refusal_for(const ReaderVerdict& verdict, const std::string& path,
                                      const std::string& role) {
  switch (verdict.standing) {
    case ReaderVerdict::Standing::Allowed:
      return std::nullopt;
    case ReaderVerdict::Standing::Stranger:
      return unauthorized("the API server does not know this token\n");
    case ReaderVerdict::Standing::NotAllowed:
      return text(403, "'" + escaped(verdict.user) + "' has no right to get " + path +
                           ": bind ClusterRole " + role + " to it, or give it the rule " +
                           "{nonResourceURLs: [" + path + "], verbs: [get]}\n");
    case ReaderVerdict::Standing::Undecidable:
      return try_later();
  }
  return try_later();
}

std::optional<HttpAnswer> ReaderGate::pass(const HttpRequest& request, const std::string& path,
                                           const std::string& role) {
  auto refusal = judge(request, path, role);
  told_(refusal ? refusal->status : 200);
  return refusal;
}

std::optional<HttpAnswer> ReaderGate::judge(const HttpRequest& request, const std::string& path,
                                            const std::string& role) {
  auto token = token_of(request.authorization);
  if (!token) {
    return unauthorized(
        "this takes a token of the cluster: Authorization: Bearer TOKEN, or the "
        "token as the password\n");
  }
  const auto verdict = mailbox_.ask<ReaderVerdict>(
      [this, token = ReaderToken(std::move(*token)),
       path](const std::function<void(ReaderVerdict)>& done) { reviews_.ask(token, path, done); },
      kLongestWait);
  return refusal_for(verdict.value_or(ReaderVerdict{}), path, role);
}

}  // namespace moonfence::app
