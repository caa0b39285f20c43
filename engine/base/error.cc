#include "base/error.h"

#include <utility>

namespace moonfence {

std::string Error::message() const {
  if (hint.empty()) {
    return text;
  }
  return text + " (" + hint + ")";
}

Error Error::within(std::string_view place) && {
  text = std::string(place) + ": " + text;
  return std::move(*this);
}

std::string_view to_string(Error::Kind kind) {
  switch (kind) {
    case Error::Kind::Retryable:
      return "retryable";
    case Error::Kind::Conflict:
      return "conflict";
    case Error::Kind::Gone:
      return "gone";
    case Error::Kind::NotFound:
      return "not_found";
    case Error::Kind::Forbidden:
      return "forbidden";
    case Error::Kind::Unauthorized:
      return "unauthorized";
    case Error::Kind::Malformed:
      return "malformed";
    case Error::Kind::Invalid:
      return "invalid";
    case Error::Kind::Limit:
      return "limit";
    case Error::Kind::Unknown:
      return "unknown";
    case Error::Kind::Cancelled:
      return "cancelled";
  }
  return "unknown";
}

}  // namespace moonfence
