#pragma once

// Error says what went wrong in a way that tells the caller what to do next (kind) and a human what
// to do next (hint). Every fallible function below app/ returns a Result; exceptions are caught at
// the border of the library that threw them.

#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace moonfence {

struct Error {
  // Named by remedy, not by cause.
  enum class Kind {
    Retryable,     // the same call may succeed later: connection refused, 429, 5xx
    Conflict,      // a precondition did not hold; read again before deciding anything
    Gone,          // the resource version is too old; list again
    NotFound,      // it is not there
    Forbidden,     // we are not allowed to; a human must change permissions
    Unauthorized,  // the server does not know us; credentials must be renewed
    Malformed,     // the other side sent something that cannot be understood
    Invalid,       // what we were given breaks a rule; the giver must change it
    Limit,         // a bound of ours was reached
    Unknown,       // a request left and its reply was lost: it may have happened
    Cancelled,     // we stopped it ourselves
  };

  Kind kind = Kind::Invalid;
  std::string text;       // one line, names the place, the value and the rule
  std::string hint = {};  // one line, the next step for a human; may be empty
  // What the server asked for (Retry-After); nothing before it has passed.
  std::optional<Duration> retry_after = std::nullopt;
  int http_status = 0;  // 0 when no HTTP answer is behind this error
  // The API server's own word (Status.reason), "" when it gave none.
  std::string reason = {};

  // "text (hint)", for logs and terminals.
  [[nodiscard]] std::string message() const;
  // Puts where it happened in front: "kubeconfig a.yaml: user red: no such file".
  [[nodiscard]] Error within(std::string_view place) &&;
};

[[nodiscard]] std::string_view to_string(Error::Kind kind);

}  // namespace moonfence
