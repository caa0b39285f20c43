#pragma once

// Leadership as a test decides it.

#include <optional>

#include "fence/leadership.h"

namespace moonfence::test {

struct FakeLeadership final : fence::Leadership {
  [[nodiscard]] std::optional<Moment> acts_until() const override { return until; }
  std::optional<Moment> until = Moment::max();
};

}  // namespace moonfence::test
