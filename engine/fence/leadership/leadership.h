#pragma once

// Whether this replica is the one that acts, asked in front of every destructive call and again
// when its bytes leave, and how long what it does may take.

#include <optional>
#include <string>

#include "base/time.h"
#include "fence/leadership/limits.h"

namespace moonfence::fence {

class Leadership {
 public:
  virtual ~Leadership() = default;
  // Before this moment no other replica acts; nullopt: we must not.
  [[nodiscard]] virtual std::optional<Moment> acts_until() const = 0;
  [[nodiscard]] virtual Limits limits() const { return {}; }
  // Why no limit suffices at present, for people; "" when they do.
  [[nodiscard]] virtual std::string slowness() const { return {}; }
};

// Null permits nothing, so that it does not matter.
[[nodiscard]] inline Limits limits_of(const Leadership* leadership) {
  return leadership != nullptr ? leadership->limits() : Limits();
}

}  // namespace moonfence::fence
