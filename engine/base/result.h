#pragma once

// Result<T> is either a T or an Error. It is tl::expected (std::expected needs C++23 on GCC 12)
// with
// [[nodiscard]] on the type, so that no outcome can be dropped by accident.

#include <string>
#include <utility>

#include <tl/expected.hpp>

#include "base/error.h"

namespace moonfence {

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

using Failure = tl::unexpected<Error>;

[[nodiscard]] inline Failure failure(Error error) {
  return Failure(std::move(error));
}

[[nodiscard]] inline Failure failure(Error::Kind kind, std::string text, std::string hint = {}) {
  return Failure(Error{.kind = kind, .text = std::move(text), .hint = std::move(hint)});
}

}  // namespace moonfence
