#pragma once

// Whether this replica is the one that acts, asked in front of every destructive call and again
// when its bytes leave.

#include <optional>

#include "base/time.h"

namespace moonfence::fence {

class Leadership {
 public:
  virtual ~Leadership() = default;
  // Before this moment no other replica acts; nullopt: we must not.
  [[nodiscard]] virtual std::optional<Moment> acts_until() const = 0;
};

}  // namespace moonfence::fence
